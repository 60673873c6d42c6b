// Events: points of a stream's queue.
//
// Follows CUDA Runtime API 13.0, "Event Management" (cudaEventRecord: overwrites what was captured
// before, which waits that were submitted earlier keep; an event that was never recorded is
// complete; cudaEventElapsedTime) and "Stream Management" (cudaStreamWaitEvent).
#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

cudaError_t create_event(World& w, cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t e = begin(w, "cudaEventCreateWithFlags")) return e;
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  if (!event || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
  auto made = std::make_unique<CUevent_st>();
  made->device = current_device();
  made->has_timing = (flags & cudaEventDisableTiming) == 0;
  *event = made.get();
  w.events[made.get()] = std::move(made);
  return cudaSuccess;
}

cudaError_t destroy_event(World& w, cudaEvent_t event) {
  const cudaError_t before = begin(w, "cudaEventDestroy");
  if (before != cudaSuccess && before != sticky_error(w, current_device())) return before;
  const Unwatched unwatched;
  return w.events.erase(event) == 1 ? before : cudaErrorInvalidResourceHandle;
}

cudaError_t record(Lock& lock, cudaEvent_t event, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaEventRecord")) return e;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream || w.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return capture_record(*stream, *event);
  if (const cudaError_t e = check_legacy_use(w, *stream)) return e;
  if (const cudaError_t e = wait_for_room(lock, stream->device)) return e;
  event->capture.reset();
  event->record = append(w, *stream, marker("event record", stream->device));
  run_eagerly(lock);
  return cudaSuccess;
}

cudaError_t wait(Lock& lock, cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaStreamWaitEvent")) return e;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream || w.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
  if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
  if (event->capture || stream->capture) return capture_wait(*stream, *event);
  if (!event->record) return cudaSuccess;
  if (const cudaError_t e = check_legacy_use(w, *stream)) return e;
  if (const cudaError_t e = wait_for_room(lock, stream->device)) return e;
  append(w, *stream, marker("wait for event", stream->device), {event->record});
  run_eagerly(lock);
  return cudaSuccess;
}

// The record of an event that a call waits for or asks about; null: never recorded.
cudaError_t find_for_waiting(World& w, cudaEvent_t event, OperationPtr& record) {
  if (w.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
  if (event->capture) {
    invalidate(*event->capture);
    return cudaErrorCapturedEvent;
  }
  record = event->record;
  return check_unsafe_call(w);
}

cudaError_t synchronize(Lock& lock, cudaEvent_t event) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaEventSynchronize")) return e;
  OperationPtr record;
  if (const cudaError_t e = find_for_waiting(w, event, record)) return e;
  if (!record) return cudaSuccess;
  if (const cudaError_t e = run_until(lock, event->device, [&record] { return record->done; }))
    return e;
  record->finished.acquire();
  wait_until_end(*record);
  return cudaSuccess;
}

cudaError_t query(Lock& lock, cudaEvent_t event) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaEventQuery")) return e;
  OperationPtr record;
  if (const cudaError_t e = find_for_waiting(w, event, record)) return e;
  if (!record) return cudaSuccess;
  if (const cudaError_t e = run_some(lock, event->device, [&record] { return record->done; }))
    return e;
  if (!record->done) return cudaErrorNotReady;
  record->finished.acquire();
  wait_until_end(*record);
  return cudaSuccess;
}

cudaError_t elapsed_time(World& w, float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (const cudaError_t e = begin(w, "cudaEventElapsedTime")) return e;
  if (!milliseconds) return cudaErrorInvalidValue;
  for (const cudaEvent_t event : {from, to}) {
    if (w.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    if (event->capture) return cudaErrorCapturedEvent;
    if (!event->has_timing || !event->record) return cudaErrorInvalidResourceHandle;
  }
  if (from->device != to->device) return cudaErrorInvalidResourceHandle;
  if (!from->record->done || !to->record->done) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(1e3 * (to->record->ends - from->record->ends));
  return cudaSuccess;
}

}  // namespace
}  // namespace fake

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::create_event(fake::world(), event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::destroy_event(fake::world(), event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::record(lock, event, stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::wait(lock, stream, event, flags));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::synchronize(lock, event));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::query(lock, event));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::elapsed_time(fake::world(), milliseconds, from, to));
}

}  // extern "C"
