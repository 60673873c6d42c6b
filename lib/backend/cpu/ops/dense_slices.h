// Dense layers of programs that do not train, on several threads.
#pragma once

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

// Returns whether a sample has several rows, such as tokens. Such layers use oneDNN's matrix
// product and others its inner product, whatever the number of threads: the two have other bits.
inline bool has_several_rows(const Shape& x) { return x.rank() > 2; }

// Lowers a dense layer so that its bits do not depend on the number of threads: each thread runs a
// primitive of one thread for some of the rows or, of one row, for some of the units. oneDNN would
// divide the sums of a few units among threads.
void lower_in_slices(const graph::Dense& op, Lowering& l);

}  // namespace trainer::backend::cpu
