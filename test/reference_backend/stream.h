// A stream of the reference backend: work runs in order on a thread of its own, a little after it
// was given.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/device.h"

namespace trainer::test {

// How far a stream has come; outlives it for events.
struct StreamProgress {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t given = 0, done = 0;  // pieces of work
  std::exception_ptr error;           // that of the first that failed; later ones are not run

  // Blocks until `count` pieces are done; rethrows the error.
  void wait(std::uint64_t count);
  // All that was given so far.
  void wait_all();
};

class ReferenceEvent : public backend::Event {
 public:
  bool done() const override;
  void wait() const override;

  std::shared_ptr<StreamProgress> progress;  // null: nothing to wait for
  std::uint64_t count = 0;
};

class ReferenceStream final : public backend::Stream {
 public:
  ReferenceStream();
  // Work that was given is done first.
  ~ReferenceStream() override;

  void upload(backend::Span to, const void* from, std::size_t bytes) override;
  void download(void* to, backend::Span from, std::size_t bytes) override;
  void record(backend::Event& event) override;
  void wait_for(const backend::Event& event) override;
  void synchronize() override;

  void enqueue(std::function<void()> work);
  const std::shared_ptr<StreamProgress>& progress() const { return progress_; }

 private:
  void serve();

  std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  std::deque<std::function<void()>> queue_;  // guarded by the mutex of progress_
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace trainer::test
