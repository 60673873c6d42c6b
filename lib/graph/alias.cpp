#include "graph/graph.h"

namespace trainer::graph {
namespace {

int alias(const Preprocess&, int) { return -1; }
int alias(const Conv&, int) { return -1; }
int alias(const ConvBackwardData&, int) { return -1; }
int alias(const ConvBackwardWeights&, int) { return -1; }
int alias(const ConvMaxPool&, int) { return -1; }
int alias(const ConvMaxPoolBackwardWeights&, int) { return -1; }
int alias(const Dense&, int) { return -1; }
int alias(const DenseBackwardData&, int) { return -1; }
int alias(const DenseBackwardWeights&, int) { return -1; }
int alias(const Pool&, int) { return -1; }
int alias(const PoolBackward&, int) { return -1; }
int alias(const GlobalPool&, int) { return -1; }
int alias(const GlobalPoolBackward&, int) { return -1; }
int alias(const Activate&, int) { return -1; }
int alias(const ActivateBackward&, int) { return -1; }
int alias(const Softmax&, int) { return -1; }
int alias(const SoftmaxBackward&, int) { return -1; }
int alias(const BatchNorm&, int) { return -1; }
int alias(const BatchNormBackward&, int) { return -1; }
int alias(const UpdateStatistics&, int output) { return output; }
int alias(const BatchNormInference&, int) { return -1; }
int alias(const BatchNormInferenceBackward&, int) { return -1; }
int alias(const FoldBatchNorm&, int) { return -1; }
int alias(const Dropout&, int) { return -1; }
int alias(const Add&, int) { return -1; }
int alias(const Concat&, int) { return -1; }
int alias(const Slice&, int) { return -1; }
int alias(const Reshape&, int) { return -1; }
int alias(const ZeroPad&, int) { return -1; }
int alias(const Crop&, int) { return -1; }
int alias(const Loss&, int) { return -1; }
int alias(const L2Penalty&, int) { return -1; }
int alias(const Update&, int output) { return output == 0 ? 0 : output + 1; }  // not the gradient

}  // namespace

int alias_of(const Op& op, int output) {
  return std::visit([&](const auto& each) { return alias(each, output); }, op);
}

}  // namespace trainer::graph
