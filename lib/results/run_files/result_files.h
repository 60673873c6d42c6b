// The files of a run folder that hold results of `evaluate`.
#pragma once

namespace trainer::results {

inline constexpr const char* kCalibrationFile = "calibration.json";  // `evaluate --calibrate`
inline constexpr const char* kOperatingPointFile = "operating_point.json";  // and its option
inline constexpr const char* kCurvesFile = "curves.json";                   // `evaluate --curves`
inline constexpr const char* kAbstentionFile = "abstention.json";           // `evaluate --abstain`
inline constexpr const char* kThresholdsFile = "thresholds.json";  // `evaluate --thresholds`

}  // namespace trainer::results
