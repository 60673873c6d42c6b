#include "backend/cpu/executable.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"

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
      micro_batch_(needs_whole_batch(graph) ? options.max_samples : kMicroBatch),
      states_(static_cast<std::size_t>(lanes.count())),
      update_(variables, *machine.kernels),
      updates_(has_updates(graph)),
      exchange_(static_cast<std::size_t>(lanes.count())) {
  if (updates_) {
    for (LaneState& state : states_) {
      state.gradients = Memory(variables.flat_count() * static_cast<std::int64_t>(sizeof(float)));
    }
  }
  // The usual size now, other sizes (the last batch of an epoch) when they come.
  const std::vector<Share> shares = split(options.max_samples);
  if (options.same_for_any_batch) fix_samples(shares[0].piece_count(shares[0].pieces - 1));
  for (int lane = 0; lane < lanes.count(); ++lane) {
    const Share& share = shares[static_cast<std::size_t>(lane)];
    for (std::int64_t i = 0; i < share.pieces; ++i) program(lane, share.piece_count(i));
  }
}

std::vector<CpuExecutable::Share> CpuExecutable::split(std::int64_t samples) const {
  std::vector<Share> shares(states_.size());
  const auto lanes = static_cast<std::int64_t>(states_.size());
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    Share& share = shares[static_cast<std::size_t>(lane)];
    // Earlier lanes take what does not divide, so that the lanes with work are the first ones.
    share.count = samples / lanes + (lane < samples % lanes ? 1 : 0);
    share.first = samples / lanes * lane + std::min(lane, samples % lanes);
    share.pieces = (share.count + micro_batch_ - 1) / micro_batch_;
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
  }
  return *lowered;
}

void CpuExecutable::find_stale(const std::vector<Share>& shares) {
  std::set<DerivedStore::Entry*> seen;
  for (auto& level : stale_) level.clear();
  for (std::size_t lane = 0; lane < shares.size(); ++lane) {
    for (std::int64_t i = 0; i < shares[lane].pieces; ++i) {
      const std::int64_t count = shares[lane].piece_count(i);
      if (i > 0 && count == shares[lane].piece_count(i - 1)) continue;
      for (DerivedStore::Entry* entry : program(static_cast<int>(lane), count).derived) {
        if (entry->version == variables_.version_of(*entry) || !seen.insert(entry).second) continue;
        stale_[entry->level].push_back(entry);
      }
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

void CpuExecutable::run(std::int64_t samples, std::span<const void* const> inputs,
                        std::span<float* const> outputs, const Scalars& scalars) {
  if (samples > options_.max_samples) {
    throw std::logic_error(
        concat("compiled for ", options_.max_samples, " samples, called with ", samples));
  }
  const std::vector<Share> shares = split(samples);
  const int active = static_cast<int>(
      std::count_if(shares.begin(), shares.end(), [](const Share& s) { return s.count > 0; }));
  find_stale(shares);
  const Call call{samples, inputs, outputs, scalars};
  finite_ = true;
  lanes_.run([&](int lane) { run_lane(lane, call, shares, active); });
  if (updates_ && finite_) variables_.changed_by_step();
}

void CpuExecutable::run_lane(int lane, const Call& call, const std::vector<Share>& shares,
                             int active) {
  const int lanes = lanes_.count();
  make_derived(lane, lanes);
  const Share& share = shares[static_cast<std::size_t>(lane)];
  LaneState& state = states_[static_cast<std::size_t>(lane)];
  for (std::int64_t piece = 0; piece < share.pieces; ++piece) {
    run_piece(lane, call, share, piece, active);
    if (updates_ && share.pieces > 1) {
      if (state.sum.bytes() == 0) state.sum = Memory(state.gradients.bytes());
      const float* source = state.gradients.as<float>();
      machine_.kernels->sum(state.sum.as<float>(), &source, 1, variables_.flat_count(), piece > 0);
    }
  }
  if (!updates_) return;
  barrier_.wait(lanes);
  if (!finite_) return;
  if (lane == 0) update_statistics(share);
  std::vector<const float*> gradients;
  for (int i = 0; i < active; ++i) {
    const LaneState& other = states_[static_cast<std::size_t>(i)];
    const bool several = shares[static_cast<std::size_t>(i)].pieces > 1;
    gradients.push_back((several ? other.sum : other.gradients).as<float>());
  }
  update_.run(lane, lanes, barrier_, gradients, call.scalars);
}

void CpuExecutable::run_piece(int lane, const Call& call, const Share& share, std::int64_t piece,
                              int active) {
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
  RunContext context;
  context.pointers = lowered.pointers.data();
  context.samples = lowered.samples;
  context.first_sample = call.scalars.first_sample + static_cast<std::uint64_t>(first);
  context.scalars = &call.scalars;
  context.lane = lane;
  context.lanes = active;
  context.first = lane == 0 && piece == 0;
  context.barrier = &active_barrier_;
  context.exchange = &exchange_;
  context.all_samples = call.samples;
  for (std::size_t i = 0; i < lowered.update_begin; ++i) lowered.steps[i].run(context);
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    const Lowered::Port& port = lowered.outputs[i];
    if (static_cast<int>(i) == options_.guard) {
      const std::int64_t bytes = port.bytes_a_sample > 0 ? count * port.bytes_a_sample : port.bytes;
      if (!all_finite(context.at<float>(port.buffer), bytes / 4)) finite_ = false;
    }
    if (call.outputs[i] == nullptr || (port.bytes_a_sample == 0 && !context.first)) continue;
    char* host = reinterpret_cast<char*>(call.outputs[i]) + first * port.bytes_a_sample;
    const std::int64_t bytes = port.bytes_a_sample > 0 ? count * port.bytes_a_sample : port.bytes;
    std::memcpy(host, context.at<char>(port.buffer), static_cast<std::size_t>(bytes));
  }
}

// Moving averages, once a call: all lanes hold the same statistics of the whole batch.
void CpuExecutable::update_statistics(const Share& share) {
  const Lowered& lowered = *states_[0].programs.at(share.piece_count(0));
  RunContext context;
  context.pointers = lowered.pointers.data();
  for (std::size_t i = lowered.update_begin; i < lowered.steps.size(); ++i) {
    lowered.steps[i].run(context);
  }
}

MemoryReport CpuExecutable::memory() const {
  MemoryReport report;
  report.variables = variables_.bytes();
  report.derived = variables_.derived().bytes();
  for (const LaneState& state : states_)
    report.gradients += state.gradients.bytes() + state.sum.bytes();
  report.gradients += update_.bytes();
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
