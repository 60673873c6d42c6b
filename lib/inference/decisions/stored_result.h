// Results of `evaluate` that later commands use: files of a run folder, each of which belongs to
// the parameters of one checkpoint.
#pragma once

#include <optional>
#include <string>

#include "base/files/files.h"
#include "base/notice.h"
#include "inference/open_model/open_model.h"
#include "results/decisions/stored.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::inference {

// Returns the run folder of the model; nothing for a config, and for a checkpoint outside of a run.
std::optional<Path> find_run_folder(const OpenedModel& opened);
// Returns the same for the path of a run or a checkpoint, which exists.
std::optional<Path> find_run_folder(const std::string& run_or_file);

// Returns the step and the hash of the tensors of the model. `flip`: the result is that of the mean
// over mirror images.
results::StoredOrigin make_origin(const OpenedModel& opened, bool flip);

// Returns where the file `name` of the run folder is to be written; nothing for a model without a
// run folder. Throws DataError for a link in its place.
std::optional<Path> find_stored_path(const OpenedModel& opened, const std::string& name);
// Writes the file `name` of the run folder. Returns the path, or "" for a model without a run
// folder. The file is replaced as a whole, so that readers and other writers need no lock. Throws
// DataError for a link in its place.
std::string write_stored(const OpenedModel& opened, const std::string& name,
                         const std::string& line);
// Writes the result with its origin.
template <class Result>
std::string store_result(const OpenedModel& opened, bool flip, const std::string& name,
                         const Result& result) {
  return write_stored(opened, name,
                      results::to_line(results::Stored<Result>{make_origin(opened, flip), result}));
}

// Returns the content of the file if it belongs to the tensors of the model and to `flip`. If it
// does not, warns and names `option`, with which evaluate writes it again.
std::optional<nlohmann::ordered_json> find_stored(const OpenedModel& opened, bool flip,
                                                  const results::JsonSource& source,
                                                  const std::string& option, const Warn& warn);
// Returns the file of a run folder, with the advice to write it with `option` again.
results::JsonSource find_source(const OpenedModel& opened, bool flip, const std::string& name,
                                const std::string& option);
// Returns the result of the file, as far as find_stored() does. Throws DataError for a damaged
// file.
template <class Result>
std::optional<Result> find_result(const OpenedModel& opened, bool flip, const std::string& name,
                                  const std::string& option, const Warn& warn) {
  if (!find_run_folder(opened)) return std::nullopt;
  const results::JsonSource source = find_source(opened, flip, name, option);
  const auto json = find_stored(opened, flip, source, option, warn);
  return json ? std::optional(results::from_json<Result>(*json, source)) : std::nullopt;
}

// Repeats the warning of a result that the evaluated split contradicts, which the file `name` of
// the run has; "" for none.
void repeat_contradiction(const OpenedModel& opened, const std::string& name,
                          const std::string& contradiction);

}  // namespace trainer::inference
