// Probabilities of images by models that were not trained on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "commands/suspects/labelled_images.h"
#include "inference/open_model/open_model.h"

namespace trainer::commands {

// The runs that judge images: one run, or the runs of a folder of `crossval`.
struct JudgingRuns {
  Path folder;
  bool is_crossval = false;
  std::vector<Path> runs;
};
// Throws DataError if the folder is neither, or crossval has not finished.
JudgingRuns find_judging_runs(const Path& folder);

struct JudgedImages {
  std::vector<std::size_t> images;    // sorted indices into LabelledImages
  std::vector<double> probabilities;  // a row of classes per image
  // Judged samples that are not among the images of the config.
  std::int64_t unknown = 0;
};
// Reads out_of_fold.csv of crossval, or predicts the validation split of the run. Throws DataError
// if the runs have other classes than the images, or no image in common with them. Warns if images
// of runs of crossval were changed after the training, and throws DataError if arrays were.
JudgedImages judge_images(const JudgingRuns& runs, const LabelledImages& images,
                          const inference::OpenOptions& options);

}  // namespace trainer::commands
