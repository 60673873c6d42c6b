// Reads numbers of datasets. Internal to checkpoint.
#pragma once

#include <string>

#include "checkpoint/hdf5/object.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint::hdf5 {

// Returns the numbers of a dataset as float32; with kShapes none, once the file can hold them.
// `path` names the dataset in errors. Allocates memory only for numbers whose bytes the file holds.
Tensor read_numbers(Input& input, const Object& dataset, const std::string& path,
                    const std::string& name, Content content);

}  // namespace trainer::checkpoint::hdf5
