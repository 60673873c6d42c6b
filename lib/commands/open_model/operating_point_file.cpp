#include "commands/open_model/operating_point_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json_number.h"
#include "base/text.h"
#include "commands/open_model/stored_result.h"

namespace trainer::commands {
namespace {

constexpr const char* kPointOption = "--operating-point CRITERION";

}  // namespace

std::optional<StoredOperatingPoint> find_operating_point(
    const OpenedModel& opened, bool flip, const std::function<void(const Notice&)>& warn) {
  const auto json = find_result(opened, flip, kOperatingPointFile, kPointOption, warn);
  if (!json) return std::nullopt;
  StoredOperatingPoint point;
  const auto criterion = json->find("criterion"), odds = json->find("log_odds"),
             index = json->find("positive_index");
  const bool has_texts = criterion != json->end() && criterion->is_string();
  if (has_texts) point.criterion = printable(criterion->get<std::string>());
  point.positive_class = index != json->end() ? whole_number(*index).value_or(-1) : -1;
  point.log_odds = odds != json->end() && odds->is_number() ? odds->get<double>() : std::nan("");
  const auto classes = std::ssize(opened.classes);
  const bool is_class = point.positive_class >= 0 && point.positive_class < classes;
  if (!has_texts || !is_class || !std::isfinite(point.log_odds)) {
    throw DataError(
        *find_run_folder(opened) / kOperatingPointFile,
        concat("is damaged: it lacks a criterion, a class of the model or a finite threshold; "
               "write it anew with `",
               evaluate_command(opened, kPointOption, flip), '`'));
  }
  return point;
}

}  // namespace trainer::commands
