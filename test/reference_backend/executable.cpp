#include "reference_backend/executable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <stdexcept>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/numbers/partition.h"
#include "base/numbers/sum_tree.h"
#include "reference_backend/batch_statistics.h"
#include "reference_backend/collective.h"

namespace trainer::test {
namespace {

using graph::ValueId;

double root_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double number_at(const std::byte* from, DType type) {
  switch (type) {
    case DType::kFloat32:
      return static_cast<double>(load<float>(from));
    case DType::kBFloat16:
      return static_cast<double>(bfloat16_to_float(load<std::uint16_t>(from)));
    case DType::kFloat16:
      return static_cast<double>(float16_to_float(load<std::uint16_t>(from)));
    case DType::kUInt8:
      return static_cast<double>(load<std::uint8_t>(from));
    case DType::kInt32:
      return static_cast<double>(load<std::int32_t>(from));
  }
  return 0;
}

void put_number(double value, DType type, std::byte* to) {
  const auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (type) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kBFloat16:
      return put(float_to_bfloat16(static_cast<float>(value)));
    case DType::kFloat16:
      return put(float_to_float16(static_cast<float>(value)));
    case DType::kUInt8:
      return put(static_cast<std::uint8_t>(value));
    case DType::kInt32:
      return put(static_cast<std::int32_t>(value));
  }
}

// Where sample `first` of a value lies; of one that has no batch, all of it.
std::byte* at_sample(backend::Span span, const graph::Value& value, std::int64_t first) {
  const auto bytes = value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
  return span.address + (value.shape.batched() ? first * bytes : 0);
}

Tensor to_tensor(std::span<const float> values) {
  return {Shape{static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()}};
}

void add_to(std::vector<float>& sum, const std::vector<float>& more) {
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

}  // namespace

ReferenceExecutable::ReferenceExecutable(const graph::Graph& graph, ReferenceVariables& variables,
                                         const backend::CompileOptions& options)
    : graph_(graph),
      variables_(variables),
      options_(options),
      updates_(backend::has_updates(graph)) {
  const backend::ReductionOptions& reduction = options.reduction;
  const bool batch_statistics = std::any_of(
      graph.nodes.begin(), graph.nodes.end(),
      [](const graph::Node& node) { return std::holds_alternative<graph::BatchNorm>(node.op); });
  if (reduction.statistics != nullptr && batch_statistics) {
    statistics_ = reduction.statistics->host_ranks();
  }
  if (!updates_) return;
  if (reduction.gradients != nullptr) {
    trailer_ = backend::Trailer(variables.statistics(), reduction.statistics == nullptr);
  }
  sum_.resize(static_cast<std::size_t>(variables.layout().count) + trailer_.size());
}

void ReferenceExecutable::launch(const backend::Bindings& bindings, const backend::Scalars& scalars,
                                 backend::Stream& stream) {
  if (bindings.samples > options_.max_samples) {
    throw std::logic_error(
        concat("compiled for ", options_.max_samples, " samples, called with ", bindings.samples));
  }
  auto call = std::make_shared<Call>();
  call->samples = bindings.samples;
  call->inputs.assign(bindings.inputs.begin(), bindings.inputs.end());
  call->outputs.assign(bindings.outputs.begin(), bindings.outputs.end());
  call->numbers = bindings.result;
  call->scalars = scalars;
  if (call->scalars.all_samples == 0) call->scalars.all_samples = bindings.samples;
  if (call->numbers != nullptr)
    std::memset(static_cast<void*>(call->numbers), 0xff, sizeof(backend::CallResult));
  auto& own = dynamic_cast<ReferenceStream&>(stream);
  backend::Collective* ranks = options_.reduction.gradients;
  const auto guarded = [this](auto work) {
    return [this, work] {
      try {
        work();
      } catch (const std::exception& error) {
        if (options_.reduction.gradients != nullptr)
          options_.reduction.gradients->abort(error.what());
        if (statistics_ != nullptr) statistics_->abort(error.what());
        throw;
      }
    };
  };
  own.enqueue(guarded([this, call] { compute(*call); }));
  if (updates_ && ranks != nullptr && (scalars.apply || options_.reduction.ordered)) {
    if (options_.reduction.ordered) {
      own.enqueue(guarded([this, ranks] {
        std::vector<float*> roots{sum_.data()};
        for (Flat& root : other_roots_) roots.push_back(root.data());
        ranks->host_ranks()->all_reduce_tree(options_.reduction.micro_batches, roots, sum_.size());
      }));
    } else {
      ranks->all_reduce({reinterpret_cast<std::byte*>(sum_.data()), sum_.size() * sizeof(float)},
                        static_cast<std::int64_t>(sum_.size()), stream);
    }
  }
  own.enqueue(guarded([this, call] { finish(*call); }));
}

ReferenceExecutable::Values ReferenceExecutable::values_for(const Call& call, std::int64_t first,
                                                            std::int64_t count) const {
  Values values(graph_.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const graph::Value& value = graph_.values[i];
    values[i].shape = value.shape.batched() ? value.shape.with_batch(count) : value.shape;
    if (!graph::is_persistent(value.role)) continue;
    const std::span<const float> kept = variables_.at(value.name);
    values[i].data.assign(kept.begin(), kept.end());
  }
  for (std::size_t i = 0; i < graph_.inputs.size() && i < call.inputs.size(); ++i) {
    const graph::Value& value = graph_[graph_.inputs[i]];
    Tensor& tensor = values[index(graph_.inputs[i])];
    tensor.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
    if (!call.inputs[i]) continue;
    const std::byte* from = at_sample(call.inputs[i], value, first);
    for (double& number : tensor.data) {
      number = number_at(from, value.type);
      from += size_of(value.type);
    }
  }
  return values;
}

void ReferenceExecutable::run_node(const graph::Node& node, const backend::Scalars& scalars,
                                   Values& values) const {
  Site site{{}, {}, scalars, 0};
  for (const ValueId id : node.inputs) site.inputs.push_back(&values[index(id)]);
  for (const ValueId id : node.outputs) {
    Tensor& tensor = values[index(id)];
    tensor.data.assign(static_cast<std::size_t>(tensor.shape.elements()), 0.0);
    site.outputs.push_back(&tensor);
  }
  const auto* forward = std::get_if<graph::BatchNorm>(&node.op);
  const auto* backward = std::get_if<graph::BatchNormBackward>(&node.op);
  if (statistics_ != nullptr && forward != nullptr) {
    batch_norm_over_ranks(*forward, site, *statistics_);
  } else if (statistics_ != nullptr && backward != nullptr) {
    batch_norm_over_ranks(*backward, site, *statistics_);
  } else {
    run_op(node.op, site);
  }
  for (const ValueId id : node.outputs) {
    if (graph_[id].type != DType::kBFloat16) continue;
    for (double& x : values[index(id)].data) x = to_bf16(x);
  }
}

ReferenceExecutable::Values ReferenceExecutable::run_part(Call& call, std::int64_t first,
                                                          std::int64_t count) const {
  Values values = values_for(call, first, count);
  backend::Scalars scalars = call.scalars;
  scalars.first_sample += static_cast<std::uint64_t>(first);
  bool is_backward = false;
  for (const graph::Node& node : graph_.nodes) {
    if (!is_backward && node.phase >= graph::Phase::kBackward) {
      is_backward = true;
      call.end_phase(&backend::PhaseTimes::forward);
    }
    if (node.phase != graph::Phase::kUpdate) run_node(node, scalars, values);
  }
  call.end_phase(is_backward ? &backend::PhaseTimes::backward : &backend::PhaseTimes::forward);
  write_outputs(call, values, first);
  add_to_result(call, values);
  return values;
}

ReferenceExecutable::Values ReferenceExecutable::run_without_samples(const Call& call) const {
  Values values = values_for(call, 0, 0);
  for (const graph::Node& node : graph_.nodes) {
    if (std::holds_alternative<graph::BatchNorm>(node.op) ||
        std::holds_alternative<graph::BatchNormBackward>(node.op)) {
      run_node(node, call.scalars, values);
    }
  }
  return values;
}

void ReferenceExecutable::write_outputs(const Call& call, const Values& values,
                                        std::int64_t first) const {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    if (i >= call.outputs.size() || !call.outputs[i]) continue;
    const graph::Value& value = graph_[graph_.outputs[i]];
    std::byte* to = at_sample(call.outputs[i], value, first);
    for (const double number : values[index(graph_.outputs[i])].data) {
      put_number(number, value.type, to);
      to += size_of(value.type);
    }
  }
}

void ReferenceExecutable::add_to_result(Call& call, const Values& values) const {
  const backend::CompileOptions::ResultOutputs& outputs = options_.result_outputs;
  const auto output = [&](int i) -> const std::vector<double>& {
    static const std::vector<double> kNone;
    return i < 0 ? kNone : values[index(graph_.outputs[static_cast<std::size_t>(i)])].data;
  };
  for (const double loss : output(outputs.loss)) {
    // Rounds to float32, which is what other backends add up.
    call.result.loss += static_cast<double>(static_cast<float>(loss));
    call.result.finite = call.result.finite && std::isfinite(loss);
  }
  for (const double rank : output(outputs.rank)) call.result.correct += rank == 0 ? 1 : 0;
  if (outputs.penalty >= 0) call.result.penalty = output(outputs.penalty)[0];
}

ReferenceExecutable::Flat ReferenceExecutable::compute_gradients(const Values& values) const {
  Flat flat(static_cast<std::size_t>(variables_.layout().count));
  std::size_t next = 0;
  for (const graph::Node& node : graph_.nodes) {
    if (!std::holds_alternative<graph::Update>(node.op)) continue;
    const backend::Segment& segment = variables_.layout().segments[next++];
    const std::vector<double>& gradient = values[index(node.inputs[1])].data;
    std::transform(gradient.begin(), gradient.end(), flat.begin() + segment.offset,
                   [](double x) { return static_cast<float>(x); });
  }
  return flat;
}

ReferenceExecutable::Flat ReferenceExecutable::ordered_sum(Call& call, std::int64_t first,
                                                           std::int64_t count) {
  if (count > 1) {
    Flat left = ordered_sum(call, first, count / 2);
    add_to(left, ordered_sum(call, first + count / 2, count / 2));
    return left;
  }
  const backend::ReductionOptions& reduction = options_.reduction;
  const std::int64_t ranks = reduction.gradients != nullptr ? reduction.gradients->size() : 1;
  const std::int64_t rank = reduction.gradients != nullptr ? reduction.gradients->rank() : 0;
  const std::int64_t all = call.scalars.all_samples;
  const Partition piece = partition(all, reduction.micro_batches, first);
  if (piece.count == 0) return Flat(static_cast<std::size_t>(variables_.layout().count));
  const std::int64_t own = rank_samples(all, reduction.micro_batches, ranks, rank).first;
  return compute_gradients(run_part(call, piece.first - own, piece.count));
}

void ReferenceExecutable::Call::end_phase(double backend::PhaseTimes::*phase) {
  const Clock::time_point now = Clock::now();
  result.times.*phase += std::chrono::duration<double>(now - since).count();
  since = now;
}

void ReferenceExecutable::compute(Call& call) {
  call.since = Clock::now();
  call.result.times.measured = true;
  const backend::ReductionOptions& reduction = options_.reduction;
  const bool ordered = reduction.ordered && updates_;
  const auto count = static_cast<std::size_t>(variables_.layout().count);
  Flat gradient(count);
  Values values;
  if (ordered) {
    const std::int64_t ranks = reduction.gradients != nullptr ? reduction.gradients->size() : 1;
    const std::int64_t rank = reduction.gradients != nullptr ? reduction.gradients->rank() : 0;
    const Partition leaves = partition(reduction.micro_batches, ranks, rank);
    other_roots_.clear();
    for (const TreeBlock& root : tree_roots(leaves.first, leaves.first + leaves.count)) {
      Flat sum = ordered_sum(call, root.first, root.count);
      if (root.first == leaves.first) {
        gradient = std::move(sum);
      } else {
        sum.resize(sum_.size());  // zeros in place of the trailer
        other_roots_.push_back(std::move(sum));
      }
    }
  } else if (call.samples > 0) {
    values = run_part(call, 0, call.samples);
    if (updates_) gradient = compute_gradients(values);
  } else if (statistics_ != nullptr) {
    values = run_without_samples(call);
  }
  if (!updates_) return;
  if (call.scalars.accumulate && !ordered) {
    add_to(gradient, Flat(sum_.begin(), sum_.begin() + static_cast<std::ptrdiff_t>(count)));
  }
  std::copy(gradient.begin(), gradient.end(), sum_.begin());
  if (!call.scalars.accumulate) all_finite_ = true;
  call.result.finite = call.result.finite && !stopped_;
  all_finite_ = all_finite_ && call.result.finite;
  if (!call.scalars.accumulate) trailer_.remember();
  if (all_finite_ && !values.empty()) move_statistics(values);
  trailer_.write(std::span(sum_).subspan(count), all_finite_);
  call.end_phase(&backend::PhaseTimes::backward);
}

void ReferenceExecutable::move_statistics(const Values& values) {
  for (const graph::Node& node : graph_.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    Values own = values;
    run_node(node, {}, own);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<double>& moved = own[index(node.inputs[i])].data;
      std::transform(moved.begin(), moved.end(), variables_.at(graph_[node.inputs[i]].name).begin(),
                     [](double x) { return static_cast<float>(x); });
    }
    trailer_.statistics_moved();
  }
}

void ReferenceExecutable::finish(Call& call) {
  const backend::Scalars& scalars = call.scalars;
  const bool has_ranks = options_.reduction.gradients != nullptr;
  const bool ordered = options_.reduction.ordered;
  const auto count = static_cast<std::size_t>(variables_.layout().count);
  bool finite = call.result.finite;
  call.end_phase(has_ranks ? &backend::PhaseTimes::all_reduce : &backend::PhaseTimes::backward);
  if (updates_) {
    if (!has_ranks) {
      finite = all_finite_;
    } else if (scalars.apply || ordered) {
      finite = all_finite_ = trailer_.read(std::span<const float>(sum_).subspan(count));
    }
    if (has_ranks && ordered && (scalars.accumulate || !scalars.apply)) {
      accumulated_.resize(count);
      if (!scalars.accumulate) std::fill(accumulated_.begin(), accumulated_.end(), 0.0f);
      for (std::size_t i = 0; i < count; ++i) accumulated_[i] += sum_[i];
      if (scalars.apply) std::copy(accumulated_.begin(), accumulated_.end(), sum_.begin());
    } else if (!has_ranks && ordered && scalars.accumulate) {
      for (std::size_t i = 0; i < count; ++i) sum_[i] += accumulated_[i];
    }
    if (!has_ranks && ordered)
      accumulated_.assign(sum_.begin(), sum_.begin() + static_cast<std::ptrdiff_t>(count));
    if (scalars.apply && finite) {
      call.result.gradient_norm = root_of_squares(gradient_norms());
      update(scalars);
    }
  }
  call.end_phase(&backend::PhaseTimes::update);
  call.result.finite = finite;
  stopped_ = updates_ && scalars.stop_when_not_finite && !finite;
  if (call.numbers != nullptr) *call.numbers = call.result;
}

std::vector<double> ReferenceExecutable::gradient_norms() const {
  std::vector<double> norms;
  for (const backend::Segment& segment : variables_.layout().segments) {
    const auto first = static_cast<std::size_t>(segment.offset);
    const auto count = static_cast<std::size_t>(segment.count);
    norms.push_back(compute_norm(to_tensor(variables_.at(segment.parameter)),
                                 to_tensor(std::span(sum_).subspan(first, count)), segment.update));
  }
  return norms;
}

std::vector<float> ReferenceExecutable::clip_scales() const {
  using Kind = graph::Clip::Kind;
  const backend::Flat& layout = variables_.layout();
  const std::vector<double> norms = gradient_norms();
  const double global = root_of_squares(norms);
  std::vector<float> scales(layout.segments.size(), 1.0f);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const graph::Clip& clip = layout.segments[i].update.clip;
    const bool clips = clip.kind == Kind::kNorm || clip.kind == Kind::kGlobalNorm;
    const double norm = clip.kind == Kind::kNorm ? norms[i] : global;
    const auto limit = static_cast<double>(clip.limit);
    if (clips && norm > limit) scales[i] = static_cast<float>(limit / norm);
  }
  return scales;
}

void ReferenceExecutable::update(const backend::Scalars& scalars) {
  const std::vector<float> scales = clip_scales();
  std::size_t next = 0;
  for (const graph::Node& node : graph_.nodes) {
    if (!std::holds_alternative<graph::Update>(node.op)) continue;
    const backend::Segment& segment = variables_.layout().segments[next];
    const auto first = static_cast<std::size_t>(segment.offset);
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(i == 1 ? to_tensor(std::span(sum_).subspan(
                                      first, static_cast<std::size_t>(segment.count)))
                                : to_tensor(variables_.at(graph_[node.inputs[i]].name)));
    }
    backend::Scalars own = scalars;
    own.update -= segment.update.updates_before;
    graph::Update op = segment.update;
    if (op.clip.kind == graph::Clip::Kind::kNorm ||
        op.clip.kind == graph::Clip::Kind::kGlobalNorm) {
      // The norms are those of before any update.
      const double scale = static_cast<double>(scales[next]);
      for (std::size_t i = 0; i < operands[1].data.size(); ++i) {
        const double penalty = penalty_slope(op, operands[0].data[i]);
        operands[1].data[i] = (operands[1].data[i] + penalty) * scale;
      }
      op.clip = {};
      op.l2 = 0;
      op.l1 = 0;
    }
    Site site{{}, {}, own, 0};
    for (Tensor& operand : operands) site.inputs.push_back(&operand);
    run_op(op, site);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (i == 1) continue;
      const std::vector<double>& data = operands[i].data;
      std::transform(data.begin(), data.end(), variables_.at(graph_[node.inputs[i]].name).begin(),
                     [](double x) { return static_cast<float>(x); });
    }
    ++next;
  }
}

backend::Gradient ReferenceExecutable::gradient(backend::Stream& stream) {
  stream.synchronize();
  if (options_.reduction.gradients != nullptr) {
    throw std::logic_error("gradient(): the last call must be of one rank, and not update");
  }
  scales_ = clip_scales();
  return {std::span(sum_).first(static_cast<std::size_t>(variables_.layout().count)), scales_};
}

void ReferenceExecutable::read_gradient(backend::Stream& stream, std::int64_t first,
                                        std::span<float> to) {
  stream.synchronize();
  std::ranges::copy(std::span<const float>(sum_).subspan(first, to.size()), to.begin());
}

backend::MemoryReport ReferenceExecutable::memory() const {
  backend::MemoryReport report;
  for (const graph::Value& value : variables_.values()) {
    report.variables += value.shape.elements() * static_cast<std::int64_t>(sizeof(float));
  }
  report.gradients = static_cast<std::int64_t>((sum_.size() + accumulated_.size()) * sizeof(float));
  for (const graph::Value& value : graph_.values) {
    if (graph::is_persistent(value.role)) continue;
    const Shape shape =
        value.shape.batched() ? value.shape.with_batch(options_.max_samples) : value.shape;
    report.activations += shape.elements() * static_cast<std::int64_t>(sizeof(double));
  }
  return report;
}

void ReferenceExecutable::print(std::ostream& out) const {
  for (const graph::Node& node : graph_.nodes) {
    out << "  " << node.name << ": " << graph::name_of(node.op) << " interpreted\n";
  }
}

}  // namespace trainer::test
