// The conformance table: depthwise convolutions between two batch norms, forward and backward,
// which the CPU computes in one pass each.
#include <doctest/doctest.h>

#include "backend/harness.h"
#include "backend/model_runs.h"
#include "backend/nets.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test::conformance_depthwise_test {
namespace {

using graph::Activation;
using graph::ValueId;
using graph::Window;

constexpr Activation kRelu{Activation::Kind::kRelu};
constexpr Activation kRelu6{Activation::Kind::kRelu6};

struct Spec {
  std::int64_t height = 7, width = 9, channels = 32, stride = 1;
  std::array<std::int64_t, 4> pad{1, 1, 1, 1};  // top, bottom, left, right
  Activation before = kRelu6, after = kRelu6;
  std::int64_t dilation = 1;
  bool gives_z = false;   // the value between the first norm and the convolution is asked for
  bool gives_dy = false;  // or the gradient between the second norm and the convolution
  double offset = 0;      // of x
};

// Scale and shift such that all of relu6's three pieces are met.
std::vector<ValueId> norm(Builder& b, const Activation& activation, ValueId x,
                          std::int64_t channels, std::vector<ValueId>& gamma) {
  gamma.push_back(b.parameter({channels}, {2, 5}));
  const ValueId beta = b.parameter({channels}, {-1, 4});
  return b.add(graph::BatchNorm{1e-3f, activation}, {x, gamma.back(), beta});
}

std::vector<ValueId> norm_backward(Builder& b, const Activation& activation, ValueId x, ValueId dy,
                                   ValueId gamma, const std::vector<ValueId>& forward) {
  std::vector<ValueId> inputs{x, dy, gamma, forward[1], forward[2]};
  if (!activation.linear()) inputs.push_back(forward[0]);
  return b.add(graph::BatchNormBackward{1e-3f, activation}, inputs);
}

void chain(Builder& b, const Spec& s) {
  const Window window{{3, 3},
                      {s.stride, s.stride},
                      {s.dilation, s.dilation},
                      {s.pad[0], s.pad[2]},
                      {s.pad[1], s.pad[3]}};
  const Shape image{kBatch, s.height, s.width, s.channels};
  std::vector<ValueId> gamma;
  const ValueId x = b.input(image, {s.offset - 1, s.offset + 1});
  const auto z = norm(b, s.before, x, s.channels, gamma);
  const ValueId kernel = b.parameter({3, 3, 1, s.channels});
  const ValueId y = b.add1(graph::Conv{window, s.channels, false, {}}, {z[0], kernel});
  const auto w = norm(b, s.after, y, s.channels, gamma);
  const ValueId dw = b.input(b.graph[y].shape);
  const auto dy = norm_backward(b, s.after, y, dw, gamma[1], w);
  const ValueId dz = b.add1(graph::ConvBackwardData{window, s.channels, image}, {dy[0], kernel});
  const ValueId dkernel = b.add1(
      graph::ConvBackwardWeights{window, s.channels, false, b.graph[kernel].shape}, {z[0], dy[0]});
  const auto dx = norm_backward(b, s.before, x, dz, gamma[0], z);
  for (const ValueId id : {w[0], w[1], w[2], z[1], z[2], dkernel}) b.output(id);
  for (const auto& gradients : {dy, dx}) {
    b.output(gradients[1]);
    b.output(gradients[2]);
  }
  b.output(dx[0]);
  if (s.gives_z) b.output(z[0]);
  if (s.gives_dy) b.output(dy[0]);
}

// Float32 sums lose more digits than a single op; a value beside 0 or 6, rounded otherwise, lets
// another gradient through (check_bfloat16() is for these).
Case row(const std::string& name, const Spec& spec, std::vector<std::int64_t> batches = {3}) {
  Case c{name, [spec](Builder& b) { chain(b, spec); }, std::move(batches), 5e-5};
  c.half_precision = false;
  return c;
}

// Those that compute whole batches in bfloat16.
std::vector<Setup> bfloat16_setups() {
  std::vector<Setup> all = setups();
  std::erase_if(all, [](const Setup& setup) {
    return setup.type != DType::kBFloat16 || setup.splits_batch();
  });
  return all;
}

// In bfloat16 a chain is at most a fifth further from the reference than its ops one by one, which
// round what the chain does not write.
void check_bfloat16(const std::string& name, Spec spec) {
  const Case chained = row(name, spec);
  spec.gives_z = spec.gives_dy = true;
  const Case separate = row(name, spec);
  const auto expected = compute_expected(chained, DType::kBFloat16, 3);
  for (const Setup& setup : bfloat16_setups()) {
    const auto got = collect_outputs(chained, setup, 3), ops = collect_outputs(separate, setup, 3);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double d = distance(got[i], expected[i]), most = distance(ops[i], expected[i]);
      CHECK_MESSAGE(d <= 1.2 * most + 1e-3, name, ", ", to_string(setup), ", output ", i,
                    ": relative distance ", d, ", of single ops ", most);
    }
  }
}

// How many instructions of the program are of our own kernels for such chains.
int fused_instructions(const graph::Graph& graph) {
  return count_instructions(graph, "with batch norms");
}

int fused_instructions(const Spec& spec, DType type = DType::kFloat32) {
  Builder b(type);
  chain(b, spec);
  return fused_instructions(b.graph);
}

}  // namespace

TEST_CASE("depthwise convolution between batch norms: shapes and channels match the reference") {
  check(row("same", {}, {1, 2, 5}));
  check(row("channels that fill no block", {.channels = 5}));
  check(row("several blocks, the last not full", {.channels = 37}, {4}));
  check(row("rows longer than a run of sums", {.height = 3, .width = 131, .channels = 8}));
  check(row("more rows than columns", {.height = 19, .width = 2, .channels = 8}));
  check(row("one row", {.height = 1, .width = 2, .channels = 8}, {6}));
  check(row("large mean", {.offset = 30}));
}

TEST_CASE("depthwise convolution between batch norms: windows match the reference") {
  check(row("no padding", {.pad = {0, 0, 0, 0}}));
  check(row("padding at the top and left", {.pad = {2, 0, 2, 0}}));
  check(row("padding at the bottom and right", {.pad = {0, 2, 0, 2}}));
  check(row("more padding than the window", {.pad = {4, 3, 5, 4}}));
  check(row("stride 2, even", {.height = 8, .width = 12, .stride = 2, .pad = {0, 1, 0, 1}}));
  check(row("stride 2, odd", {.height = 9, .width = 11, .stride = 2}));
  check(row("stride 2, odd, no padding", {.height = 7, .width = 9, .stride = 2, .pad = {}}));
  check(row("stride 2, last row and column unread",
            {.height = 8, .width = 10, .stride = 2, .pad = {}}));
  check(row("stride 2, much padding", {.height = 5, .width = 4, .stride = 2, .pad = {3, 4, 4, 3}}));
  check(row("stride 2, one pixel", {.height = 2, .width = 2, .stride = 2, .pad = {0, 1, 0, 1}}));
}

TEST_CASE("depthwise convolution between batch norms: activations match the reference") {
  const Activation leaky{Activation::Kind::kLeakyRelu, 0.3f};
  check(row("relu", {.before = kRelu, .after = kRelu}));
  check(row("leaky_relu and none", {.before = leaky, .after = {}}));
  check(row("relu6 and elu", {.after = {Activation::Kind::kElu, 1}}));
  check(row("none and relu6", {.before = {}}));
  check(row("tanh and relu6", {.before = {Activation::Kind::kTanh}}));
}

TEST_CASE("depthwise convolution between batch norms: bfloat16 matches the reference") {
  if (bfloat16_setups().empty()) TRAINER_SKIP("this processor does not compute in bfloat16");
  check_bfloat16("stride 1", {});
  check_bfloat16("stride 2", {.height = 9, .width = 11, .stride = 2});
  check_bfloat16("several blocks, the last not full", {.channels = 37});
  check_bfloat16("long rows", {.height = 3, .width = 131, .channels = 40});
  check_bfloat16("relu", {.before = kRelu, .after = kRelu});
  check_bfloat16("large mean", {.offset = 30});
}

TEST_CASE("depthwise convolution between batch norms: outputs inside the chain are written") {
  check(row("output of the norm before", {.gives_z = true}));
  check(row("gradient of the norm after", {.gives_dy = true}));
}

TEST_CASE(
    "CPU program: depthwise convolutions between norms run as one instruction where they can") {
  if (uses_gpus()) TRAINER_SKIP("the CPU's kernels compute chains in one pass");
  CHECK(fused_instructions(Spec{}) == 2);
  CHECK(fused_instructions(Spec{.stride = 2}) == 2);
  CHECK(fused_instructions(Spec{.dilation = 2}) == 0);
  CHECK(fused_instructions(Spec{.stride = 3}) == 0);
  CHECK(fused_instructions(Spec{.before = {}}) == 0);
  CHECK(fused_instructions(Spec{.gives_z = true}) == 0);
  CHECK(fused_instructions(Spec{.gives_dy = true}) == 0);
  CHECK(fused_instructions(Spec{.after = {Activation::Kind::kTanh}}) == 0);
  CHECK(fused_instructions(Spec{.channels = 8}) == 0);  // a block for two threads
  CHECK(fused_instructions(training_graph(kSeparable)) == 2);
}

TEST_CASE(
    "CPU program: depthwise convolutions between norms make two fused instructions in bfloat16") {
  if (uses_gpus()) TRAINER_SKIP("the CPU's kernels compute chains in one pass");
  if (!open(setups()[0]).supports(DType::kBFloat16)) {
    TRAINER_SKIP("this processor does not compute in bfloat16");
  }
  CHECK(fused_instructions({}, DType::kBFloat16) == 2);
}

TEST_CASE("CPU program: own kernels compute the gradient of depthwise windows of 3, 5 and 7") {
  if (uses_gpus()) TRAINER_SKIP("the CPU has such kernels");
  const auto count = [](std::int64_t side, std::int64_t groups, std::int64_t out) {
    Builder b(DType::kFloat32);
    const Window window{{side, side}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    const ValueId x = b.input({kBatch, 8, 9, 16});
    const ValueId dy = b.input({kBatch, 9 - side, 10 - side, out});
    const Shape kernel{side, side, 16 / groups, out};
    b.output(b.add1(graph::ConvBackwardWeights{window, groups, false, kernel}, {x, dy}));
    return count_instructions(b.graph, "conv_backward_weights x86-64");
  };
  for (const std::int64_t side : {3, 5, 7}) CHECK(count(side, 16, 16) == 1);
  CHECK(count(2, 16, 16) == 0);
  CHECK(count(5, 8, 16) == 0);
  CHECK(count(5, 16, 32) == 0);
}

}  // namespace trainer::test::conformance_depthwise_test
