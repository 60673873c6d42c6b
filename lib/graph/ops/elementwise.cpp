// Ops that move, join or scale values: preprocess, dropout, add, concat, slice, reshape, pad, crop.
#include <algorithm>

#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

std::string list_text(const std::vector<float>& numbers) {
  std::string joined;
  for (const float number : numbers) joined += concat(joined.empty() ? "" : ",", number);
  return concat("[", joined, "]");
}

void expect_two_or_more(const Site& site) {
  if (site.inputs.size() < 2) {
    fail(site, "expects at least two inputs, got ", site.inputs.size(),
         "; name them with inputs: [first, second]");
  }
}

}  // namespace

const char* name(const Preprocess&) { return "preprocess"; }
std::string text(const Preprocess& op) {
  return concat("scale ", op.scale, " mean ", list_text(op.mean), " std ", list_text(op.std),
                op.reverse_channels ? " reversed channels" : "");
}
std::int64_t flops(const Preprocess&, const Operands&) { return 0; }
int alias(const Preprocess&, int) { return -1; }

Outputs infer(const Preprocess& op, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = site.inputs[0];
  if (x.shape.rank() != 4 || !x.shape.batched()) {
    fail(site, "images are ", to_string(x.shape), ", expected [batch, height, width, channels]");
  }
  if (x.type != DType::kUInt8 && x.type != DType::kFloat32) {
    fail(site, "images are ", to_string(x.type), ", expected uint8 or float32");
  }
  const auto channels = static_cast<std::size_t>(x.shape[3]);
  if (op.mean.size() != channels || op.std.size() != channels) {
    fail(site, "mean and std have ", op.mean.size(), " and ", op.std.size(),
         " numbers, the images have ", channels, " channels; give one number, or one per channel");
  }
  return {{x.shape, DType::kFloat32}};
}

const char* name(const Dropout&) { return "dropout"; }
std::string text(const Dropout& op) {
  const char* unit = op.unit == Dropout::Unit::kChannel  ? " of channels"
                     : op.unit == Dropout::Unit::kSample ? " of samples"
                                                         : "";
  return concat("rate ", op.rate, " layer ", op.layer, unit);
}
std::int64_t flops(const Dropout&, const Operands&) { return 0; }
int alias(const Dropout&, int) { return -1; }

Outputs infer(const Dropout& op, const Site& site) {
  expect_inputs(site, 1);
  if (!(op.rate >= 0 && op.rate < 1)) {
    fail(site, "rate is ", op.rate, ", expected a number from 0 up to, but not including, 1");
  }
  return {floats(site, 0)};
}

Gradients differentiate(const Dropout& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  return {site.emit1(op, {site.dy()})};
}

const char* name(const Add&) { return "add"; }
std::string text(const Add&) { return ""; }
std::int64_t flops(const Add&, const Operands&) { return 0; }
int alias(const Add&, int) { return -1; }

Outputs infer(const Add&, const Site& site) {
  expect_two_or_more(site);
  const Typed& first = floats(site, 0);
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    if (floats(site, i).shape != first.shape) {
      fail(site, "adds values of one shape, but its inputs are ", to_string(first.shape), " and ",
           to_string(site.inputs[i].shape));
    }
  }
  return {first};
}

Gradients differentiate(const Add&, GradientSite& site) {
  Gradients gradients(site.node.inputs.size(), kNoValue);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (site.wants(i)) gradients[i] = site.dy();
  }
  return gradients;
}

const char* name(const Concat&) { return "concat"; }
std::string text(const Concat&) { return ""; }
std::int64_t flops(const Concat&, const Operands&) { return 0; }
int alias(const Concat&, int) { return -1; }

Outputs infer(const Concat&, const Site& site) {
  expect_two_or_more(site);
  Typed y = floats(site, 0);
  const std::size_t last = y.shape.rank() - 1;
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    Shape other = floats(site, i).shape;
    const bool same_rank = other.rank() == y.shape.rank();
    const std::int64_t channels = same_rank ? other[last] : 0;
    if (same_rank) other[last] = y.shape[last];
    if (other != y.shape) {
      fail(site, "joins along the channels, so all other dimensions have to be equal, but its ",
           "inputs are ", to_string(site.inputs[0].shape), " and ",
           to_string(site.inputs[i].shape));
    }
    y.shape[last] += channels;
  }
  return {y};
}

Gradients differentiate(const Concat&, GradientSite& site) {
  Gradients gradients(site.node.inputs.size(), kNoValue);
  if (site.dy() == kNoValue) return gradients;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Shape shape = site.shape_of(site.x(i));
    const std::int64_t end = begin + shape[shape.rank() - 1];
    if (site.wants(i)) gradients[i] = site.emit1(Slice{begin, end}, {site.dy()});
    begin = end;
  }
  return gradients;
}

const char* name(const Slice&) { return "slice"; }
std::string text(const Slice& op) { return concat(op.begin, ":", op.end); }
std::int64_t flops(const Slice&, const Operands&) { return 0; }
int alias(const Slice&, int) { return -1; }

Outputs infer(const Slice& op, const Site& site) {
  expect_inputs(site, 1);
  Typed y = floats(site, 0);
  const std::size_t last = y.shape.rank() - 1;
  if (op.begin < 0 || op.begin >= op.end || op.end > y.shape[last]) {
    fail(site, "channels ", op.begin, " to ", op.end, " are not all in ", to_string(y.shape));
  }
  y.shape[last] = op.end - op.begin;
  return {y};
}

const char* name(const Reshape&) { return "reshape"; }
std::string text(const Reshape& op) { return to_string(op.shape); }
std::int64_t flops(const Reshape&, const Operands&) { return 0; }
int alias(const Reshape&, int) { return -1; }

Outputs infer(const Reshape& op, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = floats(site, 0);
  const auto& dims = op.shape.dims();
  const bool positive =
      op.shape.batched() && std::all_of(dims.begin() + 1, dims.end(), [](auto d) { return d > 0; });
  if (!positive || op.shape.elements() != x.shape.elements()) {
    fail(site, "cannot reshape ", to_string(x.shape), " (", x.shape.elements(),
         " numbers a sample) to ", to_string(op.shape));
  }
  return {{op.shape, x.type}};
}

Gradients differentiate(const Reshape&, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  return {site.emit1(Reshape{site.shape_of(site.x(0))}, {site.dy()})};
}

const char* name(const ZeroPad&) { return "zero_pad"; }
std::string text(const ZeroPad& op) {
  return concat(op.top, ",", op.bottom, ",", op.left, ",", op.right);
}
std::int64_t flops(const ZeroPad&, const Operands&) { return 0; }
int alias(const ZeroPad&, int) { return -1; }

Outputs infer(const ZeroPad& op, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = image(site, 0);
  if (op.top < 0 || op.bottom < 0 || op.left < 0 || op.right < 0) {
    fail(site, "padding must be 0 or more");
  }
  return {{{kBatch, x.shape[1] + op.top + op.bottom, x.shape[2] + op.left + op.right, x.shape[3]},
           x.type}};
}

Gradients differentiate(const ZeroPad& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  return {site.emit1(Crop{op.top, op.bottom, op.left, op.right}, {site.dy()})};
}

const char* name(const Crop&) { return "crop"; }
std::string text(const Crop& op) {
  return concat(op.top, ",", op.bottom, ",", op.left, ",", op.right);
}
std::int64_t flops(const Crop&, const Operands&) { return 0; }
int alias(const Crop&, int) { return -1; }

Outputs infer(const Crop& op, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = image(site, 0);
  const std::int64_t height = x.shape[1] - op.top - op.bottom;
  const std::int64_t width = x.shape[2] - op.left - op.right;
  if (height <= 0 || width <= 0) fail(site, "nothing is left of ", to_string(x.shape));
  return {{{kBatch, height, width, x.shape[3]}, x.type}};
}

Gradients differentiate(const Preprocess&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const Slice&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const Crop&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
