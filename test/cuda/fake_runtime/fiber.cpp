#include "cuda/fake_runtime/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "cuda/fake_runtime/tsan.h"

namespace fake {
namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 20;
constexpr unsigned kNoSync = 1;  // __tsan_switch_to_fiber_no_sync

struct FiberCall {
  const std::function<void()>& work;
  void* caller;
  ucontext_t return_to{}, start{};
};

// makecontext() passes ints: the two halves of the address of a FiberCall.
void run_call(unsigned high, unsigned low) {
  const auto address = static_cast<std::uintptr_t>(high) << 32 | low;
  FiberCall& call = *reinterpret_cast<FiberCall*>(address);
  call.work();
  __tsan_switch_to_fiber(call.caller, kNoSync);
}

}  // namespace

// The stack is mapped first: a fiber is ordered after its creation.
Fiber::Fiber() {
  if (!__tsan_create_fiber) return;
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  handle_ = __tsan_create_fiber(0);
}

Fiber::~Fiber() {
  if (!handle_) return;
  __tsan_destroy_fiber(handle_);
  munmap(stack_, kStackBytes);
}

void Fiber::run(const std::function<void()>& work) {
  if (!handle_) {
    work();
    return;
  }
  FiberCall call{work, __tsan_get_current_fiber()};
  getcontext(&call.start);
  call.start.uc_stack.ss_sp = stack_;
  call.start.uc_stack.ss_size = kStackBytes;
  call.start.uc_link = &call.return_to;
  const auto address = reinterpret_cast<std::uintptr_t>(&call);
  makecontext(&call.start, reinterpret_cast<void (*)()>(&run_call), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  __tsan_switch_to_fiber(handle_, kNoSync);
  swapcontext(&call.return_to, &call.start);
}

}  // namespace fake
