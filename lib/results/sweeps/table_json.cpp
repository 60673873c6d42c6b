#include <algorithm>

#include "base/formats/json.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"

namespace trainer::results {
namespace {

struct SweepRow {
  SummaryRow row;
  std::vector<std::string> columns;  // the keys of choose_columns()
};

SweepPoint make_point(const PointState& state, CheckpointChoice checkpoint) {
  SweepPoint point;
  point.name = state.point.name;
  point.state = to_string(state.kind);
  point.values = state.point.values;
  if (state.has_failed()) {
    point.code = state.code;
    point.message = state.message;
  }
  if (!state.run) return point;
  point.images_per_second = images_per_second(*state.run);
  point.total_seconds = total_steps(*state.run).seconds;
  if (const auto result = find_scored_result(*state.run, checkpoint)) {
    point.accuracy = result->metrics.accuracy;
    point.checkpoint = to_string(result->checkpoint);
  }
  return point;
}

void fields(FieldVisitor& v, SweepRow& row) {
  v("values", row.row.values, "The values of the config, by key.");
  for (const Column& column : list_columns()) {
    std::optional<std::optional<double>> number;  // null for a row without it
    if (std::ranges::find(row.columns, column.key) != row.columns.end()) {
      number.emplace(column.value(row.row));
    }
    v.when_present(column.key.c_str(), number, column.heading.c_str());
  }
  v("missing", row.row.missing, "Runs that failed, were stopped or have not started.");
  v("verdict", row.row.verdict, "What limits the speed, and why runs are missing.");
}

}  // namespace

void fields(FieldVisitor& v, SweepPoint& point) {
  v("name", point.name, "The folder of the run.");
  v("state", point.state, "Whether it has finished.");
  v.when_present("values", point.values, "The values of the config, by key.");
  v.when_present("code", point.code, "Exit code of a run that failed.");
  v.when_present("message", point.message, "The error of a run that failed.");
  v.when_present("images_per_second", point.images_per_second, {"images/s", 0}, "Throughput.");
  v.when_present("total_seconds", point.total_seconds, kSeconds, "Time of all steps.");
  v.when_present("accuracy", point.accuracy, kShare, "Accuracy on test or validation samples.");
  v.when_present("checkpoint", point.checkpoint, "That of the accuracy: best or last.");
}

void fields(FieldVisitor& v, PointEvent& event) {
  v.event("point");
  fields(v, event.point);
  v.when_present("eta_seconds", event.eta_seconds, kSeconds, "Time to the end of the sweep.");
}

void fields(FieldVisitor& v, Summary& summary) {
  std::vector<std::string> columns;
  for (const Column& column : choose_columns(summary)) columns.push_back(column.key);
  std::vector<SweepRow> rows;
  for (const SummaryRow& row : summary.rows) rows.push_back({row, columns});
  std::vector<SweepPoint> points;
  for (const PointState& point : summary.points) {
    points.push_back(make_point(point, summary.checkpoint));
  }
  std::optional<std::optional<std::string>> cheapest;  // set if an accuracy is wanted
  if (summary.wanted_accuracy) cheapest.emplace();
  if (const auto& best = summary.best_to_accuracy; best && cheapest) {
    *cheapest = make_label(summary, summary.rows[best->row]);
  }
  v.event("sweep");
  v("name", summary.name, "The name of the sweep.");
  v("rows", rows, "The combinations of values, each over its seeds.");
  v("points", points, "The runs.");
  v.when_present("wanted_accuracy", summary.wanted_accuracy, kShare, "That of --to-accuracy.");
  v.when_present("cheapest", cheapest,
                 "The combination that reaches it for the least money or time; null if none does.");
}

std::string point_json(const PointState& state, CheckpointChoice checkpoint,
                       std::optional<double> eta_seconds) {
  return to_json_line(to_json(PointEvent{make_point(state, checkpoint), eta_seconds}));
}

}  // namespace trainer::results
