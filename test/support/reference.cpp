#include "support/reference.h"

#include <array>
#include <cmath>

#include "base/numbers/half.h"
#include "base/numbers/random.h"

namespace trainer::test {

double to_bf16(double x) {
  return static_cast<double>(bfloat16_to_float(float_to_bfloat16(static_cast<float>(x))));
}

namespace {

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

void evaluate(const graph::Dropout& op, const Site& s) {
  const Tensor& x = s.in(0);
  const std::int64_t elements = x.size() / x.shape[0];
  const auto find_unit = [&op, &x](std::int64_t element) {
    if (op.unit == graph::Dropout::Unit::kSample) return std::int64_t{0};
    return op.unit == graph::Dropout::Unit::kChannel ? element % x.channels() : element;
  };
  const std::uint64_t step = s.scalars.update;
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(op.seed) ^ 0x04000000u,
                                         static_cast<std::uint32_t>(op.seed >> 32)};
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::uint64_t sample = s.scalars.first_sample + static_cast<std::uint64_t>(i / elements);
    const std::int64_t element = find_unit(i % elements);
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

void evaluate(const graph::ZeroGradient&, const Site& s) {
  std::fill(s.out(0).data.begin(), s.out(0).data.end(), 0.0);
}

void evaluate(const graph::Reshape&, const Site& s) { s.out(0).data = s.in(0).data; }

// Calls f(element of the small image, element of the large one). Tokens are an image of one column.
template <class F>
void rectangle(const Shape& small, const Shape& large, std::int64_t top, std::int64_t left,
               const F& f) {
  if (small.rank() == 3) {
    const auto image = [](const Shape& x) { return Shape{x[0], x[1], 1, x[2]}; };
    return rectangle(image(small), image(large), top, left, f);
  }
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
  for (std::size_t i = 0; i < inputs.size(); ++i) tensor(graph_.inputs[i]).data = inputs[i];
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
      for (const graph::ValueId id : node.inputs) site.inputs.push_back(&tensor(id));
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
  for (const graph::ValueId id : node.inputs) site.inputs.push_back(&tensor(id));
  for (const graph::ValueId id : node.outputs) {
    Tensor& output = tensor(id);
    output.data.assign(static_cast<std::size_t>(output.shape.elements()), 0.0);
    site.outputs.push_back(&output);
  }
  run_op(node.op, site);
  for (const graph::ValueId id : node.outputs) {
    if (graph_[id].type != DType::kBFloat16) continue;
    for (double& x : tensor(id).data) x = to_bf16(x);
  }
}

double Reference::global_norm() const {
  double sum = 0;
  for (const graph::Node& node : graph_.nodes) {
    const auto* update = std::get_if<graph::Update>(&node.op);
    if (update == nullptr) continue;
    const double norm = compute_norm(tensor(node.inputs[0]), tensor(node.inputs[1]), *update);
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

}  // namespace trainer::test
