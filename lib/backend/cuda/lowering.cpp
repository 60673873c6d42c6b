#include "backend/cuda/lowering.h"

#include <algorithm>
#include <map>

#include "backend/cuda/kernels/elementwise.h"

namespace trainer::backend {
template class Lowering<cuda::CudaPolicy>;
}  // namespace trainer::backend

namespace trainer::backend::cuda {
namespace {

template <class Op>
std::int64_t count_nodes(const graph::Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const graph::Node& node) { return std::holds_alternative<Op>(node.op); });
}

// pack_kernels() only reads what it packs.
PackParameters make_packing(const float* from, std::byte* to, DType type, std::int64_t positions,
                            std::int64_t in, std::int64_t out) {
  return {{const_cast<float*>(from), to, positions, in, out}, type};
}

// Longer vectors get a launch of their own: tiles of 32 elements would leave most threads idle.
constexpr std::int64_t kMaxBatchedVector = std::int64_t{1} << 16;

}  // namespace

bool PackParameters::is_batched() const {
  return layouts.positions * layouts.in > 1 || layouts.out <= kMaxBatchedVector;
}

void PackParameters::operator()(cudaStream_t stream) const {
  if (is_batched()) return pack_kernels({&layouts, 1}, type, stream);
  convert(layouts.hwio, DType::kFloat32, layouts.krsc, type, layouts.out, stream);
}

// Only entries of order 1 are batched, and no entry reads them, so the batches are enqueued last.
void make_entries(std::span<PackedWeights::Entry* const> entries, cudaStream_t stream) {
  std::map<DType, std::vector<KernelLayouts>> batches;
  for (const PackedWeights::Entry* entry : entries) {
    const auto* pack = entry->make.target<PackParameters>();
    if (pack != nullptr && pack->is_batched()) {
      batches[pack->type].push_back(pack->layouts);
    } else {
      entry->make(stream);
    }
  }
  for (const auto& [type, kernels] : batches) pack_kernels(kernels, type, stream);
}

const char* CudaPolicy::name(const Group& group) {
  return std::visit([](const auto& any) { return graph::name_of(any.node->op); }, group);
}

Lowering::Lowering(const graph::Graph& graph, std::int64_t samples, Machine& machine,
                   CudaVariables& variables, const CompileOptions& options)
    : backend::Lowering<CudaPolicy>(graph, samples, variables, find_groups(graph)),
      machine_(machine),
      variables_(variables),
      options_(options),
      statistics_ranks_(cuda_collective(options.reduction.statistics)),
      kernel_gradients_left_(count_nodes<graph::ConvBackwardWeights>(graph)),
      statistics_left_(count_nodes<graph::UpdateStatistics>(graph)) {}

template <>
void lower(const SingleNode& group, Lowering& l) {
  std::visit([&l](const auto& op) { lower(op, l); }, group.node->op);
}

void Lowering::lower_group(const Group& group) {
  machine_.progress.advance();
  std::visit([this](const auto& any) { cuda::lower(any, *this); }, group);
  if (std::holds_alternative<graph::ConvBackwardWeights>(node().op)) {
    if (--kernel_gradients_left_ == 0) unpack_gradients();
  }
  if (std::holds_alternative<graph::UpdateStatistics>(node().op)) {
    if (--statistics_left_ == 0) update_moving_statistics();
  }
}

bool Lowering::is_flat_gradient(std::size_t i) const {
  const graph::Value& value = graph()[node().outputs[i]];
  return value.role == graph::Role::kGradient &&
         variables_.gradient_offset(parameter_name(value.name)) >= 0;
}

// Buckets are reduced while backward runs: their gradients are needed early.
bool Lowering::unpack_later(std::size_t i, const KernelGradient& gradient) {
  if (options_.reduction.gradients != nullptr && options_.reduction.bucket_bytes > 0) return false;
  for (const int consumer : graph().consumers(node().outputs[i])) {
    const graph::Node& reader = graph().nodes[static_cast<std::size_t>(consumer)];
    if (!std::holds_alternative<graph::Update>(reader.op)) return false;
  }
  gradients_.push_back(gradient);
  return true;
}

void Lowering::unpack_gradients() {
  if (gradients_.empty()) return;
  for (const KernelGradient& gradient : gradients_) {
    const std::int64_t elements = gradient.positions * gradient.in * gradient.out;
    use(gradient.packed);
    use(gradient.unpacked);
    // The instruction of the layer counts the gradient that this one writes.
    add_traffic(elements * static_cast<std::int64_t>(size_of(gradient.type)));
  }
  const std::string implementation = concat("unpack ", gradients_.size());
  emit_for_layers("gradients of kernels", implementation,
                  [gradients = std::exchange(gradients_, {})](const CallContext& c) {
                    std::map<DType, std::vector<KernelLayouts>> batches;
                    for (const KernelGradient& gradient : gradients) {
                      batches[gradient.type].push_back(gradient.layouts(c));
                    }
                    for (const auto& [type, kernels] : batches) {
                      unpack_kernels(kernels, type, c.stream);
                    }
                  });
}

void Lowering::update_moving_statistics() {
  for (const StatisticsPlaces& places : statistics_) {
    for (const BufferId buffer :
         {places.mean, places.variance, places.batch_mean, places.batch_inverse_std}) {
      use(buffer);
    }
    add_traffic(6 * std::int64_t{places.c} * static_cast<std::int64_t>(sizeof(float)));
  }
  const std::string implementation = concat("kernel for ", statistics_.size());
  emit_for_layers(
      "moving statistics", implementation,
      [places = std::exchange(statistics_, {})](const CallContext& c) {
        std::vector<MovingStatistics> layers;
        for (const StatisticsPlaces& p : places) {
          layers.push_back({c.at<float>(p.mean), c.at<float>(p.variance), c.at<float>(p.batch_mean),
                            c.at<float>(p.batch_inverse_std), p.c, p.momentum, p.epsilon});
        }
        update_statistics(layers, c.state, c.stream);
      });
}

void Lowering::convert_value(const graph::Value&, const Operand& from, const Operand& to) {
  emit(concat("as ", to_string(to.type)), [=](const CallContext& c) {
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
  return packed_weights(
      i, std::string(to_string(type)), count * static_cast<std::int64_t>(size_of(type)),
      [=](const float* from, std::byte* to) { return make_packing(from, to, type, 1, 1, count); });
}

BufferId Lowering::packed_kernel(std::size_t i, DType type, std::int64_t positions, std::int64_t in,
                                 std::int64_t out) {
  const std::int64_t bytes = positions * in * out * static_cast<std::int64_t>(size_of(type));
  const std::string key = concat("krsc ", to_string(type));
  return packed_weights(i, key, bytes, [=](const float* from, std::byte* to) {
    return make_packing(from, to, type, positions, in, out);
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
