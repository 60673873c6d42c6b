#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/update.h"

namespace trainer::backend::cuda {
namespace {

using Rule = UpdateSegment::Rule;
using Clip = UpdateSegment::Clip;

constexpr float kMostLossScale = 16777216.0f;
constexpr std::uint32_t kUpdatesUntilDoubled = 2000;
constexpr unsigned kClipThreads = 1024;

__global__ void clear_overflow_kernel(StepState* state) { state->overflowed = 0; }

// Blocks that find one all store the same 1.
template <int N>
__global__ void __launch_bounds__(kThreads)
    check_gradients_kernel(const float* gradients, std::int64_t count, StepState* state) {
  const std::int64_t i = first_element<N>();
  std::int32_t not_finite = 0;
  if (i < count) {
    float g[N];
    load<N>(gradients + i, count - i, g);
    for (int k = 0; k < N; ++k) not_finite += isfinite(g[k]) ? 0 : 1;
  }
  not_finite = over_block(not_finite, 0, shared_memory<std::int32_t>(), Sum());
  if (not_finite > 0 && threadIdx.x == 0) state->overflowed = 1;
}

__device__ inline void change_loss_scale(StepState& state) {
  if (state.overflowed != 0) {
    state.loss_scale = fmaxf(state.loss_scale * 0.5f, 1.0f);
    state.good_updates = 0;
  } else if (++state.good_updates >= kUpdatesUntilDoubled) {
    state.loss_scale = fminf(state.loss_scale * 2.0f, kMostLossScale);
    state.good_updates = 0;
  }
}

// One thread.
__global__ void decide_update_kernel(const float* trailer, bool dynamic_loss_scale,
                                     const StepScalars* scalars, StepState* state,
                                     StepNumbers* numbers) {
  StepState now = *state;
  const bool all_finite = trailer != nullptr ? trailer[0] == 0.0f : now.all_finite != 0;
  const bool apply = scalars->apply != 0;
  // A call that does not update answers for itself alone.
  const bool finite =
      (apply || trailer != nullptr ? all_finite : now.finite != 0) && now.stopped == 0;
  now.finite = finite ? 1 : 0;
  now.all_finite = now.all_finite != 0 && finite ? 1 : 0;
  const bool overflowed = now.overflowed != 0;
  now.updates_now = apply && finite && !overflowed ? 1 : 0;
  if (scalars->stop_when_not_finite != 0 && !finite) now.stopped = 1;
  numbers->finite = finite;
  numbers->skipped = apply && finite && overflowed;
  numbers->gradient_norm = nan("");
  now.gradients_scale = now.loss_scale;
  if (dynamic_loss_scale && apply && finite) change_loss_scale(now);
  *state = now;
}

// One thread.
__global__ void settle_finite_kernel(const StepNumbers* numbers, const StepScalars* scalars,
                                     StepState* state) {
  const bool finite = numbers->finite && state->stopped == 0;
  const bool before = scalars->accumulate == 0 || state->all_finite != 0;
  state->finite = finite ? 1 : 0;
  state->all_finite = finite && before ? 1 : 0;
}

__global__ void __launch_bounds__(kThreads)
    gradient_squares_kernel(const UpdateSegment* segments, const UpdateChunk* chunks,
                            UpdateBuffers buffers, const StepState* state, double* squares) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float l2 = segments[chunk.segment].l2, unscale = 1.0f / state->gradients_scale;
  double sum = 0;
  for (std::int64_t i = chunk.first + threadIdx.x; i < chunk.last; i += blockDim.x) {
    const float v = buffers.gradients[i] * unscale + 2 * l2 * buffers.parameters[i];
    sum += static_cast<double>(v) * static_cast<double>(v);
  }
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// The first chunk of a segment or of one after it; chunks are in the order of the segments.
__device__ inline std::int64_t first_chunk_of(const UpdateChunk* chunks, std::int64_t count,
                                              std::int64_t segment) {
  std::int64_t first = 0, last = count;
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    if (chunks[middle].segment < segment) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

__device__ inline float clip_scale(double squares, float limit) {
  const double norm = sqrt(squares), most = static_cast<double>(limit);
  return static_cast<float>(norm > most ? most / norm : 1.0);
}

// One block. A warp takes every 32nd segment; its lanes add up the squares of the chunks.
__global__ void __launch_bounds__(kClipThreads)
    clip_scales_kernel(const UpdateSegment* segments, std::int64_t segment_count,
                       const UpdateChunk* chunks, std::int64_t chunk_count, const double* squares,
                       float* scales) {
  double* shared = shared_memory<double>();
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  double all = 0;  // of this warp's segments
  for (std::int64_t s = warp; s < segment_count; s += blockDim.x / kWarp) {
    const std::int64_t last = first_chunk_of(chunks, chunk_count, s + 1);
    double sum = 0;
    for (std::int64_t i = first_chunk_of(chunks, chunk_count, s) + lane; i < last; i += kWarp) {
      sum += squares[i];
    }
    for (int d = kWarp / 2; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    all += sum;
    if (lane == 0) scales[s] = clip_scale(sum, segments[s].clip_limit);
  }
  all = over_block(lane == 0 ? all : 0.0, 0.0, shared, Sum());
  for (std::int64_t s = threadIdx.x; s < segment_count; s += blockDim.x) {
    if (segments[s].clip == Clip::kGlobalNorm) {
      scales[s] = clip_scale(all, segments[s].clip_limit);
    } else if (segments[s].clip != Clip::kNorm) {
      scales[s] = 1.0f;
    }
  }
}

// What an update knows of its segment, besides the segment.
struct Rates {
  float learning_rate;
  float adam;                    // learning_rate, corrected for moments that start at 0
  float mean, gradient, square;  // graph::NadamFactors
  float ema;
  float unscale;  // 1 / loss scale
  float clip_scale;
};

// As graph::factors_of(). The product of 1 - 0.96^i / 2 no longer changes in float from
// kNadamFactors on.
__device__ inline void set_nadam_factors(const UpdateSegment& s, std::uint64_t update,
                                         Rates& rates) {
  constexpr std::uint64_t kNadamFactors = 512;
  const double b1 = static_cast<double>(s.beta_1), t = static_cast<double>(update);
  const double share = 0.5 * pow(0.96, t);
  const double now = b1 * (1 - share), next = b1 * (1 - 0.96 * share);
  double product = pow(b1, t), power = 1;
  for (std::uint64_t i = 0; i < update && i < kNadamFactors; ++i) {
    power *= 0.96;
    product *= 1 - 0.5 * power;
  }
  rates.mean = static_cast<float>(next / (1 - product * next));
  rates.gradient = static_cast<float>((1 - now) / (1 - product));
  rates.square = static_cast<float>(1 / (1 - pow(static_cast<double>(s.beta_2), t)));
}

__device__ inline Rates rates_of(const UpdateSegment& s, float scale, const StepScalars& scalars,
                                 const StepState& state) {
  Rates rates;
  rates.learning_rate = scalars.learning_rate * s.learning_rate_multiplier;
  const std::uint64_t update = scalars.update - s.updates_before;
  rates.adam = 0;
  if (s.rule == Rule::kAdam) {
    const double t = static_cast<double>(update);
    rates.adam = static_cast<float>(static_cast<double>(rates.learning_rate) *
                                    sqrt(1 - pow(static_cast<double>(s.beta_2), t)) /
                                    (1 - pow(static_cast<double>(s.beta_1), t)));
  }
  rates.mean = rates.gradient = rates.square = 0;
  if (s.rule == Rule::kNadam) set_nadam_factors(s, update, rates);
  // Keras starts the average as the weights after the first update.
  rates.ema = update == 1 ? 0.0f : s.ema;
  rates.unscale = 1.0f / state.gradients_scale;
  rates.clip_scale = scale;
  return rates;
}

template <int N>
__device__ inline void sgd(const UpdateSegment& s, const Rates& rates, const UpdateBuffers& buffers,
                           std::int64_t i, std::int64_t left, const float (&g)[N], float (&w)[N]) {
  const float rate = rates.learning_rate;
  if (s.momentum == 0) {
    for (int k = 0; k < N; ++k) w[k] -= rate * g[k];
    return;
  }
  float v[N];
  load<N>(buffers.slots[0] + i, left, v);
  for (int k = 0; k < N; ++k) {
    v[k] = s.momentum * v[k] - rate * g[k];
    w[k] += s.nesterov != 0 ? s.momentum * v[k] - rate * g[k] : v[k];
  }
  store<N>(v, left, buffers.slots[0] + i);
}

// Slots: velocity, [momentum], [average gradient].
template <int N>
__device__ inline void rms_prop(const UpdateSegment& s, const Rates& rates,
                                const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                                const float (&g)[N], float (&w)[N]) {
  const bool moments = s.momentum > 0, centered = s.centered != 0;
  float* mean_slot = moments ? buffers.slots[2] : buffers.slots[1];
  float velocity[N], mean[N] = {}, moment[N] = {};
  load<N>(buffers.slots[0] + i, left, velocity);
  if (moments) load<N>(buffers.slots[1] + i, left, moment);
  if (centered) load<N>(mean_slot + i, left, mean);
  for (int k = 0; k < N; ++k) {
    velocity[k] = s.rho * velocity[k] + (1 - s.rho) * g[k] * g[k];
    float denominator = velocity[k] + s.epsilon;
    if (centered) {
      mean[k] = s.rho * mean[k] + (1 - s.rho) * g[k];
      denominator -= mean[k] * mean[k];
    }
    const float change = rates.learning_rate * g[k] / sqrtf(denominator);
    moment[k] = moments ? s.momentum * moment[k] + change : change;
    w[k] -= moment[k];
  }
  store<N>(velocity, left, buffers.slots[0] + i);
  if (moments) store<N>(moment, left, buffers.slots[1] + i);
  if (centered) store<N>(mean, left, mean_slot + i);
}

template <int N>
__device__ inline void adam(const UpdateSegment& s, const Rates& rates,
                            const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                            const float (&g)[N], float (&w)[N]) {
  float m[N], v[N], second[N] = {};
  load<N>(buffers.slots[0] + i, left, m);
  load<N>(buffers.slots[1] + i, left, v);
  if (s.amsgrad != 0) load<N>(buffers.slots[2] + i, left, second);
  for (int k = 0; k < N; ++k) {
    m[k] += (g[k] - m[k]) * (1 - s.beta_1);
    v[k] += (g[k] * g[k] - v[k]) * (1 - s.beta_2);
    second[k] = s.amsgrad != 0 && second[k] > v[k] ? second[k] : v[k];
    w[k] -= rates.adam * m[k] / (sqrtf(second[k]) + s.epsilon);
  }
  store<N>(m, left, buffers.slots[0] + i);
  store<N>(v, left, buffers.slots[1] + i);
  if (s.amsgrad != 0) store<N>(second, left, buffers.slots[2] + i);
}

template <int N>
__device__ inline void nadam(const UpdateSegment& s, const Rates& rates,
                             const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                             const float (&g)[N], float (&w)[N]) {
  float m[N], v[N];
  load<N>(buffers.slots[0] + i, left, m);
  load<N>(buffers.slots[1] + i, left, v);
  for (int k = 0; k < N; ++k) {
    m[k] += (g[k] - m[k]) * (1 - s.beta_1);
    v[k] += (g[k] * g[k] - v[k]) * (1 - s.beta_2);
    const float step = rates.mean * m[k] + rates.gradient * g[k];
    w[k] -= rates.learning_rate * step / (sqrtf(v[k] * rates.square) + s.epsilon);
  }
  store<N>(m, left, buffers.slots[0] + i);
  store<N>(v, left, buffers.slots[1] + i);
}

template <int N>
__device__ inline void adagrad(const UpdateSegment& s, const Rates& rates,
                               const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                               const float (&g)[N], float (&w)[N]) {
  float sum[N];
  load<N>(buffers.slots[0] + i, left, sum);
  for (int k = 0; k < N; ++k) {
    sum[k] += g[k] * g[k];
    w[k] -= rates.learning_rate * g[k] / sqrtf(sum[k] + s.epsilon);
  }
  store<N>(sum, left, buffers.slots[0] + i);
}

template <int N>
__device__ inline void lion(const UpdateSegment& s, const Rates& rates,
                            const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                            const float (&g)[N], float (&w)[N]) {
  float m[N];
  load<N>(buffers.slots[0] + i, left, m);
  for (int k = 0; k < N; ++k) {
    const float direction = m[k] * s.beta_1 + g[k] * (1 - s.beta_1);
    w[k] -= direction > 0 ? rates.learning_rate : direction < 0 ? -rates.learning_rate : 0.0f;
    m[k] = m[k] * s.beta_2 + g[k] * (1 - s.beta_2);
  }
  store<N>(m, left, buffers.slots[0] + i);
}

// Elements [i, i + N) of the flat buffers, of which `left` are the segment's. Returns the sum of
// squares of their gradients before clipping.
template <int N>
__device__ inline float update_elements(const UpdateSegment& s, const Rates& rates,
                                        const UpdateBuffers& buffers, std::int64_t i,
                                        std::int64_t left) {
  float g[N], w[N], square = 0;
  load<N>(buffers.gradients + i, left, g);
  load<N>(buffers.parameters + i, left, w);
  for (int k = 0; k < N; ++k) {
    g[k] *= rates.unscale;
    if (s.l2 != 0) g[k] += 2 * s.l2 * w[k];
    if (k < left) square += g[k] * g[k];
    g[k] *= rates.clip_scale;
    if (s.clip == Clip::kValue) {
      const float limit = s.clip_limit;
      g[k] = g[k] > limit ? limit : g[k] < -limit ? -limit : g[k];
    }
    w[k] -= w[k] * (rates.learning_rate * s.weight_decay);
  }
  if (s.rule == Rule::kSgd) sgd<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == Rule::kRmsProp) rms_prop<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == Rule::kAdam) adam<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == Rule::kNadam) nadam<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == Rule::kAdagrad) adagrad<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == Rule::kLion) lion<N>(s, rates, buffers, i, left, g, w);
  store<N>(w, left, buffers.parameters + i);
  if (s.average != 0) {
    float average[N];
    load<N>(buffers.average + i, left, average);
    for (int k = 0; k < N; ++k) average[k] = average[k] * rates.ema + w[k] * (1 - rates.ema);
    store<N>(average, left, buffers.average + i);
  }
  return square;
}

// Returns the sum of update_elements() over this thread's elements.
template <int N>
__device__ inline float update_chunk(const UpdateSegment& s, const Rates& rates,
                                     const UpdateBuffers& buffers, const UpdateChunk& chunk) {
  float square = 0;  // of few elements: a double would cost registers
  for (std::int64_t i = chunk.first + threadIdx.x * N; i < chunk.last; i += blockDim.x * N) {
    square += update_elements<N>(s, rates, buffers, i, chunk.last - i);
  }
  return square;
}

__global__ void __launch_bounds__(kThreads)
    update_kernel(const UpdateSegment* segments, const UpdateChunk* chunks, UpdateBuffers buffers,
                  const float* clip_scales, const StepScalars* scalars, const StepState* state,
                  double* squares) {
  if (state->updates_now == 0) return;
  const UpdateChunk chunk = chunks[blockIdx.x];
  const UpdateSegment& s = segments[chunk.segment];
  double* sums = shared_memory<double>();
  Rates* rates = reinterpret_cast<Rates*>(sums + kWarp);
  if (threadIdx.x == 0) {
    const float scale = clip_scales != nullptr ? clip_scales[chunk.segment] : 1.0f;
    *rates = rates_of(s, scale, *scalars, *state);
  }
  __syncthreads();
  const float square = chunk.first % 4 == 0 ? update_chunk<4>(s, *rates, buffers, chunk)
                                            : update_chunk<1>(s, *rates, buffers, chunk);
  const double sum = over_block(static_cast<double>(square), 0.0, sums, Sum());
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(kClipThreads)
    gradient_norm_kernel(const double* squares, std::int64_t count, const StepState* state,
                         StepNumbers* numbers) {
  if (state->updates_now == 0) return;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += squares[i];
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) numbers->gradient_norm = sqrt(sum);
}

void assign(UpdateSegment& segment, const graph::SgdRule& rule) {
  segment.rule = Rule::kSgd;
  segment.momentum = rule.momentum;
  segment.nesterov = rule.nesterov ? 1 : 0;
}
void assign(UpdateSegment& segment, const graph::RmsPropRule& rule) {
  segment.rule = Rule::kRmsProp;
  segment.rho = rule.rho;
  segment.momentum = rule.momentum;
  segment.epsilon = rule.epsilon;
  segment.centered = rule.centered ? 1 : 0;
}
void assign(UpdateSegment& segment, const graph::AdamRule& rule) {
  segment.rule = Rule::kAdam;
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
  segment.epsilon = rule.epsilon;
  segment.amsgrad = rule.amsgrad ? 1 : 0;
}

void assign(UpdateSegment& segment, const graph::NadamRule& rule) {
  segment.rule = Rule::kNadam;
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
  segment.epsilon = rule.epsilon;
}
void assign(UpdateSegment& segment, const graph::AdagradRule& rule) {
  segment.rule = Rule::kAdagrad;
  segment.epsilon = rule.epsilon;
}
void assign(UpdateSegment& segment, const graph::LionRule& rule) {
  segment.rule = Rule::kLion;
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
}

Clip clip_of(graph::Clip::Kind kind) {
  switch (kind) {
    case graph::Clip::Kind::kNone:
      break;
    case graph::Clip::Kind::kValue:
      return Clip::kValue;
    case graph::Clip::Kind::kNorm:
      return Clip::kNorm;
    case graph::Clip::Kind::kGlobalNorm:
      return Clip::kGlobalNorm;
  }
  return Clip::kNone;
}

}  // namespace

UpdateSegment make_update_segment(const graph::Update& update, std::int64_t offset,
                                  std::int64_t count, int slots, bool average) {
  UpdateSegment segment;
  segment.offset = offset;
  segment.count = count;
  std::visit([&segment](const auto& rule) { assign(segment, rule); }, update.rule);
  segment.l2 = update.l2;
  segment.weight_decay = update.weight_decay;
  segment.learning_rate_multiplier = update.learning_rate_multiplier;
  segment.ema = update.ema;
  segment.clip = clip_of(update.clip.kind);
  segment.clip_limit = update.clip.limit;
  segment.slots = slots;
  segment.average = average ? 1 : 0;
  segment.updates_before = update.updates_before;
  return segment;
}

std::vector<UpdateChunk> make_chunks(std::span<const UpdateSegment> segments) {
  std::vector<UpdateChunk> chunks;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const std::int64_t last = segments[s].offset + segments[s].count;
    for (std::int64_t first = segments[s].offset; first < last; first += kUpdateChunk) {
      UpdateChunk chunk;
      chunk.segment = static_cast<std::int32_t>(s);
      chunk.first = first;
      chunk.last = std::min(first + kUpdateChunk, last);
      chunks.push_back(chunk);
    }
  }
  return chunks;
}

void check_gradients(const float* gradients, std::int64_t count, StepState* state,
                     cudaStream_t stream) {
  const bool vectors = aligned({gradients});
  launch("clear_overflow", clear_overflow_kernel, 1, 1, 0, stream, state);
  launch("check_gradients", vectors ? check_gradients_kernel<4> : check_gradients_kernel<1>,
         grid_over(count, vectors ? 4 : 1), kThreads, kWarp * sizeof(std::int32_t), stream,
         gradients, count, state);
}

void decide_update(const float* trailer, bool dynamic_loss_scale, const StepScalars* scalars,
                   StepState* state, StepNumbers* numbers, cudaStream_t stream) {
  launch("decide_update", decide_update_kernel, 1, 1, 0, stream, trailer, dynamic_loss_scale,
         scalars, state, numbers);
}

void settle_finite(const StepNumbers* numbers, const StepScalars* scalars, StepState* state,
                   cudaStream_t stream) {
  launch("settle_finite", settle_finite_kernel, 1, 1, 0, stream, numbers, scalars, state);
}

void gradient_squares(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
                      const UpdateBuffers& buffers, const StepState* state, double* squares,
                      cudaStream_t stream) {
  launch("gradient_squares", gradient_squares_kernel, static_cast<unsigned>(count), kThreads,
         kWarp * sizeof(double), stream, segments, chunks, buffers, state, squares);
}

void clip_scales(const UpdateSegment* segments, std::int64_t segment_count,
                 const UpdateChunk* chunks, std::int64_t chunk_count, const double* squares,
                 float* scales, cudaStream_t stream) {
  launch("clip_scales", clip_scales_kernel, 1, kClipThreads, kWarp * sizeof(double), stream,
         segments, segment_count, chunks, chunk_count, squares, scales);
}

void update(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
            const UpdateBuffers& buffers, const float* clip_scales, const StepScalars* scalars,
            const StepState* state, double* squares, cudaStream_t stream) {
  launch("update", update_kernel, static_cast<unsigned>(count), kThreads,
         kWarp * sizeof(double) + sizeof(Rates), stream, segments, chunks, buffers, clip_scales,
         scalars, state, squares);
}

void gradient_norm(const double* squares, std::int64_t count, const StepState* state,
                   StepNumbers* numbers, cudaStream_t stream) {
  launch("gradient_norm", gradient_norm_kernel, 1, kClipThreads, kWarp * sizeof(double), stream,
         squares, count, state, numbers);
}

}  // namespace trainer::backend::cuda
