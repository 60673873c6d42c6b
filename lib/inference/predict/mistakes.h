// The samples that a run predicts wrongly, found with its best checkpoint, else its last, and some
// that it predicts rightly.
#pragma once

#include <optional>

#include "base/files/files.h"
#include "base/notice.h"
#include "config/config.h"
#include "inference/open_model/open_model.h"
#include "results/pages/mistakes.h"

namespace trainer::inference {

struct MistakeOptions {
  std::size_t most = 24;  // mistakes to show; at most half as many right answers are shown
  double seconds = 60;
  results::CheckpointChoice checkpoint = results::CheckpointChoice::kDefault;
  OpenOptions open;                 // overrides: changes for other devices or data
  std::optional<Split> split = {};  // default: the test split, or else the validation split
};

// Predicts a split of the run in `folder`. When a checkpoint, the data, the device or classes are
// missing, the result has the reason, and is `failed` if the reason is an error.
results::Mistakes find_mistakes(const Path& folder, const MistakeOptions& options);

}  // namespace trainer::inference
