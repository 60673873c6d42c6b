// Reads the files that torch.save() writes (.pth, .pt, .th, .bin), without running code.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Entries of a training checkpoint that hold a state dict, in the order in which they are looked
// for: averages of weights come before the weights, as they are the better classifiers.
inline constexpr const char* kStateDictEntries[] = {"state_dict_ema", "model_ema", "ema_state_dict",
                                                    "state_dict", "model"};

struct PyTorchFile {
  std::vector<Tensor> tensors;
  std::vector<std::string> notes;  // what was chosen, removed or left out, for the user
};

// Returns whether the file has the layout of PyTorch before version 1.6: a magic number, pickles
// and storages one after another.
bool has_old_pytorch_layout(const Path& path);
// Returns whether a zip archive is a file of PyTorch 1.6 or newer. Throws DataError for a damaged
// archive.
bool is_pytorch_archive(const Path& path);

// Returns the tensors of the state dict of a file in either layout. The file is a state dict, or a
// dict with state dicts: then it is the entry named `entry`, or if that is empty the first of
// kStateDictEntries. A prefix that the names of all floating-point tensors share, such as "module."
// of DataParallel, is removed. Throws DataError for a damaged file, one without a state dict, and
// objects among the tensors.
//
// Reads one storage of tensors at a time: beside the tensors, the largest is in memory.
PyTorchFile read_pytorch(const Path& path, const std::string& entry, Content content);

}  // namespace trainer::checkpoint
