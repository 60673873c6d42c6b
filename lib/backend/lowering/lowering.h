// Lowers the groups of a graph to a program: finds a place for each value, converts values between
// formats, keeps packed weights, and records which instruction uses which buffer. Everything is
// chosen and allocated here, so that a run allocates nothing and looks nothing up. Reasons:
// lib/decisions/backend.md#all-backends-share-one-lowering.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/lowering/program.h"
#include "backend/lowering/program_buffers.h"
#include "backend/placement.h"
#include "base/error.h"
#include "graph/graph.h"

namespace trainer::backend {

// An operand of an instruction. A backend adds what distinguishes the formats that it has.
struct Operand {
  BufferId buffer = -1;
  DType type = DType::kFloat32;
  Shape shape;  // logical, with the number of samples filled in

  // Bytes of the values, without what a format adds.
  std::int64_t value_bytes() const {
    return shape.elements() * static_cast<std::int64_t>(size_of(type));
  }
  std::int64_t n() const { return shape[0]; }
  std::int64_t h() const { return shape[1]; }
  std::int64_t w() const { return shape[2]; }
  std::int64_t c() const { return shape[shape.rank() - 1]; }
};

// A backend derives its own class, which adds what its ops need, and defines what differs between
// backends: the virtual functions, and a Policy with these members:
//   Operand          derived from backend::Operand, with format() and set_format()
//   Format           the property that conversions change: a layout or a type
//   Context          derived from BufferPointers: what an instruction sees while it runs
//   Group            a std::variant of groups (backend/fuse/grouping.h)
//   Memory           owns memory of the device
//   PackedWeights    backend::PackedWeights of this Memory
//   Variables        has at(name), changed_by_training(name), gradient_offset(parameter) and
//                    packed_weights()
//   kAlignment, kSizeUnit       of buffers, in bytes: see ProgramBuffers
//   plain_format(value)         the format of inputs, variables and gradients
//   address(memory)             the first byte of a Memory
//   name(group)                 the name of a group in printed programs
template <class Policy>
class Lowering {
 public:
  using Operand = typename Policy::Operand;
  using Format = typename Policy::Format;
  using Instruction = typename Program<Policy>::Instruction;
  using Run = typename Instruction::Run;
  using Entry = typename Policy::PackedWeights::Entry;
  using Make = typename Policy::PackedWeights::Make;

  virtual ~Lowering() = default;
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  // Lowers all phases. May be called once.
  Program<Policy> lower();

  // ---- For the lowering of single ops and groups ----
  std::int64_t samples() const { return samples_; }
  const graph::Graph& graph() const { return graph_; }
  const graph::Node& node() const { return *node_; }
  std::size_t input_count() const { return node_->inputs.size(); }
  Shape input_shape(std::size_t i) const {  // logical, with the number of samples filled in
    return graph_[node_->inputs[i]].shape.with_batch(samples_);
  }
  DType output_type(std::size_t i) const { return graph_[node_->outputs[i]].type; }
  // True if a node or the caller reads output i.
  bool is_output_read(std::size_t i) const { return is_read(node_->outputs[i]); }

  // Returns a value that the next instruction reads, in the format in which it was made. Copies in
  // other formats do not count: which ones exist depends on the instructions before, and a kernel
  // that is chosen by the format must be the same for an instruction that is computed again. Throws
  // std::logic_error if no instruction before this one makes the value.
  Operand value(graph::ValueId id) {
    check_made(id);
    const std::vector<Operand>& places = places_[id];
    const Operand operand =
        places.empty() ? place(id, Policy::plain_format(graph_[id])) : places.front();
    buffers_.use(operand.buffer, operand.value_bytes());
    return operand;
  }
  // Returns the value in `wanted` format. Adds an instruction that converts it if it has another
  // one.
  Operand value(graph::ValueId id, Format wanted) {
    check_made(id);
    const Operand operand = in_format(id, place(id, wanted), wanted);
    buffers_.use(operand.buffer, operand.value_bytes());
    return operand;
  }
  Operand input(std::size_t i) { return value(node_->inputs[i]); }
  Operand input(std::size_t i, Format wanted) { return value(node_->inputs[i], wanted); }
  // Returns a value that the next instruction writes, in `format` unless the value already has a
  // place. Persistent values and gradients lie in their flat buffers, all others in the arena.
  Operand result(graph::ValueId id, Format format) {
    const Operand operand = place(id, format);
    buffers_.use(operand.buffer, operand.value_bytes());
    return operand;
  }
  Operand result(graph::ValueId id) { return result(id, Policy::plain_format(graph_[id])); }
  Operand output(std::size_t i, Format format) { return result(node_->outputs[i], format); }
  Operand output(std::size_t i) { return result(node_->outputs[i]); }
  // Makes output i the same memory as `operand` (reshapes).
  void alias_output(std::size_t i, const Operand& operand) {
    places_[node_->outputs[i]].push_back(operand);
  }
  // Returns memory that the next instruction uses, and later instructions that name it in use().
  BufferId scratch(std::int64_t bytes) { return buffers_.scratch(bytes); }
  // Returns memory that the next instruction writes for later ones, which name it in use().
  BufferId keep(std::int64_t bytes) {
    const BufferId buffer = buffers_.add_arena(bytes);
    buffers_.use(buffer, bytes);
    return buffer;
  }
  // Records that the next instruction uses the buffer, and reads or writes `bytes` of it.
  void use(BufferId buffer, std::int64_t bytes = 0) { buffers_.use(buffer, bytes); }
  // Records that the next instruction reads or writes `bytes` bytes beside each of its operands
  // once.
  void add_traffic(std::int64_t bytes) { buffers_.add_traffic(bytes); }
  // Returns the place of a persistent or prepared input.
  float* persistent(std::size_t i) const {
    const graph::ValueId id = node_->inputs[i];
    return is_prepared(id) ? prepared_.at(id) : variables_.at(graph_[id].name);
  }
  // Returns input i, persistent or prepared, in another format that is made again whenever the
  // variables change. `key` distinguishes the formats. `create` is called if no executable has made
  // the entry yet; it gets both places and returns the function that does the work.
  BufferId packed_weights(std::size_t i, const std::string& key, std::int64_t bytes,
                          const std::function<Make(const float* from, std::byte* to)>& create);
  // Marks output i as prepared: it is made of persistent inputs whenever they change, before a
  // call. `create` gets the place of the output and returns the function that does the work.
  Entry& prepare_output(std::size_t i, const std::function<Make(float* to)>& create);

  // Ends the lowering of one piece of work: an instruction that uses what was asked for since the
  // last one.
  void emit(const std::string& implementation, Run run);
  // Ends the lowering of work of several layers, which `name` describes.
  void emit_for_layers(const std::string& name, const std::string& implementation, Run run);

 protected:
  // `graph` and `variables` must outlive this object.
  Lowering(const graph::Graph& graph, std::int64_t samples, typename Policy::Variables& variables,
           std::vector<typename Policy::Group> groups);

  // Calls lower() of the group's type.
  virtual void lower_group(const typename Policy::Group& group) = 0;
  // Returns the bytes of a value in the arena.
  virtual std::int64_t arena_bytes(const Operand& operand) const = 0;
  // Adds the instruction that converts a value; both operands have places.
  virtual void convert_value(const graph::Value& value, const Operand& from, const Operand& to) = 0;
  // True if `from` can be read in the wanted format without a conversion.
  virtual bool has_same_memory(const Operand& from, Format wanted) const = 0;
  // Returns where the gradient lies that has this offset in the flat gradient; empty if the program
  // has no flat gradient.
  virtual std::optional<BufferSource> gradient_source(std::int64_t offset) const = 0;
  // Returns the buffer that the caller copies an output from.
  virtual BufferId output_buffer(graph::ValueId id) = 0;
  virtual typename Policy::Memory allocate(std::int64_t bytes) const = 0;

  // Keeps memory that no instruction writes as long as the program.
  BufferId add_constant(typename Policy::Memory memory) {
    constants_.push_back(std::move(memory));
    return buffers_.add_fixed(Policy::address(constants_.back()));
  }
  // Returns, for messages, the layer and the op or group that is lowered.
  std::string where() const { return concat(node_->name, ": ", op_name_); }

 private:
  bool is_read(graph::ValueId id) const { return read_[id]; }
  bool is_prepared(graph::ValueId id) const { return prepared_.contains(id); }
  void lower_phases(graph::Phase first, graph::Phase last) {
    for (const typename Policy::Group& group : groups_) {
      const graph::Node& node = *std::visit([](const auto& any) { return any.node; }, group);
      if (node.phase < first || node.phase > last) continue;
      node_ = &node;
      op_name_ = Policy::name(group);
      lower_group(group);
      buffers_.set_aside();  // drops the buffers that no instruction of this group has used
    }
  }
  void place_inputs(Program<Policy>& program) {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const graph::ValueId id = graph_.inputs[i];
      Port port;
      if (is_read(id)) {
        const graph::Value& value = graph_[id];
        Operand operand = make_operand(value);
        operand.buffer =
            buffers_.add({BufferSource::Kind::kInput, static_cast<std::int64_t>(i), nullptr});
        places_[id].push_back(operand);
        port = make_port(value, operand.buffer);
      }
      program.inputs.push_back(port);
    }
  }
  void place_outputs(Program<Policy>& program) {
    static const graph::Node kCopyOut{graph::Reshape{},       {}, {}, "output",
                                      graph::Phase::kForward, {}};
    node_ = &kCopyOut;
    op_name_ = graph::name_of(kCopyOut.op);
    for (const graph::ValueId id : graph_.outputs) {
      check_made(id);
      program.outputs.push_back(make_port(graph_[id], output_buffer(id)));
      buffers_.set_aside();
    }
  }
  Port make_port(const graph::Value& value, BufferId buffer) const {
    const auto bytes = value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
    return {buffer, value.shape.batched() ? bytes : 0, bytes};
  }
  // Returns an operand without a buffer, in the plain format of the value.
  Operand make_operand(const graph::Value& value) const {
    Operand operand;
    operand.type = value.type;
    operand.shape = value.shape.with_batch(samples_);
    operand.set_format(Policy::plain_format(value));
    return operand;
  }
  // Returns the place of a value. Allocates one if no instruction has made the value yet.
  Operand place(graph::ValueId id, Format format) {
    std::vector<Operand>& places = places_[id];
    for (const Operand& operand : places) {
      if (operand.format() == format) return operand;
    }
    if (!places.empty()) return places.front();
    const graph::Value& value = graph_[id];
    Operand operand = make_operand(value);
    const std::int64_t offset = value.role == graph::Role::kGradient
                                    ? variables_.gradient_offset(parameter_name(value.name))
                                    : -1;
    const std::optional<BufferSource> gradient =
        offset < 0 ? std::nullopt : gradient_source(offset);
    if (graph::is_persistent(value.role)) {
      operand.buffer = buffers_.add_fixed(variables_.at(value.name));
    } else if (is_prepared(id)) {
      operand.buffer = buffers_.add_fixed(prepared_.at(id));
    } else if (gradient) {
      operand.buffer = buffers_.add_gradient(*gradient, offset);
    } else {
      operand.set_format(format);
      operand.buffer = buffers_.add_arena(arena_bytes(operand));
    }
    places.push_back(operand);
    return operand;
  }
  Operand in_format(graph::ValueId id, const Operand& from, Format wanted) {
    if (from.format() == wanted) return from;
    Operand to = from;
    to.set_format(wanted);
    if (!has_same_memory(from, wanted)) {
      ProgramBuffers::Pending pending = buffers_.set_aside();
      to.buffer = buffers_.add_arena(arena_bytes(to));
      buffers_.use(from.buffer, from.value_bytes());
      buffers_.use(to.buffer, to.value_bytes());
      converts_ = true;
      convert_value(graph_[id], from, to);
      converts_ = false;
      buffers_.resume(std::move(pending));
    }
    places_[id].push_back(to);
    return to;
  }
  // Without this check, a value that no instruction has written would get memory of its own and be
  // read uninitialised.
  void check_made(graph::ValueId id) const {
    if (places_.contains(id) || is_prepared(id) || graph::is_persistent(graph_[id].role)) return;
    throw std::logic_error(
        concat(where(), " reads ", graph_[id].name,
               ", which no instruction before it writes; internal error, please report"
               " it"));
  }
  // Returns a key that names what an entry is made of, so that the executables of a model share the
  // entry.
  std::string make_key(graph::ValueId id) const {
    if (!is_prepared(id)) return graph_[id].name;
    const graph::Node& maker = graph_.nodes[graph_.producer(id)];
    const auto output = std::ranges::find(maker.outputs, id);
    std::string key = concat(graph::name_of(maker.op), ".", output - maker.outputs.begin());
    for (const graph::ValueId input : maker.inputs) key += concat("|", make_key(input));
    return key;
  }
  bool changed_by_training(graph::ValueId id) const {
    if (!is_prepared(id)) return variables_.changed_by_training(graph_[id].name);
    const auto& inputs = graph_.nodes[graph_.producer(id)].inputs;
    return std::ranges::any_of(inputs,
                               [&](graph::ValueId input) { return changed_by_training(input); });
  }
  Entry& add_entry(graph::ValueId id, const std::string& key, int order, std::int64_t bytes,
                   const std::function<Make(std::byte* to)>& create) {
    Entry& entry = variables_.packed_weights().get(
        key, order, [&] { return allocate(bytes); },
        [&](const typename Policy::Memory& memory) { return create(Policy::address(memory)); });
    entry.changed_by_training = changed_by_training(id);
    if (std::ranges::find(packed_weights_, &entry) == packed_weights_.end()) {
      packed_weights_.push_back(&entry);
    }
    return entry;
  }

  const graph::Graph& graph_;
  std::int64_t samples_;
  typename Policy::Variables& variables_;
  std::vector<typename Policy::Group> groups_;
  std::vector<bool> read_;  // indexed by value: whether a node or the caller reads it

  const graph::Node* node_ = nullptr;  // the node that is lowered, or that names its group
  const char* op_name_ = "";           // the name of the node or of the group
  bool converts_ = false;              // the next instruction converts a value that the node reads
  const graph::Node* computed_ = nullptr;  // the node whose arithmetic an instruction has
  std::map<graph::ValueId, std::vector<Operand>> places_;  // the places of a value, one per format
  std::map<graph::ValueId, float*> prepared_;
  ProgramBuffers buffers_;
  std::vector<Instruction> instructions_;
  std::vector<Entry*> packed_weights_;
  std::vector<typename Policy::Memory> constants_;
};

template <class Policy>
Lowering<Policy>::Lowering(const graph::Graph& graph, std::int64_t samples,
                           typename Policy::Variables& variables,
                           std::vector<typename Policy::Group> groups)
    : graph_(graph),
      samples_(samples),
      variables_(variables),
      groups_(std::move(groups)),
      read_(graph.values.size(), false),
      buffers_(Policy::kAlignment, Policy::kSizeUnit) {
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId id : node.inputs) read_[id] = true;
  }
  for (const graph::ValueId id : graph.outputs) read_[id] = true;
}

template <class Policy>
Program<Policy> Lowering<Policy>::lower() {
  Program<Policy> program;
  program.samples = samples_;
  place_inputs(program);
  lower_phases(graph::Phase::kPrepare, graph::Phase::kReduce);
  place_outputs(program);
  program.update_begin = instructions_.size();
  lower_phases(graph::Phase::kUpdate, graph::Phase::kUpdate);
  for (const Port& port : program.outputs) buffers_.use_after_last(port.buffer);

  const auto backward = std::ranges::find_if(
      instructions_, [](const Instruction& one) { return one.phase >= graph::Phase::kBackward; });
  program.backward_begin = static_cast<std::size_t>(backward - instructions_.begin());
  program.instructions = std::move(instructions_);
  ProgramBuffers::Plan plan = buffers_.plan();
  program.sources = std::move(plan.sources);
  program.arena_bytes = plan.arena_bytes;
  program.gradient_writers = buffers_.gradient_writers();
  std::ranges::stable_sort(packed_weights_,
                           [](const Entry* a, const Entry* b) { return a->order < b->order; });
  program.packed_weights = std::move(packed_weights_);
  program.constants = std::move(constants_);
  return program;
}

template <class Policy>
BufferId Lowering<Policy>::packed_weights(
    std::size_t i, const std::string& key, std::int64_t bytes,
    const std::function<Make(const float* from, std::byte* to)>& create) {
  const graph::ValueId id = node_->inputs[i];
  const float* from = persistent(i);
  const Entry& entry = add_entry(id, concat(make_key(id), "#", key), 1, bytes,
                                 [&](std::byte* to) { return create(from, to); });
  const BufferId buffer = buffers_.add_fixed(Policy::address(entry.memory));
  buffers_.use(buffer, bytes);
  return buffer;
}

template <class Policy>
typename Policy::PackedWeights::Entry& Lowering<Policy>::prepare_output(
    std::size_t i, const std::function<Make(float* to)>& create) {
  const graph::ValueId id = node_->outputs[i];
  prepared_[id] = nullptr;  // make_key() then names the inputs of the node
  const std::int64_t bytes = graph_[id].shape.elements() * static_cast<std::int64_t>(sizeof(float));
  Entry& entry = add_entry(id, make_key(id), 0, bytes,
                           [&](std::byte* to) { return create(reinterpret_cast<float*>(to)); });
  prepared_[id] = reinterpret_cast<float*>(Policy::address(entry.memory));
  return entry;
}

template <class Policy>
void Lowering<Policy>::emit(const std::string& implementation, Run run) {
  const ProgramBuffers::InstructionMemory memory = buffers_.end_instruction();
  double flops = 0;
  if (!converts_ && computed_ != node_) {
    flops = static_cast<double>(graph::flops(graph_, *node_) * samples_);
    computed_ = node_;
  }
  const DType type = node_->inputs.empty() ? DType::kFloat32 : graph_[node_->inputs[0]].type;
  instructions_.push_back({node_->name, concat(op_name_, " ", implementation), node_->phase,
                           memory.scratch_bytes, static_cast<double>(memory.traffic_bytes), flops,
                           type, std::move(run)});
}

template <class Policy>
void Lowering<Policy>::emit_for_layers(const std::string& name, const std::string& implementation,
                                       Run run) {
  const ProgramBuffers::InstructionMemory memory = buffers_.end_instruction();
  instructions_.push_back({name, implementation, node_->phase, memory.scratch_bytes,
                           static_cast<double>(memory.traffic_bytes), 0, DType::kFloat32,
                           std::move(run)});
}

}  // namespace trainer::backend
