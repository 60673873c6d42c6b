#include "library/engine_thread.h"

#include <csignal>
#include <utility>

#include "base/threads/denormals.h"

namespace trainer::library {
namespace {

// The threads of a handle, which this thread starts, leave signals to the threads of the program.
// Signals of faults are for the thread that causes them.
void block_signals() {
  sigset_t signals;
  ::sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    ::sigdelset(&signals, fault);
  }
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

}  // namespace

EngineThread::EngineThread() : thread_([this] { serve(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EngineThread::run(const std::function<void()>& work) {
  const std::lock_guard turn(turn_);
  std::unique_lock lock(mutex_);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void EngineThread::serve() {
  block_signals();
  flush_denormals();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || work_ != nullptr; });
    if (stop_) return;
    try {
      (*work_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace trainer::library
