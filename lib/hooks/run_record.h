// Writes run.json, the origin and end of a run, for programs that compare runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/notice.h"
#include "hooks/hooks.h"

namespace trainer::hooks {

// The facts besides the config that a run depends on.
struct RunOrigin {
  std::string program;           // name, version and commit
  std::string compiler, libc;    // names and versions
  std::string device;            // name, and versions of its libraries
  std::string processor;         // its model
  std::int64_t cores = 1;        // cores that the process may use
  std::string machine;           // the caches and memory that these cores share
  std::string model;             // the backbone, the layers and the parameters
  std::string data_fingerprint;  // the fingerprint of the training split
  // The samples of each split and, where labels are known without reading images, of each class.
  struct SplitSize {
    Split split = Split::kTrain;
    std::int64_t samples = 0;
    std::vector<std::int64_t> classes;
  };
  std::vector<SplitSize> splits;
  std::vector<Notice> data_notices;  // the notices that were printed at the start
  // The bytes that the model takes on a device, by purpose: the plan of one rank of this process.
  std::vector<std::pair<std::string, std::int64_t>> memory;
  std::string base;  // the folder to which relative paths belong, relative to the run folder
  bool on_cpu = true;
  std::optional<double> price_per_hour;  // run.price_per_hour
};

// Writes run.json into the run folder at the start, before every checkpoint and at the end. A
// resumed run adds a session to those in the file. "finished" is written when the run has ended by
// itself, and not after a signal.
std::unique_ptr<Hook> make_run_record_hook(const RunOrigin& origin);
// Returns the steps of the run that run.json in the folder records as finished; nothing for a run
// that is not, and for a damaged file.
std::optional<std::int64_t> read_finished_steps(const Path& run);

}  // namespace trainer::hooks
