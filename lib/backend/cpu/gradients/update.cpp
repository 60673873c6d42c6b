#include "backend/cpu/gradients/update.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/gradients/reduction.h"

namespace trainer::backend::cpu {
namespace {

using graph::Clip;

// Sums of squares are taken over chunks of this size whatever the number of lanes.
constexpr std::int64_t kUpdateChunk = 16384;

bool is_lamb(const Segment& segment) {
  return std::holds_alternative<graph::LambRule>(segment.update.rule);
}

// Returns the run of elements [first, last) of a segment, without gradients.
simd::UpdateRun make_run(const UpdateBuffers& buffers, const Segment& segment, std::int64_t first,
                         std::int64_t last, const UpdateScales& scales, const Scalars& scalars) {
  const graph::Update& op = segment.update;
  simd::UpdateRun run;
  run.count = last - first;
  run.w = buffers.parameters + first;
  for (int slot = 0; slot < segment.slots; ++slot) run.slot[slot] = buffers.slot[slot] + first;
  run.average = segment.average ? buffers.average + first : nullptr;
  run.l2 = op.l2;
  run.l1 = op.l1;
  run.clip_value = op.clip.kind == Clip::Kind::kValue ? op.clip.limit : 0;
  run.clip_scale = scales.clip;
  run.trust = scales.trust;
  run.learning_rate = scalars.learning_rate * op.learning_rate_multiplier;
  run.weight_decay = op.weight_decay;
  return run;
}

// Returns the number of this update of the parameter, from 1.
std::uint64_t own_update(const Segment& segment, const Scalars& scalars) {
  return scalars.update - segment.update.updates_before;
}

}  // namespace

UpdatePhase::UpdatePhase(CpuVariables& variables, const simd::Kernels& kernels, int lanes)
    : variables_(variables), kernels_(kernels) {
  findings_.resize(lanes);
  const std::vector<Segment>& segments = variables.segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Clip::Kind kind = segments[i].update.clip.kind;
    needs_norm_ = needs_norm_ || kind == Clip::Kind::kNorm || kind == Clip::Kind::kGlobalNorm;
    needs_trust_ = needs_trust_ || is_lamb(segments[i]);
    for (std::int64_t first = 0; first < segments[i].count; first += kUpdateChunk) {
      chunks_.push_back({i, first, std::min(segments[i].count, first + kUpdateChunk)});
    }
  }
  const Flat flat = variables.flat();
  buffers_.parameters = variables.parameters();
  for (int slot = 0; slot < flat.slots; ++slot) buffers_.slot[slot] = variables.slot(slot);
  if (flat.average) buffers_.average = variables.average();
  squares_.resize(chunks_.size());
  sums_.resize(segments.size());
  scales_.assign(segments.size(), 1.0f);
  if (needs_trust_) trust_.assign(segments.size(), 1.0f);
  lamb_squares_.resize(needs_trust_ ? chunks_.size() : 0);
}

void UpdatePhase::run(int lane, int lanes, Barrier& barrier, const GradientSources& gradients,
                      const Scalars& scalars) {
  const Slice slice = lane_slice(variables_.flat_count(), lane, lanes);
  if (needs_norm_) {
    barrier.wait(lanes);
    clip_scales(lane, lanes, barrier, gradients.own.front());
  }
  if (needs_trust_) {
    barrier.wait(lanes);
    trust_ratios(lane, lanes, barrier, gradients.own.front(), scalars);
  }
  simd::UpdateFindings findings;
  for (std::size_t i = 0; i < variables_.segments().size(); ++i) {
    const Segment& segment = variables_.segments()[i];
    const std::int64_t first = std::max(slice.first, segment.offset);
    const std::int64_t last = std::min(slice.last, segment.offset + segment.count);
    if (first >= last) continue;
    gradients.for_each_part({first, last}, [&](Slice part, Summands summands) {
      update_elements(kernels_, buffers_, segment, part.first, part.last,
                      {scales_[i], needs_trust_ ? trust_[i] : 1.0f}, summands, scalars, &findings);
    });
  }
  findings_[lane] = findings;
}

double UpdatePhase::gradient_norm() const {
  double sum = 0;
  for (const simd::UpdateFindings& lane : findings_) sum += lane.gradient_square;
  return std::sqrt(sum);
}

bool UpdatePhase::finite() const {
  const auto is_finite = [](const simd::UpdateFindings& lane) { return lane.finite; };
  return std::isfinite(gradient_norm()) && std::ranges::all_of(findings_, is_finite);
}

std::span<const float> UpdatePhase::clip_scales(const float* gradients) {
  Barrier alone(Barrier::Waiting::kSpin);
  clip_scales(0, 1, alone, gradients);
  return scales_;
}

void UpdatePhase::clip_scales(int lane, int lanes, Barrier& barrier, const float* gradients) {
  const std::vector<Segment>& segments = variables_.segments();
  for_each_of_lane(chunks_.size(), lane, lanes, [&](std::size_t p) {
    const Segment& segment = segments[chunks_[p].segment];
    const std::int64_t at = segment.offset + chunks_[p].first;
    squares_[p] =
        kernels_.gradient_square(gradients + at, variables_.parameters() + at, segment.update.l2,
                                 segment.update.l1, chunks_[p].last - chunks_[p].first);
  });
  barrier.wait(lanes);
  if (lane == 0) {
    std::ranges::fill(sums_, 0.0);
    double all = 0;
    for (std::size_t p = 0; p < chunks_.size(); ++p) sums_[chunks_[p].segment] += squares_[p];
    for (const double sum : sums_) all += sum;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const Clip& clip = segments[i].update.clip;
      const double norm = std::sqrt(clip.kind == Clip::Kind::kGlobalNorm ? all : sums_[i]);
      const double limit = static_cast<double>(clip.limit);
      scales_[i] = static_cast<float>(norm > limit ? limit / norm : 1.0);
    }
  }
  barrier.wait(lanes);
}

void UpdatePhase::trust_ratios(int lane, int lanes, Barrier& barrier, const float* gradients,
                               const Scalars& scalars) {
  const std::vector<Segment>& segments = variables_.segments();
  for_each_of_lane(chunks_.size(), lane, lanes, [&](std::size_t p) {
    const Segment& segment = segments[chunks_[p].segment];
    const auto* rule = std::get_if<graph::LambRule>(&segment.update.rule);
    if (rule == nullptr) return;
    const std::int64_t first = segment.offset + chunks_[p].first;
    const float* source = gradients + first;
    simd::UpdateRun run = make_run(buffers_, segment, first, segment.offset + chunks_[p].last,
                                   {scales_[chunks_[p].segment]}, scalars);
    run.gradients = &source;
    run.gradient_count = 1;
    lamb_squares_[p] = simd::find_kernels<simd::UpdateKernels>(kernels_).lamb_squares(
        run, simd::lamb_factors(*rule, own_update(segment, scalars)));
  });
  barrier.wait(lanes);
  if (lane == 0) {
    std::vector<simd::LambSquares>& sums = lamb_sums_;
    sums.assign(segments.size(), {});
    for (std::size_t p = 0; p < chunks_.size(); ++p) {
      sums[chunks_[p].segment].parameter += lamb_squares_[p].parameter;
      sums[chunks_[p].segment].step += lamb_squares_[p].step;
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const auto [parameter, step] = sums[i];
      trust_[i] =
          parameter > 0 && step > 0 ? static_cast<float>(std::sqrt(parameter / step)) : 1.0f;
    }
  }
  barrier.wait(lanes);
}

void update_elements(const simd::Kernels& kernels, const UpdateBuffers& buffers,
                     const Segment& segment, std::int64_t first, std::int64_t last,
                     const UpdateScales& scales, Summands gradients, const Scalars& scalars,
                     simd::UpdateFindings* findings) {
  const graph::Update& op = segment.update;
  simd::UpdateRun run = make_run(buffers, segment, first, last, scales, scalars);
  run.gradient_count = static_cast<int>(gradients.size());
  run.gradients = gradients.data();
  run.findings = findings;
  const std::uint64_t update = own_update(segment, scalars);
  run.ema = graph::average_momentum(op, update);
  const auto& update_kernels = simd::find_kernels<simd::UpdateKernels>(kernels);
  std::visit([&](const auto& rule) { simd::apply(rule, update_kernels, run, update); }, op.rule);
}

}  // namespace trainer::backend::cpu
