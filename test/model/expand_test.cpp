// What becomes of groups of layers.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "model/build_model.h"
#include "model/expand_layers.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

// "name <- input, input" a layer.
std::vector<std::string> expanded(const std::string& layers) {
  const config::Config config = trainer::test::build_config("{layers: [" + layers + "]}");
  std::vector<Diagnostic> errors;
  const NamedLayers result = expand_layers(config.model.layers, errors);
  for (const Diagnostic& error : errors) FAIL(error.message);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    lines.push_back(result.names[i] + " <- " + join(result.layers[i].inputs));
  }
  return lines;
}

using Lines = std::vector<std::string>;

std::int64_t read_parameters(const graph::Graph& graph) {
  std::int64_t count = 0;
  for (const graph::LayerInfo& layer : graph.layers) {
    for (const graph::ValueId id : layer.parameters) count += graph[id].shape.elements();
  }
  return count;
}

}  // namespace

TEST_CASE("expand_layers: each layer without `inputs` takes the layer before it") {
  CHECK(expanded("flatten, dense: 3, {dense: {units: 2, name: a}}") ==
        Lines{"flatten <- input", "dense <- flatten", "a <- dense"});
}

TEST_CASE(
    "expand_layers makes three layers of a conv with batch_norm and activation, with its name") {
  CHECK(expanded("conv: {filters: 2, batch_norm: true, activation: relu}, "
                 "{conv: {filters: 2, batch_norm: true, name: a}}, dropout") ==
        Lines{"conv2d <- input", "batch_normalization <- conv2d",
              "activation <- batch_normalization", "a <- activation", "a_bn <- a",
              "dropout <- a_bn"});
}

TEST_CASE("expand_layers: residual adds its shortcut or its input") {
  CHECK(expanded("flatten, residual: {layers: [dense: 4], activation: relu}, dense: 2") ==
        Lines{"flatten <- input", "dense <- flatten", "add <- dense, flatten", "activation <- add",
              "dense_1 <- activation"});
  CHECK(expanded("residual: {layers: [{conv: {filters: 3}}], shortcut: [{conv: {filters: 3}}], "
                 "name: block}, flatten, {dense: {units: 2, inputs: [block]}}") ==
        Lines{"conv2d <- input", "conv2d_1 <- input", "block <- conv2d, conv2d_1",
              "flatten <- block", "dense <- block"});
}

TEST_CASE("expand_layers: repeat gives the names inside the number of the repetition") {
  CHECK(expanded("repeat: {times: 2, layers: [{dense: {units: 3, name: a}}, {dropout: {name: d, "
                 "inputs: [a]}}]}, {add: {inputs: [a_1, d_2]}}") ==
        Lines{"a_1 <- input", "d_1 <- a_1", "a_2 <- d_1", "d_2 <- a_2", "add <- a_1, d_2"});
  CHECK(expanded("repeat: {times: 2, layers: [repeat: {times: 2, layers: [{dropout: {name: "
                 "d}}]}], name: all}, {dense: {units: 1, inputs: [all]}}") ==
        Lines{"d_1_1 <- input", "d_1_2 <- d_1_1", "d_2_1 <- d_1_2", "d_2_2 <- d_2_1",
              "dense <- d_2_2"});
}

TEST_CASE("expand_layers: repeat over values gives the names inside the number of the repetition") {
  CHECK(expanded("repeat: {over: {units: [3, 4]}, layers: [{dense: {units: $units, name: a}}, "
                 "{dropout: {name: d, inputs: [a]}}, dense: $units], name: all}, "
                 "{add: {inputs: [a_1, d_2]}}, {dense: {units: 1, inputs: [all]}}") ==
        Lines{"a_1 <- input", "d_1 <- a_1", "dense <- d_1", "a_2 <- dense", "d_2 <- a_2",
              "dense_1 <- d_2", "add <- a_1, d_2", "dense_2 <- dense_1"});
  CHECK(expanded("repeat: {over: {x: [1, 2]}, layers: [repeat: {times: 2, layers: [{dense: {units: "
                 "$x, name: d}}]}]}") ==
        Lines{"d_1_1 <- input", "d_1_2 <- d_1_1", "d_2_1 <- d_1_2", "d_2_2 <- d_2_1"});
  CHECK(expanded("{flatten: {name: f}}, {dense: {units: 2, name: b}}, repeat: {over: {x: [1, 2]}, "
                 "layers: [dense: $x], name: r, inputs: [f]}, {add: {inputs: [b, r]}}") ==
        Lines{"f <- input", "b <- f", "dense <- f", "dense_1 <- dense", "add <- b, dense_1"});
}

// The body of Keras's example image_classification_from_scratch: 4 residual blocks of 3 sizes each.
TEST_CASE("expand_layers: repeat over values gives the layers written one by one") {
  const std::string block = R"({residual: {
      layers: [{activation: relu}, {separable_conv: {filters: SIZE, padding: same}}, batch_norm],
      shortcut: [{conv: {filters: SIZE, kernel_size: 1}}]}})";
  const auto with = [&](const std::string& size) {
    std::string text = block;
    for (std::size_t at; (at = text.find("SIZE")) != std::string::npos;) text.replace(at, 4, size);
    return text;
  };
  CHECK(expanded("repeat: {over: {size: [4, 8, 12]}, layers: [" + with("$size") + "]}") ==
        expanded(with("4") + ", " + with("8") + ", " + with("12")));
}

TEST_CASE(
    "expand_layers: the name of a conv with batch_norm as an input means the normalized output") {
  CHECK(expanded("repeat: {times: 1, layers: [{conv: {filters: 1, batch_norm: true, name: c}}]}, "
                 "{max_pool: {inputs: [c_1]}}") ==
        Lines{"c_1 <- input", "c_1_bn <- c_1", "max_pooling2d <- c_1_bn"});
}

TEST_CASE("expand_layers rejects two equal names") {
  CHECK_THROWS_WITH_AS(
      trainer::test::build_config(
          "{layers: [repeat: {times: 2, layers: [{dropout: {name: d}}]}, {dropout: {name: d_2}}]}"),
      doctest::Contains("another layer is named 'd_2'"), ConfigError);
}

// Keras's example cifar10_resnet prints "Total params: 274,442" for n = 3, version 1.
TEST_CASE("cifar10_resnet20.yaml has at most 25 lines, and the parameters of Keras's model") {
  const std::string path = test::source_file("configs/cifar10_resnet20.yaml");
  const std::string text = read_text_file(path);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 25);
  const config::Config config = config::load_config(path, {}, {}).config;
  const graph::Graph graph =
      build_model(config.model, config.data, trainer::test::sample({32, 32, 3}, 10), config.seed);
  CHECK(read_parameters(graph) == 274442);
}

TEST_CASE("build_model: a residual whose shapes do not fit is an error at its line") {
  const config::Config config = trainer::test::build_config(
      "{layers: [{conv: {filters: 2, padding: same}}, residual: {layers: [{conv: {filters: 4, "
      "padding: same}}]}, flatten, dense: 10]}");
  std::string text;
  try {
    build_model(config.model, config.data, trainer::test::sample({8, 8, 1}, 10), config.seed);
  } catch (const ConfigError& error) {
    text = error.what();
  }
  CHECK(text.find("test.yaml:1:") != std::string::npos);
  CHECK(text.find("add: ") != std::string::npos);
}

}  // namespace trainer::model
