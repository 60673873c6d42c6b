// The conformance table: ops on tokens, [batch, tokens, channels].
#include <doctest/doctest.h>

#include <numeric>

#include "backend/harness.h"

namespace trainer::test::conformance_tokens_test {

using graph::ValueId;

namespace {

struct Spec {
  std::int64_t tokens, heads, channels;  // channels of a head
};

// One token, and tokens and channels around the tiles of the kernels: 6 rows, 16, 32 and 48 tokens,
// vectors of 8 and 16 numbers.
const std::vector<Spec>& specs() {
  static const std::vector<Spec> all{{1, 1, 5},   {5, 3, 5},    {17, 6, 32}, {48, 1, 17},
                                     {49, 2, 64}, {197, 3, 64}, {257, 1, 32}};
  return all;
}

std::string text(const Spec& s) {
  return concat(s.tokens, " tokens, ", s.heads, " heads of ", s.channels);
}

}  // namespace

TEST_CASE("Attention: tokens, heads and channels match the reference forward and backward") {
  for (const Spec& s : specs()) {
    // Large scores make some probabilities nearly 1, and exponentials that would overflow.
    for (const double range : {1.0, 8.0}) {
      check({concat("attention ", text(s), " in ", range),
             [=](Builder& b) {
               const std::int64_t channels = s.heads * s.channels;
               const ValueId qkv = b.input({kBatch, s.tokens, 3 * channels}, {-range, range});
               const auto y = b.add(graph::Attention{s.heads, true}, {qkv});
               for (const ValueId id : y) b.output(id);
               b.output(b.add1(graph::Attention{s.heads}, {qkv}));
               const ValueId dy = b.input({kBatch, s.tokens, channels});
               b.output(b.add1(graph::AttentionBackward{s.heads}, {qkv, y[0], y[1], dy}));
             },
             s.tokens > 100 ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{1, 3},
             range > 1 ? 5e-5 : 1e-5, range == 1});
    }
  }
}

// The sum of y * w, whose gradient of y is w.
TEST_CASE("Attention: the reference's gradient matches the central differences of its output") {
  Builder b(DType::kFloat32);
  const Spec s{4, 2, 3};
  const ValueId qkv = b.input({kBatch, s.tokens, 18}), dy = b.input({kBatch, s.tokens, 6});
  const auto y = b.add(graph::Attention{s.heads, true}, {qkv});
  b.output(y[0]);
  b.output(b.add1(graph::AttentionBackward{s.heads}, {qkv, y[0], y[1], dy}));
  Reference reference(b.graph);
  std::vector<std::vector<double>> inputs;
  for (const ValueId id : {qkv, dy}) {
    inputs.push_back(content(b.graph[id].shape.with_batch(2), {-2, 2}, DType::kFloat32, 7));
  }
  const auto weighted = [&] {
    const auto out = reference.run(2, inputs)[0];
    return std::inner_product(out.begin(), out.end(), inputs[1].begin(), 0.0);
  };
  const std::vector<double> gradient = reference.run(2, inputs)[1];
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double x = inputs[0][i];
    inputs[0][i] = x + kStep;
    const double above = weighted();
    inputs[0][i] = x - kStep;
    const double below = weighted();
    inputs[0][i] = x;
    CHECK(gradient[i] == doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-6));
  }
}

TEST_CASE("Attention: a sample has the same bits in any batch and on any number of lanes") {
  for (const Setup& setup : setups()) {
    const auto run = [&](std::int64_t samples) {
      return collect_outputs(
          {"attention",
           [](Builder& b) {
             const ValueId qkv = b.input({kBatch, 53, 3 * 40});
             const auto y = b.add(graph::Attention{5, true}, {qkv});
             b.output(y[0]);
             b.output(b.add1(graph::AttentionBackward{5},
                             {qkv, y[0], y[1], b.add1(graph::Activate{}, {y[0]})}));
           }},
          setup, samples);
    };
    const auto all = run(5), one = run(1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(same_bits({all[i].begin(), all[i].begin() + std::ssize(one[i])}, one[i]));
    }
  }
}

TEST_CASE("PrependTokens, Crop and ZeroPad: tokens match the reference") {
  for (const std::int64_t channels : {1, 5, 16}) {
    for (const std::int64_t count : {1, 5}) {
      check(
          {concat(count, " tokens of ", channels),
           [=](Builder& b) {
             const ValueId x = b.input({kBatch, 7, channels});
             const ValueId y = b.add1(graph::PrependTokens{}, {x, b.parameter({count, channels})});
             b.output(y);
             b.output(b.add1(graph::Crop{{.bottom = 7}}, {y}));
             b.output(b.add1(graph::Crop{{.top = count, .bottom = 2}}, {y}));
             b.output(b.add1(graph::ZeroPad{{.top = count, .bottom = 2}}, {x}));
           },
           {1, 3}});
    }
  }
}

// The packed formats of a square kernel and of its transpose are equal.
TEST_CASE("Dense: every row of tokens and of images matches the reference") {
  const auto test_rows = [](const Shape& shape, std::int64_t units) {
    check({concat("dense of ", to_string(shape)),
           [=](Builder& b) {
             Shape to = shape;
             to[shape.rank() - 1] = units;
             const std::int64_t inputs = shape[shape.rank() - 1];
             const ValueId x = b.input(shape), dy = b.input(to);
             const ValueId kernel = b.parameter({inputs, units});
             b.output(b.add1(graph::Dense{true, {graph::Activation::Kind::kRelu, 0}},
                             {x, kernel, b.parameter({units})}));
             b.output(b.add1(graph::DenseBackwardData{inputs}, {dy, kernel}));
             for (const ValueId id : b.add(graph::DenseBackwardWeights{true}, {x, dy}))
               b.output(id);
           },
           {1, 5}});
  };
  test_rows({kBatch, 7, 20}, 33);
  test_rows({kBatch, 3, 4, 20}, 33);
  test_rows({kBatch, 37, 192}, 192);
}

// Values go from the layout of images to that of tokens and back.
TEST_CASE("Ops on tokens: a block of a transformer between images matches the reference") {
  check({"block",
         [](Builder& b) {
           const graph::Activation gelu{graph::Activation::Kind::kGelu, 0};
           const std::int64_t channels = 16;
           const ValueId patches =
               b.add1(graph::Conv{{{4, 4}, {4, 4}, {1, 1}, {0, 0}, {0, 0}}, 1, false, {}},
                      {b.input({kBatch, 12, 8, 3}), b.parameter({4, 4, 3, channels})});
           const ValueId flat = b.add1(graph::Reshape{{kBatch, 6, channels}}, {patches});
           const ValueId all = b.add1(graph::PrependTokens{}, {flat, b.parameter({1, channels})});
           const ValueId x = b.add1(graph::AddBias{}, {all, b.parameter({7, channels})});
           const ValueId n = b.add1(graph::GroupNorm{1, true, 1e-6f},
                                    {x, b.parameter({channels}), b.parameter({channels})});
           const ValueId qkv = b.add1(graph::Dense{}, {n, b.parameter({channels, 3 * channels})});
           const ValueId y = b.add1(graph::Activate{gelu}, {b.add1(graph::Attention{2}, {qkv})});
           const ValueId scaled = b.add1(graph::Multiply{}, {y, b.parameter({channels})});
           const ValueId kept =
               b.add1(graph::Dropout{0.4f, 3, 11, graph::Dropout::Unit::kSample}, {scaled});
           const ValueId sum = b.add1(graph::Add{}, {x, kept});
           b.output(sum);
           const ValueId dx = b.add1(graph::ActivateBackward{gelu}, {y, sum});
           b.output(dx);
           b.output(b.add1(graph::SumProduct{{7, channels}}, {dx, sum}));
           const ValueId crop = b.add1(graph::Crop{{.top = 1}}, {sum});
           const ValueId image = b.add1(graph::Reshape{{kBatch, 3, 2, channels}}, {crop});
           b.output(b.add1(graph::GlobalPool{}, {image}));
         },
         {1, 5}});
}

}  // namespace trainer::test::conformance_tokens_test
