#include "backend/cpu/executable.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/cpu/lanes/lanes.h"
#include "backend/placement.h"
#include "base/error.h"
#include "base/finite.h"

namespace trainer::backend::cpu {
namespace {

// Off only in builds that show what measuring costs: scripts/bench/step_times.
constexpr bool kStepTimes = TRAINER_STEP_TIMES;

// What the end of a program belongs to.
PhaseClock::Phase last_phase(const Lowered& lowered) {
  return lowered.backward_begin < lowered.update_begin ? PhaseClock::Phase::kBackward
                                                       : PhaseClock::Phase::kForward;
}

}  // namespace

CpuExecutable::CpuExecutable(const graph::Graph& graph, CpuVariables& variables,
                             WorkerThreads& workers, Arenas& arenas, const Machine& machine,
                             const CompileOptions& options)
    : graph_(graph),
      variables_(variables),
      workers_(workers),
      arenas_(arenas),
      machine_(machine),
      options_(options),
      whole_batch_(needs_whole_batch(graph)),
      shares_(workers.count(), whole_batch_ ? options.max_samples : kMicroBatch, options.reduction),
      states_(static_cast<std::size_t>(workers.count())),
      update_(variables, *machine.kernels, workers.count()),
      updates_(has_updates(graph)),
      ranks_(ranks_of(options.reduction.gradients)),
      statistics_ranks_(ranks_of(options.reduction.statistics)),
      exchange_(static_cast<std::size_t>(workers.count())) {
  if (options.reduction.ordered && (workers.threads_per_worker() != 1 || whole_batch_)) {
    throw std::logic_error("an ordered sum needs lanes of one thread and no batch statistics");
  }
  if (updates_) allocate_gradients();
  // The usual size now, other sizes (the last batch of an epoch) when they come.
  const std::int64_t all = options.max_samples * ranks_in(options.reduction);
  const std::span<const WorkerShare> shares = shares_.of(options.max_samples, all);
  if (updates_) allocate_partial_sums(shares);
  for (int worker = 0; worker < workers.count(); ++worker) {
    const WorkerShare& share = shares[static_cast<std::size_t>(worker)];
    for (std::int64_t i = 0; i < share.micro_batches(); ++i) {
      if (share.micro_batch_count(i) > 0) program(worker, share.micro_batch_count(i));
    }
  }
}

void CpuExecutable::allocate_gradients() {
  const bool has_ranks = ranks_ != nullptr;
  if (has_ranks) trailer_ = Trailer(moving_statistics(graph_), statistics_ranks_ == nullptr);
  if (!options_.reduction.ordered) {
    const int lanes = workers_.count();
    joint_ = JointLayers(graph_, variables_, lanes, samples_at_once(graph_, options_, lanes));
    if (!joint_.empty()) joint_.allocate();
  }
  const auto trailer = static_cast<std::int64_t>(has_ranks ? trailer_.size() : 0);
  const std::int64_t own = variables_.flat_count() - joint_.gradient_count() + trailer;
  for (WorkerState& state : states_) {
    state.gradients = Memory(own * static_cast<std::int64_t>(sizeof(float)));
  }
  if (!has_ranks) return;
  reduction_ = std::make_unique<Reduction>(variables_, *machine_.kernels, options_.reduction,
                                           trailer_.size());
}

// What the micro-batches of these shares are added up in.
void CpuExecutable::allocate_partial_sums(std::span<const WorkerShare> shares) {
  for (std::size_t worker = 0; worker < states_.size(); ++worker) {
    const auto batches = static_cast<std::uint64_t>(shares[worker].micro_batches());
    if (batches < 2) continue;
    const std::size_t sums =
        options_.reduction.ordered ? static_cast<std::size_t>(std::bit_width(batches) - 1) : 1;
    WorkerState& state = states_[worker];
    while (state.partial.size() < sums) state.partial.emplace_back(state.gradients.bytes());
  }
}

Lowered& CpuExecutable::program(int worker, std::int64_t samples) {
  WorkerState& state = states_[static_cast<std::size_t>(worker)];
  std::unique_ptr<Lowered>& lowered = state.programs[samples];
  if (!lowered) {
    // Primitives plan for the number of threads that they will run with.
    omp_set_num_threads(workers_.threads_per_worker());
    const GradientPlaces gradients{state.gradients.as<float>(), joint_.empty() ? nullptr : &joint_};
    Lowering lowering(graph_, samples, machine_, variables_, gradients, options_);
    lowered = std::make_unique<Lowered>(lowering.lower());
    lowered->bind(arenas_.get(worker, lowered->arena_bytes));
    find_bucket_steps(*lowered);
  }
  return *lowered;
}

void CpuExecutable::find_bucket_steps(Lowered& lowered) const {
  if (!reduction_) return;
  const std::vector<Slice>& buckets = reduction_->buckets();
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    int last = 0;
    for (const auto& [offset, step] : lowered.gradient_steps) {
      const bool inside = offset >= buckets[bucket].first && offset < buckets[bucket].last;
      if (inside) last = std::max(last, step);
    }
    lowered.bucket_steps.emplace_back(last, bucket);
  }
  std::sort(lowered.bucket_steps.begin(), lowered.bucket_steps.end());
}

void CpuExecutable::find_stale(const Call& call) {
  for (auto& entries : stale_) entries.clear();
  const auto add = [&](std::size_t worker, std::int64_t count) {
    for (PackedWeights::Entry* entry : program(static_cast<int>(worker), count).packed_weights) {
      std::vector<PackedWeights::Entry*>& entries = stale_[entry->topological_order];
      if (entry->version == variables_.version_of(*entry)) continue;
      if (std::find(entries.begin(), entries.end(), entry) == entries.end())
        entries.push_back(entry);
    }
  };
  if (call.idle) add(0, 1);
  for (std::size_t worker = 0; worker < call.shares.size(); ++worker) {
    const WorkerShare& share = call.shares[worker];
    for (std::int64_t i = 0; i < share.micro_batches(); ++i) {
      const std::int64_t count = share.micro_batch_count(i);
      if (count == 0 || (i > 0 && count == share.micro_batch_count(i - 1))) continue;
      add(worker, count);
    }
  }
}

void CpuExecutable::rebuild_packed_weights(int worker, int workers) {
  const RecordedWork work(recorder_, WorkRecord::Kind::kPackWeights, worker);
  for (const auto& entries : stale_) {
    if (entries.empty()) continue;
    for (std::size_t i = static_cast<std::size_t>(worker); i < entries.size();
         i += static_cast<std::size_t>(workers)) {
      entries[i]->rebuild();
      entries[i]->version = variables_.version_of(*entries[i]);
    }
    barrier_.wait(workers);
  }
}

void CpuExecutable::launch(const Bindings& bindings, const Scalars& scalars, Stream&) {
  if (kStepTimes) clock_.start();
  try {
    Call call{bindings, scalars, bindings.samples, {}, 0, 0, false, false};
    prepare(call);
    workers_.run([&](int worker) { run_worker(worker, call); }, [this](int) { abort(); });
  } catch (...) {
    abort();
    barrier_.reset();
    active_barrier_.reset();
    throw;
  }
  lap(updates_ ? PhaseClock::Phase::kUpdate : PhaseClock::Phase::kForward);
  stopped_ = updates_ && scalars.stop_when_not_finite && !finite_;
  if (bindings.numbers != nullptr) write_numbers(bindings, scalars);
  if (updates_ && finite_) variables_.changed_by_step();
}

void CpuExecutable::lap(PhaseClock::Phase phase) {
  if (kStepTimes) clock_.lap(phase);
}

// Sums in the order of the samples, so that they do not depend on the workers.
void CpuExecutable::write_numbers(const Bindings& bindings, const Scalars& scalars) const {
  const CompileOptions::NumberOutputs& outputs = options_.numbers;
  const auto values = [&]<class T>(int output, T) {
    const auto count = static_cast<std::size_t>(bindings.samples);
    return output < 0 ? std::span<const T>()
                      : std::span(reinterpret_cast<const T*>(
                                      bindings.outputs[static_cast<std::size_t>(output)].address),
                                  count);
  };
  Numbers& numbers = *bindings.numbers;
  numbers = {};
  for (const float loss : values(outputs.loss, float{})) numbers.loss += loss;
  for (const std::int32_t rank : values(outputs.rank, std::int32_t{})) {
    numbers.correct += rank == 0 ? 1 : 0;
  }
  if (outputs.penalty >= 0 && bindings.samples > 0) {
    const Span penalty = bindings.outputs[static_cast<std::size_t>(outputs.penalty)];
    numbers.penalty = static_cast<double>(*reinterpret_cast<const float*>(penalty.address));
  }
  numbers.finite = finite_;
  if (updates_ && finite_ && scalars.apply) numbers.gradient_norm = update_.gradient_norm();
  numbers.times = times();
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

// Wakes whoever waits for this rank or one of its workers; called while an error is handled.
void CpuExecutable::abort() {
  const std::string reason = handled_message();
  barrier_.abort();
  active_barrier_.abort();
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
  for (std::size_t worker = call.shares.size(); worker-- > 0;) {
    if (call.shares[worker].count() == 0) continue;
    call.first_active = static_cast<int>(worker);
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
  const bool tree = options_.reduction.ordered && states_.size() > 2;
  if (!reduction_ && (!one_call || tree || update_.needs_sum())) {
    reduction_ = std::make_unique<Reduction>(variables_, *machine_.kernels, options_.reduction, 0);
  }
  const bool has_ranks = ranks_ != nullptr;
  const bool accumulates = has_ranks && options_.reduction.ordered && !one_call;
  if (accumulates && accumulated_.bytes() == 0) accumulated_ = Memory(states_[0].gradients.bytes());
  if (!scalars.accumulate) all_finite_ = true;
  call.overlap = has_ranks && reduction_->overlaps() && reduces(scalars);
  if (reduction_) {
    // A sum that no later call adds to needs no buffer of its own.
    const bool in_place = has_ranks && joint_.empty() && call.shares[0].micro_batches() > 0 &&
                          reduces(scalars) && (!scalars.accumulate || options_.reduction.ordered);
    reduction_->sum_in(in_place ? source(0, call) : nullptr);
    const float* sum = accumulates ? accumulated_.as<float>() : reduction_->values();
    summed_.own.assign(1, sum);
  }
  find_sources(call);
  if (call.overlap) {
    reduction_->begin(sources_, scalars.accumulate && !options_.reduction.ordered);
  }
}

void CpuExecutable::run_worker(int worker, const Call& call) {
  rebuild_packed_weights(worker, workers_.count());
  run_micro_batches(worker, call);
  if (call.idle && worker == 0) run_idle(call);
  if (!updates_) return;
  {
    const RecordedWork work(recorder_, WorkRecord::Kind::kWaitForThreads, worker);
    barrier_.wait(workers_.count());
  }
  if (worker == 0) lap(PhaseClock::Phase::kBackward);
  if (ranks_ == nullptr) {
    finish_alone(worker, call);
  } else {
    finish_with_ranks(worker, call);
  }
}

void CpuExecutable::run_micro_batches(int worker, const Call& call) {
  const WorkerShare& share = call.shares[static_cast<std::size_t>(worker)];
  const WorkerState& state = states_[static_cast<std::size_t>(worker)];
  for (std::int64_t batch = 0; batch < share.micro_batches(); ++batch) {
    const bool last = batch + 1 == share.micro_batches();
    if (share.micro_batch_count(batch) > 0) {
      run_micro_batch(worker, call, batch);
    } else if (updates_) {
      std::memset(state.gradients.data(), 0, static_cast<std::size_t>(state.gradients.bytes()));
      for (std::size_t i = 0; last && call.overlap && i < reduction_->buckets().size(); ++i) {
        fold(worker, call, batch, reduction_->buckets()[i]);
        reduction_->arrive(i);
      }
    }
    if (updates_ && !(last && call.overlap)) {
      fold(worker, call, batch, {0, variables_.flat_count()});
    }
  }
}

// Adds a micro-batch's gradient to those before it: one after the other, or, ordered, as a binary
// counter counts: 2^k micro-batches are added to the 2^k before them.
void CpuExecutable::fold(int worker, const Call& call, std::int64_t batch, Slice slice) {
  WorkerState& state = states_[static_cast<std::size_t>(worker)];
  const std::int64_t batches = call.shares[static_cast<std::size_t>(worker)].micro_batches();
  if (batches < 2) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, worker);
  // Joint layers add up their rounds themselves.
  slice.first = std::max(slice.first, joint_.gradient_count());
  if (slice.count() <= 0) return;
  const std::int64_t first = slice.first - joint_.gradient_count();
  float* gradients = state.gradients.as<float>() + first;
  const float* sources[32] = {gradients};
  if (!options_.reduction.ordered) {
    machine_.kernels->sum(state.partial[0].as<float>() + first, sources, 1, slice.count(),
                          batch > 0);
    return;
  }
  const int waiting = std::countr_one(static_cast<std::uint64_t>(batch));
  for (int k = 0; k < waiting; ++k) {
    sources[k + 1] = state.partial[static_cast<std::size_t>(k)].as<float>() + first;
  }
  const bool last = batch + 1 == batches;
  float* to =
      last ? gradients : state.partial[static_cast<std::size_t>(waiting)].as<float>() + first;
  machine_.kernels->sum(to, sources, waiting + 1, slice.count(), false);
}

void CpuExecutable::run_micro_batch(int worker, const Call& call, std::int64_t batch) {
  const WorkerShare& share = call.shares[static_cast<std::size_t>(worker)];
  const std::int64_t first = share.micro_batch_first(batch), count = share.micro_batch_count(batch);
  WorkerState& state = states_[static_cast<std::size_t>(worker)];
  Lowered& lowered = *state.programs.at(count);
  for (std::size_t i = 0; i < lowered.inputs.size(); ++i) {
    const Lowered::Port& port = lowered.inputs[i];
    if (port.buffer < 0) continue;
    lowered.pointers[static_cast<std::size_t>(port.buffer)] =
        reinterpret_cast<char*>(call.bindings.inputs[i].address) + first * port.bytes_a_sample;
  }
  RunContext context = context_of(worker, call, lowered);
  context.samples = lowered.samples;
  context.counted = count;
  context.first_sample += static_cast<std::uint64_t>(first);
  // The first samples of the call, empty micro-batches before them left aside.
  context.first = worker == call.first_active && first == share.bounds.front();
  if (!joint_.empty()) context.round = round_of(worker, call, batch);
  run_steps(worker, call, batch, context, lowered);
  copy_outputs(call, first, context, lowered);
  if (worker == 0) lap(last_phase(lowered));
  if (call.overlap && batch + 1 == share.micro_batches()) arrive_last(worker, call, batch, lowered);
}

JointRound CpuExecutable::round_of(int worker, const Call& call, std::int64_t batch) const {
  JointRound round;
  round.add = batch > 0;
  for (int other = 0; other < call.active; ++other) {
    const std::int64_t samples =
        call.shares[static_cast<std::size_t>(other)].micro_batch_count(batch);
    if (other < worker) round.first += samples;
    round.samples += samples;
  }
  return round;
}

// This rank has no samples, but the others wait for its share of the batch statistics: a sample of
// zeros that does not count.
void CpuExecutable::run_idle(const Call& call) {
  Lowered& lowered = *states_[0].programs.at(1);
  for (const Lowered::Port& port : lowered.inputs) {
    const auto bytes = static_cast<std::size_t>(port.bytes);
    if (idle_input_.size() < bytes) idle_input_.resize(bytes);
  }
  for (const Lowered::Port& port : lowered.inputs) {
    if (port.buffer < 0) continue;
    lowered.pointers[static_cast<std::size_t>(port.buffer)] = idle_input_.data();
  }
  RunContext context = context_of(0, call, lowered);
  context.samples = context.workers = 1;
  context.round = {0, 1, false};
  for (std::size_t i = 0; i < lowered.update_begin; ++i) lowered.steps[i].run(context);
}

RunContext CpuExecutable::context_of(int worker, const Call& call, const Lowered& lowered) {
  RunContext context;
  context.pointers = lowered.pointers.data();
  context.first_sample = call.scalars.first_sample;
  context.scalars = &call.scalars;
  context.worker = worker;
  context.workers = call.active;
  context.threads = workers_.threads_per_worker();
  context.first = false;
  context.barrier = &active_barrier_;
  context.exchange = &exchange_;
  context.all_samples = call.samples;
  context.numbers = &numbers_;
  if (kStepTimes && worker == 0) context.clock = &clock_;
  if (statistics_ranks_ != nullptr) {
    context.statistics = statistics_ranks_;
    context.all_samples = call.scalars.all_samples;
  }
  return context;
}

void CpuExecutable::run_steps(int worker, const Call& call, std::int64_t batch,
                              const RunContext& context, const Lowered& lowered) {
  const bool last = batch + 1 == call.shares[static_cast<std::size_t>(worker)].micro_batches();
  std::size_t next = 0;
  for (std::size_t i = 0; i < lowered.update_begin; ++i) {
    if (worker == 0 && i == lowered.backward_begin) lap(PhaseClock::Phase::kForward);
    {
      RecordedWork work(recorder_, WorkRecord::Kind::kLayer, worker);
      const Step& step = lowered.steps[i];
      step.run(context);
      work.set_layer(step.name, step.implementation, step.phase);
    }
    if (!call.overlap || !last) continue;
    // The last bucket follows the outputs, because its trailer depends on them.
    for (; next + 1 < lowered.bucket_steps.size() &&
           lowered.bucket_steps[next].first == static_cast<int>(i);
         ++next) {
      const std::size_t bucket = lowered.bucket_steps[next].second;
      fold(worker, call, batch, reduction_->buckets()[bucket]);
      reduction_->arrive(bucket);
    }
  }
}

void CpuExecutable::arrive_last(int worker, const Call& call, std::int64_t batch,
                                const Lowered& lowered) {
  const std::size_t bucket = lowered.bucket_steps.back().second;
  fold(worker, call, batch, reduction_->buckets()[bucket]);
  reduction_->arrive(bucket);
}

void CpuExecutable::copy_outputs(const Call& call, std::int64_t first, const RunContext& context,
                                 const Lowered& lowered) {
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    const Lowered::Port& port = lowered.outputs[i];
    const std::int64_t bytes =
        port.bytes_a_sample > 0 ? context.counted * port.bytes_a_sample : port.bytes;
    if (static_cast<int>(i) == options_.numbers.loss) {
      const std::span values(context.at<float>(port.buffer), static_cast<std::size_t>(bytes / 4));
      if (!all_finite(values)) finite_ = false;
    }
    const Span& output = call.bindings.outputs[i];
    if (!output || (port.bytes_a_sample == 0 && !context.first)) continue;
    std::memcpy(output.address + first * port.bytes_a_sample, context.at<char>(port.buffer),
                static_cast<std::size_t>(bytes));
  }
}

MemoryReport CpuExecutable::memory() const {
  MemoryReport report;
  report.variables = variables_.bytes();
  report.derived = variables_.packed_weights().bytes();
  for (const WorkerState& state : states_) {
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
    out << "program for " << samples << " samples a lane, " << states_.size() << " lanes, arena "
        << lowered->arena_bytes << " bytes\n";
    for (const Step& step : lowered->steps) {
      out << "  " << step.name << ": " << step.implementation << '\n';
    }
  }
}

}  // namespace trainer::backend::cpu
