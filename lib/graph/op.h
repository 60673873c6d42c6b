// The vocabulary of the graph: a closed set of operations, each a struct of attributes.
//
// Images are [batch, height, width, channels]; convolution kernels [kh, kw, in / groups, out]
// (depthwise: groups = in, out = in * multiplier, the same bytes as Keras's [kh, kw, in,
// multiplier]); dense kernels [in, units]. Each struct's comment lists inputs -> outputs.
//
// Adding an op: a struct here, its rules in graph/rules.h and graph/ops/<op>.cpp (name, text,
// shape, gradient, flops, aliasing), backend/<each>/<op>.cpp, rows in the conformance table. The
// compiler asks for everything forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/types.h"

namespace trainer::graph {

// Element-wise functions. `alpha` is the slope of leaky_relu or the scale of elu. hard_sigmoid is
// relu6(x + 3) / 6, hard_swish x * hard_sigmoid(x), negative_part min(x, 0).
struct Activation {
  enum class Kind {
    kLinear,
    kRelu,
    kRelu6,
    kLeakyRelu,
    kElu,
    kSigmoid,
    kTanh,
    kGelu,
    kSwish,
    kHardSigmoid,
    kHardSwish,
    kSelu,
    kNegativePart
  };
  Kind kind = Kind::kLinear;
  float alpha = 0;
  bool operator==(const Activation&) const = default;
  bool linear() const { return kind == Kind::kLinear; }
  // Whether the derivative can be computed from the output alone; only then can it be fused into
  // the op before it in a training graph.
  constexpr bool differentiable_from_output() const { return kind < Kind::kGelu; }
  // Whether backends apply it inside of the op before it.
  bool fusable() const { return kind <= Kind::kSwish; }
};
// Keras's SELU: scale * (x > 0 ? x : alpha * (e^x - 1)).
inline constexpr float kSeluAlpha = 1.6732632423543772f, kSeluScale = 1.0507009873554805f;
const char* to_string(Activation::Kind kind);

// A sliding window with its padding resolved to pixels. Index 0 is height, 1 is width.
struct Window {
  std::array<std::int64_t, 2> size{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::array<std::int64_t, 2> pad_before{0, 0};  // top, left
  std::array<std::int64_t, 2> pad_after{0, 0};   // bottom, right
  bool operator==(const Window&) const = default;
  // Output extent along an axis for an input extent, rounded down; <= 0 when the window does not
  // fit.
  std::int64_t output(std::int64_t input, int axis) const;
};

// uint8 or float image -> float image: (x * scale - mean[c]) / std[c]. mean and std have one entry
// per channel. With reverse_channels channel c reads the image's channel channels - 1 - c.
struct Preprocess {
  float scale = 1;
  std::vector<float> mean, std;
  bool reverse_channels = false;
};

// x, kernel, [bias] -> y
struct Conv {
  Window window;
  std::int64_t groups = 1;
  bool bias = false;
  Activation activation;
};
// dy, kernel -> dx. `input` is the shape of x.
struct ConvBackwardData {
  Window window;
  std::int64_t groups = 1;
  Shape input;
};
// x, dy -> dkernel, [dbias]. `kernel` is the kernel's shape.
struct ConvBackwardWeights {
  Window window;
  std::int64_t groups = 1;
  bool bias = false;
  Shape kernel;
};

// A convolution over few channels, its activation and a max pooling in one pass over memory.
// Negative padding after the image leaves the last pixels unread: x, kernel, [bias] -> y, index
// (uint8: position in the pooling window that won, row by row).
struct ConvMaxPool {
  Conv conv;
  Window pool;
};
// x, dy, y, index -> dkernel, [dbias]. No gradient for x.
struct ConvMaxPoolBackwardWeights {
  Conv conv;
  Window pool;
  Shape kernel;
};

// x [batch, in], kernel [in, units], [bias] -> y [batch, units]
struct Dense {
  bool bias = false;
  Activation activation;
};
struct DenseBackwardData {
  std::int64_t inputs = 0;
};  // dy, kernel -> dx
struct DenseBackwardWeights {
  bool bias = false;
};  // x, dy -> dkernel, [dbias]

// x -> y; max with keep_index also -> index (uint8: winner's position in the window, row by row).
// The average is over the pixels inside the image. Padding never wins a maximum.
struct Pool {
  enum class Kind { kMax, kAverage };
  Kind kind = Kind::kMax;
  Window window;
  bool keep_index = false;
};
// max: dy, index, [y] -> dx; average: dy, [y] -> dx. With an activation, y is given and dy is first
// multiplied with its derivative at y: the gradient before the activation that preceded the
// pooling.
struct PoolBackward {
  Pool::Kind kind = Pool::Kind::kMax;
  Window window;
  Shape input;
  Activation activation;
};
// x [batch, h, w, c] -> [batch, c]; max: the first of equal maxima gets the gradient.
struct GlobalPool {
  Pool::Kind kind = Pool::Kind::kAverage;
};
// average: dy -> dx; max: dy, x, y -> dx
struct GlobalPoolBackward {
  Pool::Kind kind = Pool::Kind::kAverage;
  Shape input;
};

struct Activate {
  Activation activation;
};  // x -> y
// s, dy -> dx, where s is y when activation.differentiable_from_output(), else x
struct ActivateBackward {
  Activation activation;
};
struct Softmax {};          // x [batch, n] -> y, over the last dimension
struct SoftmaxBackward {};  // y, dy -> dx

// Training: x, gamma, beta -> y, mean, inverse_std, over all but the last dimension, biased
// variance.
struct BatchNorm {
  float epsilon = 1e-3f;
  Activation activation;
};
// x, dy, gamma, mean, inverse_std, [y] -> dx, dgamma, dbeta; y is given when there is an
// activation.
struct BatchNormBackward {
  float epsilon = 1e-3f;
  Activation activation;
};
// moving_mean, moving_variance, mean, inverse_std -> both, in place: moving * momentum + batch * (1
// - momentum). The batch variance is the biased one, as in Keras.
struct UpdateStatistics {
  float momentum = 0.99f;
  float epsilon = 1e-3f;
};
// x, gamma, beta, mean, variance -> y
struct BatchNormInference {
  float epsilon = 1e-3f;
  Activation activation;
};
// x, dy, gamma, mean, variance, [y] -> dx, dgamma, dbeta
struct BatchNormInferenceBackward {
  float epsilon = 1e-3f;
  Activation activation;
};
// kernel, [bias], gamma, beta, mean, variance -> kernel, bias that do both in one convolution
struct FoldBatchNorm {
  float epsilon = 1e-3f;
  bool bias = false;
};

// x, gamma, beta -> y. The channels, in `groups` equal parts, are normalised with the mean and the
// biased variance of their part in the sample, or in the pixel with `of_pixels` (Keras's
// LayerNormalization: one group of each pixel); then y = normalised * gamma + beta.
struct GroupNorm {
  std::int64_t groups = 1;
  bool of_pixels = false;
  float epsilon = 1e-3f;
};
// x, dy, gamma -> dx, dgamma, dbeta
struct GroupNormBackward {
  std::int64_t groups = 1;
  bool of_pixels = false;
  float epsilon = 1e-3f;
};

// x -> y, and dy -> dx: the same op with the same `layer` draws the same mask. Units are kept with
// probability 1 - rate and divided by it; the draw is a function of (seed, layer, step, position of
// the sample in the global batch, unit). A unit is an element, a channel, or the whole sample.
struct Dropout {
  enum class Unit { kElement, kChannel, kSample };
  float rate = 0.5f;
  std::uint32_t layer = 0;
  std::uint64_t seed = 0;
  Unit unit = Unit::kElement;
};

// x, factor -> x * factor. The factor has the shape of x, or is [batch, 1, 1, channels], or has no
// batch and the last dimensions of x.
struct Multiply {};
struct AddBias {};  // x, bias with the last dimensions of x -> x + bias
// a, [b] -> the sum of a * b (of a alone) over what a factor or bias of this shape is repeated for.
struct SumProduct {
  Shape shape;
};

// x [batch, h, w, c] -> [batch, h * height, w * width, c]; bilinear with half-pixel centres, pixels
// outside being the nearest inside (Keras's UpSampling2D).
struct UpSample {
  enum class Kind { kNearest, kBilinear };
  Kind kind = Kind::kNearest;
  std::int64_t height = 2, width = 2;
};
// dy -> dx
struct UpSampleBackward {
  UpSample::Kind kind = UpSample::Kind::kNearest;
  std::int64_t height = 2, width = 2;
};

struct Add {};     // n inputs of one shape -> sum
struct Concat {};  // n inputs -> joined along the last dimension
struct Slice {
  std::int64_t begin = 0, end = 0;
};  // channels [begin, end) of the last dimension
struct Reshape {
  Shape shape;
};  // row-major NHWC order; [batch, ...]
struct ZeroPad {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};
struct Crop {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

enum class LossKind { kSoftmaxCrossEntropy, kBinaryCrossEntropy, kMeanSquaredError };
// logits [batch, n], labels -> loss [batch], [dlogits]. The gradient is of sum(loss) * loss_scale,
// loss_scale being the run-time scalar 1 / (true samples of the global batch).
// Labels are int32 [batch] class indices, or float32 [batch, n] targets. Binary: n is 1 and the
// label is 0 or 1, or n labels as targets. mean_squared_error takes the mean over n; int32 labels
// mean one-hot.
// Focal: each of the cross-entropy's terms -log p, p being the probability of its target, times
// (1 - p)^gamma; softmax: all times alpha; binary: those of target 1 times alpha, those of target 0
// times 1 - alpha, neither when alpha is negative.
// class_weight: empty, or what the loss of a sample of each class is multiplied by; the class of
// targets is the largest one's, of a single target 1 when it is > 0.5.
// sample_weight: float32 labels are [batch, n + 1], whose last number the sample's loss is
// multiplied by; int32 labels have no weight.
struct Focal {
  float gamma = 2;
  float alpha = -1;
};
struct Loss {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  float label_smoothing = 0;
  bool gradient = false;
  std::optional<Focal> focal = {};
  std::vector<float> class_weight = {};
  bool sample_weight = false;
};
// logits [batch, n], labels -> int32 [batch]: how many classes come before the label's, largest
// logit first and the lower class first of equals; 0 is a correct prediction, < k a top-k one.
// Labels are int32 [batch], or float32 [batch, n] with the class at the largest number. A single
// logit stands for two classes: the second when it is > threshold.
struct ClassRank {
  float threshold = 0;
  bool sample_weight = false;  // as Loss's
};
// w -> [1]: factor * sum(w^2) + l1 * sum(|w|)
struct L2Penalty {
  float factor = 0;
  float l1 = 0;
};

// ---- Optimizer rules ---------------------------------------------------------------------------
// g is the gradient, w the parameter, lr the run-time learning rate, t the 1-based update number.

// v = momentum * v - lr * g; w += nesterov ? momentum * v - lr * g : v. Without momentum: w -= lr *
// g.
struct SgdRule {
  float momentum = 0;
  bool nesterov = false;
};
// Keras RMSprop: r = rho r + (1-rho) g^2; [m = rho m + (1-rho) g]; d = r [- m^2] + eps;
// momentum: v = momentum v + lr g / sqrt(d), w -= v; else w -= lr g / sqrt(d)
struct RmsPropRule {
  float rho = 0.9f, momentum = 0, epsilon = 1e-7f;
  bool centered = false;
};
// Keras Adam: m += (g - m)(1 - b1); v += (g^2 - v)(1 - b2); a = lr sqrt(1 - b2^t) / (1 - b1^t);
// w -= a m / (sqrt(v) + eps), v replaced by its running maximum with amsgrad
struct AdamRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;
  bool amsgrad = false;
};
// Keras Nadam: m and v as Adam; u_t = b1 (1 - 0.96^t / 2), U_t the product of u_1 ... u_t;
// w -= lr (u_(t+1) m / (1 - U_(t+1)) + (1 - u_t) g / (1 - U_t)) / (sqrt(v / (1 - b2^t)) + eps)
struct NadamRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;
};
// The factors of m, g and v in update t, from 1.
struct NadamFactors {
  double mean, gradient, square;
};
NadamFactors factors_of(const NadamRule& rule, std::uint64_t t);
// Keras Adagrad: a += g^2, from initial; w -= lr g / sqrt(a + eps)
struct AdagradRule {
  float initial = 0.1f, epsilon = 1e-7f;
};
// Keras Lion: w -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g
struct LionRule {
  float beta_1 = 0.9f, beta_2 = 0.99f;
};
// Keras Lamb: m and v as Adam; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps);
// w -= lr r u with r = norm(w) / norm(u) of the whole parameter, 1 when one of the norms is 0
struct LambRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;
};
using UpdateRule =
    std::variant<SgdRule, RmsPropRule, AdamRule, NadamRule, AdagradRule, LionRule, LambRule>;

struct Clip {
  enum class Kind { kNone, kValue, kNorm, kGlobalNorm } kind = Kind::kNone;
  float limit = 0;
};

// parameter, gradient, slots... [, average] -> in place. In this order: g += 2 * l2 * w + l1 *
// sign(w) (the gradient of L2Penalty; sign(0) is 0), clip, w -= lr * weight_decay * w (decoupled,
// as Keras), the rule, then the average: average = ema * average + (1 - ema) * w when ema > 0 (at
// the first update average = w, as Keras). The learning rate is multiplied by
// learning_rate_multiplier. A parameter that was frozen at first counts its own updates from 1:
// Adam corrects the bias of slots that start at 0.
struct Update {
  UpdateRule rule;
  Clip clip;
  float l2 = 0;
  float weight_decay = 0;
  float learning_rate_multiplier = 1;
  float ema = 0;
  std::uint64_t updates_before = 0;  // of the run, before this parameter was trained
  float l1 = 0;
};

using Op = std::variant<Preprocess, Conv, ConvBackwardData, ConvBackwardWeights, ConvMaxPool,
                        ConvMaxPoolBackwardWeights, Dense, DenseBackwardData, DenseBackwardWeights,
                        Pool, PoolBackward, GlobalPool, GlobalPoolBackward, Activate,
                        ActivateBackward, Softmax, SoftmaxBackward, BatchNorm, BatchNormBackward,
                        UpdateStatistics, BatchNormInference, BatchNormInferenceBackward,
                        FoldBatchNorm, GroupNorm, GroupNormBackward, Dropout, Multiply, AddBias,
                        SumProduct, UpSample, UpSampleBackward, Add, Concat, Slice, Reshape,
                        ZeroPad, Crop, Loss, ClassRank, L2Penalty, Update>;

const char* name_of(const Op& op);   // "conv", "conv_backward_data", ...
std::string describe(const Op& op);  // attributes, for printing: "3x3 stride 2 relu"

}  // namespace trainer::graph
