#include "graph/op.h"

#include "graph/rules.h"

namespace trainer::graph {

const char* to_string(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::kLinear:
      return "linear";
    case Activation::Kind::kRelu:
      return "relu";
    case Activation::Kind::kRelu6:
      return "relu6";
    case Activation::Kind::kLeakyRelu:
      return "leaky_relu";
    case Activation::Kind::kElu:
      return "elu";
    case Activation::Kind::kSigmoid:
      return "sigmoid";
    case Activation::Kind::kTanh:
      return "tanh";
    case Activation::Kind::kGelu:
      return "gelu";
    case Activation::Kind::kSwish:
      return "swish";
    case Activation::Kind::kHardSigmoid:
      return "hard_sigmoid";
    case Activation::Kind::kHardSwish:
      return "hard_swish";
    case Activation::Kind::kSelu:
      return "selu";
    case Activation::Kind::kNegativePart:
      return "negative_part";
  }
  return "?";
}

std::int64_t Window::output(std::int64_t input, int axis) const {
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t extent = (size[a] - 1) * dilation[a] + 1;
  const std::int64_t room = input + pad_before[a] + pad_after[a] - extent;
  return room < 0 ? 0 : room / stride[a] + 1;
}

const char* name_of(const Op& op) {
  return std::visit([](const auto& each) { return rules::name(each); }, op);
}

std::string describe(const Op& op) {
  return std::visit([](const auto& each) { return rules::text(each); }, op);
}

}  // namespace trainer::graph
