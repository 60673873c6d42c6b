// Writes ONNX. Images are [batch, channels, height, width] inside, as ONNX requires; the input, and
// the input of layers that flatten images, are transposed.
// https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#include "model/files/onnx.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/formats/protobuf.h"
#include "model/files/persistent_tensors.h"

namespace trainer::model {
namespace {

using graph::ValueId;
using Ints = std::vector<std::int64_t>;

constexpr int kIrVersion = 7, kOpset = 13;
constexpr int kFloat = 1, kUInt8 = 2, kInt64 = 7;  // TensorProto.DataType
constexpr int kAttributeFloat = 1, kAttributeInt = 2, kAttributeString = 3,
              kAttributeInts = 7;  // AttributeProto.Type

ProtoMessage attribute(const char* name, std::int64_t value) {
  return ProtoMessage().text(1, name).number(3, value).number(20, kAttributeInt);
}
ProtoMessage attribute(const char* name, float value) {
  return ProtoMessage().text(1, name).real(2, value).number(20, kAttributeFloat);
}
ProtoMessage attribute(const char* name, const char* value) {
  return ProtoMessage().text(1, name).text(4, value).number(20, kAttributeString);
}
ProtoMessage attribute(const char* name, const Ints& values) {
  ProtoMessage message;
  message.text(1, name);
  for (const std::int64_t value : values) message.number(8, value);
  return message.number(20, kAttributeInts);
}

ProtoMessage value_info(const std::string& name, const Shape& shape, int type = kFloat) {
  ProtoMessage dims;
  for (const std::int64_t dim : shape.dims()) {
    ProtoMessage one;
    if (dim == kBatch) one.text(2, "batch");
    if (dim != kBatch) one.number(1, dim);
    dims.message(1, one);
  }
  const ProtoMessage tensor = ProtoMessage().number(1, type).message(2, dims);
  return ProtoMessage().text(1, name).message(2, ProtoMessage().message(1, tensor));
}

// [kh, kw, in, out] -> [out, in, kh, kw]
std::vector<float> to_oihw(const Shape& shape, const std::vector<float>& kernel) {
  const std::int64_t pixels = shape[0] * shape[1], in = shape[2], out = shape[3];
  std::vector<float> values(kernel.size());
  for (std::int64_t p = 0; p < pixels; ++p) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o) {
        values[(o * in + i) * pixels + p] = kernel[(p * in + i) * out + o];
      }
    }
  }
  return values;
}

class Writer {
 public:
  Writer(const graph::Graph& graph, const PersistentTensors& tensors)
      : graph_(graph), tensors_(tensors) {}

  std::string write(const OnnxOptions& options) {
    const ValueId images = graph_.inputs.at(0);
    const bool bytes = options.input == DType::kUInt8;
    names_[images] =
        bytes ? emit("Cast", {"images"}, {attribute("to", std::int64_t{kFloat})}) : "images";
    for (node_ = 0; node_ < std::ssize(graph_.nodes); ++node_) {
      std::visit([&](const auto& op) { add(op); }, at().op);
      if (names_.contains(graph_.outputs[0])) break;
    }
    const ValueId logits = graph_.outputs.at(0);
    std::string output = name(logits);
    Shape shape = graph_[logits].shape;
    if (options.temperature != 1) {
      output = emit("Div", {output, constant({}, {static_cast<float>(options.temperature)})});
    }
    if (options.probabilities_of) output = probabilities(output, *options.probabilities_of, shape);
    const char* const label = options.probabilities_of ? "probabilities" : "logits";
    emit("Identity", {output}, label, {});
    body_.text(2, "trainer");
    body_.message(11, value_info("images", graph_[images].shape, bytes ? kUInt8 : kFloat));
    body_.message(12, value_info(label, shape));
    ProtoMessage model;
    model.number(1, kIrVersion).text(2, "trainer").message(7, body_);
    model.message(8, ProtoMessage().number(2, kOpset));
    for (const auto& [key, value] : options.metadata) {
      model.message(14, ProtoMessage().text(1, key).text(2, value));
    }
    return model.bytes();
  }

 private:
  using Attributes = std::vector<ProtoMessage>;

  const graph::Node& at() const { return graph_.nodes[node_]; }
  ValueId in(std::size_t i) const { return at().inputs[i]; }
  ValueId out() const { return at().outputs[0]; }
  bool image(ValueId id) const { return graph_[id].shape.rank() == 4; }
  const std::string& name(ValueId id) const { return names_.at(id); }
  std::string fresh() const { return concat(at().name, ':', count_++); }

  std::string emit(const char* op, const std::vector<std::string>& inputs, std::string output,
                   const Attributes& attributes) {
    ProtoMessage node;
    for (const std::string& input : inputs) node.text(1, input);
    node.text(2, output).text(3, output).text(4, op);
    for (const ProtoMessage& each : attributes) node.message(5, each);
    body_.message(1, node);
    return output;
  }
  std::string emit(const char* op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    return emit(op, inputs, fresh(), attributes);
  }
  void set(const std::string& value) { names_[out()] = value; }

  std::string initializer(const std::string& label, const Ints& dims, int type, const void* data,
                          std::size_t bytes) {
    ProtoMessage tensor;
    for (const std::int64_t dim : dims) tensor.number(1, dim);
    tensor.number(2, type).text(8, label);
    tensor.text(9, {static_cast<const char*>(data), bytes});
    body_.message(5, tensor);
    return label;
  }
  std::string constant(const Ints& dims, const std::vector<float>& values) {
    return initializer(fresh(), dims, kFloat, values.data(), values.size() * sizeof(float));
  }
  std::string integers(const Ints& values) {
    return initializer(fresh(), {std::ssize(values)}, kInt64, values.data(),
                       values.size() * sizeof(std::int64_t));
  }
  // Adds a parameter unchanged.
  std::string persistent(ValueId id) {
    const checkpoint::Tensor& tensor = tensors_.at(graph_[id].name);
    return initializer(graph_[id].name, tensor.shape.dims(), kFloat, tensor.values.data(),
                       tensor.values.size() * sizeof(float));
  }

  std::string to_nchw(const std::string& x) {
    return emit("Transpose", {x}, {attribute("perm", Ints{0, 3, 1, 2})});
  }
  std::string to_nhwc(const std::string& x) {
    return emit("Transpose", {x}, {attribute("perm", Ints{0, 2, 3, 1})});
  }

  static Attributes window(const graph::Window& w) {
    return {
        attribute("kernel_shape", Ints{w.size[0], w.size[1]}),
        attribute("strides", Ints{w.stride[0], w.stride[1]}),
        attribute("pads", Ints{w.pad_before[0], w.pad_before[1], w.pad_after[0], w.pad_after[1]})};
  }

  std::string hard_sigmoid(const std::string& x) {
    return emit("HardSigmoid", {x}, {attribute("alpha", 1.0f / 6), attribute("beta", 0.5f)});
  }

  std::string activated(const graph::Activation& function, const std::string& x) {
    using Kind = graph::Activation::Kind;
    switch (function.kind) {
      case Kind::kLinear:
      case Kind::kSoftmax:
        return x;
      case Kind::kRelu:
        return emit("Relu", {x});
      case Kind::kRelu6:
        return emit("Clip", {x, constant({}, {0}), constant({}, {6})});
      case Kind::kLeakyRelu:
        return emit("LeakyRelu", {x}, {attribute("alpha", function.alpha)});
      case Kind::kElu:
        return emit("Elu", {x}, {attribute("alpha", function.alpha)});
      case Kind::kSigmoid:
        return emit("Sigmoid", {x});
      case Kind::kTanh:
        return emit("Tanh", {x});
      case Kind::kSwish:
        return emit("Mul", {x, emit("Sigmoid", {x})});
      case Kind::kHardSigmoid:
        return hard_sigmoid(x);
      case Kind::kHardSwish:
        return emit("Mul", {x, hard_sigmoid(x)});
      case Kind::kSelu:
        return emit("Selu", {x},
                    {attribute("alpha", graph::kSeluAlpha), attribute("gamma", graph::kSeluScale)});
      case Kind::kNegativePart:
        return emit("Min", {x, constant({}, {0})});
      case Kind::kGelu: {
        const std::string erf =
            emit("Erf", {emit("Mul", {x, constant({}, {static_cast<float>(std::sqrt(0.5))})})});
        const std::string sum = emit("Add", {erf, constant({}, {1})});
        return emit("Mul", {emit("Mul", {x, sum}), constant({}, {0.5f})});
      }
    }
    return x;
  }

  // Sets `shape` to that of the probabilities: one logit of binary_cross_entropy is that of the
  // second of two classes.
  std::string probabilities(const std::string& logits, LossKind loss, Shape& shape) {
    if (loss == LossKind::kMeanSquaredError) {
      throw ConfigError({},
                        "the outputs of model.loss: mean_squared_error are not logits, so that "
                        "there are no probabilities; export them as they are");
    }
    const Attributes last{attribute("axis", std::int64_t{-1})};
    if (loss == LossKind::kSoftmaxCrossEntropy) return emit("Softmax", {logits}, last);
    const std::string p = emit("Sigmoid", {logits});
    if (shape[shape.rank() - 1] != 1) return p;
    shape = Shape{kBatch, 2};
    // The sigmoid of -x keeps the digits of 1 - p where p is near 1.
    return emit("Concat", {emit("Sigmoid", {emit("Neg", {logits})}), p}, last);
  }

  void add(const graph::Preprocess& op) {
    const auto channels = std::ssize(op.mean);
    std::string x = name(in(0));
    if (op.reverse_channels) {
      Ints order;
      for (std::int64_t c = channels - 1; c >= 0; --c) order.push_back(c);
      x = emit("Gather", {x, integers(order)}, {attribute("axis", std::int64_t{-1})});
    }
    x = emit("Mul", {x, constant({}, {op.scale})});
    x = emit("Sub", {x, constant({channels}, op.mean)});
    x = emit("Div", {x, constant({channels}, op.std)});
    set(image(out()) ? to_nchw(x) : x);
  }

  void add(const graph::Conv& op) {
    const Shape& shape = graph_[in(1)].shape;
    const checkpoint::Tensor& kernel = tensors_.at(graph_[in(1)].name);
    const std::vector<float> values = to_oihw(shape, kernel.values);
    std::vector<std::string> inputs{
        name(in(0)), initializer(graph_[in(1)].name, {shape[3], shape[2], shape[0], shape[1]},
                                 kFloat, values.data(), values.size() * sizeof(float))};
    if (op.bias) inputs.push_back(persistent(in(2)));
    Attributes attributes = window(op.window);
    attributes.push_back(
        attribute("dilations", Ints{op.window.dilation[0], op.window.dilation[1]}));
    attributes.push_back(attribute("group", op.groups));
    set(activated(op.activation, emit("Conv", inputs, attributes)));
  }

  void add(const graph::Dense& op) {
    std::string x = image(in(0)) ? to_nhwc(name(in(0))) : name(in(0));
    x = emit("MatMul", {x, persistent(in(1))});
    if (op.bias) x = emit("Add", {x, persistent(in(2))});
    x = activated(op.activation, x);
    set(image(out()) ? to_nchw(x) : x);
  }

  void add(const graph::Pool& op) {
    const bool max = op.kind == graph::Pool::Kind::kMax;
    set(emit(max ? "MaxPool" : "AveragePool", {name(in(0))}, window(op.window)));
  }

  void add(const graph::GlobalPool& op) {
    const bool max = op.kind == graph::Pool::Kind::kMax;
    const std::string x = emit(max ? "GlobalMaxPool" : "GlobalAveragePool", {name(in(0))});
    set(emit("Flatten", {x}, {attribute("axis", std::int64_t{1})}));
  }

  void add(const graph::Activate& op) { set(activated(op.activation, name(in(0)))); }
  void add(const graph::Softmax&) {
    const std::int64_t axis = image(in(0)) ? 1 : -1;
    set(emit("Softmax", {name(in(0))}, {attribute("axis", axis)}));
  }

  // Batch norm is in training form here: its moving statistics are inputs of the node that updates
  // them.
  void add(const graph::BatchNorm& op) {
    for (const int user : graph_.consumers(at().outputs[1])) {
      const graph::Node& update = graph_.nodes[user];
      if (!std::holds_alternative<graph::UpdateStatistics>(update.op)) continue;
      const std::vector<std::string> inputs{name(in(0)), persistent(in(1)), persistent(in(2)),
                                            persistent(update.inputs[0]),
                                            persistent(update.inputs[1])};
      const std::string y = emit("BatchNormalization", inputs, {attribute("epsilon", op.epsilon)});
      set(activated(op.activation, y));
    }
  }

  void add(const graph::Dropout&) { set(name(in(0))); }

  // Returns a factor or bias, which is a parameter or another layer, in the layout of images.
  std::string repeated(ValueId id) {
    const Shape& shape = graph_[id].shape;
    if (shape.batched()) return name(id);
    const checkpoint::Tensor& tensor = tensors_.at(graph_[id].name);
    if (!image(in(0))) return persistent(id);
    const std::int64_t channels = shape[shape.rank() - 1], pixels = shape.elements() / channels;
    std::vector<float> values(tensor.values.size());
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) {
        values[c * pixels + p] = tensor.values[p * channels + c];
      }
    }
    const bool per_pixel = shape.rank() == 3;
    return initializer(graph_[id].name,
                       {channels, per_pixel ? shape[0] : 1, per_pixel ? shape[1] : 1}, kFloat,
                       values.data(), values.size() * sizeof(float));
  }

  void add(const graph::Multiply&) { set(emit("Mul", {name(in(0)), repeated(in(1))})); }
  void add(const graph::AddBias&) { set(emit("Add", {name(in(0)), repeated(in(1))})); }

  // Uses the means over the channels of a pixel, or over the numbers of a group as [batch, groups,
  // all].
  void add(const graph::GroupNorm& op) {
    std::string x = name(in(0));
    Ints shape = graph_[in(0)].shape.dims();
    if (image(in(0))) shape = {0, shape[3], shape[1], shape[2]};
    const bool tokens = shape.size() == 3;
    if ((op.per_pixel || tokens) && op.groups > 1) reject();
    const bool split = !op.per_pixel;
    const Ints axes{split || tokens ? 2 : 1};
    if (split) x = emit("Reshape", {x, integers({0, op.groups, -1})});
    const auto mean = [&](const std::string& of) {
      return emit("ReduceMean", {of}, {attribute("axes", axes)});
    };
    const std::string centred = emit("Sub", {x, mean(x)});
    const std::string variance = mean(emit("Mul", {centred, centred}));
    const std::string deviation =
        emit("Sqrt", {emit("Add", {variance, constant({}, {op.epsilon})})});
    std::string y = emit("Div", {centred, deviation});
    shape[0] = 0;
    if (split) y = emit("Reshape", {y, integers(shape)});
    set(emit("Add", {emit("Mul", {y, repeated(in(1))}), repeated(in(2))}));
  }

  void add(const graph::ResponseNorm& op) {
    const std::string norms = emit("ReduceL2", {name(in(0))}, {attribute("axes", Ints{2, 3})});
    const std::string mean = emit("ReduceMean", {norms}, {attribute("axes", Ints{1})});
    const std::string ratio = emit("Div", {norms, emit("Add", {mean, constant({}, {op.epsilon})})});
    set(emit("Add", {emit("Mul", {ratio, repeated(in(1))}), constant({}, {1})}));
  }

  void add(const graph::UpSample& op) {
    const bool nearest = op.kind == graph::UpSample::Kind::kNearest;
    const std::string scales =
        constant({4}, {1, 1, static_cast<float>(op.height), static_cast<float>(op.width)});
    Attributes attributes{
        attribute("mode", nearest ? "nearest" : "linear"),
        attribute("coordinate_transformation_mode", nearest ? "asymmetric" : "half_pixel")};
    if (nearest) attributes.push_back(attribute("nearest_mode", "floor"));
    set(emit("Resize", {name(in(0)), "", scales}, attributes));
  }

  // In a forward graph it is the transposed convolution.
  void add(const graph::ConvBackwardData& op) {
    const Shape& shape = graph_[in(1)].shape;
    const std::vector<float> values = to_oihw(shape, tensors_.at(graph_[in(1)].name).values);
    const std::string kernel =
        initializer(graph_[in(1)].name, {shape[3], shape[2], shape[0], shape[1]}, kFloat,
                    values.data(), values.size() * sizeof(float));
    Attributes attributes = window(op.window);
    attributes.push_back(attribute("group", op.groups));
    Ints more;  // rows and columns after the last window
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const graph::Window& w = op.window;
      const std::int64_t reached = (graph_[in(0)].shape[axis + 1] - 1) * w.stride[axis] +
                                   w.size[axis] - w.pad_before[axis] - w.pad_after[axis];
      more.push_back(op.input[axis + 1] - reached);
    }
    attributes.push_back(attribute("output_padding", more));
    set(emit("ConvTranspose", {name(in(0)), kernel}, attributes));
  }

  void add(const graph::Add&) {
    std::string sum = name(in(0));
    for (std::size_t i = 1; i < at().inputs.size(); ++i) sum = emit("Add", {sum, name(in(i))});
    set(sum);
  }

  void add(const graph::Concat&) {
    std::vector<std::string> inputs;
    for (const ValueId id : at().inputs) inputs.push_back(name(id));
    set(emit("Concat", inputs, {attribute("axis", std::int64_t{image(in(0)) ? 1 : -1})}));
  }

  void add(const graph::Reshape& op) {
    std::string x = image(in(0)) ? to_nhwc(name(in(0))) : name(in(0));
    Ints shape = op.shape.dims();
    shape[0] = -1;
    x = emit("Reshape", {x, integers(shape)});
    set(image(out()) ? to_nchw(x) : x);
  }

  void add(const graph::ZeroPad& op) {
    const Ints of_image{0, 0, op.top, op.left, 0, 0, op.bottom, op.right};
    const Ints of_tokens{0, op.top, 0, 0, op.bottom, 0};
    set(emit("Pad", {name(in(0)), integers(image(in(0)) ? of_image : of_tokens)}));
  }

  void add(const graph::Crop& op) {
    const Shape& x = graph_[in(0)].shape;
    Ints begins{op.top}, ends{x[1] - op.bottom}, axes{1};
    if (image(in(0))) {
      begins.push_back(op.left);
      ends.push_back(x[2] - op.right);
      axes = {2, 3};
    }
    set(emit("Slice", {name(in(0)), integers(begins), integers(ends), integers(axes)}));
  }

  // Takes the queries, keys and values of all heads as [1, batch, heads, tokens, channels].
  void add(const graph::Attention& op) {
    const Shape& y = graph_[out()].shape;
    const std::int64_t channels = y[2] / op.heads;
    const auto permuted = [&](const std::string& x, const Ints& order) {
      return emit("Transpose", {x}, {attribute("perm", order)});
    };
    const std::string parts =
        permuted(emit("Reshape", {name(in(0)), integers({-1, y[1], 3, op.heads, channels})}),
                 {2, 0, 3, 1, 4});
    const auto part = [&](std::int64_t i) {
      return emit("Gather", {parts, integers({i})}, {attribute("axis", std::int64_t{0})});
    };
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(channels)));
    const std::string queries = emit("Mul", {part(0), constant({}, {factor})});
    const std::string scores = emit("MatMul", {queries, permuted(part(1), {0, 1, 2, 4, 3})});
    const std::string weights = emit("Softmax", {scores}, {attribute("axis", std::int64_t{-1})});
    const std::string x = permuted(emit("MatMul", {weights, part(2)}), {0, 1, 3, 2, 4});
    set(emit("Reshape", {x, integers({-1, y[1], y[2]})}));
  }

  void add(const graph::PrependTokens&) {
    const std::string batch = emit("Gather", {emit("Shape", {name(in(0))}), integers({0})});
    const std::string shape = emit("Concat", {batch, integers(graph_[in(1)].shape.dims())},
                                   {attribute("axis", std::int64_t{0})});
    const std::string first = emit("Expand", {persistent(in(1)), shape});
    set(emit("Concat", {first, name(in(0))}, {attribute("axis", std::int64_t{1})}));
  }

  // Throws ConfigError for an op that ONNX cannot express.
  [[noreturn]] void reject() const {
    throw ConfigError(
        at().loc, concat(at().name, ": ", graph::name_of(at().op), " cannot be exported to ONNX"));
  }
  // Gradients and other ops that the graph of a model does not have before its loss.
  template <class Op>
  void add(const Op&) {
    reject();
  }
  void add(const graph::Loss&) {}
  void add(const graph::UpdateStatistics&) {}

  const graph::Graph& graph_;
  const PersistentTensors& tensors_;
  int node_ = 0;
  mutable int count_ = 0;
  std::map<ValueId, std::string> names_;
  ProtoMessage body_;
};

}  // namespace

void export_onnx(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors,
                 const OnnxOptions& options, const Path& path) {
  const PersistentTensors persistent(graph, tensors);
  write_file_atomic(path, Writer(graph, persistent).write(options));
}

}  // namespace trainer::model
