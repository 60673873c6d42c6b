// A YAML document as a plain tree with positions, free of yaml-cpp: what the reader makes,
// overrides and the environment change, and the decoder turns into structs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace trainer::config {

struct Entry;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  SourceLoc loc;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: a text even where it looks like a number
  std::vector<Node> items;
  std::vector<Entry> entries;
  Origin::Kind origin = Origin::Kind::kFile;
  std::string variable;  // the environment variable, when that is the origin
  std::string note;      // ends messages about this node: where the content of an alias is written
  std::string failure;   // why the text is unusable (an unset variable); reported once

  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  SourceLoc loc;  // of the key
  Node value;
};

Node scalar_node(std::string text, bool quoted = false);

// "nothing", "'abc'", "a list", "a map": for messages.
std::string describe(const Node& node);

// Reads one document. Mistakes that leave a usable tree (duplicate keys) go to `diagnostics`, a
// syntax error too, with an empty tree as the result.
Node read_yaml(const std::string& text, const std::string& file,
               std::vector<Diagnostic>& diagnostics);

// Replaces ${NAME}, ${NAME:-default} and $$ in every scalar. A variable that is missing marks the
// node's `failure`, so that an override of the node can still heal it.
void substitute(Node& node, const Environment& environment);

// Replaces $$ in every scalar, and marks the `failure` of a node that names a variable.
void unescape(Node& node);

// A key as YAML text, in double quotes where it is not a plain word.
std::string print_key(const std::string& key);
// YAML text of a tree: block style, lists of scalars in one line.
std::string print(const Node& node);
// The tree as YAML in one line (flow style).
std::string print_flow(const Node& node);

}  // namespace trainer::config
