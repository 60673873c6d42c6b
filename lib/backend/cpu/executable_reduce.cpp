// What is left of a call after backward: gradients are summed over workers, calls and ranks, moving
// statistics follow, parameters are updated.
#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend/cpu/executable.h"

namespace trainer::backend::cpu {

std::vector<std::span<float>> CpuExecutable::moving_statistics(const graph::Graph& graph) const {
  std::vector<std::span<float>> statistics;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const graph::Value& value = graph[node.inputs[i]];
      statistics.emplace_back(variables_.at(value.name),
                              static_cast<std::size_t>(value.shape.elements()));
    }
  }
  return statistics;
}

bool CpuExecutable::reduces(const Scalars& scalars) const {
  return reduction_ && (scalars.apply || options_.reduction.ordered);
}

void CpuExecutable::finish_alone(int worker, const Call& call) {
  if (!finite_) return;
  if (worker == 0) update_statistics(call);
  const Scalars& scalars = call.scalars;
  const bool tree = options_.reduction.ordered && sources_.own.size() > 2;
  const bool sums = update_.needs_sum() || scalars.accumulate || !scalars.apply || tree;
  if (sums) {
    const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, worker);
    reduction_->sum(worker_slice(variables_.flat_count(), worker, workers_.count()), sources_,
                    scalars.accumulate);
  }
  if (!scalars.apply) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kUpdate, worker);
  update_.run(worker, workers_.count(), barrier_, sums ? summed_ : sources_, scalars);
}

void CpuExecutable::finish_with_ranks(int worker, const Call& call) {
  const int workers = workers_.count();
  const Scalars& scalars = call.scalars;
  const bool ordered = options_.reduction.ordered;
  const Slice mine = worker_slice(variables_.flat_count(), worker, workers);
  if (!call.overlap) {
    const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, worker);
    reduction_->sum(mine, sources_, scalars.accumulate && !ordered);
  }
  if (worker == 0 && !scalars.accumulate) trailer_.remember();
  if (!reduces(scalars)) {
    if (worker == 0) {
      all_finite_ = all_finite_ && finite_;
      if (finite_) update_statistics(call);
    }
    return;
  }
  if (worker == 0) write_trailer(call);
  if (!call.overlap) barrier_.wait(workers);
  if (worker == 0) {
    const std::int64_t all = static_cast<std::int64_t>(sizeof(float)) * variables_.flat_count();
    const RecordedWork work(recorder_, WorkRecord::Kind::kAllReduce, 0, call.overlap ? 0 : all);
    lap(PhaseClock::Phase::kBackward);
    if (call.overlap) {
      reduction_->trailer_written();
      reduction_->finish();
    } else {
      reduction_->reduce();
    }
    lap(PhaseClock::Phase::kAllReduce);
    read_trailer();
  }
  {
    // For worker 0, which sums.
    const RecordedWork work(worker == 0 ? nullptr : recorder_, WorkRecord::Kind::kAllReduce,
                            worker);
    barrier_.wait(workers);
  }
  if (!finite_) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kUpdate, worker);
  if (ordered && (scalars.accumulate || !scalars.apply)) {
    const float* source = reduction_->values() + mine.first;
    machine_.kernels->sum(accumulated_.as<float>() + mine.first, &source, 1, mine.count(),
                          scalars.accumulate);
  }
  if (scalars.apply) update_.run(worker, workers, barrier_, summed_, scalars);
}

void CpuExecutable::find_sources(const Call& call) {
  sources_.own.clear();
  sources_.blocks.clear();
  sources_.workers = 0;
  for (std::size_t worker = 0; worker < states_.size(); ++worker) {
    if (call.shares[worker].micro_batches() == 0) continue;
    ++sources_.workers;
    if (options_.reduction.ordered) {
      add_roots(worker, call);
    } else {
      sources_.own.push_back(source(worker, call));
    }
  }
  sources_.joint_count = joint_.gradient_count();
  sources_.joint = sources_.own.empty() ? nullptr : joint_.gradient();
}

// Adds the roots of a worker's micro-batches, where fold() leaves them, to the sources.
void CpuExecutable::add_roots(std::size_t worker, const Call& call) {
  const WorkerShare& share = call.shares[worker];
  const WorkerState& state = states_[worker];
  std::int64_t leaf = share.first_leaf;
  const std::int64_t end = leaf + share.micro_batches();
  for (std::size_t root = 0; leaf < end; ++root) {
    const TreeBlock block = largest_block(leaf, end);
    leaf += block.count;
    sources_.blocks.push_back(block);
    sources_.own.push_back((leaf < end ? state.partial[root] : state.gradients).as<float>());
  }
}

float* CpuExecutable::source(std::size_t worker, const Call& call) const {
  const bool in_partial = call.shares[worker].micro_batches() > 1;
  const WorkerState& state = states_[worker];
  return (in_partial ? state.partial[0] : state.gradients).as<float>();
}

// Returns the buffer of sources_.own.front(), which the sum over the ranks overwrites.
float* CpuExecutable::first_source(const Call& call) const {
  if (!options_.reduction.ordered) return source(0, call);
  const bool alone = sources_.blocks.front().count == call.shares[0].micro_batches();
  return (alone ? states_[0].gradients : states_[0].partial[0]).as<float>();
}

void CpuExecutable::write_trailer(const Call& call) {
  all_finite_ = all_finite_ && finite_;
  if (all_finite_) update_statistics(call);
  trailer_.write(reduction_->trailer(), all_finite_);
  if (options_.reduction.ordered) reduction_->clear_other_trailers();
}

void CpuExecutable::read_trailer() { all_finite_ = finite_ = trailer_.read(reduction_->trailer()); }

Gradient CpuExecutable::gradient(Stream&) {
  if (!reduction_ || ranks_ != nullptr) {
    throw std::logic_error("gradient(): the last call must be of one rank, and not update");
  }
  Gradient gradient;
  gradient.values = {reduction_->values(), static_cast<std::size_t>(variables_.flat_count())};
  if (update_.clips_by_norm()) gradient.clip_scales = update_.clip_scales(reduction_->values());
  return gradient;
}

// Moving averages, once a call: all workers hold the same statistics of the whole batch.
void CpuExecutable::update_statistics(const Call& call) {
  if (!whole_batch_ || (call.active == 0 && !call.idle)) return;
  const WorkerShare& share = call.shares[0];
  const Lowered& lowered = *states_[0].programs.at(call.idle ? 1 : share.micro_batch_count(0));
  StepContext context;
  context.pointers = lowered.pointers.data();
  for (std::size_t i = lowered.update_begin; i < lowered.steps.size(); ++i) {
    lowered.steps[i].run(context);
    trailer_.statistics_moved();
  }
}

}  // namespace trainer::backend::cpu
