// Streams and events of CUDA devices.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/collectives/device_collectives.h"
#include "backend/cuda/kernels/step/clock.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/telemetry/gap_clock.h"
#include "backend/device.h"
#include "base/process/progress.h"

namespace trainer::backend::cuda {

// The waits of both classes block, within an activity of `progress`. Then they check `peers`,
// unless it is null: a failure of another rank ends the work that they wait for.
class CudaEvent final : public Event {
 public:
  CudaEvent(int device, std::shared_ptr<DeviceCollectives> peers, Progress progress = {});
  bool done() const override;
  void wait() const override;

  cudaEvent_t handle() const { return event_.get(); }
  bool recorded = false;

 private:
  int device_;
  std::shared_ptr<DeviceCollectives> peers_;
  Progress progress_;
  EventHandle event_;
};

class CudaStream : public Stream {
 public:
  CudaStream(int device, std::shared_ptr<DeviceCollectives> peers, Progress progress = {});
  ~CudaStream() override;

  void upload(Span to, const void* from, std::size_t bytes) override;
  // Into memory that is not pinned: returns when the copy is done.
  void download(void* to, Span from, std::size_t bytes) override;
  void record(Event& event) override;
  void wait_for(const Event& event) override;
  void synchronize() override;
  std::optional<StreamGaps> gaps() override;

  cudaStream_t handle() const { return stream_.get(); }
  // Receives every program that is launched on the stream.
  GapClock& gap_clock() { return gap_clock_; }
  // Begins a program whose uploads are enqueued: writes its scalars, adds the time of the uploads
  // and of the waits for other streams' uploads to the clock, and moves the clock's times to
  // `times`. Null: they stay, for the next program with a result.
  void begin_program(const StepScalars& values, StepScalars* scalars, StepClock* times);
  // The clock in device memory that counts uploads and programs without a result of their own since
  // the last program with a result began.
  StepClock* clock() const { return pointer_to<StepClock>(clock_.span()); }

 private:
  void begin_uploads();

  int device_;
  std::shared_ptr<DeviceCollectives> peers_;
  Progress progress_;
  StreamHandle stream_;
  GapClock gap_clock_;
  Buffer clock_;
  bool copies_ = false;     // uploads were given since the last program
  bool continues_ = false;  // the host has not waited since the last program
};

}  // namespace trainer::backend::cuda
