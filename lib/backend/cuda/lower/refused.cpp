// Ops that the CUDA backend does not have yet: a graph with one of them is refused when it is
// compiled.
#include "backend/cuda/program.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

[[noreturn]] void refuse(const Lowering& l, const char* what) {
  const graph::Node& node = l.node();
  throw ConfigError(node.loc, concat(node.name, ": ", what, " does not run on GPUs yet; set ",
                                     "parallel.device: cpu, or leave the layer out"));
}

}  // namespace

void lower(const graph::GroupNorm& op, Lowering& l) {
  refuse(l, op.of_pixels ? "layer normalization" : "group normalization");
}
void lower(const graph::GroupNormBackward& op, Lowering& l) {
  refuse(l, op.of_pixels ? "layer normalization" : "group normalization");
}
void lower(const graph::Multiply&, Lowering& l) { refuse(l, "a product of layers"); }
void lower(const graph::AddBias&, Lowering& l) {
  refuse(l, "the bias of a transposed convolution");
}
void lower(const graph::SumProduct&, Lowering& l) { refuse(l, "a product of layers"); }
void lower(const graph::UpSample&, Lowering& l) { refuse(l, "up_sampling"); }
void lower(const graph::UpSampleBackward&, Lowering& l) { refuse(l, "up_sampling"); }

}  // namespace trainer::backend::cuda
