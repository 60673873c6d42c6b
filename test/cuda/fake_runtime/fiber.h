// What runs the operations of a stream one after the other: a thread of its own to the thread
// sanitizer.
#pragma once

#include <functional>

namespace fake {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `work`, which must not throw, on the calling thread. Under the thread sanitizer the work
  // runs as the fiber, which nothing orders with the calling thread. It then has a stack of its
  // own: on the caller's stack, the sanitizer would report a race with every earlier call of the
  // thread that had used the same addresses.
  void run(const std::function<void()>& work);

  unsigned priority = 0;  // the scheduler draws it again and again

 private:
  void* handle_ = nullptr;  // that of the thread sanitizer; null in a program without it
  void* stack_ = nullptr;
};

}  // namespace fake
