#include "backend/cpu/cpu.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/evaluation_executable.h"
#include "backend/cpu/executable.h"
#include "backend/cpu/lanes/first_touch.h"
#include "backend/cpu/lanes/lane_cores.h"
#include "backend/cpu/lanes/lanes.h"
#include "backend/host_collective.h"
#include "backend/placement.h"
#include "base/threads/cores.h"

namespace trainer::backend::cpu {
namespace {

Machine inspect(const std::string& instruction_set) {
  Machine machine;
  const bool amx = instruction_set == "amx";
  // The environment variable DNNL_MAX_CPU_ISA of oneDNN limits our own kernels, too.
  const dnnl::cpu_isa allowed = dnnl::get_effective_cpu_isa();
  const bool allows_amx = allowed == dnnl::cpu_isa::avx512_core_amx;
  if ((amx || instruction_set.empty()) && allows_amx) machine.amx = simd::amx_kernels();
  if (!amx || machine.amx != nullptr) {
    machine.kernels = amx || instruction_set.empty() ? simd::best_kernels()
                                                     : simd::kernels_named(instruction_set.c_str());
  }
  if (machine.kernels == nullptr) {
    if (!instruction_set.empty()) {
      throw DeviceError(concat("this processor has no ", instruction_set, " kernels"));
    }
    throw DeviceError("this processor lacks AVX2 and FMA (x86-64-v3), which the CPU backend needs");
  }
  machine.block = machine.kernels->block;
  machine.bf16 = machine.block == 16 && __builtin_cpu_supports("avx512bf16") &&
                 (allows_amx || allowed == dnnl::cpu_isa::avx512_core_bf16);
  // A tile's instructions do 16 times the multiply-adds of float32. AMD's for vectors do twice,
  // those of Intel as many.
  machine.bf16_rate = machine.amx != nullptr ? 16 : __builtin_cpu_is("amd") ? 2 : 1;
  machine.isa = machine.kernels->name;
  return machine;
}

// The streams of the CPU: work is done before the call that enqueues it returns.
class DoneEvent final : public Event {
 public:
  bool done() const override { return true; }
  void wait() const override {}
};

class CpuStream final : public Stream {
 public:
  void upload(Span to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to.address, from, bytes);
  }
  void download(void* to, Span from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from.address, bytes);
  }
  void record(Event&) override {}
  void wait_for(const Event&) override {}
  void synchronize() override {}
};

// Keeps a thread, which runs the first lane of a replica while it launches, on the replica's cores.
class PinnedThread final : public ThreadBinding {
 public:
  explicit PinnedThread(std::span<const int> cores) : pinned_(cores) {}

 private:
  Pinned pinned_;
};

// The lanes of all programs that have the same number of lanes and of threads.
struct LaneGroup {
  LaneGroup(Machine machine_of_all, int lanes, int threads_of_all,
            std::vector<std::vector<int>> cores)
      : machine(std::move(machine_of_all)),
        threads(lanes, threads_of_all / lanes, std::move(cores)) {
    machine.threads = threads.threads_per_lane();
  }

  Machine machine;
  LaneThreads threads;
};

using CoreBinding = CpuOptions::Binding;

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, const CpuOptions& options)
      : machine_(inspect(options.instruction_set)),
        threads_(threads),
        options_(options),
        lanes_{options.lanes > 0 ? options.lanes : std::min(threads, kMaxLanes), ""},
        arenas_(kMaxLanes) {
    machine_.progress = options.progress;
  }

  std::string describe() const override {
    const dnnl_version_t* version = dnnl_version();
    const int threads = threads_ / lanes_.count;
    return concat("cpu, ", lanes_.count, lanes_.count == 1 ? " lane" : " lanes", " x ", threads,
                  threads == 1 ? " thread" : " threads", ", ", machine_.isa,
                  machine_.amx != nullptr ? " with bf16 on AMX"
                  : machine_.bf16         ? " with bf16"
                                          : "",
                  ", oneDNN ", version->major, ".", version->minor, ".", version->patch);
  }

  // Replicas share the processor.
  std::string describe_devices(std::int64_t replicas) const override {
    if (replicas > 1) return concat(replicas, " replicas");
    return concat(threads_, threads_ == 1 ? " CPU thread" : " CPU threads");
  }

  ChosenSettings chosen_settings() const override {
    const int threads = options_.all_threads > 0 ? options_.all_threads : threads_;
    return {threads, lanes_.count, lanes_.reason};
  }

  bool supports(DType activations) const override {
    return activations == DType::kFloat32 || (activations == DType::kBFloat16 && machine_.bf16);
  }
  bool prefers_bfloat16() const override { return machine_.bf16 && machine_.bf16_rate >= 2; }

  Buffer allocate(std::size_t bytes) override {
    auto memory = std::make_shared<Memory>(static_cast<std::int64_t>(bytes));
    const Span span{reinterpret_cast<std::byte*>(memory->data()), bytes};
    return {span, [memory](std::byte*) mutable { memory.reset(); }};
  }
  HostBuffer allocate_host(std::size_t bytes) override { return trainer::allocate_host(bytes); }
  bool reads_host_memory() const override { return true; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<DoneEvent>(); }
  int launches_in_flight() const override { return 1; }
  std::unique_ptr<ThreadBinding> bind_thread() override {
    if (options_.binding != CoreBinding::kProcessors) return nullptr;
    return std::make_unique<PinnedThread>(processor_numbers(options_.processors));
  }

  std::unique_ptr<Variables> allocate(const graph::Graph& graph) override {
    return std::make_unique<CpuVariables>(graph);
  }

  std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                      const CompileOptions& options) override {
    auto& cpu_variables = dynamic_cast<CpuVariables&>(variables);
    Lanes lanes{options_.lanes, ""};
    if (options_.lanes == 0)
      lanes = choose_lanes(graph, cpu_variables, options, threads_, options_.processors);
    if (has_updates(graph)) {
      lanes_ = lanes;
      if (options_.binding != CoreBinding::kNone && count_nodes(options_.processors) > 1) {
        touch_slices(cpu_variables, find_group(lanes.count, threads_).threads);
      }
    } else if (lanes.count > 1 && !options.reduction.ordered && !options.same_for_any_batch) {
      return std::make_unique<EvaluationExecutable>(
          lanes.count, threads_, options.max_samples,
          [this, graph, &cpu_variables, options](int count, int threads, std::int64_t samples) {
            CompileOptions of_program = options;
            of_program.max_samples = samples;
            return compile_on(find_group(count, threads), graph, cpu_variables, of_program);
          },
          options_.read_thread_times);
    }
    return compile_on(find_group(lanes.count, threads_), graph, cpu_variables, options);
  }

  std::unique_ptr<Collective> make_collective(cluster::Communicator& ranks) override {
    return std::make_unique<HostCollective>(ranks);
  }

 private:
  std::unique_ptr<CpuExecutable> compile_on(LaneGroup& group, const graph::Graph& graph,
                                            CpuVariables& variables,
                                            const CompileOptions& options) {
    const ActivityScope scope(machine_.progress, Activity::kCompile);
    return std::make_unique<CpuExecutable>(graph, variables, group.threads, arenas_, group.machine,
                                           options);
  }

  LaneGroup& find_group(int lanes, int threads) {
    std::unique_ptr<LaneGroup>& group = groups_[{lanes, threads}];
    if (!group) {
      group = std::make_unique<LaneGroup>(machine_, lanes, threads, choose_cores(lanes, threads));
    }
    return *group;
  }

  // Returns the cores that the threads of each lane stay on; empty if they may run anywhere.
  std::vector<std::vector<int>> choose_cores(int lanes, int threads) const {
    if (options_.binding == CoreBinding::kNone) return {};
    const LaneCores cores = place_lanes(options_.processors, lanes, threads / lanes);
    if (options_.binding == CoreBinding::kNodes) return node_cores(cores, options_.processors);
    std::vector<std::vector<int>> all;
    for (const std::vector<Processor>& lane : cores.lanes) all.push_back(processor_numbers(lane));
    return all;
  }

  Machine machine_;
  int threads_;
  CpuOptions options_;
  // The lanes of the training program that was compiled last; before that, the most there can be.
  Lanes lanes_;
  // The key is the numbers of lanes and of threads.
  std::map<std::pair<int, int>, std::unique_ptr<LaneGroup>> groups_;
  Arenas arenas_;
};

}  // namespace

std::unique_ptr<Backend> open_backend(const CpuOptions& options) {
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(usable_core_count());
  return std::make_unique<CpuBackend>(std::max(threads, options.lanes), options);
}

}  // namespace trainer::backend::cpu
