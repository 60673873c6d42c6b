// The dense layers that all workers compute together; dense.cpp has those of one worker.
#pragma once

#include "backend/cpu/lanes/joint_layers.h"
#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

void lower_joint(const graph::Dense& op, JointLayer& layer, Lowering& l);
void lower_joint(const graph::DenseBackwardData& op, JointLayer& layer, Lowering& l);
void lower_joint(const graph::DenseBackwardWeights& op, JointLayer& layer, Lowering& l);

}  // namespace trainer::backend::cpu
