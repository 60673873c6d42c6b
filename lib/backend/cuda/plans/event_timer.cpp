#include "backend/cuda/plans/event_timer.h"

#include "backend/cuda/runtime.h"
#include "base/statistics.h"

namespace trainer::backend::cuda {
namespace {

constexpr int kMeasurements = 5;
constexpr int kRuns = 4;  // of a measurement: all but the first wait for no launch

class EventTimer final : public CandidateTimer {
 public:
  explicit EventTimer(int device) : device_(device) {
    const DeviceGuard guard(device);
    stream_ = create_stream();
    begin_ = create_timing_event();
    end_ = create_timing_event();
  }

  double seconds(const Candidate& candidate) override {
    const DeviceGuard guard(device_);
    std::vector<Buffer> buffers;
    std::vector<void*> memory;
    for (const std::int64_t bytes : candidate.bytes) {
      buffers.push_back(allocate_zeros(device_, static_cast<std::size_t>(bytes)));
      memory.push_back(bytes == 0 ? nullptr : buffers.back().span().address);
    }
    const Drained drained{stream_.get()};  // before the buffers are freed, also by an error
    candidate.run(memory, stream_.get());
    std::vector<double> runs;
    for (int i = 0; i < kMeasurements; ++i) runs.push_back(measure(candidate, memory));
    return median(runs);
  }

 private:
  struct Drained {
    cudaStream_t stream;
    ~Drained() { cudaStreamSynchronize(stream); }
  };

  double measure(const Candidate& candidate, const std::vector<void*>& memory) const {
    check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    for (int i = 0; i < kRuns; ++i) candidate.run(memory, stream_.get());
    check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3 / kRuns;
  }

  int device_;
  StreamHandle stream_;
  EventHandle begin_, end_;
};

}  // namespace

std::unique_ptr<CandidateTimer> make_event_timer(int device) {
  return std::make_unique<EventTimer>(device);
}

}  // namespace trainer::backend::cuda
