#include "config/describe/schema.h"

#include <algorithm>

#include "config/describe/emit.h"
#include "config/fields.h"

namespace trainer::config {
namespace {

const Schema& layer_schema() {
  return config_schema().find("model")->schema.find("layers")->schema.item.front();
}

class Describer {
 public:
  template <class T>
  void operator()(const char* key, T& value, const char* help, const Rule& rule) {
    out_.fields.push_back({key, help, schema_of(value, rule), MapWriter::emit(value)});
  }
  template <class Activate, class List>
  void alternative(std::string_view name, const char* help, bool, Activate activate, List list) {
    activate();
    Describer inner;
    list(inner);
    out_.choices.emplace_back(name);
    out_.fields.push_back({std::string(name), help, inner.take(), {}});
  }
  void group(std::vector<std::string> keys, bool required) {
    out_.groups.push_back({std::move(keys), required});
  }
  void choice(const char*, bool required, Resume resume = Resume::kWarn) {
    out_.choice_required = required;
    out_.choice_resume = resume;
  }
  void shorthand(const char* key) { out_.shorthand = key; }
  void definition(const char* name) { out_.definition = name; }
  void located(const SourceLoc&) {}
  Schema take() { return std::move(out_); }

 private:
  using Kind = Schema::Kind;
  static Kind kind_of(bool) { return Kind::kBoolean; }
  static Kind kind_of(std::int64_t) { return Kind::kInteger; }
  static Kind kind_of(std::uint64_t) { return Kind::kInteger; }
  static Kind kind_of(double) { return Kind::kNumber; }
  static Kind kind_of(const std::string&) { return Kind::kText; }
  static Kind kind_of(const Duration&) { return Kind::kDuration; }
  static Kind kind_of(const Pair&) { return Kind::kPair; }
  static Kind kind_of(const Padding&) { return Kind::kPadding; }
  static Kind kind_of(const std::array<std::int64_t, 4>&) { return Kind::kFourSides; }
  static Kind kind_of(const Freeze&) { return Kind::kFreeze; }
  static Kind kind_of(const Gpus&) { return Kind::kGpus; }
  static Kind kind_of(const LossScale&) { return Kind::kLossScale; }
  static Kind kind_of(const BatchSize&) { return Kind::kBatchSize; }
  static Kind kind_of(const ClassWeight&) { return Kind::kClassWeight; }
  static Kind kind_of(const ParameterPattern&) { return Kind::kText; }

  template <class T>
  static Schema schema_of(T& value, const Rule& rule) {
    Schema schema;
    if constexpr (std::is_enum_v<T>) {
      schema.kind = Kind::kWord;
      schema.words = enum_words<T>();
    } else if constexpr (requires { kind_of(value); }) {
      schema.kind = kind_of(value);
    } else {
      Describer describer;
      T fresh{};
      fields(describer, fresh);
      schema = describer.take();
    }
    schema.rule = rule;
    return schema;
  }
  template <class T>
  static Schema schema_of(std::optional<T>&, const Rule& rule) {
    T inner{};
    Schema schema = schema_of(inner, rule);
    schema.nullable = true;
    return schema;
  }
  template <class T>
  static Schema schema_of(std::vector<T>&, const Rule& rule) {
    T inner{};
    Schema schema;
    schema.kind = Kind::kList;
    if (rule.recursive) {
      schema.item.emplace_back().definition = "layer";
      schema.item.back().recursive = layer_schema;
    } else {
      schema.item.push_back(schema_of(inner, rule));
    }
    schema.bare_item = std::is_same_v<T, double> || std::is_same_v<T, Unfreeze> || rule.bare;
    schema.rule = rule;
    return schema;
  }

  Schema out_;
};

}  // namespace

const Field* Schema::find(std::string_view key) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

bool Schema::is_choice(std::string_view key) const {
  return std::find(choices.begin(), choices.end(), key) != choices.end();
}

std::vector<std::string> Schema::keys() const {
  std::vector<std::string> keys;
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

const Schema& config_schema() {
  static const Schema kSchema = [] {
    Describer describer;
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

namespace {

void collect_keys(const Schema& schema, const std::string& above, std::vector<std::string>& keys) {
  for (const Field& field : schema.fields) {
    const std::string path = above + field.key;
    const bool map = field.schema.kind == Schema::Kind::kMap;
    const bool alternative = schema.is_choice(field.key);
    // A section whose value may be a word, a number or null.
    const bool in_a_word =
        !field.schema.choices.empty() || !field.schema.shorthand.empty() || field.schema.nullable;
    if (!map || alternative || in_a_word) keys.push_back(path);
    if (map) collect_keys(field.schema, path + '.', keys);
  }
}

}  // namespace

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
