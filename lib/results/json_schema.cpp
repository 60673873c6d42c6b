#include "results/json_schema.h"

#include <nlohmann/json.hpp>

namespace trainer::results {

NLOHMANN_JSON_SERIALIZE_ENUM(Form::Kind, {{Form::Kind::kBoolean, "boolean"},
                                          {Form::Kind::kInteger, "integer"},
                                          {Form::Kind::kNumber, "number"},
                                          {Form::Kind::kText, "string"},
                                          {Form::Kind::kList, "array"},
                                          {Form::Kind::kMap, "object"},
                                          {Form::Kind::kObject, "object"}})

namespace {

using Json = nlohmann::ordered_json;

Json describe_key(const KeyDescription& key) {
  Json schema = to_json_schema(key.form);
  const std::string unit(key.unit.name);
  schema["description"] = key.meaning + (unit.empty() ? "" : " Unit: " + unit + '.');
  return schema;
}

Json describe_object(const std::vector<KeyDescription>& keys) {
  Json properties = Json::object(), required = Json::array();
  for (const KeyDescription& key : keys) {
    properties[key.key] = describe_key(key);
    if (!key.may_be_absent) required.push_back(key.key);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json describe_form(const Form& form) {
  if (form.kind == Form::Kind::kObject && form.alternatives.empty()) {
    return describe_object(form.keys);
  }
  if (form.kind == Form::Kind::kObject) {
    Json any = Json::array();
    for (const std::vector<KeyDescription>& keys : list_alternatives(form)) {
      any.push_back(describe_object(keys));
    }
    return {{"anyOf", std::move(any)}};
  }
  Json schema{{"type", form.kind}};
  if (!form.words.empty()) schema["enum"] = form.words;
  if (form.kind == Form::Kind::kList) schema["items"] = to_json_schema(form.items.front());
  if (form.kind == Form::Kind::kMap) {
    schema["additionalProperties"] = to_json_schema(form.items.front());
  }
  return schema;
}

}  // namespace

Json to_json_schema(const Form& form) {
  Json schema = describe_form(form);
  if (!form.may_be_null) return schema;
  return {{"anyOf", Json::array({std::move(schema), Json{{"type", "null"}}})}};
}

}  // namespace trainer::results
