// Ranks of a group as threads, each with a GPU of the fake runtime.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/stream.h"
#include "cluster/communicator.h"

namespace trainer::backend::cuda {

// What a rank's thread has. Device memory is that of its own GPU.
class Rank {
 public:
  Rank(cluster::Communicator& ranks, int device, std::chrono::milliseconds timeout);

  int rank() const { return collective->rank(); }
  int size() const { return collective->size(); }
  // Values in device memory that lives as long as the rank.
  float* upload(const std::vector<float>& values);
  // Waits for the stream and then checks the collective, as the backend does.
  std::vector<float> download(float* values, std::size_t count);
  cudaStream_t queue() const { return stream->handle(); }

  int device;
  std::vector<Buffer> memory;  // freed when the stream's work is done
  std::unique_ptr<CudaCollective> collective;
  std::shared_ptr<DeviceCollectives> peers;
  std::unique_ptr<CudaStream> stream;
};

// How a rank's work ended.
struct Outcome {
  enum class Kind { kDone, kOwnError, kOthersError, kOtherKind } kind = Kind::kDone;
  std::string error;
};

struct GroupOptions {
  std::vector<int> devices;  // the device of each rank
  // No test waits as long as this, unless it waits for ever.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};
// Runs work(rank) for each rank on a thread of its own; ranks live until all threads have ended.
std::vector<Outcome> run_ranks(const GroupOptions& options, const std::function<void(Rank&)>& work);

// A fake machine of four GPUs for one test case, which must leave nothing unfreed.
class FakeMachine {
 public:
  explicit FakeMachine(int seed = 1);
  ~FakeMachine();
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
};

// Returns whether the text has the part. A test's log gets a text that lacks it.
bool has(const std::string& text, const std::string& part);

// Devices 0, 1, 2, ... or 0, 0, 0, ...
std::vector<int> own_devices(int ranks);
std::vector<int> one_device(int ranks);

}  // namespace trainer::backend::cuda
