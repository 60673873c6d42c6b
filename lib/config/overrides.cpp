#include <algorithm>
#include <charconv>
#include <variant>

#include "config/describe/schema.h"
#include "config/values.h"

namespace trainer::config {
namespace {

using Step = std::variant<std::string, std::size_t>;

// Splits "a.b[2].c" into keys and indices; returns an empty list for another text.
std::vector<Step> parse_path(const std::string& path) {
  std::vector<Step> steps;
  std::size_t at = 0;
  while (at < path.size()) {
    if (path[at] == '[') {
      std::size_t index = 0;
      const auto end = std::from_chars(path.data() + at + 1, path.data() + path.size(), index);
      at = end.ptr - path.data();
      if (steps.empty() || end.ec != std::errc{} || at >= path.size() || path[at] != ']') return {};
      steps.emplace_back(index);
      ++at;
    } else {
      if (!steps.empty()) {
        if (path[at] != '.') return {};
        ++at;
      }
      const std::size_t end = std::min(path.find_first_of(".[", at), path.size());
      if (end == at) return {};
      steps.emplace_back(path.substr(at, end - at));
      at = end;
    }
  }
  if (path.ends_with('.')) return {};
  return steps;
}

void mark(Node& node, const SourceLoc& loc) {
  node.loc = loc;
  node.origin = Origin::Kind::kSet;
  node.variable.clear();
  for (Node& item : node.items) mark(item, loc);
  for (Entry& entry : node.entries) {
    entry.loc = loc;
    mark(entry.value, loc);
  }
}

Node map_node(const SourceLoc& loc) {
  Node node;
  node.kind = Node::Kind::kMap;
  mark(node, loc);
  return node;
}

// Removes keys of the file that exclude the key that is set.
void drop_file_alternatives(Node& map, const std::string& key,
                            const std::vector<std::string>& group) {
  if (std::ranges::find(group, key) == group.end()) return;
  std::erase_if(map.entries, [&](const Entry& entry) {
    return entry.key != key && entry.value.origin != Origin::Kind::kSet &&
           std::ranges::find(group, entry.key) != group.end();
  });
}

class Walk {
 public:
  Walk(Node& root, const SourceLoc& loc) : node_(&root), loc_(loc) {}

  // These return "" or the reason why the step is not possible.
  std::string take(const std::string& key) {
    if (schema_->kind != Schema::Kind::kMap) {
      return "unknown key '" + key + "'; " + name() +
             (schema_->kind == Schema::Kind::kList
                  ? " is a list: write " + name() + "[0] for its first entry"
                  : " is a single value");
    }
    const Field* field = schema_->find(key);
    if (!field) return unknown_key(key, path_, schema_->keys());
    expand_top(*node_, *schema_);
    if (node_->kind != Node::Kind::kMap) *node_ = map_node(loc_);
    drop_file_alternatives(*node_, key, schema_->choices);
    for (const Schema::Group& group : schema_->groups)
      drop_file_alternatives(*node_, key, group.keys);
    Entry* entry = node_->find(key);
    if (!entry) {
      node_->entries.push_back({key, loc_, {}});
      entry = &node_->entries.back();
      mark(entry->value, loc_);
    }
    node_ = &entry->value;
    schema_ = &resolved(field->schema);
    path_ += (path_.empty() ? "" : ".") + key;
    return "";
  }

  std::string take(std::size_t index) {
    const std::size_t size = node_->items.size();
    if (node_->kind != Node::Kind::kList) return name() + " is not a list in this config";
    if (index >= size) {
      return concat(name(), " has no entry [", index, "]; it has ", size,
                    size == 0 ? "" : concat(", [0] to [", size - 1, "]"));
    }
    node_ = &node_->items[index];
    // The numbers of [height, width] have no schema of their own; the list is checked as a whole.
    if (schema_->kind == Schema::Kind::kList) schema_ = &resolved(schema_->item.front());
    path_ += concat('[', index, ']');
    return "";
  }

  Node& node() { return *node_; }

 private:
  std::string name() const { return path_.empty() ? "the config" : path_; }

  Node* node_;
  const Schema* schema_ = &config_schema();
  SourceLoc loc_;
  std::string path_;
};

std::string_view without_blanks_around(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// The reader marks texts after | or > and a lone quote as quoted too; they are not in quotes.
bool is_in_quotes(const Node& value, std::string_view text) {
  return value.quoted && text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
         text.back() == text.front();
}

// Checks a scalar without quotes. If YAML drops a part of it (a comment, a tag, the mark of a
// block) or folds its lines, it is not the value that the user has written. Returns "" or the
// error.
std::string lost_text(const Node& value, const std::string& given) {
  const std::string_view text = without_blanks_around(given);
  const bool is_whole = value.kind == Node::Kind::kScalar
                            ? is_in_quotes(value, text) || value.text == text
                        : value.kind == Node::Kind::kNull ? is_null_word(text)
                                                          : true;
  if (is_whole) return "";
  return concat("YAML reads '", text, "' as ", describe(value),
                "; write it in quotes: ", print_flow(scalar_node(std::string(text), true)));
}

// Returns the value of an override; a mistake becomes the `failure` of the node.
Node parse_value(const Override& override_, const SourceLoc& loc, const Environment& environment) {
  if (override_.syntax == Override::Syntax::kText) {
    Node value = scalar_node(override_.value);
    mark(value, loc);
    return value;
  }
  std::vector<Diagnostic> mistakes;
  Node value = read_yaml(override_.value, loc.file, mistakes);
  std::string wrong = mistakes.empty()
                          ? lost_text(value, override_.value)
                          : concat("'", override_.value, "': ", mistakes.front().message);
  mark(value, loc);
  substitute(value, environment);
  if (!wrong.empty()) value.failure = std::move(wrong);
  return value;
}

}  // namespace

std::string to_setting(const Override& override_) {
  const std::string& text = override_.value;
  std::string value = text;
  if (override_.syntax == Override::Syntax::kText) {
    std::vector<Diagnostic> mistakes;
    const Node read = read_yaml(text, "", mistakes);
    const bool is_same = mistakes.empty() && read.kind == Node::Kind::kScalar && !read.quoted &&
                         read.text == text && text.find('$') == std::string::npos;
    if (!is_same) value = print_flow(scalar_node(text, true));
  }
  return concat(override_.path, "=", value);
}

void apply(const Override& override_, const Environment& environment, Node& root,
           std::vector<Diagnostic>& diagnostics) {
  const bool set = override_.flag.empty() || override_.flag == "--set";
  const SourceLoc loc{set ? "--set " + override_.path : override_.flag, 0, 0};
  const std::vector<Step> steps = parse_path(override_.path);
  if (steps.empty()) {
    diagnostics.push_back(
        {loc, "'" + override_.path +
                  "' is not a path; write it like train.epochs or model.layers[0].conv.filters"});
    return;
  }
  Node value = parse_value(override_, loc, environment);
  Node changed = root;  // `root` must not change if the path is wrong
  Walk walk(changed, loc);
  for (const Step& step : steps) {
    const std::string wrong = std::visit([&](const auto& s) { return walk.take(s); }, step);
    if (wrong.empty()) continue;
    diagnostics.push_back({loc, wrong});
    return;
  }
  walk.node() = std::move(value);
  root = std::move(changed);
}

}  // namespace trainer::config
