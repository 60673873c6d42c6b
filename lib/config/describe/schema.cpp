#include "config/describe/schema.h"

#include <algorithm>

#include "config/describe/emit.h"
#include "config/field.h"

namespace trainer::config {
namespace {

const Schema& layer_schema() {
  return config_schema().find("model")->schema.find("layers")->schema.item.front();
}

// Describes a value, or the sections that it holds.
class Describer final : public ValueVisitor {
 public:
  explicit Describer(const Rule& rule) : rule_(rule) {}

  void scalar(ScalarValue& value) override {
    schema_.kind = value.kind();
    schema_.words = value.words();
    schema_.rule = rule_;
  }
  void optional(OptionalValue& value) override {
    value.visit_default(*this);
    schema_.nullable = true;
  }
  void list(ListValue& value) override {
    schema_.kind = Schema::Kind::kList;
    if (rule_.is_recursive) {
      schema_.item.emplace_back().definition = "layer";
      schema_.item.back().recursive = layer_schema;
    } else {
      Describer item(rule_);
      value.visit_default(item);
      schema_.item.push_back(item.take());
    }
    schema_.bare_item = rule_.allows_scalar;
    schema_.rule = rule_;
  }
  void section(SectionValue& value) override;

  Schema take() { return std::move(schema_); }

 private:
  const Rule& rule_;
  Schema schema_;
};

class FieldDescriber final : public FieldVisitor {
 public:
  void alternative(std::string_view name, const char* help, bool,
                   const std::function<void()>& activate,
                   const std::function<void(FieldVisitor&)>& list) override {
    activate();
    FieldDescriber inner;
    list(inner);
    schema_.choices.emplace_back(name);
    schema_.fields.push_back({std::string(name), help, inner.take(), {}});
  }
  void group(const std::vector<std::string>& keys, bool required) override {
    schema_.groups.push_back({keys, required});
  }
  void choice(const char*, bool required, Resume resume) override {
    schema_.choice_required = required;
    schema_.choice_resume = resume;
  }
  void definition(const char* name) override { schema_.definition = name; }
  Schema take() { return std::move(schema_); }

 private:
  void field(const char* key, Value& value, const char* help, const Rule& rule) override {
    Describer describer(rule);
    value.accept(describer);
    schema_.fields.push_back({key, help, describer.take(), emit(value)});
    if (rule.is_shorthand) schema_.shorthand = key;
  }

  Schema schema_;
};

void Describer::section(SectionValue& value) {
  FieldDescriber fields;
  value.list_default_fields(fields);
  schema_ = fields.take();
  schema_.rule = rule_;
}

void collect_keys(const Schema& schema, const std::string& above, std::vector<std::string>& keys) {
  for (const Field& field : schema.fields) {
    const std::string path = above + field.key;
    const bool map = field.schema.kind == Schema::Kind::kMap;
    const bool alternative = schema.is_choice(field.key);
    // A section whose value may be a word, a number or null.
    const bool has_short_form =
        !field.schema.choices.empty() || !field.schema.shorthand.empty() || field.schema.nullable;
    if (!map || alternative || has_short_form) keys.push_back(path);
    if (map) collect_keys(field.schema, path + '.', keys);
  }
}

}  // namespace

const Field* Schema::find(std::string_view key) const {
  const auto found = std::ranges::find(fields, key, &Field::key);
  return found == fields.end() ? nullptr : &*found;
}

bool Schema::is_choice(std::string_view key) const {
  return std::ranges::find(choices, key) != choices.end();
}

std::vector<std::string> Schema::keys() const {
  std::vector<std::string> keys;
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

const Schema& config_schema() {
  static const Schema kSchema = [] {
    FieldDescriber describer;
    Config config;
    fields(describer, config);
    return describer.take();
  }();
  return kSchema;
}

std::string take_step(std::string& path) {
  const std::string step = path.substr(0, path.find('.'));
  path.erase(0, step.size() + 1);
  return step.substr(0, step.find('['));
}

std::vector<std::string> settable_keys() {
  std::vector<std::string> keys;
  collect_keys(config_schema(), "", keys);
  return keys;
}

void expand_top(Node& node, const Schema& written) {
  const Schema& schema = resolved(written);
  if (schema.kind != Schema::Kind::kMap || !node.failure.empty()) return;
  const bool scalar = node.kind == Node::Kind::kScalar;
  if (scalar && schema.rule.or_switch && (node.text == "true" || node.text == "false")) {
    node.kind = node.text == "true" ? Node::Kind::kMap : Node::Kind::kNull;
    node.text.clear();
    return;
  }
  const bool choice = scalar && schema.is_choice(node.text);
  const bool shorthand = !schema.shorthand.empty() && (scalar || node.kind == Node::Kind::kList);
  if (!choice && !shorthand) return;
  Node map = node;
  map.kind = Node::Kind::kMap;
  map.text.clear();
  map.items.clear();
  const std::string key = choice ? node.text : schema.shorthand;
  Node value = choice ? map : std::move(node);
  if (choice) value.kind = Node::Kind::kNull;
  map.entries.push_back({key, map.loc, std::move(value)});
  node = std::move(map);
}

void expand(Node& node, const Schema& written) {
  const Schema& schema = resolved(written);
  expand_top(node, schema);
  if (schema.kind == Schema::Kind::kList && schema.bare_item && node.kind == Node::Kind::kMap) {
    Node list = node;
    list.kind = Node::Kind::kList;
    list.entries.clear();
    list.items.push_back(std::move(node));
    node = std::move(list);
  }
  for (Entry& entry : node.entries) {
    if (const Field* field = schema.find(entry.key)) expand(entry.value, field->schema);
  }
  if (schema.kind != Schema::Kind::kList) return;
  for (Node& item : node.items) expand(item, schema.item.front());
}

}  // namespace trainer::config
