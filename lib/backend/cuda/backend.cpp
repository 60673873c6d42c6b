#include "backend/cuda/backend.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string_view>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/executable/executable.h"
#include "backend/cuda/machine.h"
#include "backend/cuda/plans/event_timer.h"
#include "backend/cuda/stream.h"
#include "backend/cuda/telemetry/gpu_faults.h"
#include "backend/cuda/telemetry/gpu_telemetry.h"
#include "backend/cuda/variables.h"
#include "backend/gpu_model.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

// The streams of a backend, for waits until all work is done.
class StreamList {
 public:
  void add(CudaStream* stream) {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
  }
  void remove(CudaStream* stream) {
    const std::lock_guard lock(mutex_);
    std::erase(streams_, stream);
  }
  void synchronize() {
    const std::lock_guard lock(mutex_);
    for (CudaStream* stream : streams_) stream->synchronize();
  }

 private:
  std::mutex mutex_;
  std::vector<CudaStream*> streams_;
};

class CurrentDevice final : public ThreadBinding {
 public:
  explicit CurrentDevice(int device) : guard_(device) {}

 private:
  DeviceGuard guard_;
};

void warn(const std::string& text) { std::cerr << "warning: " << text << '\n'; }

// Returns the folder if it can be written to, and "" with a warning otherwise.
std::string tuning_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!folder.empty() && ::access(folder.c_str(), R_OK | W_OK | X_OK) == 0) return folder;
  warn(concat("parallel.autotune: ", folder.empty() ? "there is no folder" : folder,
              folder.empty() ? "" : " cannot be written to",
              ", so the fastest kernels are searched for at each start; set "
              "TRAINER_CUDA_PLAN_CACHE to a persistent folder"));
  return "";
}

// Returns the properties of a device that the time of a kernel depends on.
std::string describe(const cudaDeviceProp& properties, int driver) {
  return concat(properties.name, ", compute capability ", properties.major, '.', properties.minor,
                ", ", properties.multiProcessorCount, " multiprocessors, ",
                properties.totalGlobalMem, " bytes, driver ", driver);
}

bool is_set(const char* name, const char* value) {
  const char* found = std::getenv(name);
  return found != nullptr && std::string_view(found) == value;
}
bool takes_large_tensors() { return is_set("TRAINER_CUDA_LARGE_TENSORS", "1"); }

// Waiting after an op is not possible while a stream is captured, so it implies no capture.
Debugging debugging_from_environment() {
  Debugging debugging;
  debugging.wait_per_op = is_set("TRAINER_CUDA_SYNC", "1");
  debugging.capture = !debugging.wait_per_op && !is_set("TRAINER_CUDA_GRAPHS", "0");
  return debugging;
}

// Returns an owner that destroys a planner with the device chosen: the planner has a handle of
// cuDNN or cuBLASLt.
template <class Planner>
std::shared_ptr<Planner> share_on_device(std::unique_ptr<Planner> planner, int device) {
  return {planner.release(), [device](Planner* pointer) {
            choose_device(device);
            delete pointer;
          }};
}

Machine open_machine(int device, const DeviceOptions& options,
                     std::shared_ptr<DeviceCollectives> peers,
                     const std::shared_ptr<SharedPlans>& shared) {
  Machine machine;
  machine.device = device;
  find_uuid(device);  // for messages about the device once it has failed
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  machine.name = properties.name;
  machine.major = properties.major;
  machine.minor = properties.minor;
  machine.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  check(cudaDriverGetVersion(&machine.driver), "cudaDriverGetVersion");
  PlannerOptions planning;
  MatmulOptions products;
  planning.warn = products.warn = warn;
  planning.cache = options.platform.plan_cache;
  planning.large_tensors = takes_large_tensors();
  if (options.cuda.autotune) {
    planning.timer = products.timer = make_event_timer(device);
    planning.cache = products.cache = tuning_folder(options.platform.tuning_cache);
    planning.shared = products.shared = shared;
    products.device = describe(properties, machine.driver);
  }
  machine.convolutions = share_on_device(std::make_unique<ConvolutionPlanner>(planning), device);
  machine.matmuls = share_on_device(make_matmul_planner(products), device);
  machine.peers = std::move(peers);
  machine.debugging = debugging_from_environment();
  machine.progress = options.platform.progress;
  return machine;
}

Machine planned_machine(const GpuModel& model, const std::string& plan_cache) {
  Machine machine;
  machine.device = kPlannedDevice;
  machine.name = model.gpu.name;
  machine.major = model.gpu.major;
  machine.minor = model.gpu.minor;
  machine.memory = model.gpu.memory_bytes;
  PlannerOptions planning;
  planning.cache = plan_cache;
  planning.large_tensors = takes_large_tensors();
  planning.device_properties = cudnn_properties(model);
  machine.convolutions = std::make_shared<ConvolutionPlanner>(planning);
  machine.matmuls = make_matmul_bounds();
  return machine;
}

// A group of planned devices, which sum nothing.
class PlannedCollective final : public CudaCollective {
 public:
  explicit PlannedCollective(const cluster::Communicator& ranks)
      : rank_(ranks.rank()), size_(ranks.size()) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  using CudaCollective::all_reduce;
  void all_reduce(float*, std::int64_t, cudaStream_t) override {}
  void all_gather(const float*, float*, std::int64_t, cudaStream_t) override {}
  void abort(const std::string&) noexcept override {}
  void check() override {}
  bool capturable() const override { return true; }
  void replay(cudaStream_t, const std::function<void()>&) override {}

 private:
  int rank_, size_;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const GpuModel& model, const DeviceOptions& options)
      : timeout_(options.timeout),
        streams_(std::make_shared<StreamList>()),
        machine_(planned_machine(model, options.platform.plan_cache)) {}
  // Plans for the device of `other` by its planners.
  explicit CudaBackend(const CudaBackend& other)
      : timeout_(other.timeout_),
        streams_(std::make_shared<StreamList>()),
        machine_(other.machine_) {
    machine_.device = kPlannedDevice;
    machine_.peers = nullptr;
  }
  CudaBackend(int device, const DeviceOptions& options, const std::shared_ptr<SharedPlans>& shared)
      : timeout_(options.timeout), streams_(std::make_shared<StreamList>()) {
    const ActivityScope scope(options.platform.progress, Activity::kPrepareGpu);
    const DeviceGuard guard(device);
    machine_ = open_machine(device, options, std::make_shared<DeviceCollectives>(), shared);
  }

  std::string describe() const override {
    if (machine_.device == kPlannedDevice) {
      return concat("cuda, planned for ", machine_.name, ", compute capability ", machine_.major,
                    ".", machine_.minor, ", ", machine_.convolutions->version());
    }
    return concat("cuda, GPU ", machine_.device, " ", machine_.name, ", compute capability ",
                  machine_.major, ".", machine_.minor, ", ", machine_.convolutions->version());
  }
  std::string describe_devices(std::int64_t replicas) const override {
    return concat(replicas, replicas == 1 ? " GPU" : " GPUs");
  }
  bool supports(DType activations) const override {
    // bfloat16 on tensor cores came with compute capability 8.0, the oldest that is built for.
    return is_float(activations);
  }
  bool prefers_bfloat16() const override { return true; }
  bool has_tf32() const override { return true; }

  Buffer allocate(std::size_t bytes) override { return allocate_device(machine_.device, bytes); }
  HostBuffer allocate_host(std::size_t bytes) override {
    const DeviceGuard guard(machine_.device);
    return allocate_pinned(bytes, cudaHostAllocPortable);
  }
  bool reads_host_memory() const override { return false; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(machine_.device, machine_.peers, machine_.progress);
  }
  std::int64_t free_memory() const override {
    if (machine_.device == kPlannedDevice) return machine_.memory;
    const DeviceGuard guard(machine_.device);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<std::int64_t>(free);
  }
  std::unique_ptr<Backend> plan_only() override { return std::make_unique<CudaBackend>(*this); }
  // The next step is enqueued while the device works on this one.
  int launches_in_flight() const override { return 2; }
  std::unique_ptr<ThreadBinding> bind_thread() override {
    return std::make_unique<CurrentDevice>(machine_.device);
  }
  std::unique_ptr<Telemetry> make_telemetry() override {
    return make_gpu_telemetry(machine_.device);
  }

  std::unique_ptr<Variables> allocate(const graph::Graph& graph) override {
    const ActivityScope scope(machine_.progress, Activity::kPrepareGpu);
    return std::make_unique<CudaVariables>(
        graph, machine_.device, [streams = streams_] { streams->synchronize(); },
        machine_.progress);
  }
  std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                      const CompileOptions& options) override {
    const ActivityScope scope(machine_.progress, Activity::kPrepareGpu);
    const DeviceGuard guard(machine_.device);
    return std::make_unique<CudaExecutable>(graph, dynamic_cast<CudaVariables&>(variables),
                                            machine_, options);
  }
  // Graphs of two of NCCL's communicators that a thread launches may wait for each other for ever.
  bool shares_collectives() const override { return true; }
  std::unique_ptr<Collective> make_collective(cluster::Communicator& ranks) override {
    if (machine_.device == kPlannedDevice) return std::make_unique<PlannedCollective>(ranks);
    const ActivityScope scope(machine_.progress, Activity::kPrepareGpu);
    const DeviceGuard guard(machine_.device);
    std::unique_ptr<CudaCollective> collective =
        make_cuda_collective(ranks, machine_.device, timeout_);
    machine_.peers->add(collective.get());
    collective->on_destroy = [peers = machine_.peers, made = collective.get()] {
      peers->remove(made);
    };
    return collective;
  }

 private:
  std::chrono::milliseconds timeout_;
  std::shared_ptr<StreamList> streams_;
  Machine machine_;
};

// A stream that is in its backend's list during its lifetime.
class ListedStream final : public CudaStream {
 public:
  ListedStream(const Machine& machine, std::shared_ptr<StreamList> list)
      : CudaStream(machine.device, machine.peers, machine.progress), list_(std::move(list)) {
    list_->add(this);
  }
  ~ListedStream() override { list_->remove(this); }

 private:
  std::shared_ptr<StreamList> list_;
};

std::unique_ptr<Stream> CudaBackend::make_stream() {
  return std::make_unique<ListedStream>(machine_, streams_);
}

}  // namespace

std::vector<std::unique_ptr<Backend>> open_gpus(const DeviceOptions& options) {
  std::vector<std::unique_ptr<Backend>> backends;
  if (!options.platform.planned_gpu.empty()) {
    const GpuModel* model = find_gpu_model(options.platform.planned_gpu);
    if (model == nullptr)
      throw DeviceError("no GPU model is called " + options.platform.planned_gpu);
    for (std::size_t i = 0; i < options.gpus.size(); ++i) {
      backends.push_back(std::make_unique<CudaBackend>(*model, options));
    }
    return backends;
  }
  const auto shared = std::make_shared<SharedPlans>(options.cuda.agree);
  for (const int gpu : options.gpus) {
    backends.push_back(std::make_unique<CudaBackend>(gpu, options, shared));
  }
  return backends;
}

}  // namespace trainer::backend::cuda
