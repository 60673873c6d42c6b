// Which attributes a descriptor has. Follows "cudnn_graph Library", section "Backend Descriptor
// Types" of the cuDNN backend API reference
// (docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html): one table there
// for each descriptor, with the attributes, their types and counts, and which are required.
#include <algorithm>
#include <span>

#include "cuda/fake_cudnn/descriptor.h"

namespace fake {
namespace {

struct Rule {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most = 1;
  bool required = true;
};

constexpr std::int64_t kDimensions = 8;  // CUDNN_DIM_MAX
constexpr std::int64_t kMany = 1 << 20;
constexpr bool kOptional = false;

constexpr Rule kTensor[] = {{CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
                            {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
                            {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
                            {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kDimensions},
                            {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kDimensions},
                            {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, kOptional}};
constexpr Rule kConvolution[] = {
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kDimensions},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kDimensions},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kDimensions},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kDimensions}};
constexpr Rule kPointwise[] = {
    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, kOptional}};
constexpr Rule kForward[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT}};
constexpr Rule kBackwardData[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT}};
constexpr Rule kBackwardFilter[] = {
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT},
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT}};
constexpr Rule kPointwiseOperation[] = {
    {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kOptional},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR}};
constexpr Rule kGraph[] = {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, kOptional},
                           {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMany}};
constexpr Rule kHeuristics[] = {
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kOptional}};
constexpr Rule kPlan[] = {
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, kOptional},
    {CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kOptional},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kOptional},
    {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, kMany, kOptional}};
constexpr Rule kVariantPack[] = {
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kMany},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, kMany},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}};
constexpr Rule kDeviceProperties[] = {
    {CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, kOptional},
    {CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, kMany, kOptional}};

std::span<const Rule> find_rules(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return kTensor;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return kConvolution;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return kPointwise;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return kForward;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return kBackwardData;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return kBackwardFilter;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return kPointwiseOperation;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return kGraph;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return kHeuristics;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return kPlan;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return kVariantPack;
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
      return kDeviceProperties;
    default:
      return {};
  }
}

using Integers = std::vector<std::int64_t>;

void check_tensor(const Descriptor& d) {
  const Integers extents = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const Integers strides = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  if (extents.size() != strides.size()) refuse("as many strides as dimensions");
  if (*std::min_element(extents.begin(), extents.end()) < 1) refuse("a dimension below 1");
  if (*std::min_element(strides.begin(), strides.end()) < 1) refuse("a stride below 1");
  const auto alignment = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  if (alignment < 1 || (alignment & (alignment - 1)) != 0)
    refuse("the alignment is not a power of 2");
  switch (d.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      break;
    default:
      throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "the fake has floating-point tensors only");
  }
  // Distinct elements lie at distinct addresses: the next longer stride passes all of the shorter.
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] > 1) axes.emplace_back(strides[i], extents[i]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) refuse("strides overlap");
    reach += stride * (extent - 1);
  }
}

void check_convolution(const Descriptor& d) {
  if (d.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2) {
    throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "the fake has two spatial dimensions only");
  }
  if (d.one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_HALF) != CUDNN_DATA_FLOAT) {
    throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "the fake sums in float32 only");
  }
  const auto values = [&d](cudnnBackendAttributeName_t name, std::int64_t least) {
    const Integers all = d.all<std::int64_t>(name);
    if (all.size() != 2) refuse("as many values as spatial dimensions");
    if (*std::min_element(all.begin(), all.end()) < least) refuse("a value that is too small");
  };
  values(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
  values(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  values(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  values(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0);
}

// A reference to a descriptor of a type.
const Descriptor& part(const Descriptor& d, cudnnBackendAttributeName_t name,
                       cudnnBackendDescriptorType_t type) {
  const Descriptor* found = d.reference(name);
  if (found == nullptr || found->type != type) refuse("a reference of the wrong type");
  return *found;
}

// Extents of images (N, C, H, W) and of the filter (K, C / groups, R, S) fit together, and so do
// the types: section "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", finalization, and
// the two of the gradients. The output's extent is cudnnGetConvolutionNdForwardOutputDim's formula.
void check_operation(const Descriptor& d, cudnnBackendAttributeName_t x_name,
                     cudnnBackendAttributeName_t w_name, cudnnBackendAttributeName_t y_name,
                     cudnnBackendAttributeName_t convolution_name) {
  const Descriptor& x = part(d, x_name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Descriptor& w = part(d, w_name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Descriptor& y = part(d, y_name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Descriptor& how = part(d, convolution_name, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Integers xs = x.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const Integers ws = w.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const Integers ys = y.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  if (xs.size() != 4 || ws.size() != 4 || ys.size() != 4) refuse("four dimensions expected");
  if (xs[0] != ys[0]) refuse("x and y hold different numbers of images");
  if (ws[0] != ys[1]) refuse("the filter's outputs are not y's channels");
  if (xs[1] % ws[1] != 0) refuse("the filter's inputs do not divide x's channels");
  if (ws[0] % (xs[1] / ws[1]) != 0) refuse("the groups do not divide the filter's outputs");
  const Integers before = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const Integers after = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  const Integers strides = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const Integers dilations = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t padded = xs[axis + 2] + before[axis] + after[axis];
    const std::int64_t window = (ws[axis + 2] - 1) * dilations[axis] + 1;
    if (padded < window || ys[axis + 2] != 1 + (padded - window) / strides[axis]) {
      refuse("y is not as large as the convolution makes it");
    }
  }
  const auto type = x.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  for (const Descriptor* other : {&w, &y}) {
    const bool is_virtual = other->one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
    if (!is_virtual && other->one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT) != type) {
      throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "a convolution of mixed types");
    }
  }
}

// Section "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR": B is broadcast along dimensions of 1.
void check_pointwise_operation(const Descriptor& d) {
  const auto mode =
      part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
          .one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
  const auto extents = [&d](cudnnBackendAttributeName_t name) {
    return part(d, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  };
  const Integers y = extents(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (extents(CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != y) refuse("x and y differ in extents");
  const bool has_b = d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    if (has_b) refuse("relu has one operand");
  } else if (mode == CUDNN_POINTWISE_ADD) {
    if (!has_b) refuse("an addition has two operands");
    const Integers b = extents(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    if (b.size() != y.size()) refuse("operands of different ranks");
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (b[i] != 1 && b[i] != y[i]) refuse("an operand that cannot be broadcast");
    }
  } else {
    throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "the fake does not have this pointwise mode");
  }
}

void check_variant_pack(const Descriptor& d) {
  Integers ids = d.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids.size() != d.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()) {
    refuse("as many addresses as identifiers");
  }
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) refuse("an identifier given twice");
}

}  // namespace

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;  // enumerations and float
  }
}

void check_attribute(const Descriptor& descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, std::int64_t count) {
  for (const Rule& rule : find_rules(descriptor.type)) {
    if (rule.name != name) continue;
    if (rule.type != type) refuse("attribute " + std::to_string(name) + " has another type");
    if (count < 1 || count > rule.most) {
      refuse("attribute " + std::to_string(name) + " with " + std::to_string(count) + " values");
    }
    return;
  }
  refuse("a descriptor of type " + std::to_string(descriptor.type) + " has no attribute " +
         std::to_string(name));
}

void check_descriptor(const Descriptor& d) {
  for (const Rule& rule : find_rules(d.type)) {
    if (rule.required && !d.has(rule.name)) {
      refuse("attribute " + std::to_string(rule.name) + " is missing");
    }
  }
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return check_convolution(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return check_operation(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return check_operation(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return check_operation(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return check_pointwise_operation(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return check_variant_pack(d);
    default:
      return;
  }
}

}  // namespace fake
