#include "backend/cpu/executable.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/part.h"

namespace trainer::backend::cpu {
namespace {

// Samples that a lane computes at once. Larger pieces gain nothing and leave the caches; smaller
// ones pay for more calls of every primitive.
constexpr std::int64_t kMicroBatch = 64;

// Batch norm takes its statistics over the whole batch, so that a lane's share may not be cut.
bool needs_whole_batch(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return std::holds_alternative<graph::BatchNorm>(node.op);
  });
}

bool all_finite(const float* values, std::int64_t count) {
  return std::all_of(values, values + count, [](float v) { return std::isfinite(v); });
}

// Of the tail: whether a loss is not finite, whether the rank has moving statistics.
constexpr std::size_t kTailStart = 2;

std::int64_t ranks_of(const ReductionOptions& reduction) {
  return reduction.communicator != nullptr ? reduction.communicator->size() : 1;
}
std::int64_t rank_of(const ReductionOptions& reduction) {
  return reduction.communicator != nullptr ? reduction.communicator->rank() : 0;
}

bool has_updates(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const graph::Node& node) { return node.phase == graph::Phase::kUpdate; });
}

}  // namespace

char* Arenas::get(int lane, std::int64_t bytes) {
  std::vector<Memory>& mine = memory_[static_cast<std::size_t>(lane)];
  for (const Memory& memory : mine) {
    if (memory.bytes() >= bytes) return memory.data();
  }
  mine.emplace_back(std::max<std::int64_t>(bytes, kAlignment));
  return mine.back().data();
}

std::int64_t Arenas::bytes() const {
  std::int64_t total = 0;
  for (const std::vector<Memory>& lane : memory_) {
    for (const Memory& memory : lane) total += memory.bytes();
  }
  return total;
}

CpuExecutable::CpuExecutable(const graph::Graph& graph, CpuVariables& variables, Lanes& lanes,
                             Arenas& arenas, const Machine& machine, const CompileOptions& options)
    : graph_(graph),
      variables_(variables),
      lanes_(lanes),
      arenas_(arenas),
      machine_(machine),
      options_(options),
      whole_batch_(needs_whole_batch(graph)),
      micro_batch_(whole_batch_ ? options.max_samples : kMicroBatch),
      states_(static_cast<std::size_t>(lanes.count())),
      update_(variables, *machine.kernels),
      updates_(has_updates(graph)),
      exchange_(static_cast<std::size_t>(lanes.count())) {
  check();
  const ReductionOptions& reduction = options.reduction;
  if (updates_) {
    for (LaneState& state : states_) {
      state.gradients = Memory(variables.flat_count() * static_cast<std::int64_t>(sizeof(float)));
    }
    if (reduction.communicator != nullptr) {
      if (reduction.statistics == nullptr) statistics_ = moving_statistics(graph);
      std::size_t tail = kTailStart + reduction.extra;
      for (const Statistic& statistic : statistics_) tail += statistic.count;
      reduction_ = std::make_unique<Reduction>(variables, *machine.kernels, reduction, tail);
    }
  }
  // The usual size now, other sizes (the last batch of an epoch) when they come.
  const std::int64_t all = options.max_samples * ranks_of(reduction);
  const std::vector<Share> shares = split(options.max_samples, all);
  if (options.same_for_any_batch) fix_samples(largest_piece(shares));
  for (int lane = 0; lane < lanes.count(); ++lane) {
    const Share& share = shares[static_cast<std::size_t>(lane)];
    for (std::int64_t i = 0; i < share.pieces(); ++i) {
      if (share.piece_count(i) > 0) program(lane, share.piece_count(i));
    }
  }
}

void CpuExecutable::check() const {
  const ReductionOptions& reduction = options_.reduction;
  if (!reduction.ordered) return;
  const std::int64_t parts = ranks_of(reduction) * lanes_.count();
  const std::int64_t batches = reduction.micro_batches;
  if ((batches & (batches - 1)) != 0 || batches % parts != 0) {
    throw std::logic_error(
        concat("an ordered sum of ", batches, " micro-batches over ", parts,
               " lanes of all ranks: a power of two that they divide is needed"));
  }
  if (lanes_.threads_per_lane() != 1 || whole_batch_) {
    throw std::logic_error("an ordered sum needs lanes of one thread and no batch statistics");
  }
}

std::int64_t CpuExecutable::largest_piece(const std::vector<Share>& shares) {
  std::int64_t largest = 1;
  for (const Share& share : shares) {
    for (std::int64_t i = 0; i < share.pieces(); ++i) {
      largest = std::max(largest, share.piece_count(i));
    }
  }
  return largest;
}

std::vector<CpuExecutable::Statistic> CpuExecutable::moving_statistics(
    const graph::Graph& graph) const {
  std::vector<Statistic> statistics;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const graph::Value& value = graph[node.inputs[i]];
      statistics.push_back(
          {variables_.at(value.name), static_cast<std::size_t>(value.shape.elements())});
    }
  }
  return statistics;
}

std::vector<CpuExecutable::Share> CpuExecutable::split(std::int64_t samples,
                                                       std::int64_t all_samples) const {
  if (options_.reduction.ordered) return split_ordered(samples, all_samples);
  std::vector<Share> shares(states_.size());
  const auto lanes = static_cast<std::int64_t>(states_.size());
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    Share& share = shares[static_cast<std::size_t>(lane)];
    // Earlier lanes take what does not divide, so that the lanes with work are the first ones.
    const std::int64_t count = samples / lanes + (lane < samples % lanes ? 1 : 0);
    const std::int64_t first = samples / lanes * lane + std::min(lane, samples % lanes);
    const std::int64_t pieces = (count + micro_batch_ - 1) / micro_batch_;
    share.bounds.assign(1, first);
    for (std::int64_t i = 0; i < pieces; ++i) {
      share.bounds.push_back(first + count * (i + 1) / pieces);
    }
  }
  return shares;
}

// Which samples make up a piece, and which pieces are neighbours, depends on the batch of all ranks
// alone.
std::vector<CpuExecutable::Share> CpuExecutable::split_ordered(std::int64_t samples,
                                                               std::int64_t all_samples) const {
  const ReductionOptions& reduction = options_.reduction;
  const std::int64_t rank = rank_of(reduction), ranks = ranks_of(reduction);
  const Part mine = part_of(all_samples, rank, ranks);
  if (mine.count != samples) {
    throw std::logic_error(concat("rank ", rank, " of ", ranks, " was called with ", samples,
                                  " of ", all_samples, " samples; its part is ", mine.count));
  }
  std::vector<Share> shares(states_.size());
  const std::int64_t pieces =
      reduction.micro_batches / ranks / static_cast<std::int64_t>(states_.size());
  std::int64_t piece = rank * (reduction.micro_batches / ranks);
  for (Share& share : shares) {
    share.bounds.assign(1, part_of(all_samples, piece, reduction.micro_batches).first - mine.first);
    for (std::int64_t i = 0; i < pieces; ++i, ++piece) {
      share.bounds.push_back(share.bounds.back() +
                             part_of(all_samples, piece, reduction.micro_batches).count);
    }
  }
  return shares;
}

// Where a sample's bits depend on how many are computed with it, all pieces are computed as if they
// were full. `most`: samples of the largest.
void CpuExecutable::fix_samples(std::int64_t most) {
  if (!program(0, most).size_matters) return;
  micro_batch_ = most;
  fixed_samples_ = most;
}

const char* CpuExecutable::input_of_piece(LaneState& state, std::size_t input, const char* host,
                                          std::int64_t count, std::int64_t bytes_a_sample) const {
  if (fixed_samples_ == 0 || count == fixed_samples_ || bytes_a_sample == 0) return host;
  while (state.inputs.size() <= input) state.inputs.emplace_back();
  Memory& full = state.inputs[input];
  if (full.bytes() == 0) {
    full = Memory(fixed_samples_ * bytes_a_sample);
    std::memset(full.data(), 0, static_cast<std::size_t>(full.bytes()));
  }
  std::memcpy(full.data(), host, static_cast<std::size_t>(count * bytes_a_sample));
  return full.data();
}

Lowered& CpuExecutable::program(int lane, std::int64_t count) {
  const std::int64_t samples = program_samples(count);
  LaneState& state = states_[static_cast<std::size_t>(lane)];
  std::unique_ptr<Lowered>& lowered = state.programs[samples];
  if (!lowered) {
    // Primitives plan for the number of threads that they will run with.
    omp_set_num_threads(lanes_.threads_per_lane());
    Lowering lowering(graph_, samples, machine_, variables_, state.gradients.as<float>(), options_);
    lowered = std::make_unique<Lowered>(lowering.lower());
    lowered->bind(arenas_.get(lane, lowered->arena_bytes));
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
  std::set<DerivedStore::Entry*> seen;
  for (auto& level : stale_) level.clear();
  const auto add = [&](std::size_t lane, std::int64_t count) {
    for (DerivedStore::Entry* entry : program(static_cast<int>(lane), count).derived) {
      if (entry->version == variables_.version_of(*entry) || !seen.insert(entry).second) continue;
      stale_[entry->level].push_back(entry);
    }
  };
  if (call.idle) add(0, 1);
  for (std::size_t lane = 0; lane < call.shares.size(); ++lane) {
    const Share& share = call.shares[lane];
    for (std::int64_t i = 0; i < share.pieces(); ++i) {
      const std::int64_t count = share.piece_count(i);
      if (count == 0 || (i > 0 && count == share.piece_count(i - 1))) continue;
      add(lane, count);
    }
  }
}

void CpuExecutable::make_derived(int lane, int lanes) {
  for (const auto& level : stale_) {
    if (level.empty()) continue;
    for (std::size_t i = static_cast<std::size_t>(lane); i < level.size();
         i += static_cast<std::size_t>(lanes)) {
      level[i]->make();
      level[i]->version = variables_.version_of(*level[i]);
    }
    barrier_.wait(lanes);
  }
}

bool CpuExecutable::reduces(const Scalars& scalars) const {
  return reduction_ && (scalars.apply || options_.reduction.ordered);
}

void CpuExecutable::run(std::int64_t samples, std::span<const void* const> inputs,
                        std::span<float* const> outputs, const Scalars& scalars) {
  try {
    Call call{samples, inputs, outputs, scalars, {}, 0, 0, false, false};
    prepare(call);
    lanes_.run([&](int lane) { run_lane(lane, call); }, [this] { abort(); });
  } catch (...) {
    abort();
    barrier_.reset();
    active_barrier_.reset();
    throw;
  }
  if (updates_ && finite_) variables_.changed_by_step();
}

// Wakes whoever waits for this rank or one of its lanes.
void CpuExecutable::abort() {
  barrier_.abort();
  active_barrier_.abort();
  if (reduction_) reduction_->abort();
  if (options_.reduction.communicator != nullptr) options_.reduction.communicator->abort();
  if (options_.reduction.statistics != nullptr) options_.reduction.statistics->abort();
}

void CpuExecutable::prepare(Call& call) {
  if (call.samples > options_.max_samples) {
    throw std::logic_error(
        concat("compiled for ", options_.max_samples, " samples, called with ", call.samples));
  }
  const std::int64_t all = call.scalars.all_samples > 0 ? call.scalars.all_samples : call.samples;
  call.shares = split(call.samples, all);
  for (std::size_t lane = call.shares.size(); lane-- > 0;) {
    if (call.shares[lane].count() == 0) continue;
    call.first_active = static_cast<int>(lane);
    ++call.active;
  }
  call.idle =
      call.samples == 0 && updates_ && options_.reduction.statistics != nullptr && whole_batch_;
  find_stale(call);
  finite_ = true;
  prepare_sums(call);
}

// What a call of this kind needs for the first time.
void CpuExecutable::prepare_sums(Call& call) {
  if (!updates_) return;
  const std::int64_t bytes = states_[0].gradients.bytes();
  for (std::size_t lane = 0; lane < states_.size(); ++lane) {
    const auto pieces = static_cast<std::uint64_t>(call.shares[lane].pieces());
    if (pieces < 2) continue;
    const std::size_t sums =
        options_.reduction.ordered ? static_cast<std::size_t>(std::bit_width(pieces) - 1) : 1;
    while (states_[lane].partial.size() < sums) states_[lane].partial.emplace_back(bytes);
  }
  const Scalars& scalars = call.scalars;
  const bool one_call = scalars.apply && !scalars.accumulate;
  const bool tree = options_.reduction.ordered && states_.size() > 2;
  if (!reduction_ && (!one_call || tree || update_.needs_sum())) {
    reduction_ = std::make_unique<Reduction>(variables_, *machine_.kernels, options_.reduction, 0);
  }
  const bool has_ranks = options_.reduction.communicator != nullptr;
  if (has_ranks && options_.reduction.ordered && !one_call && accumulated_.bytes() == 0) {
    accumulated_ = Memory(bytes);
  }
  if (!scalars.accumulate) all_finite_ = true;
  call.overlap = has_ranks && reduction_->overlaps() && reduces(scalars);
  if (call.overlap) {
    reduction_->begin(sources(call), scalars.accumulate && !options_.reduction.ordered);
  }
}

void CpuExecutable::run_lane(int lane, const Call& call) {
  make_derived(lane, lanes_.count());
  run_pieces(lane, call);
  if (call.idle && lane == 0) run_idle(call);
  if (!updates_) return;
  barrier_.wait(lanes_.count());
  if (options_.reduction.communicator == nullptr) {
    finish_alone(lane, call);
  } else {
    finish_with_ranks(lane, call);
  }
}

void CpuExecutable::finish_alone(int lane, const Call& call) {
  if (!finite_) return;
  if (lane == 0) update_statistics(call);
  std::vector<const float*> gradients = sources(call);
  const Scalars& scalars = call.scalars;
  const bool tree = options_.reduction.ordered && gradients.size() > 2;
  if (update_.needs_sum() || scalars.accumulate || !scalars.apply || tree) {
    reduction_->sum(lane_slice(variables_.flat_count(), lane, lanes_.count()), gradients,
                    scalars.accumulate);
    gradients = {reduction_->values()};
  }
  if (scalars.apply) update_.run(lane, lanes_.count(), barrier_, gradients, scalars);
}

void CpuExecutable::finish_with_ranks(int lane, const Call& call) {
  const int lanes = lanes_.count();
  const Scalars& scalars = call.scalars;
  const bool ordered = options_.reduction.ordered;
  const Slice mine = lane_slice(variables_.flat_count(), lane, lanes);
  if (!call.overlap) {
    reduction_->sum(mine, sources(call), scalars.accumulate && !ordered);
  }
  if (!reduces(scalars)) {
    if (lane == 0) {
      all_finite_ = all_finite_ && finite_;
      if (finite_) update_statistics(call);
    }
    return;
  }
  if (lane == 0) write_tail(call);
  if (!call.overlap) barrier_.wait(lanes);
  if (lane == 0) {
    if (call.overlap) {
      reduction_->tail_written();
      reduction_->finish();
    } else {
      reduction_->reduce();
    }
    read_tail();
  }
  barrier_.wait(lanes);
  if (!finite_) return;
  const float* gradient = reduction_->values();
  if (ordered && (scalars.accumulate || !scalars.apply)) {
    const float* source = gradient + mine.first;
    machine_.kernels->sum(accumulated_.as<float>() + mine.first, &source, 1, mine.count(),
                          scalars.accumulate);
    gradient = accumulated_.as<float>();
  }
  if (scalars.apply) update_.run(lane, lanes, barrier_, {gradient}, scalars);
}

// The flat buffers that make up this call's gradient, in lane order.
std::vector<const float*> CpuExecutable::sources(const Call& call) const {
  std::vector<const float*> buffers;
  for (std::size_t lane = 0; lane < states_.size(); ++lane) {
    const std::int64_t pieces = call.shares[lane].pieces();
    if (pieces == 0) continue;
    const bool in_partial = pieces > 1 && !options_.reduction.ordered;
    const LaneState& state = states_[lane];
    buffers.push_back((in_partial ? state.partial[0] : state.gradients).as<float>());
  }
  return buffers;
}

// The numbers that go with the gradients: whether a loss is not finite, whether this rank has
// statistics, and those; then the caller's.
void CpuExecutable::write_tail(const Call& call) {
  all_finite_ = all_finite_ && finite_;
  std::span<float> tail = reduction_->tail();
  float* at = tail.data() + kTailStart;
  statistics_before_.clear();
  for (const Statistic& statistic : statistics_) {
    statistics_before_.insert(statistics_before_.end(), statistic.values,
                              statistic.values + statistic.count);
  }
  if (all_finite_) update_statistics(call);
  for (const Statistic& statistic : statistics_) {
    if (statistics_moved_) {
      std::copy_n(statistic.values, statistic.count, at);
    } else {
      std::fill_n(at, statistic.count, 0.0f);
    }
    at += statistic.count;
  }
  tail[0] = all_finite_ ? 0.0f : 1.0f;
  tail[1] = statistics_moved_ ? 1.0f : 0.0f;
  if (options_.reduction.fill) options_.reduction.fill({at, options_.reduction.extra});
}

// Leaves the mean of the ranks' moving statistics, or those from before an update that is off.
void CpuExecutable::read_tail() {
  const std::span<const float> tail = reduction_->tail();
  all_finite_ = finite_ = tail[0] == 0.0f;
  const float* at = finite_ ? tail.data() + kTailStart : statistics_before_.data();
  const float factor = finite_ ? 1 / tail[1] : 1;
  if (finite_ && tail[1] == 0.0f) return;
  for (const Statistic& statistic : statistics_) {
    std::transform(at, at + statistic.count, statistic.values,
                   [factor](float value) { return value * factor; });
    at += statistic.count;
  }
  statistics_moved_ = false;
}

std::span<const float> CpuExecutable::extra() const {
  if (options_.reduction.communicator == nullptr) return {};
  return std::span<const float>(reduction_->tail()).last(options_.reduction.extra);
}

Gradient CpuExecutable::gradient() {
  if (!reduction_ || options_.reduction.communicator != nullptr) {
    throw std::logic_error("gradient(): the last call must be of one rank, and not update");
  }
  Gradient gradient;
  gradient.values = {reduction_->values(), static_cast<std::size_t>(variables_.flat_count())};
  if (update_.needs_sum()) gradient.clip_scales = update_.clip_scales(reduction_->values());
  return gradient;
}

void CpuExecutable::run_pieces(int lane, const Call& call) {
  const Share& share = call.shares[static_cast<std::size_t>(lane)];
  const LaneState& state = states_[static_cast<std::size_t>(lane)];
  for (std::int64_t piece = 0; piece < share.pieces(); ++piece) {
    const bool last = piece + 1 == share.pieces();
    if (share.piece_count(piece) > 0) {
      run_piece(lane, call, piece);
    } else if (updates_) {
      std::memset(state.gradients.data(), 0, static_cast<std::size_t>(state.gradients.bytes()));
      for (std::size_t i = 0; last && call.overlap && i < reduction_->buckets().size(); ++i) {
        fold(lane, call, piece, reduction_->buckets()[i]);
        reduction_->arrive(i);
      }
    }
    if (updates_ && !(last && call.overlap)) {
      fold(lane, call, piece, {0, variables_.flat_count()});
    }
  }
}

// Adds a piece's gradient to those before it: one after the other, or, ordered, as a binary counter
// counts: 2^k pieces are added to the 2^k before them.
void CpuExecutable::fold(int lane, const Call& call, std::int64_t piece, Slice slice) {
  LaneState& state = states_[static_cast<std::size_t>(lane)];
  const std::int64_t pieces = call.shares[static_cast<std::size_t>(lane)].pieces();
  if (pieces < 2) return;
  float* gradients = state.gradients.as<float>() + slice.first;
  const float* sources[32] = {gradients};
  if (!options_.reduction.ordered) {
    machine_.kernels->sum(state.partial[0].as<float>() + slice.first, sources, 1, slice.count(),
                          piece > 0);
    return;
  }
  const int waiting = std::countr_one(static_cast<std::uint64_t>(piece));
  for (int k = 0; k < waiting; ++k) {
    sources[k + 1] = state.partial[static_cast<std::size_t>(k)].as<float>() + slice.first;
  }
  const bool last = piece + 1 == pieces;
  float* to =
      last ? gradients : state.partial[static_cast<std::size_t>(waiting)].as<float>() + slice.first;
  machine_.kernels->sum(to, sources, waiting + 1, slice.count(), false);
}

void CpuExecutable::run_piece(int lane, const Call& call, std::int64_t piece) {
  const Share& share = call.shares[static_cast<std::size_t>(lane)];
  const std::int64_t first = share.piece_first(piece), count = share.piece_count(piece);
  LaneState& state = states_[static_cast<std::size_t>(lane)];
  Lowered& lowered = *state.programs.at(program_samples(count));
  for (std::size_t i = 0; i < lowered.inputs.size(); ++i) {
    const Lowered::Port& port = lowered.inputs[i];
    if (port.buffer < 0) continue;
    const char* host = static_cast<const char*>(call.inputs[i]) + first * port.bytes_a_sample;
    host = input_of_piece(state, i, host, count, port.bytes_a_sample);
    lowered.pointers[static_cast<std::size_t>(port.buffer)] = const_cast<char*>(host);
  }
  RunContext context = context_of(lane, call, lowered);
  context.samples = lowered.samples;
  context.counted = count;
  context.first_sample += static_cast<std::uint64_t>(first);
  // The first samples of the call, empty pieces before them left aside.
  context.first = lane == call.first_active && first == share.bounds.front();
  run_steps(lane, call, piece, context, lowered);
  copy_outputs(call, first, context, lowered);
  if (call.overlap && piece + 1 == share.pieces()) arrive_last(lane, call, piece, lowered);
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
  context.samples = context.lanes = 1;
  for (std::size_t i = 0; i < lowered.update_begin; ++i) lowered.steps[i].run(context);
}

RunContext CpuExecutable::context_of(int lane, const Call& call, const Lowered& lowered) {
  RunContext context;
  context.pointers = lowered.pointers.data();
  context.first_sample = call.scalars.first_sample;
  context.scalars = &call.scalars;
  context.lane = lane;
  context.lanes = call.active;
  context.first = false;
  context.barrier = &active_barrier_;
  context.exchange = &exchange_;
  context.all_samples = call.samples;
  context.numbers = &numbers_;
  if (options_.reduction.statistics != nullptr) {
    context.statistics = options_.reduction.statistics;
    context.all_samples = call.scalars.all_samples;
  }
  return context;
}

void CpuExecutable::run_steps(int lane, const Call& call, std::int64_t piece,
                              const RunContext& context, const Lowered& lowered) {
  const bool last = piece + 1 == call.shares[static_cast<std::size_t>(lane)].pieces();
  std::size_t next = 0;
  for (std::size_t i = 0; i < lowered.update_begin; ++i) {
    lowered.steps[i].run(context);
    if (!call.overlap || !last) continue;
    // The last bucket goes with the outputs, which tell what its tail holds.
    for (; next + 1 < lowered.bucket_steps.size() &&
           lowered.bucket_steps[next].first == static_cast<int>(i);
         ++next) {
      const std::size_t bucket = lowered.bucket_steps[next].second;
      fold(lane, call, piece, reduction_->buckets()[bucket]);
      reduction_->arrive(bucket);
    }
  }
}

void CpuExecutable::arrive_last(int lane, const Call& call, std::int64_t piece,
                                const Lowered& lowered) {
  const std::size_t bucket = lowered.bucket_steps.back().second;
  fold(lane, call, piece, reduction_->buckets()[bucket]);
  reduction_->arrive(bucket);
}

void CpuExecutable::copy_outputs(const Call& call, std::int64_t first, const RunContext& context,
                                 const Lowered& lowered) {
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    const Lowered::Port& port = lowered.outputs[i];
    const std::int64_t bytes =
        port.bytes_a_sample > 0 ? context.counted * port.bytes_a_sample : port.bytes;
    if (static_cast<int>(i) == options_.guard) {
      if (!all_finite(context.at<float>(port.buffer), bytes / 4)) finite_ = false;
    }
    if (call.outputs[i] == nullptr || (port.bytes_a_sample == 0 && !context.first)) continue;
    char* host = reinterpret_cast<char*>(call.outputs[i]) + first * port.bytes_a_sample;
    std::memcpy(host, context.at<char>(port.buffer), static_cast<std::size_t>(bytes));
  }
}

// Moving averages, once a call: all lanes hold the same statistics of the whole batch.
void CpuExecutable::update_statistics(const Call& call) {
  if (!whole_batch_ || (call.active == 0 && !call.idle)) return;
  const Share& share = call.shares[0];
  const Lowered& lowered = *states_[0].programs.at(call.idle ? 1 : share.piece_count(0));
  RunContext context;
  context.pointers = lowered.pointers.data();
  for (std::size_t i = lowered.update_begin; i < lowered.steps.size(); ++i) {
    lowered.steps[i].run(context);
    statistics_moved_ = true;
  }
}

MemoryReport CpuExecutable::memory() const {
  MemoryReport report;
  report.variables = variables_.bytes();
  report.derived = variables_.derived().bytes();
  for (const LaneState& state : states_) {
    report.gradients += state.gradients.bytes();
    for (const Memory& sum : state.partial) report.gradients += sum.bytes();
  }
  report.gradients += accumulated_.bytes() + (reduction_ ? reduction_->bytes() : 0);
  report.activations = arenas_.bytes();
  return report;
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
