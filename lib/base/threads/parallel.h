// Runs loops over independent items on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace trainer {

// Calls work(i) once for each i below `count`, on as many threads as there are available cores, the
// caller's included; each thread takes the next index as soon as it is free. After an exception no
// further index is taken; the first one is rethrown once all threads have ended.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace trainer
