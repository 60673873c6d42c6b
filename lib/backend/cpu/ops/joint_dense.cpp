// The passes of a joint layer (lanes/joint_layers.h): lanes copy the rows of their samples into a
// shared array, wait for each other, and each multiplies for its part of the units or inputs.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/exchange.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cpu {
namespace {

// Returns a lane's part of `count` units or inputs, in whole cache lines.
Slice find_part(std::int64_t count, const CallContext& context) {
  const Partition part = aligned_partition(count, context.lanes, context.lane, 16);
  return {part.first, part.first + part.count};
}

// Both copy the rows of this lane's samples to or from the array of all lanes.
void copy_in(const CallContext& context, const float* rows, std::int64_t columns,
             const Memory& all) {
  std::memcpy(all.as<float>() + context.joint_batch.first * columns, rows,
              static_cast<std::size_t>(context.samples * columns) * sizeof(float));
}
void copy_out(const CallContext& context, const Memory& all, std::int64_t columns, float* rows) {
  std::memcpy(rows, all.as<float>() + context.joint_batch.first * columns,
              static_cast<std::size_t>(context.samples * columns) * sizeof(float));
}

void wait_for_lanes(const CallContext& context) { context.barrier->wait(context.lanes); }

// c[m, n] = op(a) op(b) + (add ? c : 0), row-major; a "T" transposes.
void multiply(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
              const float* a, std::int64_t a_row, const float* b, std::int64_t b_row, bool add,
              float* c, std::int64_t c_row) {
  if (m == 0 || n == 0) return;
  const dnnl_status_t status = dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0f, a, a_row, b,
                                          b_row, add ? 1.0f : 0.0f, c, c_row);
  if (status != dnnl_success) throw std::logic_error("dnnl_sgemm rejected a product");
}

void add_bias(float* rows, std::int64_t samples, std::int64_t units, const float* bias) {
  for (std::int64_t i = 0; i < samples; ++i) {
    for (std::int64_t j = 0; j < units; ++j) rows[i * units + j] += bias[j];
  }
}

// dbias[j] = (add ? dbias[j] : 0) + the sum over the rows.
void sum_rows(const float* rows, std::int64_t samples, std::int64_t units, Slice part, bool add,
              float* dbias) {
  if (!add) std::fill(dbias + part.first, dbias + part.last, 0.0f);
  for (std::int64_t i = 0; i < samples; ++i) {
    for (std::int64_t j = part.first; j < part.last; ++j) dbias[j] += rows[i * units + j];
  }
}

}  // namespace

template <>
void lower(const JointDense& group, Lowering& l) {
  const auto& op = std::get<graph::Dense>(group.node->op);
  JointLayer& layer = *group.layer;
  const BufferId x = l.input(0, Layout::kPlain).buffer;
  const BufferId kernel = l.input(1, Layout::kPlain).buffer;
  const BufferId bias = op.bias ? l.input(2, Layout::kPlain).buffer : -1;
  const Operand y = l.output(0, Layout::kPlain);
  l.emit("sgemm", [&layer, x, kernel, bias, y = y.buffer](const CallContext& context) {
    // The other lanes may still read the array of the micro-batch before.
    wait_for_lanes(context);
    copy_in(context, context.at<float>(x), layer.inputs, layer.x);
    wait_for_lanes(context);
    const Slice units = find_part(layer.units, context);
    multiply('N', 'N', context.joint_batch.samples, units.count(), layer.inputs,
             layer.x.as<float>(), layer.inputs, context.at<float>(kernel) + units.first,
             layer.units, false, layer.y.as<float>() + units.first, layer.units);
    wait_for_lanes(context);
    float* rows = context.at<float>(y);
    copy_out(context, layer.y, layer.units, rows);
    if (bias >= 0) add_bias(rows, context.samples, layer.units, context.at<float>(bias));
  });
  if (op.activation.linear()) return;
  l.use(y.buffer);
  activate(l, op.activation, y, y);
}

template <>
void lower(const JointDenseBackwardData& group, Lowering& l) {
  JointLayer& layer = *group.layer;
  const BufferId dy = l.input(0, Layout::kPlain).buffer;
  const BufferId kernel = l.input(1, Layout::kPlain).buffer;
  const BufferId dx = l.output(0, Layout::kPlain).buffer;
  l.emit("sgemm", [&layer, dy, kernel, dx](const CallContext& context) {
    copy_in(context, context.at<float>(dy), layer.units, layer.dy_of_data);
    wait_for_lanes(context);
    const Slice inputs = find_part(layer.inputs, context);
    multiply('N', 'T', context.joint_batch.samples, inputs.count(), layer.units,
             layer.dy_of_data.as<float>(), layer.units,
             context.at<float>(kernel) + inputs.first * layer.units, layer.units, false,
             layer.dx.as<float>() + inputs.first, layer.inputs);
    wait_for_lanes(context);
    copy_out(context, layer.dx, layer.inputs, context.at<float>(dx));
  });
}

template <>
void lower(const JointDenseBackwardWeights& group, Lowering& l) {
  const auto& op = std::get<graph::DenseBackwardWeights>(group.node->op);
  JointLayer& layer = *group.layer;
  // layer.x holds the input since forward.
  const BufferId dy = l.input(1, Layout::kPlain).buffer;
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const BufferId dbias = op.bias ? l.output(1, Layout::kPlain).buffer : -1;
  l.emit("sgemm", [&layer, dy, dkernel, dbias](const CallContext& context) {
    copy_in(context, context.at<float>(dy), layer.units, layer.dy_of_weights);
    wait_for_lanes(context);
    const float* all = layer.dy_of_weights.as<float>();
    const Slice inputs = find_part(layer.inputs, context);
    multiply('T', 'N', inputs.count(), layer.units, context.joint_batch.samples,
             layer.x.as<float>() + inputs.first, layer.inputs, all, layer.units,
             context.joint_batch.add, context.at<float>(dkernel) + inputs.first * layer.units,
             layer.units);
    if (dbias < 0) return;
    sum_rows(all, context.joint_batch.samples, layer.units, find_part(layer.units, context),
             context.joint_batch.add, context.at<float>(dbias));
  });
}

}  // namespace trainer::backend::cpu
