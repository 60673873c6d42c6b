// The memory of the machine.
#pragma once

#include <cstdint>

namespace trainer {

// Bytes that programs may still take without swapping: of the machine, or of the control group when
// that is less. 0 where the system does not tell.
std::int64_t available_memory();

}  // namespace trainer
