// Our own vector kernels: everything that oneDNN does slower than memory allows, or not at all.
//
// The same source is compiled for each instruction set (simd/<isa>.cpp); kernels_for() picks a
// table at run time. Blocked planes are [h, w, block] of one (sample, channel block); see Layout.
// All kernels are single-threaded and pure functions of their arguments.
#pragma once

#include <cstdint>

namespace trainer::backend::cpu::simd {

struct BFloat16 {
  std::uint16_t bits;
};

// A pooling window over blocked planes. index is row * kw + column of the winner in the window.
struct PoolShape {
  std::int64_t planes;  // samples * channel blocks
  std::int64_t h, w, oh, ow;
  std::int64_t kh, kw, sh, sw, dh, dw, top, left;
};

// The derivative factor of an activation at its output y; alpha is the slope of leaky_relu.
enum class Gate { kNone, kRelu, kRelu6, kLeakyRelu };

// A convolution with few input channels followed by relu or nothing and 2x2 max pooling. x is
// planar [n, c, h, w]; the kernel is [kh, kw, c, oc padded to blocks]; y and index are blocked.
struct StemShape {
  std::int64_t n, c, h, w, oc_blocks, kh, kw, top, left, conv_h, conv_w, oh, ow;
  bool relu;
};

// A convolution 3x3 of stride 1 over blocked planes: x [n, in, h, w], y [n, out, oh, ow], float32,
// by Winograd's F(4x4, 3x3): 4x4 outputs a tile of 6x6 inputs. Tiles are taken in strips; for each
// the input is transformed, then one panel of output channels after the other is computed. No y
// depends on the strips, nor on the other samples.
struct WinogradShape {
  std::int64_t n, h, w, oh, ow, top, left, in, out;
  // The kernel is [3, 3, in, out]; or [3, 3, out, in] and to be turned by 180 degrees, so that a
  // gradient goes back through the convolution.
  bool transposed;
  Gate gate;
  float alpha;
  std::int64_t tiles;  // the most of a strip
  bool non_temporal;   // y is stored past the caches, and is aligned to a block of floats
  // The output channels to compute: from a multiple of kWinogradPanel blocks to one, or to `out`.
  std::int64_t out_begin, out_end;
};
inline constexpr std::int64_t kWinogradPanel = 2;

// Batch statistics of one channel: sums of (x - shift) and (x - shift)^2.
struct Moments {
  double sum, square;
};

// Sums of one channel for the gradient of batch normalisation: of g and of g * xhat, where g is the
// gradient of the normalised value and xhat = (x - mean) * inverse_std.
struct GradientSums {
  double sum_g, sum_g_xhat;
};

struct PlaneShape {
  std::int64_t n, blocks, pixels;  // samples, channel blocks, h * w
};

// y = gate((x - mean) * a + b) by channel, gate as an activation: relu, relu6, leaky_relu or none.
// The mean is taken off first: channels that hardly vary would lose their digits otherwise.
struct NormCoefficients {
  const float *mean, *a, *b;
  Gate gate;
  float alpha;
};
// The gradient of x: p * g + q * (x - mean) + r by channel, where g is that before the gate.
struct NormGradientCoefficients {
  const float *p, *q, *r;
};

// The gradient of w = gate(x): a, or a + b where b is not null.
template <class T>
struct GatedGradient {
  const T *a, *b, *w;
  Gate gate;
  float alpha;
};

// A depthwise convolution 3x3 over blocked planes: x [n, blocks, h, w], y [n, blocks, oh, ow], with
// a stride of 1 or 2; `top` and `left` are padding. The blocks [block_begin, block_end) are
// computed, those of all samples.
struct DepthwiseShape {
  std::int64_t n, blocks, h, w, oh, ow, stride, top, left, block_begin, block_end;
};
// What the gradient is made of when a batch norm stands before the convolution, and one after it
// whose output has the gradient dw.
template <class T>
struct DepthwiseGradient {
  const T *x, *y, *dw;
  NormCoefficients before, after;
  const float* inverse_std;               // of the norm before
  NormGradientCoefficients coefficients;  // of the norm after
};

// x as [outer, pixels, groups * channels], normalised over the pixels and channels of a group.
struct GroupShape {
  std::int64_t outer, pixels, groups, channels;
  float epsilon;

  // The scratch memory of group_norm_backward(): a float and a double per gradient of gamma and
  // beta.
  std::int64_t scratch_bytes() const {
    return 2 * groups * channels * static_cast<std::int64_t>(sizeof(float) + sizeof(double));
  }
};

// Images as [planes, h, w, lanes]. Pixel y, x of the larger is a mean of four of the smaller, of
// rows above[y] and below[y] with weights 1 - down[y] and down[y], and likewise of columns.
struct UpSampleShape {
  std::int64_t planes, h, w, large_h, large_w, lanes;
  const std::int32_t *above, *below, *left, *right;
  const float *down, *across;
};

// Kernels on activations of element type T.
template <class T>
struct Typed {
  // y = (x * scale - mean[c]) / std[c] as x * a[c] + b[c]; x is NHWC, y planar.
  void (*preprocess_u8)(const std::uint8_t* x, T* y, std::int64_t n, std::int64_t pixels,
                        std::int64_t c, bool reverse, const float* a, const float* b);
  void (*preprocess_f32)(const float* x, T* y, std::int64_t n, std::int64_t pixels, std::int64_t c,
                         bool reverse, const float* a, const float* b);

  // `scratch` of both is that of an image in floats.
  void (*stem_forward)(const StemShape&, const T* x, const float* kernel, const float* bias, T* y,
                       std::uint8_t* index, float* scratch);
  // Writes the whole gradient: dkernel as [kh, kw, c, oc padded], dbias [oc padded].
  void (*stem_backward)(const StemShape&, const T* x, const T* dy, const T* y,
                        const std::uint8_t* index, float* dkernel, float* dbias, float* scratch);

  void (*max_pool)(const PoolShape&, const T* x, T* y, std::uint8_t* index);  // index may be null
  // `plane` is scratch of h * w * block floats. y is read when there is a gate.
  void (*max_pool_backward)(const PoolShape&, const T* dy, const std::uint8_t* index, const T* y,
                            Gate gate, float alpha, T* dx, float* plane);
  void (*average_pool)(const PoolShape&, const T* x, T* y);
  void (*average_pool_backward)(const PoolShape&, const T* dy, T* dx, float* plane);
  // [n, blocks, pixels, block] -> [n, blocks, block]
  void (*global_average)(const PlaneShape&, const T* x, T* y);
  void (*global_average_backward)(const PlaneShape&, const T* dy, T* dx);
  void (*global_max)(const PlaneShape&, const T* x, T* y);
  void (*global_max_backward)(const PlaneShape&, const T* x, const T* y, const T* dy, T* dx);

  // Adds to moments [blocks * block]; shift [blocks * block].
  void (*moments)(const PlaneShape&, const T* x, const float* shift, Moments* moments);
  void (*scale_shift)(const PlaneShape&, const T* x, const NormCoefficients&, T* y);
  // y = gate(norm(x) + other), and gate(norm(x) + norm(other)); the first's gate is that of the
  // sum. Each term and the sum are rounded to T, as where they are written.
  void (*add_to_norm)(const PlaneShape&, const T* x, const NormCoefficients&, const T* other, T* y);
  void (*add_two_norms)(const PlaneShape&, const T* x, const NormCoefficients&, const T* other,
                        const NormCoefficients& of_other, T* y);
  // Adds to sums, with g = dy * gate'(y). y may be null: it is then computed again from x.
  void (*norm_sums)(const PlaneShape&, const T* x, const T* dy, const T* y, const NormCoefficients&,
                    const float* inverse_std, GradientSums* sums);
  // d = (a + b) * gate'(w); d may be a. gate_gradient_sums() also adds to sums what norm_sums()
  // adds for the gradient d of a norm of x without a gate.
  void (*gate_gradient)(const PlaneShape&, const GatedGradient<T>&, T* d);
  void (*gate_gradient_sums)(const PlaneShape&, const GatedGradient<T>&, T* d, const T* x,
                             const float* mean, const float* inverse_std, GradientSums* sums);
  // dx may be dy.
  void (*norm_backward)(const PlaneShape&, const T* x, const T* dy, const T* y,
                        const NormCoefficients&, const NormGradientCoefficients&, T* dx);

  // y = the convolution of x through the batch norm before it; kernel is [3, 3, blocks * block].
  // Sets shift to y's first pixels and adds the moments of y about it to `moments`.
  void (*depthwise)(const DepthwiseShape&, const T* x, const NormCoefficients& before,
                    const float* kernel, T* y, float* shift, Moments* moments, float* scratch);
  // dx is the gradient before the gate of the norm before, whose sums are added to `sums`. Sets
  // dkernel, of the kernel's form.
  void (*depthwise_backward)(const DepthwiseShape&, const DepthwiseGradient<T>&,
                             const float* kernel, T* dx, float* dkernel, GradientSums* sums,
                             float* scratch);

  void (*add)(T* y, const T* const* x, int count, std::int64_t elements);
  // Keeps element i of sample s with the draw of (key, counter {i / 4, step, sample, layer}).
  void (*dropout)(const T* x, T* y, std::int64_t samples, std::int64_t elements, float rate,
                  std::uint64_t seed, std::uint32_t layer, std::uint64_t step,
                  std::uint64_t first_sample);
  void (*to_f32)(const T* x, float* y, std::int64_t elements);

  // y = x * factor and y = x + bias; x and y are [outer, rows, width], the factor [outer, width],
  // the bias [width]. `a`, `b` and their sums likewise; b may be null, `scratch` is [2, width].
  void (*multiply)(const T* x, const T* factor, T* y, std::int64_t outer, std::int64_t rows,
                   std::int64_t width);
  void (*multiply_f32)(const T* x, const float* factor, T* y, std::int64_t rows,
                       std::int64_t width);
  void (*add_bias)(const T* x, const float* bias, T* y, std::int64_t rows, std::int64_t width);
  void (*sum_product)(const T* a, const T* b, T* sum, float* scratch, std::int64_t outer,
                      std::int64_t rows, std::int64_t width);
  void (*sum_product_f32)(const T* a, const T* b, float* sum, float* scratch, std::int64_t rows,
                          std::int64_t width);
  // graph::Activation of the kinds that oneDNN lacks; dx = dy * the derivative at x.
  void (*hard_sigmoid)(const T* x, T* y, std::int64_t elements);
  void (*hard_sigmoid_backward)(const T* x, const T* dy, T* dx, std::int64_t elements);
  void (*selu)(const T* x, T* y, std::int64_t elements);
  void (*selu_backward)(const T* x, const T* dy, T* dx, std::int64_t elements);
  // graph::GroupNorm; dgamma and dbeta are set, `scratch` holds scratch_bytes().
  void (*group_norm)(const GroupShape&, const T* x, const float* gamma, const float* beta, T* y);
  void (*group_norm_backward)(const GroupShape&, const T* x, const T* dy, const float* gamma, T* dx,
                              float* dgamma, float* dbeta, void* scratch);
  // graph::UpSample; `plane` is [h, w, lanes] floats.
  void (*up_sample)(const UpSampleShape&, const T* x, T* y);
  void (*up_sample_backward)(const UpSampleShape&, const T* dy, T* dx, float* plane);
};

// One contiguous run of elements of the flat buffers under one rule.
struct UpdateRun {
  std::int64_t count = 0;
  float* w = nullptr;
  const float* const* gradients = nullptr;  // summed in this order
  int gradient_count = 0;
  float* slot[3] = {};
  float* average = nullptr;  // null: none
  float l1 = 0, l2 = 0, clip_value = 0 /* 0: none */, clip_scale = 1, trust = 1;
  float learning_rate = 0, weight_decay = 0, ema = 0;
  // The sum of squares of the gradients before clipping is added to it; null: not wanted.
  double* gradient_square = nullptr;
};

// Of graph::LambRule; mean and square correct averages that start at 0.
struct LambFactors {
  float beta_1, beta_2, epsilon, mean, square;
};
// Sums of squares, of the decayed parameters and of the steps.
struct LambSquares {
  double parameter = 0, step = 0;
};

struct Kernels {
  std::int64_t block;
  const char* name;
  Typed<float> f32;
  Typed<BFloat16> bf16;

  // y = gate(convolution + bias); bias may be null. `scratch` has winograd_scratch() floats.
  void (*winograd)(const WinogradShape&, const float* x, const float* kernel, const float* bias,
                   float* y, float* scratch);
  std::int64_t (*winograd_scratch)(const WinogradShape&);
  // Writes the gradients of a convolution that is not transposed: dkernel, and dbias [out] if not
  // null.
  void (*winograd_weights)(const WinogradShape&, const float* x, const float* dy, float* dkernel,
                           float* dbias, float* scratch);
  std::int64_t (*winograd_weights_scratch)(const WinogradShape&);

  // Floats of scratch that depthwise() and depthwise_backward() need.
  std::int64_t (*depthwise_scratch)(const DepthwiseShape&);
  std::int64_t (*depthwise_backward_scratch)(const DepthwiseShape&);

  // out[i] = (add ? out[i] : 0) + sum over sources
  void (*sum)(float* out, const float* const* sources, int count, std::int64_t elements, bool add);
  // factor-free sum over w^2
  double (*sum_of_squares)(const float* w, std::int64_t elements);
  // sum over |w|
  double (*sum_of_absolutes)(const float* w, std::int64_t elements);
  // sum over (g + 2 l2 w + l1 sign(w))^2
  double (*gradient_square)(const float* g, const float* w, float l2, float l1,
                            std::int64_t elements);
  void (*sgd)(const UpdateRun&, float momentum, bool nesterov);
  void (*rms_prop)(const UpdateRun&, float rho, float momentum, float epsilon, bool centered);
  // `rate` is learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  void (*adam)(const UpdateRun&, float beta_1, float beta_2, float epsilon, bool amsgrad,
               float rate);
  // `mean`, `gradient` and `square` are graph::factors_of() the update.
  void (*nadam)(const UpdateRun&, float beta_1, float beta_2, float epsilon, float mean,
                float gradient, float square);
  void (*adagrad)(const UpdateRun&, float epsilon);
  void (*lion)(const UpdateRun&, float beta_1, float beta_2);
  // What lamb() would make of the run, with nothing written; its step before the learning rate.
  LambSquares (*lamb_squares)(const UpdateRun&, const LambFactors&);
  void (*lamb)(const UpdateRun&, const LambFactors&);
};

// The best table this processor can run, or null when there is none (x86-64-v3 is the least).
const Kernels* best_kernels();
// By name ("x86-64-v3", "x86-64-v4"), for tests; null when the processor cannot run it.
const Kernels* kernels_named(const char* name);

namespace v3 {
extern const Kernels kTable;
}
namespace v4 {
extern const Kernels kTable;
}

}  // namespace trainer::backend::cpu::simd
