// Operation graphs, computed.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <map>

#include "cuda/fake_cudnn/descriptor.h"

namespace fake {

// What an engine does to the numbers.
enum class Arithmetic {
  kExact,      // sums in double, each tensor rounded to its type
  kTf32,       // also rounds what the convolution reads to TF32
  kMustNotRun  // leaves NaN in what the graph writes
};

// Addresses by tensor identifier.
using Addresses = std::map<std::int64_t, void*>;

// Throws Refusal unless each tensor that is not virtual has an address of its alignment, and each
// address is a tensor's.
void check_addresses(const Descriptor& graph, const Addresses& addresses);

// Runs the operations in their order. Touches device memory.
void execute(const Descriptor& graph, const Addresses& addresses, Arithmetic arithmetic);

}  // namespace fake
