// The samples that a run predicts wrongly, and some that it predicts rightly.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "results/page/picture.h"
#include "results/run_files/checkpoint_choice.h"
#include "results/run_files/run_files.h"

namespace trainer::results {

struct ShownSample {
  std::string sample;                     // its file, or its number in the split
  std::string label, predicted;           // classes
  double of_label = 0, of_predicted = 0;  // their probabilities or outputs
  Picture picture;
  Picture heatmap = {};  // the picture with a heatmap of the predicted class over it
};

// The mistakes with the same true and the same predicted class.
struct MistakeGroup {
  std::string label, predicted;
  std::int64_t count = 0;
  // The samples whose own class got the least probability, the least first.
  std::vector<ShownSample> shown;
  std::vector<std::string> more;  // names of the next ones, at most 40
};

struct Mistakes {
  std::string split;
  std::int64_t samples = 0;          // samples of the split
  std::int64_t looked_at = 0;        // the samples among these that were looked at in time
  std::int64_t wrong = 0;            // the wrong ones among those looked at
  std::vector<MistakeGroup> groups;  // the largest first, at most 8
  std::int64_t all_groups = 0;       // the number of all
  std::vector<ShownSample> right;    // the first right answers of each class, in turn
  std::string heatmap_method;        // "Grad-CAM" or "occlusion"
  bool has_probabilities = true;  // false for mean_squared_error: outputs, which may be any numbers
  std::string reason;             // the cause if nothing was looked at; otherwise ""
  bool failed = false;            // true if the reason is an error
  CheckpointChoice checkpoint = CheckpointChoice::kLast;  // the checkpoint that made them
  std::int64_t step = 0;                                  // the step of the checkpoint
  // The counts of the split with this checkpoint, if all samples were looked at; without a loss.
  std::optional<SplitResult> result;
  double auc = std::numeric_limits<double>::quiet_NaN();  // set with `result`; see engine::RocAuc
};

}  // namespace trainer::results
