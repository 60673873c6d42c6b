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

  DenseSlice whole() const { return {{0, rows}, {0, units}}; }
  memory::desc x(const DenseSlice& slice) const {
    return {{slice.rows.count, inputs}, dnnl_type(in), tag::ab};
  }
  memory::desc y(const DenseSlice& slice) const {
    return {{slice.rows.count, slice.units.count}, dnnl_type(out), tag::ab};
  }
};

// The layer of one row per sample. A layer of one row is divided by units.
struct InnerProduct {
  using Primitive = dnnl::inner_product_forward;
  static constexpr bool kDividesUnits = true;

  static memory::desc stored_kernel(const DenseLayer& layer) {
    return {{layer.units, layer.inputs}, memory::data_type::f32, tag::ba};
  }
  static Primitive::primitive_desc plan(const DenseLayer& layer, const DenseSlice& slice) {
    const std::int64_t units = slice.units.count;
    const memory::desc no_bias;
    return {{dnnl::prop_kind::forward_training,
             layer.x(slice),
             {{units, layer.inputs}, dnnl_type(layer.in), tag::any},
             layer.bias ? memory::desc({units}, memory::data_type::f32, tag::x) : no_bias,
             layer.y(slice)},
            layer.attributes,
            dnnl_engine()};
  }
};

// The layer of several rows per sample, which is divided by rows.
struct MatrixProduct {
  using Primitive = dnnl::matmul;
  static constexpr bool kDividesUnits = false;

  static memory::desc stored_kernel(const DenseLayer& layer) {
    return {{layer.inputs, layer.units}, memory::data_type::f32, tag::ab};
  }
  static Primitive::primitive_desc plan(const DenseLayer& layer, const DenseSlice& slice) {
    const memory::desc no_bias;
    return {{layer.x(slice),
             {{layer.inputs, layer.units}, dnnl_type(layer.in), tag::any},
             layer.bias ? memory::desc({1, layer.units}, memory::data_type::f32, tag::ab) : no_bias,
             layer.y(slice)},
            layer.attributes,
            dnnl_engine()};
  }
};

// Returns the bytes from the start of the packed weights of the whole layer to those of the slice;
// nothing if the slice runs on another implementation, or its weights do not lie there in the
// format that it reads.
template <class Plan>
std::optional<std::int64_t> find_packed_weights(const DenseLayer& layer, const Plan& whole,
                                                const DenseSlice& slice, const Plan& plan) {
  if (std::string_view(whole.impl_info_str()) != plan.impl_info_str()) return std::nullopt;
  const memory::desc packed = whole.weights_desc(), format = plan.weights_desc();
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

// A part of a layer, and where its weights lie.
template <class Form>
struct DensePart {
  DenseSlice slice;
  typename Form::Primitive::primitive_desc plan;
  std::int64_t weights = 0;  // bytes from the start of the packed weights
};

template <class Form>
std::vector<DensePart<Form>> divide_dense(const DenseLayer& layer, std::int64_t threads) {
  const auto whole = Form::plan(layer, layer.whole());
  const bool by_units = layer.rows == 1 && Form::kDividesUnits;
  const std::int64_t blocks = (layer.units + kUnitBlock - 1) / kUnitBlock;
  const std::int64_t count = std::min(threads, by_units ? blocks : layer.rows);
  std::vector<DensePart<Form>> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    DenseSlice slice = layer.whole();
    if (by_units) {
      const Partition of_blocks = partition(blocks, count, i);
      slice.units.first = of_blocks.first * kUnitBlock;
      slice.units.count = std::min(of_blocks.count * kUnitBlock, layer.units - slice.units.first);
    } else {
      slice.rows = partition(layer.rows, count, i);
    }
    const auto plan = Form::plan(layer, slice);
    const auto weights = find_packed_weights(layer, whole, slice, plan);
    if (!weights) return {{layer.whole(), whole}};
    parts.push_back({slice, plan, *weights});
  }
  return parts;
}

template <class Form>
void lower_slices(const graph::Dense& op, Lowering& l) {
  const OneThread planned_for_one;
  const Shape kernel = l.input_shape(1);
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const DenseLayer layer{
      x.shape.elements() / x.c(),    kernel[0], kernel[1], x.type, y.type, op.bias,
      dnnl_attributes(op.activation)};
  const auto whole = Form::plan(layer, layer.whole());
  const BufferId weights = dnnl_weights(l, 1, Form::stored_kernel(layer), whole.weights_desc());
  const BufferId bias = op.bias ? l.input(2, Layout::kPlain).buffer : -1;
  const auto in_bytes = static_cast<std::int64_t>(size_of(x.type));
  const auto out_bytes = static_cast<std::int64_t>(size_of(y.type));
  std::vector<std::function<void(const CallContext&)>> calls;
  for (const auto& [slice, plan, weights_offset] : divide_dense<Form>(layer, l.machine().threads)) {
    const std::int64_t first = slice.rows.first * layer.units + slice.units.first;
    std::vector<DnnlArgument> arguments{
        {DNNL_ARG_SRC, plan.src_desc(), x.buffer, slice.rows.first * layer.inputs * in_bytes},
        {DNNL_ARG_WEIGHTS, plan.weights_desc(), weights, weights_offset},
        {DNNL_ARG_DST, plan.dst_desc(), y.buffer, first * out_bytes}};
    if (bias >= 0) {
      arguments.push_back({DNNL_ARG_BIAS, plan.bias_desc(), bias, slice.units.first * kFloatBytes});
    }
    require_code_memory();
    calls.push_back(make_dnnl_call(l, typename Form::Primitive(plan), plan, arguments));
  }
  const auto count = static_cast<int>(calls.size());
  l.emit(concat(whole.impl_info_str(), " in ", count, count == 1 ? " part" : " parts"),
         [calls = std::move(calls), count](const CallContext& context) {
           const OneThread runs_on_one;
           on_threads(count, [&](int i) { calls[static_cast<std::size_t>(i)](context); });
         });
}

}  // namespace

void lower_in_slices(const graph::Dense& op, Lowering& l) {
  if (has_several_rows(l.input_shape(0))) return lower_slices<MatrixProduct>(op, l);
  lower_slices<InnerProduct>(op, l);
}

}  // namespace trainer::backend::cpu
