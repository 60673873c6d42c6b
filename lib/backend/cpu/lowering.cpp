#include "backend/cpu/lowering.h"

#include <algorithm>
#include <stdexcept>

#include "backend/arena.h"
#include "backend/cpu/dnnl.h"

namespace trainer::backend::cpu {
namespace {

using graph::Role;
using graph::ValueId;

bool same_place(const Operand& operand, Layout wanted, std::int64_t block) {
  if (operand.layout == wanted) return true;
  const bool flat = operand.shape.rank() == 2 && operand.c() % block == 0;
  const bool one_channel = operand.shape.rank() == 4 && operand.c() == 1 &&
                           operand.layout != Layout::kBlocked && wanted != Layout::kBlocked;
  return flat || one_channel;
}

}  // namespace

const char* to_string(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kBlocked:
      return "blocked";
    case Layout::kPlanar:
      return "planar";
  }
  return "?";
}

void Lowered::bind(char* arena) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] >= 0) pointers[i] = arena + offsets[i];
  }
}

bool has_one_reader(const graph::Graph& graph, ValueId id) {
  if (graph[id].role != Role::kActivation || graph.consumers(id).size() != 1) return false;
  if (std::count(graph.outputs.begin(), graph.outputs.end(), id) > 0) return false;
  const int maker = graph.producer(id);
  return maker >= 0 &&
         !std::holds_alternative<graph::Reshape>(graph.nodes[static_cast<std::size_t>(maker)].op);
}

Lowering::Lowering(const graph::Graph& graph, std::int64_t samples, const Machine& machine,
                   CpuVariables& variables, const GradientPlaces& gradients,
                   const CompileOptions& options)
    : graph_(graph),
      samples_(samples),
      machine_(machine),
      variables_(variables),
      gradients_(gradients),
      options_(options),
      groups_(find_groups(graph, machine, gradients.joint)),
      used_(graph.values.size(), false) {}

Lowered Lowering::lower() {
  for (const graph::Node& node : graph_.nodes) {
    for (const ValueId id : node.inputs) used_[static_cast<std::size_t>(id)] = true;
  }
  for (const ValueId id : graph_.outputs) used_[static_cast<std::size_t>(id)] = true;

  Lowered lowered;
  lowered.samples = samples_;
  place_inputs(lowered);
  lower_phases(graph::Phase::kPrepare, graph::Phase::kReduce);
  place_outputs(lowered);
  lowered.update_begin = steps_.size();
  lower_phases(graph::Phase::kUpdate, graph::Phase::kUpdate);
  // An output must outlive every step.
  for (const Lowered::Port& port : lowered.outputs) {
    buffers_[static_cast<std::size_t>(port.buffer)].last = static_cast<int>(steps_.size());
  }
  plan_memory(lowered);
  find_gradient_steps(lowered);
  lowered.steps = std::move(steps_);
  const auto backward =
      std::find_if(lowered.steps.begin(), lowered.steps.end(),
                   [](const Step& step) { return step.phase >= graph::Phase::kBackward; });
  lowered.backward_begin = static_cast<std::size_t>(backward - lowered.steps.begin());
  lowered.packed_weights = std::move(packed_weights_);
  lowered.constants = std::move(constants_);
  return lowered;
}

void Lowering::find_gradient_steps(Lowered& lowered) const {
  if (gradients_.own == nullptr) return;
  for (const auto& [id, places] : placed_) {
    if (graph_[id].role != Role::kGradient) continue;
    const std::int64_t offset = variables_.gradient_offset(parameter_of(graph_[id].name));
    if (offset < 0) continue;
    const Buffer buffer = places.front().buffer;
    lowered.gradient_steps[offset] = buffers_[static_cast<std::size_t>(buffer)].last;
  }
}

void lower(const SingleNode& group, Lowering& l) {
  std::visit([&l](const auto& op) { lower(op, l); }, group.node->op);
}

void Lowering::lower_phases(graph::Phase first, graph::Phase last) {
  for (const Group& group : groups_) {
    const graph::Node& node = *std::visit([](const auto& any) { return any.node; }, group);
    if (node.phase < first || node.phase > last) continue;
    node_ = &node;
    op_name_ = name_of(group);
    std::visit([this](const auto& any) { cpu::lower(any, *this); }, group);
    pending_.clear();
  }
}

void Lowering::place_inputs(Lowered& lowered) {
  for (const ValueId id : graph_.inputs) {
    const graph::Value& value = graph_[id];
    Lowered::Port port;
    if (used_[static_cast<std::size_t>(id)]) {
      Operand operand{fixed_buffer(nullptr), Layout::kPlain, value.type,
                      value.shape.with_batch(samples_)};
      const auto bytes = value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
      port = {operand.buffer, value.shape.batched() ? bytes : 0, bytes};
      placed_[id].push_back(operand);
    }
    lowered.inputs.push_back(port);
  }
}

// Outputs are staged in plain layout, so that the caller's memory is written once, in order.
void Lowering::place_outputs(Lowered& lowered) {
  static const graph::Node kCopyOut{graph::Reshape{}, {}, {}, "output", graph::Phase::kForward, {}};
  for (const ValueId id : graph_.outputs) {
    node_ = &kCopyOut;
    op_name_ = graph::name_of(kCopyOut.op);
    const graph::Value& value = graph_[id];
    check_made(id);
    const Operand operand = convert(id, place(id, Layout::kPlain), Layout::kPlain);
    use(operand.buffer);
    step("output", [](const RunContext&) {});
    const std::int64_t bytes =
        value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
    lowered.outputs.push_back({operand.buffer, value.shape.batched() ? bytes : 0, bytes});
  }
}

Buffer Lowering::new_buffer(std::int64_t bytes) {
  buffers_.push_back({align_up(std::max<std::int64_t>(bytes, 1)), nullptr, -1, -1});
  return static_cast<Buffer>(buffers_.size()) - 1;
}

Buffer Lowering::fixed_buffer(const void* pointer) {
  buffers_.push_back({0, static_cast<char*>(const_cast<void*>(pointer)), -1, -1});
  return static_cast<Buffer>(buffers_.size()) - 1;
}

void Lowering::use(Buffer buffer) { pending_.push_back(buffer); }

Buffer Lowering::scratch(std::int64_t bytes) {
  const Buffer buffer = new_buffer(bytes);
  use(buffer);
  return buffer;
}

Buffer Lowering::zeros(std::int64_t bytes) {
  constants_.emplace_back(bytes);
  const Buffer buffer = fixed_buffer(constants_.back().data());
  use(buffer);
  return buffer;
}

Shape Lowering::shape_of_input(std::size_t i) const {
  return graph_[node_->inputs[i]].shape.with_batch(samples_);
}

DType Lowering::type_of_output(std::size_t i) const { return graph_[node_->outputs[i]].type; }

std::int64_t Lowering::padded_elements(const Shape& shape, Layout layout) const {
  const std::int64_t elements = shape.elements();
  if (layout != Layout::kBlocked || shape.rank() < 2) return elements;
  const std::int64_t channels = shape[shape.rank() - 1];
  return elements / channels * ((channels + machine_.block - 1) / machine_.block * machine_.block);
}

// Where a value lies; for one that nothing has made yet, where it shall lie.
Operand Lowering::place(ValueId id, Layout layout) {
  std::vector<Operand>& places = placed_[id];
  for (const Operand& operand : places) {
    if (operand.layout == layout) return operand;
  }
  if (!places.empty()) return places.front();
  const graph::Value& value = graph_[id];
  Operand operand{-1, layout, value.type, value.shape.with_batch(samples_)};
  if (graph::is_persistent(value.role)) {
    operand.layout = Layout::kPlain;
    operand.buffer = fixed_buffer(variables_.at(value.name));
  } else if (prepared_.contains(id)) {
    operand.layout = Layout::kPlain;
    operand.buffer = fixed_buffer(prepared_.at(id));
  } else {
    const std::int64_t offset =
        value.role == Role::kGradient ? variables_.gradient_offset(parameter_of(value.name)) : -1;
    if (offset >= 0 && gradients_.own != nullptr) {
      operand.layout = Layout::kPlain;
      operand.buffer = fixed_buffer(gradients_.at(offset));
    } else {
      operand.buffer = new_buffer(padded_elements(operand.shape, layout) *
                                  static_cast<std::int64_t>(size_of(value.type)));
    }
  }
  places.push_back(operand);
  return operand;
}

Operand Lowering::convert(ValueId id, const Operand& from, Layout wanted) {
  if (from.layout == wanted) return from;
  if (from.shape.rank() != 4 && from.shape.rank() != 2) {
    throw std::logic_error(concat("cannot bring ", graph_[id].name, " of rank ", from.shape.rank(),
                                  " into ", to_string(wanted), " layout"));
  }
  Operand to = from;
  to.layout = wanted;
  if (!same_place(from, wanted, machine_.block)) {
    const std::vector<Buffer> waiting = std::exchange(pending_, {});
    to.buffer =
        new_buffer(padded_elements(to.shape, wanted) * static_cast<std::int64_t>(size_of(to.type)));
    use(from.buffer);
    use(to.buffer);
    const auto desc = [this](Operand operand) {
      // A row counts as an image of one pixel.
      if (operand.shape.rank() == 2) operand.shape = {operand.n(), 1, 1, operand.c()};
      return dnnl_desc(operand, *this);
    };
    dnnl_reorder_step(*this, desc(from), from.buffer, desc(to), to.buffer);
    pending_ = waiting;
  }
  placed_[id].push_back(to);
  return to;
}

Operand Lowering::input(std::size_t i, Layout wanted) { return value(node_->inputs[i], wanted); }

// Without this check, a value that no step has written would get memory of its own and be read
// uninitialised.
void Lowering::check_made(ValueId id) const {
  if (placed_.contains(id) || is_prepared(id) || graph::is_persistent(graph_[id].role)) return;
  throw std::logic_error(concat(node_->name, ": ", op_name_, " reads ", graph_[id].name,
                                ", which no step before it writes; internal error, please report"
                                " it"));
}

Operand Lowering::value(ValueId id, Layout wanted) {
  check_made(id);
  const Operand operand = convert(id, place(id, wanted), wanted);
  use(operand.buffer);
  return operand;
}

Operand Lowering::input_as_is(std::size_t i) {
  check_made(node_->inputs[i]);
  const Operand operand = place(node_->inputs[i], Layout::kPlain);
  use(operand.buffer);
  return operand;
}

Operand Lowering::result(ValueId id, Layout layout) {
  const Operand operand = place(id, layout);
  use(operand.buffer);
  return operand;
}

Buffer Lowering::make_extra(ExtraId id, std::int64_t bytes) {
  const Buffer buffer = scratch(bytes);
  extras_[id] = buffer;
  return buffer;
}

Buffer Lowering::extra(ExtraId id) {
  const auto found = extras_.find(id);
  if (found == extras_.end()) {
    throw std::logic_error(concat(node_->name, ": ", op_name_,
                                  " reads a value of a fused op that runs after it; internal error,"
                                  " please report it"));
  }
  use(found->second);
  return found->second;
}

void Lowering::alias_output(std::size_t i, const Operand& operand) {
  placed_[node_->outputs[i]].push_back(operand);
}

bool Lowering::output_wanted(std::size_t i) const {
  return used_[static_cast<std::size_t>(node_->outputs[i])];
}

std::string Lowering::prepared_key(ValueId id) const {
  if (!is_prepared(id)) return graph_[id].name;
  std::string key;
  const graph::Node& maker = graph_.nodes[static_cast<std::size_t>(graph_.producer(id))];
  for (std::size_t i = 0; i < maker.outputs.size(); ++i) {
    if (maker.outputs[i] == id) key = concat(graph::name_of(maker.op), ".", i);
  }
  for (const ValueId input : maker.inputs) key += concat("|", prepared_key(input));
  return key;
}

float* Lowering::persistent(std::size_t i) {
  const ValueId id = node_->inputs[i];
  return is_prepared(id) ? prepared_.at(id) : variables_.at(graph_[id].name);
}

bool Lowering::changed_by_training(ValueId id) const {
  if (!is_prepared(id)) return variables_.changed_by_training(graph_[id].name);
  const auto& inputs = graph_.nodes[static_cast<std::size_t>(graph_.producer(id))].inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](ValueId input) { return changed_by_training(input); });
}

Buffer Lowering::packed_weights(std::size_t i, const std::string& key, std::int64_t bytes,
                                const Prepare& prepare) {
  const ValueId id = node_->inputs[i];
  const float* from = persistent(i);
  PackedWeights::Entry& entry = variables_.packed_weights().get(
      concat(prepared_key(id), "#", key), 1, bytes, [&](char* to) { return prepare(from, to); });
  entry.changed_by_training = changed_by_training(id);
  packed_weights_.push_back(&entry);
  const Buffer buffer = fixed_buffer(entry.memory.data());
  use(buffer);
  return buffer;
}

void Lowering::prepare_output(std::size_t i,
                              const std::function<std::function<void()>(float* to)>& create) {
  const ValueId id = node_->outputs[i];
  const std::int64_t bytes = graph_[id].shape.elements() * 4;
  prepared_[id] = nullptr;  // so that prepared_key() sees what it is
  PackedWeights::Entry& entry = variables_.packed_weights().get(
      prepared_key(id), 0, bytes, [&](char* to) { return create(reinterpret_cast<float*>(to)); });
  prepared_[id] = entry.memory.as<float>();
  entry.changed_by_training = changed_by_training(id);
  packed_weights_.push_back(&entry);
}

void Lowering::step(const std::string& implementation, Run run) {
  const int index = static_cast<int>(steps_.size());
  for (const Buffer buffer : pending_) {
    BufferInfo& info = buffers_[static_cast<std::size_t>(buffer)];
    if (info.first < 0) info.first = index;
    info.last = std::max(info.last, index);
  }
  pending_.clear();
  steps_.push_back(
      {node_->name, concat(op_name_, " ", implementation), node_->phase, std::move(run)});
}

void Lowering::plan_memory(Lowered& lowered) {
  lowered.pointers.resize(buffers_.size());
  lowered.offsets.assign(buffers_.size(), -1);
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> planned;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferInfo& info = buffers_[i];
    lowered.pointers[i] = info.pointer;
    if (info.bytes == 0 || info.first < 0) continue;
    lifetimes.push_back({info.bytes, info.first, info.last});
    planned.push_back(i);
  }
  const ArenaPlan plan = plan_arena(lifetimes, kAlignment);
  for (std::size_t i = 0; i < planned.size(); ++i) lowered.offsets[planned[i]] = plan.offsets[i];
  lowered.arena_bytes = plan.bytes;
}

}  // namespace trainer::backend::cpu
