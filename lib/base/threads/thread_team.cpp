#include "base/threads/thread_team.h"

#include <utility>

namespace trainer {

std::string handled_message() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown error";
  }
}

DeviceError no_thread(const std::system_error& error, std::int64_t started, std::int64_t wanted,
                      const std::string& key) {
  return DeviceError("the system gives only ", started, " of ", wanted, " threads (", error.what(),
                     "); lower ", key,
                     ", or raise the limit on processes (ulimit -u, pids.max of the container)");
}

ThreadTeam::ThreadTeam(int count, std::function<void(int)> start) : start_(std::move(start)) {
  for (int member = 1; member < count; ++member) {
    try {
      threads_.emplace_back([this, member] { serve(member); });
    } catch (const std::system_error& error) {
      end_all();
      throw no_thread(error, member, count - 1, "parallel.threads");
    }
  }
}

ThreadTeam::~ThreadTeam() { end_all(); }

void ThreadTeam::end_all() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const std::function<void(int)>& work, const std::function<void(int)>& failed) {
  work_ = &work;
  failed_ = &failed;
  error_ = nullptr;
  caused_ = false;
  running_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  this->work(0);
  spin_until([&] { return running_.load(std::memory_order_acquire) == 0; });
  if (error_) std::rethrow_exception(error_);
}

void ThreadTeam::work(int member) {
  try {
    (*work_)(member);
  } catch (const MemberFailed&) {
    keep(member, true);
  } catch (...) {
    keep(member, false);
  }
}

// Keeps the exception that is being handled, unless an earlier one takes precedence. `caused` is
// true for an exception that follows from the failure of another member, which may be kept later.
void ThreadTeam::keep(int member, bool caused) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !error_;
    if (first || (caused_ && !caused)) {
      error_ = std::current_exception();
      caused_ = caused;
    }
  }
  if (first && *failed_) (*failed_)(member);
}

void ThreadTeam::serve(int member) {
  if (start_) start_(member);
  std::uint64_t seen = 0;
  for (;;) {
    // The next run() often follows soon, so that the thread spins for a while before it sleeps.
    for (int i = 0; i < 2000 && generation_.load(std::memory_order_acquire) == seen; ++i) {
      __builtin_ia32_pause();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
    }
    if (stop_) return;
    ++seen;
    work(member);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace trainer
