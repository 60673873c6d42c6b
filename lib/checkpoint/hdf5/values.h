// Texts of attributes and numbers of datasets. Internal to checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hdf5/object.h"

namespace trainer::checkpoint::hdf5 {

// The objects of the global heap, where texts of variable length lie: by address of their
// collection and by number.
using GlobalHeap = std::map<std::uint64_t, std::map<std::uint32_t, View>>;

// The texts of an attribute's message; `where` names it in errors.
std::vector<std::string> read_texts(Input& input, GlobalHeap& heap, View attribute,
                                    const std::string& where);

// The numbers of a dataset as float32; `path` names it in errors. Memory is taken only for numbers
// whose bytes the file holds.
Tensor read_numbers(Input& input, const Object& dataset, const std::string& path,
                    const std::string& name);

}  // namespace trainer::checkpoint::hdf5
