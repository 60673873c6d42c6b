#include "reference_backend/stream.h"

#include <chrono>
#include <cstring>

namespace trainer::test {
namespace {

// Work is late on purpose: a caller that does not wait for it reads what is not there yet.
constexpr auto kDelay = std::chrono::microseconds(50);
constexpr int kPoison = 0xff;  // not a number, in every floating-point type

}  // namespace

void StreamProgress::wait(std::uint64_t count) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done >= count; });
  if (error) std::rethrow_exception(error);
}

void StreamProgress::wait_all() {
  std::uint64_t count = 0;
  {
    const std::lock_guard lock(mutex);
    count = given;
  }
  wait(count);
}

bool ReferenceEvent::done() const {
  if (!progress) return true;
  const std::lock_guard lock(progress->mutex);
  return progress->done >= count;
}

void ReferenceEvent::wait() const {
  if (progress) progress->wait(count);
}

ReferenceStream::ReferenceStream() : thread_([this] { serve(); }) {}

ReferenceStream::~ReferenceStream() {
  {
    const std::lock_guard lock(progress_->mutex);
    stop_ = true;
  }
  progress_->changed.notify_all();
  thread_.join();
}

void ReferenceStream::upload(backend::Span to, const void* from, std::size_t bytes) {
  if (bytes > 0) enqueue([=] { std::memcpy(to.address, from, bytes); });
}

void ReferenceStream::download(void* to, backend::Span from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memset(to, kPoison, bytes);
  enqueue([=] { std::memcpy(to, from.address, bytes); });
}

void ReferenceStream::record(backend::Event& event) {
  auto& own = dynamic_cast<ReferenceEvent&>(event);
  const std::lock_guard lock(progress_->mutex);
  own.progress = progress_;
  own.count = progress_->given;
}

void ReferenceStream::wait_for(const backend::Event& event) {
  enqueue([other = dynamic_cast<const ReferenceEvent&>(event)] { other.wait(); });
}

void ReferenceStream::synchronize() { progress_->wait_all(); }

void ReferenceStream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(progress_->mutex);
  queue_.push_back(std::move(work));
  ++progress_->given;
  progress_->changed.notify_all();
}

void ReferenceStream::serve() {
  std::unique_lock lock(progress_->mutex);
  for (;;) {
    progress_->changed.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    const bool failed = progress_->error != nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      std::this_thread::sleep_for(kDelay);
      if (!failed) work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !progress_->error) progress_->error = error;
    ++progress_->done;
    progress_->changed.notify_all();
  }
}

}  // namespace trainer::test
