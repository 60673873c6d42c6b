#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "results/page/svg.h"
#include "results/pages/html.h"
#include "results/pages/mistakes.h"
#include "support/contains.h"

namespace trainer::results {
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

std::string render_page(const RunFiles& run, const Mistakes& mistakes = {}) {
  return render_html(run_report(run, mistakes));
}

using test::contains;

}  // namespace

TEST_CASE("run report shows the utilisation and memory of every GPU as charts and as a table") {
  const std::string page = render_page(run_on_gpus());
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
  CHECK_FALSE(contains(render_page({}), "GPU utilisation"));
}

TEST_CASE("run report: several labels have their metrics and counts") {
  RunFiles run;
  run.classes = {"edema", "mass & co"};
  run.finished.emplace();
  SplitResult& result = run.results[Split::kValidation];
  result.accuracy = std::nan("");
  result.multi_label.samples = 10;
  result.multi_label.exact = 6;
  result.multi_label.labels.resize(2);
  result.multi_label.labels[0] = {4, 5, 3, 1, 0.875, 0.75};
  result.multi_label.labels[1] = {0, 10, 0, 2};
  const std::string page = render_page(run);
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

TEST_CASE("run report: confusion matrix has counts of every cell and scores of every class") {
  RunFiles run;
  run.classes = {"cat"};  // fewer names than classes
  run.finished.emplace();
  SplitResult& result = run.results[Split::kTest];
  result.classes = {{7, 6, 5}, {4, 5, 3}};
  result.confusions = {{0, 1, 2}, {1, 0, 1}};
  run.finished->steps = 60;
  MetricsRow earlier, of_end;
  earlier.split = of_end.split = Split::kTest;
  earlier.step = 30;
  earlier.means.auc = 0.5;
  of_end.step = 60;
  of_end.means.auc = 0.875;
  run.metrics = {earlier, of_end};
  const std::string page = render_page(run);
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

TEST_CASE("run report has a headline in plain words for the checkpoint that was evaluated") {
  RunFiles run;
  run.classes = {"cat", "dog", "cow"};
  run.splits = {{"train", {3454, {}}}, {"validation", {863, {}}}};
  run.finished.emplace();
  run.finished->steps = 60;
  SplitResult& last = run.results[Split::kValidation];
  last.count = 863;
  last.correct = 500;
  last.accuracy = 500.0 / 863;
  Mistakes mistakes;
  mistakes.split = "validation";
  CHECK(
      contains(render_page(run, mistakes),
               "<b>58 % right (500 of 863 validation samples), 3 classes, 3,454 training samples; "
               "with the last checkpoint, step 60</b>"));
  mistakes.checkpoint = CheckpointChoice::kBest;
  mistakes.step = 33;
  mistakes.result = last;
  mistakes.result->correct = 589;
  mistakes.result->accuracy = 589.0 / 863;
  mistakes.result->classes = {{4, 5, 3}, {4, 3, 3}};
  CHECK_FALSE(contains(render_page(run, mistakes), "; AUC "));
  mistakes.auc = 0.8125;
  CHECK(contains(render_page(run, mistakes), "; AUC 0.8125</p>"));
  CHECK(
      contains(render_page(run, mistakes),
               "<b>68 % right (589 of 863 validation samples), 3 classes, 3,454 training samples; "
               "with the best checkpoint, step 33</b>"));
  run.config = {{"data.format", "image_folder"}};
  CHECK(contains(render_page(run, mistakes),
                 "(589 of 863 validation images), 3 classes, 3,454 training images; "));
  run.config = {{"data.format", "npz"}};
  CHECK(contains(render_page(run, mistakes), "3,454 training samples; "));
}

TEST_CASE("run report draws charts over epochs with the best checkpoint marked") {
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
  run.best = BestCheckpoint{"validation/accuracy", 0.5, 2, 8, {}, false};
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

TEST_CASE("run report: a run without rows of metrics has curves of its steps") {
  RunFiles run;
  MetricsRow row;
  row.split = Split::kTrain;
  row.step = 3;
  row.loss = 2;
  row.accuracy = 0;
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

TEST_CASE(
    "run report: a sentence counts samples that were not evaluated for lack of time or data") {
  Mistakes mistakes;
  mistakes.split = "test";
  mistakes.samples = 10000;
  mistakes.looked_at = 2500;
  mistakes.wrong = 3;
  CHECK(contains(render_page({}, mistakes), "3 of 2,500 samples (of 10,000; time ran out)"));
  mistakes.reason = "datasets/mnist: not <found>";
  CHECK(contains(render_page({}, mistakes), "No pictures: datasets/mnist: not &lt;found&gt;"));
}

TEST_CASE("run report: the splits have their smallest and largest class") {
  RunFiles run;
  run.folder = "nowhere";
  run.classes = {"cat", "dog & co"};
  run.splits = {{"train", {1500, {1000, 500}}}, {"test", {7, {7, 0}}}, {"validation", {3, {}}}};
  const std::string page = render_page(run);
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

TEST_CASE("run report: the data report keeps UTF-8 unchanged and escapes markup") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "data_report.txt",
                    "train: d\xc3\xb6g.png: <damaged>\ntrain: \xe4\xbd\xa0.png: empty\n");
  RunFiles run;
  run.folder = folder.path();
  CHECK(contains(render_page(run),
                 "train: d\xc3\xb6g.png: &lt;damaged&gt;\ntrain: \xe4\xbd\xa0.png: empty\n</pre>"));
}

TEST_CASE("run report: mistakes of mean_squared_error have outputs instead of percentages") {
  Mistakes mistakes;
  mistakes.split = "test";
  mistakes.samples = mistakes.looked_at = 9;
  mistakes.wrong = 1;
  mistakes.groups = {{"cat", "dog", 1, {{"number 3", "cat", "dog", -0.5, 5.123, {}}}, {}}};
  CHECK(contains(render_page({}, mistakes), "<b>cat</b> (-50.00 %)"));
  mistakes.has_probabilities = false;
  const std::string page = render_page({}, mistakes);
  CHECK(contains(page, "<b>cat</b> (output -0.5000)"));
  CHECK(contains(page, "<b>dog</b> (output 5.1230)"));
  CHECK(contains(page, "got the least output."));
}

TEST_CASE(
    "run report groups mistakes by true and predicted class with names, and has right answers") {
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
  const std::string page = render_page({}, mistakes);
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
  CHECK(contains(page, "<summary>Names of 2 more</summary>\n<p>c.jpg, d&lt;e&gt;.jpg</p>"));
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

TEST_CASE("run report has the command, the model, the date and the time of the run") {
  RunFiles run;
  run.command = "trainer train x.yaml";
  run.model = "vgg16, 22 layers, 5 parameters, of which 1 are trained";
  run.started = "2026-11-27T00:06:12Z";
  run.wall_seconds = 3725;
  const std::string page = render_page(run);
  CHECK(contains(page, "<th scope=\"row\">started</th><td>2026-11-27T00:06:12Z</td>"));
  CHECK(contains(page, "<th scope=\"row\">wall time</th><td>1:02:05</td>"));
  run.wall_seconds = 59.5;
  CHECK(contains(render_page(run), "<th scope=\"row\">wall time</th><td>59.50 s</td>"));
  CHECK(contains(page, "trainer train x.yaml"));
  CHECK(contains(page, run.model));
}

TEST_CASE(
    "run report: cached features have the throughput with them and while they were computed") {
  RunFiles run;
  run.finished.emplace();
  run.finished->rates.cached = 30441;
  CHECK(contains(render_page(run), "30441.0 with cached features"));
  CHECK_FALSE(contains(render_page(run), "were computed"));
  run.finished->rates.computing = 90.9;
  CHECK(contains(render_page(run),
                 "90.9 while features were computed, 30441.0 with cached features"));
}

TEST_CASE("run report has the warnings and notes about the data") {
  RunFiles run;
  run.folder = "nowhere";
  run.data_notices = {Notice("the training data has no sample of: <cow>"),
                      Notice::note("data.range: auto is 0 to 4095")};
  const std::string page = render_page(run);
  CHECK(contains(page,
                 "<h2>Data</h2>\n<p><b>Warning:</b> the training data has no sample of: "
                 "&lt;cow&gt;</p>\n<p><b>Note:</b> data.range: auto is 0 to 4095</p>"));
  CHECK_FALSE(contains(render_page({}), "<b>Warning:</b>"));
}

}  // namespace trainer::results
