#include "backend/cuda/plans/event_timer.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/numbers/half.h"
#include "base/numbers/random.h"
#include "base/numbers/statistics.h"

namespace trainer::backend::cuda {
namespace {

constexpr int kMeasurements = 5;
constexpr std::size_t kRuns = 4;            // per measurement; only the first waits for its launch
constexpr std::size_t kPattern = 64 << 10;  // random numbers before they repeat

std::int64_t round_up(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns `kPattern` random elements in [-1, 1).
std::vector<std::uint8_t> random_pattern(DType type) {
  Random random(0, trainer::Stream::kSynthetic);
  std::vector<float> values(kPattern);
  for (float& value : values) value = random.uniform(-1, 1);
  std::vector<std::uint8_t> bytes(kPattern * size_of(type));
  if (type == DType::kFloat32) {
    std::copy_n(reinterpret_cast<const std::uint8_t*>(values.data()), bytes.size(), bytes.data());
    return bytes;
  }
  for (std::size_t i = 0; i < kPattern; ++i) {
    const std::uint16_t half =
        type == DType::kBFloat16 ? float_to_bfloat16(values[i]) : float_to_float16(values[i]);
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&half), sizeof half,
                bytes.data() + i * sizeof half);
  }
  return bytes;
}

class EventTimer final : public CandidateTimer {
 public:
  explicit EventTimer(int device) : device_(device) {
    const DeviceGuard guard(device);
    stream_ = create_stream();
    begin_ = create_timing_event();
    end_ = create_timing_event();
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    cache_bytes_ = std::max(properties.l2CacheSize, 1);
  }

  double seconds(const Candidate& candidate) override {
    const DeviceGuard guard(device_);
    std::int64_t bytes = 0;
    for (const TunedMemory& memory : candidate.memory) bytes += round_up(memory.bytes);
    // Runs of small work use several copies of the memory in turn, so that no run finds in the
    // cache what the run before it left there.
    const std::int64_t copies =
        std::clamp<std::int64_t>(2 * cache_bytes_ / std::max<std::int64_t>(bytes, 1) + 1, 1, kRuns);
    const Buffer block = allocate_device(device_, copies * bytes);
    const Buffer evicting = allocate_device(device_, cache_bytes_);
    const Drained drained{stream_.get()};  // before the buffers are freed, also by an error
    std::vector<Addresses> all;
    std::byte* address = block.span().address;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      Addresses& addresses = all.emplace_back();
      for (const TunedMemory& memory : candidate.memory) {
        addresses.push_back(memory.bytes == 0 ? nullptr : address);
        fill(address, memory);
        address += round_up(memory.bytes);
      }
    }
    candidate.run(all[0], stream_.get());
    std::vector<double> measurements;
    for (int i = 0; i < kMeasurements; ++i) {
      check(cudaMemsetAsync(evicting.span().address, 0, evicting.span().bytes, stream_.get()),
            "cudaMemsetAsync");
      measurements.push_back(measure(candidate, all));
    }
    return median(measurements);
  }

 private:
  using Addresses = std::vector<void*>;
  struct Drained {
    cudaStream_t stream;
    ~Drained() { cudaStreamSynchronize(stream); }
  };

  void fill(std::byte* address, const TunedMemory& memory) const {
    const std::vector<std::uint8_t> pattern = random_pattern(memory.type);
    const std::size_t bytes = memory.bytes;
    std::size_t filled = std::min(bytes, pattern.size());
    if (filled == 0) return;
    check(cudaMemcpyAsync(address, pattern.data(), filled, cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync to the device");
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    while (filled < bytes) {
      const std::size_t next = std::min(filled, bytes - filled);
      check(
          cudaMemcpyAsync(address + filled, address, next, cudaMemcpyDeviceToDevice, stream_.get()),
          "cudaMemcpyAsync on the device");
      filled += next;
    }
  }

  double measure(const Candidate& candidate, const std::vector<Addresses>& all) const {
    check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    for (std::size_t i = 0; i < kRuns; ++i) candidate.run(all[i % all.size()], stream_.get());
    check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3 / static_cast<double>(kRuns);
  }

  int device_;
  std::int64_t cache_bytes_ = 0;
  StreamHandle stream_;
  EventHandle begin_, end_;
};

}  // namespace

std::unique_ptr<CandidateTimer> make_event_timer(int device) {
  return std::make_unique<EventTimer>(device);
}

}  // namespace trainer::backend::cuda
