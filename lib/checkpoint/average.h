// Averages the checkpoints of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Returns the last `count` checkpoints of a run folder, oldest first. Throws DataError if it has
// fewer.
std::vector<Saved> last_checkpoints(const Path& run, std::int64_t count);
// Returns the mean of the parameters, moving statistics and weight averages of checkpoints, in
// float32 and without optimizer slots, with the metadata of the last one. Returns nothing if a
// process that trains in the run has removed one of them. Throws an Error with kExitData if one is
// damaged or they do not have the same tensors.
std::optional<TensorFile> average_checkpoints(const std::vector<Saved>& checkpoints);

// Returns whether a tensor is a slot of another one among `names`: an optimizer's or an average
// ("dense/kernel/m", "dense/kernel/average" of "dense/kernel").
bool is_slot(const std::string& name, const std::set<std::string>& names);

}  // namespace trainer::checkpoint
