#include <doctest/doctest.h>

#include "model/build_model.h"
#include "support/model.h"

namespace trainer::model {
namespace {

// The messages of all mistakes, one per line.
std::string mistakes(const std::string& model, const SampleSpec& spec,
                     const std::string& rest = "") {
  const config::Config config = test::build_config(model, rest);
  try {
    build_model(config.model, config.data, spec, 1);
  } catch (const ConfigError& error) {
    std::string all;
    for (const Diagnostic& each : error.diagnostics()) {
      CHECK(each.loc.known());
      if (!all.empty()) all += '\n';
      all += each.message;
    }
    return all;
  }
  return "";
}

const SampleSpec kDigits = test::sample({28, 28, 1}, 10);

}  // namespace

TEST_CASE("build_model: a last layer without one number per class is an error") {
  CHECK(
      mistakes("{layers: [conv: {filters: 4}]}", kDigits) ==
      "conv2d: the last layer gives [batch, 26, 26, 4], expected [batch, 10], one number for each "
      "of the 10 classes; end the model with flatten and dense: {units: 10}");
  CHECK(
      mistakes("{layers: [flatten, dense: {units: 9}]}", kDigits) ==
      "dense: the last layer gives [batch, 9], expected [batch, 10], one number for each of the 10 "
      "classes; set units: 10");
  CHECK(mistakes("{layers: [conv: {filters: 4}, global_average_pool]}", kDigits) ==
        "global_average_pooling2d: the last layer gives [batch, 4], expected [batch, 10], one "
        "number for each of the 10 classes; end the model with dense: {units: 10}");
  CHECK(mistakes("{layers: [flatten, dense: {units: 2}], loss: binary_cross_entropy}",
                 test::sample({4, 4, 1}, 2)) ==
        "dense: the last layer gives [batch, 2], expected [batch, 1], one logit for "
        "binary_cross_entropy of two classes; set units: 1");
  CHECK(mistakes("{layers: [flatten, dense: {units: 1}], loss: binary_cross_entropy}", kDigits) ==
        "dense: the last layer gives [batch, 1], expected [batch, 10], one number for each of the "
        "10 classes; set units: 10");
  CHECK(mistakes("{layers: [flatten, dense: {units: 1}], loss: binary_cross_entropy}",
                 test::sample({4, 4, 1}, 1)) ==
        "binary_cross_entropy needs two classes or more, the data set has 1");
  CHECK(mistakes("{layers: [flatten, dense: {units: 1}], loss: binary_cross_entropy}",
                 test::sample({4, 4, 1}, 2))
            .empty());
  // The number of classes may be unknown, but two of them never have two logits.
  const std::string five = "{layers: [flatten, dense: {units: 5}], loss: binary_cross_entropy}";
  CHECK(mistakes(five, test::sample({4, 4, 1}, 5)).empty());
  CHECK(mistakes(five, test::sample({4, 4, 1}, 0)).empty());
  CHECK(mistakes("{layers: [flatten, dense: {units: 2}], loss: binary_cross_entropy}",
                 test::sample({4, 4, 1}, 0)) ==
        "dense: the last layer gives [batch, 2], expected [batch, 1], one logit for "
        "binary_cross_entropy of two classes; set units: 1");
}

TEST_CASE("build_model: softmax or sigmoid before a loss that takes logits is an error") {
  const std::string softmax =
      "softmax_cross_entropy takes logits and applies its own function to them; remove the softmax "
      "at the end of the model";
  CHECK(mistakes("{layers: [flatten, dense: {units: 10, activation: softmax}]}", kDigits) ==
        "dense: " + softmax);
  CHECK(mistakes("{layers: [flatten, dense: {units: 10}, activation: softmax]}", kDigits) ==
        "activation: " + softmax);
  CHECK(mistakes("{layers: [flatten, dense: {units: 1, activation: sigmoid}], loss: "
                 "binary_cross_entropy}",
                 test::sample({4, 4, 1}, 2))
            .find("remove the sigmoid") != std::string::npos);
  CHECK(mistakes("{layers: [flatten, dense: {units: 10, activation: softmax}], loss: "
                 "mean_squared_error}",
                 kDigits)
            .empty());
}

TEST_CASE("build_model reports each mistake that does not follow from another") {
  const std::string all = mistakes(R"(
  layers:
    - conv: {filters: 4, kernel_size: 40, name: big}
    - conv: {filters: 4, name: above}
    - dense: {units: 3, name: early, inputs: [input]}
    - add: {inputs: [above, early]}
    - flatten
    - reshape: {target_shape: [5, 5], inputs: [input]}
    - dense: {units: 10})",
                                   kDigits);
  CHECK(
      all ==
      "big: window 40x40 does not fit into 28x28 (input [batch, 28, 28, 1]); use a smaller window, "
      "padding: same, or fewer strides and poolings before it\n"
      "early: expects [batch, features], but its input is [batch, 28, 28, 1]; put flatten or "
      "global_average_pool before it\n"
      "reshape: cannot reshape [batch, 28, 28, 1] (784 numbers per sample) to [batch, 5, 5]\n"
      "flatten: no later layer uses this one; name it in the inputs of a later layer, or remove "
      "it");
}

TEST_CASE("build_model: options that do not fit the input are an error") {
  CHECK(
      mistakes("{layers: [reshape: {target_shape: [-1, 5]}, flatten, dense: {units: 10}]}", kDigits)
          .find("the other entries make 5, which does not divide the 784 numbers") !=
      std::string::npos);
  CHECK(mistakes("{layers: [reshape: {target_shape: [28, 29]}, flatten, dense: {units: 10}]}",
                 kDigits)
            .find("cannot reshape [batch, 28, 28, 1]") != std::string::npos);
  CHECK(mistakes("{layers: [flatten, dense: {units: 10}], input: [32, 32, 3]}", kDigits) ==
        "model.input is [32, 32, 3], but the data set's images are [28, 28, 1]; remove model.input "
        "or "
        "give these numbers");
  CHECK(mistakes("{layers: [flatten, dense: {units: 10}]}", kDigits,
                 "data: {format: synthetic, normalize: {mean: [1, 2, 3]}}\n") ==
        "data.normalize.mean has 3 numbers, but the images have 1 channels; give one, or one per "
        "channel");
  // The numbers of a preset are not written by the user.
  for (const std::string preset : {"caffe", "torch"}) {
    CHECK(mistakes("{layers: [flatten, dense: {units: 10}]}", kDigits,
                   "data: {format: synthetic, preprocess: " + preset + "}\n") ==
          "data.preprocess: " + preset +
              " needs images of 3 channels, but these have 1; use tf or scale, or data.normalize "
              "in its place");
  }
}

TEST_CASE("build_model: layers that do not fit their inputs are an error") {
  const auto message = [](const std::string& layers) {
    return mistakes("{layers: [" + layers + ", flatten, dense: {units: 10}]}", kDigits);
  };
  CHECK(message("group_norm: 32").find("groups: 32 does not divide the 1 channels") !=
        std::string::npos);
  CHECK(message("flatten, up_sampling: 2").find("expects an image") != std::string::npos);
  CHECK(message("flatten, conv_transpose: {filters: 3}").find("expects an image") !=
        std::string::npos);
  CHECK_THROWS_WITH_AS(message("conv_transpose: {filters: 3, padding: [1, 1, 1, 1]}"),
                       "test.yaml:1:56: error: model.layers[0].conv_transpose.padding: is a list, "
                       "expected valid or same",
                       ConfigError);
  CHECK(message("multiply: {inputs: [input, input, input]}").find("multiplies two inputs, got 3") !=
        std::string::npos);
  CHECK(message("{conv: {filters: 3, name: c}}, multiply: {inputs: [c, input]}")
            .find("the second must have the first's shape or be [batch, 1, 1, 3]") !=
        std::string::npos);
}

// The reader rejects these already; models may also be written in C++.
TEST_CASE("build_model: a model that no config file can describe is an error") {
  const config::Config config = test::build_config("{layers: [flatten, dense: {units: 10}]}");
  const auto message = [&](const config::Layer& first, const std::string& last = "") {
    config::Model model = config.model;
    model.layers[0] = first;
    model.layers[0].loc = {"m.yaml", 1, 1};
    model.layers[1].name = last;
    try {
      build_model(model, config.data, kDigits, 1);
    } catch (const ConfigError& error) {
      return error.diagnostics()[0].message;
    }
    return std::string();
  };
  CHECK(message({config::ActivationLayer{config::Activation::kRelu, 1.0}, "x", {}, {}}) ==
        "x: only leaky_relu and elu have an alpha; remove it");
  CHECK(message({config::AddLayer{}, "x", {}, {}}).find("at least two inputs") !=
        std::string::npos);
  CHECK(message({config::ConvLayer{}, "x", {}, {}}) == "x: filters is 0, expected 1 or more");
  CHECK(message({config::FlattenLayer{}, "input", {}, {}}).find("'input' means the image") !=
        std::string::npos);
  CHECK(message({config::FlattenLayer{}, "a", {}, {}}, "a").find("two layers are named 'a'") !=
        std::string::npos);
  CHECK(message({config::FlattenLayer{}, "a", {"b"}, {}}, "b") ==
        "a: inputs: layer 'b' comes later; move it before this one");
  CHECK(message({config::FlattenLayer{}, "a", {"c"}, {}}) ==
        "a: inputs: there is no layer 'c'; layers before this one: input");
  CHECK(message({config::FlattenLayer{}, "a", {"input", "input"}, {}}) ==
        "a: takes one input, got 2; join them with an add or concatenate layer first");
  config::Model empty = config.model;
  empty.layers.clear();
  CHECK_THROWS_AS(build_model(empty, config.data, kDigits, 1), ConfigError);
}

}  // namespace trainer::model
