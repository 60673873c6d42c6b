// Lanes: worker threads that each compute a micro-batch of their own, side by side.
//
// One thread a core with single-threaded primitives needs no barrier inside a layer, keeps each
// core's caches warm, and sums in an order that does not depend on timing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trainer::backend::cpu {

// Waits by spinning, then by yielding: lanes meet many times a millisecond.
class Barrier {
 public:
  // Blocks until `parties` threads have called wait. All callers pass the same number.
  void wait(int parties);

 private:
  std::atomic<int> arrived_{0};
  std::atomic<int> round_{0};
};

class Lanes {
 public:
  // `threads_per_lane` bounds what a primitive may use inside a lane.
  Lanes(int lanes, int threads_per_lane);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }
  int threads_per_lane() const { return threads_per_lane_; }
  // Runs work(lane) on every lane at once, lane 0 on the calling thread. Rethrows the first error
  // by lane number. Work that throws must not leave another lane waiting in a barrier.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int lane);

  int threads_per_lane_;
  std::vector<std::thread> workers_;
  std::vector<std::exception_ptr> errors_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace trainer::backend::cpu
