#include <cmath>
#include <nlohmann/json.hpp>

#include "config/describe/schema.h"

namespace trainer::config {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

Json to_default(const Node& node) {
  if (node.kind == Node::Kind::kList) {
    Json list = Json::array();
    for (const Node& item : node.items) list.push_back(to_default(item));
    return list;
  }
  if (node.kind != Node::Kind::kScalar) return nullptr;
  if (node.quoted) return node.text;
  const Json value = Json::parse(node.text, nullptr, false);
  return value.is_discarded() ? Json(node.text) : value;
}

// Returns the words of a schema; one that is a number in YAML, such as 0, also as a number.
Json list_words(const Schema& schema) {
  Json words = schema.words;
  for (const std::string& word : schema.words) {
    if (word.find_first_not_of("0123456789") == std::string::npos) words.push_back(std::stoi(word));
  }
  return words;
}

class Writer {
 public:
  // Returns everything that the value accepts, as anyOf.
  Json value(const Schema& schema) {
    if (schema.definition.empty()) return alternatives(schema);
    if (!definitions_.contains(schema.definition)) {
      definitions_[schema.definition] = nullptr;
      definitions_[schema.definition] = alternatives(schema);
    }
    return reference(schema.definition);
  }
  Json map(const Schema& schema);
  Json definitions() { return definitions_; }

 private:
  Json alternatives(const Schema& schema) {
    Json any = Json::array();
    for (Json& one : forms(schema)) any.push_back(std::move(one));
    if (schema.nullable || schema.kind == Schema::Kind::kMap) any.push_back({{"type", "null"}});
    if (schema.kind == Schema::Kind::kMap || schema.kind == Schema::Kind::kList) {
      if (schema.choices.empty()) return any.size() == 1 ? any[0] : Json{{"anyOf", any}};
    }
    any.push_back(reference("environment"));
    return {{"anyOf", any}};
  }

  static Json number(const Schema& schema, const char* type) {
    Json json{{"type", type}};
    const Rule& rule = schema.rule;
    if (std::isfinite(rule.low)) json[rule.low_open ? "exclusiveMinimum" : "minimum"] = rule.low;
    if (std::isfinite(rule.high)) json[rule.high_open ? "exclusiveMaximum" : "maximum"] = rule.high;
    return json;
  }
  static Json numbers(const Schema& schema, std::size_t count) {
    return {{"type", "array"},
            {"items", {{"anyOf", {number(schema, "integer"), reference("environment")}}}},
            {"minItems", count},
            {"maxItems", count}};
  }

  std::vector<Json> forms(const Schema& schema);
  Json list(const Schema& schema);

  Json definitions_ = Json::object();
};

Json Writer::list(const Schema& schema) {
  Json json{{"type", "array"}, {"items", value(schema.item.front())}};
  const Rule& rule = schema.rule;
  if (rule.min_items == 0) return json;
  Json size{{"minItems", rule.min_items}};
  if (rule.min_items == rule.max_items) size["maxItems"] = rule.max_items;
  if (rule.is_required || rule.never_empty) {
    json.update(size);
  } else {
    json["anyOf"] = {size, {{"maxItems", 0}}};
  }
  return json;
}

std::vector<Json> Writer::forms(const Schema& schema) {
  using Kind = Schema::Kind;
  switch (schema.kind) {
    case Kind::kBoolean:
      return {{{"type", "boolean"}}};
    case Kind::kInteger:
      return {number(schema, "integer")};
    case Kind::kNumber:
      return {number(schema, "number")};
    case Kind::kText:  // any scalar is a text as it is written
      return {{{"type", {"string", "number", "boolean"}}}};
    case Kind::kWord:
      return {{{"enum", list_words(schema)}}};
    case Kind::kDuration: {
      const std::string units = schema.rule.seconds ? "(step|epoch|second)s?" : "(step|epoch)s?";
      return {{{"type", "string"}, {"pattern", "^[0-9.eE+-]+ +" + units + "$"}}};
    }
    case Kind::kPair:
      return {number(schema, "integer"), numbers(schema, 2)};
    case Kind::kPadding:
      return {{{"enum", {"valid", "same"}}}, numbers(schema, 4)};
    case Kind::kFourSides:
      return {number(schema, "integer"), numbers(schema, 4)};
    case Kind::kFreeze:
      return {{{"type", "string"}},
              {{"type", "integer"}, {"minimum", 0}},
              {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}};
    case Kind::kGpus:
      return {{{"enum", {"all"}}},
              {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxReplicas}},
              {{"type", "array"},
               {"items", {{"anyOf", {number(schema, "integer"), reference("environment")}}}},
               {"minItems", 1},
               {"maxItems", kMaxReplicas}}};
    case Kind::kLossScale:
      return {{{"enum", {"dynamic"}}}, number(schema, "number")};
    case Kind::kClusterSize:
      return {{{"const", true}}, number(schema, "integer")};
    case Kind::kBatchSize:
      return {{{"enum", {"auto"}}}, number(schema, "integer")};
    case Kind::kValueRange:
      return {{{"enum", {"auto"}}}, numbers(schema, 2)};
    case Kind::kLoopValues:
      return {{{"type", "object"},
               {"additionalProperties", {{"type", "array"}, {"minItems", 1}}},
               {"minProperties", 1}}};
    case Kind::kClassWeight: {
      const Json weight{{"anyOf", {number(schema, "number"), reference("environment")}}};
      return {{{"enum", {"balanced"}}},
              {{"type", "object"}, {"additionalProperties", weight}, {"minProperties", 1}}};
    }
    case Kind::kList: {
      std::vector<Json> forms{list(schema)};
      if (schema.bare_item) forms.push_back(value(schema.item.front()));
      if (!schema.rule.is_required && !schema.rule.never_empty) forms.push_back({{"type", "null"}});
      return forms;
    }
    case Kind::kMap:
      break;
  }
  std::vector<Json> forms{map(schema)};
  if (!schema.choices.empty()) forms.push_back({{"enum", schema.choices}});
  if (schema.rule.or_switch) forms.push_back({{"type", "boolean"}});
  if (!schema.shorthand.empty()) forms.push_back(value(schema.find(schema.shorthand)->schema));
  return forms;
}

// Returns a schema that accepts at most one of the keys, or with `required` exactly one. With
// `null_is_none`, a key whose value is null counts as not given.
Json exclusive(const std::vector<std::string>& keys, bool required, bool null_is_none) {
  Json options = Json::array();
  for (const std::string& key : keys) {
    Json one{{"required", {key}}};
    if (null_is_none) one["properties"] = {{key, {{"not", {{"type", "null"}}}}}};
    options.push_back(one);
  }
  if (!required) {
    const Json none{{"not", {{"anyOf", options}}}};
    options.push_back(none);
  }
  return {{"oneOf", options}};
}

Json Writer::map(const Schema& schema) {
  Json properties = Json::object(), required = Json::array(), groups = Json::array();
  for (const Field& field : schema.fields) {
    Json property = value(field.schema);
    property["description"] = field.help;
    const bool plain = field.initial.kind == Node::Kind::kScalar ||
                       (field.initial.kind == Node::Kind::kList && !field.initial.items.empty());
    if (plain && !field.schema.rule.is_required) property["default"] = to_default(field.initial);
    for (const Entry& entry : field.initial.entries) {
      if (field.schema.is_choice(entry.key)) property["default"] = entry.key;
    }
    properties[field.key] = std::move(property);
    if (field.schema.rule.is_required) required.push_back(field.key);
  }
  Json json{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) json["required"] = required;
  if (!schema.choices.empty()) {
    groups.push_back(exclusive(schema.choices, schema.choice_required, false));
  }
  for (const Schema::Group& group : schema.groups) {
    groups.push_back(exclusive(group.keys, group.required, true));
  }
  if (groups.size() == 1) json.update(groups[0]);
  if (groups.size() > 1) json["allOf"] = groups;
  return json;
}

}  // namespace

std::string json_schema() {
  Writer writer;
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"$id", "urn:trainer:config"},
              {"title", "trainer config"}};
  Json keys = writer.map(config_schema());
  keys["patternProperties"] = {{"^x-", Json::object()}};
  // In a config that extends another, only the names of keys can be checked: required keys may be
  // in the other file.
  Json extending = {{"type", "object"}, {"patternProperties", keys["patternProperties"]}};
  extending["properties"] = {
      {"extends", {{"type", "string"}, {"description", "The config that this one changes."}}}};
  for (const Field& field : config_schema().fields) {
    extending["properties"][field.key] = {{"description", field.help}};
  }
  extending["additionalProperties"] = false;
  schema["if"] = {{"required", {"extends"}}};
  schema["then"] = extending;
  schema["else"] = keys;
  schema["$defs"] = writer.definitions();
  schema["$defs"]["environment"] = {{"type", "string"},
                                    {"pattern", "\\$\\{|^\\$[A-Za-z_]"},
                                    {"description",
                                     "A value from the environment: ${NAME} or "
                                     "${NAME:-default}. In a repeat over values: $NAME."}};
  return schema.dump(2) + '\n';
}

}  // namespace trainer::config
