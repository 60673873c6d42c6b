#include "inference/decisions/operating_point_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json_number.h"
#include "base/text.h"
#include "inference/decisions/stored_result.h"

namespace trainer::inference {
namespace {

using PointJson = nlohmann::ordered_json;

constexpr const char* kPointOption = "--operating-point CRITERION";

// Returns nothing if the list is not a row of costs for each class.
std::optional<engine::CostMatrix> read_costs(const PointJson& rows, std::size_t classes) {
  engine::CostMatrix matrix{classes, {}};
  if (!rows.is_array() || rows.size() != classes) return std::nullopt;
  for (const PointJson& row : rows) {
    if (!row.is_array() || row.size() != classes) return std::nullopt;
    for (const PointJson& cost : row) {
      if (!cost.is_number() || !(cost.get<double>() >= 0)) return std::nullopt;
      matrix.costs.push_back(cost.get<double>());
    }
  }
  return matrix;
}

// Sets the threshold. Returns whether the file has a class of the model and a threshold.
bool read_threshold(const PointJson& json, std::size_t classes, StoredOperatingPoint& point) {
  const auto odds = json.find("log_odds"), index = json.find("positive_index");
  point.positive_class = index != json.end() ? whole_number(*index).value_or(-1) : -1;
  if (odds == json.end() || !(odds->is_null() || odds->is_number())) return false;
  point.log_odds = odds->is_null() ? std::numeric_limits<double>::infinity() : odds->get<double>();
  return point.positive_class >= 0 && point.positive_class < static_cast<std::int64_t>(classes);
}

}  // namespace

std::optional<StoredOperatingPoint> find_operating_point(
    const OpenedModel& opened, bool flip, const std::function<void(const Notice&)>& warn) {
  const auto json = find_result(opened, flip, results::kOperatingPointFile, kPointOption, warn);
  if (!json) return std::nullopt;
  StoredOperatingPoint point;
  const auto criterion = json->find("criterion"), costs = json->find("costs");
  const bool has_text = criterion != json->end() && criterion->is_string();
  if (has_text) point.criterion = printable(criterion->get<std::string>());
  const std::size_t classes = opened.classes.size();
  bool is_whole = has_text;
  if (costs != json->end()) {
    point.costs = read_costs(*costs, classes);
    is_whole = is_whole && point.costs.has_value();
  } else {
    is_whole = read_threshold(*json, classes, point) && is_whole;
  }
  if (!is_whole) {
    throw DataError(
        *find_run_folder(opened) / results::kOperatingPointFile,
        concat("is damaged: it lacks a criterion, and a class of the model with a threshold "
               "or the costs of all classes; write it anew with `",
               evaluate_command(opened, kPointOption, flip), '`'));
  }
  // A threshold is used with two classes alone.
  if (point.costs || classes == 2)
    repeat_contradiction(opened, results::kOperatingPointFile, *json, warn);
  return point;
}

}  // namespace trainer::inference
