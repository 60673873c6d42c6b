// The meaning of a graph in plain double-precision loops, straight from the formulas in graph/ops:
// what backends are held against.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "graph/graph.h"

namespace trainer::test {

// Values in logical layout, row-major, with the number of samples filled in.
struct Tensor {
  Shape shape;
  std::vector<double> data;

  double& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
  std::int64_t channels() const { return shape[shape.rank() - 1]; }
};

inline double number(float x) { return static_cast<double>(x); }
double to_bf16(double x);  // rounded

double activate(const graph::Activation& activation, double x);
// The derivative at input x.
double activation_slope(const graph::Activation& activation, double x);

class Reference {
 public:
  explicit Reference(graph::Graph graph);

  // Parameters, statistics and slots by name; zeros at first.
  std::map<std::string, std::vector<double>> kept;

  // One call of backend::Executable::run(): returns the graph's outputs and changes `kept`. Values
  // of type bfloat16 are rounded where they are made.
  std::vector<std::vector<double>> run(std::int64_t samples,
                                       const std::vector<std::vector<double>>& inputs,
                                       const backend::Scalars& scalars = {});
  // A value of the last run.
  const std::vector<double>& value(graph::ValueId id) const { return tensor(id).data; }

 private:
  const Tensor& tensor(graph::ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  Tensor& tensor(graph::ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  void run_node(const graph::Node& node, const backend::Scalars& scalars);
  double global_norm() const;

  graph::Graph graph_;
  std::vector<Tensor> values_;
  std::map<graph::ValueId, std::vector<double>> gradient_sums_;
};

// What an op's function sees: its inputs and its zero-filled outputs.
struct Site {
  std::vector<Tensor*> inputs, outputs;
  const backend::Scalars& scalars;
  double gradient_norm;  // over all parameters

  Tensor& in(std::size_t i) const { return *inputs.at(i); }
  Tensor& out(std::size_t i) const { return *outputs.at(i); }
};

// Evaluates one op: fills the outputs, or changes inputs in place where the op does.
void run_op(const graph::Op& op, const Site& site);

// The meaning of one op. Each op of graph::Op has a specialisation in one of reference_*.cpp, or a
// function in reference.cpp. There is no general definition, so that an op without one does not
// link.
template <class Op>
void evaluate(const Op& op, const Site& s);

// The gradient of the penalty of an update at w.
double penalty_slope(const graph::Update& op, double w);
// The norm of a parameter's gradient, with that of its penalty.
double compute_norm(const Tensor& w, const Tensor& gradient, const graph::Update& op);

// The derivative of an activation that can be computed from its output.
double slope_at_output(const graph::Activation& activation, double y);

}  // namespace trainer::test
