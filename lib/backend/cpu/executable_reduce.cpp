// The part of a call after backward: gradients are summed over lanes, calls and ranks, moving
// statistics are updated, parameters are updated.
#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend/cpu/executable.h"

namespace trainer::backend::cpu {

std::vector<std::span<float>> CpuExecutable::moving_statistics() const {
  std::vector<std::span<float>> statistics;
  for (const graph::Node& node : graph_.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const graph::Value& value = graph_[node.inputs[i]];
      statistics.emplace_back(variables_.at(value.name),
                              static_cast<std::size_t>(value.shape.elements()));
    }
  }
  return statistics;
}

bool CpuExecutable::reduces(const Scalars& scalars) const {
  return reduction_ && (scalars.apply || options_.reduction.ordered);
}

void CpuExecutable::finish_alone(int lane, const Call& call) {
  if (!finite_) return;
  if (lane == 0) update_statistics(call);
  const Scalars& scalars = call.scalars;
  if (is_summed_) {
    const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, lane);
    reduction_->sum(lane_slice(variables_.flat_count(), lane, lanes_.count()), sources_,
                    scalars.accumulate);
  }
  if (!scalars.apply) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kUpdate, lane);
  update_.run(lane, lanes_.count(), barrier_, is_summed_ ? summed_ : sources_, scalars);
}

void CpuExecutable::finish_with_ranks(int lane, const Call& call) {
  const int lanes = lanes_.count();
  const Scalars& scalars = call.scalars;
  const bool ordered = options_.reduction.ordered;
  const Slice slice = lane_slice(variables_.flat_count(), lane, lanes);
  if (!call.overlap) {
    const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, lane);
    reduction_->sum(slice, sources_, scalars.accumulate && !ordered);
  }
  if (lane == 0 && !scalars.accumulate) trailer_.remember();
  if (!reduces(scalars)) {
    if (lane == 0) {
      all_finite_ = all_finite_ && finite_;
      if (finite_) update_statistics(call);
    }
    return;
  }
  if (lane == 0) write_trailer(call);
  if (!call.overlap) barrier_.wait(lanes);
  if (lane == 0) {
    const std::int64_t all = kFloatBytes * variables_.flat_count();
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
    // The other lanes wait for lane 0, which sums.
    const RecordedWork work(lane == 0 ? nullptr : recorder_, WorkRecord::Kind::kAllReduce, lane);
    barrier_.wait(lanes);
  }
  if (!finite_) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kUpdate, lane);
  if (ordered && (scalars.accumulate || !scalars.apply)) {
    const float* source = reduction_->values() + slice.first;
    machine_.kernels->sum(accumulated_.as<float>() + slice.first, &source, 1, slice.count(),
                          scalars.accumulate);
  }
  if (scalars.apply) update_.run(lane, lanes, barrier_, summed_, scalars);
}

void CpuExecutable::find_sources(const Call& call) {
  sources_.own.clear();
  sources_.blocks.clear();
  sources_.lanes = 0;
  for (std::size_t lane = 0; lane < states_.size(); ++lane) {
    if (call.shares[lane].micro_batches() == 0) continue;
    ++sources_.lanes;
    if (options_.reduction.ordered) {
      add_roots(lane, call);
    } else {
      sources_.own.push_back(source(lane, call));
    }
  }
  sources_.joint_count = joint_.gradient_count();
  sources_.joint = sources_.own.empty() ? nullptr : joint_.gradient();
}

// Adds the roots of a lane's micro-batches, where accumulate_gradient() leaves them, to the
// sources.
void CpuExecutable::add_roots(std::size_t lane, const Call& call) {
  const LaneShare& share = call.shares[lane];
  const LaneState& state = states_[lane];
  std::int64_t leaf = share.first_leaf;
  const std::int64_t end = leaf + share.micro_batches();
  for (std::size_t root = 0; leaf < end; ++root) {
    const TreeBlock block = largest_block(leaf, end);
    leaf += block.count;
    sources_.blocks.push_back(block);
    sources_.own.push_back((leaf < end ? state.partial[root] : state.gradients).as<float>());
  }
}

float* CpuExecutable::source(std::size_t lane, const Call& call) const {
  const bool in_partial = call.shares[lane].micro_batches() > 1;
  const LaneState& state = states_[lane];
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

void CpuExecutable::read_gradient(Stream&, std::int64_t first, std::span<float> to) {
  std::ranges::fill(to, 0.0f);
  const GradientSources& gradient = is_summed_ ? summed_ : sources_;
  gradient.for_each_part({first, first + std::ssize(to)}, [&](Slice part, Summands summands) {
    const std::span<float> sum = to.subspan(part.first - first, part.count());
    for (const float* summand : summands) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += summand[i];
    }
  });
}

// Updates the moving statistics once per call: all lanes hold the same statistics of the batch.
void CpuExecutable::update_statistics(const Call& call) {
  if (!whole_batch_ || (call.active == 0 && !call.idle)) return;
  const LaneShare& share = call.shares[0];
  const Lowered& lowered = *states_[0].programs.at(call.idle ? 1 : share.micro_batch_count(0));
  CallContext context;
  context.pointers = lowered.pointers.data();
  for (std::size_t i = lowered.update_begin; i < lowered.instructions.size(); ++i) {
    lowered.instructions[i].run(context);
    trailer_.statistics_moved();
  }
}

}  // namespace trainer::backend::cpu
