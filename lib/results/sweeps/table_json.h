// A sweep as table.json and `sweep --json` have it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/field.h"
#include "results/sweeps/summary.h"

namespace trainer::results {

struct SweepRow {
  SummaryRow row;
  std::vector<std::string> columns;  // the keys of choose_columns()
};

// A point that is over. What it does not have is empty.
struct SweepPoint {
  std::string name, state;
  std::vector<std::pair<std::string, std::string>> values;
  std::optional<int> code;
  std::optional<std::string> message;
  std::optional<double> images_per_second, total_seconds, accuracy;
  std::string checkpoint;
};

struct SweepTable {
  std::string name;
  std::vector<SweepRow> rows;
  std::vector<SweepPoint> points;
  std::optional<double> wanted_accuracy;
  std::optional<std::optional<std::string>> cheapest;  // set if an accuracy is wanted
};
void fields(FieldVisitor& v, SweepTable& table);

struct PointEvent {
  SweepPoint point;
  std::optional<double> eta_seconds;
};
void fields(FieldVisitor& v, PointEvent& event);

// Both are one line.
std::string table_json(const Summary& summary);
std::string point_json(const PointState& state, ScoredCheckpoint checkpoint,
                       std::optional<double> eta_seconds);

}  // namespace trainer::results
