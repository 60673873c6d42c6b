#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

template <class Op>
std::string size_text(const Op& op) {
  return concat(op.kind == UpSample::Kind::kBilinear ? "bilinear " : "nearest ", op.height, "x",
                op.width);
}

template <class Op>
void expect_factors(const Op& op, const Site& site) {
  if (op.height < 1 || op.width < 1) {
    fail(site, "size is ", op.height, "x", op.width, ", expected 1 or more");
  }
}

}  // namespace

const char* name(const UpSample&) { return "up_sample"; }
std::string text(const UpSample& op) { return size_text(op); }
std::int64_t flops(const UpSample&, const Operands&) { return 0; }
int alias(const UpSample&, int) { return -1; }

Outputs infer(const UpSample& op, const Site& site) {
  expect_inputs(site, 1);
  expect_factors(op, site);
  const Typed& x = image(site, 0);
  return {{{kBatch, x.shape[1] * op.height, x.shape[2] * op.width, x.shape[3]}, x.type}};
}

Gradients differentiate(const UpSample& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  return {site.emit1(UpSampleBackward{op.kind, op.height, op.width}, {site.dy()})};
}

const char* name(const UpSampleBackward&) { return "up_sample_backward"; }
std::string text(const UpSampleBackward& op) { return size_text(op); }
std::int64_t flops(const UpSampleBackward&, const Operands&) { return 0; }
int alias(const UpSampleBackward&, int) { return -1; }

Outputs infer(const UpSampleBackward& op, const Site& site) {
  expect_inputs(site, 1);
  expect_factors(op, site);
  const Typed& dy = image(site, 0);
  if (dy.shape[1] % op.height != 0 || dy.shape[2] % op.width != 0) {
    fail(site, "the gradient ", to_string(dy.shape), " is not of an image enlarged ", op.height,
         "x", op.width);
  }
  return {{{kBatch, dy.shape[1] / op.height, dy.shape[2] / op.width, dy.shape[3]}, dy.type}};
}

Gradients differentiate(const UpSampleBackward&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
