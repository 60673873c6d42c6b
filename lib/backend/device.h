// Memory, streams and events of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace trainer::backend {

// A range of a device's memory. Only the backend that allocated it may read or write through
// `address`.
struct Span {
  std::byte* address = nullptr;
  std::size_t bytes = 0;

  explicit operator bool() const { return address != nullptr; }
  // Returns the range from `offset` on; an empty span for an empty span.
  Span from(std::size_t offset) const {
    return address == nullptr ? Span{} : Span{address + offset, bytes - offset};
  }
};

// A move-only block of device memory. The backend that allocated it frees it and must outlive it.
// The caller must not free it while launched work uses it.
class Buffer {
 public:
  using Free = std::function<void(std::byte*)>;

  Buffer() = default;
  Buffer(Span span, Free free) : memory_(span.address, std::move(free)), bytes_(span.bytes) {}

  Span span() const { return {memory_.get(), bytes()}; }
  std::size_t bytes() const { return memory_ ? bytes_ : 0; }

 private:
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

// A point in the work of a stream, which Stream::record() sets. An event that was never set is
// done.
class Event {
 public:
  virtual ~Event() = default;
  // Returns whether the work before it is done. Any thread may call this.
  virtual bool done() const = 0;
  // Blocks until done(). Rethrows what the work before it threw.
  virtual void wait() const = 0;
};

// The times in which a device had no work of a stream between one program and the next, by its own
// clock. Only programs count that the host launched without having waited for the stream since the
// program before.
struct StreamGaps {
  std::int64_t count = 0;
  double seconds = 0;  // all gaps together
};

// A queue of device work, done in order; work of different streams overlaps. One thread at a time
// may use a stream.
class Stream {
 public:
  virtual ~Stream() = default;
  // Both copy in stream order; 0 bytes are a no-op for any pointer. Host memory must stay valid,
  // and the source unchanged, until the copy is done: if not pinned, until synchronize() returns or
  // throws.
  virtual void upload(Span to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, Span from, std::size_t bytes) = 0;
  // Sets the event, of the same backend, to the point after all work enqueued so far.
  virtual void record(Event& event) = 0;
  // Work enqueued from now on starts after the event, which may be of another stream of the same
  // backend.
  virtual void wait_for(const Event& event) = 0;
  // Blocks until all work enqueued so far is done. Rethrows what that work threw.
  virtual void synchronize() = 0;
  // Returns the gaps between the programs launched so far, without the newest; empty if the device
  // has no clock.
  virtual std::optional<StreamGaps> gaps() { return std::nullopt; }
};

}  // namespace trainer::backend
