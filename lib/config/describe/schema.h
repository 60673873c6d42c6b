// The shape of a config as data, made from the field lists: for what needs the shape of keys that a
// file does not give - shorthands, overrides, the JSON Schema.
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
  bool bare_item = false;          // kList: one entry may stand without the list
  std::string definition;
  // The schema that `definition` names, where it holds itself; null elsewhere.
  const Schema& (*recursive)() = nullptr;
  std::vector<Field> fields;         // kMap
  std::vector<std::string> choices;  // kMap: keys of which one, or at most one, is given
  bool choice_required = false;
  Resume choice_resume = Resume::kWarn;  // whether another one may be chosen on resume
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

const Schema& config_schema();

// What a map or list entry is read by: `schema`, or the one that it repeats.
inline const Schema& resolved(const Schema& schema) {
  return schema.recursive == nullptr ? schema : schema.recursive();
}

// Removes the first step of a path such as "a[2].b.c" and returns its name without the index: "a".
std::string take_step(std::string& path);

// What --set can name: the path of every key, those of alternatives (optimizer.sgd.momentum) and of
// sections that a config may leave out included. Entries of lists have no name.
std::vector<std::string> settable_keys();

// Writes out every shorthand: `optimizer: adam` as {adam: null}, `dropout: 0.5` as {rate: 0.5}.
void expand(Node& node, const Schema& schema);
// As expand(), for the top level of `node` alone.
void expand_top(Node& node, const Schema& schema);

// Puts one override into the tree, which must be expanded where the path leads.
void apply(const Override& override_, const Environment& environment, Node& root,
           std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config
