#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "commands/page/svg.h"
#include "commands/report/html.h"
#include "commands/report/mistakes.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

RunFiles run_on_gpus() {
  RunFiles run;
  run.name = "fake";
  run.folder = "nowhere";
  run.devices["gpu0_utilization"] = {{10, 0.5}, {20, 0.9}};
  run.devices["gpu10_utilization"] = {{10, 0.25}, {20, 0.25}};
  run.devices["gpu0_memory_bytes"] = {{10, 3.0 * (1 << 30)}, {20, 4.0 * (1 << 30)}};
  run.devices["gpu0_energy_joules"] = {{10, 100}, {20, 150}};
  return run;
}

std::string page_of(const RunFiles& run, const Mistakes& mistakes = {}) {
  return run_report(run, mistakes);
}

using test::contains;

}  // namespace

TEST_CASE("run report: the utilisation and memory of every GPU, as charts and as a table") {
  const std::string page = page_of(run_on_gpus());
  CHECK(contains(page, "<svg class=\"chart\" id=\"device-utilization\""));
  CHECK(contains(page, "GPU utilisation (%)"));
  CHECK(contains(page, "GPU memory in use (GiB)"));
  CHECK_FALSE(contains(page, "device-power-watts"));
  CHECK(contains(
      page,
      "<tr><th scope=\"row\">gpu0</th><td class=\"n\">70 (90)</td><td class=\"n\">3.50 "
      "(4.00)</td><td class=\"n\">-</td><td class=\"n\">-</td><td class=\"n\">250</td></tr>"));
  CHECK(contains(
      page, "<tr><th scope=\"row\">gpu10</th><td class=\"n\">25 (25)</td><td class=\"n\">-</td>"));
  CHECK(page.find(">gpu0</th>") < page.find(">gpu10</th>"));
  CHECK_FALSE(contains(page_of({}), "GPU utilisation"));
}

TEST_CASE("run report: several labels, their metrics and the counts of each") {
  RunFiles run;
  run.classes = {"edema", "mass & co"};
  run.finished.emplace();
  SplitResult& result = run.finished->splits[Split::kValidation];
  result.accuracy = std::nan("");
  result.multi_label.samples = 10;
  result.multi_label.exact = 6;
  result.multi_label.labels.resize(2);
  result.multi_label.labels[0] = {4, 5, 3, 1, 0.875, 0.75};
  result.multi_label.labels[1] = {0, 10, 0, 2};
  const std::string page = page_of(run);
  CHECK(contains(page, "Labels (validation, the last checkpoint, step 0)"));
  CHECK(contains(page, "subset accuracy 60.00 % (6 of 10), F1 macro 0.3750"));
  CHECK(contains(page,
                 "<th scope=\"row\">edema</th><td class=\"n\">0.8750</td><td class=\"n\">0.7500"));
  CHECK(contains(page, "<th scope=\"row\">mass &amp; co</th><td class=\"n\">-</td>"));
  CHECK(contains(page,
                 "<th scope=\"row\">edema</th><td class=\"n\">3</td><td class=\"n\">1</td><td "
                 "class=\"n\">1</td><td class=\"n\">4</td>"));
  CHECK_FALSE(contains(page, "id=\"confusion\""));
}

TEST_CASE("run report: confusion matrix, counts of every cell and scores of every class") {
  RunFiles run;
  run.classes = {"cat"};  // fewer names than classes
  run.finished.emplace();
  SplitResult& result = run.finished->splits[Split::kTest];
  result.classes = {{7, 6, 5}, {4, 5, 3}};
  result.confusions = {{0, 1, 2}, {1, 0, 1}};
  run.finished->steps = 60;
  MetricsRow earlier, of_end;
  earlier.split = of_end.split = Split::kTest;
  earlier.step = 30;
  earlier.auc = 0.5;
  of_end.step = 60;
  of_end.auc = 0.875;
  run.metrics = {earlier, of_end};
  const std::string page = page_of(run);
  CHECK(contains(page, "balanced accuracy 73.21 %; AUC 0.8750"));
  for (const char* cell : {">5 <small>71 %</small></td>", ">2 <small>29 %</small></td></tr>",
                           ">1 <small>25 %</small></td>", ">3 <small>75 %</small></td></tr>"}) {
    CHECK(contains(page, cell));
  }
  // 2 * 5 / 13 and 2 * 3 / 9; recalls 5 / 7 and 3 / 4
  CHECK(contains(page, "F1 macro 0.7179, weighted 0.7319; balanced accuracy 73.21 %"));
  CHECK(contains(page,
                 "<tr><th scope=\"row\">cat</th><td class=\"n\">0.8333</td><td "
                 "class=\"n\">0.7143</td><td class=\"n\">0.7692</td><td "
                 "class=\"n\">7</td></tr>"));
  CHECK(contains(page, "<tr><th scope=\"row\">1</th><td class=\"n\">0.6000</td>"));
}

TEST_CASE("run report: a headline in plain words for the checkpoint that was evaluated") {
  RunFiles run;
  run.classes = {"cat", "dog", "cow"};
  run.splits = {{Split::kTrain, 3454, {}}, {Split::kValidation, 863, {}}};
  run.finished.emplace();
  run.finished->steps = 60;
  SplitResult& last = run.finished->splits[Split::kValidation];
  last.count = 863;
  last.correct = 500;
  last.accuracy = 500.0 / 863;
  Mistakes mistakes;
  mistakes.split = "validation";
  CHECK(
      contains(page_of(run, mistakes),
               "<b>58 % right (500 of 863 validation samples), 3 classes, 3,454 training samples; "
               "with the last checkpoint, step 60</b>"));
  mistakes.checkpoint = CheckpointChoice::kBest;
  mistakes.step = 33;
  mistakes.result = last;
  mistakes.result->correct = 589;
  mistakes.result->accuracy = 589.0 / 863;
  mistakes.result->classes = {{4, 5, 3}, {4, 3, 3}};
  CHECK_FALSE(contains(page_of(run, mistakes), "; AUC "));
  mistakes.auc = 0.8125;
  CHECK(contains(page_of(run, mistakes), "; AUC 0.8125</p>"));
  CHECK(
      contains(page_of(run, mistakes),
               "<b>68 % right (589 of 863 validation samples), 3 classes, 3,454 training samples; "
               "with the best checkpoint, step 33</b>"));
  run.config = {{"data.format", "image_folder"}};
  CHECK(contains(page_of(run, mistakes),
                 "(589 of 863 validation images), 3 classes, 3,454 training images; "));
  run.config = {{"data.format", "npz"}};
  CHECK(contains(page_of(run, mistakes), "3,454 training samples; "));
}

TEST_CASE("run report: charts over epochs, with the best checkpoint marked") {
  RunFiles run;
  run.steps_per_epoch = 4;
  MetricsRow row;
  row.split = Split::kValidation;
  row.learning_rate = row.images_per_second = NAN;
  for (const std::int64_t step : {4, 8, 12}) {
    row.step = step;
    row.loss = row.accuracy = 0.5;
    run.metrics.push_back(row);
  }
  run.best = BestCheckpoint{"validation/accuracy", 0.5, 2, 8};
  const std::vector<Chart> charts = run_charts(run);
  REQUIRE(charts.size() == 2);
  for (const Chart& chart : charts) {
    CHECK(chart.x_label == "epoch");
    CHECK(chart.series.front().points == decltype(Series::points){{1, 0.5}, {2, 0.5}, {3, 0.5}});
    REQUIRE(chart.mark);
    CHECK(chart.mark->x == 2);
    CHECK(contains(line_chart(chart), ">best validation/accuracy 0.5000</text>"));
  }
  // A best step that the rows do not reach is not drawn.
  Chart other = charts.front();
  other.mark->x = 9;
  CHECK_FALSE(contains(line_chart(other), "class=\"mark\""));
}

TEST_CASE("run report: a run without rows of metrics, curves of its steps") {
  RunFiles run;
  MetricsRow row;
  row.split = Split::kTrain;
  row.step = 3;
  row.loss = 2;
  row.learning_rate = 0.5;
  row.images_per_second = 80;
  run.metrics.push_back(row);
  for (std::int64_t step = 1; step <= 3; ++step) {
    run.ledger.push_back({step, 32, concat(step, ".5"), "0.5", "", "", 0.25, 0});
  }
  const auto points = [&](const char* id) {
    for (const Chart& chart : run_charts(run)) {
      if (chart.id == id) return chart.series.front().points;
    }
    return decltype(Series::points){};
  };
  using Points = decltype(Series::points);
  CHECK(points("loss") == Points{{1, 1.5}, {2, 2.5}, {3, 3.5}});
  CHECK(points("throughput") == Points{{1, 128}, {2, 128}, {3, 128}});
  CHECK(points("accuracy") == Points{{3, 0}});
  run.metrics.insert(run.metrics.end(), 4, row);
  CHECK(points("loss").front() == std::pair<double, double>(3, 2));
}

TEST_CASE("sweep report: the ideal time is computed from the samples of the row") {
  Summary summary;
  summary.keys = {"parallel.gpus"};
  summary.short_names = {"gpus"};
  for (const std::int64_t replicas : {1, 2}) {
    SummaryRow row;
    row.values = {{"parallel.gpus", std::to_string(replicas)}};
    row.runs = 1;
    row.replicas = replicas;
    row.images_per_second = replicas == 1 ? 100 : 150;
    row.total_seconds = replicas == 1 ? 10 : 8;
    row.samples = replicas == 1 ? 1000 : 1200;
    row.loss = NAN;
    summary.rows.push_back(row);
  }
  const std::vector<Chart> charts = sweep_charts(summary);
  REQUIRE(charts.size() == 2);
  using Points = decltype(Series::points);
  REQUIRE(charts[1].series.size() == 2);
  CHECK(charts[0].series[1].points == Points{{1, 100}, {2, 200}});
  CHECK(charts[1].series[0].points == Points{{1, 10}, {2, 8}});
  CHECK(charts[1].series[1].points == Points{{1, 10}, {2, 6}});  // 1200 images
  CHECK(charts[1].series[1].is_reference);
}

TEST_CASE("run report: samples that were not evaluated for lack of time or data, a sentence") {
  Mistakes mistakes;
  mistakes.split = "test";
  mistakes.samples = 10000;
  mistakes.looked_at = 2500;
  mistakes.wrong = 3;
  CHECK(contains(page_of({}, mistakes), "3 of 2,500 samples (of 10,000; time ran out)"));
  mistakes.reason = "datasets/mnist: not <found>";
  CHECK(contains(page_of({}, mistakes), "No pictures: datasets/mnist: not &lt;found&gt;"));
}

TEST_CASE("run report: the splits with their smallest and largest class") {
  RunFiles run;
  run.folder = "nowhere";
  run.classes = {"cat", "dog & co"};
  run.splits = {
      {Split::kTrain, 1500, {1000, 500}}, {Split::kTest, 7, {7, 0}}, {Split::kValidation, 3, {}}};
  const std::string page = page_of(run);
  CHECK(
      contains(page,
               "<th scope=\"row\">train</th><td class=\"n\">1,500</td><td class=\"n\">500</td><td "
               "class=\"n\">1,000</td><td class=\"n\">0</td>"));
  CHECK(contains(page,
                 "<th scope=\"row\">test</th><td class=\"n\">7</td><td class=\"n\">0</td><td "
                 "class=\"n\">7</td><td class=\"n\">1</td>"));
  CHECK(contains(page,
                 "<th scope=\"row\">validation</th><td class=\"n\">3</td><td class=\"n\">-</td>"));
  CHECK(contains(page, "<th scope=\"row\">dog &amp; co</th><td class=\"n\">500</td>"));
}

TEST_CASE(
    "line chart: bands widen the axis, notable values that would cover another are left out") {
  Chart chart;
  chart.series = {{"rate", {{0, 1}, {9, 2}}}};
  chart.bands = {{0, 5, "rise & fall"}, {5, 10, "rest"}};
  chart.notable = {{0, 1}, {0.1, 1.001}, {9, 2}};
  const std::string svg = line_chart(chart);
  CHECK(contains(svg, ">rise &amp; fall</text>"));
  CHECK(contains(svg, "<rect class=\"band\" x=\"86.00\" y=\"64.00\" width=\"228.00\""));
  CHECK(contains(svg, "<rect class=\"band\" x=\"314.00\" y=\"64.00\" width=\"228.00\""));
  CHECK(contains(svg, "<circle class=\"notable\" cx=\"86.00\""));
  CHECK(contains(svg, "<circle class=\"notable\" cx=\"496.40\""));
  CHECK_FALSE(contains(svg, ">1.001</text>"));
}

TEST_CASE("line chart: a notable value above the curve, inside the frame") {
  Chart chart;
  chart.series = {{"rate", {{0, 1}, {10, 2}}}};
  chart.notable = {{5, 4}};
  CHECK(contains(line_chart(chart), "<circle class=\"notable\" cx=\"314.00\" cy=\"64.00\""));
}

TEST_CASE("svg_document: colours, declares both colour schemes") {
  CHECK(contains(svg_document({}), "svg.chart{color-scheme:light dark;"));
}

TEST_CASE("line chart: values that differ by one rounding, a few ticks") {
  Chart chart;
  chart.id = "loss";
  chart.series.push_back({"loss", {{0, 1e17}, {1, 1e17 + 16}}});
  const std::string svg = line_chart(chart);
  std::size_t ticks = 0;
  for (std::size_t at = 0; (at = svg.find("tick y-tick", at)) != std::string::npos; ++at) ++ticks;
  CHECK(ticks > 2);
  CHECK(ticks < 50);
}

TEST_CASE("encode_picture: small images are PNG, larger ones JPEG with a limited size") {
  const auto picture = [](std::int64_t height, std::int64_t width, std::int64_t channels) {
    const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * channels), 7);
    return encode_picture(pixels, {height, width, channels});
  };
  CHECK(picture(28, 28, 1).url.starts_with("data:image/png;base64,iVBORw0KGgo"));
  CHECK(picture(64, 64, 3).url.starts_with("data:image/png;base64,"));
  CHECK(picture(65, 64, 3).url.starts_with("data:image/jpeg;base64,/9j/"));
  CHECK(picture(512, 300, 3).height == 256);
  CHECK(picture(512, 300, 3).width == 150);
  CHECK(picture(513, 300, 3).height == 171);
  CHECK(picture(2, 1000, 3).height == 1);  // no side vanishes
  CHECK(picture(28, 28, 5).width == 28);
  for (const std::int64_t width : {1, 2, 3}) {
    const std::string url = picture(1, width, 1).url;
    CHECK((url.size() - std::string("data:image/png;base64,").size()) % 4 == 0);
  }
}

TEST_CASE("run report: the data report, UTF-8 unchanged and markup escaped") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "data_report.txt",
                    "train: d\xc3\xb6g.png: <damaged>\ntrain: \xe4\xbd\xa0.png: empty\n");
  RunFiles run;
  run.folder = folder.path();
  CHECK(contains(page_of(run),
                 "train: d\xc3\xb6g.png: &lt;damaged&gt;\ntrain: \xe4\xbd\xa0.png: empty\n</pre>"));
}

TEST_CASE("run report: mistakes of mean_squared_error, outputs instead of percentages") {
  Mistakes mistakes;
  mistakes.split = "test";
  mistakes.samples = mistakes.looked_at = 9;
  mistakes.wrong = 1;
  mistakes.groups = {{"cat", "dog", 1, {{"number 3", "cat", "dog", -0.5, 5.123, {}}}, {}}};
  CHECK(contains(page_of({}, mistakes), "<b>cat</b> (-50.00 %)"));
  mistakes.has_probabilities = false;
  const std::string page = page_of({}, mistakes);
  CHECK(contains(page, "<b>cat</b> (output -0.5000)"));
  CHECK(contains(page, "<b>dog</b> (output 5.1230)"));
  CHECK(contains(page, "got the least output."));
}

TEST_CASE(
    "run report: mistakes grouped by true and predicted class, with names, and right answers") {
  Mistakes mistakes;
  mistakes.split = "validation";
  mistakes.samples = mistakes.looked_at = 60;
  mistakes.wrong = 9;
  mistakes.all_groups = 3;
  const Picture picture{8, 4, "data:image/png;base64,AAAA"};
  MistakeGroup large{"tulip", "rose", 7, {}, {"c.jpg", "d<e>.jpg"}};
  large.shown = {{"photos/tulip/a.jpg", "tulip", "rose", 0.01, 0.9, picture, picture},
                 {"photos/tulip/b.jpg", "tulip", "rose", 0.02, 0.8, picture, picture}};
  MistakeGroup small{"rose", "daisy", 1, {}, {}};
  small.shown = {{"photos/rose/f.jpg", "rose", "daisy", 0.3, 0.6, picture, picture}};
  mistakes.groups = {large, small};
  mistakes.right = {{"photos/daisy/g.jpg", "daisy", "daisy", 0.7, 0.7, picture, picture}};
  const std::string page = page_of({}, mistakes);
  CHECK(contains(page, "<h2>Mistakes (validation)</h2>"));
  CHECK(contains(page,
                 "9 of 60 samples are wrong with the last checkpoint. Grouped by true and "
                 "predicted class, the largest group first (2 of 3 groups); of each group "
                 "those whose own class got the least probability."));
  const std::size_t first = page.find("<h3>tulip, taken for rose (7)</h3>");
  const std::size_t second = page.find("<h3>rose, taken for daisy (1)</h3>");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(first < page.find("title=\"photos/tulip/a.jpg\">a.jpg</small>"));
  CHECK(page.find("title=\"photos/tulip/b.jpg\">b.jpg</small>") < second);
  CHECK(second < page.find("title=\"photos/rose/f.jpg\">f.jpg</small>"));
  CHECK(contains(page,
                 "<summary>Names of 2 more</summary>\n<p class=\"names\">c.jpg, "
                 "d&lt;e&gt;.jpg</p>"));
  CHECK(contains(page, "<b>tulip</b> (1.00 %)<br/>taken for <b>rose</b> (90.00 %)<br/>"));
  // A picture of 8 x 4 pixels is enlarged 14 times.
  CHECK(contains(page,
                 "width=\"112\" height=\"56\" class=\"pixels\" alt=\"Sample "
                 "photos/tulip/a.jpg: tulip taken for rose\"/>"));
  const std::size_t right = page.find("<h2>Right answers (validation)</h2>");
  REQUIRE(right != std::string::npos);
  CHECK(contains(page, "<p>1 of 51: the first of each class"));
  CHECK(right < page.find("<b>daisy</b> (70.00 %)<br/><small title=\"photos/daisy/g.jpg\""));
}

TEST_CASE("run report: the command, the model, the date and the time of the run") {
  RunFiles run;
  run.command = "trainer train x.yaml";
  run.model = "vgg16, 22 layers, 5 parameters, of which 1 are trained";
  run.started = "2026-11-27T00:06:12Z";
  run.wall_seconds = 3725;
  const std::string page = page_of(run);
  CHECK(contains(page, "<th scope=\"row\">started</th><td>2026-11-27T00:06:12Z</td>"));
  CHECK(contains(page, "<th scope=\"row\">wall time</th><td>1:02:05</td>"));
  run.wall_seconds = 59.5;
  CHECK(contains(page_of(run), "<th scope=\"row\">wall time</th><td>59.50 s</td>"));
  CHECK(contains(page, "trainer train x.yaml"));
  CHECK(contains(page, run.model));
}

TEST_CASE("run report: cached features, the throughput with them and while they were computed") {
  RunFiles run;
  run.finished.emplace();
  run.finished->cached_features_rate = 30441;
  CHECK(contains(page_of(run), "30441.0 with cached features"));
  CHECK_FALSE(contains(page_of(run), "were computed"));
  run.finished->computing_features_rate = 90.9;
  CHECK(contains(page_of(run), "90.9 while features were computed, 30441.0 with cached features"));
}

TEST_CASE("run report: the warnings and notes about the data") {
  RunFiles run;
  run.folder = "nowhere";
  run.data_notices = {Notice("the training data has no sample of: <cow>"),
                      Notice::note("data.range: auto is 0 to 4095")};
  const std::string page = page_of(run);
  CHECK(contains(page,
                 "<h2>Data</h2>\n<ul class=\"notices\">\n<li><b>Warning</b>: the training "
                 "data has no sample of: &lt;cow&gt;</li>\n<li><b>Note</b>: data.range: auto "
                 "is 0 to 4095</li>"));
  CHECK_FALSE(contains(page_of({}), "<ul class=\"notices\">"));
}

TEST_CASE("line chart: a legend of long names, several lines with the plot below them") {
  Chart chart;
  chart.id = "curves";
  const auto top_of_plot = [&] {
    const std::string svg = line_chart(chart);
    CHECK_FALSE(contains(svg, ">...</text>"));
    const std::string box = " 560 ";
    const std::size_t at = svg.find("viewBox=\"0 0 560 ") + 17;
    return std::stod(svg.substr(at));
  };
  for (int i = 0; i < 6; ++i) {
    chart.series.push_back({concat("learning_rate=0.001 seed=", i), {{0, 1}, {1, 2}}});
  }
  // Two names of 25 letters fit into a line.
  CHECK(top_of_plot() == 340 + 2 * 18);
  chart.series.resize(2);
  CHECK(top_of_plot() == 340);
  for (int i = 0; i < 40; ++i) chart.series.push_back(chart.series.front());
  CHECK(contains(line_chart(chart), ">...</text>"));
}

TEST_CASE("sweep curves: those of validation, or else of the split that was scored") {
  Summary summary;
  const auto add = [&](const char* name, std::vector<Split> splits) {
    PointState point;
    point.kind = PointState::Kind::kFinished;
    point.point = {name, {{"seed", name}}, {}};
    RunFiles run;
    run.finished.emplace();
    run.finished->splits[Split::kTest].accuracy = 0.5;
    for (const Split split : splits) {
      MetricsRow row;
      row.split = split;
      row.epoch = static_cast<double>(run.metrics.size() + 1);
      row.accuracy = row.loss = split == Split::kTest ? 0.25 : 0.75;
      run.metrics.push_back(row);
    }
    point.run = run;
    summary.points.push_back(point);
  };
  add("1", {Split::kTrain, Split::kValidation, Split::kValidation, Split::kTest});
  const std::vector<Chart> charts = sweep_curves(summary);
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].title == "Accuracy of the points (validation)");
  CHECK(charts[1].title == "Loss of the points (validation)");
  using Points = std::vector<std::pair<double, double>>;
  CHECK(charts[0].series.front().points == Points{{2, 0.75}, {3, 0.75}});
  add("2", {Split::kTest});
  const std::vector<Chart> mixed = sweep_curves(summary);
  CHECK(mixed[0].title == "Accuracy of the points (test, validation)");
  CHECK(mixed[0].series.back().points == Points{{1, 0.25}});
}

TEST_CASE("sweep report: the best row first and named, curves overlaid, verdicts that differ") {
  Summary summary;
  summary.name = "rates";
  summary.keys = {"optimizer.sgd.learning_rate"};
  summary.short_names = {"learning_rate"};
  const auto add = [&](const char* rate, double accuracy, const char* verdict) {
    SummaryRow row;
    row.values = {{"optimizer.sgd.learning_rate", rate}};
    row.runs = 1;
    row.accuracy = Estimate{accuracy, accuracy - 0.03, accuracy + 0.03};
    row.loss = 1 - accuracy;
    row.images_per_second = 100;
    row.verdict = verdict;
    summary.rows.push_back(row);
    PointState point;
    point.kind = PointState::Kind::kFinished;
    point.point = {concat("learning_rate=", rate), row.values, {}};
    RunFiles run;
    run.finished.emplace();
    run.finished->splits[Split::kTest].accuracy = accuracy;
    run.finished->splits[Split::kTest].loss = 1 - accuracy;
    for (const std::int64_t epoch : {1, 2}) {
      MetricsRow metrics;
      metrics.split = Split::kTest;
      metrics.epoch = static_cast<double>(epoch);
      metrics.accuracy = accuracy * static_cast<double>(epoch) / 2;
      metrics.loss = 0.5;
      run.metrics.push_back(metrics);
    }
    point.run = run;
    summary.points.push_back(point);
  };
  add("0.1", 0.5, "compute");
  add("0.01", 0.8, "compute");
  add("0.001", 0.78, "input: 30 % of a step waits for data");
  add("0.0001", 0.2, "compute");
  SummaryRow failed;
  failed.values = {{"optimizer.sgd.learning_rate", "9"}};
  failed.missing = 1;
  failed.verdict = "failed: diverged";
  summary.rows.push_back(failed);
  summary.cached = "Images/s: steps with cached features.";

  CHECK(rank_rows(summary) == std::vector<std::size_t>{1, 2, 0, 3, 4});
  CHECK(rank_points(summary) == std::vector<std::size_t>{1, 2, 0, 3});
  CHECK(best_sentence(summary) ==
        "Best: learning_rate=0.01, accuracy 80.00 % (95 % interval 77.00 % to 83.00 %); the "
        "interval of 1 other contains it.");
  Summary tie = summary;
  tie.rows[0].accuracy->mean = 0.8;
  tie.rows[0].loss = 0.1;
  CHECK(rank_rows(tie)[0] == 0);
  const std::string page = sweep_report(summary);
  CHECK(contains(page, "<p>Images/s: steps with cached features.</p>"));
  CHECK(contains(page, "<p class=\"lead\"><b>Best: learning_rate=0.01, accuracy 80.00 %"));
  const auto row_of = [&](const char* rate) {
    return page.find(concat("<th scope=\"row\" class=\"n\">", rate, "</th>"));
  };
  CHECK(row_of("0.01") < row_of("0.001"));
  CHECK(row_of("0.001") < row_of("0.1"));
  CHECK(row_of("0.0001") < row_of("9"));
  const std::size_t accuracy = page.find(">accuracy</th>"), rate = page.find(">images/s</th>");
  CHECK(accuracy < page.find(">loss</th>"));
  CHECK(page.find(">loss</th>") < rate);
  CHECK(page.find("<h2>Table</h2>") < page.find("id=\"accuracy-curves\""));
  CHECK(page.find("id=\"accuracy-curves\"") < page.find("id=\"accuracy\""));
  CHECK(page.find("id=\"accuracy\"") < page.find("id=\"throughput\""));
  CHECK(contains(page, "<p>3 of 5 combinations: compute.</p>"));
  CHECK(contains(page,
                 "<th scope=\"row\">learning_rate=0.001</th><td>input: 30 % of a step waits "
                 "for data</td>"));
  CHECK_FALSE(contains(page, "<td>compute</td>"));

  const std::vector<Chart> curves = sweep_curves(summary);
  REQUIRE(curves.size() == 2);
  REQUIRE(curves[0].series.size() == 4);
  CHECK(curves[0].series[0].name == "learning_rate=0.01");
  CHECK(curves[0].series[0].points == decltype(Series::points){{1, 0.4}, {2, 0.8}});
  CHECK(curves[1].series[3].name == "learning_rate=0.0001");
  for (int i = 0; i < 4; ++i) summary.points.push_back(summary.points[0]);
  CHECK(sweep_curves(summary)[0].series.size() == 6);
  CHECK(contains(sweep_report(summary), "<p>The best 6 of 8 points.</p>"));

  // Without accuracies, by loss.
  for (SummaryRow& row : summary.rows) row.accuracy.reset();
  summary.rows[3].loss = 0.1;
  CHECK(rank_rows(summary) == std::vector<std::size_t>{3, 1, 2, 0, 4});
  CHECK(best_sentence(summary) == "Best: learning_rate=0.0001, loss 0.1000.");
  for (SummaryRow& row : summary.rows) row.verdict = "compute";
  CHECK(contains(sweep_report(summary), "<p>All 5 combinations: compute.</p>"));
}

}  // namespace trainer::commands
