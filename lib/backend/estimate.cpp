#include "backend/estimate.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <stdexcept>

#include "backend/arena.h"
#include "backend/exchange.h"
#include "backend/host_collective.h"
#include "backend/memory_planner.h"
#include "backend/placed_variables.h"
#include "base/error.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend {
namespace {

using graph::Role;
using graph::ValueId;

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kAlignment = 256;  // of cudaMalloc
constexpr std::int64_t kTrailer = 2;      // floats that travel behind the gradients

[[noreturn]] void throw_plan_only() {
  throw std::logic_error(
      "a plan for a GPU of another machine was run; internal error, please report it");
}

std::int64_t count_bytes(const graph::Value& value, std::int64_t samples) {
  return value.shape.elements() * (value.shape.batched() ? samples : 1) *
         static_cast<std::int64_t>(size_of(value.type));
}

class NoEvent final : public Event {
 public:
  bool done() const override { return true; }
  void wait() const override {}
};

class NoStream final : public Stream {
 public:
  void upload(Span, const void*, std::size_t) override { throw_plan_only(); }
  void download(void*, Span, std::size_t) override { throw_plan_only(); }
  void record(Event&) override { throw_plan_only(); }
  void wait_for(const Event&) override { throw_plan_only(); }
  void synchronize() override {}
};

class EstimatedVariables final : public PlacedVariables {
 public:
  explicit EstimatedVariables(const graph::Graph& graph) : PlacedVariables(graph) {}
  void read(std::string_view, std::span<float> to) const override { std::ranges::fill(to, 0.0f); }
  void write(std::string_view, std::span<const float>) override {}
  void read_flat(FlatBuffer, std::int64_t, std::span<float> to) const override {
    std::ranges::fill(to, 0.0f);
  }
  void write_flat(FlatBuffer, std::int64_t, std::span<const float>) override {}

  // The executables of a model share the largest arena, and copies of weights by their sources.
  std::int64_t arena = 0;
  std::map<std::string, std::int64_t> copies;
};

// The lifetime of every value that lies in an arena. A reshaped value shares the memory of the
// value that it was made of.
class Lifetimes {
 public:
  Lifetimes(const graph::Graph& graph, const Placement& placement, std::int64_t samples)
      : graph_(graph), placement_(placement), samples_(samples), at_(graph.values.size(), -1) {
    int position = 0;
    for (const graph::Node& node : graph.nodes) {
      if (node.phase != graph::Phase::kForward && node.phase != graph::Phase::kBackward) continue;
      for (const ValueId id : node.inputs) use(id, position);
      if (std::holds_alternative<graph::Reshape>(node.op)) {
        at_[node.outputs[0]] = at_[node.inputs[0]];
      }
      for (const ValueId id : node.outputs) make(id, position);
      ++position;
    }
    for (const graph::Node& node : graph.nodes) {
      if (node.phase != graph::Phase::kUpdate) continue;
      for (const ValueId id : node.inputs) use(id, position);
    }
    for (const ValueId id : graph.outputs) use(id, position);
  }

  std::int64_t arena_bytes() const { return plan_arena(lifetimes_, kAlignment).bytes; }

 private:
  void use(ValueId id, int position) {
    const int lifetime = at_[id];
    if (lifetime >= 0) lifetimes_[lifetime].last = position;
  }

  void make(ValueId id, int position) {
    const graph::Value& value = graph_[id];
    if (at_[id] >= 0) return use(id, position);
    const bool elsewhere =
        value.role == Role::kGradient && placement_.locations.contains(parameter_name(value.name));
    if (elsewhere || graph::is_persistent(value.role)) return;
    at_[id] = static_cast<int>(lifetimes_.size());
    lifetimes_.push_back({count_bytes(value, samples_), position, position});
  }

  const graph::Graph& graph_;
  const Placement& placement_;
  std::int64_t samples_;
  std::vector<int> at_;  // by value: the index of its lifetime; -1: it is not in the arena
  std::vector<Lifetime> lifetimes_;
};

// Returns the kernel of a product that a library computes and that it reads as a copy; kNoValue for
// other nodes. Depthwise convolutions read the parameter itself.
ValueId find_copied_kernel(const graph::Graph& graph, const graph::Node& node) {
  if (const auto* conv = std::get_if<graph::Conv>(&node.op)) {
    const std::int64_t channels = graph[node.inputs[0]].shape[3];
    return graph::is_depthwise(conv->groups, channels) ? graph::kNoValue : node.inputs[1];
  }
  if (const auto* data = std::get_if<graph::ConvBackwardData>(&node.op)) {
    return graph::is_depthwise(data->groups, data->input[3]) ? graph::kNoValue : node.inputs[1];
  }
  const bool dense = std::holds_alternative<graph::Dense>(node.op) ||
                     std::holds_alternative<graph::DenseBackwardData>(node.op);
  return dense ? node.inputs[1] : graph::kNoValue;
}

class EstimatedExecutable final : public Executable {
 public:
  EstimatedExecutable(const graph::Graph& graph, EstimatedVariables& variables,
                      const CompileOptions& options)
      : variables_(variables), options_(options), updates_(has_updates(graph)) {
    const std::int64_t samples = largest_part();
    variables_.arena =
        std::max(variables_.arena, Lifetimes(graph, variables_.placement(), samples).arena_bytes());
    add_copies(graph);
    for (const graph::Node& node : graph.nodes) {
      if (node.phase != graph::Phase::kForward && node.phase != graph::Phase::kBackward) continue;
      InstructionInfo info{node.name, concat(graph::name_of(node.op), ", not planned")};
      info.phase = node.phase;
      instructions_.push_back(info);
    }
  }

  void launch(const Bindings&, const Scalars&, Stream&) override { throw_plan_only(); }
  void prepare(std::int64_t, std::int64_t) override {}
  Gradient gradient(Stream&) override { throw_plan_only(); }
  void read_gradient(Stream&, std::int64_t, std::span<float>) override { throw_plan_only(); }
  MemoryReport memory() const override {
    MemoryReport report;
    report.variables = variables_.bytes();
    report.slots = variables_.slot_bytes();
    report.activations = variables_.arena;
    for (const auto& [key, bytes] : variables_.copies) report.derived += bytes;
    if (updates_) report.gradients = gradient_bytes();
    return report;
  }
  std::vector<InstructionInfo> instructions() override { return instructions_; }
  void print(std::ostream& out) const override {
    for (const InstructionInfo& info : instructions_) {
      out << "  " << info.layer << ": " << info.implementation << '\n';
    }
  }

 private:
  std::int64_t ranks() const {
    const Collective* gradients = options_.reduction.gradients;
    return gradients == nullptr ? 1 : gradients->size();
  }
  // An ordered sum runs the micro-batches of all ranks' samples one after another.
  std::int64_t largest_part() const {
    if (!options_.reduction.ordered || !updates_) return options_.max_samples;
    const std::int64_t parts = options_.reduction.micro_batches;
    return (max_all_samples(options_, ranks()) + parts - 1) / parts;
  }
  std::int64_t gradient_bytes() const {
    const Flat& flat = variables_.placement().flat;
    const bool moved = options_.reduction.gradients != nullptr;
    const std::int64_t statistics = options_.reduction.statistics == nullptr ? flat.statistics : 0;
    const std::int64_t sum = flat.count + (moved ? kTrailer + statistics : 0);
    std::int64_t floats = sum + flat.statistics;
    if (options_.reduction.ordered) {
      const std::int64_t leaves = options_.reduction.micro_batches;
      const Partition part =
          partition(leaves, ranks(), moved ? options_.reduction.gradients->rank() : 0);
      const auto roots = static_cast<std::int64_t>(max_rank_roots(leaves, ranks()));
      const auto waiting =
          static_cast<std::int64_t>(max_waiting_roots(part.first, part.first + part.count));
      floats += flat.count * (2 + waiting) + (moved ? (ranks() * roots + roots - 1) * sum : 0);
    }
    return floats * kFloat;
  }
  void add_copies(const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (node.phase == graph::Phase::kPrepare) {
        for (const ValueId id : node.outputs) {
          variables_.copies[concat(node.name, "/", graph::name_of(node.op), id)] =
              count_bytes(graph[id], 1);
        }
      }
      const ValueId kernel = find_copied_kernel(graph, node);
      if (kernel == graph::kNoValue) continue;
      const DType type = graph[node.inputs[0]].type;
      const bool image = graph[kernel].shape.rank() == 4;
      if (!image && type == DType::kFloat32) continue;  // a product takes the parameter as it is
      const bool folded = !graph::is_persistent(graph[kernel].role);
      variables_.copies[concat(folded ? node.name + "/folded" : graph[kernel].name, "#",
                               to_string(type))] =
          graph[kernel].shape.elements() * static_cast<std::int64_t>(size_of(type));
    }
  }

  EstimatedVariables& variables_;
  CompileOptions options_;
  bool updates_;
  std::vector<InstructionInfo> instructions_;
};

class EstimatedBackend final : public Backend, public MemoryPlanner {
 public:
  EstimatedBackend(const GpuModel& model, std::string reason)
      : model_(model), reason_(std::move(reason)) {}

  std::string describe() const override {
    return concat("cuda, planned for ", model_.gpu.name,
                  ", without cuDNN's plans and workspaces: ", reason_);
  }
  std::string describe_devices(std::int64_t replicas) const override {
    return concat(replicas, replicas == 1 ? " GPU" : " GPUs");
  }
  bool supports(DType activations) const override { return is_float(activations); }
  bool has_tf32() const override { return true; }
  bool reads_host_memory() const override { return false; }
  int launches_in_flight() const override { return 2; }
  std::int64_t free_memory() const override { return model_.gpu.memory_bytes; }
  std::unique_ptr<Backend> plan_only() override {
    return std::make_unique<EstimatedBackend>(model_, reason_);
  }

  Buffer allocate(std::size_t bytes) override {
    // An address that nothing touches.
    return {{reinterpret_cast<std::byte*>(kAlignment), bytes}, [](std::byte*) {}};
  }
  HostBuffer allocate_host(std::size_t bytes) override { return trainer::allocate_host(bytes); }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<NoStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<NoEvent>(); }
  std::unique_ptr<Variables> allocate(const graph::Graph& graph) override {
    return std::make_unique<EstimatedVariables>(graph);
  }
  std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                      const CompileOptions& options) override {
    return std::make_unique<EstimatedExecutable>(
        graph, dynamic_cast<EstimatedVariables&>(variables), options);
  }
  std::unique_ptr<Collective> make_collective(cluster::Communicator& ranks) override {
    return std::make_unique<HostCollective>(ranks);
  }

 private:
  const GpuModel& model_;
  std::string reason_;
};

}  // namespace

std::unique_ptr<Backend> make_estimate(const GpuModel& model, const std::string& reason) {
  return std::make_unique<EstimatedBackend>(model, reason);
}

}  // namespace trainer::backend
