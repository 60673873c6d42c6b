// Results of `evaluate` that later commands use: files of a run folder, each of which belongs to
// the parameters of one checkpoint.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "base/files/files.h"
#include "base/notice.h"
#include "inference/open_model/open_model.h"
#include "results/run_files/result_files.h"

namespace trainer::inference {

// Returns the run folder of the model; nothing for a config, and for a checkpoint outside of a run.
std::optional<Path> find_run_folder(const OpenedModel& opened);
// Returns the same for the path of a run or a checkpoint, which exists.
std::optional<Path> find_run_folder(const std::string& run_or_file);

// Writes `content` with the step and a hash of the tensors of the model to the file `name` of the
// run folder. `flip`: the result is that of the mean over mirror images. Returns the path, or
// "" for a model without a run folder. The file is replaced as a whole, so that readers and
// other writers need no lock. Throws DataError for a link in its place.
std::string store_result(const OpenedModel& opened, bool flip, const std::string& name,
                         const nlohmann::ordered_json& content);

// Returns the command by which evaluate, with this option, writes a result of the model anew.
std::string evaluate_command(const OpenedModel& opened, const std::string& option,
                             bool flip = false);

// Returns the content of the file if it belongs to the tensors of the model and to `flip`. If it
// does not, warns and names `option`, with which evaluate writes it again.
std::optional<nlohmann::ordered_json> find_result(const OpenedModel& opened, bool flip,
                                                  const std::string& name,
                                                  const std::string& option,
                                                  const std::function<void(const Notice&)>& warn);

// Repeats the warning of a result that the evaluated split contradicts. `result` is the content of
// the file `name`, which a run has.
void repeat_contradiction(const OpenedModel& opened, const std::string& name,
                          const nlohmann::ordered_json& result,
                          const std::function<void(const Notice&)>& warn);

}  // namespace trainer::inference
