#include "inference/decisions/calibration_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "inference/decisions/stored_result.h"

namespace trainer::inference {
namespace {

// Other temperatures would give infinite logits, or equal ones. The range of fitted temperatures is
// smaller.
constexpr double kMinStoredTemperature = 1e-3, kMaxStoredTemperature = 1e3;

}  // namespace

double find_temperature(const OpenedModel& opened, bool flip,
                        const std::function<void(const Notice&)>& warn) {
  const auto json = find_result(opened, flip, results::kCalibrationFile, "--calibrate", warn);
  if (!json) return 1;
  const std::string file = (*find_run_folder(opened) / results::kCalibrationFile).string();
  const auto found = json->find("temperature");
  const double temperature =
      found != json->end() && found->is_number() ? found->get<double>() : 0.0;
  if (!(temperature >= kMinStoredTemperature && temperature <= kMaxStoredTemperature)) {
    throw DataError(
        file, concat("is damaged: its temperature is not a number from ", kMinStoredTemperature,
                     " to ", kMaxStoredTemperature, "; write it anew with `",
                     evaluate_command(opened, "--calibrate", flip), '`'));
  }
  repeat_contradiction(opened, results::kCalibrationFile, *json, warn);
  return temperature;
}

}  // namespace trainer::inference
