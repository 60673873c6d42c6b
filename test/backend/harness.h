// Small graphs run on a backend and by the reference, and the two compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "graph/graph.h"
#include "support/reference.h"

namespace trainer::test {

// How a backend is opened and what type activations have.
struct Setup {
  int lanes = 1;                // the lanes of the CPU
  std::string instruction_set;  // that of the CPU; "reference" and "cuda" for these backends
  DType type = DType::kFloat32;

  // True if a call's batch is computed in parts, so that a value that sums over samples is of one
  // part.
  bool splits_batch() const { return lanes > 1; }
};
std::string to_string(const Setup& setup);
// All of the CPU backend that this machine can run, or those of the backend that tests run on
// (support/backend.h).
std::vector<Setup> setups();
// Those, and the reference backend.
std::vector<Setup> all_setups();
// Opened once for each kind of setup.
backend::Backend& open(const Setup& setup);

// One of each kind that kernels apply themselves.
std::vector<graph::Activation> activations();

// What a value is filled with: uniform numbers in [low, high), whole ones if `whole`. Each
// `unknown_every`-th number is NaN, if it is not 0.
struct Fill {
  double low = -1, high = 1;
  bool whole = false;
  std::size_t unknown_every = 0;
};

// Builds a graph of one op or a few.
class Builder {
 public:
  explicit Builder(DType type) : type_(type) {}

  graph::ValueId input(Shape shape, Fill fill = {});  // has the activations' type
  graph::ValueId input(Shape shape, DType type, Fill fill);
  graph::ValueId parameter(Shape shape, Fill fill = {-0.5, 0.5});
  std::vector<graph::ValueId> add(const graph::Op& op, const std::vector<graph::ValueId>& inputs);
  graph::ValueId add1(const graph::Op& op, const std::vector<graph::ValueId>& inputs) {
    return add(op, inputs)[0];
  }
  void output(graph::ValueId id) { graph.outputs.push_back(id); }
  DType type() const { return type_; }

  graph::Graph graph;
  std::vector<Fill> fills;  // one per value

 private:
  graph::ValueId filled(graph::Value value, const Fill& fill);
  DType type_;
};

// One row of the conformance table.
struct Case {
  std::string name;
  std::function<void(Builder&)> build;
  std::vector<std::int64_t> batches{3};
  double tolerance = 1e-5;     // relative, in float32
  bool half_precision = true;  // whether it is also run in bfloat16 and float16, to 2e-2
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::kAuto;
};

// Runs a case in all setups; a failure names case, setup and output.
void check(const Case& c);

// What a case's graph gives by the reference, whose inputs are rounded to the type, and in a setup.
std::vector<std::vector<double>> compute_expected(const Case& c, DType type, std::int64_t samples);
std::vector<std::vector<float>> collect_outputs(const Case& c, const Setup& setup,
                                                std::int64_t samples);

// |a - b| / |b|, Euclidean, with a floor under |b|.
double distance(const std::vector<float>& a, const std::vector<double>& b);

bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// How many steps of the graph's program on two threads have this text in their name.
int count_instructions(const graph::Graph& graph, const std::string& mark,
                       const backend::CompileOptions& options = {});

// The deterministic content of a value.
std::vector<double> content(const Shape& shape, const Fill& fill, DType type, std::uint64_t seed);

// A model's variables and one executable, run with double-precision inputs as the reference is.
class Runner {
 public:
  Runner(backend::Backend& backend, const graph::Graph& graph,
         const backend::CompileOptions& options);
  std::vector<std::vector<float>> run(std::int64_t samples,
                                      const std::vector<std::vector<double>>& inputs,
                                      const backend::Scalars& scalars = {});
  void write(const std::string& name, const std::vector<double>& values);
  void write(const std::string& name, const std::vector<float>& values);
  std::vector<float> read(const std::string& name) const;
  // The result of the last run; CompileOptions::result_outputs must name the loss.
  const backend::CallResult& result() const;
  void print(std::ostream& out) const { executable_->print(out); }
  backend::MemoryReport memory() const { return executable_->memory(); }
  backend::Gradient gradient() { return executable_->gradient(*stream_); }
  backend::LossScaleState loss_scale() { return executable_->loss_scale(*stream_); }
  void set_loss_scale(const backend::LossScaleState& scale) {
    executable_->set_loss_scale(scale, *stream_);
  }

 private:
  backend::Backend& backend_;
  graph::Graph graph_;
  bool has_result_;
  HostBuffer result_;
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<backend::Variables> variables_;
  std::unique_ptr<backend::Executable> executable_;
};

}  // namespace trainer::test
