#include "backend/cpu/lowering.h"

#include <stdexcept>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/ops/dense_slices.h"

namespace trainer::backend {
template class Lowering<cpu::CpuPolicy>;
}  // namespace trainer::backend

namespace trainer::backend::cpu {

bool has_one_reader(const graph::Graph& graph, graph::ValueId id) {
  if (graph[id].role != graph::Role::kActivation || graph.consumers(id).size() != 1) return false;
  if (is_output(graph, id)) return false;
  const int maker = graph.producer(id);
  return maker >= 0 && !std::holds_alternative<graph::Reshape>(graph.nodes[maker].op);
}

Lowering::Lowering(const graph::Graph& graph, std::int64_t samples, const Machine& machine,
                   CpuVariables& variables, const GradientPlaces& gradients,
                   const CompileOptions& options)
    : backend::Lowering<CpuPolicy>(graph, samples, variables,
                                   find_groups(graph, machine, gradients.joint)),
      machine_(machine),
      gradients_(gradients),
      options_(options) {}

void lower(const SingleNode& group, Lowering& l) {
  const auto* dense = std::get_if<graph::Dense>(&group.node->op);
  if (dense != nullptr && l.machine().threads > 1 && !l.trains()) return lower_in_slices(*dense, l);
  std::visit([&l](const auto& op) { lower(op, l); }, group.node->op);
}

void Lowering::lower_group(const Group& group) {
  std::visit([this](const auto& any) { cpu::lower(any, *this); }, group);
}

std::int64_t Lowering::padded_elements(const Shape& shape, Layout layout) const {
  const std::int64_t elements = shape.elements();
  if (layout != Layout::kBlocked || shape.rank() < 2) return elements;
  const std::int64_t channels = shape[shape.rank() - 1];
  return elements / channels * machine_.count_blocks(channels) * machine_.block;
}

std::int64_t Lowering::arena_bytes(const Operand& operand) const {
  return padded_elements(operand.shape, operand.layout) *
         static_cast<std::int64_t>(size_of(operand.type));
}

bool Lowering::has_same_memory(const Operand& from, Layout wanted) const {
  const bool flat = from.shape.rank() == 2 && from.c() % machine_.block == 0;
  const bool one_channel = from.shape.rank() == 4 && from.c() == 1 &&
                           from.layout != Layout::kBlocked && wanted != Layout::kBlocked;
  return flat || one_channel;
}

void Lowering::convert_value(const graph::Value& value, const Operand& from, const Operand& to) {
  if (from.shape.rank() != 4 && from.shape.rank() != 2) {
    throw std::logic_error(concat("cannot bring ", value.name, " of rank ", from.shape.rank(),
                                  " into ", spell(to.layout), " layout"));
  }
  const auto desc = [this](Operand operand) {
    // A row counts as an image of one pixel.
    if (operand.shape.rank() == 2) operand.shape = {operand.n(), 1, 1, operand.c()};
    return dnnl_desc(operand, *this);
  };
  emit_dnnl_reorder(*this, desc(from), from.buffer, desc(to), to.buffer);
}

std::optional<BufferSource> Lowering::gradient_source(std::int64_t offset) const {
  if (!gradients_.exist()) return std::nullopt;
  auto* address = reinterpret_cast<std::byte*>(gradients_.at(offset));
  return BufferSource{BufferSource::Kind::kFixed, 0, address};
}

// Outputs are staged in plain layout, so that the caller's memory is written once, in order.
BufferId Lowering::output_buffer(graph::ValueId id) {
  const Operand operand = value(id, Layout::kPlain);
  emit("output", [](const CallContext&) {});
  return operand.buffer;
}

BufferId Lowering::make_extra(ExtraId id, std::int64_t bytes) {
  const BufferId buffer = scratch(bytes);
  if (id != kNoExtra) extras_[id] = buffer;
  return buffer;
}

BufferId Lowering::extra(ExtraId id) {
  const auto found = extras_.find(id);
  if (found == extras_.end()) {
    throw std::logic_error(concat(where(),
                                  " reads a value of a fused op that runs after it; internal error,"
                                  " please report it"));
  }
  use(found->second);
  return found->second;
}

}  // namespace trainer::backend::cpu
