// A thread on which the engine of a model is made, used and destroyed.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace trainer::library {

// The backend changes settings of the thread that calls it: the processor's rounding of small
// numbers, and OpenMP's number of threads. They stay away from the threads of the caller.
class EngineThread {
 public:
  EngineThread();
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Runs `work` on the thread and waits for it. Rethrows its exception. Several threads may call it
  // at once, and take turns.
  void run(const std::function<void()>& work);

 private:
  void serve();

  std::mutex turn_;  // held by the caller whose work runs
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;  // null: there is nothing to do
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trainer::library
