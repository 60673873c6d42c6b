#include <doctest/doctest.h>

#include "graph/graph.h"

namespace trainer::graph::shape_test {
namespace {

const SourceLoc kLoc{"m.yaml", 7, 3};

Typed f32(Shape shape) { return {std::move(shape), DType::kFloat32}; }
Typed bf16(Shape shape) { return {std::move(shape), DType::kBFloat16}; }
Typed u8(Shape shape) { return {std::move(shape), DType::kUInt8}; }
Typed i32(Shape shape) { return {std::move(shape), DType::kInt32}; }

std::string text(const std::vector<Typed>& types) {
  std::string all;
  for (const Typed& type : types) {
    if (!all.empty()) all += ' ';
    all += concat(to_string(type.shape), " ", to_string(type.type));
  }
  return all;
}

std::string shape(const Op& op, const std::vector<Typed>& inputs) {
  return text(infer(op, inputs, "layer", kLoc));
}

// The message of the error that infer() throws.
std::string wrong(const Op& op, const std::vector<Typed>& inputs) {
  try {
    infer(op, inputs, "layer", kLoc);
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    CHECK(error.diagnostics()[0].loc.line == 7);
    return error.diagnostics()[0].message;
  }
  return "";
}

Window window(std::int64_t size, std::int64_t stride = 1, std::int64_t pad = 0) {
  return {{size, size}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
}

const Typed kImage = f32({kBatch, 8, 9, 4});
const Activation kRelu{Activation::Kind::kRelu, 0};

}  // namespace

TEST_CASE("Window: output() is rounded down, and is 0 where the window does not fit") {
  CHECK(window(3).output(8, 0) == 6);
  CHECK(window(3, 2).output(8, 0) == 3);
  CHECK(window(3, 2, 1).output(8, 0) == 4);
  CHECK(window(8).output(8, 0) == 1);
  CHECK(window(9).output(8, 0) == 0);
  Window dilated = window(3);
  dilated.dilation = {1, 3};
  CHECK(dilated.output(8, 0) == 6);
  CHECK(dilated.output(8, 1) == 2);
  dilated.pad_after = {0, 1};
  CHECK(dilated.output(8, 1) == 3);
}

TEST_CASE("infer: Preprocess returns float32 images") {
  const Preprocess op{1, {0, 0, 0}, {1, 1, 1}};
  CHECK(shape(op, {u8({kBatch, 4, 5, 3})}) == "[batch, 4, 5, 3] float32");
  CHECK(shape(op, {f32({kBatch, 4, 5, 3})}) == "[batch, 4, 5, 3] float32");
}

TEST_CASE("infer: Conv has the shapes forward and backward") {
  const Conv op{window(3, 2, 1), 2, true, kRelu};
  const Typed kernel = f32({3, 3, 2, 6}), bias = f32({6}), y = f32({kBatch, 4, 5, 6});
  CHECK(shape(op, {kImage, kernel, bias}) == "[batch, 4, 5, 6] float32");
  CHECK(shape(op, {bf16(kImage.shape), kernel, bias}) == "[batch, 4, 5, 6] bfloat16");
  CHECK(shape(Conv{window(1), 1, false, kRelu}, {kImage, f32({1, 1, 4, 6})}) ==
        "[batch, 8, 9, 6] float32");
  CHECK(shape(ConvBackwardData{op.window, 2, kImage.shape}, {y, kernel}) ==
        "[batch, 8, 9, 4] float32");
  CHECK(shape(ConvBackwardWeights{op.window, 2, true, kernel.shape}, {kImage, bf16(y.shape)}) ==
        "[3, 3, 2, 6] float32 [6] float32");
  CHECK(shape(ConvBackwardWeights{op.window, 2, false, kernel.shape}, {kImage, y}) ==
        "[3, 3, 2, 6] float32");
}

TEST_CASE("infer: Dense has the type of the input, and float32 for gradients of weights") {
  const Typed x = bf16({kBatch, 5}), kernel = f32({5, 3}), dy = f32({kBatch, 3});
  CHECK(shape(Dense{true, {}}, {x, kernel, f32({3})}) == "[batch, 3] bfloat16");
  CHECK(shape(DenseBackwardData{5}, {dy, kernel}) == "[batch, 5] float32");
  CHECK(shape(DenseBackwardWeights{true}, {x, dy}) == "[5, 3] float32 [3] float32");
  const Typed tokens = f32({kBatch, 7, 5}), dtokens = f32({kBatch, 7, 3});
  CHECK(shape(Dense{}, {tokens, kernel}) == "[batch, 7, 3] float32");
  CHECK(shape(DenseBackwardData{5}, {dtokens, kernel}) == "[batch, 7, 5] float32");
  CHECK(shape(DenseBackwardWeights{false}, {tokens, dtokens}) == "[5, 3] float32");
}

TEST_CASE("infer: Pool and GlobalPool have the shapes forward and backward") {
  const Pool max{Pool::Kind::kMax, window(3, 2, 1), true};
  const Typed y = f32({kBatch, 4, 5, 4});
  CHECK(shape(max, {kImage}) == "[batch, 4, 5, 4] float32 [batch, 4, 5, 4] uint8");
  CHECK(shape(Pool{Pool::Kind::kAverage, window(2, 2), false}, {kImage}) ==
        "[batch, 4, 4, 4] float32");
  CHECK(shape(PoolBackward{Pool::Kind::kMax, max.window, kImage.shape, {}}, {y, u8(y.shape)}) ==
        "[batch, 8, 9, 4] float32");
  CHECK(shape(PoolBackward{Pool::Kind::kMax, max.window, kImage.shape, kRelu},
              {y, u8(y.shape), y}) == "[batch, 8, 9, 4] float32");
  CHECK(shape(GlobalPool{}, {kImage}) == "[batch, 4] float32");
  CHECK(shape(GlobalPoolBackward{Pool::Kind::kAverage, kImage.shape}, {f32({kBatch, 4})}) ==
        "[batch, 8, 9, 4] float32");
  CHECK(shape(GlobalPoolBackward{Pool::Kind::kMax, kImage.shape},
              {f32({kBatch, 4}), kImage, f32({kBatch, 4})}) == "[batch, 8, 9, 4] float32");
}

TEST_CASE("infer: Multiply and AddBias, a factor or bias is repeated along axes that it lacks") {
  const Typed channels = f32({kBatch, 1, 1, 4}), vector = f32({4}), pixels = f32({8, 9, 4});
  for (const Typed& factor : {kImage, channels, vector, pixels}) {
    CHECK(shape(Multiply{}, {kImage, factor}) == "[batch, 8, 9, 4] float32");
  }
  CHECK(shape(Multiply{}, {f32({kBatch, 5}), f32({5})}) == "[batch, 5] float32");
  CHECK(shape(AddBias{}, {bf16(kImage.shape), vector}) == "[batch, 8, 9, 4] bfloat16");
  CHECK(shape(SumProduct{vector.shape}, {bf16(kImage.shape)}) == "[4] float32");
  CHECK(shape(SumProduct{channels.shape}, {bf16(kImage.shape), bf16(kImage.shape)}) ==
        "[batch, 1, 1, 4] bfloat16");
  for (const Shape& other : {Shape{kBatch, 1, 1, 3}, Shape{kBatch, 4}, Shape{3}, Shape{9, 4, 1}}) {
    CHECK(wrong(Multiply{}, {kImage, f32(other)}).find("keepdims: true} makes") !=
          std::string::npos);
    CHECK_FALSE(wrong(SumProduct{other}, {kImage}).empty());
  }
  CHECK(wrong(Multiply{}, {kImage}).find("multiplies two inputs, got 1") != std::string::npos);
  CHECK(wrong(AddBias{}, {kImage, f32({5})}).find("bias is [5]") != std::string::npos);
}

TEST_CASE("infer: GroupNorm, the groups must divide the channels") {
  const Typed gamma = f32({4});
  CHECK(shape(GroupNorm{2}, {bf16(kImage.shape), gamma, gamma}) == "[batch, 8, 9, 4] bfloat16");
  CHECK(shape(GroupNorm{1, true}, {f32({kBatch, 4}), gamma, gamma}) == "[batch, 4] float32");
  CHECK(shape(GroupNormBackward{2}, {kImage, bf16(kImage.shape), gamma}) ==
        "[batch, 8, 9, 4] bfloat16 [4] float32 [4] float32");
  for (const std::int64_t groups : {0, 3, 8}) {
    CHECK(wrong(GroupNorm{groups}, {kImage, gamma, gamma}).find("does not divide the 4 channels") !=
          std::string::npos);
  }
}

TEST_CASE("infer: ResponseNorm has a factor and a norm for each channel of a sample") {
  CHECK(shape(ResponseNorm{}, {bf16(kImage.shape), f32({4})}) ==
        "[batch, 1, 1, 4] bfloat16 [batch, 1, 1, 4] bfloat16");
  CHECK(wrong(ResponseNorm{}, {kImage, f32({5})}).find("gamma") != std::string::npos);
}

TEST_CASE("infer: UpSample returns the enlarged image, or an error") {
  const UpSample op{UpSample::Kind::kBilinear, 2, 3};
  CHECK(shape(op, {kImage}) == "[batch, 16, 27, 4] float32");
  CHECK(shape(UpSampleBackward{op.kind, 2, 3}, {f32({kBatch, 16, 27, 4})}) ==
        "[batch, 8, 9, 4] float32");
  CHECK(wrong(op, {f32({kBatch, 4})}).find("expects an image") != std::string::npos);
  CHECK(shape(UpSample{op.kind, 1, 1}, {kImage}) == "[batch, 8, 9, 4] float32");
  CHECK_FALSE(wrong(UpSample{op.kind, 0, 1}, {kImage}).empty());
  CHECK_FALSE(wrong(UpSample{op.kind, 1, 0}, {kImage}).empty());
  CHECK_FALSE(wrong(UpSampleBackward{op.kind, 3, 3}, {kImage}).empty());
}

TEST_CASE("infer: element-wise ops have the shape and type of the input") {
  const Typed x = bf16({kBatch, 7});
  for (const Op& op : {Op{Activate{kRelu}}, Op{Softmax{}}, Op{Dropout{}}}) {
    CHECK(shape(op, {x}) == "[batch, 7] bfloat16");
  }
  for (const Op& op : {Op{ActivateBackward{kRelu}}, Op{SoftmaxBackward{}}, Op{Add{}}}) {
    CHECK(shape(op, {x, x}) == "[batch, 7] bfloat16");
  }
}

TEST_CASE("infer: BatchNorm has the shapes of images and of rows") {
  const Typed x = bf16({kBatch, 8, 9, 4}), c = f32({4});
  CHECK(shape(BatchNorm{}, {x, c, c}) == "[batch, 8, 9, 4] bfloat16 [4] float32 [4] float32");
  CHECK(shape(BatchNorm{}, {f32({kBatch, 4}), c, c}) ==
        "[batch, 4] float32 [4] float32 [4] float32");
  CHECK(shape(BatchNormBackward{}, {x, x, c, c, c}) ==
        "[batch, 8, 9, 4] bfloat16 [4] float32 [4] float32");
  CHECK(shape(BatchNormBackward{1e-3f, kRelu}, {x, x, c, c, c, x}) ==
        "[batch, 8, 9, 4] bfloat16 [4] float32 [4] float32");
  CHECK(shape(UpdateStatistics{}, {c, c, c, c}) == "[4] float32 [4] float32");
  CHECK(shape(BatchNormInference{}, {x, c, c, c, c}) == "[batch, 8, 9, 4] bfloat16");
  CHECK(shape(BatchNormInferenceBackward{}, {x, x, c, c, c}) ==
        "[batch, 8, 9, 4] bfloat16 [4] float32 [4] float32");
  CHECK(shape(FoldBatchNorm{1e-3f, true}, {f32({3, 3, 2, 4}), c, c, c, c, c}) ==
        "[3, 3, 2, 4] float32 [4] float32");
  CHECK(shape(FoldBatchNorm{1e-3f, false}, {f32({3, 3, 2, 4}), c, c, c, c}) ==
        "[3, 3, 2, 4] float32 [4] float32");
}

TEST_CASE("infer: Concat, Slice, Reshape, ZeroPad and Crop have their shapes") {
  const Typed narrow = f32({kBatch, 8, 9, 2});
  CHECK(shape(Concat{}, {kImage, narrow, narrow}) == "[batch, 8, 9, 8] float32");
  CHECK(shape(Slice{1, 3}, {kImage}) == "[batch, 8, 9, 2] float32");
  CHECK(shape(Reshape{{kBatch, 288}}, {kImage}) == "[batch, 288] float32");
  CHECK(shape(ZeroPad{1, 2, 3, 4}, {kImage}) == "[batch, 11, 16, 4] float32");
  CHECK(shape(Crop{1, 2, 3, 4}, {kImage}) == "[batch, 5, 2, 4] float32");
  CHECK(shape(ZeroPad{1, 2, 0, 0}, {f32({kBatch, 7, 4})}) == "[batch, 10, 4] float32");
  CHECK(shape(Crop{1, 2, 0, 0}, {f32({kBatch, 7, 4})}) == "[batch, 4, 4] float32");
}

TEST_CASE("infer: Attention and PrependTokens have the shapes forward and backward") {
  const Typed qkv = bf16({kBatch, 7, 36}), y = bf16({kBatch, 7, 12}), sums = f32({kBatch, 3, 7});
  CHECK(shape(Attention{3}, {qkv}) == "[batch, 7, 12] bfloat16");
  CHECK(shape(Attention{3, true}, {qkv}) == "[batch, 7, 12] bfloat16 [batch, 3, 7] float32");
  CHECK(shape(AttentionBackward{3}, {qkv, y, sums, y}) == "[batch, 7, 36] bfloat16");
  CHECK(shape(PrependTokens{}, {y, f32({2, 12})}) == "[batch, 9, 12] bfloat16");
}

TEST_CASE("flops: a product of each token counts, and Attention backward 2.5 times forward") {
  Graph graph;
  const auto value = [&](Shape shape) {
    return graph.add_value({"", std::move(shape), DType::kFloat32, Role::kActivation, {}});
  };
  const ValueId x = value({kBatch, 7, 4});
  const ValueId qkv = graph.add1(Dense{}, {x, value({4, 36})}, "a", {});
  const auto y = graph.add(Attention{3, true}, {qkv}, "b", {});
  graph.add1(AttentionBackward{3}, {qkv, y[0], y[1], y[0]}, "c", {});
  CHECK(flops(graph, graph.nodes[0]) == 2 * 7 * 4 * 36);
  CHECK(flops(graph, graph.nodes[1]) == 4 * 7 * 7 * 12);
  CHECK(flops(graph, graph.nodes[2]) == 10 * 7 * 7 * 12);
}

TEST_CASE("infer: Loss is float32, and its gradient has the type of the logits") {
  const Typed logits = bf16({kBatch, 10});
  CHECK(shape(Loss{}, {logits, i32({kBatch})}) == "[batch] float32");
  CHECK(shape(Loss{LossKind::kMeanSquaredError, 0, true}, {logits, f32({kBatch, 10})}) ==
        "[batch] float32 [batch, 10] bfloat16");
  CHECK(shape(L2Penalty{}, {f32({3, 3})}) == "[1] float32");
  CHECK(shape(ZeroGradient{{7}}, {}) == "[7] float32");
  CHECK(shape(ClassRank{}, {f32({kBatch, 5}), f32({kBatch, 5})}) == "[batch] int32");
  CHECK(shape(ClassRank{0, true}, {f32({kBatch, 5}), f32({kBatch, 6})}) == "[batch] int32");
  CHECK(wrong(ClassRank{0, true}, {f32({kBatch, 5}), f32({kBatch, 4})}) ==
        "layer: the label is [batch, 4], expected [batch, 6]");
}

TEST_CASE("infer: Update returns the parameter and its slots") {
  const Typed w = f32({3, 2});
  CHECK(shape(Update{SgdRule{}, {}, 0, 0, 1, 0, 0}, {w, w}) == "[3, 2] float32");
  CHECK(infer(Update{SgdRule{0.9f, true}, {}, 0, 0, 1, 0, 0}, {w, w, w}, "u", kLoc).size() == 2);
  CHECK(infer(Update{AdamRule{}, {}, 0, 0, 1, 0.99f, 0}, {w, w, w, w, w}, "u", kLoc).size() == 4);
  CHECK_THROWS_AS(infer(Update{AdamRule{}, {}, 0, 0, 1, 0, 0}, {w, w, w}, "u", kLoc),
                  std::logic_error);
}

TEST_CASE("infer: the errors of wrong shapes describe what was expected and what to do") {
  const Typed flat = f32({kBatch, 10}), tiny = f32({kBatch, 3, 3, 64});
  CHECK(wrong(Conv{window(5), 1, false, {}}, {tiny, f32({5, 5, 64, 8})}) ==
        "layer: window 5x5 does not fit into 3x3 (input [batch, 3, 3, 64]); use a smaller window, "
        "padding: same, or fewer strides and poolings before it");
  for (const bool tall : {true, false}) {
    Window longer = window(3);
    longer.size[tall ? 0 : 1] = 4;  // no pixel is left
    CHECK(wrong(Pool{Pool::Kind::kMax, longer}, {tiny}).find("does not fit into 3x3") !=
          std::string::npos);
  }
  Window dilated = window(3);
  dilated.dilation = {2, 2};
  CHECK(wrong(Conv{dilated, 1, false, {}}, {tiny, f32({3, 3, 64, 8})}).find("dilated by 2x2") !=
        std::string::npos);
  CHECK(wrong(Conv{window(3), 1, false, {}}, {flat, f32({3, 3, 10, 8})}) ==
        "layer: expects an image [batch, height, width, channels], but its input is [batch, 10]; "
        "move it before the layer that flattens, or add a reshape");
  CHECK(wrong(Conv{window(3), 3, false, {}}, {tiny, f32({3, 3, 21, 9})}) ==
        "layer: groups: 3 does not divide the 64 channels of the input [batch, 3, 3, 64]");
  CHECK(wrong(Conv{window(3), 2, false, {}}, {tiny, f32({3, 3, 32, 9})}) ==
        "layer: groups: 2 does not divide the 9 filters");
  CHECK(wrong(Dense{false, {}}, {f32({kBatch}), f32({64, 8})}) ==
        "layer: expects [batch, ..., features], but its input is [batch]");
  CHECK(wrong(Attention{5}, {f32({kBatch, 7, 36})}) ==
        "layer: heads: 5 does not divide the 12 channels of its tokens");
  CHECK(wrong(Attention{}, {flat}) ==
        "layer: expects [batch, tokens, 3 * channels], but its input is [batch, 10]");
  CHECK(wrong(PrependTokens{}, {f32({kBatch, 7, 12}), f32({2, 11})}) ==
        "layer: first tokens is [2, 11], expected [2, 12]");
  CHECK(wrong(Dense{false, {}}, {flat, f32({9, 8})}) ==
        "layer: kernel is [9, 8], expected [10, units] for the input [batch, 10]");
  CHECK(wrong(Dense{true, {}}, {flat, f32({10, 8}), f32({7})}) ==
        "layer: bias is [7], expected [8]");
  CHECK(wrong(Pool{Pool::Kind::kMax, window(2, 2, 2), false}, {tiny}) ==
        "layer: padding of 2 and 2 pixels leaves windows of 2 without a pixel of the image; pad by "
        "less than the pool size");
  graph::Window one_sided = window(2, 2);
  one_sided.pad_before = {0, 3};
  CHECK(wrong(Pool{Pool::Kind::kMax, one_sided, false}, {tiny})
            .starts_with("layer: padding of 3 and 0 pixels leaves windows of 2"));
  CHECK(shape(Pool{Pool::Kind::kMax, window(16, 16), false}, {f32({kBatch, 20, 20, 1})}) ==
        "[batch, 1, 1, 1] float32");
  CHECK(wrong(Pool{Pool::Kind::kMax, window(17, 17), false}, {f32({kBatch, 20, 20, 1})}) ==
        "layer: a max pooling window of 17x17 is larger than 256 pixels; use global_max_pool, or "
        "two poolings in a row");
  CHECK(wrong(Softmax{}, {tiny}).find("before the softmax") != std::string::npos);
  CHECK(wrong(Add{}, {flat}) ==
        "layer: expects at least two inputs, got 1; name them with inputs: [first, second]");
  CHECK(wrong(Add{}, {flat, tiny}) ==
        "layer: adds values of one shape, but its inputs are [batch, 10] and [batch, 3, 3, 64]");
  CHECK(wrong(Concat{}, {tiny, kImage}).find("[batch, 3, 3, 64] and [batch, 8, 9, 4]") !=
        std::string::npos);
  CHECK(wrong(Concat{}, {tiny, flat}).find("joins along the channels") != std::string::npos);
  CHECK(wrong(Reshape{{kBatch, 9, 9}}, {flat}) ==
        "layer: cannot reshape [batch, 10] (10 numbers per sample) to [batch, 9, 9]");
  CHECK(wrong(Slice{4, 12}, {flat}) == "layer: channels 4 to 12 are not all in [batch, 10]");
  CHECK(wrong(Crop{2, 1, 0, 0}, {tiny}) == "layer: nothing is left of [batch, 3, 3, 64]");
  CHECK(wrong(ZeroPad{-1, 0, 0, 0}, {tiny}) == "layer: padding must be 0 or more");
  CHECK(wrong(Dropout{1.0f, 0, 0}, {flat}).find("rate is 1, expected") != std::string::npos);
  for (const Typed& x : {f32({kBatch}), f32({8, 64})}) {
    CHECK(wrong(BatchNorm{}, {x, f32({64}), f32({64})}) ==
          concat("layer: expects [batch, ..., channels], but its input is ", to_string(x.shape)));
  }
  CHECK(wrong(BatchNorm{}, {tiny, f32({64}), f32({63})}) == "layer: beta is [63], expected [64]");
  CHECK_FALSE(wrong(Preprocess{1, {0, 0, 0}, {1}}, {u8({kBatch, 4, 4, 3})}).empty());
  CHECK_FALSE(wrong(Preprocess{1, {0}, {1, 1, 1}}, {u8({kBatch, 4, 4, 3})}).empty());
  CHECK(wrong(Preprocess{1, {0, 0}, {1, 1}}, {u8({kBatch, 4, 4, 3})})
            .find("one, or one per channel") == std::string::npos);
  CHECK(wrong(Preprocess{1, {0, 0}, {1, 1}}, {u8({kBatch, 4, 4, 3})})
            .find("the images have 3 channels") != std::string::npos);
  CHECK(wrong(Loss{}, {flat, f32({kBatch, 9})}) ==
        "layer: the label is [batch, 9], expected [batch, 10]");
  Loss weighted;
  weighted.class_weight.assign(10, 2.0f);
  CHECK(wrong(weighted, {flat, i32({kBatch})}) == "");
  weighted.class_weight.pop_back();
  CHECK(wrong(weighted, {flat, i32({kBatch})}) ==
        "layer: has weights for 9 classes, but the model gives 10 numbers");
  Loss masked{LossKind::kBinaryCrossEntropy};
  masked.target_weight.assign(20, 2.0f);
  CHECK(wrong(masked, {flat, f32({kBatch, 10})}) == "");
  masked.kind = LossKind::kSoftmaxCrossEntropy;
  CHECK(wrong(masked, {flat, f32({kBatch, 10})}) ==
        "layer: has 20 weights of targets; expected 20 with float32 targets of "
        "binary_cross_entropy");
  CHECK(wrong(Loss{}, {flat, u8({kBatch})}).find("expected int32 class indices") !=
        std::string::npos);
  CHECK(wrong(Activate{kRelu}, {u8({kBatch, 3})}).find("floating-point") != std::string::npos);
}

}  // namespace trainer::graph::shape_test
