// What the thread sanitizer learns about streams: what orders their operations, and what it
// ignores. The functions are there in programs built with -fsanitize=thread only; this library
// itself is never instrumented.
#pragma once

extern "C" {
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void __tsan_acquire(void* at);
__attribute__((weak)) void __tsan_release(void* at);
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace fake {

// A point that orders what was done before release() before what is done after acquire().
class SyncPoint {
 public:
  void release() {
    if (__tsan_release) __tsan_release(&address_);
  }
  void acquire() {
    if (__tsan_acquire) __tsan_acquire(&address_);
  }

 private:
  char address_ = 0;
};

// While it lives, the sanitizer takes no note of what this thread does: it is the work of the
// driver, not of the program.
class Unwatched {
 public:
  Unwatched() {
    if (!AnnotateIgnoreReadsBegin) return;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unwatched() {
    if (!AnnotateIgnoreReadsBegin) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

}  // namespace fake
