// The conformance table: convolutions, alone and with a max pooling.
#include <doctest/doctest.h>

#include "backend/harness.h"

namespace trainer::test::conformance_conv_test {
namespace {

using graph::Activation;
using graph::ValueId;
using graph::Window;
using Convolution = ConvolutionAlgorithm;

struct Spec {
  std::int64_t kernel_h = 3, kernel_w = 3, stride = 1, dilation = 1, groups = 1;
  std::array<std::int64_t, 4> pad{};  // top, bottom, left, right
  std::int64_t in = 16, out = 16, height = 7, width = 9;
  bool bias = true;
  Activation activation{};
};

Window build_window(const Spec& s) {
  return {{s.kernel_h, s.kernel_w},
          {s.stride, s.stride},
          {s.dilation, s.dilation},
          {s.pad[0], s.pad[2]},
          {s.pad[1], s.pad[3]}};
}

// Forward, and both gradients of a convolution without activation.
void convolution(Builder& b, const Spec& s) {
  const Window window = build_window(s);
  const ValueId x = b.input({kBatch, s.height, s.width, s.in});
  const ValueId kernel = b.parameter({s.kernel_h, s.kernel_w, s.in / s.groups, s.out});
  std::vector<ValueId> inputs{x, kernel};
  if (s.bias) inputs.push_back(b.parameter({s.out}));
  b.output(b.add1(graph::Conv{window, s.groups, s.bias, s.activation}, inputs));
  const ValueId dy =
      b.input({kBatch, window.output(s.height, 0), window.output(s.width, 1), s.out});
  b.output(b.add1(graph::ConvBackwardData{window, s.groups, {kBatch, s.height, s.width, s.in}},
                  {dy, kernel}));
  const auto gradients =
      b.add(graph::ConvBackwardWeights{window, s.groups, s.bias, b.graph[kernel].shape}, {x, dy});
  for (const ValueId id : gradients) b.output(id);
}

Case row(const std::string& name, const Spec& spec, std::vector<std::int64_t> batches = {3}) {
  return {name, [spec](Builder& b) { convolution(b, spec); }, std::move(batches)};
}

// A convolution and its max pooling.
struct Stem {
  graph::Conv conv;
  Window pooling;
  ValueId x, kernel, convolved;
  std::vector<ValueId> pooled;  // and the index
};

// `cut` is the number of the last pixels that the pooling leaves unread. `fill` is the content of
// image, kernel and bias.
Stem add_stem(Builder& b, const Spec& s, std::int64_t cut, const Fill& fill) {
  Stem stem;
  stem.conv = {build_window(s), 1, s.bias, s.activation};
  stem.pooling = {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {-cut, -cut}};
  stem.x = b.input({kBatch, s.height, s.width, s.in}, fill);
  stem.kernel = b.parameter({s.kernel_h, s.kernel_w, s.in, s.out}, fill);
  std::vector<ValueId> inputs{stem.x, stem.kernel};
  if (s.bias) inputs.push_back(b.parameter({s.out}, fill));
  stem.convolved = b.add1(stem.conv, inputs);
  stem.pooled = b.add(graph::Pool{graph::Pool::Kind::kMax, stem.pooling, true}, {stem.convolved});
  b.output(stem.pooled[0]);
  return stem;
}

// Adds the gradients of kernel and bias.
void add_stem_gradients(Builder& b, const Stem& stem) {
  const ValueId y = stem.pooled[0];
  std::vector<ValueId> from_pool{b.input(b.graph[y].shape), stem.pooled[1]};
  if (!stem.conv.activation.linear()) from_pool.push_back(y);
  const ValueId dconvolved =
      b.add1(graph::PoolBackward{graph::Pool::Kind::kMax, stem.pooling,
                                 b.graph[stem.convolved].shape, stem.conv.activation},
             from_pool);
  for (const ValueId id : b.add(graph::ConvBackwardWeights{stem.conv.window, 1, stem.conv.bias,
                                                           b.graph[stem.kernel].shape},
                                {stem.x, dconvolved})) {
    b.output(id);
  }
}

// Checks the fused op against its parts. In half precision, rounding before the pooling may change
// which pixel wins, and with it the gradient. Gradients in half precision are therefore checked
// with whole numbers, whose sums are exact, and real numbers only forward.
void check_stem(const std::string& name, const Spec& spec, std::vector<std::int64_t> batches = {3},
                std::int64_t cut = 0) {
  const auto build = [=](const Fill& fill) {
    return [=](Builder& b) { add_stem_gradients(b, add_stem(b, spec, cut, fill)); };
  };
  Case real{name, build({}), batches};
  real.half_precision = false;
  check(real);
  check({name + ", whole numbers", build({.low = -1, .high = 2, .whole = true}), batches});
  check({name + ", forward", [=](Builder& b) { add_stem(b, spec, cut, {}); }, std::move(batches)});
}

constexpr Activation kRelu{Activation::Kind::kRelu, 0};

}  // namespace

// A backend may finish the gradients of all kernels at once, after the last of them.
TEST_CASE("Conv: the gradient of a kernel that another node reads is whole when it is read") {
  check({"a kernel of two convolutions", [](Builder& b) {
           const Window window = build_window({.in = 3, .out = 5});
           const ValueId kernel = b.parameter({3, 3, 3, 5});
           for (int i = 0; i < 2; ++i) {
             const ValueId x = b.input({kBatch, 9, 8, 3});
             const ValueId dy = b.input({kBatch, window.output(9, 0), window.output(8, 1), 5});
             const ValueId gradient = b.add1(
                 graph::ConvBackwardWeights{window, 1, false, b.graph[kernel].shape}, {x, dy});
             b.output(b.add1(graph::Add{}, {gradient, kernel}));
           }
         }});
}

TEST_CASE("Conv: kernels, strides, dilation and padding match the reference") {
  check(row("1x1", {.kernel_h = 1, .kernel_w = 1}, {1, 2, 5}));
  check(row("1x1 stride 2", {.kernel_h = 1, .kernel_w = 1, .stride = 2}));
  check(row("3x3 valid", {}, {1, 2, 5}));
  check(row("3x3 same", {.pad = {1, 1, 1, 1}}, {1, 2, 5}));
  check(row("3x3 stride 2, padded below and right", {.stride = 2, .pad = {0, 1, 0, 1}}));
  check(row("3x3 stride 3", {.stride = 3, .pad = {1, 1, 1, 1}}));
  check(row("3x3 dilation 2", {.dilation = 2, .pad = {2, 2, 2, 2}}));
  check(row("3x3 padded unevenly", {.pad = {2, 0, 1, 2}}));
  check(row("2x4", {.kernel_h = 2, .kernel_w = 4, .pad = {0, 1, 1, 2}}));
  check(row("5x5", {.kernel_h = 5, .kernel_w = 5, .pad = {2, 2, 2, 2}}));
  check(row("5x5 stride 2", {.kernel_h = 5, .kernel_w = 5, .stride = 2, .pad = {1, 2, 1, 2}}));
  check(row("7x7 stride 2, three channels", {.kernel_h = 7,
                                             .kernel_w = 7,
                                             .stride = 2,
                                             .pad = {2, 3, 2, 3},
                                             .in = 3,
                                             .out = 32,
                                             .height = 15,
                                             .width = 13}));
  check(row("as large as the image", {.kernel_h = 7, .kernel_w = 9}));
}

TEST_CASE("Conv: channels match the reference") {
  for (const std::int64_t in : {1, 3, 4, 5, 8, 16, 17, 32, 64}) {
    for (const std::int64_t out : {1, 5, 16, 20, 64}) {
      check(row(
          concat(in, " to ", out),
          {.pad = {1, 1, 1, 1}, .in = in, .out = out, .height = 5, .width = 6, .bias = out != 16},
          {2}));
    }
  }
}

// check() also requires a 0 wherever the reference has one.
TEST_CASE("Conv: the gradient of taps that meet only padding is 0") {
  for (const std::int64_t size : {2, 3, 5}) {
    for (const std::int64_t stride : {2, 3, 4}) {
      for (const std::int64_t width : {1, 2, 3}) {
        const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
        check(row(concat(size, "x", size, " stride ", stride, ", width ", width),
                  {.kernel_h = size,
                   .kernel_w = size,
                   .stride = stride,
                   .pad = {before, after, before, after},
                   .in = size == 2 ? 1 : 16,
                   .out = 15 + stride,
                   .height = 6,
                   .width = width},
                  {2}));
      }
    }
  }
  const Spec pixel{.stride = 2, .pad = {1, 1, 1, 1}, .height = 1, .width = 1};
  check(row("one pixel", pixel, {1, 3}));
  Spec spec = pixel;
  spec.in = spec.out = 64;
  check(row("one pixel, 64 channels", spec, {9}));
  spec = pixel;
  spec.width = 8;
  check(row("height 1", spec));
  for (const std::int64_t groups : {2, 16}) {
    spec = pixel;
    spec.groups = groups;
    check(row(concat(groups, " groups"), spec));
  }
  spec = pixel;
  spec.stride = 1;
  check(row("stride 1", spec));
  spec.dilation = 3;
  spec.pad = {3, 3, 3, 3};
  check(row("dilated beyond the image", spec));
  check(row("padded by more than the image", {.stride = 2, .pad = {0, 0, 5, 0}, .width = 2}));
}

TEST_CASE("Conv: the gradient of pixels that no window meets is 0") {
  check(row("1x1 stride 3", {.kernel_h = 1, .kernel_w = 1, .stride = 3}));
  check(row("2x2 stride 4, three channels", {.kernel_h = 2, .kernel_w = 2, .stride = 4, .in = 3}));
  check(row("2x2 stride 3, depthwise",
            {.kernel_h = 2, .kernel_w = 2, .stride = 3, .groups = 16, .pad = {0, 1, 0, 1}}));
  check(row("1x1 stride 2, 2 groups",
            {.kernel_h = 1, .kernel_w = 1, .stride = 2, .groups = 2, .in = 6, .out = 4}));
}

TEST_CASE("Conv: groups and depthwise convolutions match the reference") {
  check(row("2 groups of 16", {.groups = 2, .pad = {1, 1, 1, 1}, .in = 32, .out = 32}));
  check(row("2 groups of 3", {.groups = 2, .pad = {1, 1, 1, 1}, .in = 6, .out = 4}));
  check(row("4 groups, 1x1", {.kernel_h = 1, .kernel_w = 1, .groups = 4, .in = 8, .out = 12}));
  for (const std::int64_t channels : {3, 16, 17, 32}) {
    for (const std::int64_t multiplier : {1, 2}) {
      check(row(
          concat("depthwise ", channels, " x ", multiplier),
          {.groups = channels, .pad = {1, 1, 1, 1}, .in = channels, .out = channels * multiplier},
          {2}));
    }
  }
  check(row("depthwise stride 2", {.stride = 2, .groups = 16, .pad = {0, 1, 0, 1}}));
}

TEST_CASE("Conv: depthwise convolutions with windows of any size match the reference") {
  for (const std::int64_t side : {2, 3, 5, 7}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t width : {2, 9}) {
        for (const std::int64_t before : {std::int64_t{0}, side / 2, side - 1}) {
          const std::int64_t after = side - 1 - before;
          check(row(concat("depthwise, side ", side, ", stride ", stride, ", width ", width,
                           ", padding ", before),
                    {.kernel_h = side,
                     .kernel_w = side,
                     .stride = stride,
                     .groups = 20,
                     .pad = {before, after, before, after},
                     .in = 20,
                     .out = 20,
                     .width = width,
                     .bias = side != 5},
                    {2}));
        }
      }
    }
  }
  check(row("depthwise 3x5", {.kernel_w = 5, .groups = 16, .pad = {1, 1, 2, 2}}));
  check(row("depthwise dilation 2", {.dilation = 2, .groups = 16, .pad = {2, 2, 2, 2}}));
}

TEST_CASE("Conv: activations match the reference") {
  using Kind = Activation::Kind;
  for (const Kind kind : {Kind::kRelu, Kind::kRelu6, Kind::kLeakyRelu, Kind::kElu, Kind::kSigmoid,
                          Kind::kTanh, Kind::kGelu, Kind::kSwish}) {
    const Activation activation{kind, kind == Kind::kLeakyRelu ? 0.3f : 1.0f};
    check(row(std::string(spell(kind)),
              {.in = 16, .out = 20, .height = 4, .width = 5, .activation = activation}));
  }
}

TEST_CASE("Conv: ConvolutionAlgorithm direct and winograd match the reference") {
  for (const Convolution algorithm : {Convolution::kDirect, Convolution::kWinograd}) {
    const auto forced = [algorithm](const std::string& name, const Spec& spec,
                                    std::vector<std::int64_t> batches = {2}) {
      Case c = row(concat(name, algorithm == Convolution::kDirect ? ", direct" : ", winograd"),
                   spec, std::move(batches));
      c.convolution = algorithm;
      check(c);
    };
    forced(
        "usual",
        {.pad = {1, 1, 1, 1}, .in = 64, .out = 48, .height = 9, .width = 10, .activation = kRelu},
        {1, 4});
    forced("one output", {.in = 16, .out = 16, .height = 3, .width = 3});
    forced("one row", {.pad = {0, 0, 1, 1}, .in = 16, .out = 32, .height = 3, .width = 13});
    forced("smaller than a tile",
           {.pad = {1, 1, 1, 1}, .in = 5, .out = 3, .height = 1, .width = 2, .bias = false});
    forced("channels that fill no block",
           {.pad = {1, 1, 1, 1}, .in = 17, .out = 41, .height = 5, .width = 7});
    forced("whole tiles", {.pad = {1, 1, 1, 1}, .in = 8, .out = 24, .height = 8, .width = 12});
    forced("padded above and right",
           {.pad = {2, 0, 0, 2}, .in = 16, .out = 16, .height = 6, .width = 5});
    forced("padded below and left",
           {.pad = {0, 2, 2, 0}, .in = 16, .out = 16, .height = 6, .width = 5});
    // The upper taps meet only padding, so that their gradient is 0.
    forced("only padding", {.pad = {2, 0, 1, 1}, .in = 16, .out = 16, .height = 2, .width = 5});
    forced("valid", {.in = 16, .out = 16});
    // Where Winograd cannot be had, something else does the work.
    forced("5x5", {.kernel_h = 5, .kernel_w = 5, .in = 17});
    forced("stride 2", {.stride = 2, .pad = {1, 1, 1, 1}});
    forced("dilation 2", {.dilation = 2, .pad = {2, 2, 2, 2}});
    forced("2 groups", {.groups = 2, .pad = {1, 1, 1, 1}, .in = 32, .out = 32});
  }
}

TEST_CASE("Conv: activations with ConvolutionAlgorithm winograd match the reference") {
  using Kind = Activation::Kind;
  for (const Kind kind : {Kind::kRelu, Kind::kRelu6, Kind::kLeakyRelu, Kind::kElu, Kind::kSigmoid,
                          Kind::kTanh, Kind::kGelu, Kind::kSwish}) {
    const Activation activation{kind, kind == Kind::kLeakyRelu ? 0.3f : 1.0f};
    Case c = row(concat(spell(kind), ", winograd"),
                 {.in = 16, .out = 20, .height = 6, .width = 7, .activation = activation});
    c.convolution = Convolution::kWinograd;
    check(c);
  }
}

TEST_CASE("Conv with max pooling: kernels, padding and activations match the reference") {
  for (const std::int64_t kernel : {1, 3, 5}) {
    for (const std::int64_t in : {1, 3}) {
      for (const bool relu : {true, false}) {
        check_stem(concat(kernel, "x", kernel, ", ", in, " channels", relu ? ", relu" : ""),
                   {.kernel_h = kernel,
                    .kernel_w = kernel,
                    .in = in,
                    .out = 20,
                    .height = 11,
                    .width = 14,
                    .activation = relu ? kRelu : Activation{}});
      }
    }
  }
  check_stem("odd output drops a row and a column",
             {.in = 1, .out = 32, .height = 9, .width = 11, .activation = kRelu}, {1, 2, 5});
  check_stem(
      "same padding",
      {.pad = {1, 1, 1, 1}, .in = 3, .out = 16, .height = 9, .width = 8, .activation = kRelu});
  check_stem("uneven padding, no bias", {.pad = {0, 2, 1, 0},
                                         .in = 4,
                                         .out = 5,
                                         .height = 8,
                                         .width = 9,
                                         .bias = false,
                                         .activation = kRelu});
  // compile::trim() leaves pixels unread that no later op reads.
  check_stem("cut below and right",
             {.in = 3, .out = 16, .height = 10, .width = 12, .activation = kRelu}, {3}, 2);
  check_stem("as in the MNIST model",
             {.in = 1, .out = 32, .height = 28, .width = 28, .activation = kRelu}, {2});
}

}  // namespace trainer::test::conformance_conv_test
