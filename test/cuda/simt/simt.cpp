// The scheduler of simt.h. Compiled without sanitizers: they watch the kernels, not this file.
#include "simt/simt.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_runtime/tsan.h"
#include "simt/device.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// Present when the program is built with the sanitizer they belong to.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void**, const void*, std::size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*);

// Stores the callee-saved registers on the stack and the stack pointer in *from, and goes on at the
// stack pointer `to`. swapcontext() would call the kernel twice for the signal mask.
void simt_switch(void** from, void* to);
}
#ifndef __x86_64__
#error "simt.cpp switches fibers on x86-64 only"
#endif
asm(R"(
.text
.type simt_switch, @function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch, . - simt_switch
)");

namespace simt {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr unsigned kMaxThreads = 1024;

enum class State { kReady, kAtBarrier, kAtShuffle, kDone };

// A stack that runs threads of a block, one after another as long as none of them waits.
struct Fiber {
  std::unique_ptr<char[]> stack;
  void* stack_pointer = nullptr;
  void *asan = nullptr, *tsan = nullptr;
};

struct Thread {
  uint3 index{};
  State state = State::kReady;
  Site site;
  Fiber* fiber = nullptr;  // null until the thread starts
  unsigned mask = 0;
  std::uint64_t value = 0;
};

struct Warp {
  unsigned first = 0, last = 0;  // threads
  unsigned lanes = 0;            // a bit for each thread
  bool done = false;             // all of them are
  // What the lanes of the last shuffle gave it. No other shuffle of the warp ends before these
  // lanes have gone on, and so have read it.
  std::uint64_t received[32]{};
  char sync = 0;
};

// Copies of a file's name may have several addresses.
bool same_place(const Site& a, const Site& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

void release(void* at) {
  if (__tsan_release) __tsan_release(at);
}
void acquire(void* at) {
  if (__tsan_acquire) __tsan_acquire(at);
}

class Scheduler {
 public:
  Scheduler() : threads_(kMaxThreads) {}
  ~Scheduler() { abandon(); }

  void run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                const std::function<void()>& body);
  void wait(State state, Site site);
  [[noreturn]] void fail(const char* what, Site at) const;
  void enter_fiber();

  Thread& running() { return threads_[running_]; }
  unsigned lane() const { return running_ % 32; }
  Warp& warp() { return warps_[running_ / 32]; }

  std::unique_ptr<char[]> shared;
  std::uint64_t seed = 1;
  char barrier_sync = 0;

 private:
  void number_threads(dim3 block);
  void fill_shared_memory(std::size_t bytes);
  void run_block(std::mt19937_64& random);
  bool run_warp(Warp& warp, std::mt19937_64& random);
  bool wake_warp(Warp& warp);
  void wake_block();
  void resume(unsigned thread);
  void start(unsigned thread);
  Fiber* take_fiber();
  void abandon();

  std::vector<Thread> threads_;  // of the running block
  Warp warps_[kMaxThreads / 32];
  unsigned count_ = 0;
  unsigned running_ = 0;
  std::vector<unsigned> order_;    // of the warps that are not done
  std::vector<unsigned> pending_;  // threads of the running warp that have not started; last first
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  const std::function<void()>* body_ = nullptr;
  const char* kernel_ = "";
  std::exception_ptr error_;
  std::uint64_t grids_ = 0;
  void* stack_pointer_ = nullptr;
  void *tsan_ = nullptr, *asan_ = nullptr;
  const void* asan_stack_ = nullptr;
  std::size_t asan_size_ = 0;
  char start_sync_ = 0, end_sync_ = 0;
};

Scheduler& create_scheduler() {
  struct Owner {
    std::unique_ptr<Scheduler> owned = std::make_unique<Scheduler>();
    ~Owner() {
      const fake::Unwatched unwatched;
      owned.reset();
    }
  };
  static thread_local const Owner owner;
  return *owner.owned;
}

// A pointer: what an OS thread finds without a call, as `place`, must be small in a library that is
// opened later.
Scheduler& scheduler() {
  static thread_local constinit Scheduler* created __attribute__((tls_model("initial-exec"))) =
      nullptr;
  if (created == nullptr) created = &create_scheduler();
  return *created;
}

void Scheduler::fail(const char* what, Site at) const {
  const uint3 b = place.block, t = threads_[running_].index;
  std::ostringstream text;
  text << at.file_name() << ':' << at.line() << ": " << what << ", in kernel " << kernel_
       << ", block (" << b.x << ", " << b.y << ", " << b.z << "), thread (" << t.x << ", " << t.y
       << ", " << t.z << ')';
  throw Error(text.str());
}

// Leaves the running thread until it can go on.
void Scheduler::wait(State state, Site site) {
  Thread& thread = running();
  thread.state = state;
  thread.site = site;
  Fiber& fiber = *thread.fiber;
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(tsan_, 1);
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&fiber.asan, asan_stack_, asan_size_);
  }
  simt_switch(&fiber.stack_pointer, stack_pointer_);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(fiber.asan, nullptr, nullptr);
  }
}

// What a fiber does from its first switch on.
void Scheduler::enter_fiber() {
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(nullptr, &asan_stack_, &asan_size_);
  }
  for (;;) {
    acquire(&start_sync_);
    Fiber* fiber = running().fiber;
    try {
      (*body_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    running().state = State::kDone;
    // To ThreadSanitizer a fiber is one thread, so there each runs one thread of a block only.
    if (!__tsan_create_fiber && !error_ && !pending_.empty()) {
      running_ = pending_.back();
      pending_.pop_back();
      running().fiber = fiber;
      place.thread = &running().index;
      continue;
    }
    if (!__tsan_create_fiber) free_.push_back(fiber);
    release(&end_sync_);
    wait(State::kDone, running().site);
  }
}

extern "C" void simt_enter_fiber() { scheduler().enter_fiber(); }

Fiber* Scheduler::take_fiber() {
  if (!free_.empty()) {
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
  }
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber* fiber = fibers_.back().get();
  fiber->stack.reset(new char[kStackBytes]);
  if (__tsan_create_fiber) fiber->tsan = __tsan_create_fiber(0);
  // The stack is as simt_switch() leaves one: six registers, then where to go on. The ABI wants the
  // stack to be at 8 modulo 16 where a function begins.
  const auto top = reinterpret_cast<std::uintptr_t>(fiber->stack.get() + kStackBytes) & ~15ul;
  auto* words = reinterpret_cast<std::uintptr_t*>(top - 64);
  std::fill(words, words + 8, 0);
  words[6] = reinterpret_cast<std::uintptr_t>(&simt_enter_fiber);
  fiber->stack_pointer = words;
  return fiber;
}

void Scheduler::start(unsigned thread) {
  threads_[thread].fiber = take_fiber();
  resume(thread);
}

void Scheduler::resume(unsigned thread) {
  running_ = thread;
  place.thread = &threads_[thread].index;
  const Fiber& fiber = *threads_[thread].fiber;
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(fiber.tsan, 1);
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&asan_, fiber.stack.get(), kStackBytes);
  }
  simt_switch(&stack_pointer_, fiber.stack_pointer);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(asan_, nullptr, nullptr);
  if (error_) {
    acquire(&end_sync_);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

// Lets lanes that wait at a shuffle go on once no lane of the warp runs. False: there are none.
bool Scheduler::wake_warp(Warp& warp) {
  const unsigned first = warp.first, last = warp.last, full = warp.lanes;
  unsigned waiting = 0;
  const Thread* one = nullptr;
  for (unsigned i = first; i < last; ++i) {
    if (threads_[i].state == State::kReady) return false;
    if (threads_[i].state != State::kAtShuffle) continue;
    waiting |= 1u << (i - first);
    one = &threads_[i];
    running_ = i;
  }
  if (one == nullptr) return false;
  const unsigned mask = one->mask & full;
  if ((waiting & mask) != mask)
    fail("a shuffle that some lanes of its mask do not reach", one->site);
  for (unsigned i = first; i < last; ++i) {
    Thread& thread = threads_[i];
    if ((mask >> (i - first) & 1u) == 0) continue;
    if ((thread.mask & full) != mask || !same_place(thread.site, one->site)) {
      fail("a shuffle while other lanes of its mask are at another", one->site);
    }
    warp.received[i - first] = thread.value;
    thread.state = State::kReady;
  }
  return true;
}

// Lets the block go on that waits at a barrier as a whole.
void Scheduler::wake_block() {
  const auto at_barrier = [](const Thread& thread) { return thread.state == State::kAtBarrier; };
  const auto end = threads_.begin() + count_;
  const auto first = std::find_if(threads_.begin(), end, at_barrier);
  running_ = static_cast<unsigned>(first - threads_.begin());
  for (auto thread = threads_.begin(); thread != end; ++thread) {
    if (!at_barrier(*thread)) fail("a barrier that threads of the block do not reach", first->site);
    if (!same_place(thread->site, first->site)) {
      fail("a barrier while other threads of the block are at another", first->site);
    }
  }
  for (auto thread = threads_.begin(); thread != end; ++thread) thread->state = State::kReady;
}

// Runs each lane of a warp that can run until it waits. False: none could.
bool Scheduler::run_warp(Warp& warp, std::mt19937_64& random) {
  unsigned lanes[32], ready = 0;
  warp.done = true;
  for (unsigned i = warp.first; i < warp.last; ++i) {
    if (threads_[i].state == State::kReady) lanes[ready++] = i;
    if (threads_[i].state != State::kDone) warp.done = false;
  }
  if (warp.done) return false;
  std::shuffle(lanes, lanes + ready, random);
  const bool ran = ready > 0;
  pending_.clear();
  for (unsigned i = 0; i < ready; ++i) {
    if (threads_[lanes[i]].fiber == nullptr) {
      pending_.push_back(lanes[i]);
    } else {
      resume(lanes[i]);
    }
  }
  while (!pending_.empty()) {
    const unsigned next = pending_.back();
    pending_.pop_back();
    start(next);
  }
  return wake_warp(warp) || ran;
}

// Warps are drawn by lot, so that one may run far ahead of the others between barriers.
void Scheduler::run_block(std::mt19937_64& random) {
  if (__tsan_get_current_fiber) tsan_ = __tsan_get_current_fiber();
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].state = State::kReady;
    threads_[i].fiber = nullptr;
  }
  release(&start_sync_);
  order_.resize((count_ + 31) / 32);
  std::iota(order_.begin(), order_.end(), 0u);
  for (const unsigned warp : order_) warps_[warp].done = false;
  while (!order_.empty()) {
    std::shuffle(order_.begin(), order_.end(), random);
    bool ran = false;
    for (const unsigned warp : order_) {
      ran = run_warp(warps_[warp], random) || ran;
      if (ran && random() % 2 == 0) break;
    }
    std::erase_if(order_, [this](unsigned warp) { return warps_[warp].done; });
    if (!ran && !order_.empty()) wake_block();
  }
  acquire(&end_sync_);
  if (!__tsan_create_fiber) return;
  for (unsigned i = 0; i < count_; ++i) free_.push_back(threads_[i].fiber);
}

// Forgets the fibers; none of them is running.
void Scheduler::abandon() {
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->tsan != nullptr) __tsan_destroy_fiber(fiber->tsan);
  }
  free_.clear();
  fibers_.clear();
}

void Scheduler::number_threads(dim3 block) {
  count_ = block.x * block.y * block.z;
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
  }
  for (unsigned first = 0; first < count_; first += 32) {
    Warp& warp = warps_[first / 32];
    warp.first = first;
    warp.last = std::min(first + 32, count_);
    warp.lanes = warp.last - first == 32 ? ~0u : (1u << (warp.last - first)) - 1;
  }
}

// Fills the shared memory with NaN.
void Scheduler::fill_shared_memory(std::size_t bytes) {
  if (!__tsan_create_fiber) {
    std::memset(shared.get(), 0xff, bytes);
    return;
  }
  // Through volatile: memset() would be an access of this thread to ThreadSanitizer.
  volatile char* values = shared.get();
  for (std::size_t k = 0; k < bytes; ++k) values[k] = static_cast<char>(0xff);
}

void Scheduler::run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         const std::function<void()>& body) {
  const std::uint64_t count = std::uint64_t{block.x} * block.y * block.z;
  if (count == 0 || count > kMaxThreads || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || shared_bytes > 48 << 10) {
    throw Error(std::string("kernel ") + kernel + ": cudaErrorInvalidConfiguration");
  }
  const fake::Unwatched unwatched;  // the threads are others to ThreadSanitizer
  number_threads(block);
  place.grid_dim = grid;
  place.block_dim = block;
  body_ = &body;
  kernel_ = kernel;
  shared.reset(new char[shared_bytes]);
  std::mt19937_64 random(seed * 1000003 + grids_++);
  std::vector<std::uint64_t> blocks(std::uint64_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
  std::shuffle(blocks.begin(), blocks.end(), random);
  try {
    for (const std::uint64_t i : blocks) {
      place.block = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                     static_cast<unsigned>(i / grid.x / grid.y)};
      fill_shared_memory(shared_bytes);
      run_block(random);
    }
  } catch (...) {
    abandon();
    throw;
  }
}

}  // namespace

thread_local constinit Place place __attribute__((tls_model("initial-exec")));

void* shared_memory() { return scheduler().shared.get(); }
void fail(const char* what, Site at) { scheduler().fail(what, at); }

void barrier(Site at) {
  Scheduler& s = scheduler();
  release(&s.barrier_sync);
  s.wait(State::kAtBarrier, at);
  acquire(&s.barrier_sync);
}

Lanes exchange(unsigned mask, std::uint64_t value, Site at) {
  Scheduler& s = scheduler();
  Thread& thread = s.running();
  const unsigned lane = s.lane();
  if ((mask >> lane & 1u) == 0) s.fail("a shuffle by a lane that its mask leaves out", at);
  thread.mask = mask;
  thread.value = value;
  Warp& warp = s.warp();
  release(&warp.sync);
  s.wait(State::kAtShuffle, at);
  acquire(&warp.sync);
  return {warp.received, mask & warp.lanes, lane};
}

void run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  scheduler().run_grid(kernel, grid, block, shared_bytes, thread);
}

void set_seed(std::uint64_t seed) { scheduler().seed = seed; }

}  // namespace simt
