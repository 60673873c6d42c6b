#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/step/update.h"
#include "backend/cuda/kernels/step/update_elements.cuh"
#include "backend/cuda/kernels/step/update_rates.cuh"

namespace trainer::backend::cuda {
namespace {

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
    float denominator = velocity[k];
    if (centered) {
      mean[k] = s.rho * mean[k] + (1 - s.rho) * g[k];
      denominator -= mean[k] * mean[k];
    }
    denominator += s.epsilon;  // last, as in Keras: the difference may be smaller than epsilon
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
    w[k] -= rates.step * m[k] / (sqrtf(second[k]) + s.epsilon);
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

template <int N>
__device__ inline void lamb(const UpdateSegment& s, const Rates& rates,
                            const UpdateBuffers& buffers, std::int64_t i, std::int64_t left,
                            const float (&g)[N], float (&w)[N]) {
  float m[N], v[N];
  load<N>(buffers.slots[0] + i, left, m);
  load<N>(buffers.slots[1] + i, left, v);
  for (int k = 0; k < N; ++k) w[k] -= lamb_step(s, rates, rates.step, g[k], m[k], v[k]);
  store<N>(m, left, buffers.slots[0] + i);
  store<N>(v, left, buffers.slots[1] + i);
}

// Elements [i, i + N) of the flat buffers, of which `left` are the segment's. Returns the sum of
// squares of their gradients before clipping.
template <int N>
__device__ inline float update_elements(const UpdateSegment& s, const Rates& rates,
                                        const UpdateBuffers& buffers, std::int64_t i,
                                        std::int64_t left) {
  float g[N], w[N], square = 0;
  load_gradient<N>(s, rates, buffers, i, left, g, w);
  for (int k = 0; k < N; ++k) {
    if (k < left) square += g[k] * g[k];
  }
  clip_and_decay<N>(s, rates, g, w);
  if (s.rule == kRule<graph::SgdRule>) sgd<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::RmsPropRule>) rms_prop<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::AdamRule>) adam<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::NadamRule>) nadam<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::AdagradRule>) adagrad<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::LionRule>) lion<N>(s, rates, buffers, i, left, g, w);
  if (s.rule == kRule<graph::LambRule>) lamb<N>(s, rates, buffers, i, left, g, w);
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

// Four blocks a multiprocessor: at most 64 registers.
__global__ void __launch_bounds__(kThreads, 4)
    update_kernel(const UpdateSegment* segments, const UpdateChunk* chunks, UpdateBuffers buffers,
                  SegmentScales scales, const StepScalars* scalars, const StepState* state,
                  double* squares) {
  if (state->updates_now == 0) return;
  const UpdateChunk chunk = chunks[blockIdx.x];
  const UpdateSegment& s = segments[chunk.segment];
  double* sums = shared_memory<double>();
  Rates* rates = reinterpret_cast<Rates*>(sums + kWarp);
  if (threadIdx.x == 0) *rates = make_rates(s, chunk.segment, scales, *scalars, *state);
  __syncthreads();
  const float square = chunk.first % 4 == 0 ? update_chunk<4>(s, *rates, buffers, chunk)
                                            : update_chunk<1>(s, *rates, buffers, chunk);
  const double sum = over_block(static_cast<double>(square), 0.0, sums, Sum());
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

void assign(UpdateSegment& segment, const graph::SgdRule& rule) {
  segment.momentum = rule.momentum;
  segment.nesterov = rule.nesterov ? 1 : 0;
}
void assign(UpdateSegment& segment, const graph::RmsPropRule& rule) {
  segment.rho = rule.rho;
  segment.momentum = rule.momentum;
  segment.epsilon = rule.epsilon;
  segment.centered = rule.centered ? 1 : 0;
}
void assign(UpdateSegment& segment, const graph::AdamRule& rule) {
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
  segment.epsilon = rule.epsilon;
  segment.amsgrad = rule.amsgrad ? 1 : 0;
}

void assign(UpdateSegment& segment, const graph::NadamRule& rule) {
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
  segment.epsilon = rule.epsilon;
}
void assign(UpdateSegment& segment, const graph::AdagradRule& rule) {
  segment.epsilon = rule.epsilon;
}
void assign(UpdateSegment& segment, const graph::LionRule& rule) {
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
}
void assign(UpdateSegment& segment, const graph::LambRule& rule) {
  segment.beta_1 = rule.beta_1;
  segment.beta_2 = rule.beta_2;
  segment.epsilon = rule.epsilon;
}

}  // namespace

UpdateSegment make_update_segment(const graph::Update& update, std::int64_t offset,
                                  std::int64_t count, int slots, bool average) {
  UpdateSegment segment;
  segment.offset = offset;
  segment.count = count;
  segment.rule = static_cast<std::int32_t>(update.rule.index());
  std::visit([&segment](const auto& rule) { assign(segment, rule); }, update.rule);
  segment.l1 = update.l1;
  segment.l2 = update.l2;
  segment.weight_decay = update.weight_decay;
  segment.learning_rate_multiplier = update.learning_rate_multiplier;
  segment.ema = update.ema;
  segment.ema_warm_up = update.ema_warm_up ? 1 : 0;
  segment.clip = update.clip;
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

void update(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
            const UpdateBuffers& buffers, const SegmentScales& scales, const StepScalars* scalars,
            const StepState* state, double* squares, cudaStream_t stream) {
  launch("update", update_kernel, static_cast<unsigned>(count), kThreads,
         kWarp * sizeof(double) + sizeof(Rates), stream, segments, chunks, buffers, scales, scalars,
         state, squares);
}

}  // namespace trainer::backend::cuda
