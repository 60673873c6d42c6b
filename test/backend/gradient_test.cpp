// The gradients of whole models against central differences of the reference's loss on the forward
// graph: autodiff, every pass and the backend in one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "backend/nets.h"

namespace trainer::test::gradient_test {
namespace {

// Nets with repeated factors, groups, tokens, enlarged images, dropped units and absolute
// penalties.
const std::vector<Net>& later_nets() {
  static const std::vector<Net> all{
      {"squeeze and excite", R"({layers: [conv: {filters: 18, name: a},
          global_average_pool: {keepdims: true}, conv: {filters: 4, kernel_size: 1,
          activation: relu}, conv: {filters: 18, kernel_size: 1, activation: hard_sigmoid, name: s},
          multiply: {inputs: [a, s]}, flatten, dense: 4]})"},
      {"products of equal shapes", R"({layers: [conv: {filters: 6, name: a},
          conv: {filters: 6, name: b, inputs: input, activation: sigmoid},
          multiply: {inputs: [a, b]}, layer_scale: 0.7, flatten, dense: 4]})"},
      {"normalization within samples", R"({layers: [conv: {filters: 6}, group_norm: 2,
          activation: relu, conv: {filters: 17}, layer_norm: {center: false}, activation: tanh,
          flatten, dense: 6, layer_norm, dense: 4]})"},
      {"global response normalization", R"({layers: [conv: {filters: 18, activation: tanh},
          global_response_norm: 0.1, conv: {filters: 6}, global_response_norm, flatten,
          dense: 4]})"},
      kTransformer,
      {"enlarged images", R"({layers: [conv: {filters: 5, strides: 2}, up_sampling: 2,
          conv: {filters: 4}, up_sampling: {size: [1, 3], interpolation: bilinear}, flatten,
          dense: 4]})"},
      {"prelu", R"({layers: [conv: {filters: 5}, prelu, conv: {filters: 6},
          prelu: {shared: true}, flatten, dense: 6, prelu, dense: 4]})"},
      {"transposed convolutions with a bias", R"({layers: [conv: {filters: 5, strides: 2},
          conv_transpose: {filters: 18, kernel_size: 4, strides: 2, padding: same,
          activation: relu}, flatten, dense: 4]})"},
      {"dropped channels and samples", R"({layers: [conv: {filters: 6, padding: same, name: a},
          spatial_dropout: 0.3, conv: {filters: 6, padding: same}, drop_path: {rate: 0.4, name: b},
          add: {inputs: [a, b]}, flatten, dense: 4]})"},
      {"penalties of absolute values", R"({layers: [
          conv: {filters: 6, kernel_regularizer: {l1: 0.03, l2: 0.05}}, global_average_pool,
          dense: {units: 5, kernel_regularizer: {l1: 0.1}, activation: sigmoid}, dense: 4]})"}};
  return all;
}

const std::vector<Net>& nets() {
  static const std::vector<Net> all = [] {
    std::vector<Net> made{
        {"cnn",
         R"({layers: [conv: {filters: 5, activation: relu}, max_pool: 2,
            conv: {filters: 18, padding: same, activation: relu}, max_pool: 2, flatten,
            dense: {units: 7, activation: relu}, dense: 4]})",
         {11, 12, 1}},
        {"three channels, odd extents",
         R"({layers: [conv: {filters: 16, kernel_size: 4, padding: same},
            max_pool: {pool_size: 3, strides: 2, padding: same}, activation: relu,
            conv: {filters: 16, strides: 2, padding: same}, max_pool: 2, flatten, dense: 4]})",
         {9, 13, 3}},
        {"batch norm",
         R"({layers: [conv: {filters: 8, use_bias: false}, batch_norm, activation: relu,
            conv: {filters: 20, kernel_size: 1}, batch_norm: {scale: false}, activation: tanh,
            average_pool: 2, flatten, dense: 6, batch_norm: {center: false}, dense: 4]})"},
        {"separable and depthwise", R"({layers: [separable_conv: {filters: 17, padding: same,
            activation: relu}, depthwise_conv: {depth_multiplier: 2, strides: 2, padding: same},
            batch_norm, activation: relu6, global_average_pool, dense: 4]})"},
        {"residual and concatenation", R"({layers: [conv: {filters: 8, padding: same, name: stem},
            batch_norm, activation: relu, conv: {filters: 8, padding: same, name: branch},
            add: {name: sum, inputs: [stem, branch]}, activation: {function: relu, name: after},
            concatenate: {inputs: [after, branch, stem, input]},
            conv: {filters: 6, kernel_size: 1}, global_max_pool, dense: 4]})"},
        {"groups, dilation, padding", R"({layers: [zero_pad: [1, 0, 2, 1],
            conv: {filters: 8, kernel_size: 2, dilation_rate: 2, padding: [1, 0, 0, 2]},
            conv: {filters: 12, groups: 4, activation: elu, kernel_size: [3, 1]},
            average_pool: {pool_size: 3, strides: 2, padding: same}, reshape: {target_shape: [-1]},
            dense: 4]})"},
        {"dropout", R"({layers: [conv: {filters: 16, activation: relu}, dropout: 0.4, flatten,
            dense: {units: 12, activation: relu}, dropout: 0.3, dense: 4]})"},
        {"penalties and smoothing", R"({layers: [
            conv: {filters: 6, kernel_regularizer: {l2: 0.05}}, global_average_pool,
            dense: {units: 5, kernel_regularizer: {l2: 0.1}, activation: sigmoid}, dense: 4],
            label_smoothing: 0.1})"},
        {"softmax as a layer", R"({layers: [flatten, dense: 5, activation: softmax, dense: 4],
            loss: mean_squared_error})"},
        {"mean squared error of targets",
         R"({layers: [conv: {filters: 3}, flatten,
            dense: {units: 4, activation: tanh}, dense: 4], loss: mean_squared_error})",
         {8, 8, 3},
         4,
         false},
        {"soft targets",
         R"({layers: [conv: {filters: 3}, flatten, dense: 4], label_smoothing: 0.2})",
         {8, 8, 3},
         4,
         false},
        {"one binary label",
         R"({layers: [conv: {filters: 3, activation: relu}, flatten, dense: 1],
            loss: binary_cross_entropy, label_smoothing: 0.1})",
         {8, 8, 3},
         2},
        {"binary targets",
         R"({layers: [flatten, dense: {units: 9, activation: relu}, dense: 4],
            loss: binary_cross_entropy})",
         {8, 8, 3},
         4,
         false},
        {"transposed convolutions",
         R"({layers: [conv: {filters: 5, kernel_size: 3, strides: 2},
            conv_transpose: {filters: 4, kernel_size: 3, strides: 2, padding: same,
            use_bias: false}, activation: tanh, conv_transpose: {filters: 3, kernel_size: 2,
            strides: 3, use_bias: false}, flatten, dense: 4]})"},
        {"dense classifier", "{dense_classifier: {hidden_units: [9, 6], dropout: 0.2}}"}};
    for (const std::string activation : {"relu", "relu6", "leaky_relu", "elu", "sigmoid", "tanh",
                                         "gelu", "swish", "hard_swish", "hard_sigmoid", "selu"}) {
      made.push_back({"conv and dense with " + activation,
                      "{layers: [conv: {filters: 5, activation: " + activation +
                          "}, max_pool: 2, flatten, dense: {units: 6, activation: " + activation +
                          "}, dense: 5, batch_norm, activation: " + activation + ", dense: 4]}"});
    }
    made.insert(made.end(), later_nets().begin(), later_nets().end());
    return made;
  }();
  return all;
}

constexpr std::int64_t kSamples = 5;

// Mean loss and penalties of the forward graph.
class Objective {
 public:
  Objective(const Net& net, std::vector<std::vector<double>> inputs)
      : graph_(forward_graph(net)), inputs_(std::move(inputs)), reference_(graph_) {}

  double operator()(const std::map<std::string, std::vector<double>>& values) {
    for (auto& [name, numbers] : reference_.kept) numbers = values.at(name);
    const auto outputs = reference_.run(kSamples, inputs_, gradient_scalars(kSamples));
    double total = 0;
    for (const double loss : outputs[1]) total += loss / static_cast<double>(kSamples);
    for (const graph::Value& value : graph_.values) {
      if (value.role != graph::Role::kParameter || (value.l1 == 0 && value.l2 == 0)) continue;
      for (const double w : values.at(value.name)) {
        total +=
            static_cast<double>(value.l2) * w * w + static_cast<double>(value.l1) * std::abs(w);
      }
    }
    return total;
  }

 private:
  graph::Graph graph_;
  std::vector<std::vector<double>> inputs_;
  Reference reference_;
};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

// Central differences at a few elements of each parameter.
void check_differences(const Net& net, const std::vector<std::vector<double>>& inputs,
                       std::map<std::string, std::vector<double>> values, const Reference& stepped,
                       const std::vector<std::string>& names) {
  Objective objective(net, inputs);
  const auto before = values;
  for (const std::string& name : names) {
    std::vector<double>& w = values.at(name);
    const std::vector<double> gradient = lost(stepped, before, {name});
    // How large an element usually is; some parameters' gradients are zero (a bias before batch
    // norm).
    const double size = std::max(norm(gradient) / std::sqrt(static_cast<double>(w.size())), 1e-3);
    for (std::size_t k = 0; k < 5 && k < w.size(); ++k) {
      const std::size_t i = k * (w.size() - 1) / 4 % w.size();
      const double step = 1e-6, old = w[i];
      w[i] = old + step;
      const double above = objective(values);
      w[i] = old - step;
      const double slope = (above - objective(values)) / (2 * step);
      w[i] = old;
      CHECK_MESSAGE(std::abs(slope - gradient[i]) < 1e-4 * size, net.name, ": ", name, "[", i,
                    "]: gradient ", gradient[i], ", difference ", slope);
    }
  }
}

void check_net(const Net& net) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const graph::Graph graph = training_graph(net, type);
    const auto values = starting_values(graph, type);
    const auto inputs = batch(graph, kSamples, net);
    const auto names = trained(graph);
    Reference reference(graph);
    reference.kept = values;
    const auto outputs = reference.run(kSamples, inputs, gradient_scalars(kSamples));
    if (type == DType::kFloat32) check_differences(net, inputs, values, reference, names);
    const std::vector<double> expected = lost(reference, values, names);
    for (const Setup& setup : setups()) {
      if (setup.type != type) continue;
      backend::CompileOptions options;
      options.max_samples = kSamples;
      Runner runner(open(setup), graph, options);
      start(runner, values);
      const auto got = runner.run(kSamples, inputs, gradient_scalars(kSamples));
      // On GPUs gradients of kernels leave the convolution in 16 bits. The CPU pools the sums of
      // the first convolution before it rounds them, in the net that has such a pooling.
      const bool rounds_elsewhere = setup.instruction_set == "cuda" || net.name == "cnn";
      const double half_tolerance = rounds_elsewhere ? 6e-2 : 4e-2;
      const double tolerance = type == DType::kFloat32 ? 3e-5 : half_tolerance;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = distance(got[i], outputs[i]);
        CHECK_MESSAGE(d < tolerance, net.name, ", ", to_string(setup), ", output ", i,
                      ": relative distance ", d);
      }
      const double d = distance(lost(runner, values, names), expected);
      CHECK_MESSAGE(d < tolerance, net.name, ", ", to_string(setup),
                    ", gradients: relative distance ", d);
      for (const auto& [name, kept] : reference.kept) {
        if (name.find("moving") == std::string::npos) continue;
        const double m = distance(runner.read(name), kept);
        CHECK_MESSAGE(m < tolerance, net.name, ", ", to_string(setup), ", ", name,
                      ": relative distance ", m);
      }
    }
  }
}

}  // namespace

TEST_CASE("training_graph: gradients of models match the central differences of their loss") {
  for (const Net& net : nets()) {
    try {
      check_net(net);
    } catch (const std::exception& error) {
      FAIL_CHECK(net.name, ": ", std::string(error.what()));
    }
  }
}

// The second model has a dense layer that lanes would compute together, if its bias had a gradient.
TEST_CASE("training_graph: every rule keeps a bias before batch norm unchanged bit by bit") {
  const Net nets[] = {{"small", R"({layers: [conv: {filters: 8}, batch_norm, activation: relu,
                          flatten, dense: 6, batch_norm, dense: 4]})"},
                      {"large",
                       R"({layers: [conv: {filters: 20}, flatten, dense: 400,
                          batch_norm: {center: false, scale: false}]})",
                       {8, 8, 3},
                       400}};
  for (const Net& net : nets) {
    for (const graph::UpdateRule& rule :
         {graph::UpdateRule(graph::SgdRule{0.9f}), graph::UpdateRule(graph::AdamRule{}),
          graph::UpdateRule(graph::LionRule{}), graph::UpdateRule(graph::LambRule{})}) {
      graph::Update update;
      update.rule = rule;
      const graph::Graph graph = training_graph(net, DType::kFloat32, update);
      auto values = starting_values(graph);
      for (const graph::Value& value : graph.values) {
        if (value.role != graph::Role::kSlot) continue;
        std::fill(values.at(value.name).begin(), values.at(value.name).end(), 0.0);
      }
      for (const Setup& setup : setups()) {
        if (setup.type != DType::kFloat32) continue;
        CAPTURE(net.name);
        CAPTURE(rule.index());
        CAPTURE(to_string(setup));
        backend::CompileOptions options;
        options.max_samples = kSamples;
        Runner runner(open(setup), graph, options);
        start(runner, values);
        backend::Scalars scalars = gradient_scalars(kSamples);
        scalars.learning_rate = 0.01;
        for (std::uint64_t step = 0; step < 3; ++step) {
          runner.run(kSamples, batch(graph, kSamples, net, step), scalars);
        }
        for (const std::string name : {"conv2d", "dense"}) {
          if (name == "conv2d" && net.name == "large") continue;
          CHECK(distance(runner.read(name + "/bias"), values.at(name + "/bias")) == 0);
          CHECK(distance(runner.read(name + "/kernel"), values.at(name + "/kernel")) > 1e-4);
        }
      }
    }
  }
}

}  // namespace trainer::test::gradient_test
