// A graph: values, and nodes in an order in which they can run.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"
#include "base/types.h"
#include "graph/op.h"

namespace trainer::graph {

// Who owns a value's memory and how long it lives.
enum class Role {
  kActivation,  // produced and used within one step
  kInput,       // given with each step (images, labels)
  kParameter,   // trained or frozen weights; persistent
  kStatistic,   // moving averages; persistent
  kGradient,    // gradient of a parameter; in the flat gradient buffer
  kSlot,        // optimizer state or weight average; persistent
  kDerived      // computed from persistent values in the prepare phase, again whenever they change
};
constexpr auto spellings(Role) {
  using enum Role;
  return std::to_array<Spelling<Role>>({{kActivation, "activation"},
                                        {kInput, "input"},
                                        {kParameter, "parameter"},
                                        {kStatistic, "statistic"},
                                        {kGradient, "gradient"},
                                        {kSlot, "slot"},
                                        {kDerived, "derived"}});
}

// The phase a node runs in. kPrepare: once after parameters changed; the other phases: every step,
// in this order.
enum class Phase { kPrepare, kForward, kBackward, kReduce, kUpdate };
constexpr auto spellings(Phase) {
  using enum Phase;
  return std::to_array<Spelling<Phase>>({{kPrepare, "prepare"},
                                         {kForward, "forward"},
                                         {kBackward, "backward"},
                                         {kReduce, "reduce"},
                                         {kUpdate, "update"}});
}

// The initial content of a persistent value. Uniform in [a, b), normal (mean a, deviation b), the
// same truncated at two deviations, or the constant a.
struct Initial {
  enum class Kind { kConstant, kUniform, kNormal, kTruncatedNormal } kind = Kind::kConstant;
  double a = 0, b = 0;
};

struct Value {
  std::string name;  // "conv2d/kernel", "dense/kernel/momentum"; unique among persistent values
  Shape shape;
  DType type = DType::kFloat32;
  Role role = Role::kActivation;
  SourceLoc loc;
  // Persistent values only.
  Initial initial = {};
  bool trainable = false;              // kParameter: has an update
  float l2 = 0;                        // kParameter: regularisation factor
  float learning_rate_multiplier = 1;  // kParameter
  bool decay = true;                   // kParameter: takes part in weight decay
  std::int64_t updates_before = 0;     // kParameter: updates of the run before it was trained
  float l1 = 0;                        // kParameter: regularisation factor of absolute values
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string name;  // the name of the layer it comes from
  Phase phase = Phase::kForward;
  SourceLoc loc;
};

// The values of the graph that one layer of the config made, for tables and for freezing.
struct LayerInfo {
  std::string name;
  std::string kind;                 // Keras's class name: "Conv2D", "MaxPooling2D"
  std::vector<std::string> inputs;  // names of the layers whose outputs it takes
  ValueId output = kNoValue;
  std::vector<ValueId> parameters;  // parameters and statistics
  bool trainable = true;
  bool moving_statistics = false;  // batch norm: reads them in training too, never updates them
  int depth = 0;        // depth of its group of layers, from the input: optimizer.layer_decay
  std::string weights;  // file that its parameters start from; the initialisers when empty
  SourceLoc loc;
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;   // run() takes them in this order
  std::vector<ValueId> outputs;  // run() gives them in this order
  std::vector<LayerInfo> layers;

  ValueId add_value(Value value);
  // Adds a node whose outputs' shapes and types follow from the op; returns their ids. Throws
  // ConfigError at `loc` when the inputs do not fit the op.
  std::vector<ValueId> add(Op op, std::vector<ValueId> inputs, const std::string& name,
                           const SourceLoc& loc, Phase phase = Phase::kForward);
  // Calls add() for an op with one output, and returns that output.
  ValueId add1(Op op, std::vector<ValueId> inputs, const std::string& name, const SourceLoc& loc,
               Phase phase = Phase::kForward);

  const Value& operator[](ValueId id) const { return values[id]; }
  Value& operator[](ValueId id) { return values[id]; }
  // The persistent value or input of this name, or kNoValue.
  ValueId find(std::string_view name) const;
  // Index of the node that makes a value, or -1.
  int producer(ValueId id) const;
  std::vector<int> consumers(ValueId id) const;
};

// Returns whether the value is an output of the graph.
bool is_output(const Graph& graph, ValueId id);
// Returns the only node that uses the value; empty if another number of nodes uses it or it is an
// output of the graph.
std::optional<int> only_consumer(const Graph& graph, ValueId id);
// Returns whether the value depends on inputs of the graph and on no parameter, so that no gradient
// flows to it.
bool depends_on_inputs_only(const Graph& graph, ValueId id);

// Returns the shapes and types of values.
std::vector<Typed> list_types(const Graph& graph, const std::vector<ValueId>& ids);

// Returns whether values of the role live as long as the model: parameters, statistics and slots.
bool is_persistent(Role role);

// ---- The rules of an op (graph/rules.h), for any op ----

// Returns the shape and type of each output of an op. Throws ConfigError at `loc`, starting with
// `name`, if the inputs do not fit the op.
std::vector<Typed> infer(const Op& op, const std::vector<Typed>& inputs, const std::string& name,
                         const SourceLoc& loc);

// Returns the index of the input whose memory output `output` shares, or -1. The outputs of Update
// are the parameter and its slots, those of UpdateStatistics are both statistics; as values they
// are activations.
int aliased_input(const Op& op, int output);

// Returns the floating-point operations of one sample, two per multiply-accumulate.
std::int64_t flops(const Graph& graph, const Node& node);

// Emits the gradient nodes of `node` into the graph: given the gradients of its outputs (kNoValue
// where none flows), returns the gradient of each input (kNoValue where none is needed: see
// wanted). May add an output to `node` itself: a max pooling's index, and a loss's gradient of the
// logits, for which no output gradient has to be given.
std::vector<ValueId> differentiate(Graph& graph, int node,
                                   const std::vector<ValueId>& output_gradients,
                                   const std::vector<bool>& wanted);

// Throws std::logic_error if an invariant does not hold: every input is made before its use, a
// value has one producer, shapes are those of infer(), and phases are in order. Such an error is a
// fault of the program, not of the user.
void verify(const Graph& graph);

void print(const Graph& graph, std::ostream& out);

}  // namespace trainer::graph
