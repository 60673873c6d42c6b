// Two byte streams, one each way, in memory that two processes share. Inside the folder.
#pragma once

#include <cstddef>
#include <span>

#include "cluster/transport/socket.h"

namespace trainer::cluster {

// One end of them. Messages follow each other in each stream; both ends know their lengths. A
// message starts at a cache line, so that its elements are aligned. The memory wakes nobody: an end
// that is about to sleep sets a flag, and the other one reads it after it has written or read.
class SharedRing {
 public:
  static constexpr std::size_t kCapacity = 256 << 10;  // bytes of a stream

  // A descriptor of memory for both ends, to be handed to the other process. It cannot shrink, and
  // its pages are there. No descriptor where the system has none to give.
  static Socket make_memory();
  // Returns whether a descriptor of another process is from make_memory().
  static bool is_memory(const Socket& memory);

  // `end` is 0 or 1. The descriptor may be closed afterwards. Throws std::runtime_error.
  SharedRing(const Socket& memory, int end);
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  // Copies as much as there is room for and returns the number of bytes. All parts of a message but
  // the last are whole cache lines. Throws std::runtime_error when the state of the other end is
  // impossible.
  std::size_t write(std::span<const std::byte> out);
  // Returns at most `most` received bytes as one piece; more may follow at the start of the memory.
  // `most` is what is left of the message, or whole cache lines.
  std::span<const std::byte> readable(std::size_t max_bytes) const;
  // The first `bytes` of readable() may be overwritten.
  void consume(std::size_t bytes);

  bool has_room() const;
  bool has_data() const;

  // This end asks to be woken; has_room() and has_data() must be looked at again before it sleeps.
  void begin_sleep();
  void end_sleep();
  // Returns whether the other end must be woken. Called after write() and consume().
  bool must_wake();

 private:
  struct Side;
  struct Memory;
  Side& own_side() const;
  Side& theirs() const;
  std::byte* find_data(int end) const;

  Memory* memory_;
  int end_;
};

}  // namespace trainer::cluster
