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
  std::string variable;  // the environment variable that is the origin
  std::string note;      // end of messages about this node: the location of an alias's content
  std::string failure;   // the reason why the text is unusable (an unset variable); reported once

  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  SourceLoc loc;  // the place of the key
  Node value;
};

Node scalar_node(std::string text, bool quoted = false);

// Returns "nothing", "'abc'", "a list" or "a map", for messages.
std::string describe(const Node& node);

// Reads one document. Reports mistakes that leave a usable tree, such as duplicate keys, to
// `diagnostics`. Reports a syntax error too, and then returns an empty tree.
Node read_yaml(const std::string& text, const std::string& file,
               std::vector<Diagnostic>& diagnostics);

// Returns whether a text can name a variable or a key: letters, digits and _, with no digit first.
bool is_name(std::string_view text);

// Replaces ${NAME}, ${NAME:-default} and $$ in every scalar. A missing variable sets the `failure`
// of the node, which an override of the node removes.
void substitute(Node& node, const Environment& environment);

// Replaces $$ in every scalar, and sets the `failure` of a node that contains a variable.
void unescape(Node& node);

// Returns a key as YAML text, in double quotes if it is not a plain word.
std::string print_key(const std::string& key);
// Returns the YAML text of a tree in block style, with lists of scalars in one line.
std::string print(const Node& node);
// Returns the tree as YAML in one line (flow style).
std::string print_flow(const Node& node);

}  // namespace trainer::config
