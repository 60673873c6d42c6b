// A NaN stays visible: what follows from one is not a number, on every backend.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "backend/harness.h"
#include "base/error.h"

namespace trainer::test::not_finite_test {
namespace {

using graph::Pool;
using graph::ValueId;
using graph::Window;
using Values = std::vector<std::vector<double>>;

// A value's content with a NaN in every `step`-th place.
std::vector<double> with_nans(std::vector<double> values, std::size_t step) {
  for (std::size_t i = 0; i < values.size(); i += step) {
    values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return values;
}

// The same numbers, and NaN in the same places.
void check_equal(const std::string& what, const std::vector<float>& got,
                 const std::vector<double>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  std::size_t i = 0;
  const auto same = [&] {
    const double value = static_cast<double>(got[i]);
    if (std::isnan(expected[i])) return std::isnan(value);
    return std::abs(value - expected[i]) <= tolerance * (1 + std::abs(value));
  };
  while (i < got.size() && same()) ++i;
  if (i < got.size()) FAIL_CHECK(what, ", element ", i, ": ", got[i], ", expected ", expected[i]);
}

enum class Backends { kAll, kNotCpu };

// Runs a graph whose first input has NaN in every `step`-th place.
void check_with_nans(const std::string& name, const std::function<void(Builder&)>& build,
                     std::size_t step, Backends backends = Backends::kAll) {
  constexpr std::int64_t kSamples = 2;
  for (const Setup& setup : all_setups()) {
    const bool is_cpu = setup.instruction_set != "cuda" && setup.instruction_set != "reference";
    if (backends == Backends::kNotCpu && is_cpu) continue;
    Builder builder(setup.type);
    build(builder);
    const graph::Graph& graph = builder.graph;
    backend::CompileOptions options;
    options.max_samples = kSamples;
    Runner runner(open(setup), graph, options);
    Reference reference(graph);
    Values inputs;
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const graph::Value& value = graph.values[i];
      const bool kept = graph::is_persistent(value.role);
      if (!kept && value.role != graph::Role::kInput) continue;
      const Shape shape = value.shape.batched() ? value.shape.with_batch(kSamples) : value.shape;
      const auto values = content(shape, builder.fills[i], setup.type, i);
      if (kept) {
        runner.write(value.name, values);
        reference.kept[value.name] = values;
      } else {
        inputs.push_back(inputs.empty() ? with_nans(values, step) : values);
      }
    }
    const Values expected = reference.run(kSamples, inputs, {});
    const auto got = runner.run(kSamples, inputs, {});
    const double tolerance = setup.type == DType::kFloat32 ? 1e-5 : 2e-2;
    for (std::size_t i = 0; i < got.size(); ++i) {
      check_equal(concat(name, ", ", to_string(setup), ", output ", i), got[i], expected[i],
                  tolerance);
    }
  }
}

// The gradient shows which pixel won.
void max_pool(Builder& b, const Window& window, std::int64_t channels) {
  const Shape image{kBatch, 6, 7, channels};
  const auto y = b.add(Pool{Pool::Kind::kMax, window, true}, {b.input(image)});
  b.output(y[0]);
  const ValueId dy = b.input(b.graph[y[0]].shape);
  b.output(b.add1(graph::PoolBackward{Pool::Kind::kMax, window, image, {}}, {dy, y[1]}));
}

}  // namespace

TEST_CASE("Pool: a NaN wins wherever it is in its window, and the first one stays") {
  const Window halves{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  const Window overlapping{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  for (const std::int64_t channels : {1, 18}) {
    for (const std::size_t step : {3u, 7u, 29u}) {
      check_with_nans(
          "2x2", [&](Builder& b) { max_pool(b, halves, channels); }, step);
      check_with_nans(
          "3x3", [&](Builder& b) { max_pool(b, overlapping, channels); }, step);
      check_with_nans(
          "global",
          [&](Builder& b) {
            const ValueId x = b.input({kBatch, 6, 7, channels});
            b.output(b.add1(graph::GlobalPool{Pool::Kind::kMax}, {x}));
          },
          step * 11);
    }
  }
}

TEST_CASE("Conv with max pooling: a NaN wins wherever it is in its window") {
  const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Window pool{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  for (const graph::Activation::Kind kind :
       {graph::Activation::Kind::kLinear, graph::Activation::Kind::kRelu}) {
    for (const std::size_t step : {5u, 37u, 83u}) {
      check_with_nans(
          "fused",
          [&](Builder& b) {
            const ValueId x = b.input({kBatch, 12, 14, 1});
            const ValueId kernel = b.parameter({3, 3, 1, 16}), bias = b.parameter({16});
            const graph::Conv conv{window, 1, true, {kind, 0}};
            const ValueId y = b.add1(conv, {x, kernel, bias});
            b.output(b.add1(Pool{Pool::Kind::kMax, pool}, {y}));
          },
          step);
    }
  }
}

TEST_CASE("Activate: NaN stays NaN through a function, alone and behind a layer") {
  using Kind = graph::Activation::Kind;
  const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  for (const graph::Activation& activation : activations()) {
    // oneDNN's relu and relu6 make 0 of a NaN; lib/decisions/backend.md lists the ops.
    const bool keeps = activation.kind != Kind::kRelu && activation.kind != Kind::kRelu6;
    const Backends with_onednn = keeps ? Backends::kAll : Backends::kNotCpu;
    for (const std::size_t step : {13u, 97u}) {
      const auto check_layer = [&](const char* layer, const std::function<void(Builder&)>& build,
                                   Backends backends = Backends::kAll) {
        check_with_nans(concat(layer, ", ", spell(activation.kind)), build, step, backends);
      };
      check_layer(
          "alone",
          [&](Builder& b) {
            b.output(b.add1(graph::Activate{activation}, {b.input({kBatch, 6, 7, 16})}));
          },
          with_onednn);
      for (const bool bias : {false, true}) {
        check_layer(
            "dense",
            [&](Builder& b) {
              std::vector<ValueId> inputs{b.input({kBatch, 24}), b.parameter({24, 10})};
              if (bias) inputs.push_back(b.parameter({10}));
              b.output(b.add1(graph::Dense{bias, activation}, inputs));
            },
            with_onednn);
        check_layer(
            "convolution",
            [&](Builder& b) {
              std::vector<ValueId> inputs{b.input({kBatch, 6, 7, 16}), b.parameter({3, 3, 16, 16})};
              if (bias) inputs.push_back(b.parameter({16}));
              b.output(b.add1(graph::Conv{window, 1, bias, activation}, inputs));
            },
            with_onednn);
      }
      check_layer("batch norm", [&](Builder& b) {
        const ValueId x = b.input({kBatch, 6, 7, 16}), gamma = b.parameter({16}, {0.5, 1});
        const ValueId beta = b.parameter({16}), mean = b.parameter({16});
        const ValueId variance = b.parameter({16}, {0.5, 1});
        b.output(
            b.add1(graph::BatchNormInference{1e-3f, activation}, {x, gamma, beta, mean, variance}));
      });
    }
  }
}

}  // namespace trainer::test::not_finite_test
