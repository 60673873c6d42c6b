// A message for accesses to device memory that are none of an operation's business.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "cuda/fake_runtime/world.h"

namespace fake {

thread_local const char* running_operation = nullptr;

namespace {

// Written under the lock, read by the handler without it. What does not fit goes without a message.
struct Range {
  std::atomic<const char*> begin{nullptr};
  std::atomic<std::size_t> bytes{0};
};
constexpr std::size_t kMaxRanges = 1 << 14;
std::array<Range, kMaxRanges> ranges;
std::atomic<std::size_t> range_count{0};
struct sigaction before_segv, before_bus;

bool is_watched(const char* address) {
  const std::size_t count = range_count.load();
  for (std::size_t i = 0; i < count; ++i) {
    const char* begin = ranges[i].begin.load();
    if (address >= begin && address < begin + ranges[i].bytes.load()) return true;
  }
  return false;
}

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Says what happened and lets the next handler end the program: the access is made again.
void handle(int signal, siginfo_t* info, void*) {
  if (is_watched(static_cast<const char*>(info->si_addr))) {
    if (running_operation) {
      write_text("fake cuda: the operation '");
      write_text(running_operation);
      write_text("' touched memory that was freed, is of another device, or is next to its own\n");
    } else {
      write_text("fake cuda: the host touched device memory, or pinned memory that was freed\n");
    }
  }
  sigaction(signal, signal == SIGSEGV ? &before_segv : &before_bus, nullptr);
}

void install(int signal, struct sigaction& before) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle) return;
  before = now;
  struct sigaction mine {};
  mine.sa_sigaction = handle;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  sigaction(signal, &mine, nullptr);
}

}  // namespace

void watch_range(const char* begin, std::size_t bytes) {
  install(SIGSEGV, before_segv);
  install(SIGBUS, before_bus);
  const std::size_t at = range_count.load();
  if (at == kMaxRanges) return;
  ranges[at].begin.store(begin);
  ranges[at].bytes.store(bytes);
  range_count.store(at + 1);
}

}  // namespace fake
