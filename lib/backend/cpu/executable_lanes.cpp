// The part of a call that each lane runs by itself: its micro-batches through forward and backward.
#include <algorithm>
#include <cstring>

#include "backend/cpu/executable.h"
#include "base/error.h"
#include "base/numbers/finite.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cpu {
namespace {

// Returns the phase of the last instructions of a program.
PhaseClock::Phase last_phase(const Lowered& lowered) {
  return lowered.backward_begin < lowered.update_begin ? PhaseClock::Phase::kBackward
                                                       : PhaseClock::Phase::kForward;
}

}  // namespace

void CpuExecutable::run_lane(int lane, const Call& call) {
  rebuild_packed_weights(lane, lanes_.count());
  run_micro_batches(lane, call);
  if (call.idle && lane == 0) run_idle(call);
  if (!updates_) return;
  {
    const RecordedWork work(recorder_, WorkRecord::Kind::kWaitForThreads, lane);
    barrier_.wait(lanes_.count());
  }
  if (lane == 0) lap(PhaseClock::Phase::kBackward);
  if (ranks_ == nullptr) {
    finish_alone(lane, call);
  } else {
    finish_with_ranks(lane, call);
  }
}

void CpuExecutable::run_micro_batches(int lane, const Call& call) {
  const LaneShare& share = call.share(lane);
  const LaneState& state = states_[lane];
  for (std::int64_t batch = 0; batch < share.micro_batches(); ++batch) {
    const bool last = batch + 1 == share.micro_batches();
    if (share.micro_batch_count(batch) > 0) {
      run_micro_batch(lane, call, batch);
    } else if (updates_) {
      std::fill_n(state.gradients.data(), state.gradients.bytes(), char{0});
      for (std::size_t i = 0; last && call.overlap && i < reduction_->buckets().size(); ++i) {
        arrive(lane, call, batch, i);
      }
    }
    if (updates_ && !(last && call.overlap)) {
      accumulate_gradient(lane, call, batch, {0, variables_.flat_count()});
    }
  }
}

// Adds the gradient of a micro-batch to the gradients of the micro-batches before it: to their sum
// or, ordered, to the roots of the tree that the micro-batch completes. The roots of the
// micro-batches before it lie in `partial`, in order. The root that the last micro-batch completes
// lies where its gradient is.
void CpuExecutable::accumulate_gradient(int lane, const Call& call, std::int64_t batch,
                                        Slice slice) {
  LaneState& state = states_[lane];
  const std::int64_t batches = call.share(lane).micro_batches();
  if (batches < 2) return;
  const RecordedWork work(recorder_, WorkRecord::Kind::kSumGradients, lane);
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
  const std::int64_t first_leaf = call.share(lane).first_leaf;
  const std::size_t roots = root_count(first_leaf, first_leaf + batch);
  const int completed = completed_roots(first_leaf, first_leaf + batch);
  for (int k = 0; k < completed; ++k) {
    sources[k + 1] = state.partial[roots - 1 - static_cast<std::size_t>(k)].as<float>() + first;
  }
  const std::size_t root = roots - static_cast<std::size_t>(completed);
  const bool last = batch + 1 == batches;
  if (last && completed == 0) return;
  float* to = last ? gradients : state.partial[root].as<float>() + first;
  machine_.kernels->sum(to, sources, completed + 1, slice.count(), false);
}

void CpuExecutable::run_micro_batch(int lane, const Call& call, std::int64_t batch) {
  const LaneShare& share = call.share(lane);
  const std::int64_t first = share.micro_batch_first(batch), count = share.micro_batch_count(batch);
  LaneState& state = states_[lane];
  Lowered& lowered = *state.programs.at(count);
  for (std::size_t i = 0; i < lowered.inputs.size(); ++i) {
    const Port& port = lowered.inputs[i];
    if (port.buffer < 0) continue;
    lowered.pointers[port.buffer] = call.bindings.inputs[i].address + first * port.bytes_per_sample;
  }
  CallContext context = make_context(lane, call, lowered);
  context.samples = lowered.samples;
  context.counted = count;
  context.first_sample += static_cast<std::uint64_t>(first);
  // True for the first samples of the call, also if empty micro-batches come before them.
  context.first = lane == call.first_active && first == share.bounds.front();
  if (!joint_.empty()) context.joint_batch = make_joint_batch(lane, call, batch);
  run_instructions(lane, call, batch, context, lowered);
  copy_outputs(call, first, context, lowered);
  if (lane == 0) lap(last_phase(lowered));
  if (call.overlap && batch + 1 == share.micro_batches()) {
    arrive(lane, call, batch, lowered.bucket_ends.back().second);
  }
}

JointBatch CpuExecutable::make_joint_batch(int lane, const Call& call, std::int64_t batch) const {
  JointBatch joint_batch;
  joint_batch.add = batch > 0;
  for (int other = 0; other < call.active; ++other) {
    const std::int64_t samples = call.share(other).micro_batch_count(batch);
    if (other < lane) joint_batch.first += samples;
    joint_batch.samples += samples;
  }
  return joint_batch;
}

// Runs a sample of zeros that does not count, because the other ranks wait for this rank's share of
// the batch statistics.
void CpuExecutable::run_idle(const Call& call) {
  Lowered& lowered = *states_[0].programs.at(1);
  for (const Port& port : lowered.inputs) {
    const std::size_t bytes = port.bytes;
    if (idle_input_.size() < bytes) idle_input_.resize(bytes);
  }
  for (const Port& port : lowered.inputs) {
    if (port.buffer < 0) continue;
    lowered.pointers[port.buffer] = idle_input_.data();
  }
  CallContext context = make_context(0, call, lowered);
  context.samples = context.lanes = 1;
  context.joint_batch = {0, 1, false};
  for (std::size_t i = 0; i < lowered.update_begin; ++i) lowered.instructions[i].run(context);
}

CallContext CpuExecutable::make_context(int lane, const Call& call, const Lowered& lowered) {
  CallContext context;
  context.pointers = lowered.pointers.data();
  context.first_sample = call.scalars.first_sample;
  context.scalars = &call.scalars;
  context.lane = lane;
  context.lanes = call.active;
  context.threads = lanes_.threads_per_lane();
  context.first = false;
  context.barrier = &active_barrier_;
  context.exchange = &exchange_;
  context.all_samples = call.samples;
  context.numbers = &numbers_;
  if (lane == 0) context.clock = step_clock();
  if (statistics_ranks_ != nullptr) {
    context.statistics = statistics_ranks_;
    context.all_samples = call.scalars.all_samples;
  }
  return context;
}

void CpuExecutable::run_instructions(int lane, const Call& call, std::int64_t batch,
                                     const CallContext& context, const Lowered& lowered) {
  const bool last = batch + 1 == call.share(lane).micro_batches();
  std::size_t next = 0;
  for (std::size_t i = 0; i < lowered.update_begin; ++i) {
    if (lane == 0 && i == lowered.backward_begin) lap(PhaseClock::Phase::kForward);
    {
      RecordedWork work(recorder_, WorkRecord::Kind::kLayer, lane);
      const Instruction& instruction = lowered.instructions[i];
      instruction.run(context);
      work.set_layer(instruction.name, instruction.implementation, instruction.phase);
    }
    // The other lanes run the same layers; they would wait for the memory of the counter.
    if (lane == call.first_active) machine_.progress.advance();
    if (!call.overlap || !last) continue;
    // The last bucket follows the outputs, because its trailer depends on them.
    for (; next + 1 < lowered.bucket_ends.size() &&
           lowered.bucket_ends[next].first == static_cast<int>(i);
         ++next) {
      arrive(lane, call, batch, lowered.bucket_ends[next].second);
    }
  }
}

// Adds up what the lane has of a bucket, which the ranks may then reduce.
void CpuExecutable::arrive(int lane, const Call& call, std::int64_t batch, std::size_t bucket) {
  accumulate_gradient(lane, call, batch, reduction_->buckets()[bucket]);
  reduction_->arrive(bucket);
}

void CpuExecutable::copy_outputs(const Call& call, std::int64_t first, const CallContext& context,
                                 const Lowered& lowered) {
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    const Port& port = lowered.outputs[i];
    const std::int64_t bytes =
        port.bytes_per_sample > 0 ? context.counted * port.bytes_per_sample : port.bytes;
    if (static_cast<int>(i) == options_.result_outputs.loss) {
      const std::span values(context.at<float>(port.buffer), bytes / 4);
      if (!all_finite(values)) finite_ = false;
    }
    const Span& output = call.bindings.outputs[i];
    if (!output || (port.bytes_per_sample == 0 && !context.first)) continue;
    std::memcpy(output.address + first * port.bytes_per_sample, context.at<char>(port.buffer),
                bytes);
  }
}

}  // namespace trainer::backend::cpu
