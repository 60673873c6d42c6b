// The vocabulary of the graph: the closed set of ops. Each op is a struct of attributes and rules
// in graph/ops/; the comment of a struct lists inputs -> outputs.
//
// Images are [batch, height, width, channels], tokens [batch, tokens, channels]. Kernels of
// convolutions are [kh, kw, in / groups, out]; a depthwise kernel has groups = in and out = in *
// multiplier, which are the same bytes as Keras's [kh, kw, in, multiplier]. Kernels of dense layers
// are [in, units].
//
// To add an op, add its struct to graph/ops/ and to the variant. The compiler and the linker then
// name the rules (graph/rules.h) and the lowerings that are missing.
#pragma once

#include <string>
#include <variant>

#include "graph/ops/activation.h"
#include "graph/ops/add.h"
#include "graph/ops/attention.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/class_rank.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/dense.h"
#include "graph/ops/dropout.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/l2_penalty.h"
#include "graph/ops/loss.h"
#include "graph/ops/multiply.h"
#include "graph/ops/pool.h"
#include "graph/ops/preprocess.h"
#include "graph/ops/reshape.h"
#include "graph/ops/response_norm.h"
#include "graph/ops/softmax.h"
#include "graph/ops/tokens.h"
#include "graph/ops/up_sample.h"
#include "graph/ops/update.h"
#include "graph/ops/zero_gradient.h"
#include "graph/ops/zero_pad.h"

namespace trainer::graph {

using Op =
    std::variant<Preprocess, Conv, ConvBackwardData, ConvBackwardWeights, Dense, DenseBackwardData,
                 DenseBackwardWeights, Pool, PoolBackward, GlobalPool, GlobalPoolBackward, Activate,
                 ActivateBackward, Softmax, SoftmaxBackward, BatchNorm, BatchNormBackward,
                 UpdateStatistics, BatchNormInference, BatchNormInferenceBackward, FoldBatchNorm,
                 GroupNorm, GroupNormBackward, ResponseNorm, ResponseNormBackward, Attention,
                 AttentionBackward, PrependTokens, Dropout, Multiply, AddBias, SumProduct, UpSample,
                 UpSampleBackward, Add, Concat, Slice, Reshape, ZeroPad, Crop, Loss, ClassRank,
                 L2Penalty, ZeroGradient, Update>;

const char* name_of(const Op& op);   // "conv", "conv_backward_data", ...
std::string describe(const Op& op);  // attributes, for printing: "3x3 stride 2 relu"

}  // namespace trainer::graph
