// Sums at the end of residual blocks:
//   x -> norm -> z,   z + other -> s,   activation(s) -> w
// whose z and s are not written: one pass makes w of x and the other value; finite values have the
// bits that separate passes give. There may be no activation, and the other value may come from a
// norm, too.
#pragma once

#include <map>
#include <set>

#include "backend/cpu/ops/batch_norm.h"

namespace trainer::backend::cpu {

class ResidualSums {
 public:
  explicit ResidualSums(const graph::Graph& graph);

  // Whether a batch norm does not write its output z.
  bool skips_output(graph::ValueId z) const { return outputs_.contains(z); }
  // Whether an addition does not write its sum s.
  bool skips_sum(graph::ValueId s) const { return skipped_sums_.contains(s); }

  struct Sum {
    graph::ValueId z, other;
    graph::Activation activation;
  };
  // By the value that one pass makes: s, or w.
  std::map<graph::ValueId, Sum> sums;

  // What the norms leave to the pass.
  struct Input {
    Operand x;
    NormBuffers norm;
  };
  std::map<graph::ValueId, Input> inputs;  // by z

 private:
  std::set<graph::ValueId> outputs_, skipped_sums_;
};

// Lowers an addition, or the activation behind one; false when it makes no such sum.
bool lower_residual_sum(Lowering& l);

}  // namespace trainer::backend::cpu
