#include "backend/cuda/kernels/attention.h"

#include <doctest/doctest.h>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

// One token, tokens around the tiles of 32 and fewer, and heads so wide that tiles have few tokens.
const std::vector<cuda::AttentionShape>& attention_shapes() {
  static const std::vector<cuda::AttentionShape> all{
      {1, 1, 1, 5}, {2, 5, 3, 5}, {1, 33, 2, 8}, {2, 17, 2, 64}, {1, 65, 1, 32}, {1, 9, 2, 400}};
  return all;
}

Shape tokens_shape(const cuda::AttentionShape& s) {
  return {s.samples, s.tokens, s.heads * s.channels};
}
Shape qkv_shape(const cuda::AttentionShape& s) {
  return {s.samples, s.tokens, 3 * s.heads * s.channels};
}
Shape log_sums_shape(const cuda::AttentionShape& s) { return {s.samples, s.heads, s.tokens}; }

}  // namespace

TEST_CASE("cuda attention: y and the log-sums match the reference") {
  for (const DType type : kFloatTypes) {
    for (const cuda::AttentionShape& s : attention_shapes()) {
      CAPTURE(s.tokens);
      CAPTURE(s.channels);
      Array qkv = Array::random(type, qkv_shape(s), 3);
      const std::vector<Array> got = check_repeats([&] {
        std::vector<Array> made;
        made.emplace_back(type, tokens_shape(s));
        made.emplace_back(kF32, log_sums_shape(s));
        cuda::attention(s, qkv.data(), made[0].data(), made[1].as<float>(), type, nullptr);
        return made;
      });
      const auto want = evaluate_op(graph::Attention{s.heads, true}, {qkv.tensor()},
                                    {tokens_shape(s), log_sums_shape(s)});
      check_close(got[0], want[0], 1e-5);
      check_close(got[1], want[1], 1e-5);
      Array alone(type, tokens_shape(s));
      cuda::attention(s, qkv.data(), alone.data(), nullptr, type, nullptr);
      CHECK(alone.bytes() == got[0].bytes());
    }
  }
}

TEST_CASE("cuda attention_backward: the gradient is the same bits in any order") {
  for (const DType type : kFloatTypes) {
    for (const cuda::AttentionShape& s : attention_shapes()) {
      CAPTURE(s.tokens);
      CAPTURE(s.channels);
      Array qkv = Array::random(type, qkv_shape(s), 3),
            dy = Array::random(type, tokens_shape(s), 4);
      Array y(type, tokens_shape(s)), log_sums(kF32, log_sums_shape(s));
      cuda::attention(s, qkv.data(), y.data(), log_sums.as<float>(), type, nullptr);
      const std::vector<Array> got = check_repeats([&] {
        std::vector<Array> made;
        made.emplace_back(type, qkv_shape(s));
        cuda::attention_backward(s, qkv.data(), y.data(), log_sums.as<float>(), dy.data(),
                                 made[0].data(), type, nullptr);
        return made;
      });
      const auto want =
          evaluate_op(graph::AttentionBackward{s.heads},
                      {qkv.tensor(), y.tensor(), log_sums.tensor(), dy.tensor()}, {qkv_shape(s)});
      // Rounding y changes the gradient of every score of its row.
      check_close(got[0], want[0], type == kF32 ? 1e-4 : type == DType::kBFloat16 ? 0.2 : 0.03);
    }
  }
}

}  // namespace trainer::test
