// Reads values of a config from nodes, with errors as text, and writes them to nodes.
#pragma once

#include <optional>
#include <string>

#include "base/text.h"
#include "config/rule.h"
#include "config/sections/data.h"
#include "config/sections/layers.h"
#include "config/sections/model.h"
#include "config/sections/optimizer.h"
#include "config/sections/parallel.h"
#include "config/sections/train.h"
#include "config/yaml/tree.h"

namespace trainer::config {

// Returns advice for data in a known format that the program cannot read; "" for other names.
std::string hint_for_format(const std::string& word);

// The forms of values; kList and kMap hold others.
enum class ValueKind {
  kBoolean,
  kInteger,
  kNumber,
  kText,
  kWord,
  kDuration,
  kPair,
  kPadding,
  kLoopValues,
  kFourSides,
  kFreeze,
  kGpus,
  kLossScale,
  kBatchSize,
  kClusterSize,
  kClassWeight,
  kValueRange,
  kList,
  kMap
};
inline ValueKind value_kind(bool) { return ValueKind::kBoolean; }
inline ValueKind value_kind(std::int64_t) { return ValueKind::kInteger; }
inline ValueKind value_kind(std::uint64_t) { return ValueKind::kInteger; }
inline ValueKind value_kind(double) { return ValueKind::kNumber; }
inline ValueKind value_kind(const std::string&) { return ValueKind::kText; }
inline ValueKind value_kind(const Duration&) { return ValueKind::kDuration; }
inline ValueKind value_kind(const Pair&) { return ValueKind::kPair; }
inline ValueKind value_kind(const Padding&) { return ValueKind::kPadding; }
inline ValueKind value_kind(const LoopValues&) { return ValueKind::kLoopValues; }
inline ValueKind value_kind(const std::array<std::int64_t, 4>&) { return ValueKind::kFourSides; }
inline ValueKind value_kind(const Gpus&) { return ValueKind::kGpus; }
inline ValueKind value_kind(const LossScale&) { return ValueKind::kLossScale; }
inline ValueKind value_kind(const BatchSize&) { return ValueKind::kBatchSize; }
inline ValueKind value_kind(const ClusterSize&) { return ValueKind::kClusterSize; }
inline ValueKind value_kind(const ClassWeight&) { return ValueKind::kClassWeight; }
inline ValueKind value_kind(const ValueRange&) { return ValueKind::kValueRange; }
inline ValueKind value_kind(const LayerSelection&) { return ValueKind::kText; }
inline ValueKind value_kind(const ParameterPattern&) { return ValueKind::kText; }

// Returns "at least 0 and less than 1", for example, or "" for a rule without limits.
std::string range_text(const Rule& rule);

// Each read() sets `value` and returns "", or returns what was expected and what was found.
std::string read(const Node& node, bool& value, const Rule& rule);
std::string read(const Node& node, std::int64_t& value, const Rule& rule);
std::string read(const Node& node, std::uint64_t& value, const Rule& rule);
std::string read(const Node& node, double& value, const Rule& rule);
std::string read(const Node& node, std::string& value, const Rule& rule);
std::string read(const Node& node, Duration& value, const Rule& rule);
std::string read(const Node& node, Pair& value, const Rule& rule);
std::string read(const Node& node, Padding& value, const Rule& rule);
std::string read(const Node& node, LoopValues& value, const Rule& rule);
std::string read(const Node& node, std::array<std::int64_t, 4>& value, const Rule& rule);
std::string read(const Node& node, Gpus& value, const Rule& rule);  // the range is that of an index
std::string read(const Node& node, LossScale& value, const Rule& rule);
std::string read(const Node& node, BatchSize& value, const Rule& rule);
std::string read(const Node& node, ClusterSize& value, const Rule& rule);
std::string read(const Node& node, ValueRange& value, const Rule& rule);
std::string read(const Node& node, LayerSelection& value, const Rule& rule);
std::string read(const Node& node, ParameterPattern& value, const Rule& rule);
std::string read(const Node& node, ClassWeight& value, const Rule& rule);
std::string read(const Node& node, Freeze& value, const Rule& rule);  // see is_selection_list()

// Returns whether a value of `freeze` is a list of LayerSelections.
bool is_selection_list(const Node& node);

Node write(bool value);
Node write(std::int64_t value);
Node write(std::uint64_t value);
Node write(double value);
Node write(const std::string& value);
Node write(const Duration& value);
Node write(const Pair& value);
Node write(const Padding& value);
Node write(const LoopValues& value);
Node write(const std::array<std::int64_t, 4>& value);
Node write(const Gpus& value);
Node write(const LossScale& value);
Node write(const BatchSize& value);
Node write(const ClusterSize& value);
Node write(const ValueRange& value);
Node write(const Freeze& value);
Node write(const LayerSelection& value);
Node write(const ParameterPattern& value);
Node write(const ClassWeight& value);

// Returns the word of which `typed` is probably a misspelling or the end, if there is one.
std::optional<std::string> nearest(const std::string& typed, const std::vector<std::string>& words);
// Returns ", did you mean 'x'?" or "".
std::string suggestion(const std::string& typed, const std::vector<std::string>& words);
// Returns "unknown key 'x', did you mean 'y'? Allowed: y, z" for `what` = "key" and `intro` =
// "Allowed".
std::string unknown(const std::string& what, const std::string& word, const std::string& intro,
                    const std::vector<std::string>& words);
std::string unknown_key(const std::string& key, const std::string& path,
                        const std::vector<std::string>& allowed);

template <class E>
requires std::is_enum_v<E> std::string read(const Node& node, E& value, const Rule&) {
  const bool typed = node.kind == Node::Kind::kScalar;
  if (const std::optional<E> found = typed ? parse_enum<E>(node.text) : std::nullopt) {
    value = *found;
    return "";
  }
  if constexpr (std::is_same_v<E, DataFormat>) {
    if (const std::string hint = hint_for_format(node.text); !hint.empty()) return hint;
  }
  const std::vector<std::string> words = enum_words<E>();
  return "expected one of " + join(words) + "; found " + describe(node) +
         (typed ? suggestion(node.text, words) : "");
}

template <class E>
requires std::is_enum_v<E> Node write(E value) {
  return scalar_node(std::string(spell(value)), true);
}

}  // namespace trainer::config
