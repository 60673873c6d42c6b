// The conformance table: the end of residual blocks, forward and backward, where the CPU and CUDA
// backends add, activate and take sums in one pass.
#include <doctest/doctest.h>

#include "backend/harness.h"
#include "backend/model_runs.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test::conformance_residual_test {
namespace {

using graph::Activation;
using graph::ValueId;

constexpr Activation kRelu{Activation::Kind::kRelu};

struct Spec {
  std::int64_t height = 5, width = 7, channels = 32;
  Activation activation = kRelu;  // of the sum
  Activation of_norm = {};        // of the norms; if linear, the sum can compute their outputs
  bool inference = false;         // norms with moving statistics, and no gradients
  bool frozen = false;            // norms with statistics of the batch, and no gradients
  bool two_norms = false;         // what is added comes from a norm, too
  bool twice = false;             // what is added is the norm's output itself
  bool norm_second = false;       // the norm's output is the second term
  bool two_gradients = true;      // the gradient of the sum is one itself
  bool given_gradients = false;   // and its terms are the caller's
  bool writes_all = false;        // the values between are asked for
  bool used_again = false;        // the norm's output has another reader
  bool separate = false;          // the norms take a copy of the gradient
  bool flat = false;              // vectors of channels, not images
  bool x_again = false;           // the norm's input is computed again for its gradient
  bool reshaped = false;          // the sum's gradients are reshaped ones of another use
};

struct Norm {
  ValueId given, x, gamma, z, mean, inverse_std;
};

ValueId add_tanh(Builder& b, ValueId x) {
  return b.add1(graph::Activate{{Activation::Kind::kTanh}}, {x});
}

// Scale and shift such that all pieces of relu6 are met.
Norm norm(Builder& b, const Spec& s, const Shape& image) {
  Norm n{};
  n.given = b.input(image);
  n.x = s.x_again ? add_tanh(b, n.given) : n.given;
  n.gamma = b.parameter({s.channels}, {2, 5});
  const ValueId beta = b.parameter({s.channels}, {-1, 4});
  if (s.inference) {
    const ValueId mean = b.parameter({s.channels});
    const ValueId variance = b.parameter({s.channels}, {0.5, 2});
    n.z = b.add1(graph::BatchNormInference{1e-3f, {}}, {n.x, n.gamma, beta, mean, variance});
    return n;
  }
  const auto made = b.add(graph::BatchNorm{1e-3f, s.of_norm}, {n.x, n.gamma, beta});
  n.z = made[0];
  n.mean = made[1];
  n.inverse_std = made[2];
  for (const ValueId id : {n.mean, n.inverse_std}) b.output(id);
  return n;
}

ValueId gradient(Builder& b, const Spec& s, const Shape& image) {
  const ValueId given = b.input(image);
  if (s.given_gradients) return given;
  const ValueId made = add_tanh(b, given);
  if (!s.reshaped) return made;
  b.output(made);
  return b.add1(graph::Reshape{image}, {made});
}

void backward(Builder& b, const Spec& s, const Shape& image, ValueId w,
              const std::vector<Norm>& norms) {
  ValueId dy = gradient(b, s, image);
  if (s.two_gradients) dy = b.add1(graph::Add{}, {dy, gradient(b, s, image)});
  ValueId d = dy;
  if (!s.activation.linear()) d = b.add1(graph::ActivateBackward{s.activation}, {w, dy});
  ValueId taken = d;
  if (s.separate) taken = b.add1(graph::Add{}, {d, b.input(image, {0, 0})});
  for (const Norm& n : norms) {
    const ValueId x = s.x_again ? add_tanh(b, n.given) : n.x;
    std::vector<ValueId> inputs{x, taken, n.gamma, n.mean, n.inverse_std};
    if (!s.of_norm.linear()) inputs.push_back(n.z);
    const auto made = b.add(graph::BatchNormBackward{1e-3f, s.of_norm}, inputs);
    for (const ValueId id : made) b.output(id);
  }
  if (s.writes_all && s.two_gradients) b.output(dy);
}

void residual(Builder& b, const Spec& s) {
  const Shape image =
      s.flat ? Shape{kBatch, s.channels} : Shape{kBatch, s.height, s.width, s.channels};
  std::vector<Norm> norms{norm(b, s, image)};
  ValueId first = norms[0].z, second = graph::kNoValue;
  if (s.two_norms) {
    norms.push_back(norm(b, s, image));
    second = norms[1].z;
  } else if (s.twice) {
    second = norms[0].z;
  } else {
    second = b.input(image, {-8, 8});
  }
  if (s.norm_second) std::swap(first, second);
  const ValueId sum = b.add1(graph::Add{}, {first, second});
  ValueId w = sum;
  if (!s.activation.linear()) w = b.add1(graph::Activate{s.activation}, {sum});
  b.output(w);
  if (s.used_again) b.output(b.add1(graph::Activate{kRelu}, {norms[0].z}));
  if (!s.inference && !s.frozen) backward(b, s, image, w, norms);
  if (!s.writes_all) return;
  for (const Norm& n : norms) b.output(n.z);
  if (w != sum) b.output(sum);
}

// Float32 sums lose more digits than a single op.
Case row(const std::string& name, const Spec& spec, std::vector<std::int64_t> batches = {3}) {
  Case c{name, [spec](Builder& b) { residual(b, spec); }, std::move(batches), 5e-5};
  // A sum close to zero, rounded otherwise, lets another gradient through.
  c.half_precision = false;
  return c;
}

// Compares the outputs of the one pass with those of a program that writes every value between.
void check_same_bits(const std::string& name, Spec spec) {
  for (const Setup& setup : setups()) {
    const auto fused = collect_outputs(row(name, spec), setup, 3);
    Spec all = spec;
    all.writes_all = all.separate = true;
    const auto separate = collect_outputs(row(name, all), setup, 3);
    REQUIRE(separate.size() > fused.size());
    for (std::size_t i = 0; i < fused.size(); ++i) {
      CHECK_MESSAGE(same_bits(fused[i], separate[i]), name, ", ", to_string(setup), ", output ", i);
    }
  }
}

int read_steps(const std::string& mark, const Spec& spec, DType type = DType::kFloat32) {
  Builder b(type);
  residual(b, spec);
  return count_instructions(b.graph, mark);
}

}  // namespace

TEST_CASE("residual block: shapes, norms and gradients match the reference") {
  check(row("the norm first", {}, {1, 2, 5}));
  check(row("the norm second", {.norm_second = true}));
  check(row("two norms", {.two_norms = true}));
  check(row("channels that fill no block", {.channels = 5}));
  check(row("several blocks, the last not full", {.channels = 37, .two_norms = true}, {4}));
  check(row("more pixels than a run of sums", {.height = 3, .width = 131, .channels = 8}));
  check(row("one pixel", {.height = 1, .width = 1, .channels = 8}, {6}));
  check(row("one gradient", {.two_gradients = false}));
  check(row("the caller's gradients", {.given_gradients = true}));
  check(row("the caller's gradient", {.two_gradients = false, .given_gradients = true}));
  check(row("another reader of the norm", {.used_again = true}));
  check(row("twice the same", {.twice = true}));
  check(row("an input computed again", {.x_again = true}));
  check(row("a norm with an activation", {.of_norm = kRelu}));
  check(
      row("a norm with an activation that no gradient reads", {.of_norm = kRelu, .frozen = true}));
  check(row("reshaped gradients", {.reshaped = true}));
  check(row("vectors", {.flat = true}, {6}));
  check(row("what lies between is asked for", {.two_norms = true, .writes_all = true}));
}

TEST_CASE("residual block: activations match the reference") {
  check(row("none", {.activation = {}}));
  check(row("none, two norms", {.activation = {}, .two_norms = true}));
  check(row("relu6", {.activation = {Activation::Kind::kRelu6}}));
  check(row("leaky_relu", {.activation = {Activation::Kind::kLeakyRelu, 0.3f}}));
  check(row("elu", {.activation = {Activation::Kind::kElu, 1}}));
  check(row("tanh", {.activation = {Activation::Kind::kTanh}}));
}

TEST_CASE("residual block: moving statistics match the reference") {
  for (const Activation& activation : {Activation{}, kRelu}) {
    for (const bool two_norms : {false, true}) {
      check(
          row("inference", {.activation = activation, .inference = true, .two_norms = two_norms}));
    }
  }
}

TEST_CASE("residual block: fused ops match the single ops bit by bit") {
  check_same_bits("the norm first", {});
  check_same_bits("the norm second", {.norm_second = true});
  check_same_bits("two norms", {.channels = 37, .two_norms = true});
  check_same_bits("many pixels", {.height = 3, .width = 131, .channels = 40});
  check_same_bits("relu6", {.activation = {Activation::Kind::kRelu6}});
  check_same_bits("leaky_relu", {.activation = {Activation::Kind::kLeakyRelu, 0.3f}});
  check_same_bits("no activation", {.activation = {}, .two_norms = true});
  check_same_bits("the caller's gradients", {.given_gradients = true});
  check_same_bits("inference", {.inference = true});
  check_same_bits("inference, two norms", {.inference = true, .two_norms = true});
}

TEST_CASE("CPU program: residual blocks run as one instruction where they can") {
  if (uses_gpus()) TRAINER_SKIP("the CPU's kernels compute the ends of blocks in one pass");
  const auto with_norm = [](const Spec& spec) { return read_steps("with a batch norm", spec); };
  CHECK(with_norm({}) == 2);
  CHECK(with_norm({.norm_second = true}) == 2);
  CHECK(with_norm({.two_gradients = false}) == 2);
  CHECK(with_norm({.inference = true}) == 1);
  CHECK(with_norm({.activation = {}}) == 1);
  // The sum alone, or the gradient alone.
  CHECK(with_norm({.activation = {Activation::Kind::kTanh}}) == 1);
  CHECK(with_norm({.used_again = true}) == 1);
  // The gradient, whose sum is written, still takes the norm's sums.
  CHECK(with_norm({.writes_all = true}) == 1);
  CHECK(with_norm({.writes_all = true, .separate = true}) == 0);
  CHECK(with_norm({.flat = true}) == 0);
  CHECK(with_norm({.of_norm = kRelu}) == 0);
  CHECK(with_norm({.x_again = true}) == 1);
  // The gradient, beside the sum of both.
  CHECK(with_norm({.two_norms = true}) == 1);
  CHECK(read_steps("with two batch norms", {.two_norms = true}) == 1);
  CHECK(read_steps("with two batch norms", {.inference = true, .two_norms = true}) == 1);
}

TEST_CASE("CPU program: residual blocks make two fused instructions in bfloat16") {
  if (uses_gpus()) TRAINER_SKIP("the CPU's kernels compute the ends of blocks in one pass");
  if (!open(setups()[0]).supports(DType::kBFloat16)) {
    TRAINER_SKIP("this processor does not compute in bfloat16");
  }
  CHECK(read_steps("with a batch norm", {}, DType::kBFloat16) == 2);
}

TEST_CASE("residual block: a GPU runs it in few instructions") {
  if (!uses_gpus()) TRAINER_SKIP("the CUDA backend is not the one that tests run on");
  const auto with_norm = [](const Spec& spec) { return read_steps("with batch norm", spec); };
  const auto with_sum = [](const Spec& spec) { return read_steps("after add", spec); };
  CHECK(with_norm({}) == 2);
  CHECK(with_norm({.norm_second = true}) == 2);
  CHECK(with_norm({.two_gradients = false}) == 2);
  CHECK(with_norm({.activation = {}}) == 2);
  CHECK(with_norm({.activation = {Activation::Kind::kTanh}}) == 2);
  CHECK(with_norm({.two_norms = true}) == 2);
  CHECK(with_norm({.flat = true}) == 2);
  CHECK(with_sum({}) == 0);
  CHECK(read_steps("with batch norm", {}, DType::kBFloat16) == 2);
  // An activation whose gradient needs its input runs alone.
  CHECK(with_norm({.activation = {Activation::Kind::kGelu}}) == 1);
  // The norm's output has another reader: the sum and its activation run as one.
  CHECK(with_norm({.used_again = true}) == 1);
  CHECK(with_sum({.used_again = true}) == 1);
  // Where the norm's input is computed again, its gradient cannot run in the place of the sum.
  CHECK(with_norm({.x_again = true}) == 1);
  CHECK(with_sum({.x_again = true}) == 1);
  CHECK(with_norm({.writes_all = true}) == 1);
  // The norm reads a copy of the gradient, which is a sum as well.
  CHECK(with_norm({.writes_all = true, .separate = true}) == 1);
}

}  // namespace trainer::test::conformance_residual_test
