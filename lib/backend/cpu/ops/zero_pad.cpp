#include <cstring>
#include <type_traits>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {
namespace {

// Copies between a small and a large image, in which the small one lies at (op.top, op.left): from
// the small one for ZeroPad, from the large one for Crop. Tokens are an image of one column.
template <class Op>
void lower_rectangle(const Op& op, Lowering& l) {
  constexpr bool enlarge = std::is_same_v<Op, graph::ZeroPad>;
  Operand x = l.input(0);
  const bool tokens = x.shape.rank() == 3;
  if (!tokens && x.layout == Layout::kPlain && x.c() > 4) x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, x.layout);
  const Operand& small = enlarge ? x : y;
  const Operand& large = enlarge ? y : x;
  const std::int64_t small_w = tokens ? 1 : small.w(), large_w = tokens ? 1 : large.w();
  const std::int64_t block = l.machine().block;
  const std::int64_t planes = x.layout == Layout::kPlain ? x.n()
                              : x.layout == Layout::kPlanar
                                  ? x.n() * x.c()
                                  : x.n() * l.machine().count_blocks(x.c());
  const std::int64_t inner = (x.layout == Layout::kPlain    ? x.c()
                              : x.layout == Layout::kPlanar ? 1
                                                            : block) *
                             static_cast<std::int64_t>(size_of(x.type));
  const std::int64_t row = small_w * inner, large_row = large_w * inner;
  const std::int64_t small_h = small.h(), large_h = large.h();
  l.emit("copy", [=, top = op.top, left = op.left](const CallContext& c) {
    char* s = c.at<char>(enlarge ? x.buffer : y.buffer);
    char* b = c.at<char>(enlarge ? y.buffer : x.buffer);
    if (enlarge) std::memset(b, 0, planes * large_h * large_row);
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

template <>
void lower(const graph::ZeroPad& op, Lowering& l) {
  lower_rectangle(op, l);
}

template <>
void lower(const graph::Crop& op, Lowering& l) {
  lower_rectangle(op, l);
}

}  // namespace trainer::backend::cpu
