// Ops that only move or combine elements: preprocessing, sums, joins, reshapes, padding, dropout.
#include <algorithm>
#include <cstring>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

void lower(const graph::Preprocess& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlanar);
  const std::int64_t channels = x.c(), pixels = x.shape.elements() / (x.n() * channels);
  std::vector<float> a, b;
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<std::size_t>(c);
    a.push_back(op.scale / op.std[i]);
    b.push_back(-op.mean[i] / op.std[i]);
  }
  const bool reverse = op.reverse_channels;
  with_type(y.type, [&]<class T>() {
    l.step(l.kernels().name, [=, &kernels = typed<T>(l)](const RunContext& c) {
      over_parts(c, c.samples, [&](std::int64_t first, std::int64_t count, int) {
        const std::int64_t at = first * pixels * channels;
        T* to = c.at<T>(y.buffer) + at;
        if (x.type == DType::kUInt8) {
          kernels.preprocess_u8(c.at<std::uint8_t>(x.buffer) + at, to, count, pixels, channels,
                                reverse, a.data(), b.data());
        } else {
          kernels.preprocess_f32(c.at<float>(x.buffer) + at, to, count, pixels, channels, reverse,
                                 a.data(), b.data());
        }
      });
    });
  });
}

void lower(const graph::Add&, Lowering& l) {
  const std::size_t count = l.input_count();
  Layout layout = l.input_as_is(0).layout;
  if (layout == Layout::kPlanar) layout = Layout::kBlocked;
  std::vector<Buffer> inputs;
  Operand x;
  for (std::size_t i = 0; i < count; ++i) {
    x = l.input(i, layout);
    inputs.push_back(x.buffer);
  }
  const Operand y = l.output(0, layout);
  const std::int64_t elements = l.padded_elements(y.shape, layout);
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, run = typed<T>(l).add](const RunContext& c) {
      over_parts(c, elements, [&](std::int64_t first, std::int64_t part, int) {
        const T* from[64];
        T* to = c.at<T>(y.buffer) + first;
        // More inputs than fit are added to the sum so far.
        for (std::size_t done = 0; done < count;) {
          std::size_t n = 0;
          if (done > 0) from[n++] = to;
          while (n < std::size(from) && done < count) from[n++] = c.at<T>(inputs[done++]) + first;
          run(to, from, static_cast<int>(n), part);
        }
      });
    });
  });
}

namespace {

// Whether channels can be cut and joined block by block.
bool whole_blocks(std::int64_t channels, const Lowering& l) {
  return channels % l.machine().block == 0;
}

// Bytes of one sample's (blocked) or one pixel's (plain) share of `channels` channels.
struct Rows {
  std::int64_t count;
  std::int64_t bytes_a_channel;
};

Rows rows_of(const Operand& x) {
  const std::int64_t size = static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t pixels = x.shape.elements() / (x.n() * x.c());
  if (x.layout == Layout::kBlocked) return {x.n(), pixels * size};
  return {x.n() * pixels, size};
}

}  // namespace

void lower(const graph::Concat&, Lowering& l) {
  bool blocked = l.shape_of_input(0).rank() == 4;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    const Shape shape = l.shape_of_input(i);
    blocked = blocked && whole_blocks(shape[shape.rank() - 1], l);
  }
  const Layout layout = blocked ? Layout::kBlocked : Layout::kPlain;
  struct Part {
    Buffer buffer;
    std::int64_t offset, bytes;
  };
  std::vector<Operand> inputs;
  for (std::size_t i = 0; i < l.input_count(); ++i) inputs.push_back(l.input(i, layout));
  const Operand y = l.output(0, layout);
  const Rows rows = rows_of(y);
  std::vector<Part> parts;
  std::int64_t offset = 0;
  for (const Operand& x : inputs) {
    parts.push_back({x.buffer, offset, x.c() * rows.bytes_a_channel});
    offset += parts.back().bytes;
  }
  l.step("copy", [=, total = offset](const RunContext& c) {
    for (const Part& part : parts) {
      for (std::int64_t r = 0; r < rows.count; ++r) {
        std::memcpy(c.at<char>(y.buffer) + r * total + part.offset,
                    c.at<char>(part.buffer) + r * part.bytes, static_cast<std::size_t>(part.bytes));
      }
    }
  });
}

void lower(const graph::Slice& op, Lowering& l) {
  const Shape shape = l.shape_of_input(0);
  const std::int64_t channels = shape[shape.rank() - 1];
  const bool blocked = shape.rank() == 4 && whole_blocks(channels, l) &&
                       whole_blocks(op.begin, l) && whole_blocks(op.end, l);
  const Layout layout = blocked ? Layout::kBlocked : Layout::kPlain;
  const Operand x = l.input(0, layout);
  const Operand y = l.output(0, layout);
  const Rows rows = rows_of(x);
  const std::int64_t from = op.begin * rows.bytes_a_channel,
                     total = channels * rows.bytes_a_channel;
  const std::int64_t bytes = (op.end - op.begin) * rows.bytes_a_channel;
  l.step("copy", [=](const RunContext& c) {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      std::memcpy(c.at<char>(y.buffer) + r * bytes, c.at<char>(x.buffer) + r * total + from,
                  static_cast<std::size_t>(bytes));
    }
  });
}

void lower(const graph::Reshape& op, Lowering& l) {
  Operand x = l.input(0, Layout::kPlain);
  x.shape = op.shape.with_batch(l.samples());
  l.alias_output(0, x);
}

namespace {

// Copies the window of `small` at (top, left) between a small and a large image of the same planes.
void lower_rectangle(Lowering& l, std::int64_t top, std::int64_t left, bool enlarge) {
  Operand x = l.input_as_is(0);
  if (x.layout == Layout::kPlain && x.c() > 4) x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, x.layout);
  const Operand& small = enlarge ? x : y;
  const Operand& large = enlarge ? y : x;
  const std::int64_t block = l.machine().block;
  const std::int64_t planes = x.layout == Layout::kPlain    ? x.n()
                              : x.layout == Layout::kPlanar ? x.n() * x.c()
                                                            : x.n() * ((x.c() + block - 1) / block);
  const std::int64_t inner = (x.layout == Layout::kPlain    ? x.c()
                              : x.layout == Layout::kPlanar ? 1
                                                            : block) *
                             static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t row = small.w() * inner, large_row = large.w() * inner;
  const std::int64_t small_h = small.h(), large_h = large.h();
  l.step("copy", [=](const RunContext& c) {
    char* s = c.at<char>(enlarge ? x.buffer : y.buffer);
    char* b = c.at<char>(enlarge ? y.buffer : x.buffer);
    if (enlarge) std::memset(b, 0, static_cast<std::size_t>(planes * large_h * large_row));
    for (std::int64_t p = 0; p < planes; ++p) {
      for (std::int64_t i = 0; i < small_h; ++i) {
        char* at = b + (p * large_h + i + top) * large_row + left * inner;
        char* in = s + (p * small_h + i) * row;
        std::memcpy(enlarge ? at : in, enlarge ? in : at, static_cast<std::size_t>(row));
      }
    }
  });
}

}  // namespace

void lower(const graph::ZeroPad& op, Lowering& l) { lower_rectangle(l, op.top, op.left, true); }

void lower(const graph::Crop& op, Lowering& l) { lower_rectangle(l, op.top, op.left, false); }

namespace {

// Draws one factor a unit, then multiplies. A factor of a sample is repeated for all its elements.
void lower_dropped_units(const graph::Dropout& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t samples = x.n(), elements = x.shape.elements() / samples;
  const std::int64_t units = op.unit == graph::Dropout::Unit::kChannel ? x.c() : 1;
  const auto floats = [](std::int64_t count) {
    return count * static_cast<std::int64_t>(sizeof(float));
  };
  const Buffer ones = l.scratch(floats(samples * units));
  const Buffer factors = l.scratch(floats(samples * units));
  const Buffer repeated = l.scratch(floats(elements));
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, draw = l.kernels().f32.dropout,
                              multiply = typed<T>(l).multiply_f32](const RunContext& c) {
      float *one = c.at<float>(ones), *factor = c.at<float>(factors);
      std::fill_n(one, c.samples * units, 1.0f);
      draw(one, factor, c.samples, units, op.rate, op.seed, op.layer, c.scalars->update,
           c.first_sample);
      for (std::int64_t s = 0; s < c.samples; ++s) {
        const float* from = factor + s * units;
        const std::int64_t width = units > 1 ? units : elements;
        float* to = c.at<float>(repeated);
        for (std::int64_t i = 0; i < width; ++i) to[i] = from[units > 1 ? i : 0];
        multiply(c.at<T>(x.buffer) + s * elements, to, c.at<T>(y.buffer) + s * elements,
                 elements / width, width);
      }
    });
  });
}

}  // namespace

// In plain layout, so that an element's draw does not depend on the machine's block size.
void lower(const graph::Dropout& op, Lowering& l) {
  if (op.unit != graph::Dropout::Unit::kElement) return lower_dropped_units(op, l);
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t elements = x.shape.elements() / x.n();
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, run = typed<T>(l).dropout](const RunContext& c) {
      over_parts(c, c.samples, [&](std::int64_t first, std::int64_t count, int) {
        run(c.at<T>(x.buffer) + first * elements, c.at<T>(y.buffer) + first * elements, count,
            elements, op.rate, op.seed, op.layer, c.scalars->update,
            c.first_sample + static_cast<std::uint64_t>(first));
      });
    });
  });
}

}  // namespace trainer::backend::cpu
