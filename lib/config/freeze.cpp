#include <algorithm>
#include <charconv>

#include "config/values.h"

namespace trainer::config {
namespace {

// Parses "[begin:end]", in which either may be left out. Returns false for another text.
bool read_slice(const std::string& text, Freeze& freeze) {
  const std::size_t colon = text.find(':');
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
  if (colon == std::string::npos) return false;
  const auto bound = [&](std::size_t from, std::size_t to, std::optional<std::int64_t>& value) {
    if (from == to) return true;
    const auto [end, error] =
        std::from_chars(text.data() + from, text.data() + to, value.emplace());
    return error == std::errc{} && end == text.data() + to;
  };
  freeze.kind = Freeze::Kind::kSlice;
  return bound(1, colon, freeze.begin) && bound(colon + 1, text.size() - 1, freeze.end);
}

bool is_number(const Node& node) {
  if (node.quoted || node.text.empty()) return false;
  return node.text.find_first_not_of("+-0123456789.eE_") == std::string::npos;
}

// YAML reads [:-4] without quotes as a list of one text. A layer name cannot contain a colon.
bool is_unquoted_slice(const Node& node) {
  return node.kind == Node::Kind::kList && node.items.size() == 1 &&
         node.items[0].kind == Node::Kind::kScalar && !node.items[0].quoted &&
         node.items[0].text.find(':') != std::string::npos;
}

const char* const kExpected =
    "expected a slice such as \"[:-4]\" (in quotes), a number of layers, all, none, or names of "
    "layers such as [\"block1_*\"]";

bool has_slice_letters(const std::string& text) {
  return text.find_first_of("[]:") != std::string::npos;
}

}  // namespace

bool is_pattern_list(const Node& node) {
  return node.kind == Node::Kind::kList && !node.items.empty() && !is_unquoted_slice(node);
}

std::string read(const Node& node, LayerPattern& value, const Rule&) {
  if (node.kind != Node::Kind::kScalar || node.text.empty() || has_slice_letters(node.text)) {
    return concat("expected the name of a layer, with * and ? for what may differ; found ",
                  describe(node));
  }
  value = {node.text, node.loc};
  return "";
}

std::string read(const Node& node, Freeze& value, const Rule&) {
  Freeze parsed;
  parsed.loc = node.loc;
  if (is_unquoted_slice(node)) {
    if (!read_slice("[" + node.items[0].text + "]", parsed)) {
      return concat(kExpected, "; found [", node.items[0].text, "]");
    }
  } else if (node.kind == Node::Kind::kList) {
    return "the list is empty; write none to train all layers";
  } else if (node.kind != Node::Kind::kScalar || node.text.empty()) {
    return concat(kExpected, "; found ", describe(node));
  } else if (node.text == "all" || node.text == "none") {
    parsed.kind = node.text == "all" ? Freeze::Kind::kAll : Freeze::Kind::kNone;
  } else if (is_number(node)) {
    parsed.kind = Freeze::Kind::kCount;
    if (const std::string wrong = read(node, parsed.count, at_least(0)); !wrong.empty()) {
      return wrong + "; to count from the end, write a slice such as \"[:-4]\"";
    }
  } else if (has_slice_letters(node.text)) {
    if (!read_slice(node.text, parsed)) return concat(kExpected, "; found ", describe(node));
  } else {
    parsed.kind = Freeze::Kind::kPatterns;
    parsed.patterns.push_back({node.text, node.loc});
  }
  value = parsed;
  return "";
}

Node write(const Freeze& value) {
  switch (value.kind) {
    case Freeze::Kind::kNone:
      return scalar_node("none", true);
    case Freeze::Kind::kAll:
      return scalar_node("all", true);
    case Freeze::Kind::kCount:
      return scalar_node(concat(value.count));
    case Freeze::Kind::kSlice: {
      const auto text = [](const std::optional<std::int64_t>& bound) {
        return bound ? concat(*bound) : std::string();
      };
      return scalar_node(concat('[', text(value.begin), ':', text(value.end), ']'), true);
    }
    case Freeze::Kind::kPatterns:
      break;
  }
  Node list;
  list.kind = Node::Kind::kList;
  for (const LayerPattern& pattern : value.patterns) {
    list.items.push_back(scalar_node(pattern.text, true));
  }
  return list;
}

}  // namespace trainer::config
