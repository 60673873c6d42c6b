// The conformance table, against double-precision loops: ops that have no file of their own.
#include <doctest/doctest.h>

#include <cstdlib>

#include "backend/harness.h"

namespace trainer::test::conformance_test {

using graph::Activation;
using graph::Pool;
using graph::ValueId;
using graph::Window;
using Kind = Activation::Kind;

TEST_CASE("Preprocess: types and the order of channels match the reference") {
  for (const DType type : {DType::kUInt8, DType::kFloat32}) {
    for (const std::int64_t channels : {1, 3, -3}) {
      const bool reverse = channels < 0;
      check({concat("preprocess ", to_string(type), " ", channels),
             [=, channels = std::abs(channels)](Builder& b) {
               graph::Preprocess op;
               op.reverse_channels = reverse;
               op.scale = 1.0f / 255;
               for (std::int64_t c = 0; c < channels; ++c) {
                 op.mean.push_back(0.1f * static_cast<float>(c + 1));
                 op.std.push_back(0.5f + 0.25f * static_cast<float>(c));
               }
               b.output(b.add1(op, {b.input({kBatch, 5, 7, channels}, type, {0, 256, true})}));
             },
             {1, 5}});
    }
  }
}

TEST_CASE("Dense: sizes, bias and activations match the reference") {
  for (const auto& [in, units] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {7, 10}, {16, 16}, {17, 33}, {64, 10}, {100, 64}}) {
    for (const bool bias : {true, false}) {
      check({concat("dense ", in, " to ", units, bias ? " with bias" : ""),
             [=](Builder& b) {
               const ValueId x = b.input({kBatch, in}), kernel = b.parameter({in, units});
               std::vector<ValueId> inputs{x, kernel};
               if (bias) inputs.push_back(b.parameter({units}));
               b.output(b.add1(graph::Dense{bias, {}}, inputs));
               const ValueId dy = b.input({kBatch, units});
               b.output(b.add1(graph::DenseBackwardData{in}, {dy, kernel}));
               for (const ValueId id : b.add(graph::DenseBackwardWeights{bias}, {x, dy}))
                 b.output(id);
             },
             {1, 2, 5}});
    }
  }
  for (const Activation& activation : activations()) {
    check({concat("dense ", spell(activation.kind)), [=](Builder& b) {
             b.output(b.add1(graph::Dense{true, activation},
                             {b.input({kBatch, 20}), b.parameter({20, 11}), b.parameter({11})}));
           }});
  }
  check({"float32 logits", [](Builder& b) {
           const ValueId x = b.input({kBatch, 20}), kernel = b.parameter({20, 10});
           const ValueId y = b.add1(graph::Dense{true, {}}, {x, kernel, b.parameter({10})});
           b.graph[y].type = DType::kFloat32;
           b.output(y);
           const ValueId dy = b.input({kBatch, 10}, DType::kFloat32, {});
           const ValueId dx = b.add1(graph::DenseBackwardData{20}, {dy, kernel});
           b.graph[dx].type = b.type();
           b.output(dx);
           for (const ValueId id : b.add(graph::DenseBackwardWeights{true}, {x, dy})) b.output(id);
         }});
}

namespace {

struct PoolSpec {
  std::string name;
  Window window;
  std::int64_t channels = 16, height = 7, width = 9;
};

void pool(Builder& b, const PoolSpec& s, Pool::Kind kind, const Activation& activation) {
  const bool max = kind == Pool::Kind::kMax;
  const Shape image{kBatch, s.height, s.width, s.channels};
  const auto y = b.add(Pool{kind, s.window, max}, {b.input(image)});
  b.output(y[0]);
  std::vector<ValueId> inputs{b.input(b.graph[y[0]].shape)};
  if (max) inputs.push_back(y[1]);
  if (!activation.linear()) inputs.push_back(y[0]);
  b.output(b.add1(graph::PoolBackward{kind, s.window, image, activation}, inputs));
}

}  // namespace

TEST_CASE("Pool: windows, kinds and activations match the reference") {
  const std::vector<PoolSpec> specs{
      {"2x2", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x2, 20 channels", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 20},
      {"2x2, one channel", {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1, 6, 6},
      {"3x3 stride 2 same", {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}},
      {"3x3 stride 1", {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 17},
      {"1x1", {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}},
      {"1x1 stride 2", {{1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x2 stride 3, unread pixels", {{2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}}, 5},
      {"2x3 stride 1x2, padded", {{2, 3}, {1, 2}, {1, 1}, {1, 0}, {0, 2}}, 5},
      {"dilated", {{2, 2}, {1, 1}, {2, 2}, {0, 0}, {0, 0}}},
      {"the whole image", {{7, 9}, {7, 9}, {1, 1}, {0, 0}, {0, 0}}},
      {"2x2 overlap in a row", {{2, 2}, {2, 1}, {1, 1}, {0, 0}, {0, 0}}, 33}};
  for (const PoolSpec& spec : specs) {
    for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
      const std::string name = concat(kind == Pool::Kind::kMax ? "max " : "average ", spec.name);
      check({name, [=](Builder& b) { pool(b, spec, kind, {}); }, {1, 2, 5}});
    }
    for (const Activation& activation :
         {Activation{Kind::kRelu, 0}, Activation{Kind::kRelu6, 0},
          Activation{Kind::kLeakyRelu, 0.3f}, Activation{Kind::kElu, 1.0f},
          Activation{Kind::kTanh, 0}, Activation{Kind::kSigmoid, 0}}) {
      for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
        check({concat("gradient through ", spec.name, " and ", spell(activation.kind)),
               [=](Builder& b) { pool(b, spec, kind, activation); },
               {2}});
      }
    }
  }
}

TEST_CASE("Pool: the gradient goes to the first of equal maxima and never to padding") {
  check({"max of few numbers", [](Builder& b) {
           const Shape image{kBatch, 6, 6, 16};
           const Window window{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
           const auto y =
               b.add(Pool{Pool::Kind::kMax, window, true}, {b.input(image, {-3, 0, true})});
           b.output(y[0]);
           b.output(b.add1(graph::PoolBackward{Pool::Kind::kMax, window, image, {}},
                           {b.input(b.graph[y[0]].shape), y[1]}));
         }});
  check({"global max of few numbers", [](Builder& b) {
           const Shape image{kBatch, 4, 5, 18};
           const ValueId x = b.input(image, {-3, 0, true});
           const ValueId y = b.add1(graph::GlobalPool{Pool::Kind::kMax}, {x});
           b.output(b.add1(graph::GlobalPoolBackward{Pool::Kind::kMax, image},
                           {b.input({kBatch, 18}), x, y}));
         }});
}

TEST_CASE("GlobalPool: maximum and average match the reference") {
  for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
    for (const std::int64_t channels : {3, 16, 20}) {
      const bool max = kind == Pool::Kind::kMax;
      check({concat(max ? "global max " : "global average ", channels),
             [=](Builder& b) {
               const Shape image{kBatch, 5, 7, channels};
               const ValueId x = b.input(image);
               const ValueId y = b.add1(graph::GlobalPool{kind}, {x});
               b.output(y);
               std::vector<ValueId> inputs{b.input({kBatch, channels})};
               if (max) inputs.insert(inputs.end(), {x, y});
               b.output(b.add1(graph::GlobalPoolBackward{kind, image}, inputs));
             },
             {1, 2, 5}});
    }
  }
}

TEST_CASE("Activate: every function matches the reference") {
  for (const Activation& activation : activations()) {
    for (const Shape& shape :
         {Shape{kBatch, 4, 5, 16}, Shape{kBatch, 3, 3, 5}, Shape{kBatch, 13}}) {
      check({concat(spell(activation.kind), " ", to_string(shape)),
             [=](Builder& b) {
               const ValueId x = b.input(shape, {-8, 8});
               const ValueId y = b.add1(graph::Activate{activation}, {x});
               b.output(y);
               b.output(b.add1(graph::ActivateBackward{activation},
                               {activation.differentiable_from_output() ? y : x, b.input(shape)}));
             },
             {1, 5}});
    }
  }
}

TEST_CASE("Softmax: outputs and gradients match the reference") {
  for (const std::int64_t n : {2, 10, 17}) {
    check({concat("softmax ", n),
           [=](Builder& b) {
             const ValueId y = b.add1(graph::Softmax{}, {b.input({kBatch, n}, {-5, 5})});
             b.output(y);
             b.output(b.add1(graph::SoftmaxBackward{}, {y, b.input({kBatch, n})}));
           },
           {1, 5}});
  }
}

TEST_CASE("Add and Concat: shapes with Slice and Reshape match the reference") {
  for (const std::int64_t channels : {3, 16, 20}) {
    for (const std::size_t count : {2u, 3u, 70u}) {
      check({concat("add ", count, " of ", channels),
             [=](Builder& b) {
               std::vector<ValueId> inputs;
               for (std::size_t i = 0; i < count; ++i)
                 inputs.push_back(b.input({kBatch, 2, 3, channels}));
               b.output(b.add1(graph::Add{}, inputs));
             },
             {1, 3}});
    }
  }
  check({"add rows", [](Builder& b) {
           b.output(b.add1(graph::Add{}, {b.input({kBatch, 13}), b.input({kBatch, 13})}));
         }});
  for (const auto& parts : std::vector<std::vector<std::int64_t>>{
           {16, 32}, {16, 16, 16}, {3, 5}, {16, 1}, {8, 24}, {64, 48}}) {
    for (const bool image : {true, false}) {
      const auto shape = [=](std::int64_t c) {
        return image ? Shape{kBatch, 3, 5, c} : Shape{kBatch, c};
      };
      check({concat("concat and slice from ", parts[0]),
             [=](Builder& b) {
               std::vector<ValueId> inputs;
               for (const std::int64_t c : parts) inputs.push_back(b.input(shape(c)));
               const ValueId y = b.add1(graph::Concat{}, inputs);
               b.output(y);
               std::int64_t begin = 0;
               for (const std::int64_t c : parts) {
                 b.output(b.add1(graph::Slice{begin, begin + c}, {y}));
                 begin += c;
               }
             },
             {1, 3}});
    }
  }
  for (const std::int64_t channels : {1, 3, 16, 20}) {
    check({concat("reshape ", channels), [=](Builder& b) {
             const Shape image{kBatch, 4, 3, channels};
             const ValueId x = b.input(image);
             const ValueId pooled = b.add1(Pool{Pool::Kind::kAverage, {}, false}, {x});
             const ValueId flat = b.add1(graph::Reshape{{kBatch, 12 * channels}}, {pooled});
             b.output(flat);
             b.output(b.add1(graph::Reshape{{kBatch, 3, 4, channels}}, {flat}));
             b.output(b.add1(graph::Reshape{{kBatch, 12, channels}}, {x}));
           }});
  }
}

TEST_CASE("ZeroPad and Crop: any channels match the reference") {
  for (const std::int64_t channels : {1, 3, 5, 16, 20}) {
    check({concat("pad ", channels),
           [=](Builder& b) {
             const ValueId x = b.input({kBatch, 4, 5, channels});
             const ValueId y = b.add1(graph::ZeroPad{1, 0, 2, 3}, {x});
             b.output(y);
             b.output(b.add1(graph::Crop{2, 1, 0, 3}, {y}));
             b.output(b.add1(graph::Crop{1, 1, 1, 1}, {x}));
           },
           {1, 3}});
  }
}

TEST_CASE("L2Penalty: squares match the reference") {
  check({"l2", [](Builder& b) {
           b.output(b.add1(graph::L2Penalty{0.01f}, {b.parameter({3, 3, 5, 7})}));
         }});
}

TEST_CASE("Conv and GlobalPool: a large batch in parts matches the reference") {
  check({"a chain over 150 samples",
         [](Builder& b) {
           const Window window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
           const ValueId y =
               b.add1(graph::Conv{window, 1, true, {Kind::kRelu, 0}},
                      {b.input({kBatch, 4, 4, 3}), b.parameter({3, 3, 3, 8}), b.parameter({8})});
           b.output(b.add1(graph::GlobalPool{}, {y}));
         },
         {64, 65, 128, 129, 150}});
}

}  // namespace trainer::test::conformance_test
