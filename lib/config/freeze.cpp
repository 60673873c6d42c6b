#include <charconv>

#include "config/values.h"

namespace trainer::config {
namespace {

// Parses "[begin:end]", in which either may be left out.
std::optional<LayerSlice> parse_slice(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return {};
  if (colon == std::string::npos) return {};
  const auto bound = [&](std::size_t from, std::size_t to, std::optional<std::int64_t>& value) {
    if (from == to) return true;
    const auto [end, error] =
        std::from_chars(text.data() + from, text.data() + to, value.emplace());
    return error == std::errc{} && end == text.data() + to;
  };
  LayerSlice slice;
  if (!bound(1, colon, slice.begin) || !bound(colon + 1, text.size() - 1, slice.end)) return {};
  return slice;
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

// Returns whether the text is one pair of brackets and what they hold.
bool is_bracketed(const std::string& text) {
  return text.front() == '[' && text.find(']') == text.size() - 1;
}

// Returns why a text, which is not a slice, cannot be a pattern of names; "" if it can.
std::string check_pattern(const std::string& text) {
  if (text.find(':') != std::string::npos) {
    const bool is_slice = parse_slice("[" + text + "]").has_value();
    return is_slice ? concat("write the slice in brackets and quotes: \"[", text, "]\"")
                    : "a name has no colon, and a slice is [begin:end] with whole numbers";
  }
  if (is_bracketed(text)) {
    return "a slice needs a colon, as in \"[1:6]\", and a pattern needs text beside the brackets, "
           "as in \"block[1-6]*\"";
  }
  const std::size_t open = text.rfind('[');
  if (open != std::string::npos && text.find(']', open) == std::string::npos) {
    return "the bracket has no end; write \"block[1-6]*\" for one of the characters 1 to 6";
  }
  return "";
}

}  // namespace

bool is_selection_list(const Node& node) {
  return node.kind == Node::Kind::kList && !node.items.empty() && !is_unquoted_slice(node);
}

std::string read(const Node& node, LayerSelection& value, const Rule&) {
  if (node.kind != Node::Kind::kScalar || node.text.empty()) {
    return concat(
        "expected the name of a layer, with *, ? and [1-6] for what may differ, or a slice such as "
        "\"[:-4]\"; found ",
        describe(node));
  }
  if (is_number(node)) {
    return concat("a list holds slices and names, found the number ", node.text,
                  "; write the first 5 layers as \"[:5]\"");
  }
  value = {parse_slice(node.text), "", node.loc};
  if (value.slice) return "";
  value.pattern = node.text;
  const std::string wrong = check_pattern(node.text);
  return wrong.empty() ? "" : concat(describe(node), " is neither a slice nor a name: ", wrong);
}

std::string read(const Node& node, Freeze& value, const Rule& rule) {
  Freeze parsed;
  parsed.loc = node.loc;
  const auto select = [&](const Node& one) {
    parsed.kind = Freeze::Kind::kSelections;
    return read(one, parsed.selections.emplace_back(), rule);
  };
  std::string wrong;
  if (is_unquoted_slice(node)) {
    Node slice = scalar_node("[" + node.items[0].text + "]", true);
    slice.loc = node.loc;
    if (!parse_slice(slice.text)) return concat(kExpected, "; found ", slice.text);
    wrong = select(slice);
  } else if (node.kind == Node::Kind::kList) {
    return "the list is empty; write none to train all layers";
  } else if (node.kind != Node::Kind::kScalar || node.text.empty()) {
    return concat(kExpected, "; found ", describe(node));
  } else if (node.text == "all" || node.text == "none") {
    parsed.kind = node.text == "all" ? Freeze::Kind::kAll : Freeze::Kind::kNone;
  } else if (is_number(node)) {
    parsed.kind = Freeze::Kind::kCount;
    wrong = read(node, parsed.count, at_least(0));
    if (!wrong.empty()) wrong += "; to count from the end, write a slice such as \"[:-4]\"";
  } else {
    wrong = select(node);
  }
  if (wrong.empty()) value = parsed;
  return wrong;
}

Node write(const LayerSelection& value) {
  if (!value.slice) return scalar_node(value.pattern, true);
  const auto text = [](const std::optional<std::int64_t>& bound) {
    return bound ? concat(*bound) : std::string();
  };
  return scalar_node(concat('[', text(value.slice->begin), ':', text(value.slice->end), ']'), true);
}

Node write(const Freeze& value) {
  switch (value.kind) {
    case Freeze::Kind::kNone:
      return scalar_node("none", true);
    case Freeze::Kind::kAll:
      return scalar_node("all", true);
    case Freeze::Kind::kCount:
      return scalar_node(concat(value.count));
    case Freeze::Kind::kSelections:
      break;
  }
  if (value.selections.size() == 1 && value.selections[0].slice) return write(value.selections[0]);
  Node list;
  list.kind = Node::Kind::kList;
  for (const LayerSelection& selection : value.selections) list.items.push_back(write(selection));
  return list;
}

}  // namespace trainer::config
