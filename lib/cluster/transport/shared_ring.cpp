#include "cluster/transport/shared_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace trainer::cluster {
namespace {

constexpr std::size_t kLine = 64;

std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

// The state that one end publishes. It counts whole lines since the start.
struct SharedRing::Side {
  alignas(kLine) std::atomic<std::uint64_t> written;  // into the own stream
  alignas(kLine) std::atomic<std::uint64_t> read;     // of the other's
  alignas(kLine) std::atomic<std::uint32_t> sleeps;
};

struct SharedRing::Memory {
  Side sides[2];
  alignas(4096) std::byte data[2][kCapacity];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

Socket SharedRing::make_memory() {
  Socket memory(::memfd_create("trainer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return {};
  // Without pages of its own, a full memory would end a process in the middle of a write.
  if (::posix_fallocate(memory.get(), 0, sizeof(Memory)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return {};
  }
  return memory;
}

bool SharedRing::is_memory(const Socket& memory) {
  struct stat status {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(memory.get(), &status) == 0 &&
         status.st_size == static_cast<off_t>(sizeof(Memory));
}

SharedRing::SharedRing(const Socket& memory, int end) : end_(end) {
  void* address =
      ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) {
    throw std::runtime_error(std::string("shared memory cannot be used: ") + std::strerror(errno));
  }
  // All zeros: the counts at the start. The atomics are plain words.
  memory_ = static_cast<Memory*>(address);
}

SharedRing::~SharedRing() { ::munmap(memory_, sizeof(Memory)); }

SharedRing::Side& SharedRing::own_side() const { return memory_->sides[end_]; }
SharedRing::Side& SharedRing::theirs() const { return memory_->sides[1 - end_]; }
std::byte* SharedRing::find_data(int end) const { return memory_->data[end]; }

std::size_t SharedRing::write(std::span<const std::byte> out) {
  std::uint64_t at = own_side().written.load(std::memory_order_relaxed);
  const std::uint64_t used = at - theirs().read.load(std::memory_order_acquire);
  if (used > kCapacity) throw std::runtime_error("the other end claims to have read too much");
  const std::size_t room = kCapacity - used;
  const std::size_t bytes = std::min(room, out.size());
  if (bytes == 0) return 0;
  const std::size_t place = at % kCapacity;
  const std::size_t first = std::min(bytes, kCapacity - place);
  std::memcpy(find_data(end_) + place, out.data(), first);
  std::memcpy(find_data(end_), out.data() + first, bytes - first);
  own_side().written.store(at + whole_lines(bytes), std::memory_order_seq_cst);
  return bytes;
}

std::span<const std::byte> SharedRing::readable(std::size_t max_bytes) const {
  const std::uint64_t at = own_side().read.load(std::memory_order_relaxed);
  const std::size_t there = theirs().written.load(std::memory_order_acquire) - at;
  const std::size_t place = at % kCapacity;
  return {find_data(1 - end_) + place, std::min({there, max_bytes, kCapacity - place})};
}

void SharedRing::consume(std::size_t bytes) {
  const std::uint64_t at = own_side().read.load(std::memory_order_relaxed);
  own_side().read.store(at + whole_lines(bytes), std::memory_order_seq_cst);
}

bool SharedRing::has_room() const {
  return own_side().written.load(std::memory_order_relaxed) -
             theirs().read.load(std::memory_order_seq_cst) <
         kCapacity;
}

bool SharedRing::has_data() const {
  return theirs().written.load(std::memory_order_seq_cst) !=
         own_side().read.load(std::memory_order_relaxed);
}

void SharedRing::begin_sleep() { own_side().sleeps.store(1, std::memory_order_seq_cst); }
void SharedRing::end_sleep() { own_side().sleeps.store(0, std::memory_order_relaxed); }

bool SharedRing::must_wake() {
  return theirs().sleeps.load(std::memory_order_seq_cst) != 0 &&
         theirs().sleeps.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace trainer::cluster
