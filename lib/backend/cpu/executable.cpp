#include "backend/cpu/executable.h"

#include <omp.h>

#include <algorithm>
#include <ostream>

#include "backend/cpu/lanes/lanes.h"
#include "backend/exchange.h"
#include "backend/placement.h"
#include "base/error.h"
#include "base/numbers/finite.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cpu {
namespace {

// False only in builds that show what measuring costs: scripts/bench/step_times.
constexpr bool kStepTimes = TRAINER_STEP_TIMES;

}  // namespace

CpuExecutable::CpuExecutable(const graph::Graph& graph, CpuVariables& variables, LaneThreads& lanes,
                             Arenas& arenas, const Machine& machine, const CompileOptions& options)
    : graph_(graph),
      variables_(variables),
      lanes_(lanes),
      arenas_(arenas),
      machine_(machine),
      options_(options),
      whole_batch_(needs_whole_batch(graph)),
      shares_(lanes.count(), whole_batch_ ? options.max_samples : kMicroBatch, options.reduction),
      states_(lanes.count()),
      update_(variables, *machine.kernels, lanes.count()),
      updates_(has_updates(graph)),
      ranks_(find_host_ranks(options.reduction.gradients)),
      statistics_ranks_(find_host_ranks(options.reduction.statistics)),
      exchange_(lanes.count()) {
  if (options.reduction.ordered && (lanes.threads_per_lane() != 1 || whole_batch_)) {
    throw std::logic_error("an ordered sum needs lanes of one thread and no batch statistics");
  }
  if (updates_) {
    statistics_ = moving_statistics();
    allocate_gradients();
  }
  const ReductionOptions& reduction = options.reduction;
  const std::int64_t all = max_all_samples(options, ranks_in(reduction));
  if (reduction.ordered) {
    const int rank = reduction.gradients != nullptr ? reduction.gradients->rank() : 0;
    prepare(rank_samples(all, reduction.micro_batches, ranks_in(reduction), rank).count, all);
  } else {
    prepare(options.max_samples, all);
  }
}

void CpuExecutable::prepare(std::int64_t samples, std::int64_t all_samples) {
  const std::span<const LaneShare> shares = shares_.of(samples, all_samples);
  if (updates_) allocate_partial_sums(shares);
  for (int lane = 0; lane < lanes_.count(); ++lane) {
    const LaneShare& share = shares[lane];
    for (std::int64_t i = 0; i < share.micro_batches(); ++i) {
      if (share.micro_batch_count(i) > 0) program(lane, share.micro_batch_count(i));
    }
  }
}

void CpuExecutable::allocate_gradients() {
  const bool has_ranks = ranks_ != nullptr;
  if (has_ranks) trailer_ = Trailer(statistics_, statistics_ranks_ == nullptr);
  if (!options_.reduction.ordered) {
    const int lanes = lanes_.count();
    joint_ = JointLayers(graph_, variables_, lanes, samples_at_once(graph_, options_, lanes));
    if (!joint_.empty()) joint_.allocate();
  }
  const auto trailer = static_cast<std::int64_t>(has_ranks ? trailer_.size() : 0);
  const std::int64_t count = variables_.flat_count() - joint_.gradient_count() + trailer;
  for (LaneState& state : states_) {
    state.gradients = Memory(count * kFloatBytes);
  }
  if (!has_ranks) return;
  reduction_ = std::make_unique<Reduction>(variables_, *machine_.kernels, options_.reduction,
                                           trailer_.size());
}

// Allocates the buffers in which the micro-batches of these shares are added up.
void CpuExecutable::allocate_partial_sums(std::span<const LaneShare> shares) {
  for (std::size_t lane = 0; lane < states_.size(); ++lane) {
    const LaneShare& share = shares[lane];
    if (share.micro_batches() < 2) continue;
    const std::size_t sums =
        options_.reduction.ordered
            ? max_waiting_roots(share.first_leaf, share.first_leaf + share.micro_batches())
            : 1;
    LaneState& state = states_[lane];
    while (state.partial.size() < sums) state.partial.emplace_back(state.gradients.bytes());
  }
}

Lowered& CpuExecutable::program(int lane, std::int64_t samples) {
  LaneState& state = states_[lane];
  std::unique_ptr<Lowered>& lowered = state.programs[samples];
  if (!lowered) {
    // Primitives plan for the number of threads that they will run with.
    omp_set_num_threads(lanes_.threads_per_lane());
    const GradientPlaces gradients{state.gradients.as<float>(), joint_.empty() ? nullptr : &joint_};
    Lowering lowering(graph_, samples, machine_, variables_, gradients, options_);
    lowered = std::make_unique<Lowered>(Lowered{lowering.lower(), {}, {}});
    lowered->arena = reinterpret_cast<std::byte*>(arenas_.get(lane, lowered->arena_bytes));
    lowered->pointers = lowered->make_pointers({}, nullptr);
    if (reduction_) {
      lowered->bucket_ends = find_bucket_ends(lowered->gradient_writers, reduction_->buckets());
    }
  }
  return *lowered;
}

void CpuExecutable::find_stale(const Call& call) {
  for (auto& entries : stale_) entries.clear();
  const auto add = [&](std::size_t lane, std::int64_t count) {
    for (PackedWeights::Entry* entry : program(static_cast<int>(lane), count).packed_weights) {
      std::vector<PackedWeights::Entry*>& entries = stale_[entry->order];
      if (!variables_.packed_weights().is_stale(*entry)) continue;
      if (std::ranges::find(entries, entry) == entries.end()) entries.push_back(entry);
    }
  };
  if (call.idle) add(0, 1);
  for (std::size_t lane = 0; lane < call.shares.size(); ++lane) {
    const LaneShare& share = call.shares[lane];
    for (std::int64_t i = 0; i < share.micro_batches(); ++i) {
      const std::int64_t count = share.micro_batch_count(i);
      if (count == 0 || (i > 0 && count == share.micro_batch_count(i - 1))) continue;
      add(lane, count);
    }
  }
}

void CpuExecutable::rebuild_packed_weights(int lane, int lanes) {
  const RecordedWork work(recorder_, WorkRecord::Kind::kPackWeights, lane);
  for (const auto& entries : stale_) {
    if (entries.empty()) continue;
    for_each_of_lane(entries.size(), lane, lanes, [&](std::size_t i) {
      entries[i]->make();
      variables_.packed_weights().mark_made(*entries[i]);
    });
    barrier_.wait(lanes);
  }
}

void CpuExecutable::launch(const Bindings& bindings, const Scalars& scalars, Stream&) {
  const ActivityScope scope(machine_.progress, Activity::kCompute);
  if (kStepTimes) clock_.start();
  try {
    Call call{bindings, scalars, bindings.samples, {}, 0, 0, false, false};
    prepare(call);
    lanes_.run([&](int lane) { run_lane(lane, call); }, [this](int) { abort(); });
  } catch (...) {
    abort();
    barrier_.reset();
    active_barrier_.reset();
    throw;
  }
  lap(updates_ ? PhaseClock::Phase::kUpdate : PhaseClock::Phase::kForward);
  update_not_finite_ = updates_ && finite_ && scalars.apply && !is_update_finite();
  stopped_ = updates_ && scalars.stop_when_not_finite && (!finite_ || update_not_finite_);
  if (bindings.result != nullptr) write_result(bindings, scalars);
  if (updates_ && finite_) variables_.packed_weights().note_training();
}

PhaseClock* CpuExecutable::step_clock() { return kStepTimes ? &clock_ : nullptr; }

void CpuExecutable::lap(PhaseClock::Phase phase) {
  if (kStepTimes) clock_.lap(phase);
}

bool CpuExecutable::is_update_finite() const {
  return update_.finite() && std::ranges::all_of(statistics_, all_finite);
}

// The sums follow the order of the samples, so that they do not depend on the lanes.
void CpuExecutable::write_result(const Bindings& bindings, const Scalars& scalars) const {
  const CompileOptions::ResultOutputs& outputs = options_.result_outputs;
  const auto values = [&]<class T>(int output, T) {
    const std::size_t count = bindings.samples;
    return output < 0
               ? std::span<const T>()
               : std::span(reinterpret_cast<const T*>(bindings.outputs[output].address), count);
  };
  CallResult& result = *bindings.result;
  result = {};
  for (const float loss : values(outputs.loss, float{})) result.loss += loss;
  for (const std::int32_t rank : values(outputs.rank, std::int32_t{})) {
    result.correct += rank == 0 ? 1 : 0;
  }
  if (outputs.penalty >= 0 && bindings.samples > 0) {
    const Span penalty = bindings.outputs[outputs.penalty];
    result.penalty = static_cast<double>(*reinterpret_cast<const float*>(penalty.address));
  }
  result.finite = finite_;
  result.update_not_finite = update_not_finite_;
  if (updates_ && finite_ && scalars.apply) result.gradient_norm = update_.gradient_norm();
  result.times = times();
}

PhaseTimes CpuExecutable::times() const {
  PhaseTimes times;
  times.measured = kStepTimes;
  times.forward = clock_.seconds(PhaseClock::Phase::kForward);
  times.backward = clock_.seconds(PhaseClock::Phase::kBackward);
  times.all_reduce = clock_.seconds(PhaseClock::Phase::kAllReduce);
  times.update = clock_.seconds(PhaseClock::Phase::kUpdate);
  if (reduction_) times.all_reduce_hidden = reduction_->hidden_seconds();
  return times;
}

// Wakes all that wait for this rank or one of its lanes. Called while an error is handled.
void CpuExecutable::abort() {
  const std::string reason = handled_message();
  barrier_.abort(reason);
  active_barrier_.abort(reason);
  if (reduction_) reduction_->abort();
  if (ranks_ != nullptr) ranks_->abort(reason);
  if (statistics_ranks_ != nullptr) statistics_ranks_->abort(reason);
}

void CpuExecutable::prepare(Call& call) {
  if (call.samples > options_.max_samples) {
    throw std::logic_error(
        concat("compiled for ", options_.max_samples, " samples, called with ", call.samples));
  }
  const std::int64_t all = call.scalars.all_samples > 0 ? call.scalars.all_samples : call.samples;
  call.shares = shares_.of(call.samples, all);
  for (std::size_t lane = call.shares.size(); lane-- > 0;) {
    if (call.shares[lane].count() == 0) continue;
    call.first_active = static_cast<int>(lane);
    ++call.active;
  }
  call.idle = call.samples == 0 && updates_ && statistics_ranks_ != nullptr && whole_batch_;
  find_stale(call);
  finite_ = !stopped_;
  prepare_sums(call);
}

void CpuExecutable::prepare_sums(Call& call) {
  if (!updates_) return;
  allocate_partial_sums(call.shares);
  const Scalars& scalars = call.scalars;
  const bool one_call = scalars.apply && !scalars.accumulate;
  find_sources(call);
  const bool tree = options_.reduction.ordered && sources_.own.size() > 2;
  const bool has_ranks = ranks_ != nullptr;
  is_summed_ = has_ranks || !one_call || tree || update_.needs_sum();
  if (!reduction_ && is_summed_) {
    reduction_ = std::make_unique<Reduction>(variables_, *machine_.kernels, options_.reduction, 0);
  }
  const bool accumulates = has_ranks && options_.reduction.ordered && !one_call;
  if (accumulates && accumulated_.bytes() == 0) accumulated_ = Memory(states_[0].gradients.bytes());
  if (!scalars.accumulate) all_finite_ = true;
  call.overlap = has_ranks && reduction_->overlaps() && reduces(scalars);
  if (reduction_) {
    // A sum that no later call adds to needs no buffer of its own.
    const bool in_place = has_ranks && joint_.empty() && call.shares[0].micro_batches() > 0 &&
                          reduces(scalars) && (!scalars.accumulate || options_.reduction.ordered);
    reduction_->sum_in(in_place ? first_source(call) : nullptr);
    if (options_.reduction.ordered) reduction_->set_roots(sources_);
    const float* sum = accumulates ? accumulated_.as<float>() : reduction_->values();
    summed_.own.assign(1, sum);
  }
  if (call.overlap) {
    reduction_->begin(sources_, scalars.accumulate && !options_.reduction.ordered);
  }
}

MemoryReport CpuExecutable::memory() const {
  MemoryReport report;
  report.variables = variables_.bytes();
  report.derived = variables_.packed_weights().bytes();
  for (const LaneState& state : states_) {
    report.gradients += state.gradients.bytes();
    for (const Memory& sum : state.partial) report.gradients += sum.bytes();
  }
  report.gradients +=
      joint_.gradient_bytes() + accumulated_.bytes() + (reduction_ ? reduction_->bytes() : 0);
  report.activations = arenas_.bytes() + joint_.exchanged_bytes();
  return report;
}

bool CpuExecutable::record(WorkRecorder* recorder) {
  recorder_ = recorder;
  if (reduction_) reduction_->record(recorder);
  return true;
}

void CpuExecutable::print(std::ostream& out) const {
  for (const auto& [samples, lowered] : states_[0].programs) {
    out << "program for " << samples << " samples per lane, " << states_.size() << " lanes, arena "
        << lowered->arena_bytes << " bytes\n";
    for (const Instruction& instruction : lowered->instructions) {
      out << "  " << instruction.name << ": " << instruction.implementation << '\n';
    }
  }
}

}  // namespace trainer::backend::cpu
