#include "config/yaml/tree.h"

#include <algorithm>

#include "base/text.h"

namespace trainer::config {

Entry* Node::find(std::string_view key) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

const Entry* Node::find(std::string_view key) const { return const_cast<Node*>(this)->find(key); }

Node scalar_node(std::string text, bool quoted) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

namespace {

// Returns a text in quotes, of a long one the beginning and its length.
std::string quote_excerpt(const std::string& text) {
  constexpr std::size_t kMaxShown = 200;
  if (text.size() <= kMaxShown) return "'" + text + "'";
  std::size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // UTF-8
  return concat("'", text.substr(0, end), "...', a text of ", text.size(), " bytes");
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

// Returns whether every YAML 1.1 or 1.2 reader takes the text without quotes for a text or, if it
// is digits, for their number.
bool is_plain(const std::string& text) {
  static const std::vector<std::string> kWords{"null", "true", "false", "yes", "no",
                                               "on",   "off",  "y",     "n"};
  if (text.empty()) return false;
  if (std::ranges::all_of(text, is_decimal_digit)) return text == "0" || text[0] != '0';
  if (!is_letter(text[0]) && text[0] != '_' && text[0] != '/') return false;
  if (std::ranges::find(kWords, to_lower(std::string(text))) != kWords.end()) {
    return false;
  }
  return std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_decimal_digit(c) || c == '_' || c == '/' || c == '.' || c == '-';
  });
}

// Puts a text in double quotes. A dollar is doubled in a value, whose variables are replaced when
// it is read, and does not change in a key.
enum class Role { kKey, kValue };
std::string quote(const std::string& text, Role role) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '$' && role == Role::kValue) {
      out += "$$";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x" + to_hex(byte, 2);
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_short(const Node& node) {
  if (node.kind == Node::Kind::kMap) return node.entries.empty();
  return std::ranges::none_of(node.items,
                              [](const Node& item) { return item.kind == Node::Kind::kMap; });
}

void print_block(const Node& node, int indent, std::string& out) {
  const std::string margin(indent, ' ');
  for (const Entry& entry : node.entries) {
    out += margin + print_key(entry.key) + ":";
    if (is_short(entry.value)) {
      out += ' ' + print_flow(entry.value) + '\n';
    } else {
      out += '\n';
      print_block(entry.value, indent + 2, out);
    }
  }
  for (const Node& item : node.items) {
    if (is_short(item)) {
      out += margin + "- " + print_flow(item) + '\n';
      continue;
    }
    std::string block;
    print_block(item, indent + 2, block);
    block[indent] = '-';
    out += block;
  }
}

}  // namespace

bool is_name(std::string_view text) {
  const auto is_part = [](char c) { return is_letter(c) || is_decimal_digit(c) || c == '_'; };
  return !text.empty() && !is_decimal_digit(text[0]) && std::ranges::all_of(text, is_part);
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return (node.quoted ? "the quoted text " : "") + quote_excerpt(node.text);
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "";
}

std::string print_key(const std::string& key) {
  return is_plain(key) ? key : quote(key, Role::kKey);
}

std::string print_flow(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return node.quoted && !is_plain(node.text) ? quote(node.text, Role::kValue) : node.text;
    case Node::Kind::kList:
      for (const Node& item : node.items) out += (out.empty() ? "" : ", ") + print_flow(item);
      return '[' + out + ']';
    case Node::Kind::kMap:
      for (const Entry& entry : node.entries) {
        out += (out.empty() ? "" : ", ") + print_key(entry.key) + ": " + print_flow(entry.value);
      }
      return '{' + out + '}';
  }
  return out;
}

std::string print(const Node& node) {
  std::string out;
  print_block(node, 0, out);
  return out;
}

}  // namespace trainer::config
