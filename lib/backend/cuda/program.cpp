#include "backend/cuda/program.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"

namespace trainer::backend::cuda {
namespace {

using graph::Role;
using graph::ValueId;

// cudaMalloc's own alignment, which vector loads and cuDNN count on.
constexpr std::int64_t kArenaAlignment = 256;

// The part of a gradient's name before "/gradient": its parameter.
std::string parameter_of(const std::string& gradient) {
  const auto slash = gradient.rfind('/');
  return slash == std::string::npos ? gradient : gradient.substr(0, slash);
}

}  // namespace

std::vector<std::byte*> Program::pointers(const std::vector<std::byte*>& inputs_at,
                                          float* gradients) const {
  std::vector<std::byte*> table;
  table.reserve(sources.size());
  for (const BufferSource& source : sources) {
    switch (source.kind) {
      case BufferSource::Kind::kArena:
        table.push_back(arena + source.offset);
        break;
      case BufferSource::Kind::kFixed:
        table.push_back(source.fixed);
        break;
      case BufferSource::Kind::kGradient:
        table.push_back(reinterpret_cast<std::byte*>(gradients) + source.offset);
        break;
      case BufferSource::Kind::kInput:
        table.push_back(inputs_at[static_cast<std::size_t>(source.offset)]);
        break;
    }
  }
  return table;
}

Lowering::Lowering(const graph::Graph& graph, std::int64_t samples, Machine& machine,
                   CudaVariables& variables, const CompileOptions& options)
    : graph_(graph),
      samples_(samples),
      machine_(machine),
      variables_(variables),
      options_(options),
      statistics_ranks_(cuda_collective(options.reduction.statistics)),
      groups_(find_groups(graph)),
      used_(graph.values.size(), false) {}

Program Lowering::lower() {
  for (const graph::Node& node : graph_.nodes) {
    for (const ValueId id : node.inputs) used_[static_cast<std::size_t>(id)] = true;
  }
  for (const ValueId id : graph_.outputs) used_[static_cast<std::size_t>(id)] = true;
  Program program;
  program.samples = samples_;
  place_inputs(program);
  lower_groups(false);
  place_outputs(program);
  const std::size_t statistics_begin = steps_.size();
  lower_groups(true);
  // An output must outlive every step.
  for (const Program::Port& port : program.outputs) {
    buffers_[static_cast<std::size_t>(port.buffer)].last = static_cast<int>(steps_.size());
  }
  plan_memory(program);
  find_gradient_steps(program);
  const auto split = steps_.begin() + static_cast<std::ptrdiff_t>(statistics_begin);
  program.statistics.assign(std::make_move_iterator(split), std::make_move_iterator(steps_.end()));
  steps_.erase(split, steps_.end());
  program.steps = std::move(steps_);
  std::stable_sort(packed_.begin(), packed_.end(),
                   [](const auto* a, const auto* b) { return a->order < b->order; });
  program.packed = std::move(packed_);
  program.constants = std::move(constants_);
  return program;
}

template <>
void lower(const SingleNode& group, Lowering& l) {
  std::visit([&l](const auto& op) { lower(op, l); }, group.node->op);
}

void Lowering::lower_groups(bool update_phase) {
  for (const Group& group : groups_) {
    node_ = std::visit([](const auto& any) { return any.node; }, group);
    if ((node_->phase == graph::Phase::kUpdate) != update_phase) continue;
    std::visit([this](const auto& any) { cuda::lower(any, *this); }, group);
    pending_.clear();
    pending_scratch_ = 0;
  }
}

void Lowering::place_inputs(Program& program) {
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i];
    Program::Port port;
    if (used_[static_cast<std::size_t>(id)]) {
      const graph::Value& value = graph_[id];
      const BufferSource source{BufferSource::Kind::kInput, static_cast<std::int64_t>(i), nullptr};
      const Operand operand{add_buffer(source, 0), value.type, value.shape.with_batch(samples_)};
      const auto bytes = value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
      port = {operand.buffer, value.shape.batched() ? bytes : 0, bytes};
      placed_[id] = operand;
    }
    program.inputs.push_back(port);
  }
}

void Lowering::place_outputs(Program& program) {
  for (const ValueId id : graph_.outputs) {
    const graph::Value& value = graph_[id];
    const auto bytes = value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
    program.outputs.push_back({place(id).buffer, value.shape.batched() ? bytes : 0, bytes});
  }
}

BufferId Lowering::add_buffer(BufferSource source, std::int64_t bytes) {
  buffers_.push_back({source, bytes, -1, -1});
  return static_cast<BufferId>(buffers_.size()) - 1;
}

// Where a value lies; for one that nothing has made yet, where it shall lie.
Operand Lowering::place(ValueId id) {
  const auto found = placed_.find(id);
  if (found != placed_.end()) return found->second;
  const graph::Value& value = graph_[id];
  Operand operand{-1, value.type,
                  value.shape.batched() ? value.shape.with_batch(samples_) : value.shape};
  const auto fixed = [&](float* at) {
    return add_buffer({BufferSource::Kind::kFixed, 0, reinterpret_cast<std::byte*>(at)}, 0);
  };
  const auto& places = variables_.placement().places;
  const auto parameter =
      value.role == Role::kGradient ? places.find(parameter_of(value.name)) : places.end();
  if (graph::is_persistent(value.role)) {
    operand.buffer = fixed(variables_.at(value.name));
  } else if (prepared_.contains(id)) {
    operand.buffer = fixed(prepared_.at(id));
  } else if (parameter != places.end() &&
             parameter->second.where == Placement::Place::Where::kParameters) {
    const std::int64_t offset = parameter->second.offset * static_cast<std::int64_t>(sizeof(float));
    operand.buffer = add_buffer({BufferSource::Kind::kGradient, offset, nullptr}, 0);
  } else {
    operand.buffer = add_buffer({BufferSource::Kind::kArena, 0, nullptr}, operand.bytes());
  }
  placed_[id] = operand;
  return operand;
}

Operand Lowering::value(ValueId id) {
  const Operand operand = place(id);
  use(operand.buffer);
  return operand;
}

Operand Lowering::input_as(std::size_t i, DType type) {
  const ValueId id = node_->inputs[i];
  const Operand from = place(id);
  if (from.type == type) return input(i);
  const auto found = converted_.find({id, type});
  if (found != converted_.end()) {
    use(found->second.buffer);
    return found->second;
  }
  Operand to = from;
  to.type = type;
  to.buffer = add_buffer({BufferSource::Kind::kArena, 0, nullptr}, to.bytes());
  const std::vector<BufferId> waiting = std::exchange(pending_, {from.buffer, to.buffer});
  step(concat("as ", to_string(type)), [=](const StepContext& c) {
    convert(c.at(from.buffer), from.type, c.at(to.buffer), to.type, to.elements(), c.stream);
  });
  pending_ = waiting;
  converted_[{id, type}] = to;
  use(to.buffer);
  return to;
}

void Lowering::alias_output(std::size_t i, const Operand& operand) {
  placed_[node_->outputs[i]] = operand;
}

Shape Lowering::input_shape(std::size_t i) const {
  const Shape& shape = graph_[node_->inputs[i]].shape;
  return shape.batched() ? shape.with_batch(samples_) : shape;
}

BufferId Lowering::scratch(std::int64_t bytes) {
  const BufferId buffer =
      add_buffer({BufferSource::Kind::kArena, 0, nullptr}, std::max<std::int64_t>(bytes, 1));
  use(buffer);
  pending_scratch_ += bytes;
  return buffer;
}

BufferId Lowering::constant(const std::vector<float>& values) {
  constants_.push_back(
      allocate_copy(machine_.device, values.data(), values.size() * sizeof(float)));
  return add_buffer({BufferSource::Kind::kFixed, 0, constants_.back().span().address}, 0);
}

float* Lowering::persistent(std::size_t i) const {
  const ValueId id = node_->inputs[i];
  const auto prepared = prepared_.find(id);
  return prepared != prepared_.end() ? prepared->second : variables_.at(graph_[id].name);
}

// Names what an entry is made from, so that executables of one model share it.
std::string Lowering::key_of(ValueId id) const {
  if (!prepared_.contains(id)) return graph_[id].name;
  const graph::Node& maker = graph_.nodes[static_cast<std::size_t>(graph_.producer(id))];
  std::string key = graph::name_of(maker.op);
  for (std::size_t i = 0; i < maker.outputs.size(); ++i) {
    if (maker.outputs[i] == id) key += concat(".", i);
  }
  for (const ValueId input : maker.inputs) key += concat("|", key_of(input));
  return key;
}

bool Lowering::changed_by_training(ValueId id) const {
  if (!prepared_.contains(id)) {
    return variables_.placement().changed_by_training(graph_[id].name);
  }
  const auto& inputs = graph_.nodes[static_cast<std::size_t>(graph_.producer(id))].inputs;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](ValueId input) { return changed_by_training(input); });
}

BufferId Lowering::packed(
    std::size_t i, const std::string& key, std::int64_t bytes,
    const std::function<PackedWeights::Make(const float* from, std::byte* to)>& make) {
  const ValueId id = node_->inputs[i];
  const float* from = persistent(i);
  PackedWeights::Entry& entry =
      variables_.packed().get(concat(key_of(id), "#", key), 1, machine_.device, bytes,
                              [&](std::byte* to) { return make(from, to); });
  entry.changed_by_training = changed_by_training(id);
  if (std::find(packed_.begin(), packed_.end(), &entry) == packed_.end()) {
    packed_.push_back(&entry);
  }
  return add_buffer({BufferSource::Kind::kFixed, 0, entry.memory.span().address}, 0);
}

BufferId Lowering::packed_vector(std::size_t i, DType type) {
  if (type == DType::kFloat32) return input(i).buffer;
  const std::int64_t count = input_shape(i).elements();
  return packed(i, to_string(type), count * static_cast<std::int64_t>(size_of(type)),
                [=](const float* from, std::byte* to) {
                  return [=](cudaStream_t stream) {
                    convert(from, DType::kFloat32, to, type, count, stream);
                  };
                });
}

BufferId Lowering::packed_kernel(std::size_t i, DType type, std::int64_t positions, std::int64_t in,
                                 std::int64_t out) {
  const std::int64_t bytes = positions * in * out * static_cast<std::int64_t>(size_of(type));
  return packed(i, concat("krsc ", to_string(type)), bytes, [=](const float* from, std::byte* to) {
    return [=](cudaStream_t stream) { pack_kernel(from, to, type, positions, in, out, stream); };
  });
}

void Lowering::prepare_outputs(
    const std::function<PackedWeights::Make(const std::vector<float*>& to)>& make) {
  std::vector<float*> to;
  PackedWeights::Entry* last = nullptr;
  for (const ValueId id : node_->outputs) {
    prepared_[id] = nullptr;  // so that key_of() sees what it is
    const std::int64_t bytes =
        graph_[id].shape.elements() * static_cast<std::int64_t>(sizeof(float));
    last = &variables_.packed().get(
        key_of(id), 0, machine_.device, bytes,
        [](std::byte*) -> PackedWeights::Make { return [](cudaStream_t) {}; });
    prepared_[id] = pointer_to<float>(last->memory.span());
    last->changed_by_training = changed_by_training(id);
    packed_.push_back(last);
    to.push_back(prepared_[id]);
  }
  last->make = make(to);  // the last output's entry makes them all
}

void Lowering::step(const std::string& implementation, Enqueue enqueue) {
  const int index = static_cast<int>(steps_.size());
  for (const BufferId buffer : pending_) {
    BufferInfo& info = buffers_[static_cast<std::size_t>(buffer)];
    if (info.first < 0) info.first = index;
    info.last = std::max(info.last, index);
  }
  pending_.clear();
  steps_.push_back({node_->name, concat(graph::name_of(node_->op), " ", implementation),
                    node_->phase, std::exchange(pending_scratch_, 0), std::move(enqueue)});
}

void Lowering::plan_memory(Program& program) {
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferInfo& info = buffers_[i];
    program.sources.push_back(info.source);
    if (info.source.kind != BufferSource::Kind::kArena || info.first < 0) continue;
    lifetimes.push_back({info.bytes, info.first, info.last});
    which.push_back(i);
  }
  const ArenaPlan plan = plan_arena(lifetimes, kArenaAlignment);
  for (std::size_t i = 0; i < which.size(); ++i) program.sources[which[i]].offset = plan.offsets[i];
  program.arena_bytes = plan.bytes;
}

void Lowering::find_gradient_steps(Program& program) const {
  for (const BufferInfo& info : buffers_) {
    if (info.source.kind != BufferSource::Kind::kGradient || info.last < 0) continue;
    program.gradient_steps.emplace_back(
        info.last, info.source.offset / static_cast<std::int64_t>(sizeof(float)));
  }
  std::sort(program.gradient_steps.begin(), program.gradient_steps.end());
}

}  // namespace trainer::backend::cuda
