#include <doctest/doctest.h>

#include <cmath>

#include "results/pages/html.h"
#include "support/contains.h"

namespace trainer::results {

using test::contains;

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

TEST_CASE("sweep curves are those of validation, or else of the split that was scored") {
  Summary summary;
  const auto add = [&](const char* name, std::vector<Split> splits) {
    PointState point;
    point.kind = PointState::Kind::kFinished;
    point.point = {name, {{"seed", name}}, {}};
    RunFiles run;
    run.finished.emplace();
    run.results[Split::kTest].accuracy = 0.5;
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

TEST_CASE(
    "sweep report: the best row is first and named, curves are overlaid, and verdicts differ") {
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
    run.results[Split::kTest].accuracy = accuracy;
    run.results[Split::kTest].loss = 1 - accuracy;
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
        "Best: learning_rate=0.01, accuracy 80.00 % (95 % interval 77.00 % to 83.00 %); "
        "this accuracy lies in the interval of 1 other combination, too.");
  Summary tie = summary;
  tie.rows[0].accuracy->mean = 0.8;
  tie.rows[0].loss = 0.1;
  CHECK(rank_rows(tie)[0] == 0);
  const std::string page = render_html(sweep_report(summary));
  CHECK(contains(page, "<p>Images/s: steps with cached features.</p>"));
  CHECK(contains(page, "<p class=\"lead\"><b>Best: learning_rate=0.01, accuracy 80.00 %"));
  const auto find_row = [&](const char* rate) {
    return page.find(concat("<th scope=\"row\" class=\"n\">", rate, "</th>"));
  };
  CHECK(find_row("0.01") < find_row("0.001"));
  CHECK(find_row("0.001") < find_row("0.1"));
  CHECK(find_row("0.0001") < find_row("9"));
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
  CHECK(contains(render_html(sweep_report(summary)), "<p>The best 6 of 8 points.</p>"));

  // Without accuracies, by loss.
  for (SummaryRow& row : summary.rows) row.accuracy.reset();
  summary.rows[3].loss = 0.1;
  CHECK(rank_rows(summary) == std::vector<std::size_t>{3, 1, 2, 0, 4});
  CHECK(best_sentence(summary) == "Best: learning_rate=0.0001, loss 0.1000.");
  for (SummaryRow& row : summary.rows) row.verdict = "compute";
  CHECK(contains(render_html(sweep_report(summary)), "<p>All 5 combinations: compute.</p>"));
}

}  // namespace trainer::results
