#include "backend/cuda/lowering.h"

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"

namespace trainer::backend {
template class Lowering<cuda::CudaPolicy>;
}  // namespace trainer::backend

namespace trainer::backend::cuda {

const char* CudaPolicy::name(const Group& group) {
  return std::visit([](const auto& any) { return graph::name_of(any.node->op); }, group);
}

Lowering::Lowering(const graph::Graph& graph, std::int64_t samples, Machine& machine,
                   CudaVariables& variables, const CompileOptions& options)
    : backend::Lowering<CudaPolicy>(graph, samples, variables, find_groups(graph)),
      machine_(machine),
      options_(options),
      statistics_ranks_(cuda_collective(options.reduction.statistics)) {}

template <>
void lower(const SingleNode& group, Lowering& l) {
  std::visit([&l](const auto& op) { lower(op, l); }, group.node->op);
}

void Lowering::lower_group(const Group& group) {
  std::visit([this](const auto& any) { cuda::lower(any, *this); }, group);
}

void Lowering::convert_value(const graph::Value&, const Operand& from, const Operand& to) {
  step(concat("as ", to_string(to.type)), [=](const StepContext& c) {
    convert(c.at(from.buffer), from.type, c.at(to.buffer), to.type, to.elements(), c.stream);
  });
}

std::optional<BufferSource> Lowering::gradient_source(std::int64_t offset) const {
  return BufferSource{BufferSource::Kind::kGradient, offset, nullptr};
}

Buffer Lowering::allocate(std::int64_t bytes) const {
  return allocate_device(machine_.device, bytes);
}

BufferId Lowering::constant(const std::vector<float>& values) {
  return add_constant(allocate_copy(machine_.device, values.data(), values.size() * sizeof(float)));
}

BufferId Lowering::packed_vector(std::size_t i, DType type) {
  if (type == DType::kFloat32) return input(i).buffer;
  const std::int64_t count = input_shape(i).elements();
  return packed_weights(i, to_string(type), count * static_cast<std::int64_t>(size_of(type)),
                        [=](const float* from, std::byte* to) {
                          return [=](cudaStream_t stream) {
                            convert(from, DType::kFloat32, to, type, count, stream);
                          };
                        });
}

BufferId Lowering::packed_kernel(std::size_t i, DType type, std::int64_t positions, std::int64_t in,
                                 std::int64_t out) {
  const std::int64_t bytes = positions * in * out * static_cast<std::int64_t>(size_of(type));
  const std::string key = concat("krsc ", to_string(type));
  return packed_weights(i, key, bytes, [=](const float* from, std::byte* to) {
    return [=](cudaStream_t stream) { pack_kernel(from, to, type, positions, in, out, stream); };
  });
}

void Lowering::prepare_outputs(const std::function<Make(const std::vector<float*>& to)>& create) {
  std::vector<float*> to;
  Entry* last = nullptr;
  for (std::size_t i = 0; i < node().outputs.size(); ++i) {
    last = &prepare_output(i, [](float*) { return [](cudaStream_t) {}; });
    to.push_back(reinterpret_cast<float*>(CudaPolicy::address(last->memory)));
  }
  last->make = create(to);  // the last output's entry makes them all
}

}  // namespace trainer::backend::cuda
