#include "graph/ops/preprocess.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

std::string list_text(const std::vector<float>& numbers) {
  std::string joined;
  for (const float number : numbers) joined += concat(joined.empty() ? "" : ",", number);
  return concat("[", joined, "]");
}

}  // namespace

std::string Preprocess::text() const {
  return concat("scale ", scale, " mean ", list_text(mean), " std ", list_text(std),
                reverse_channels ? " reversed channels" : "");
}

Outputs Preprocess::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = context.inputs[0];
  if (x.shape.rank() != 4 || !x.shape.batched()) {
    fail(context, "images are ", to_string(x.shape), ", expected [batch, height, width, channels]");
  }
  if (x.type != DType::kUInt8 && x.type != DType::kFloat32) {
    fail(context, "images are ", to_string(x.type), ", expected uint8 or float32");
  }
  const std::size_t channels = x.shape[3];
  if (mean.size() != channels || std.size() != channels) {
    fail(context, "mean and std have ", mean.size(), " and ", std.size(),
         " numbers, the images have ", channels, " channels; give one number, or one per channel");
  }
  return {{x.shape, DType::kFloat32}};
}

}  // namespace trainer::graph
