// The samples that a run is most wrong about, found with its best checkpoint, else its last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "base/types.h"
#include "commands/open_model/open_model.h"
#include "commands/run_files/run_files.h"
#include "config/config.h"

namespace trainer::commands {

struct Mistake {
  std::string sample;                     // its file, or its number in the split
  std::string label, predicted;           // classes
  double of_label = 0, of_predicted = 0;  // their probabilities or outputs
  int width = 0, height = 0;              // of the picture
  std::string picture;                    // a data: URL
  // A data: URL of the picture with a heatmap of the predicted class over it, of the same size.
  std::string heatmap = {};
};

struct Mistakes {
  std::string split;
  std::int64_t samples = 0;    // of the split
  std::int64_t looked_at = 0;  // of these, before the time was up
  std::int64_t wrong = 0;      // of those looked at
  // The samples whose own class got the least probability, the least first.
  std::vector<Mistake> worst;
  std::string heatmap_method;     // of their heatmaps: "Grad-CAM" or "occlusion"
  bool has_probabilities = true;  // false for mean_squared_error: outputs, which may be any numbers
  std::string reason;             // why nothing was looked at; "" when something was
  CheckpointChoice checkpoint = CheckpointChoice::kLast;  // with which they were found
  std::int64_t step = 0;                                  // of the checkpoint
  // The counts of the split with this checkpoint, if all samples were looked at; without a loss.
  std::optional<SplitResult> result;
};

struct MistakeOptions {
  std::size_t most = 24;
  double seconds = 60;
  CheckpointChoice checkpoint = CheckpointChoice::kDefault;
  std::vector<config::Override> overrides;  // of the run's config, for other devices or data
  config::Environment environment;
  std::function<void(const Notice&)> warn = [](const Notice&) {};
};

// Predicts the test split, or else the validation split, of the run in `folder`. When a checkpoint,
// the data, the device or classes are missing, the result has the reason.
Mistakes find_mistakes(const Path& folder, const MistakeOptions& options);

// Encodes an image of bytes in [height, width, channels] as a data: URL, PNG when small and JPEG
// otherwise. The longer side is shrunk to 256 pixels as far as the shorter one allows. Of an image
// that has neither 1 nor 3 channels, the first channel is shown.
struct Picture {
  int width = 0, height = 0;
  std::string url;
};
Picture encode_picture(const std::vector<std::uint8_t>& pixels, const Shape& shape);

}  // namespace trainer::commands
