#include "backend/cuda/plans/convolution_graph.h"

#include <algorithm>
#include <array>

#include "backend/backend.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Pass = ConvolutionProblem::Pass;
using Extents = std::vector<std::int64_t>;

constexpr std::int64_t kFirstVirtualTensor = 10;

cudnnDataType_t cudnn_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    default:
      throw DeviceError(concat("convolution of ", to_string(type),
                               "; expected a floating-point type; please report it"));
  }
}

const char* to_string(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackwardData:
      return "backward data";
    case Pass::kBackwardWeights:
      return "backward weights";
  }
  return "?";
}

template <class Pair>
std::string joined(const Pair& pair) {
  return concat(pair[0], 'x', pair[1]);
}

Extents both(const std::array<std::int64_t, 2>& values) { return {values[0], values[1]}; }

// Makes the descriptors of one graph into a list that owns them.
class Builder {
 public:
  Builder(const ConvolutionProblem& problem, std::deque<Descriptor>& parts)
      : p_(problem), parts_(parts) {}

  // cuDNN names the axes of an image N, C, H, W in this order, whatever lies innermost in memory.
  const Descriptor& x() { return tensor(kTensorX, {p_.n, p_.c, p_.h, p_.w}, kStored); }
  const Descriptor& kernel() {
    return tensor(kTensorKernel, {p_.out, p_.c / p_.groups, p_.window.size[0], p_.window.size[1]},
                  kStored);
  }
  const Descriptor& y() { return tensor(kTensorY, y_extents(), kStored); }
  const Descriptor& bias() { return tensor(kTensorBias, {1, p_.out, 1, 1}, kStored); }
  // A tensor of y's extents that is never in memory.
  const Descriptor& between() { return tensor(next_virtual_++, y_extents(), kVirtual); }

  const Descriptor& window() {
    return add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, both(p_.window.pad_before))
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, both(p_.window.pad_after))
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, both(p_.window.dilation))
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, both(p_.window.stride))
        .finalize();
  }

  const Descriptor& convolve(const Descriptor& to) {
    const Descriptor &from = x(), &weights = kernel(), &how = window();
    return add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, from)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weights)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, to)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
        .finalize();
  }

  const Descriptor& convolve_back_to_data() {
    const Descriptor &to = x(), &weights = kernel(), &from = y(), &how = window();
    return add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, to)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, weights)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, from)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, how)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f)
        .finalize();
  }

  const Descriptor& convolve_back_to_weights() {
    const Descriptor &from = x(), &to = kernel(), &dy = y(), &how = window();
    return add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, from)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, to)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, how)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0f)
        .finalize();
  }

  const Descriptor& add_bias(const Descriptor& from, const Descriptor& to) {
    const Descriptor &function = pointwise(CUDNN_POINTWISE_ADD).finalize(), &addend = bias();
    return add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, addend)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to)
        .finalize();
  }

  const Descriptor& relu(const Descriptor& from, const Descriptor& to) {
    // A NaN must stay one (graph::Activation). cuDNN 9's header marks this attribute as deprecated
    // and names no other. The fake of the tests drops a NaN without it; on a GPU, the case
    // "activations: a NaN goes through relu" of gpu_check shows whether engines obey.
    const Descriptor& function = pointwise(CUDNN_POINTWISE_RELU_FWD)
                                     .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN)
                                     .finalize();
    return add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to)
        .finalize();
  }

  Descriptor& add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }

 private:
  enum Storage { kStored, kVirtual };

  Extents y_extents() const {
    return {p_.n, p_.out, p_.window.output(p_.h, 0), p_.window.output(p_.w, 1)};
  }

  // Channels lie innermost: of images NHWC, of kernels KRSC. A virtual tensor is float32.
  const Descriptor& tensor(std::int64_t id, const Extents& extents, Storage storage) {
    const std::int64_t c = extents[1], h = extents[2], w = extents[3];
    Descriptor& result = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    result
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE,
             storage == kVirtual ? CUDNN_DATA_FLOAT : cudnn_type(p_.type))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
        .set(CUDNN_ATTR_TENSOR_STRIDES, Extents{h * w * c, 1, w * c, c})
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
    if (storage == kVirtual) result.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    return result.finalize();
  }

  Descriptor& pointwise(cudnnPointwiseMode_t mode) {
    return add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  }

  const ConvolutionProblem& p_;
  std::deque<Descriptor>& parts_;
  std::int64_t next_virtual_ = kFirstVirtualTensor;
};

std::vector<const Descriptor*> forward_operations(Builder& b, Epilogue epilogue) {
  if (epilogue == Epilogue::kNone) return {&b.convolve(b.y())};
  const Descriptor& product = b.between();
  const Descriptor& convolution = b.convolve(product);
  if (epilogue == Epilogue::kBias) return {&convolution, &b.add_bias(product, b.y())};
  const Descriptor& sum = b.between();
  return {&convolution, &b.add_bias(product, sum), &b.relu(sum, b.y())};
}

std::vector<const Descriptor*> operations(Builder& b, Pass pass, Epilogue epilogue) {
  switch (pass) {
    case Pass::kForward:
      return forward_operations(b, epilogue);
    case Pass::kBackwardData:
      return {&b.convolve_back_to_data()};
    case Pass::kBackwardWeights:
      return {&b.convolve_back_to_weights()};
  }
  return {};
}

}  // namespace

std::string to_string(const ConvolutionProblem& p) {
  return concat(to_string(p.pass), ' ', trainer::to_string(p.type), p.tf32 ? " tf32" : "", " x ",
                p.n, 'x', p.h, 'x', p.w, 'x', p.c, " kernel ", joined(p.window.size), " to ", p.out,
                " groups ", p.groups, " stride ", joined(p.window.stride), " dilation ",
                joined(p.window.dilation), " pad ", joined(p.window.pad_before), " and ",
                joined(p.window.pad_after), p.bias ? " bias" : "", p.relu ? " relu" : "");
}

void check_problem(const ConvolutionProblem& p) {
  const auto fail = [&p](const char* why) {
    throw DeviceError(concat("convolution ", to_string(p), ": ", why, "; please report it"));
  };
  if (!is_float(p.type)) fail("the type is not a floating-point type");
  if (std::min({p.n, p.h, p.w, p.c, p.out, p.groups}) < 1) fail("an extent is not positive");
  if (p.c % p.groups != 0 || p.out % p.groups != 0) fail("the groups do not divide the channels");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const graph::Window& w = p.window;
    if (std::min({w.size[axis], w.stride[axis], w.dilation[axis]}) < 1) {
      fail("a size, stride or dilation is not positive");
    }
    if (std::min(w.pad_before[axis], w.pad_after[axis]) < 0) fail("a padding is negative");
    if (w.output(axis == 0 ? p.h : p.w, static_cast<int>(axis)) < 1) {
      fail("the kernel is larger than the padded image");
    }
  }
  if (p.pass != Pass::kForward && (p.bias || p.relu)) fail("only forward has a bias or relu");
}

void check_elements(const ConvolutionProblem& p) {
  constexpr std::int64_t kMaxElements = (std::int64_t{1} << 31) - 1;
  const std::int64_t per_sample =
      std::max(p.h * p.w * p.c, p.window.output(p.h, 0) * p.window.output(p.w, 1) * p.out);
  if (p.n <= kMaxElements / per_sample) return;
  throw DoesNotFit(concat("a convolution of ", p.n, " samples has a tensor of ", p.n * per_sample,
                          " elements, and cuDNN takes at most ", kMaxElements, ", which are ",
                          kMaxElements / per_sample,
                          " samples; TRAINER_CUDA_LARGE_TENSORS=1 lifts this limit"));
}

ConvolutionGraph::ConvolutionGraph(const ConvolutionProblem& problem, Epilogue epilogue,
                                   const CudnnDevice& device) {
  Builder builder(problem, parts_);
  const auto list = operations(builder, problem.pass, epilogue);
  Descriptor& graph = builder.add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, list);
  device.set_on_graph(graph);
  graph.finalize();
}

}  // namespace trainer::backend::cuda
