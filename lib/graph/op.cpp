#include "graph/op.h"

#include "base/error.h"

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
  }
  return "?";
}

std::int64_t Window::output(std::int64_t input, int axis) const {
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t extent = (size[a] - 1) * dilation[a] + 1;
  const std::int64_t room = input + pad_before[a] + pad_after[a] - extent;
  return room < 0 ? 0 : room / stride[a] + 1;
}

namespace {

std::string words(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!part.empty()) joined += (joined.empty() ? "" : " ") + part;
  }
  return joined;
}

std::string list(const std::vector<float>& numbers) {
  std::string joined;
  for (const float number : numbers) joined += concat(joined.empty() ? "" : ",", number);
  return concat("[", joined, "]");
}

std::string flag(bool set, const char* name) { return set ? name : ""; }

std::string groups(std::int64_t count) { return count == 1 ? "" : concat("groups ", count); }

std::string act(const Activation& activation) {
  if (activation.linear()) return "";
  if (activation.alpha == 0) return to_string(activation.kind);
  return concat(to_string(activation.kind), " ", activation.alpha);
}

const char* kind(Pool::Kind kind) { return kind == Pool::Kind::kMax ? "max" : "average"; }

std::string pair(const std::array<std::int64_t, 2>& both) {
  return both[0] == both[1] ? std::to_string(both[0]) : concat(both[0], "x", both[1]);
}

std::string window(const Window& w) {
  const std::array<std::int64_t, 2> one{1, 1}, zero{0, 0};
  std::string result = concat(w.size[0], "x", w.size[1]);
  if (w.stride != one) result += " stride " + pair(w.stride);
  if (w.dilation != one) result += " dilation " + pair(w.dilation);
  if (w.pad_before != zero || w.pad_after != zero) {
    result += concat(" pad ", w.pad_before[0], ",", w.pad_after[0], ",", w.pad_before[1], ",",
                     w.pad_after[1]);
  }
  return result;
}

std::string loss_text(const Loss& op) {
  std::string result;
  switch (op.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      result = "softmax_cross_entropy";
      break;
    case LossKind::kBinaryCrossEntropy:
      result = "binary_cross_entropy";
      break;
    case LossKind::kMeanSquaredError:
      result = "mean_squared_error";
      break;
  }
  if (op.label_smoothing > 0) result += concat(" smoothing ", op.label_smoothing);
  return words({result, flag(op.gradient, "gradient")});
}

std::string rule_text(const SgdRule& rule) {
  if (rule.momentum == 0) return "sgd";
  return words({concat("sgd momentum ", rule.momentum), flag(rule.nesterov, "nesterov")});
}
std::string rule_text(const RmsPropRule& rule) {
  return words({concat("rmsprop rho ", rule.rho),
                rule.momentum == 0 ? "" : concat("momentum ", rule.momentum),
                concat("epsilon ", rule.epsilon), flag(rule.centered, "centered")});
}
std::string rule_text(const AdamRule& rule) {
  return words({concat("adam beta ", rule.beta_1, ",", rule.beta_2, " epsilon ", rule.epsilon),
                flag(rule.amsgrad, "amsgrad")});
}

std::string clip_text(const Clip& clip) {
  switch (clip.kind) {
    case Clip::Kind::kNone:
      return "";
    case Clip::Kind::kValue:
      return concat("clip value ", clip.limit);
    case Clip::Kind::kNorm:
      return concat("clip norm ", clip.limit);
    case Clip::Kind::kGlobalNorm:
      return concat("clip global norm ", clip.limit);
  }
  return "?";
}

std::string update_text(const Update& op) {
  return words({std::visit([](const auto& rule) { return rule_text(rule); }, op.rule),
                clip_text(op.clip), op.l2 > 0 ? concat("l2 ", op.l2) : "",
                op.weight_decay > 0 ? concat("decay ", op.weight_decay) : "",
                op.learning_rate_multiplier != 1 ? concat("lr x", op.learning_rate_multiplier) : "",
                op.ema > 0 ? concat("ema ", op.ema) : ""});
}

std::string text(const Preprocess& op) {
  return concat("scale ", op.scale, " mean ", list(op.mean), " std ", list(op.std),
                op.reverse_channels ? " reversed channels" : "");
}
std::string text(const Conv& op) {
  return words({window(op.window), groups(op.groups), flag(op.bias, "bias"), act(op.activation)});
}
std::string text(const ConvBackwardData& op) {
  return words({window(op.window), groups(op.groups)});
}
std::string text(const ConvBackwardWeights& op) {
  return words({window(op.window), groups(op.groups), flag(op.bias, "bias")});
}
std::string text(const ConvMaxPool& op) { return text(op.conv) + ", pool " + window(op.pool); }
std::string text(const ConvMaxPoolBackwardWeights& op) {
  return text(op.conv) + ", pool " + window(op.pool);
}
std::string text(const Dense& op) { return words({flag(op.bias, "bias"), act(op.activation)}); }
std::string text(const DenseBackwardData&) { return ""; }
std::string text(const DenseBackwardWeights& op) { return flag(op.bias, "bias"); }
std::string text(const Pool& op) {
  return words({kind(op.kind), window(op.window), flag(op.keep_index, "index")});
}
std::string text(const PoolBackward& op) {
  return words({kind(op.kind), window(op.window), act(op.activation)});
}
std::string text(const GlobalPool& op) { return kind(op.kind); }
std::string text(const GlobalPoolBackward& op) { return kind(op.kind); }
std::string text(const Activate& op) { return act(op.activation); }
std::string text(const ActivateBackward& op) { return act(op.activation); }
std::string text(const Softmax&) { return ""; }
std::string text(const SoftmaxBackward&) { return ""; }
std::string text(const BatchNorm& op) {
  return words({concat("epsilon ", op.epsilon), act(op.activation)});
}
std::string text(const BatchNormBackward& op) {
  return words({concat("epsilon ", op.epsilon), act(op.activation)});
}
std::string text(const UpdateStatistics& op) {
  return concat("momentum ", op.momentum, " epsilon ", op.epsilon);
}
std::string text(const BatchNormInference& op) {
  return words({concat("epsilon ", op.epsilon), act(op.activation)});
}
std::string text(const BatchNormInferenceBackward& op) {
  return words({concat("epsilon ", op.epsilon), act(op.activation)});
}
std::string text(const FoldBatchNorm& op) {
  return words({concat("epsilon ", op.epsilon), flag(op.bias, "bias")});
}
std::string text(const Dropout& op) { return concat("rate ", op.rate, " layer ", op.layer); }
std::string text(const Add&) { return ""; }
std::string text(const Concat&) { return ""; }
std::string text(const Slice& op) { return concat(op.begin, ":", op.end); }
std::string text(const Reshape& op) { return to_string(op.shape); }
std::string text(const ZeroPad& op) {
  return concat(op.top, ",", op.bottom, ",", op.left, ",", op.right);
}
std::string text(const Crop& op) {
  return concat(op.top, ",", op.bottom, ",", op.left, ",", op.right);
}
std::string text(const Loss& op) { return loss_text(op); }
std::string text(const L2Penalty& op) { return concat("factor ", op.factor); }
std::string text(const Update& op) { return update_text(op); }

const char* name(const Preprocess&) { return "preprocess"; }
const char* name(const Conv&) { return "conv"; }
const char* name(const ConvBackwardData&) { return "conv_backward_data"; }
const char* name(const ConvBackwardWeights&) { return "conv_backward_weights"; }
const char* name(const ConvMaxPool&) { return "conv_max_pool"; }
const char* name(const ConvMaxPoolBackwardWeights&) { return "conv_max_pool_backward_weights"; }
const char* name(const Dense&) { return "dense"; }
const char* name(const DenseBackwardData&) { return "dense_backward_data"; }
const char* name(const DenseBackwardWeights&) { return "dense_backward_weights"; }
const char* name(const Pool&) { return "pool"; }
const char* name(const PoolBackward&) { return "pool_backward"; }
const char* name(const GlobalPool&) { return "global_pool"; }
const char* name(const GlobalPoolBackward&) { return "global_pool_backward"; }
const char* name(const Activate&) { return "activate"; }
const char* name(const ActivateBackward&) { return "activate_backward"; }
const char* name(const Softmax&) { return "softmax"; }
const char* name(const SoftmaxBackward&) { return "softmax_backward"; }
const char* name(const BatchNorm&) { return "batch_norm"; }
const char* name(const BatchNormBackward&) { return "batch_norm_backward"; }
const char* name(const UpdateStatistics&) { return "update_statistics"; }
const char* name(const BatchNormInference&) { return "batch_norm_inference"; }
const char* name(const BatchNormInferenceBackward&) { return "batch_norm_inference_backward"; }
const char* name(const FoldBatchNorm&) { return "fold_batch_norm"; }
const char* name(const Dropout&) { return "dropout"; }
const char* name(const Add&) { return "add"; }
const char* name(const Concat&) { return "concat"; }
const char* name(const Slice&) { return "slice"; }
const char* name(const Reshape&) { return "reshape"; }
const char* name(const ZeroPad&) { return "zero_pad"; }
const char* name(const Crop&) { return "crop"; }
const char* name(const Loss&) { return "loss"; }
const char* name(const L2Penalty&) { return "l2_penalty"; }
const char* name(const Update&) { return "update"; }

}  // namespace

const char* name_of(const Op& op) {
  return std::visit([](const auto& each) { return name(each); }, op);
}

std::string describe(const Op& op) {
  return std::visit([](const auto& each) { return text(each); }, op);
}

}  // namespace trainer::graph
