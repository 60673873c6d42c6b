// What the operations mean. Follows "cudnn_graph Library" of the cuDNN backend API reference
// (docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html), sections
// CUDNN_BACKEND_OPERATION_CONVOLUTION_{FORWARD,BACKWARD_DATA,BACKWARD_FILTER}_DESCRIPTOR,
// CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR and CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, and for
// the sum's terms "Convolution Formulas" of the cudnn_cnn library's page in the same reference:
// dimensions are named N, C, H, W and K, C, R, S in this order, strides are where they lie;
// CUDNN_CROSS_CORRELATION does not flip the filter, CUDNN_CONVOLUTION does. A convolution leaves
// alpha * result + beta * what its output held, which is not read when beta is 0 (section "Scaling
// Parameters" of the cuDNN Developer Guide).
#include "cuda/fake_cudnn/execute.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "cuda/fake_cudnn/products.h"
#include "cuda/fake_cudnn/values.h"

namespace fake {
namespace {

using Integers = std::vector<std::int64_t>;

Number find_number(const Descriptor& tensor) {
  switch (tensor.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)) {
    case CUDNN_DATA_HALF:
      return Number::kFloat16;
    case CUDNN_DATA_BFLOAT16:
      return Number::kBFloat16;
    default:
      return Number::kFloat32;
  }
}

std::int64_t get_id(const Descriptor& tensor) {
  return tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
}

bool is_virtual(const Descriptor& tensor) {
  return tensor.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
}

// Four-dimensional numbers, dimension 1 innermost whatever the descriptor's strides are.
struct Values {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::vector<double> data;

  explicit Values(const Integers& extents)
      : n(extents[0]),
        c(extents[1]),
        h(extents[2]),
        w(extents[3]),
        data(static_cast<std::size_t>(n * c * h * w)) {}
  double* at(std::int64_t i, std::int64_t y, std::int64_t x) {
    return data.data() + ((i * h + y) * w + x) * c;
  }
  const double* at(std::int64_t i, std::int64_t y, std::int64_t x) const {
    return data.data() + ((i * h + y) * w + x) * c;
  }
};

// Calls visit(position in Values::data, offset in memory, step there, count) for the channels of
// each pixel of a tensor.
template <class Visit>
void each_row(const Descriptor& tensor, const Visit& visit) {
  const Integers d = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const Integers s = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::size_t position = 0;
  for (std::int64_t n = 0; n < d[0]; ++n) {
    for (std::int64_t y = 0; y < d[2]; ++y) {
      for (std::int64_t x = 0; x < d[3]; ++x) {
        visit(position, n * s[0] + y * s[2] + x * s[3], s[1], d[1]);
        position += static_cast<std::size_t>(d[1]);
      }
    }
  }
}

class Execution {
 public:
  Execution(const Addresses& addresses, Arithmetic arithmetic)
      : addresses_(addresses), arithmetic_(arithmetic) {}

  void operate(const Descriptor& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return convolve(op);
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return convolve_back_to_data(op);
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return convolve_back_to_filter(op);
      default:
        return combine(op);
    }
  }

 private:
  static Values blank(const Descriptor& tensor) {
    return Values(tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS));
  }

  // The values in memory, or of an operation before.
  Values read(const Descriptor& tensor) const {
    if (is_virtual(tensor)) return virtual_.at(get_id(tensor));
    Values values = blank(tensor);
    const void* from = addresses_.at(get_id(tensor));
    each_row(tensor, [&](std::size_t position, std::int64_t offset, std::int64_t step,
                         std::int64_t count) {
      load_row(from, offset, step, count, find_number(tensor), values.data.data() + position);
    });
    return values;
  }

  Values read_factor(const Descriptor& tensor) const {
    Values values = read(tensor);
    if (arithmetic_ == Arithmetic::kTf32) {
      for (double& value : values.data) value = rounded_to_tf32(value);
    }
    return values;
  }

  // The result of a convolution, whose scaling parameters have these names.
  void write_scaled(const Descriptor& op, cudnnBackendAttributeName_t alpha_name,
                    cudnnBackendAttributeName_t beta_name, const Descriptor& to, Values values) {
    const double alpha = static_cast<double>(op.one(alpha_name, 1.0f));
    const double beta = static_cast<double>(op.one(beta_name, 0.0f));
    for (double& value : values.data) value *= alpha;
    if (beta != 0) {
      const Values held = read(to);
      for (std::size_t i = 0; i < held.data.size(); ++i) values.data[i] += beta * held.data[i];
    }
    write(to, std::move(values));
  }

  void write(const Descriptor& tensor, Values values) {
    const Number type = find_number(tensor);
    for (double& value : values.data) {
      value = arithmetic_ == Arithmetic::kMustNotRun ? std::numeric_limits<double>::quiet_NaN()
                                                     : rounded(value, type);
    }
    if (is_virtual(tensor)) {
      virtual_.insert_or_assign(get_id(tensor), std::move(values));
      return;
    }
    void* to = addresses_.at(get_id(tensor));
    each_row(tensor, [&](std::size_t position, std::int64_t offset, std::int64_t step,
                         std::int64_t count) {
      for (std::int64_t c = 0; c < count; ++c) {
        store(to, offset + c * step, type, values.data[position + static_cast<std::size_t>(c)]);
      }
    });
  }

  // Output pixels (p, q), (p, q + 1), ... of an image that filter position (r, s) joins with pixels
  // (h, w), (h, w + step), ... of the image that is convolved.
  struct Run {
    std::int64_t n, p, q, count, r, s, h, w, step;
  };

  // Calls visit(run) for every image, row of outputs and filter position, in this order.
  template <class Visit>
  static void each_run(const Descriptor& how, const Values& x, const Values& filter,
                       const Values& y, const Visit& visit) {
    const Integers before = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const Integers stride = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const Integers dilation = how.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    const bool flips =
        how.one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) == CUDNN_CONVOLUTION;
    for (std::int64_t n = 0; n < y.n; ++n) {
      for (std::int64_t p = 0; p < y.h; ++p) {
        for (std::int64_t r = 0; r < filter.h; ++r) {
          const std::int64_t h = p * stride[0] - before[0] + r * dilation[0];
          if (h < 0 || h >= x.h) continue;
          for (std::int64_t s = 0; s < filter.w; ++s) {
            const std::int64_t left = s * dilation[1] - before[1];
            std::int64_t first = 0, last = y.w;
            while (first < last && first * stride[1] + left < 0) ++first;
            while (first < last && (last - 1) * stride[1] + left >= x.w) --last;
            if (first == last) continue;
            visit(Run{n, p, first, last - first, flips ? filter.h - 1 - r : r,
                      flips ? filter.w - 1 - s : s, h, first * stride[1] + left, stride[1]});
          }
        }
      }
    }
  }

  // Which channels of x and y belong to group g.
  struct Groups {
    std::int64_t count, inputs, outputs;  // of one group
    Groups(const Values& x, const Values& filter)
        : count(x.c / filter.c), inputs(filter.c), outputs(filter.n / count) {}
  };

  void convolve(const Descriptor& op) {
    const Values x = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
    const Values filter = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
    const Descriptor& to = *op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    Values y = blank(to);
    const Groups groups(x, filter);
    // [r][s][c][k], so that a pixel's sums of all k are next to each other.
    std::vector<double> turned(filter.data.size());
    for (std::int64_t k = 0; k < filter.n; ++k) {
      for (std::int64_t at = 0; at < filter.h * filter.w; ++at) {
        for (std::int64_t c = 0; c < filter.c; ++c) {
          turned[static_cast<std::size_t>((at * filter.c + c) * filter.n + k)] =
              filter.at(k, 0, at)[c];
        }
      }
    }
    each_run(
        *op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC), x, filter, y,
        [&](const Run& run) {
          const double* weights = turned.data() + (run.r * filter.w + run.s) * filter.c * filter.n;
          for (std::int64_t i = 0; i < run.count; ++i) {
            const double* from = x.at(run.n, run.h, run.w + i * run.step);
            double* sums = y.at(run.n, run.p, run.q + i);
            for (std::int64_t g = 0; g < groups.count; ++g) {
              add_products(sums + g * groups.outputs, groups.outputs, {from + g * groups.inputs, 1},
                           {weights + g * groups.outputs, filter.n}, groups.inputs);
            }
          }
        });
    write_scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, to, std::move(y));
  }

  void convolve_back_to_data(const Descriptor& op) {
    const Values dy = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
    const Values filter = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W));
    const Descriptor& to = *op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
    Values dx = blank(to);
    const Groups groups(dx, filter);
    const std::int64_t filter_size = filter.h * filter.w * filter.c;
    each_run(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC), dx, filter, dy,
             [&](const Run& run) {
               for (std::int64_t i = 0; i < run.count; ++i) {
                 double* sums = dx.at(run.n, run.h, run.w + i * run.step);
                 const double* factors = dy.at(run.n, run.p, run.q + i);
                 for (std::int64_t g = 0; g < groups.count; ++g) {
                   const double* weights = filter.at(g * groups.outputs, run.r, run.s);
                   add_products(sums + g * groups.inputs, groups.inputs,
                                {factors + g * groups.outputs, 1}, {weights, filter_size},
                                groups.outputs);
                 }
               }
             });
    write_scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, to, std::move(dx));
  }

  void convolve_back_to_filter(const Descriptor& op) {
    const Values x = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
    const Values dy = read_factor(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
    const Descriptor& to = *op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
    Values dw = blank(to);
    const Groups groups(x, dw);
    each_run(*op.reference(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC), x, dw, dy,
             [&](const Run& run) {
               const double* factors = dy.at(run.n, run.p, run.q);
               const double* from = x.at(run.n, run.h, run.w);
               for (std::int64_t k = 0; k < dw.n; ++k) {
                 const std::int64_t g = k / groups.outputs;
                 add_products(dw.at(k, run.r, run.s), groups.inputs, {factors + k, dy.c},
                              {from + g * groups.inputs, run.step * x.c}, run.count);
               }
             });
    write_scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, to, std::move(dw));
  }

  // An addition with a bias of one number a channel, or relu. max(x, 0) of a NaN is a NaN where
  // CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, which cuDNN 9's header calls deprecated, asks for it, and
  // 0 otherwise.
  void combine(const Descriptor& op) {
    const Descriptor& how = *op.reference(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    Values y = read(*op.reference(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    if (how.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD) == CUDNN_POINTWISE_ADD) {
      const Values b = read(*op.reference(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      std::size_t i = 0;
      for (std::int64_t n = 0; n < y.n; ++n) {
        for (std::int64_t h = 0; h < y.h; ++h) {
          for (std::int64_t w = 0; w < y.w; ++w) {
            const double* addend = b.at(b.n == 1 ? 0 : n, b.h == 1 ? 0 : h, b.w == 1 ? 0 : w);
            for (std::int64_t c = 0; c < y.c; ++c) y.data[i++] += addend[b.c == 1 ? 0 : c];
          }
        }
      }
    } else {
      const bool keeps_nan = how.one(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                                     CUDNN_NOT_PROPAGATE_NAN) == CUDNN_PROPAGATE_NAN;
      for (double& value : y.data) {
        if (!(value > 0) && !(keeps_nan && std::isnan(value))) value = 0;
      }
    }
    write(*op.reference(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), std::move(y));
  }

  const Addresses& addresses_;
  Arithmetic arithmetic_;
  std::map<std::int64_t, Values> virtual_;
};

const std::vector<std::shared_ptr<const Descriptor>>& list_operations(const Descriptor& graph) {
  return graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).references;
}

}  // namespace

void check_addresses(const Descriptor& graph, const Addresses& addresses) {
  std::set<std::int64_t> known;
  for (const auto& op : list_operations(graph)) {
    for (const auto& [name, attribute] : op->attributes) {
      for (const auto& tensor : attribute.references) {
        if (tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || is_virtual(*tensor)) continue;
        known.insert(get_id(*tensor));
        const auto found = addresses.find(get_id(*tensor));
        if (found == addresses.end() || found->second == nullptr) {
          refuse("no address for tensor " + std::to_string(get_id(*tensor)));
        }
        const auto alignment = tensor->one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
        if (reinterpret_cast<std::uintptr_t>(found->second) %
                static_cast<std::uintptr_t>(alignment) !=
            0) {
          refuse("the address of tensor " + std::to_string(get_id(*tensor)) + " is not aligned");
        }
      }
    }
  }
  for (const auto& [id, address] : addresses) {
    if (known.count(id) == 0) refuse("an address for no tensor, " + std::to_string(id));
  }
}

void execute(const Descriptor& graph, const Addresses& addresses, Arithmetic arithmetic) {
  Execution execution(addresses, arithmetic);
  for (const auto& op : list_operations(graph)) execution.operate(*op);
}

}  // namespace fake
