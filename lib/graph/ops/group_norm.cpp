// Normalization within a sample: groups of channels of the whole image, or of each pixel.
#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

template <class Op>
std::string norm_text(const Op& op) {
  return words({op.of_pixels ? "of pixels" : "", op.groups > 1 ? concat("groups ", op.groups) : "",
                concat("epsilon ", op.epsilon)});
}

// x, whose channels the groups must divide.
template <class Op>
const Typed& grouped(const Op& op, const Site& site) {
  const Typed& x = site.inputs[0];
  if (!is_float(x.type)) fail(site, "expects floating-point input, got ", to_string(x.type));
  const std::size_t rank = x.shape.rank();
  if (rank < 2 || !x.shape.batched()) {
    fail(site, "expects [batch, ..., channels], but its input is ", to_string(x.shape));
  }
  const std::int64_t channels = x.shape[rank - 1];
  if (op.groups < 1 || channels % op.groups != 0) {
    fail(site, "groups: ", op.groups, " does not divide the ", channels, " channels of its input ",
         to_string(x.shape));
  }
  return x;
}

Shape channels_of(const Typed& x) { return {x.shape[x.shape.rank() - 1]}; }

}  // namespace

const char* name(const GroupNorm&) { return "group_norm"; }
std::string text(const GroupNorm& op) { return norm_text(op); }
std::int64_t flops(const GroupNorm&, const Operands&) { return 0; }
int alias(const GroupNorm&, int) { return -1; }

Outputs infer(const GroupNorm& op, const Site& site) {
  expect_inputs(site, 3);
  const Typed& x = grouped(op, site);
  expect_shape(site, 1, channels_of(x), "gamma");
  expect_shape(site, 2, channels_of(x), "beta");
  return {x};
}

Gradients differentiate(const GroupNorm& op, GradientSite& site) {
  Gradients gradients(3, kNoValue);
  if (site.dy() == kNoValue) return gradients;
  if (!site.wants(0) && !site.wants(1) && !site.wants(2)) return gradients;
  const auto made = site.emit(GroupNormBackward{op.groups, op.of_pixels, op.epsilon},
                              {site.x(0), site.dy(), site.x(1)});
  for (std::size_t i = 0; i < 3; ++i) {
    if (site.wants(i)) gradients[i] = made[i];
  }
  return gradients;
}

const char* name(const GroupNormBackward&) { return "group_norm_backward"; }
std::string text(const GroupNormBackward& op) { return norm_text(op); }
std::int64_t flops(const GroupNormBackward&, const Operands&) { return 0; }
int alias(const GroupNormBackward&, int) { return -1; }

Outputs infer(const GroupNormBackward& op, const Site& site) {
  expect_inputs(site, 3);
  const Typed& x = grouped(op, site);
  expect_shape(site, 1, x.shape, "gradient of the output");
  expect_shape(site, 2, channels_of(x), "gamma");
  return {site.inputs[1], {channels_of(x), DType::kFloat32}, {channels_of(x), DType::kFloat32}};
}

Gradients differentiate(const GroupNormBackward&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
