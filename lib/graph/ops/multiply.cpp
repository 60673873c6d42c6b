// Products and sums with a factor or bias that is repeated, and the sums that are their gradients.
#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

// Whether `part`, without a batch, has the last dimensions of x.
bool ends_with(const Shape& x, const Shape& part) {
  if (part.batched() || part.rank() >= x.rank()) return false;
  const std::size_t skip = x.rank() - part.rank();
  for (std::size_t i = 0; i < part.rank(); ++i) {
    if (x[skip + i] != part[i]) return false;
  }
  return true;
}

// Whether `part` has one number a sample and channel of x.
bool is_of_channels(const Shape& x, const Shape& part) {
  return x.rank() == 4 && part == Shape{kBatch, 1, 1, x[3]};
}

bool is_repeated(const Shape& x, const Shape& part) {
  return part == x || is_of_channels(x, part) || ends_with(x, part);
}

}  // namespace

const char* name(const Multiply&) { return "multiply"; }
std::string text(const Multiply&) { return ""; }
std::int64_t flops(const Multiply&, const Operands&) { return 0; }
int alias(const Multiply&, int) { return -1; }

Outputs infer(const Multiply&, const Site& site) {
  if (site.inputs.size() != 2) {
    fail(site, "multiplies two inputs, got ", site.inputs.size(),
         "; name them with inputs: [first, second]");
  }
  const Typed &x = floats(site, 0), &factor = floats(site, 1);
  if (!is_repeated(x.shape, factor.shape)) {
    fail(site, "its inputs are ", to_string(x.shape), " and ", to_string(factor.shape),
         "; the second must have the first's shape",
         x.shape.rank() == 4 ? concat(" or be ", to_string(Shape{kBatch, 1, 1, x.shape[3]}),
                                      ", which global_average_pool: {keepdims: true} makes")
                             : "");
  }
  return {x};
}

Gradients differentiate(const Multiply&, GradientSite& site) {
  Gradients gradients(2, kNoValue);
  if (site.dy() == kNoValue) return gradients;
  if (site.wants(0)) gradients[0] = site.emit1(Multiply{}, {site.dy(), site.x(1)});
  if (site.wants(1)) {
    gradients[1] = site.emit1(SumProduct{site.shape_of(site.x(1))}, {site.dy(), site.x(0)});
  }
  return gradients;
}

const char* name(const AddBias&) { return "add_bias"; }
std::string text(const AddBias&) { return ""; }
std::int64_t flops(const AddBias&, const Operands&) { return 0; }
int alias(const AddBias&, int) { return -1; }

Outputs infer(const AddBias&, const Site& site) {
  expect_inputs(site, 2);
  const Typed& x = floats(site, 0);
  if (!ends_with(x.shape, site.inputs[1].shape)) {
    fail(site, "bias is ", to_string(site.inputs[1].shape), ", expected the last dimensions of ",
         to_string(x.shape));
  }
  return {x};
}

Gradients differentiate(const AddBias&, GradientSite& site) {
  Gradients gradients(2, kNoValue);
  if (site.dy() == kNoValue) return gradients;
  if (site.wants(0)) gradients[0] = site.dy();
  if (site.wants(1)) {
    gradients[1] = site.emit1(SumProduct{site.shape_of(site.x(1))}, {site.dy()});
  }
  return gradients;
}

const char* name(const SumProduct&) { return "sum_product"; }
std::string text(const SumProduct& op) { return to_string(op.shape); }
std::int64_t flops(const SumProduct&, const Operands&) { return 0; }
int alias(const SumProduct&, int) { return -1; }

Outputs infer(const SumProduct& op, const Site& site) {
  if (site.inputs.size() != 1) expect_inputs(site, 2);
  const Typed& a = floats(site, 0);
  if (site.inputs.size() == 2) expect_shape(site, 1, a.shape, "second factor");
  if (!is_repeated(a.shape, op.shape)) {
    fail(site, "cannot sum ", to_string(a.shape), " to ", to_string(op.shape));
  }
  return {{op.shape, op.shape.batched() ? a.type : DType::kFloat32}};
}

Gradients differentiate(const SumProduct&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
