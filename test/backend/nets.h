// Small models: one of what most models have, one with batch norm of both kinds, one with so many
// parameters for so few activations that several lanes compute its dense layers together, some with
// the fused ops of the CPU backend, and one of tokens.
#pragma once

#include "backend/model_runs.h"

namespace trainer::test {

inline const Net kPlain{"plain",
                        R"({layers: [conv: {filters: 8, activation: relu}, max_pool: 2,
    conv: {filters: 6, activation: relu}, dropout: 0.25, flatten, dense: 4]})",
                        {10, 10, 1}};
inline const Net kNormalised{"normalised",
                             R"({layers: [conv: {filters: 8, use_bias: false}, batch_norm,
    activation: relu, flatten, dense: {units: 10}, batch_norm, dense: 4]})",
                             {6, 6, 1}};
inline const Net kWide{"wide",
                       R"({layers: [conv: {filters: 8, activation: relu}, flatten,
    dense: {units: 640, activation: elu}, dense: {units: 80, use_bias: false}, dense: 4]})",
                       {10, 10, 1}};
// All layers are dense, so that lanes may compute all of them together.
inline const Net kDenseOnly{
    "dense only",
    R"({layers: [flatten, dense: {units: 640, activation: relu}, dense: 4]})",
    {20, 21, 1}};
inline const Net kWideNormalised{"wide and normalised",
                                 R"({layers: [conv: {filters: 8, use_bias: false}, batch_norm,
    activation: relu, flatten, dense: {units: 640}, dense: 4]})",
                                 {10, 10, 1}};
inline const Net kSeparable{"separable",
                            R"({layers: [conv: {filters: 40, kernel_size: 1, use_bias: false},
    batch_norm, activation: relu6, depthwise_conv: {padding: same, strides: 2, use_bias: false},
    batch_norm, activation: relu6, conv: {filters: 8, kernel_size: 1, use_bias: false}, batch_norm,
    global_average_pool, dense: 4]})",
                            {9, 10, 3}};
// Depthwise convolutions one after another, and a block that ends in one.
inline const Net kChained{"chained",
                          R"({layers: [conv: {filters: 40, kernel_size: 1, use_bias: false},
    batch_norm, activation: relu6, depthwise_conv: {padding: same, use_bias: false}, batch_norm,
    activation: relu, depthwise_conv: {padding: same, strides: 2, use_bias: false}, batch_norm,
    activation: relu6, conv: {filters: 24, kernel_size: 1, use_bias: false}, batch_norm,
    residual: {layers: [conv: {filters: 24, kernel_size: 1, use_bias: false}, batch_norm,
    activation: relu6, depthwise_conv: {padding: same, use_bias: false}, batch_norm],
    activation: relu}, global_average_pool, dense: 4]})",
                          {9, 10, 3}};
// A class token and four patches; the projection of attention has a square kernel. The second dense
// layer of the block has 768 inputs, whose sum oneDNN's inner product and matrix product divide
// otherwise.
inline const Net kTransformer{"transformer",
                              R"({layers: [patch_embedding: {filters: 64, patch_size: 4,
    class_token: true}, transformer_block: {num_heads: 4, mlp_dim: 768, drop_path: 0.3},
    layer_norm, slice_tokens: {begin: 0, end: 1}, flatten, dense: 4]})",
                              {8, 8, 3}};

}  // namespace trainer::test
