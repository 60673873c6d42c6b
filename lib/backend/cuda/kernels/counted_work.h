// Counts the work of a device that is only planned for.
// Reasons: lib/decisions/backend.md#a-plan-counts-what-would-be-enqueued.
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
  std::int64_t library_calls = 0;  // of cuDNN and cuBLASLt
  std::int64_t copies = 0;         // and fills

 private:
  CountedWork* before_;
  inline static thread_local CountedWork* innermost = nullptr;
};

}  // namespace trainer::backend::cuda
