#include "config/describe/emit.h"

#include "config/describe/schema.h"

namespace trainer::config {
namespace {

using Leaves = std::vector<std::pair<std::string, std::string>>;

bool holds_maps(const Node& node) {
  return !node.items.empty() && node.items.front().kind == Node::Kind::kMap;
}

void collect(const Node& node, const std::string& path, Leaves& leaves) {
  if (node.kind == Node::Kind::kMap && !node.entries.empty()) {
    for (const Entry& entry : node.entries) {
      collect(entry.value, path.empty() ? entry.key : path + '.' + entry.key, leaves);
    }
  } else if (holds_maps(node)) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      collect(node.items[i], concat(path, '[', i, ']'), leaves);
    }
  } else {
    leaves.emplace_back(path, print_flow(node));
  }
}

class ValueWriter final : public ValueVisitor {
 public:
  void scalar(ScalarValue& value) override { node_ = value.write(); }
  void optional(OptionalValue& value) override {
    if (value.has_value()) value.visit_value(*this);
  }
  void list(ListValue& value) override {
    Node node;
    node.kind = Node::Kind::kList;
    for (std::size_t i = 0; i < value.size(); ++i) {
      ValueWriter item;
      value.visit_item(i, item);
      node.items.push_back(item.take());
    }
    node_ = std::move(node);
  }
  void section(SectionValue& value) override;

  Node take() { return std::move(node_); }

 private:
  Node node_;
};

class MapWriter final : public FieldVisitor {
 public:
  MapWriter() { node_.kind = Node::Kind::kMap; }
  void alternative(std::string_view name, const char*, bool active, const std::function<void()>&,
                   const std::function<void(FieldVisitor&)>& list) override {
    if (!active) return;
    MapWriter inner;
    list(inner);
    add(name, inner.take());
  }
  void choice(const char*, bool, Resume) override { has_choice_ = true; }

  // Returns the map. An alternative that has no keys, in a section with no others, is its name
  // alone.
  Node take() {
    const bool is_name = has_choice_ && node_.entries.size() == 1 &&
                         node_.entries.front().value.kind == Node::Kind::kMap &&
                         node_.entries.front().value.entries.empty();
    return is_name ? scalar_node(node_.entries.front().key) : std::move(node_);
  }

 private:
  void field(const char* key, Value& value, const char*, const Rule& rule) override {
    Node node = emit(value);
    const bool empty =
        node.kind == Node::Kind::kNull || (node.kind == Node::Kind::kList && node.items.empty());
    if (!empty || rule.print_empty) add(key, std::move(node));
  }
  void add(std::string_view key, Node value) {
    node_.entries.push_back({std::string(key), {}, std::move(value)});
  }

  Node node_;
  bool has_choice_ = false;
};

void ValueWriter::section(SectionValue& value) {
  MapWriter writer;
  value.list_fields(writer);
  node_ = writer.take();
}

// `schema` describes the map; it is null for a map that has no schema.
void print_map(const Node& map, const Schema* schema, const std::string& indent, std::string& out) {
  for (const Entry& entry : map.entries) {
    const Field* field = schema != nullptr ? schema->find(entry.key) : nullptr;
    if (field != nullptr && !field->help.empty()) out += indent + "# " + field->help + "\n";
    out += indent + print_key(entry.key) + ":";
    const bool is_map = entry.value.kind == Node::Kind::kMap && !entry.value.entries.empty();
    if (is_map) {
      out += '\n';
      print_map(entry.value, field != nullptr ? &field->schema : nullptr, indent + "  ", out);
    } else if (holds_maps(entry.value)) {
      out += '\n';
      for (const Node& item : entry.value.items) out += indent + "  - " + print_flow(item) + '\n';
    } else {
      out += ' ' + print_flow(entry.value) + '\n';
    }
  }
}

// Returns the effective config with every key.
Node emit_config(const Config& config) {
  Config copy = config;
  ValueOf<Config> value(copy);
  return emit(value);
}

}  // namespace

Node emit(Value& value) {
  ValueWriter writer;
  value.accept(writer);
  return writer.take();
}

std::string to_yaml(const std::string& text) { return print_flow(scalar_node(text, true)); }

std::string to_yaml(const Config& config) { return print(emit_config(config)); }

std::string commented_yaml(const Config& config) {
  std::string out;
  print_map(emit_config(config), &config_schema(), "", out);
  return out;
}

std::vector<std::pair<std::string, std::string>> leaves(const Config& config) {
  Leaves leaves;
  collect(emit_config(config), "", leaves);
  return leaves;
}

}  // namespace trainer::config
