#include "support/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "base/random.h"

namespace trainer::test {

using graph::Activation;

double to_bf16(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return static_cast<double>(
      std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u));
}

double activate(const Activation& a, double x) {
  const double alpha = static_cast<double>(a.alpha);
  switch (a.kind) {
    case Activation::Kind::kLinear:
      return x;
    case Activation::Kind::kRelu:
      return std::max(x, 0.0);
    case Activation::Kind::kRelu6:
      return std::min(std::max(x, 0.0), 6.0);
    case Activation::Kind::kLeakyRelu:
      return x > 0 ? x : alpha * x;
    case Activation::Kind::kElu:
      return x > 0 ? x : alpha * (std::exp(x) - 1);
    case Activation::Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::Kind::kTanh:
      return std::tanh(x);
    case Activation::Kind::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::Kind::kSwish:
      return x / (1 + std::exp(-x));
  }
  throw std::logic_error("unknown activation");
}

double activation_slope(const Activation& a, double x) {
  const double s = 1 / (1 + std::exp(-x));
  switch (a.kind) {
    case Activation::Kind::kGelu:
      return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
    case Activation::Kind::kSwish:
      return s + x * s * (1 - s);
    default:
      return slope_at_output(a, activate(a, x));
  }
}

double slope_at_output(const Activation& a, double y) {
  const double alpha = static_cast<double>(a.alpha);
  switch (a.kind) {
    case Activation::Kind::kLinear:
      return 1;
    case Activation::Kind::kRelu:
      return y > 0 ? 1 : 0;
    case Activation::Kind::kRelu6:
      return y > 0 && y < 6 ? 1 : 0;
    case Activation::Kind::kLeakyRelu:
      return y > 0 ? 1 : alpha;
    case Activation::Kind::kElu:
      return y > 0 ? 1 : y + alpha;
    case Activation::Kind::kSigmoid:
      return y * (1 - y);
    case Activation::Kind::kTanh:
      return 1 - y * y;
    default:
      throw std::logic_error("not differentiable from its output");
  }
}

namespace {

double number(float x) { return static_cast<double>(x); }

void evaluate(const graph::Preprocess& op, const Site& s) {
  const Tensor& x = s.in(0);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const auto c = static_cast<std::size_t>(i % x.channels());
    const std::int64_t from =
        op.reverse_channels ? i - i % x.channels() + x.channels() - 1 - i % x.channels() : i;
    s.out(0)[i] = (x[from] * number(op.scale) - number(op.mean[c])) / number(op.std[c]);
  }
}

void evaluate(const graph::Dense& op, const Site& s) {
  const Tensor &x = s.in(0), &kernel = s.in(1);
  Tensor& y = s.out(0);
  const std::int64_t inputs = x.channels(), units = y.channels();
  for (std::int64_t o = 0; o < y.size(); ++o) {
    double sum = op.bias ? s.in(2)[o % units] : 0;
    for (std::int64_t i = 0; i < inputs; ++i) {
      sum += x[o / units * inputs + i] * kernel[i * units + o % units];
    }
    y[o] = activate(op.activation, sum);
  }
}

void evaluate(const graph::DenseBackwardData& op, const Site& s) {
  const Tensor &dy = s.in(0), &kernel = s.in(1);
  const std::int64_t units = dy.channels();
  for (std::int64_t o = 0; o < dy.size(); ++o) {
    for (std::int64_t i = 0; i < op.inputs; ++i) {
      s.out(0)[o / units * op.inputs + i] += dy[o] * kernel[i * units + o % units];
    }
  }
}

void evaluate(const graph::DenseBackwardWeights& op, const Site& s) {
  const Tensor &x = s.in(0), &dy = s.in(1);
  const std::int64_t inputs = x.channels(), units = dy.channels();
  for (std::int64_t o = 0; o < dy.size(); ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      s.out(0)[i * units + o % units] += x[o / units * inputs + i] * dy[o];
    }
    if (op.bias) s.out(1)[o % units] += dy[o];
  }
}

void evaluate(const graph::Activate& op, const Site& s) {
  for (std::int64_t i = 0; i < s.in(0).size(); ++i)
    s.out(0)[i] = activate(op.activation, s.in(0)[i]);
}

void evaluate(const graph::ActivateBackward& op, const Site& s) {
  for (std::int64_t i = 0; i < s.in(0).size(); ++i) {
    const double saved = s.in(0)[i];
    s.out(0)[i] = s.in(1)[i] * (op.activation.differentiable_from_output()
                                    ? slope_at_output(op.activation, saved)
                                    : activation_slope(op.activation, saved));
  }
}

void evaluate(const graph::Softmax&, const Site& s) {
  const Tensor& x = s.in(0);
  const std::int64_t n = x.channels();
  for (std::int64_t row = 0; row < x.size(); row += n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[row + i]);
    for (std::int64_t i = 0; i < n; ++i) s.out(0)[row + i] = std::exp(x[row + i]) / sum;
  }
}

// dx_j = sum_i dy_i dy_i/dx_j with dy_i/dx_j = y_i (i == j) - y_i y_j.
void evaluate(const graph::SoftmaxBackward&, const Site& s) {
  const Tensor &y = s.in(0), &dy = s.in(1);
  const std::int64_t n = y.channels();
  for (std::int64_t row = 0; row < y.size(); row += n) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        s.out(0)[row + j] +=
            dy[row + i] * (y[row + i] * (i == j ? 1 : 0) - y[row + i] * y[row + j]);
      }
    }
  }
}

void evaluate(const graph::BatchNorm& op, const Site& s) {
  const Tensor& x = s.in(0);
  Tensor &y = s.out(0), &mean = s.out(1), &inverse_std = s.out(2);
  const std::int64_t channels = x.channels();
  const double count = static_cast<double>(x.size() / channels);
  std::vector<double> variance(static_cast<std::size_t>(channels), 0.0);
  for (std::int64_t i = 0; i < x.size(); ++i) mean[i % channels] += x[i] / count;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - mean[i % channels];
    variance[static_cast<std::size_t>(i % channels)] += d * d / count;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse_std[c] = 1 / std::sqrt(variance[static_cast<std::size_t>(c)] + number(op.epsilon));
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    y[i] = activate(op.activation, (x[i] - mean[c]) * inverse_std[c] * s.in(1)[c] + s.in(2)[c]);
  }
}

// Both forms: normalised = (x - mean) * scale; in training form mean and scale depend on x.
void norm_backward(const Activation& activation, const Tensor& scale, bool training,
                   const Site& s) {
  const Tensor &x = s.in(0), &dy = s.in(1), &gamma = s.in(2), &mean = s.in(3);
  Tensor &dx = s.out(0), &dgamma = s.out(1), &dbeta = s.out(2);
  const std::int64_t channels = x.channels();
  const double count = static_cast<double>(x.size() / channels);
  std::vector<double> g = dy.data;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    double& each = g[static_cast<std::size_t>(i)];
    if (!activation.linear()) each *= slope_at_output(activation, s.in(5)[i]);
    dgamma[c] += each * (x[i] - mean[c]) * scale[c];
    dbeta[c] += each;
  }
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % channels;
    double d = g[static_cast<std::size_t>(i)];
    if (training) d -= (dbeta[c] + (x[i] - mean[c]) * scale[c] * dgamma[c]) / count;
    dx[i] = gamma[c] * scale[c] * d;
  }
}

Tensor inverse_deviation(const Tensor& variance, float epsilon) {
  Tensor scale = variance;
  for (double& v : scale.data) v = 1 / std::sqrt(v + number(epsilon));
  return scale;
}

void evaluate(const graph::BatchNormBackward& op, const Site& s) {
  norm_backward(op.activation, s.in(4), true, s);
}

void evaluate(const graph::BatchNormInferenceBackward& op, const Site& s) {
  norm_backward(op.activation, inverse_deviation(s.in(4), op.epsilon), false, s);
}

void evaluate(const graph::UpdateStatistics& op, const Site& s) {
  const double keep = number(op.momentum);
  for (std::int64_t c = 0; c < s.in(0).size(); ++c) {
    const double is = s.in(3)[c];
    s.in(0)[c] = s.in(0)[c] * keep + s.in(2)[c] * (1 - keep);
    s.in(1)[c] = s.in(1)[c] * keep + (1 / (is * is) - number(op.epsilon)) * (1 - keep);
  }
  s.out(0) = s.in(0);
  s.out(1) = s.in(1);
}

void evaluate(const graph::BatchNormInference& op, const Site& s) {
  const Tensor &x = s.in(0), &gamma = s.in(1), &beta = s.in(2), &mean = s.in(3);
  const Tensor scale = inverse_deviation(s.in(4), op.epsilon);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t c = i % x.channels();
    s.out(0)[i] = activate(op.activation, (x[i] - mean[c]) * scale[c] * gamma[c] + beta[c]);
  }
}

void evaluate(const graph::FoldBatchNorm& op, const Site& s) {
  const std::size_t first = op.bias ? 2 : 1;
  const Tensor &gamma = s.in(first), &beta = s.in(first + 1), &mean = s.in(first + 2);
  const Tensor scale = inverse_deviation(s.in(first + 3), op.epsilon);
  const std::int64_t channels = gamma.size();
  for (std::int64_t i = 0; i < s.in(0).size(); ++i) {
    s.out(0)[i] = s.in(0)[i] * gamma[i % channels] * scale[i % channels];
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    s.out(1)[c] = ((op.bias ? s.in(1)[c] : 0) - mean[c]) * gamma[c] * scale[c] + beta[c];
  }
}

void evaluate(const graph::Dropout& op, const Site& s) {
  const Tensor& x = s.in(0);
  const std::int64_t elements = x.size() / x.shape[0];
  const std::uint64_t step = s.scalars.update;
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(op.seed) ^ 0x04000000u,
                                         static_cast<std::uint32_t>(op.seed >> 32)};
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::uint64_t sample = s.scalars.first_sample + static_cast<std::uint64_t>(i / elements);
    const std::int64_t element = i % elements;
    const auto draws =
        philox4x32({static_cast<std::uint32_t>(element / 4), static_cast<std::uint32_t>(sample),
                    static_cast<std::uint32_t>(step),
                    (op.layer << 8) ^ static_cast<std::uint32_t>(step >> 32)},
                   key);
    const double uniform =
        static_cast<double>(draws[static_cast<std::size_t>(element % 4)] >> 8) / 16777216.0;
    s.out(0)[i] = uniform < std::floor(number(op.rate) * 16777216.0) / 16777216.0
                      ? 0
                      : x[i] / (1 - number(op.rate));
  }
}

void evaluate(const graph::Add&, const Site& s) {
  for (const Tensor* x : s.inputs) {
    for (std::int64_t i = 0; i < x->size(); ++i) s.out(0)[i] += (*x)[i];
  }
}

void evaluate(const graph::Concat&, const Site& s) {
  Tensor& y = s.out(0);
  std::int64_t begin = 0;
  for (const Tensor* x : s.inputs) {
    for (std::int64_t i = 0; i < x->size(); ++i) {
      y[i / x->channels() * y.channels() + begin + i % x->channels()] = (*x)[i];
    }
    begin += x->channels();
  }
}

void evaluate(const graph::Slice& op, const Site& s) {
  Tensor& y = s.out(0);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    y[i] = s.in(0)[i / y.channels() * s.in(0).channels() + op.begin + i % y.channels()];
  }
}

void evaluate(const graph::Reshape&, const Site& s) { s.out(0).data = s.in(0).data; }

// Calls f(element of the small image, element of the large one).
template <class F>
void rectangle(const Shape& small, const Shape& large, std::int64_t top, std::int64_t left,
               const F& f) {
  for (std::int64_t i = 0; i < small.elements(); ++i) {
    const std::int64_t c = i % small[3], x = i / small[3] % small[2];
    const std::int64_t y = i / (small[3] * small[2]) % small[1];
    const std::int64_t n = i / (small[3] * small[2] * small[1]);
    f(i, ((n * large[1] + y + top) * large[2] + x + left) * large[3] + c);
  }
}

void evaluate(const graph::ZeroPad& op, const Site& s) {
  rectangle(s.in(0).shape, s.out(0).shape, op.top, op.left,
            [&](std::int64_t small, std::int64_t large) { s.out(0)[large] = s.in(0)[small]; });
}

void evaluate(const graph::Crop& op, const Site& s) {
  rectangle(s.out(0).shape, s.in(0).shape, op.top, op.left,
            [&](std::int64_t small, std::int64_t large) { s.out(0)[small] = s.in(0)[large]; });
}

namespace {

// Focal terms and their derivatives by the logit, from the probabilities p of a row.
struct Slope {
  double loss = 0, slope = 0;
};

// Of -alpha t (1 - p)^gamma log p by every logit: `at` is the place of the term, `by` the logit's.
Slope softmax_focal(const graph::Focal& focal, const std::vector<double>& p, double t,
                    std::size_t at, std::size_t by) {
  const double gamma = number(focal.gamma), alpha = number(focal.alpha), q = p[at];
  const double by_p = gamma * std::pow(1 - q, gamma - 1) * std::log(q) - std::pow(1 - q, gamma) / q;
  return {-alpha * t * std::pow(1 - q, gamma) * std::log(q),
          alpha * t * by_p * q * ((at == by ? 1 : 0) - p[by])};
}

// Of w q^gamma b, q being the share that p misses t by and b the cross-entropy.
Slope binary_focal(const graph::Focal& focal, double p, double t) {
  const double gamma = number(focal.gamma), alpha = number(focal.alpha);
  const double weight = alpha < 0 ? 1 : t * alpha + (1 - t) * (1 - alpha);
  const double q = t * (1 - p) + (1 - t) * p;
  const double b = -t * std::log(p) - (1 - t) * std::log(1 - p);
  const double b_by_p = (p - t) / (p * (1 - p)), q_by_p = 1 - 2 * t;
  const double by_p = gamma * std::pow(q, gamma - 1) * q_by_p * b + std::pow(q, gamma) * b_by_p;
  return {weight * std::pow(q, gamma) * b, weight * by_p * p * (1 - p)};
}

}  // namespace

void evaluate(const graph::Loss& op, const Site& s) {
  const Tensor &x = s.in(0), &labels = s.in(1);
  const std::int64_t n = x.channels();
  const bool index = labels.shape.rank() == 1;
  const double smoothing = number(op.label_smoothing), count = static_cast<double>(n);
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    double sum = 0, mass = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i]);
    const auto target = [&](std::int64_t i) {
      double t = !index ? labels[row * n + i]
                 : op.kind == graph::LossKind::kBinaryCrossEntropy || n == 1
                     ? labels[row]
                     : (labels[row] == static_cast<double>(i) ? 1.0 : 0.0);
      if (op.kind == graph::LossKind::kSoftmaxCrossEntropy)
        t = t * (1 - smoothing) + smoothing / count;
      if (op.kind == graph::LossKind::kBinaryCrossEntropy) t = t * (1 - smoothing) + smoothing / 2;
      return t;
    };
    for (std::int64_t i = 0; i < n; ++i) mass += target(i);
    std::vector<double> chances(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      chances[static_cast<std::size_t>(i)] = std::exp(x[row * n + i]) / sum;
    }
    double weight = 1;
    if (!op.class_weight.empty()) {
      std::int64_t label = index ? static_cast<std::int64_t>(labels[row]) : 0;
      if (!index && n == 1) label = labels[row] > 0.5 ? 1 : 0;
      for (std::int64_t i = 1; !index && i < n; ++i) {
        if (labels[row * n + i] > labels[row * n + label]) label = i;
      }
      weight = number(op.class_weight[static_cast<std::size_t>(label)]);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = x[row * n + i], t = target(i);
      double loss = 0, slope = 0;
      if (op.focal && op.kind == graph::LossKind::kSoftmaxCrossEntropy) {
        const auto by = static_cast<std::size_t>(i);
        loss = softmax_focal(*op.focal, chances, t, by, by).loss;
        for (std::size_t at = 0; at < chances.size(); ++at) {
          slope += softmax_focal(*op.focal, chances, target(static_cast<std::int64_t>(at)), at, by)
                       .slope;
        }
      } else if (op.focal && op.kind == graph::LossKind::kBinaryCrossEntropy) {
        const Slope focal = binary_focal(*op.focal, 1 / (1 + std::exp(-v)), t);
        loss = focal.loss / count;
        slope = focal.slope / count;
      } else if (op.kind == graph::LossKind::kSoftmaxCrossEntropy) {
        loss = -t * std::log(std::exp(v) / sum);
        slope = std::exp(v) / sum * mass - t;
      } else if (op.kind == graph::LossKind::kBinaryCrossEntropy) {
        const double p = 1 / (1 + std::exp(-v));
        loss = (-t * std::log(p) - (1 - t) * std::log(1 - p)) / count;
        slope = (p - t) / count;
      } else {
        loss = (v - t) * (v - t) / count;
        slope = 2 * (v - t) / count;
      }
      s.out(0)[row] += weight * loss;
      if (op.gradient) s.out(1)[row * n + i] = weight * slope * s.scalars.loss_scale;
    }
  }
}

void evaluate(const graph::ClassRank& op, const Site& s) {
  const Tensor& logits = s.in(0);
  const Tensor& labels = s.in(1);
  const auto n = static_cast<std::size_t>(logits.shape[1]);
  for (std::size_t row = 0; row < s.out(0).data.size(); ++row) {
    const double* x = logits.data.data() + row * n;
    const bool index = labels.shape.rank() == 1;
    const double* targets = labels.data.data() + row * (index ? 1 : n);
    if (n == 1) {
      s.out(0)[row] = (x[0] > number(op.threshold)) == (targets[0] > 0.5) ? 0 : 1;
      continue;
    }
    const auto label =
        index ? static_cast<std::size_t>(targets[0])
              : static_cast<std::size_t>(std::max_element(targets, targets + n) - targets);
    double rank = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const bool before = x[i] > x[label] || (x[i] == x[label] && i < label);
      rank += before ? 1 : 0;
    }
    s.out(0)[row] = rank;
  }
}

void evaluate(const graph::L2Penalty& op, const Site& s) {
  for (const double w : s.in(0).data) s.out(0)[0] += number(op.factor) * w * w;
}

}  // namespace

void run_op(const graph::Op& op, const Site& site) {
  std::visit([&](const auto& one) { evaluate(one, site); }, op);
}

Reference::Reference(graph::Graph graph) : graph_(std::move(graph)) {
  for (const graph::Value& value : graph_.values) {
    if (graph::is_persistent(value.role)) {
      kept[value.name].assign(static_cast<std::size_t>(value.shape.elements()), 0.0);
    }
  }
}

std::vector<std::vector<double>> Reference::run(std::int64_t samples,
                                                const std::vector<std::vector<double>>& inputs,
                                                const backend::Scalars& scalars) {
  values_.assign(graph_.values.size(), {});
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const graph::Value& value = graph_.values[i];
    values_[i].shape = value.shape.batched() ? value.shape.with_batch(samples) : value.shape;
    if (graph::is_persistent(value.role)) values_[i].data = kept.at(value.name);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values_[static_cast<std::size_t>(graph_.inputs[i])].data = inputs[i];
  }
  const auto is_update = [](const graph::Node& node) {
    return std::holds_alternative<graph::Update>(node.op);
  };
  for (const graph::Node& node : graph_.nodes) {
    if (!is_update(node)) run_node(node, scalars);
  }
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    if (graph_.values[i].role != graph::Role::kGradient) continue;
    std::vector<double>& sum = gradient_sums_[static_cast<graph::ValueId>(i)];
    sum.resize(values_[i].data.size(), 0.0);
    for (std::size_t k = 0; k < sum.size(); ++k) {
      sum[k] = (scalars.accumulate ? sum[k] : 0.0) + values_[i].data[k];
    }
    values_[i].data = sum;
  }
  if (scalars.apply) {
    const double norm = global_norm();
    for (const graph::Node& node : graph_.nodes) {
      if (!is_update(node)) continue;
      Site site{{}, {}, scalars, norm};
      for (const graph::ValueId id : node.inputs) {
        site.inputs.push_back(&values_[static_cast<std::size_t>(id)]);
      }
      evaluate(std::get<graph::Update>(node.op), site);
    }
  }
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    if (graph::is_persistent(graph_.values[i].role)) kept[graph_.values[i].name] = values_[i].data;
  }
  std::vector<std::vector<double>> outputs;
  for (const graph::ValueId id : graph_.outputs) outputs.push_back(value(id));
  return outputs;
}

void Reference::run_node(const graph::Node& node, const backend::Scalars& scalars) {
  Site site{{}, {}, scalars, 0};
  for (const graph::ValueId id : node.inputs) {
    site.inputs.push_back(&values_[static_cast<std::size_t>(id)]);
  }
  for (const graph::ValueId id : node.outputs) {
    Tensor& tensor = values_[static_cast<std::size_t>(id)];
    tensor.data.assign(static_cast<std::size_t>(tensor.shape.elements()), 0.0);
    site.outputs.push_back(&tensor);
  }
  run_op(node.op, site);
  for (const graph::ValueId id : node.outputs) {
    if (graph_[id].type != DType::kBFloat16) continue;
    for (double& x : values_[static_cast<std::size_t>(id)].data) x = to_bf16(x);
  }
}

double Reference::global_norm() const {
  double sum = 0;
  for (const graph::Node& node : graph_.nodes) {
    const auto* update = std::get_if<graph::Update>(&node.op);
    if (update == nullptr) continue;
    const double norm = norm_of(values_[static_cast<std::size_t>(node.inputs[0])],
                                values_[static_cast<std::size_t>(node.inputs[1])], update->l2);
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

}  // namespace trainer::test
