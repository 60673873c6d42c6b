#include "backend/cpu/ops/dense_slices.h"

#include <omp.h>

#include <algorithm>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/lanes/on_threads.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cpu {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

// No block of units in the formats of oneDNN's weights is larger, and all divide it.
constexpr std::int64_t kUnitBlock = 64;

// While it lives, primitives are planned for one thread, and run on it.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int threads_ = omp_get_max_threads();
};

struct DenseSlice {
  Partition rows, units;
};

// A dense layer with the layouts of its operands.
struct DenseLayer {
  std::int64_t rows, inputs, units;
  DType in, out;
  bool bias;
  dnnl::primitive_attr attributes;

  dnnl::inner_product_forward::primitive_desc plan(const DenseSlice& slice) const {
    const std::int64_t n = slice.rows.count, units_of_slice = slice.units.count;
    const memory::desc no_bias;
    return {{dnnl::prop_kind::forward_training,
             {{n, inputs}, dnnl_type(in), tag::ab},
             {{units_of_slice, inputs}, dnnl_type(in), tag::any},
             bias ? memory::desc({units_of_slice}, memory::data_type::f32, tag::x) : no_bias,
             {{n, units_of_slice}, dnnl_type(out), tag::ab}},
            attributes,
            dnnl_engine()};
  }
};

// Returns the bytes from the start of the packed weights to those of the slice; nothing if these
// do not lie there in the format that the primitive of the slice reads.
std::optional<std::int64_t> find_packed_weights(const DenseLayer& layer, const memory::desc& packed,
                                                const DenseSlice& slice) {
  const memory::desc format = layer.plan(slice).weights_desc();
  if (slice.units.count == layer.units) {
    // The format may depend on the number of rows.
    return packed == format ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  memory::desc part = packed.submemory_desc({slice.units.count, layer.inputs},
                                            {slice.units.first, 0}, /*allow_empty=*/true);
  if (part.is_zero()) return std::nullopt;
  const std::int64_t elements = part.data.offset0;
  part.data.offset0 = 0;
  if (part != format) return std::nullopt;
  return elements * static_cast<std::int64_t>(size_of(layer.in));
}

std::vector<DenseSlice> divide_dense(const DenseLayer& layer, const memory::desc& packed,
                                     std::int64_t threads) {
  const bool by_rows = layer.rows > 1;
  const std::int64_t blocks = (layer.units + kUnitBlock - 1) / kUnitBlock;
  const std::int64_t parts = std::min(threads, by_rows ? layer.rows : blocks);
  std::vector<DenseSlice> slices;
  for (std::int64_t i = 0; i < parts; ++i) {
    DenseSlice slice{{0, layer.rows}, {0, layer.units}};
    if (by_rows) {
      slice.rows = partition(layer.rows, parts, i);
    } else {
      const Partition of_blocks = partition(blocks, parts, i);
      slice.units.first = of_blocks.first * kUnitBlock;
      slice.units.count = std::min(of_blocks.count * kUnitBlock, layer.units - slice.units.first);
    }
    if (!find_packed_weights(layer, packed, slice)) return {{{0, layer.rows}, {0, layer.units}}};
    slices.push_back(slice);
  }
  return slices;
}

}  // namespace

void lower_in_slices(const graph::Dense& op, Lowering& l) {
  const OneThread planned_for_one;
  const Shape kernel = l.input_shape(1);
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const DenseLayer layer{
      x.shape.elements() / x.c(),    kernel[0], kernel[1], x.type, y.type, op.bias,
      dnnl_attributes(op.activation)};
  const auto whole = layer.plan({{0, layer.rows}, {0, layer.units}});
  const memory::desc packed = whole.weights_desc();
  const memory::desc stored({kernel[1], kernel[0]}, memory::data_type::f32, tag::ba);
  const BufferId weights = dnnl_weights(l, 1, stored, packed);
  const BufferId bias = op.bias ? l.input(2, Layout::kPlain).buffer : -1;
  const auto in_bytes = static_cast<std::int64_t>(size_of(x.type));
  const auto out_bytes = static_cast<std::int64_t>(size_of(y.type));
  std::vector<std::function<void(const CallContext&)>> calls;
  for (const DenseSlice& slice : divide_dense(layer, packed, l.machine().threads)) {
    const auto plan = layer.plan(slice);
    const std::int64_t first = slice.rows.first * layer.units + slice.units.first;
    std::vector<DnnlArgument> arguments{
        {DNNL_ARG_SRC, plan.src_desc(), x.buffer, slice.rows.first * layer.inputs * in_bytes},
        {DNNL_ARG_WEIGHTS, plan.weights_desc(), weights,
         *find_packed_weights(layer, packed, slice)},
        {DNNL_ARG_DST, plan.dst_desc(), y.buffer, first * out_bytes}};
    if (bias >= 0) {
      arguments.push_back({DNNL_ARG_BIAS, plan.bias_desc(), bias, slice.units.first * kFloatBytes});
    }
    require_code_memory();
    calls.push_back(make_dnnl_call(l, dnnl::inner_product_forward(plan), plan, arguments));
  }
  const auto count = static_cast<int>(calls.size());
  l.emit(concat(whole.impl_info_str(), " in ", count, count == 1 ? " part" : " parts"),
         [calls = std::move(calls), count](const CallContext& context) {
           const OneThread runs_on_one;
           on_threads(count, [&](int i) { calls[static_cast<std::size_t>(i)](context); });
         });
}

}  // namespace trainer::backend::cpu
