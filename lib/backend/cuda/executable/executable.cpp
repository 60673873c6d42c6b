#include "backend/cuda/executable/executable.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/telemetry/ranges.h"
#include "base/error.h"
#include "base/numbers/sum_tree.h"
#include "base/threads/thread_team.h"

namespace trainer::backend::cuda {
namespace {

static_assert(sizeof(DeviceResult) == sizeof(CallResult));
static_assert(offsetof(DeviceResult, times) == offsetof(CallResult, times));
static_assert(offsetof(DeviceResult, loss) == offsetof(CallResult, loss));
static_assert(offsetof(DeviceResult, correct) == offsetof(CallResult, correct));
static_assert(offsetof(DeviceResult, penalty) == offsetof(CallResult, penalty));
static_assert(offsetof(DeviceResult, finite) == offsetof(CallResult, finite));
static_assert(offsetof(DeviceResult, skipped) == offsetof(CallResult, skipped));
static_assert(offsetof(DeviceResult, update_not_finite) == offsetof(CallResult, update_not_finite));
static_assert(offsetof(DeviceResult, gradient_norm) == offsetof(CallResult, gradient_norm));

// Kernels, cuDNN and cublasLt read operands of this alignment: plans/convolution.h, plans/matmul.h.
constexpr std::int64_t kInputAlignment = 16;

bool has_batch_statistics(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) {
    return std::holds_alternative<graph::BatchNorm>(node.op);
  });
}

StepScalars make_step_scalars(const Scalars& scalars, std::int64_t samples) {
  return {scalars.learning_rate,
          static_cast<float>(scalars.loss_scale),
          scalars.update,
          scalars.first_sample,
          scalars.accumulate ? 1u : 0u,
          scalars.apply ? 1u : 0u,
          scalars.stop_when_not_finite ? 1u : 0u,
          static_cast<std::uint32_t>(samples)};
}

}  // namespace

CudaExecutable::CudaExecutable(const graph::Graph& graph, CudaVariables& variables,
                               Machine& machine, const CompileOptions& options)
    : graph_(graph),
      variables_(variables),
      machine_(machine),
      options_(options),
      updates_(has_updates(graph)),
      batch_statistics_(has_batch_statistics(graph)),
      ranks_(cuda_collective(options.reduction.gradients)),
      fixed_io_(variables.device()),
      update_(variables),
      pool_(variables.device(), variables.flat_count()) {
  check_options();
  const int device = variables.device();
  const DeviceGuard guard(device);
  scalars_ = allocate_device(device, sizeof(StepScalars));
  result_ = allocate_device(device, sizeof(DeviceResult));
  StepState state{};
  state.loss_scale = state.gradients_scale = options.loss_scale.value;
  state.finite = state.all_finite = 1;
  state_ = allocate_copy(device, &state, sizeof state);
  if (updates_) allocate_sums();
  clock_ = allocate_zeros(device, sizeof(StepClock) + buckets_.size() * sizeof(ClockSpan));
  const std::int64_t all = max_all_samples(options, rank_count());
  const std::int64_t leaves = options.reduction.ordered ? options.reduction.micro_batches : 0;
  prepare(leaves == 0 ? options.max_samples : rank_samples(all, leaves, rank_count(), rank()).count,
          all);
}

void CudaExecutable::prepare(std::int64_t samples, std::int64_t all_samples) {
  const ActivityScope scope(machine_.progress, Activity::kPrepareGpu);
  const DeviceGuard guard(variables_.device());
  Call call;
  call.samples = samples;
  call.parts = make_parts(samples, all_samples);
  call.idle = is_idle(samples);
  make_programs(call);
}

// Returns whether a call of so many samples only takes part in the other ranks' batch statistics.
bool CudaExecutable::is_idle(std::int64_t samples) const {
  return samples == 0 && updates_ && batch_statistics_ && options_.reduction.statistics != nullptr;
}

std::int64_t CudaExecutable::rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }

Partition CudaExecutable::leaves() const {
  return partition(options_.reduction.micro_batches, rank_count(), rank());
}

std::int64_t CudaExecutable::rank_count() const { return ranks_ == nullptr ? 1 : ranks_->size(); }

void CudaExecutable::allocate_sums() {
  const int device = variables_.device();
  const Flat& flat = variables_.placement().flat;
  const auto floats = [&](std::int64_t count) {
    // The gaps between parameters and the gradients that are always zero are summed and checked
    // too. Nothing writes them.
    return allocate_zeros(device, count * sizeof(float));
  };
  if (ranks_ != nullptr) {
    // The mean of the moving statistics travels with the gradients, unless all ranks have the same.
    trailer_statistics_ = options_.reduction.statistics == nullptr ? flat.statistics : 0;
    trailer_size_ = 2 + trailer_statistics_;
  }
  gradients_ = floats(flat.count + trailer_size_);
  statistics_before_ = floats(flat.statistics);
  if (options_.reduction.ordered) {
    const Partition range = leaves();
    pool_.reserve(max_waiting_roots(range.first, range.first + range.count) + 1);
    accumulated_ = floats(flat.count);
    if (ranks_ != nullptr) {
      const auto roots =
          static_cast<std::int64_t>(max_rank_roots(options_.reduction.micro_batches, rank_count()));
      gathered_ = floats(rank_count() * roots * (flat.count + trailer_size_));
      if (roots > 1) other_roots_ = floats((roots - 1) * (flat.count + trailer_size_));
    }
  }
  if (ranks_ == nullptr || options_.reduction.bucket_bytes == 0) return;
  buckets_ = make_buckets(flat.segments, flat.count, options_.reduction.bucket_bytes);
  reduction_stream_ = create_stream();
  reduced_ = create_event();
  for (std::size_t i = 0; i < buckets_.size(); ++i) bucket_events_.push_back(create_event());
}

void CudaExecutable::check_options() const {
  if (options_.same_for_any_batch && (updates_ || batch_statistics_)) {
    throw std::logic_error("a graph that sums over samples cannot be padded to any batch");
  }
  const ReductionOptions& reduction = options_.reduction;
  if (reduction.statistics != nullptr && reduction.statistics != reduction.gradients) {
    throw std::logic_error("batch statistics over another collective than the gradients");
  }
  if (!reduction.ordered) return;
  const std::int64_t parts = reduction.micro_batches;
  if ((parts & (parts - 1)) != 0 || parts < rank_count()) {
    throw std::logic_error(concat("an ordered sum of ", parts, " micro-batches over ", rank_count(),
                                  " ranks: a power of two with one per rank is needed"));
  }
  if (batch_statistics_) throw std::logic_error("an ordered sum allows no batch statistics");
}

// Which samples make up a part of an ordered sum depends on the batch of all ranks alone.
std::vector<CudaExecutable::Part> CudaExecutable::make_parts(std::int64_t samples,
                                                             std::int64_t all_samples) const {
  const ReductionOptions& reduction = options_.reduction;
  if (!reduction.ordered || !updates_) {
    return samples == 0 ? std::vector<Part>{} : std::vector<Part>{{0, samples}};
  }
  const std::int64_t ranks = rank_count();
  const Partition rank_part = rank_samples(all_samples, reduction.micro_batches, ranks, rank());
  if (rank_part.count != samples) {
    throw std::logic_error(concat("rank ", rank(), " of ", ranks, " was called with ", samples,
                                  " of ", all_samples, " samples; its part is ", rank_part.count));
  }
  std::vector<Part> parts;
  const Partition range = leaves();
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const Partition part = partition(all_samples, reduction.micro_batches, i);
    parts.push_back({part.first - rank_part.first, part.count});
  }
  return parts;
}

CudaExecutable::Call CudaExecutable::make_call(const Bindings& bindings, const Scalars& scalars,
                                               cudaStream_t stream) const {
  if (bindings.samples > options_.max_samples) {
    throw std::logic_error(
        concat("compiled for ", options_.max_samples, " samples, called with ", bindings.samples));
  }
  Call call;
  call.samples = bindings.samples;
  call.parts =
      make_parts(call.samples, scalars.all_samples > 0 ? scalars.all_samples : call.samples);
  call.inputs.assign(bindings.inputs.begin(), bindings.inputs.end());
  call.outputs.assign(bindings.outputs.begin(), bindings.outputs.end());
  call.accumulate = scalars.accumulate;
  call.apply = scalars.apply;
  call.idle = is_idle(call.samples);
  call.has_result = bindings.result != nullptr;
  call.stream = stream;
  return call;
}

Program& CudaExecutable::program(std::int64_t samples) {
  const std::int64_t lowered = options_.same_for_any_batch ? options_.max_samples : samples;
  const auto found = programs_.find(lowered);
  if (found != programs_.end()) return found->second;
  Program made = Lowering(graph_, lowered, machine_, variables_, options_).lower();
  made.arena = variables_.arena(made.arena_bytes);
  return programs_.emplace(lowered, std::move(made)).first->second;
}

// Makes everything that a call needs and that is allocated on first use.
void CudaExecutable::make_programs(const Call& call) {
  for (const Part& part : call.parts) {
    if (part.count > 0) program(part.count);
  }
  // A rank that never has samples still needs the ports of a program.
  if (programs_.empty()) program(1);
  if (call.idle && idle_input_.bytes() == 0) {
    std::int64_t max_bytes = 0;
    for (const Port& port : program(1).inputs) max_bytes = std::max(max_bytes, port.bytes);
    idle_input_ = allocate_zeros(variables_.device(), max_bytes);
  }
  make_copied_inputs(call);
  make_fixed_io(call);
  if (call.idle || call.accumulate) pool_.reserve(1);
}

// A call that all ranks capture reads and writes memory that stays the same.
void CudaExecutable::make_fixed_io(const Call& call) {
  if (!updates_ || !captures_ranks()) return;
  const Program& any = programs_.begin()->second;
  fixed_io_.inputs(call.inputs, any.inputs, options_.max_samples);
  fixed_io_.outputs(call.outputs, any.outputs, options_.max_samples);
}

std::byte* CudaExecutable::input_at(const Call& call, const Part& part, std::size_t input,
                                    const Port& port) {
  return call.inputs[input].address + part.first * port.bytes_per_sample;
}

bool CudaExecutable::is_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kInputAlignment == 0;
}

void CudaExecutable::make_copied_inputs(const Call& call) {
  const std::vector<Port>& ports = programs_.begin()->second.inputs;
  copied_inputs_.resize(ports.size());
  for (std::size_t i = 0; i < ports.size() && i < call.inputs.size(); ++i) {
    if (ports[i].buffer < 0 || copied_inputs_[i].bytes() > 0) continue;
    bool needed = options_.same_for_any_batch;
    for (const Part& part : call.parts) {
      // A captured call's inputs begin at an aligned place, the caller's may not.
      const bool aligned = is_aligned(input_at(call, part, i, ports[i])) &&
                           part.first * ports[i].bytes_per_sample % kInputAlignment == 0;
      needed = needed || (part.count > 0 && !aligned);
    }
    if (!needed) continue;
    copied_inputs_[i] =
        allocate_zeros(variables_.device(), ports[i].bytes_per_sample * options_.max_samples);
  }
}

// Training remakes within the step what training changes; everything else is made when it is
// stale.
void CudaExecutable::make_stale(const Call& call) {
  std::vector<PackedWeights::Entry*> stale = packed_entries(call);
  std::erase_if(stale, [this](const PackedWeights::Entry* entry) {
    return (updates_ && entry->changed_by_training) ||
           !variables_.packed_weights().is_stale(*entry);
  });
  make_entries(stale, call.stream);
  for (PackedWeights::Entry* entry : stale) variables_.packed_weights().mark_made(*entry);
}

std::vector<PackedWeights::Entry*> CudaExecutable::packed_entries(const Call& call) {
  std::vector<PackedWeights::Entry*> entries;
  const auto add = [&](const Program& program) {
    for (PackedWeights::Entry* entry : program.packed_weights) {
      if (std::ranges::find(entries, entry) == entries.end()) {
        entries.push_back(entry);
      }
    }
  };
  for (const Part& part : call.parts) {
    if (part.count > 0) add(program(part.count));
  }
  if (call.idle) add(program(1));
  std::ranges::stable_sort(entries,
                           [](const auto* a, const auto* b) { return a->order < b->order; });
  return entries;
}

void CudaExecutable::launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) {
  const ActivityScope scope(machine_.progress, Activity::kGpu);
  try {
    launch_call(bindings, scalars, stream);
  } catch (...) {
    // The other ranks would wait for this one's part of the sum.
    const std::string reason = handled_message();
    if (ranks_ != nullptr) ranks_->abort(reason);
    throw;
  }
}

void CudaExecutable::launch_call(const Bindings& bindings, const Scalars& scalars, Stream& stream) {
  const DeviceGuard guard(variables_.device());
  auto& cuda_stream = dynamic_cast<CudaStream&>(stream);
  const Range range(updates_ ? "training call" : "evaluation call");
  const Call call = make_call(bindings, scalars, cuda_stream.handle());
  make_programs(call);
  const NoAllocations launching;
  cuda_stream.gap_clock().begin(cuda_stream.handle());
  cuda_stream.begin_program(make_step_scalars(scalars, call.samples), this->scalars(),
                            call.has_result ? clock() : nullptr);
  make_stale(call);
  update_number_ = scalars.update;
  if (ranks_ != nullptr) {
    const bool statistics = batch_statistics_ && options_.reduction.statistics != nullptr;
    ranks_->name_work(statistics ? "gradients and batch statistics" : "gradients", update_number_);
  }
  recorder_ == nullptr ? run(call, scalars.all_samples) : run_recorded(call, cuda_stream);
  if (call.has_result) {
    cuda_stream.download(bindings.result, result_.span(), sizeof(DeviceResult));
  } else {
    lap_clock(cuda_stream.clock(), ClockPhase::kForward, call.stream);
  }
  cuda_stream.gap_clock().end(cuda_stream.handle());
  if (!updates_) return;
  for (PackedWeights::Entry* entry : packed_entries(call)) {
    if (entry->changed_by_training) variables_.packed_weights().mark_made(*entry);
  }
  variables_.packed_weights().note_training();
}

void CudaExecutable::run(const Call& call, std::int64_t all_samples) {
  const bool sums = updates_ || batch_statistics_;
  if (ranks_ != nullptr && updates_) {
    replay_with_ranks(call, all_samples);
  } else if (sums && options_.reduction.statistics != nullptr) {
    enqueue(call);
  } else {
    replay(call);
  }
}

void CudaExecutable::run_recorded(const Call& call, CudaStream& stream) {
  stream.synchronize();
  timed_.start(call.stream);
  enqueue(call);
  stream.synchronize();
  timed_.finish(*recorder_);
}

Gradient CudaExecutable::gradient(Stream& stream) {
  const DeviceGuard guard(variables_.device());
  auto& cuda_stream = dynamic_cast<CudaStream&>(stream);
  const std::size_t count = variables_.flat_count();
  host_gradient_.resize(count);
  cuda_stream.download(host_gradient_.data(), gradients_.span(), count * sizeof(float));
  const StepState state_now = read_state(cuda_stream);
  host_clip_scales_.clear();
  if (update_.needs_norm()) {
    const float* scales = update_.enqueue_clip_scales(gradients(), state(), cuda_stream.handle());
    host_clip_scales_.resize(update_.segments());
    const std::size_t bytes = host_clip_scales_.size() * sizeof(float);
    auto* from = reinterpret_cast<std::byte*>(const_cast<float*>(scales));
    cuda_stream.download(host_clip_scales_.data(), {from, bytes}, bytes);
  }
  cuda_stream.synchronize();
  if (state_now.loss_scale != 1) {
    for (float& value : host_gradient_) value /= state_now.loss_scale;
  }
  return {host_gradient_, host_clip_scales_};
}

void CudaExecutable::read_gradient(Stream& stream, std::int64_t first, std::span<float> to) {
  const DeviceGuard guard(variables_.device());
  auto& cuda_stream = dynamic_cast<CudaStream&>(stream);
  auto* from = reinterpret_cast<std::byte*>(gradients() + first);
  cuda_stream.download(to.data(), {from, to.size_bytes()}, to.size_bytes());
  cuda_stream.synchronize();
}

StepState CudaExecutable::read_state(CudaStream& stream) const {
  StepState state{};
  stream.download(&state, state_.span(), sizeof state);
  stream.synchronize();
  return state;
}

LossScaleState CudaExecutable::loss_scale(Stream& stream) {
  const StepState state = read_state(dynamic_cast<CudaStream&>(stream));
  return {state.loss_scale, state.good_updates};
}

void CudaExecutable::set_loss_scale(const LossScaleState& scale, Stream& stream) {
  auto& cuda_stream = dynamic_cast<CudaStream&>(stream);
  StepState state = read_state(cuda_stream);
  state.loss_scale = state.gradients_scale = scale.value;
  state.good_updates = scale.good_updates;
  cuda_stream.upload(state_.span(), &state, sizeof state);
  cuda_stream.synchronize();
}

}  // namespace trainer::backend::cuda
