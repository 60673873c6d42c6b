// Counts the work of a device that is only planned for (`plan --device`). The executable goes
// through a call on this device, and where kernels, copies and calls of libraries would be enqueued
// they are counted, so that no list of kernels has to follow the code. A test compares the count
// with the graph that the fake GPU captured.
#pragma once

#include <cstdint>

namespace trainer::backend::cuda {

// While an object of this class exists, work that this thread gives to a device is counted instead:
// nothing is enqueued.
class CountedWork {
 public:
  CountedWork() : before_(innermost) { innermost = this; }
  ~CountedWork() { innermost = before_; }
  CountedWork(const CountedWork&) = delete;
  CountedWork& operator=(const CountedWork&) = delete;

  // Returns the innermost object of this thread; null: work is enqueued.
  static CountedWork* current() { return innermost; }

  std::int64_t kernels = 0;
  // Calls of cuDNN and cuBLASLt. A call counts as one kernel, which is the least that it needs.
  std::int64_t library_calls = 0;
  std::int64_t copies = 0;  // and fills

 private:
  CountedWork* before_;
  inline static thread_local CountedWork* innermost = nullptr;
};

}  // namespace trainer::backend::cuda
