#include "backend/cuda/stream.h"

#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

// What a call that waited for the device returns. An error of the device is more specific than what
// the other ranks report of it.
void check_wait(cudaError_t status, const char* what, const DeviceCollectives* peers) {
  check(status, what);
  if (peers != nullptr) peers->check();
}

const CudaEvent& cast(const Event& event) { return dynamic_cast<const CudaEvent&>(event); }

}  // namespace

CudaEvent::CudaEvent(int device, std::shared_ptr<DeviceCollectives> peers, Progress progress)
    : device_(device), peers_(std::move(peers)), progress_(std::move(progress)) {
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
  check_wait(status, "cudaEventQuery", peers_.get());
  return true;
}

void CudaEvent::wait() const {
  if (!recorded) return;
  const ActivityScope scope(progress_, Activity::kGpu);
  const DeviceGuard guard(device_);
  check_wait(cudaEventSynchronize(event_.get()), "cudaEventSynchronize", peers_.get());
}

CudaStream::CudaStream(int device, std::shared_ptr<DeviceCollectives> peers, Progress progress)
    : device_(device), peers_(std::move(peers)), progress_(std::move(progress)) {
  const DeviceGuard guard(device_);
  stream_ = create_stream();
  clock_ = allocate_zeros(device_, sizeof(StepClock));
}

CudaStream::~CudaStream() {
  if (!stream_) return;
  const ActivityScope scope(progress_, Activity::kGpu);
  // The callers may free the buffers of their work after this. The device has to be current: with
  // another one that has failed, the wait would return the error of that one at once.
  try {
    const DeviceGuard guard(device_);
    cudaStreamSynchronize(stream_.get());
  } catch (const DeviceError&) {  // this device has failed, and does no more work
  }
}

void CudaStream::begin_uploads() {
  if (copies_) return;
  start_clock(clock(), !continues_, stream_.get());
  copies_ = continues_ = true;
}

void CudaStream::upload(Span to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const ActivityScope scope(progress_, Activity::kGpu);
  const DeviceGuard guard(device_);
  begin_uploads();
  cuda::check(cudaMemcpyAsync(to.address, from, bytes, cudaMemcpyHostToDevice, stream_.get()),
              "cudaMemcpyAsync to the device");
}

void CudaStream::download(void* to, Span from, std::size_t bytes) {
  if (bytes == 0) return;
  const ActivityScope scope(progress_, Activity::kGpu);
  const bool pinned = is_pinned(to, bytes);
  const DeviceGuard guard(device_);
  cuda::check(cudaMemcpyAsync(to, from.address, bytes, cudaMemcpyDeviceToHost, stream_.get()),
              "cudaMemcpyAsync from the device");
  // A later wait that ends with another rank's failure would leave a copy that still writes.
  if (!pinned) cuda::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

void CudaStream::record(Event& event) {
  const DeviceGuard guard(device_);
  auto& cuda_event = dynamic_cast<CudaEvent&>(event);
  cuda::check(cudaEventRecord(cuda_event.handle(), stream_.get()), "cudaEventRecord");
  cuda_event.recorded = true;
}

void CudaStream::wait_for(const Event& event) {
  if (!cast(event).recorded) return;
  const DeviceGuard guard(device_);
  begin_uploads();  // on the stream that is waited for
  cuda::check(cudaStreamWaitEvent(stream_.get(), cast(event).handle(), 0), "cudaStreamWaitEvent");
}

void CudaStream::begin_program(const StepScalars& values, StepScalars* scalars, StepClock* times) {
  begin_uploads();  // starts the clock, unless an upload has
  begin_call(values, scalars, clock(), times, stream_.get());
  copies_ = false;
}

std::optional<StreamGaps> CudaStream::gaps() {
  const DeviceGuard guard(device_);
  return gap_clock_.gaps();
}

void CudaStream::synchronize() {
  if (!stream_) return;  // of the planned device
  const ActivityScope scope(progress_, Activity::kGpu);
  const DeviceGuard guard(device_);
  gap_clock_.interrupt();
  copies_ = continues_ = false;
  check_wait(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", peers_.get());
}

}  // namespace trainer::backend::cuda
