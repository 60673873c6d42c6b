// A graph on the reference backend: every call is interpreted, in double precision.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "backend/exchange.h"
#include "backend/placement.h"
#include "reference_backend/stream.h"
#include "reference_backend/variables.h"
#include "support/reference.h"

namespace trainer::test {

class ReferenceExecutable final : public backend::Executable {
 public:
  ReferenceExecutable(const graph::Graph& graph, ReferenceVariables& variables,
                      const backend::CompileOptions& options);

  void launch(const backend::Bindings& bindings, const backend::Scalars& scalars,
              backend::Stream& stream) override;
  void prepare(std::int64_t, std::int64_t) override {}  // it interprets the graph
  backend::Gradient gradient(backend::Stream& stream) override;
  void read_gradient(backend::Stream& stream, std::int64_t first, std::span<float> to) override;
  backend::MemoryReport memory() const override;
  void print(std::ostream& out) const override;

 private:
  using Clock = std::chrono::steady_clock;
  // A call's own copy of what it was given.
  struct Call {
    std::int64_t samples = 0;
    std::vector<backend::Span> inputs, outputs;
    backend::CallResult* numbers = nullptr;
    backend::Scalars scalars;
    backend::CallResult result;
    Clock::time_point since;  // the end of the phase before
    void end_phase(double backend::PhaseTimes::*phase);
  };
  using Values = std::vector<Tensor>;
  using Flat = std::vector<float>;

  // Samples [first, first + count) of the call, through the forward and backward phases; writes
  // their outputs and returns the values.
  Values run_part(Call& call, std::int64_t first, std::int64_t count) const;
  // The part of this rank in the batch statistics of all ranks, in a call in which it has no
  // samples.
  Values run_without_samples(const Call& call) const;
  Values values_for(const Call& call, std::int64_t first, std::int64_t count) const;
  void run_node(const graph::Node& node, const backend::Scalars& scalars, Values& values) const;
  void write_outputs(const Call& call, const Values& values, std::int64_t first) const;
  void add_to_result(Call& call, const Values& values) const;
  Flat compute_gradients(const Values& values) const;
  // The sum of a block of the tree of base/numbers/sum_tree.h.
  Flat ordered_sum(Call& call, std::int64_t first, std::int64_t count);
  void move_statistics(const Values& values);
  // The steps of a call, in stream order.
  void compute(Call& call);
  void finish(Call& call);
  void update(const backend::Scalars& scalars);
  std::vector<double> gradient_norms() const;  // with that of the penalty, one per segment
  std::vector<float> clip_scales() const;

  graph::Graph graph_;
  ReferenceVariables& variables_;
  backend::CompileOptions options_;
  bool updates_ = false;
  cluster::Communicator* statistics_ = nullptr;  // that batch statistics are taken over; null: none
  backend::Trailer trailer_;
  Flat sum_;  // that of this call or, not ordered, of those since the last update; then the trailer
  std::vector<Flat> other_roots_;  // ordered: of this rank's leaves, behind the one in sum_
  Flat accumulated_;  // ordered: of the calls since the last update, each reduced over the ranks
  bool stopped_ = false;    // by a call that was not finite
  bool all_finite_ = true;  // true for the calls since the last that did not accumulate
  mutable std::vector<float> scales_;
};

}  // namespace trainer::test
