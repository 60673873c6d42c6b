// Describes all keys of a config, also those that a file does not give. Shorthands, overrides, the
// JSON Schema and `trainer explain` use it. It is made from the field lists.
#pragma once

#include "config/rule.h"
#include "config/values.h"
#include "config/yaml/tree.h"

namespace trainer::config {

struct Field;

struct Schema {
  using Kind = ValueKind;
  struct Group {
    std::vector<std::string> keys;
    bool required = false;
  };

  Kind kind = Kind::kMap;
  Rule rule;
  bool nullable = false;
  std::vector<std::string> words;  // kWord: the spellings
  std::vector<Schema> item;        // kList: one
  bool bare_item = false;          // kList: one entry may be given without a list
  std::string definition;          // the name in FieldVisitor::definition(), if any
  // Returns the schema that `definition` names, if that schema contains itself; else null.
  const Schema& (*recursive)() = nullptr;
  std::vector<Field> fields;         // kMap
  std::vector<std::string> choices;  // kMap: keys of which one, or at most one, is given
  bool choice_required = false;
  Resume choice_resume = Resume::kWarn;  // limits the choice of another one on resume
  std::vector<Group> groups;
  std::string shorthand;

  const Field* find(std::string_view key) const;
  bool is_choice(std::string_view key) const;
  std::vector<std::string> keys() const;
};

struct Field {
  std::string key, help;
  Schema schema;
  Node initial;  // the default
};

// Returns the schema of Config.
const Schema& config_schema();

// Returns the schema that a recursive schema stands for, or else `schema` itself.
inline const Schema& resolved(const Schema& schema) {
  return schema.recursive == nullptr ? schema : schema.recursive();
}

// Removes the first step of a path such as "a[2].b.c" and returns its name without the index: "a".
std::string take_step(std::string& path);

// Returns the path of every key that --set accepts, including keys of alternatives
// (optimizer.sgd.momentum) and of optional sections, but not entries of lists.
std::vector<std::string> settable_keys();

// Replaces every shorthand by its full form: `optimizer: adam` by {adam: null}, `dropout: 0.5` by
// {rate: 0.5}.
void expand(Node& node, const Schema& schema);
// Replaces a shorthand at the top level of `node` only.
void expand_top(Node& node, const Schema& schema);

// Applies one override to the tree. Shorthands along its path must have been expanded.
void apply(const Override& override_, const Environment& environment, Node& root,
           std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config
