// Streams: queues of a device.
//
// Follows CUDA Runtime API 13.0, "Stream Management" (cudaStreamCreateWithFlags, cudaStreamDestroy,
// cudaStreamSynchronize, cudaStreamQuery) and "Stream synchronization behavior" (the legacy
// stream); and the CUDA Programming Guide, "Multi-Device System", Stream and Event Behavior: a
// kernel launch fails in a stream of another device than the current one.
//
// A call that puts work into a stream blocks while a queue of the device is full. The manuals name
// no length; measured are 1024 launches per stream (stackoverflow.com/questions/53970187). A graph
// counts as two operations here, its begin and its end. The NCCL User Guide, "Using NCCL with CUDA
// Graphs", warns of launches that block so.
#include <algorithm>

#include "cuda/fake_runtime/fake.h"
#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

// "The legacy default stream is an implicit stream which synchronizes with all other streams in the
// same CUcontext except for non-blocking streams."
std::vector<OperationPtr> implicit_dependencies(const World& w, const CUstream_st& stream) {
  std::vector<OperationPtr> before;
  if (stream.is_legacy) {
    for (const auto& [handle, s] : w.streams) {
      if (s->device == stream.device && s->is_blocking && s->last) before.push_back(s->last);
    }
  } else if (stream.is_blocking) {
    const auto& legacy = w.legacy_streams[static_cast<std::size_t>(stream.device)];
    if (legacy && legacy->last) before.push_back(legacy->last);
  }
  return before;
}

CUstream_st& legacy_stream(World& w, int device) {
  auto& stream = w.legacy_streams[static_cast<std::size_t>(device)];
  if (!stream) {
    stream = std::make_unique<CUstream_st>();
    stream->device = device;
    stream->is_legacy = true;
  }
  return *stream;
}

cudaError_t create_stream(World& w, cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t e = begin(w, "cudaStreamCreateWithFlags")) return e;
  if (!stream || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return cudaErrorInvalidValue;
  }
  auto made = std::make_unique<CUstream_st>();
  made->device = current_device();
  made->number = ++w.stream_count;
  made->is_blocking = flags == cudaStreamDefault;
  *stream = made.get();
  w.streams[made.get()] = std::move(made);
  return cudaSuccess;
}

// Returns at once; what is left in the stream is still done.
cudaError_t destroy_stream(World& w, cudaStream_t handle) {
  const cudaError_t before = begin(w, "cudaStreamDestroy");
  if (before != cudaSuccess && before != sticky_error(w, current_device())) return before;
  const auto at = w.streams.find(handle);
  if (at == w.streams.end()) return cudaErrorInvalidResourceHandle;
  if (is_captured(*handle)) invalidate(*handle->capture);
  if (!handle->pending.empty()) w.destroyed_streams.push_back(std::move(at->second));
  w.streams.erase(at);
  return before;
}

// The stream of a call that waits for it or asks about it, neither of which can be captured.
cudaError_t find_for_waiting(World& w, cudaStream_t handle, CUstream_st*& stream) {
  stream = find_stream(w, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (is_captured(*stream)) {
    invalidate(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t e = check_legacy_use(w, *stream)) return e;
  return check_unsafe_call(w);
}

cudaError_t synchronize(Lock& lock, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaStreamSynchronize")) return e;
  CUstream_st* stream = nullptr;
  if (const cudaError_t e = find_for_waiting(w, handle, stream)) return e;
  std::vector<OperationPtr> all = implicit_dependencies(w, *stream);
  if (stream->last) all.push_back(stream->last);
  const cudaError_t status = run_until(lock, stream->device, [&all] {
    return std::all_of(all.begin(), all.end(), [](const OperationPtr& op) { return op->done; });
  });
  if (status != cudaSuccess) return status;
  for (const OperationPtr& op : all) {
    op->finished.acquire();
    wait_until_end(*op);
  }
  return cudaSuccess;
}

cudaError_t query(Lock& lock, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaStreamQuery")) return e;
  CUstream_st* stream = nullptr;
  if (const cudaError_t e = find_for_waiting(w, handle, stream)) return e;
  const OperationPtr last = stream->last;
  if (!last) return cudaSuccess;
  if (const cudaError_t e = run_some(lock, stream->device, [&last] { return last->done; }))
    return e;
  if (!last->done) return cudaErrorNotReady;
  last->finished.acquire();
  wait_until_end(*last);
  return cudaSuccess;
}

}  // namespace

CUstream_st* find_stream(World& w, cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return &legacy_stream(w, current_device());
  return w.streams.count(stream) ? stream : nullptr;
}

OperationPtr append(World& w, CUstream_st& stream, std::shared_ptr<const Work> work,
                    std::vector<OperationPtr> before) {
  constexpr double kSubmission = 1e-6;  // of the host
  host_time() += kSubmission;
  auto op = std::make_shared<Operation>();
  op->work = std::move(work);
  op->fiber = stream.fiber;
  op->stream = &stream;
  for (const OperationPtr& on : implicit_dependencies(w, stream)) before.push_back(on);
  if (stream.last) before.push_back(stream.last);
  stream.last = op;
  stream.pending.push_back(op);
  enter(w, op, before);
  return op;
}

cudaError_t wait_for_room(Lock& lock, int device) {
  World& w = world();
  return run_until(lock, device, [&w, device] {
    std::size_t waiting = 0;
    const auto add = [&waiting, device](const auto& s) {
      if (s && s->device == device) waiting += s->pending.size();
    };
    for (const auto& s : w.legacy_streams) add(s);
    for (const auto& s : w.destroyed_streams) add(s);
    for (const auto& [handle, s] : w.streams) add(s);
    return waiting < w.settings.queue;
  });
}

std::shared_ptr<const Work> marker(const char* name, int device) {
  auto work = std::make_shared<Work>();
  work->name = name;
  work->device = device;
  return work;
}

cudaError_t submit(Lock& lock, CUstream_st& stream, std::shared_ptr<const Work> work) {
  World& w = world();
  if (stream.capture) return capture_node(stream, std::move(work));
  if (const cudaError_t e = check_legacy_use(w, stream)) return e;
  if (const cudaError_t e = begin_launch(lock, stream.device, "")) return e;
  if (const cudaError_t e = wait_for_room(lock, stream.device)) return e;
  append(w, stream, std::move(work));
  run_eagerly(lock);
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t handle, std::string name, std::function<void()> run,
                    double seconds) {
  World& w = world();
  Lock lock(w.mutex);
  if (const cudaError_t e = begin(w, "cudaLaunchKernelExC")) return end(e);
  CUstream_st* stream = find_stream(w, handle);
  if (!stream || stream->device != current_device()) return end(cudaErrorInvalidResourceHandle);
  if (const cudaError_t e = begin_launch(lock, stream->device, name)) return end(e);
  auto work = std::make_shared<Work>();
  work->name = std::move(name);
  work->device = stream->device;
  work->seconds = seconds;
  work->run = std::move(run);
  return end(submit(lock, *stream, std::move(work)));
}

}  // namespace fake

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::create_stream(fake::world(), stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::destroy_stream(fake::world(), stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::synchronize(lock, stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::query(lock, stream));
}

}  // extern "C"
