#include "backend/cuda/stream.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>

#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

// How long a waiting host thread sleeps between two looks at a device that has work of several
// ranks: short against a step, long against a look.
constexpr std::chrono::microseconds kStreamPollPause(20);
constexpr unsigned long kTimerSlackNanoseconds = 1000;

// Lets the sleeps of this thread end in time; by default they may end 50 us late
// (PR_SET_TIMERSLACK(2const)).
void reduce_timer_slack() {
  thread_local bool reduced = false;
  if (reduced) return;
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds, 0, 0, 0);
  reduced = true;
}

// Waits until query() is no longer cudaErrorNotReady. If peers.check() throws, waits with block()
// for the work, which the failure has ended, because its memory may be freed after the error.
template <class Query, class Block>
void wait_until_ready(const Query& query, const Block& block, const PeerWatch& peers,
                      const char* what) {
  reduce_timer_slack();
  for (;;) {
    const cudaError_t status = query();
    // Also when all is done: the work of a group that has ended is done without its results.
    try {
      peers.check();
    } catch (...) {
      block();
      throw;
    }
    if (status != cudaErrorNotReady) return check(status, what);
    cudaGetLastError();
    std::this_thread::sleep_for(kStreamPollPause);
  }
}

const CudaEvent& own(const Event& event) { return dynamic_cast<const CudaEvent&>(event); }

}  // namespace

CudaEvent::CudaEvent(int device, std::shared_ptr<PeerWatch> peers)
    : device_(device), peers_(std::move(peers)) {
  const DeviceGuard guard(device_);
  event_ = create_blocking_event();
}

bool CudaEvent::done() const {
  if (!recorded) return true;
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    if (peers_) peers_->check();
    return false;
  }
  cuda::check(status, "cudaEventQuery");
  return true;
}

void CudaEvent::wait() const {
  if (!recorded) return;
  const DeviceGuard guard(device_);
  if (!peers_ || !peers_->is_needed()) {
    return cuda::check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
  }
  wait_until_ready([&] { return cudaEventQuery(event_.get()); },
                   [&] { cudaEventSynchronize(event_.get()); }, *peers_, "cudaEventQuery");
}

CudaStream::CudaStream(int device, std::shared_ptr<PeerWatch> peers)
    : device_(device), peers_(std::move(peers)) {
  const DeviceGuard guard(device_);
  stream_ = create_stream();
  clock_ = allocate_zeros(device_, sizeof(StepClock));
}

CudaStream::~CudaStream() {
  // Work that was given must not outlive the buffers of whoever gave it.
  if (stream_) cudaStreamSynchronize(stream_.get());
}

void CudaStream::begin_uploads() {
  if (copies_) return;
  start_clock(clock(), !continues_, stream_.get());
  copies_ = continues_ = true;
}

void CudaStream::upload(Span to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(device_);
  begin_uploads();
  cuda::check(cudaMemcpyAsync(to.address, from, bytes, cudaMemcpyHostToDevice, stream_.get()),
              "cudaMemcpyAsync to the device");
}

void CudaStream::download(void* to, Span from, std::size_t bytes) {
  if (bytes == 0) return;
  const bool pinned = is_pinned(to, bytes);
  // The copy itself would wait without asking whether the ranks that it waits for are there.
  if (watches_peers() && !pinned) synchronize();
  const DeviceGuard guard(device_);
  cuda::check(cudaMemcpyAsync(to, from.address, bytes, cudaMemcpyDeviceToHost, stream_.get()),
              "cudaMemcpyAsync from the device");
  // A later wait that ends with another rank's failure would leave a copy that still writes.
  if (!pinned) cuda::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

void CudaStream::record(Event& event) {
  const DeviceGuard guard(device_);
  auto& mine = dynamic_cast<CudaEvent&>(event);
  cuda::check(cudaEventRecord(mine.handle(), stream_.get()), "cudaEventRecord");
  mine.recorded = true;
}

void CudaStream::wait_for(const Event& event) {
  if (!own(event).recorded) return;
  const DeviceGuard guard(device_);
  begin_uploads();  // on the stream that is waited for
  cuda::check(cudaStreamWaitEvent(stream_.get(), own(event).handle(), 0), "cudaStreamWaitEvent");
}

void CudaStream::end_uploads() {
  if (copies_) {
    lap_clock(clock(), ClockPhase::kCopy, stream_.get());
  } else {
    start_clock(clock(), !continues_, stream_.get());
  }
  copies_ = false;
  continues_ = true;
}

std::optional<StreamGaps> CudaStream::gaps() {
  const DeviceGuard guard(device_);
  return gap_clock_.gaps();
}

void CudaStream::synchronize() {
  if (!stream_) return;  // of the planned device
  const DeviceGuard guard(device_);
  gap_clock_.interrupt();
  copies_ = continues_ = false;
  if (!watches_peers()) {
    return cuda::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }
  wait_until_ready([&] { return cudaStreamQuery(stream_.get()); },
                   [&] { cudaStreamSynchronize(stream_.get()); }, *peers_, "cudaStreamQuery");
}

}  // namespace trainer::backend::cuda
