// What every op answers when one of its inputs is changed: the shapes that follow, or the reason
// why it is rejected, against test/golden/changed_inputs.txt.
#include <doctest/doctest.h>

#include <sstream>

#include "base/error.h"
#include "graph/graph.h"
#include "support/golden.h"

namespace trainer::graph::changed_inputs_test {
namespace {

using Inputs = std::vector<Typed>;

struct Case {
  Op op;
  Inputs inputs;
};

Typed f32(Shape shape) { return {std::move(shape), DType::kFloat32}; }
Typed u8(Shape shape) { return {std::move(shape), DType::kUInt8}; }
Typed i32(Shape shape) { return {std::move(shape), DType::kInt32}; }

Window window(std::int64_t size, std::int64_t stride = 1, std::int64_t pad = 0) {
  return {{size, size}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
}

const Activation kRelu{Activation::Kind::kRelu, 0};
const Typed kImage = f32({kBatch, 8, 9, 4}), kChannels = f32({4}), kRow = f32({kBatch, 4}),
            kTokens = f32({kBatch, 7, 4});

std::vector<Case> windows() {
  const Shape image{kBatch, 8, 9, 4};
  const Typed y = f32({kBatch, 6, 7, 6}), half = f32({kBatch, 4, 4, 4}),
              half_index = u8({kBatch, 4, 4, 4});
  return {
      {Conv{window(3), 1, true, kRelu}, {kImage, f32({3, 3, 4, 6}), f32({6})}},
      {Conv{window(3, 2, 1), 2, false, {}}, {kImage, f32({3, 3, 2, 6})}},
      {Conv{window(3), 4, false, {}}, {kImage, f32({3, 3, 1, 8})}},
      {ConvBackwardData{window(3), 1, image}, {y, f32({3, 3, 4, 6})}},
      {ConvBackwardWeights{window(3), 1, true, {3, 3, 4, 6}}, {kImage, y}},
      {Pool{Pool::Kind::kMax, window(2, 2), true}, {kImage}},
      {Pool{Pool::Kind::kAverage, window(3, 2, 1), false}, {kImage}},
      {PoolBackward{Pool::Kind::kMax, window(2, 2), image, {}}, {half, half_index}},
      {PoolBackward{Pool::Kind::kMax, window(2, 2), image, kRelu}, {half, half_index, half}},
      {PoolBackward{Pool::Kind::kAverage, window(2, 2), image, {}}, {half}},
      {GlobalPool{}, {kImage}},
      {GlobalPoolBackward{Pool::Kind::kAverage, image}, {kRow}},
      {GlobalPoolBackward{Pool::Kind::kMax, image}, {kRow, kImage, kRow}},
      {UpSample{UpSample::Kind::kBilinear, 2, 3}, {kImage}},
      {UpSampleBackward{UpSample::Kind::kNearest, 2, 3}, {kImage}},
      {ZeroPad{1, 2, 3, 4}, {kImage}},
      {Crop{1, 2, 3, 4}, {kImage}},
  };
}

std::vector<Case> rows_and_elements() {
  const Typed gates = f32({kBatch, 1, 1, 4}), three = f32({kBatch, 3});
  return {
      {Preprocess{1, {0, 0, 0}, {1, 1, 1}}, {u8({kBatch, 8, 9, 3})}},
      {Dense{true, {}}, {kRow, f32({4, 6}), f32({6})}},
      {DenseBackwardData{4}, {f32({kBatch, 6}), f32({4, 6})}},
      {DenseBackwardWeights{true}, {kRow, f32({kBatch, 6})}},
      {DenseBackwardWeights{false}, {kTokens, kTokens}},
      {Attention{3, true}, {f32({kBatch, 7, 36})}},
      {AttentionBackward{3},
       {f32({kBatch, 7, 36}), f32({kBatch, 7, 12}), f32({kBatch, 3, 7}), f32({kBatch, 7, 12})}},
      {PrependTokens{}, {kTokens, f32({2, 4})}},
      {ZeroPad{1, 2, 0, 0}, {kTokens}},
      {Crop{1, 2, 0, 0}, {kTokens}},
      {Activate{kRelu}, {kRow}},
      {ActivateBackward{kRelu}, {kRow, kRow}},
      {Softmax{}, {kRow}},
      {SoftmaxBackward{}, {kRow, kRow}},
      {Dropout{}, {kImage}},
      {Dropout{0.5f, 1, 2, Dropout::Unit::kChannel}, {kImage}},
      {Multiply{}, {kImage, gates}},
      {Multiply{}, {kImage, kChannels}},
      {AddBias{}, {kImage, kChannels}},
      {SumProduct{{4}}, {kImage, kImage}},
      {SumProduct{{kBatch, 1, 1, 4}}, {kImage}},
      {Add{}, {kImage, kImage}},
      {Concat{}, {kImage, kImage}},
      {Slice{1, 3}, {kImage}},
      {Reshape{{kBatch, 288}}, {kImage}},
      {Loss{}, {three, i32({kBatch})}},
      {Loss{LossKind::kBinaryCrossEntropy, 0, true}, {three, three}},
      {Loss{LossKind::kMeanSquaredError, 0, true, {}, {}, true}, {three, f32({kBatch, 4})}},
      {ClassRank{}, {three, i32({kBatch})}},
      {ClassRank{0, true}, {three, f32({kBatch, 4})}},
      {L2Penalty{1, 0}, {f32({3, 3})}},
  };
}

std::vector<Case> normalizations_and_updates() {
  const Typed& c = kChannels;
  const Typed w = f32({3, 2});
  return {
      {BatchNorm{}, {kImage, c, c}},
      {BatchNormBackward{}, {kImage, kImage, c, c, c}},
      {BatchNormBackward{1e-3f, kRelu}, {kImage, kImage, c, c, c, kImage}},
      {UpdateStatistics{}, {c, c, c, c}},
      {BatchNormInference{}, {kImage, c, c, c, c}},
      {BatchNormInferenceBackward{}, {kImage, kImage, c, c, c}},
      {FoldBatchNorm{1e-3f, true}, {f32({3, 3, 2, 4}), c, c, c, c, c}},
      {GroupNorm{2}, {kImage, c, c}},
      {GroupNorm{1, true}, {kRow, c, c}},
      {GroupNormBackward{2}, {kImage, kImage, c}},
      {ResponseNorm{}, {kImage, c}},
      {ResponseNormBackward{}, {f32({kBatch, 1, 1, 4}), c, f32({kBatch, 1, 1, 4})}},
      {Update{SgdRule{0.9f}, {}, 0, 0, 1, 0, 0}, {w, w, w}},
      {Update{AdamRule{}, {}, 0, 0, 1, 0.99f, 0}, {w, w, w, w, w}},
  };
}

std::string text(const Typed& typed) {
  return concat(to_string(typed.shape), " ", to_string(typed.type));
}

std::string text(const Inputs& types) {
  std::string all;
  for (const Typed& type : types) all += (all.empty() ? "" : ", ") + text(type);
  return all;
}

// The outputs' shapes and types, or the message with which the inputs are rejected.
std::string answer(const Op& op, const Inputs& inputs) {
  try {
    return text(infer(op, inputs, "layer", {"m.yaml", 7, 3}));
  } catch (const ConfigError& error) {
    return "rejected: " + error.diagnostics().at(0).message;
  } catch (const std::logic_error& error) {
    return concat("mistake of ours: ", error.what());
  }
}

// Every change of one input that leaves the others as they are, with what is in its place.
std::vector<Typed> changes(const Typed& input) {
  std::vector<Typed> all;
  const auto& dims = input.shape.dims();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (const std::int64_t other : {dims[d] - 1, dims[d] + 1}) {
      Typed changed = input;
      changed.shape[d] = dims[d] == kBatch ? 5 : other;
      if (all.empty() || !(all.back().shape == changed.shape)) all.push_back(changed);
    }
  }
  all.push_back({Shape(std::vector(dims.begin(), dims.end() - 1)), input.type});
  std::vector<std::int64_t> more = dims;
  more.push_back(1);
  all.push_back({Shape(more), input.type});
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kUInt8, DType::kInt32}) {
    if (type != input.type) all.push_back({input.shape, type});
  }
  return all;
}

void print_answers(const Case& one, std::ostream& out) {
  out << name_of(one.op) << " " << describe(one.op) << "\n  " << text(one.inputs) << " -> "
      << answer(one.op, one.inputs) << '\n';
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    for (const Typed& changed : changes(one.inputs[i])) {
      Inputs inputs = one.inputs;
      inputs[i] = changed;
      out << "  " << i << ": " << text(changed) << " -> " << answer(one.op, inputs) << '\n';
    }
  }
  Inputs fewer = one.inputs, more = one.inputs;
  fewer.pop_back();
  more.push_back(more.back());
  out << "  without the last -> " << answer(one.op, fewer) << '\n';
  out << "  the last twice -> " << answer(one.op, more) << '\n';
}

}  // namespace

TEST_CASE("infer returns the golden shapes and errors for one changed input of each op") {
  std::ostringstream printed;
  for (const auto& cases : {windows(), rows_and_elements(), normalizations_and_updates()}) {
    for (const Case& one : cases) print_answers(one, printed);
  }
  test::check_golden("changed_inputs.txt", printed.str());
}

}  // namespace trainer::graph::changed_inputs_test
