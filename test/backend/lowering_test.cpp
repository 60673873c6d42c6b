// The lowering that all backends share, on a small backend whose instructions add up float32
// vectors.
#include "backend/lowering/lowering.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/fuse/grouping.h"
#include "backend/lowering/packed_weights.h"

namespace trainer::test::lowering_test {
namespace {

using backend::BufferId;
using backend::BufferSource;
using backend::ProgramBuffers;
using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::Role;
using graph::Value;
using graph::ValueId;
using Kind = BufferSource::Kind;

class HostMemory {
 public:
  HostMemory() = default;
  explicit HostMemory(std::int64_t bytes) : data_(static_cast<std::size_t>(bytes)) {}
  std::size_t bytes() const { return data_.size(); }
  std::byte* data() const { return const_cast<std::byte*>(data_.data()); }

 private:
  std::vector<std::byte> data_;
};

using HostPackedWeights = backend::PackedWeights<HostMemory, void()>;

class HostVariables {
 public:
  explicit HostVariables(const Graph& graph) : placement_(backend::place_variables(graph)) {
    for (const Value& value : placement_.values) {
      values_[value.name].resize(static_cast<std::size_t>(value.shape.elements()));
    }
  }
  float* at(const std::string& name) { return values_.at(name).data(); }
  bool changed_by_training(const std::string& name) const {
    return placement_.changed_by_training(name);
  }
  std::int64_t gradient_offset(const std::string& parameter) const {
    return placement_.gradient_offset(parameter);
  }
  HostPackedWeights& packed_weights() { return packed_weights_; }
  std::int64_t flat_count() const { return placement_.flat.count; }

 private:
  backend::Placement placement_;
  std::map<std::string, std::vector<float>> values_;
  HostPackedWeights packed_weights_;
};

// The format is the sign: a value is stored as it is or negated.
enum class Sign { kPlus, kMinus };

struct HostOperand : backend::Operand {
  Sign sign = Sign::kPlus;
  Sign format() const { return sign; }
  void set_format(Sign format) { sign = format; }
};

struct HostPolicy {
  using Operand = HostOperand;
  using Format = Sign;
  using Context = backend::BufferPointers;
  using Group = std::variant<backend::SingleNode>;
  using Memory = HostMemory;
  using PackedWeights = HostPackedWeights;
  using Variables = HostVariables;
  static constexpr std::int64_t kAlignment = 32, kSizeUnit = 1;
  static Sign plain_format(const Value&) { return Sign::kPlus; }
  static std::byte* address(const HostMemory& memory) { return memory.data(); }
  static const char* name(const Group&) { return "sum"; }
};

using HostProgram = backend::Program<HostPolicy>;

std::vector<HostPolicy::Group> single_nodes(const Graph& graph) {
  std::vector<HostPolicy::Group> groups;
  for (const Node& node : graph.nodes) groups.emplace_back(backend::SingleNode{&node});
  return groups;
}

class HostLowering final : public backend::Lowering<HostPolicy> {
 public:
  using LowerNode = std::function<void(HostLowering&)>;

  // `lower_node` lowers the nodes whose layer has this name; all others become a sum.
  HostLowering(const Graph& graph, HostVariables& variables, bool has_flat_gradient = true,
               std::map<std::string, LowerNode> lower_node = {})
      : backend::Lowering<HostPolicy>(graph, 2, variables, single_nodes(graph)),
        has_flat_gradient_(has_flat_gradient),
        lower_node_(std::move(lower_node)) {}

  // Adds an instruction: each output is the sum of all inputs.
  void add_sum() {
    std::vector<HostOperand> from, to;
    for (std::size_t i = 0; i < input_count(); ++i) from.push_back(input(i));
    for (std::size_t i = 0; i < node().outputs.size(); ++i) to.push_back(output(i));
    emit("step", [=](const backend::BufferPointers& c) {
      for (const HostOperand& y : to) {
        for (std::int64_t k = 0; k < y.shape.elements(); ++k) {
          float sum = 0;
          for (const HostOperand& x : from) sum += c.at<float>(x.buffer)[k];
          c.at<float>(y.buffer)[k] = sum;
        }
      }
    });
  }

 private:
  void lower_group(const HostPolicy::Group&) override {
    const auto found = lower_node_.find(node().name);
    found == lower_node_.end() ? add_sum() : found->second(*this);
  }
  std::int64_t arena_bytes(const HostOperand& operand) const override {
    return operand.shape.elements() * static_cast<std::int64_t>(sizeof(float));
  }
  void convert_value(const Value& value, const HostOperand& from, const HostOperand& to) override {
    emit("negate " + value.name, [=](const backend::BufferPointers& c) {
      for (std::int64_t k = 0; k < from.shape.elements(); ++k) {
        c.at<float>(to.buffer)[k] = -c.at<float>(from.buffer)[k];
      }
    });
  }
  bool has_same_memory(const HostOperand&, Sign) const override { return false; }
  std::optional<BufferSource> gradient_source(std::int64_t offset) const override {
    if (!has_flat_gradient_) return std::nullopt;
    return BufferSource{Kind::kGradient, offset, nullptr};
  }
  BufferId output_buffer(ValueId id) override { return value(id, Sign::kPlus).buffer; }
  HostMemory allocate(std::int64_t bytes) const override { return HostMemory(bytes); }

  bool has_flat_gradient_;
  std::map<std::string, LowerNode> lower_node_;
};

ValueId add_value(Graph& graph, const std::string& name, Role role, Shape shape = {kBatch, 4}) {
  Value value;
  value.name = name;
  value.shape = std::move(shape);
  value.role = role;
  return graph.add_value(std::move(value));
}

void add_node(Graph& graph, const std::string& name, std::vector<ValueId> inputs,
              std::vector<ValueId> outputs, Phase phase = Phase::kForward) {
  graph.nodes.push_back({graph::Add{}, std::move(inputs), std::move(outputs), name, phase, {}});
}

// Returns x -> first -> second -> ... -> the output, `length` nodes. Value 0 is x.
Graph chain(int length) {
  Graph graph;
  ValueId x = add_value(graph, "x", Role::kInput);
  graph.inputs = {x};
  for (int i = 1; i <= length; ++i) {
    const ValueId y = add_value(graph, "y" + std::to_string(i), Role::kActivation);
    add_node(graph, "node" + std::to_string(i), {x}, {y});
    x = y;
  }
  graph.outputs = {x};
  return graph;
}

// Two instructions forward, then the gradient of the parameter b and that of a, then their updates.
Graph training_graph() {
  Graph graph = chain(2);
  const ValueId a = add_value(graph, "a", Role::kParameter, {8});
  const ValueId b = add_value(graph, "b", Role::kParameter, {8});
  const ValueId da = add_value(graph, "a/gradient", Role::kGradient, {8});
  const ValueId db = add_value(graph, "b/gradient", Role::kGradient, {8});
  add_node(graph, "backward b", {b}, {db}, Phase::kBackward);
  add_node(graph, "backward a", {a}, {da}, Phase::kBackward);
  for (const auto& [parameter, gradient] : {std::pair(b, db), std::pair(a, da)}) {
    graph.nodes.push_back(
        {graph::Update{}, {parameter, gradient}, {}, "update", Phase::kUpdate, {}});
  }
  return graph;
}

std::vector<std::string> names(std::span<const HostProgram::Instruction> instructions) {
  std::vector<std::string> all;
  for (const auto& one : instructions) all.push_back(one.name + ": " + one.implementation);
  return all;
}

// Runs all instructions before the update on an input of ones; returns output 0.
std::vector<float> run(HostProgram& program, std::vector<float> input, float* gradients = nullptr) {
  std::vector<float> arena(static_cast<std::size_t>(program.arena_bytes) / sizeof(float));
  program.arena = reinterpret_cast<std::byte*>(arena.data());
  auto* input_at = reinterpret_cast<std::byte*>(input.data());
  const std::vector<std::byte*> pointers = program.make_pointers({&input_at, 1}, gradients);
  const backend::BufferPointers context{pointers.data()};
  for (const auto& one : program.instructions_before_update()) one.run(context);
  const auto& port = program.outputs[0];
  const auto* values = context.at<float>(port.buffer);
  return {values, values + program.samples * port.bytes_per_sample / 4};
}

}  // namespace

TEST_CASE(
    "ProgramBuffers: the traffic of an instruction counts each buffer once, and the traffic added "
    "beside") {
  ProgramBuffers buffers(64, 1);
  const BufferId a = buffers.add_arena(100), b = buffers.add_fixed(nullptr);
  buffers.use(a, 100);
  buffers.use(b, 30);
  buffers.use(a, 100);  // named twice
  buffers.use(b);
  buffers.add_traffic(7);
  buffers.scratch(40);
  ProgramBuffers::InstructionMemory memory = buffers.end_instruction();
  CHECK(memory.traffic_bytes == 137);
  CHECK(memory.scratch_bytes == 40);
  // An instruction that is made in between has its own.
  buffers.use(a, 100);
  buffers.add_traffic(1);
  ProgramBuffers::Pending pending = buffers.set_aside();
  buffers.use(b, 30);
  CHECK(buffers.end_instruction().traffic_bytes == 30);
  buffers.resume(std::move(pending));
  memory = buffers.end_instruction();
  CHECK(memory.traffic_bytes == 101);
  CHECK(memory.scratch_bytes == 0);
}

TEST_CASE("ProgramBuffers: lifetimes that overlap in an instruction share no memory") {
  ProgramBuffers buffers(32, 1);
  const BufferId a = buffers.add_arena(32), b = buffers.add_arena(32), c = buffers.add_arena(32);
  buffers.use(a);
  buffers.end_instruction();
  buffers.use(a);
  buffers.use(b);
  buffers.end_instruction();
  buffers.use(b);
  buffers.use(c);
  buffers.end_instruction();
  const ProgramBuffers::Plan plan = buffers.plan();
  CHECK(plan.arena_bytes == 64);
  CHECK(plan.sources[0].offset != plan.sources[1].offset);
  CHECK(plan.sources[1].offset != plan.sources[2].offset);
  CHECK(plan.sources[0].offset == plan.sources[2].offset);
}

TEST_CASE(
    "ProgramBuffers: memory used after the last instruction is not shared with later buffers") {
  ProgramBuffers buffers(32, 1);
  const BufferId output = buffers.add_arena(32), later = buffers.add_arena(32);
  buffers.use(output);
  buffers.end_instruction();
  buffers.use(later);
  buffers.end_instruction();
  CHECK(buffers.plan().arena_bytes == 32);
  buffers.use_after_last(output);
  CHECK(buffers.plan().arena_bytes == 64);
}

TEST_CASE("ProgramBuffers: a buffer that no instruction uses has no memory and a null pointer") {
  ProgramBuffers buffers(32, 1);
  buffers.add_arena(64);
  const ProgramBuffers::Plan plan = buffers.plan();
  CHECK(plan.arena_bytes == 0);
  CHECK(plan.sources[0].kind == Kind::kFixed);
  CHECK(plan.sources[0].address == nullptr);
}

TEST_CASE("ProgramBuffers: the instruction in progress keeps its buffers while another is made") {
  ProgramBuffers buffers(32, 1);
  const BufferId mine = buffers.scratch(32);
  ProgramBuffers::Pending pending = buffers.set_aside();
  const BufferId other = buffers.scratch(96);
  CHECK(buffers.end_instruction().scratch_bytes == 96);
  buffers.resume(std::move(pending));
  CHECK(buffers.end_instruction().scratch_bytes == 32);
  CHECK(buffers.end_instruction().scratch_bytes == 0);
  const ProgramBuffers::Plan plan = buffers.plan();
  CHECK(plan.arena_bytes ==
        96);  // they share: `other` is used by instruction 0 alone, `mine` by instruction 1
  CHECK(plan.sources[static_cast<std::size_t>(mine)].offset == 0);
  CHECK(plan.sources[static_cast<std::size_t>(other)].offset == 0);
}

TEST_CASE("ProgramBuffers: sizes in units are rounded up before the largest is placed first") {
  ProgramBuffers buffers(64, 64);
  for (const std::int64_t bytes : {1, 60}) buffers.scratch(bytes);
  buffers.end_instruction();
  const ProgramBuffers::Plan plan = buffers.plan();  // equal sizes: in the order of their creation
  CHECK(plan.sources[0].offset == 0);
  CHECK(plan.sources[1].offset == 64);
  CHECK(plan.arena_bytes == 128);
}

TEST_CASE("make_pointers: sources of each kind have their addresses") {
  std::byte arena[64], fixed{}, input{};
  float gradients[16];
  const std::vector<BufferSource> sources{{Kind::kArena, 32, nullptr},
                                          {Kind::kFixed, 0, &fixed},
                                          {Kind::kGradient, 3, nullptr},
                                          {Kind::kInput, 1, nullptr},
                                          {Kind::kInput, 2, nullptr}};
  std::byte* const inputs[] = {nullptr, &input};
  const auto pointers = backend::make_pointers(sources, arena, inputs, gradients);
  CHECK(pointers == std::vector<std::byte*>{arena + 32, &fixed,
                                            reinterpret_cast<std::byte*>(gradients + 3), &input,
                                            nullptr});
}

TEST_CASE("Lowering: a chain of instructions has the right values in the memory of two of them") {
  const Graph graph = chain(5);
  HostVariables variables(graph);
  HostProgram program = HostLowering(graph, variables).lower();
  CHECK(program.arena_bytes == 2 * 2 * 4 * 4);
  const std::vector<float> input{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(run(program, input) == input);
  REQUIRE(program.inputs.size() == 1);
  CHECK(program.inputs[0].bytes_per_sample == 16);
  CHECK(program.samples == 2);
}

TEST_CASE("Lowering: an input that nothing reads is a port without a buffer") {
  Graph graph = chain(1);
  graph.inputs.push_back(add_value(graph, "labels", Role::kInput));
  graph.inputs.push_back(add_value(graph, "weights", Role::kInput));
  graph.outputs.push_back(graph.inputs.back());
  HostVariables variables(graph);
  const HostProgram program = HostLowering(graph, variables).lower();
  REQUIRE(program.inputs.size() == 3);
  CHECK(program.inputs[0].buffer >= 0);
  CHECK(program.inputs[1].buffer == -1);
  CHECK(program.inputs[2].buffer == program.outputs[1].buffer);  // an output counts as a reader
}

TEST_CASE("Lowering: the update phase is last for phases in any order of the groups") {
  Graph graph = training_graph();
  std::rotate(graph.nodes.begin(), graph.nodes.end() - 2, graph.nodes.end());
  HostVariables variables(graph);
  const HostProgram program = HostLowering(graph, variables).lower();
  CHECK(names(program.instructions) ==
        std::vector<std::string>{"node1: sum step", "node2: sum step", "backward b: sum step",
                                 "backward a: sum step", "update: sum step", "update: sum step"});
  CHECK(program.backward_begin == 2);
  CHECK(program.update_begin == 4);
  CHECK(program.instructions_before_update().size() == 4);
  CHECK(program.update_instructions().size() == 2);
}

TEST_CASE("Lowering: an output is kept while the update phase runs") {
  Graph graph = chain(1);
  const ValueId moved = add_value(graph, "moved", Role::kActivation);
  const ValueId x = graph.inputs[0];
  add_node(graph, "statistics", {x}, {moved}, Phase::kUpdate);
  HostVariables variables(graph);
  const HostProgram program = HostLowering(graph, variables).lower();
  CHECK(program.arena_bytes == 2 * 2 * 4 * 4);
}

TEST_CASE("Lowering: gradients have their offsets and the last instructions that write them") {
  const Graph graph = training_graph();
  HostVariables variables(graph);
  // The gradient of b is written once more, after that of a.
  const auto twice = [&](HostLowering& l) {
    l.add_sum();
    l.value(graph.nodes[2].outputs[0]);
    l.emit("again", [](const backend::BufferPointers&) {});
  };
  // The backends make no instruction of a node of the optimizer either.
  const auto nothing = [](HostLowering&) {};
  HostProgram program =
      HostLowering(graph, variables, true, {{"backward a", twice}, {"update", nothing}}).lower();
  // In the flat gradient, b is first and a begins at 16.
  const std::vector<std::pair<int, std::int64_t>> expected{{3, 16}, {4, 0}};
  CHECK(program.gradient_writers == expected);

  std::fill_n(variables.at("a"), 8, 3.0f);
  std::fill_n(variables.at("b"), 8, 5.0f);
  std::vector<float> gradients(static_cast<std::size_t>(variables.flat_count()));
  run(program, std::vector<float>(8), gradients.data());
  CHECK(gradients[0] == 5);
  CHECK(gradients[16] == 3);
}

TEST_CASE("Lowering: gradients are in the arena without a flat gradient") {
  const Graph graph = training_graph();
  HostVariables variables(graph);
  HostProgram program = HostLowering(graph, variables, false).lower();
  CHECK(program.gradient_writers.empty());
  for (const BufferSource& source : program.sources) CHECK(source.kind != Kind::kGradient);
}

TEST_CASE("Lowering: a value that no instruction before it writes throws std::logic_error") {
  Graph graph = chain(2);
  std::swap(graph.nodes[0], graph.nodes[1]);
  HostVariables variables(graph);
  CHECK_THROWS_WITH_AS(
      HostLowering(graph, variables).lower(),
      "node2: sum reads y1, which no instruction before it writes; internal error, please"
      " report it",
      std::logic_error);
  graph.nodes.erase(graph.nodes.begin());
  CHECK_THROWS_WITH_AS(HostLowering(graph, variables).lower(), doctest::Contains("output: reshape"),
                       std::logic_error);
}

TEST_CASE(
    "Lowering: a value read twice in another format is converted once, before the first read") {
  Graph graph = chain(2);
  add_node(graph, "node3", {1}, {add_value(graph, "y3", Role::kActivation)});
  HostVariables variables(graph);
  const auto negated = [](HostLowering& l) {
    // Both are asked for before the conversion, and used by the instruction after it.
    const HostOperand y = l.output(0);
    l.scratch(64);
    const HostOperand x = l.input(0, Sign::kMinus);
    CHECK(x.sign == Sign::kMinus);
    l.emit("copy", [=](const backend::BufferPointers& c) {
      std::copy_n(c.at<float>(x.buffer), 8, c.at<float>(y.buffer));
    });
  };
  HostProgram program =
      HostLowering(graph, variables, true, {{"node2", negated}, {"node3", negated}}).lower();
  CHECK(names(program.instructions) ==
        std::vector<std::string>{"node1: sum step", "node2: sum negate y1", "node2: sum copy",
                                 "node3: sum copy"});
  CHECK(program.instructions[1].workspace == 0);
  CHECK(program.instructions[2].workspace == 64);
  CHECK(run(program, std::vector<float>(8, 2.0f)) == std::vector<float>(8, -2.0f));
}

TEST_CASE("Lowering: an output that is the memory of an input has the input's lifetime") {
  const Graph graph = chain(4);
  HostVariables variables(graph);
  const auto alias = [](HostLowering& l) { l.alias_output(0, l.input(0)); };
  HostProgram program = HostLowering(graph, variables, true, {{"node2", alias}}).lower();
  CHECK(program.instructions.size() == 3);
  const std::vector<float> input{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(run(program, input) == input);
}

TEST_CASE("Lowering: scratch memory is not that of the values of its instruction") {
  const Graph graph = chain(2);
  HostVariables variables(graph);
  const auto with_scratch = [](HostLowering& l) {
    const BufferId scratch = l.scratch(96);
    const HostOperand x = l.input(0), y = l.output(0);
    l.emit("copy", [=](const backend::BufferPointers& c) {
      std::fill_n(c.at<float>(scratch), 24, 9.0f);
      std::copy_n(c.at<float>(x.buffer), 8, c.at<float>(y.buffer));
      std::fill_n(c.at<float>(scratch), 24, 9.0f);
    });
  };
  HostProgram program = HostLowering(graph, variables, true, {{"node2", with_scratch}}).lower();
  CHECK(program.instructions[0].workspace == 0);
  CHECK(program.instructions[1].workspace == 96);
  const std::vector<float> input{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(run(program, input) == input);
}

TEST_CASE("Lowering: packed weights are made once for all programs and again when they are stale") {
  Graph graph = training_graph();
  const ValueId frozen = add_value(graph, "frozen", Role::kParameter, {8});
  graph.nodes[0].inputs = {graph.inputs[0], graph.find("a"), frozen};
  HostVariables variables(graph);
  int created = 0, made = 0;
  const auto packed = [&](HostLowering& l) {
    for (const std::size_t i : {1, 2}) {
      l.packed_weights(i, "copy", 32, [&](const float* from, std::byte* to) {
        ++created;
        return [&made, from, to] {
          ++made;
          std::copy_n(from, 8, reinterpret_cast<float*>(to));
        };
      });
    }
    l.alias_output(0, l.input(0));
  };
  const auto lower = [&] {
    return HostLowering(graph, variables, true, {{"node1", packed}}).lower();
  };
  const HostProgram program = lower(), other = lower();
  CHECK(created == 2);
  REQUIRE(program.packed_weights.size() == 2);
  CHECK(program.packed_weights == other.packed_weights);
  CHECK(variables.packed_weights().bytes() == 64);

  HostPackedWeights& all = variables.packed_weights();
  const auto stale = [&] {
    std::vector<bool> result;
    for (const auto* entry : program.packed_weights) result.push_back(all.is_stale(*entry));
    return result;
  };
  CHECK(stale() == std::vector<bool>{true, true});
  for (auto* entry : program.packed_weights) {
    entry->make();
    all.mark_made(*entry);
  }
  CHECK(made == 2);
  CHECK(stale() == std::vector<bool>{false, false});
  all.note_training();
  CHECK(stale() == std::vector<bool>{true, false});  // training does not change `frozen`
  all.mark_made(*program.packed_weights[0]);
  all.note_write();
  CHECK(stale() == std::vector<bool>{true, true});
}

TEST_CASE("Lowering: a prepared value is made before what is packed of it") {
  Graph graph = training_graph();
  const ValueId folded = add_value(graph, "folded", Role::kDerived, {8});
  graph.nodes.insert(
      graph.nodes.begin(),
      Node{graph::FoldBatchNorm{}, {graph.find("a")}, {folded}, "fold", Phase::kPrepare, {}});
  graph.nodes[1].inputs = {graph.inputs[0], graph.find("b"), folded};
  HostVariables variables(graph);
  const auto fold = [](HostLowering& l) {
    const float* from = l.persistent(0);
    l.prepare_output(0, [=](float* to) {
      return [=] { std::transform(from, from + 8, to, [](float x) { return 2 * x; }); };
    });
  };
  const auto packed = [](HostLowering& l) {
    const HostOperand x = l.input(0), y = l.output(0);
    BufferId copies[2];
    for (const std::size_t i : {1, 2}) {
      copies[i - 1] = l.packed_weights(i, "copy", 32, [](const float* from, std::byte* to) {
        return [=] { std::copy_n(from, 8, reinterpret_cast<float*>(to)); };
      });
    }
    l.emit("sum", [=, a = copies[0], b = copies[1]](const backend::BufferPointers& c) {
      for (int k = 0; k < 8; ++k) {
        c.at<float>(y.buffer)[k] = c.at<float>(x.buffer)[k] + c.at<float>(a)[k] + c.at<float>(b)[k];
      }
    });
  };
  HostProgram program =
      HostLowering(graph, variables, true, {{"fold", fold}, {"node1", packed}}).lower();
  REQUIRE(program.packed_weights.size() == 3);
  CHECK(program.packed_weights[0]->order == 0);
  CHECK(program.packed_weights[0]->changed_by_training);  // made of `a`
  CHECK(program.packed_weights[2]->order == 1);
  std::fill_n(variables.at("a"), 8, 3.0f);
  std::fill_n(variables.at("b"), 8, 100.0f);
  for (const auto* entry : program.packed_weights) entry->make();
  std::vector<float> gradients(static_cast<std::size_t>(variables.flat_count()));
  CHECK(run(program, std::vector<float>(8, 1.0f), gradients.data()) ==
        std::vector<float>(8, 107.0f));
}

}  // namespace trainer::test::lowering_test
