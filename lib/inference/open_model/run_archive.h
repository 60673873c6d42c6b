// Opens a trained run from its checkpoints, and its config and data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "config/config.h"
#include "data/open.h"
#include "inference/open_model/open_model.h"

namespace trainer::inference {

// Returns the config that a run folder records, whose author is not trusted: see
// config::parse_recorded_config(). Its relative paths are replaced by those that hold in the
// current folder, as in open_trained(). The overrides are the user's own. Throws ConfigError.
config::LoadedConfig load_recorded(const Path& run, const std::vector<config::Override>& overrides,
                                   const config::Environment& environment);

// Opens a checkpoint of a run, or a checkpoint file, for which `choice` has no meaning. A note
// names the best checkpoint where kDefault takes it in place of a later one. The overrides change
// the config that the checkpoint carries. Throws DataError when it carries none.
OpenedModel open_trained(const std::string& run_or_file, results::CheckpointChoice choice,
                         const OpenOptions& options);

// Opens the mean of a run's last `count` checkpoints, with a note that names them. Throws
// ConfigError for a file.
OpenedModel open_average(const std::string& run, std::int64_t count, const OpenOptions& options);

// Opens one split of the run's data. Throws DataError naming both lists when its classes differ
// from those of the run, and when validation samples were split off from other data than the run's,
// as training images would be among them. Other data that the user names only causes a warning.
data::Datasets open_split(const OpenedModel& opened, Split split);

// Opens all samples of the training split as they are now, also those that the run set aside for
// validation. Throws DataError if the classes differ from those of the run.
data::Datasets open_undivided_training_data(const OpenedModel& opened);
// Returns whether the result of open_undivided_training_data() is what the run was trained on.
bool is_same_training_data(const OpenedModel& opened, const data::Dataset& dataset);

struct OpenedSplit {
  Split split = Split::kTest;
  data::Datasets data;

  const data::Dataset& dataset() const { return *data.dataset(split); }
  // Null for a split that does not consist of image files.
  const data::DamagedFiles* files() const { return data.files(split).get(); }
};
// Opens the split to evaluate. Without `split` this is test, or else validation with a note. Throws
// ConfigError with advice when the run has neither.
OpenedSplit open_split_or_default(const OpenedModel& opened, std::optional<Split> split);

}  // namespace trainer::inference
