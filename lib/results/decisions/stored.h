// The results of `evaluate` as files of a run folder, and as lines of --json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "results/decisions/cost_matrix.h"
#include "results/decisions/operate.h"
#include "results/field.h"

namespace trainer::results {

// The files of a run folder.
inline constexpr const char* kCalibrationFile = "calibration.json";  // `evaluate --calibrate`
inline constexpr const char* kOperatingPointFile = "operating_point.json";  // and its option
inline constexpr const char* kCurvesFile = "curves.json";                   // `evaluate --curves`
inline constexpr const char* kAbstentionFile = "abstention.json";           // `evaluate --abstain`
inline constexpr const char* kThresholdsFile = "thresholds.json";      // `evaluate --thresholds`
inline constexpr const char* kNoveltyFile = "novelty.json";            // `evaluate --novelty`
inline constexpr const char* kReferencesFile = "novelty.safetensors";  // the features beside it

// The content of operating_point.json.
using OperatingPoint = std::variant<OperatingReport, CostReport>;

// The parameters and images to which a stored result belongs.
struct StoredOrigin {
  std::int64_t step = 0;
  std::string tensors_sha256;
  bool flip = false;  // the result is that of the mean over mirror images
};
void fields(FieldVisitor& v, StoredOrigin& origin);

template <class Result>
struct Stored {
  StoredOrigin origin;
  Result result;
};
template <class Result>
void fields(FieldVisitor& v, Stored<Result>& stored) {
  fields(v, stored.origin);
  fields(v, stored.result);
}

template <class Result>
struct ResultEvent {
  std::string event;
  std::string run;  // the user's name of the model
  Result result;
  std::optional<std::string> stored;  // the file
};
template <class Result>
void fields(FieldVisitor& v, ResultEvent<Result>& event) {
  v("event", event.event, "The kind of line.");
  v("run", event.run, "The run or the checkpoint.");
  fields(v, event.result);
  v("stored", event.stored, "The file of the run that has the result.");
}

}  // namespace trainer::results
