// Streams and events of CUDA devices.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "backend/cuda/runtime.h"
#include "backend/cuda/telemetry/gap_clock.h"
#include "backend/device.h"

namespace trainer::backend::cuda {

// Called again and again while a host thread waits for a device, so that a wait for ranks that are
// gone ends: throws then.
using WaitCheck = std::function<void()>;

class CudaEvent final : public Event {
 public:
  CudaEvent(int device, WaitCheck check);
  bool done() const override;
  void wait() const override;

  cudaEvent_t handle() const { return event_.get(); }
  bool recorded = false;

 private:
  int device_;
  WaitCheck check_;
  EventHandle event_;
};

class CudaStream : public Stream {
 public:
  CudaStream(int device, WaitCheck check);
  ~CudaStream() override;

  void upload(Span to, const void* from, std::size_t bytes) override;
  void download(void* to, Span from, std::size_t bytes) override;
  void record(Event& event) override;
  void wait_for(const Event& event) override;
  void synchronize() override;
  std::optional<StreamGaps> gaps() override;

  cudaStream_t handle() const { return stream_.get(); }
  // Told of every program that is launched on the stream.
  GapClock& gap_clock() { return gap_clock_; }

 private:
  int device_;
  WaitCheck check_;
  StreamHandle stream_;
  GapClock gap_clock_;
};

}  // namespace trainer::backend::cuda
