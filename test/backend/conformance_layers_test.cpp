// The conformance table: repeated factors, groups, enlarged images, transposed convolutions,
// dropped units and activations that are not fused.
#include <doctest/doctest.h>

#include <cmath>

#include "backend/harness.h"

namespace trainer::test::conformance_layers_test {
namespace {

using graph::Activation;
using graph::ValueId;
using graph::Window;
using Kind = Activation::Kind;

const std::vector<Shape>& images() {
  static const std::vector<Shape> all{{kBatch, 3, 4, 1},  {kBatch, 3, 4, 5},  {kBatch, 1, 1, 16},
                                      {kBatch, 5, 2, 16}, {kBatch, 4, 4, 20}, {kBatch, 9, 9, 33}};
  return all;
}

}  // namespace

TEST_CASE("Activate: functions with a flat part match the reference") {
  for (const Kind kind : {Kind::kHardSigmoid, Kind::kHardSwish, Kind::kSelu, Kind::kNegativePart}) {
    for (const Shape& shape : {Shape{kBatch, 13}, Shape{kBatch, 4, 5, 3}, Shape{kBatch, 4, 5, 20},
                               Shape{kBatch, 3, 3, 32}}) {
      check({concat("activation ", Activation{kind, 0}.text(), " of ", to_string(shape)),
             [=](Builder& b) {
               const Activation activation{kind, 0};
               const ValueId x = b.input(shape, {-5, 5}), dy = b.input(shape);
               b.output(b.add1(graph::Activate{activation}, {x}));
               b.output(b.add1(graph::ActivateBackward{activation}, {x, dy}));
             },
             {1, 3}});
    }
  }
}

TEST_CASE("Activate: the padding of the channels stays 0 under a function that is not 0 at 0") {
  check({"convolution, hard_sigmoid, convolution", [](Builder& b) {
           const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
           const ValueId y = b.add1(graph::Conv{window, 1, false, {}},
                                    {b.input({kBatch, 4, 4, 3}), b.parameter({3, 3, 3, 5})});
           const ValueId s = b.add1(graph::Activate{{Kind::kHardSigmoid, 0}}, {y});
           b.output(b.add1(graph::Conv{window, 1, false, {}}, {s, b.parameter({3, 3, 5, 7})}));
         }});
}

TEST_CASE("Multiply: images, channels and rows match the reference") {
  for (const Shape& shape : images()) {
    const Shape channels{kBatch, 1, 1, shape[3]};
    for (const Shape& factor : {shape, channels}) {
      check({concat("product of ", to_string(shape), " and ", to_string(factor)),
             [=](Builder& b) {
               const ValueId x = b.input(shape), f = b.input(factor);
               const ValueId dy = b.input(shape);
               b.output(b.add1(graph::Multiply{}, {x, f}));
               b.output(b.add1(graph::SumProduct{factor}, {dy, x}));
               b.output(b.add1(graph::SumProduct{factor}, {dy}));
             },
             {1, 3}});
    }
  }
  check({"product of rows", [](Builder& b) {
           const Shape shape{kBatch, 19};
           const ValueId x = b.input(shape), f = b.input(shape);
           b.output(b.add1(graph::Multiply{}, {x, f}));
           b.output(b.add1(graph::SumProduct{shape}, {x, f}));
         }});
}

TEST_CASE("Multiply and AddBias: parameters of any shape match the reference") {
  for (const Shape& shape : {Shape{kBatch, 19}, Shape{kBatch, 3, 4, 5}, Shape{kBatch, 7, 6, 16}}) {
    std::vector<Shape> parts{{shape[shape.rank() - 1]}};
    if (shape.rank() == 4) parts.push_back({shape[1], shape[2], shape[3]});
    for (const Shape& part : parts) {
      check({concat("parameter ", to_string(part), " of ", to_string(shape)),
             [=](Builder& b) {
               const ValueId x = b.input(shape), dy = b.input(shape);
               const ValueId w = b.parameter(part);
               b.output(b.add1(graph::Multiply{}, {x, w}));
               b.output(b.add1(graph::AddBias{}, {x, w}));
               b.output(b.add1(graph::SumProduct{part}, {dy, x}));
               b.output(b.add1(graph::SumProduct{part}, {dy}));
             },
             {1, 3, 33}});
    }
  }
}

TEST_CASE("GroupNorm: groups and pixels match the reference") {
  struct Spec {
    Shape shape;
    std::int64_t groups;
    bool per_pixel;
  };
  for (const Spec& spec : {Spec{{kBatch, 12}, 1, true}, Spec{{kBatch, 12}, 3, false},
                           Spec{{kBatch, 3, 4, 5}, 1, true}, Spec{{kBatch, 5, 6, 32}, 1, true},
                           Spec{{kBatch, 3, 4, 6}, 2, false}, Spec{{kBatch, 9, 9, 20}, 5, false},
                           Spec{{kBatch, 4, 4, 7}, 7, false}, Spec{{kBatch, 4, 4, 7}, 1, false}}) {
    for (const float epsilon : {1e-3f, 0.5f}) {
      check({concat(spec.groups, spec.per_pixel ? " of pixels " : " of images ",
                    to_string(spec.shape), " epsilon ", epsilon),
             [=](Builder& b) {
               const std::int64_t channels = spec.shape[spec.shape.rank() - 1];
               const ValueId x = b.input(spec.shape, {-1, 3}), dy = b.input(spec.shape);
               const ValueId gamma = b.parameter({channels}, {0.5, 1.5});
               const ValueId beta = b.parameter({channels});
               b.output(b.add1(graph::GroupNorm{spec.groups, spec.per_pixel, epsilon},
                               {x, gamma, beta}));
               for (const ValueId id :
                    b.add(graph::GroupNormBackward{spec.groups, spec.per_pixel, epsilon},
                          {x, dy, gamma})) {
                 b.output(id);
               }
             },
             {1, 3, 33},
             3e-5});
    }
  }
}

TEST_CASE("ResponseNorm: factors, norms and gradients match the reference") {
  for (const Shape& shape : images()) {
    for (const float epsilon : {1e-6f, 0.5f}) {
      check({concat("response norm of ", to_string(shape), " epsilon ", epsilon),
             [=](Builder& b) {
               const Shape channels{kBatch, 1, 1, shape[3]};
               const ValueId x = b.input(shape, {-1, 3}), dy = b.input(channels);
               const ValueId gamma = b.parameter({shape[3]}, {0.5, 1.5});
               const auto made = b.add(graph::ResponseNorm{epsilon}, {x, gamma});
               for (const ValueId id : made) b.output(id);
               for (const ValueId id :
                    b.add(graph::ResponseNormBackward{epsilon}, {made[1], gamma, dy})) {
                 b.output(id);
               }
             },
             {1, 3}});
    }
  }
}

TEST_CASE("GroupNorm: no digits are lost where the mean is far from zero") {
  struct Spec {
    Shape shape;
    std::int64_t groups;
    bool per_pixel;
  };
  // A deviation of 2 at a mean of 200.
  const double low = 200 - 2 * std::sqrt(3.0), high = 200 + 2 * std::sqrt(3.0);
  for (const Spec& spec : {Spec{{kBatch, 2048}, 1, true}, Spec{{kBatch, 7, 7, 512}, 1, true},
                           Spec{{kBatch, 5, 5, 515}, 1, true}, Spec{{kBatch, 28, 28, 64}, 2, false},
                           Spec{{kBatch, 28, 28, 24}, 8, false}}) {
    check(
        {concat(spec.groups, spec.per_pixel ? " of pixels " : " of images ", to_string(spec.shape),
                " around 200"),
         [=](Builder& b) {
           const std::int64_t channels = spec.shape[spec.shape.rank() - 1];
           const ValueId x = b.input(spec.shape, {low, high}), dy = b.input(spec.shape);
           const ValueId gamma = b.parameter({channels}, {0.5, 1.5});
           const ValueId beta = b.parameter({channels});
           b.output(b.add1(graph::GroupNorm{spec.groups, spec.per_pixel, 1e-3f}, {x, gamma, beta}));
           for (const ValueId id : b.add(
                    graph::GroupNormBackward{spec.groups, spec.per_pixel, 1e-3f}, {x, dy, gamma})) {
             b.output(id);
           }
         },
         {1, 9},
         1e-5,
         false});
  }
}

TEST_CASE("UpSample: nearest and bilinear match the reference") {
  using Up = graph::UpSample;
  for (const Up::Kind kind : {Up::Kind::kNearest, Up::Kind::kBilinear}) {
    for (const auto& [height, width] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {1, 3}, {4, 1}, {5, 3}}) {
      for (const std::int64_t channels : {1, 5, 16, 20}) {
        check({concat(kind == Up::Kind::kNearest ? "nearest " : "bilinear ", height, "x", width,
                      " of ", channels),
               [=, height = height, width = width](Builder& b) {
                 const Shape large{kBatch, 3 * height, 4 * width, channels};
                 b.output(b.add1(Up{kind, height, width}, {b.input({kBatch, 3, 4, channels})}));
                 b.output(b.add1(graph::UpSampleBackward{kind, height, width}, {b.input(large)}));
               },
               {1, 3}});
      }
    }
  }
}

TEST_CASE("Dropout: channels and samples match the reference") {
  using Unit = graph::Dropout::Unit;
  for (const Unit unit : {Unit::kChannel, Unit::kSample}) {
    for (const Shape& shape : {Shape{kBatch, 19}, Shape{kBatch, 3, 4, 1}, Shape{kBatch, 3, 4, 20},
                               Shape{kBatch, 2, 5, 32}}) {
      check({concat("units ", static_cast<int>(unit), " of ", to_string(shape)),
             [=](Builder& b) {
               const graph::Dropout op{0.4f, 3, 0x123456789abcdefull, unit};
               b.output(b.add1(op, {b.input(shape)}));
             },
             {1, 3, 50}});
    }
  }
}

TEST_CASE("ZeroGradient fills memory that holds other numbers with zeros") {
  check({"zero gradient", [](Builder& b) {
           // The product before it leaves other numbers in the memory of the program.
           const ValueId x = b.add1(graph::Activate{}, {b.input({kBatch, 64}, {1, 2})});
           b.output(b.add1(graph::Activate{}, {x}));
           b.output(b.add1(graph::ZeroGradient{{40}}, {}));
         }});
}

TEST_CASE("L2Penalty: absolute values match the reference") {
  const auto penalty = [](const graph::L2Penalty& op) {
    return [op](Builder& b) { b.output(b.add1(op, {b.parameter({3, 3, 5, 7})})); };
  };
  check({"l1", penalty({0, 0.02f})});
  check({"l1 and l2", penalty({0.01f, 0.02f})});
}

}  // namespace trainer::test::conformance_layers_test
