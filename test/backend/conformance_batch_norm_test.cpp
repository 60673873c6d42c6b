// The conformance table: batch norms, and those folded into convolutions.
#include <doctest/doctest.h>

#include "backend/harness.h"

namespace trainer::test::conformance_batch_norm_test {

using graph::Activation;
using graph::ValueId;
using graph::Window;
using Kind = Activation::Kind;

TEST_CASE("BatchNorm: activations, channels and shapes match the reference") {
  std::vector<Activation> all = activations();
  std::erase_if(all, [](const Activation& a) { return !a.differentiable_from_output(); });
  all.push_back({});
  for (const Activation& activation : all) {
    for (const std::int64_t channels : {10, 16, 20}) {
      for (const bool image : {true, false}) {
        const Shape shape = image ? Shape{kBatch, 4, 3, channels} : Shape{kBatch, channels};
        const std::string name = concat(to_string(shape), " ", spell(activation.kind));
        // A batch of one row has no variance to speak of.
        const std::vector<std::int64_t> batches{image ? 1 : 4, 5};
        check(
            {"batch norm " + name,
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-1, 2}),
                             gamma = b.parameter({channels}, {0.5, 1.5});
               const auto y =
                   b.add(graph::BatchNorm{1e-3f, activation}, {x, gamma, b.parameter({channels})});
               for (const ValueId id : y) b.output(id);
               std::vector<ValueId> inputs{x, b.input(shape), gamma, y[1], y[2]};
               if (!activation.linear()) inputs.push_back(y[0]);
               for (const ValueId id : b.add(graph::BatchNormBackward{1e-3f, activation}, inputs)) {
                 b.output(id);
               }
             },
             batches, 3e-5});
        check(
            {"batch norm with moving averages " + name,
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-1, 2}),
                             gamma = b.parameter({channels}, {0.5, 1.5});
               const ValueId beta = b.parameter({channels}), mean = b.parameter({channels}, {0, 1});
               const ValueId variance = b.parameter({channels}, {0.2, 1});
               const ValueId y = b.add1(graph::BatchNormInference{1e-3f, activation},
                                        {x, gamma, beta, mean, variance});
               b.output(y);
               std::vector<ValueId> inputs{x, b.input(shape), gamma, mean, variance};
               if (!activation.linear()) inputs.push_back(y);
               for (const ValueId id :
                    b.add(graph::BatchNormInferenceBackward{1e-3f, activation}, inputs)) {
                 b.output(id);
               }
             },
             batches});
      }
    }
  }
  check({"inputs far from zero",
         [](Builder& b) {
           for (const ValueId id :
                b.add(graph::BatchNorm{}, {b.input({kBatch, 5, 5, 16}, {1000, 1001}),
                                           b.parameter({16}, {1, 2}), b.parameter({16})})) {
             b.output(id);
           }
         },
         {2, 5},
         2e-3,
         false});
}

// The gradient of x takes the memory of that of y only where nobody else reads it.
TEST_CASE("BatchNorm: other ops that read the gradient of its output match the reference") {
  enum class Reader { kNone, kOfGradient, kOfItsImage };
  for (const Reader reader : {Reader::kNone, Reader::kOfGradient, Reader::kOfItsImage}) {
    check({concat("reader ", static_cast<int>(reader)), [=](Builder& b) {
             const Shape shape{kBatch, 4, 4, 8};
             const ValueId x = b.input(shape), gamma = b.parameter({8}, {0.5, 1.5});
             const auto y = b.add(graph::BatchNorm{}, {x, gamma, b.parameter({8})});
             const ValueId made = b.add1(graph::Add{}, {x, b.input(shape)});
             const ValueId image = b.add1(graph::Reshape{{kBatch, 4, 4, 8}}, {made});
             const ValueId dy = reader == Reader::kOfItsImage ? image : made;
             const auto dx = b.add(graph::BatchNormBackward{}, {x, dy, gamma, y[1], y[2]});
             if (reader == Reader::kNone) return b.output(dx[0]);
             b.output(b.add1(graph::Add{}, {dx[0], made}));
           }});
  }
}

TEST_CASE("FoldBatchNorm: a convolution with and without bias matches the separate ops") {
  for (const bool bias : {true, false}) {
    for (const bool fold : {true, false}) {
      check({concat("folded ", fold, " bias ", bias), [=](Builder& b) {
               const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
               const ValueId x = b.input({kBatch, 6, 5, 8}), kernel = b.parameter({3, 3, 8, 20});
               std::vector<ValueId> inputs{kernel};
               if (bias) inputs.push_back(b.parameter({20}));
               std::vector<ValueId> norm{b.parameter({20}, {0.5, 1.5}), b.parameter({20}),
                                         b.parameter({20}), b.parameter({20}, {0.2, 1})};
               // Both ways are held against the one that normalises: the same values, the same
               // names.
               std::vector<ValueId> conv = inputs;
               conv.insert(conv.begin(), x);
               const ValueId y = b.add1(graph::Conv{window, 1, bias, {}}, conv);
               if (!fold) {
                 norm.insert(norm.begin(), y);
                 b.output(b.add1(graph::BatchNormInference{}, norm));
                 return;
               }
               inputs.insert(inputs.end(), norm.begin(), norm.end());
               b.graph.nodes.clear();
               const auto folded = b.add(graph::FoldBatchNorm{1e-3f, bias}, inputs);
               b.output(b.add1(graph::Conv{window, 1, true, {}}, {x, folded[0], folded[1]}));
             }});
    }
  }
}

}  // namespace trainer::test::conformance_batch_norm_test
