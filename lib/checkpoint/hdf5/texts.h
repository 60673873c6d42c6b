// Reads texts of attributes. Internal to checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5/input.h"

namespace trainer::checkpoint::hdf5 {

// The objects of the global heap, which holds texts of variable length, by the address of their
// collection and by number.
using GlobalHeap = std::map<std::uint64_t, std::map<std::uint32_t, View>>;

// Returns the texts of an attribute's message. `where` names the attribute in errors.
std::vector<std::string> read_texts(Input& input, GlobalHeap& heap, View attribute,
                                    const std::string& where);

}  // namespace trainer::checkpoint::hdf5
