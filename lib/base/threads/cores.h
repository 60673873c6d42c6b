// The processor cores of this process.
#pragma once

#include <sched.h>

#include <span>
#include <vector>

namespace trainer {

// The cores this process may use: containers and taskset give fewer than the machine has. At least
// one.
std::vector<int> available_cores();

// Keeps the calling thread on these cores; where that is not allowed, nothing changes.
void pin_thread(std::span<const int> cores);

// Keeps the calling thread on these cores for as long as the object lives. Threads started
// meanwhile inherit it.
class Pinned {
 public:
  explicit Pinned(std::span<const int> cores);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace trainer
