// The files of a run folder that hold results of `evaluate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "base/files/files.h"

namespace trainer::results {

inline constexpr const char* kCalibrationFile = "calibration.json";  // `evaluate --calibrate`
inline constexpr const char* kOperatingPointFile = "operating_point.json";  // and its option
inline constexpr const char* kCurvesFile = "curves.json";                   // `evaluate --curves`
inline constexpr const char* kAbstentionFile = "abstention.json";           // `evaluate --abstain`
inline constexpr const char* kThresholdsFile = "thresholds.json";  // `evaluate --thresholds`

// Returns the object that a file holds, or nothing if there is no file. Throws DataError naming the
// file if it does not hold an object, with `advice` on how to write it again.
std::optional<nlohmann::ordered_json> read_result(const Path& file, const std::string& advice);

// Prints {"event":EVENT,"run":...,<content>,"stored":...} as one line. `stored` is the path of
// the file, or "" if there is none.
void print_result_json(const char* event, const std::string& run,
                       const nlohmann::ordered_json& content, const std::string& stored,
                       std::ostream& out);

}  // namespace trainer::results
