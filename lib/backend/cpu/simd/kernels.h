// Our own vector kernels, for work that oneDNN lacks or does slower than memory allows.
//
// The same source is compiled for each instruction set (v3.cpp, v4.cpp), and the program chooses
// one at run time. The kernels of an op are declared and defined in ops/<op>.inl, those that
// several ops share are listed here. Blocked planes are [h, w, block] of one (sample, channel
// block); see Layout. All kernels are single-threaded and pure functions of their arguments.
#pragma once

#include <cstdint>

namespace trainer::backend::cpu::simd {

struct BFloat16 {
  std::uint16_t bits;
};

// The activations that kernels apply; alpha is the slope of leaky_relu. Their derivatives depend on
// the output y alone.
enum class FusedActivation { kNone, kRelu, kRelu6, kLeakyRelu };

// A convolution 3x3 of stride 1 over blocked planes: x [n, in, h, w], y [n, out, oh, ow], computed
// in float32 by Winograd's F(4x4, 3x3): 4x4 outputs per tile of 6x6 inputs. Tiles are taken in
// strips; for each the input is transformed, then one panel of output channels after the other is
// computed. No y depends on the strips or on the other samples.
struct WinogradShape {
  std::int64_t n = 0, h = 0, w = 0, oh = 0, ow = 0, top = 0, left = 0, in = 0, out = 0;
  // If false, the kernel is [3, 3, in, out]. If true, it is [3, 3, out, in] and is turned by 180
  // degrees, so that a gradient goes back through the convolution.
  bool transposed = false;
  FusedActivation activation = FusedActivation::kNone;
  float alpha = 0;
  std::int64_t tiles = 0;     // the maximum number of tiles per strip
  bool non_temporal = false;  // y is float32, aligned to a block, and stored past the caches
  // The output channels to compute: from a multiple of kWinogradPanel blocks to one, or to `out`.
  std::int64_t out_begin = 0, out_end = 0;
};
inline constexpr std::int64_t kWinogradPanel = 2;

// The batch statistics of one channel: the sums of (x - shift) and of (x - shift)^2.
struct Moments {
  double sum, square;
};

// The sums of one channel for the gradient of batch normalisation: of g and of g * xhat, where g is
// the gradient of the normalised value and xhat = (x - mean) * inverse_std.
struct GradientSums {
  double sum_g, sum_g_xhat;
};

struct PlaneShape {
  std::int64_t n, blocks, pixels;  // samples, channel blocks, h * w
};

// y = activation((x - mean) * a + b) by channel. The mean is subtracted first, because channels
// that hardly vary would lose their digits otherwise.
struct NormCoefficients {
  const float *mean, *a, *b;
  FusedActivation activation;
  float alpha;
};
// The gradient of x is p * g + q * (x - mean) + r by channel, where g is the gradient before the
// activation.
struct NormGradientCoefficients {
  const float *p, *q, *r;
};

// The gradient of w = activation(x): a, or a + b if b is not null.
template <class T>
struct ActivationGradient {
  const T *a, *b, *w;
  FusedActivation activation;
  float alpha;
};

// Kernels on activations of element type T that several ops share.
template <class T>
struct Typed {
  // Adds to moments [blocks * block]; shift [blocks * block].
  void (*moments)(const PlaneShape&, const T* x, const float* shift, Moments* moments);
  void (*scale_shift)(const PlaneShape&, const T* x, const NormCoefficients&, T* y);
  // y = activation(norm(x) + other), and activation(norm(x) + norm(other)). The sum has the
  // activation of the first coefficients. Terms and sum are rounded to T, as if they were stored.
  void (*add_to_norm)(const PlaneShape&, const T* x, const NormCoefficients&, const T* other, T* y);
  void (*add_two_norms)(const PlaneShape&, const T* x, const NormCoefficients&, const T* other,
                        const NormCoefficients& of_other, T* y);
  // Adds to sums, with g = dy * activation'(y). y may be null: it is then computed again from x.
  void (*norm_sums)(const PlaneShape&, const T* x, const T* dy, const T* y, const NormCoefficients&,
                    const float* inverse_std, GradientSums* sums);
  // d = (a + b) * activation'(w); d may be a. activation_gradient_sums() also adds to sums what
  // norm_sums() adds for the gradient d of a norm of x without an activation.
  void (*activation_gradient)(const PlaneShape&, const ActivationGradient<T>&, T* d);
  void (*activation_gradient_sums)(const PlaneShape&, const ActivationGradient<T>&, T* d,
                                   const T* x, const float* mean, const float* inverse_std,
                                   GradientSums* sums);
  // dx may be dy.
  void (*norm_backward)(const PlaneShape&, const T* x, const T* dy, const T* y,
                        const NormCoefficients&, const NormGradientCoefficients&, T* dx);
};

// The convolution of WinogradShape with x, y and dy of element type T.
template <class T>
struct Winograd {
  // y = activation(convolution + bias); bias may be null.
  void (*forward)(const WinogradShape&, const T* x, const float* kernel, const float* bias, T* y,
                  float* scratch);
  // Writes the gradients of a convolution that is not transposed: dkernel, and dbias [out] if not
  // null.
  void (*weights)(const WinogradShape&, const T* x, const T* dy, float* dkernel, float* dbias,
                  float* scratch);
};

struct Kernels {
  std::int64_t block;
  const char* name;

  // The floats of scratch that Winograd<T>::forward() and weights() need.
  std::int64_t (*winograd_scratch)(const WinogradShape&);
  std::int64_t (*winograd_weights_scratch)(const WinogradShape&);

  // out[i] = (add ? out[i] : 0) + sum over sources
  void (*sum)(float* out, const float* const* sources, int count, std::int64_t elements, bool add);
  // factor-free sum over w^2
  double (*sum_of_squares)(const float* w, std::int64_t elements);
  // sum over |w|
  double (*sum_of_absolutes)(const float* w, std::int64_t elements);
  // sum over (g + 2 l2 w + l1 sign(w))^2
  double (*gradient_square)(const float* g, const float* w, float l2, float l1,
                            std::int64_t elements);
};

// Returns the best table for this processor, or null if it does not support x86-64-v3.
const Kernels* best_kernels();
// Returns the table "x86-64-v3" or "x86-64-v4", or null if this processor cannot run it. For tests.
const Kernels* kernels_named(const char* name);

// The kernels of an op are the members of a struct K of function pointers, which simd/ops/<op>.inl
// declares. The same file instantiates the functions find_kernels() of both instruction sets, which
// only table.inl defines, so that a K without kernels does not link. Typed is such a K, too.
namespace v3 {
extern const Kernels kTable;
template <class K>
const K& find_kernels();
}  // namespace v3
namespace v4 {
extern const Kernels kTable;
template <class K>
const K& find_kernels();
}  // namespace v4

// Returns the kernels K for the instruction set of `kernels`.
template <class K>
const K& find_kernels(const Kernels& kernels) {
  return &kernels == &v4::kTable ? v4::find_kernels<K>() : v3::find_kernels<K>();
}

}  // namespace trainer::backend::cpu::simd
