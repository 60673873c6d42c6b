#include "commands/explain/explain_result.h"

#include "base/error.h"
#include "base/text.h"
#include "results/catalogue.h"

namespace trainer::commands {
namespace {

using results::Form;
using results::KeyDescription;

std::string describe_form(const Form& form);

std::string describe_kind(const Form& form) {
  switch (form.kind) {
    case Form::Kind::kBoolean:
      return "true or false";
    case Form::Kind::kInteger:
      return "a whole number";
    case Form::Kind::kNumber:
      return "a number";
    case Form::Kind::kText:
      return form.words.size() == 1 ? "the text " + form.words.front()
             : form.words.empty()   ? "a text"
                                    : "one of " + join(form.words);
    case Form::Kind::kList:
      return concat("a list, each ", describe_form(form.items.front()));
    case Form::Kind::kMap:
      return concat("an object by name, each ", describe_form(form.items.front()));
    case Form::Kind::kObject:
      return "an object";
  }
  return "";
}

std::string describe_form(const Form& form) {
  return describe_kind(form) + (form.may_be_null ? " or null" : "");
}

std::string describe_values(const KeyDescription& key) {
  std::string text = describe_form(key.form);
  if (!key.unit.name.empty()) text += concat(", unit: ", key.unit.name);
  return key.may_be_absent ? text + "; may be absent" : text;
}

void add_keys(const std::vector<KeyDescription>& keys, const std::string& above,
              std::vector<ExplainedOutput>& outputs) {
  for (const KeyDescription& key : keys) {
    std::string path = above + key.key;
    outputs.push_back({path, describe_values(key), key.meaning});
    const Form* form = &key.form;
    for (; !form->items.empty(); form = &form->items.front()) {
      path += form->kind == Form::Kind::kMap ? ".NAME" : "[]";
    }
    if (form->kind != Form::Kind::kObject) continue;
    for (const auto& inner : list_alternatives(*form)) add_keys(inner, path + '.', outputs);
  }
}

}  // namespace

std::vector<std::vector<ExplainedOutput>> list_outputs(const std::string& result) {
  std::vector<std::vector<ExplainedOutput>> lists;
  for (const auto& keys : list_alternatives(results::find_description(result).form)) {
    add_keys(keys, "", lists.emplace_back());
  }
  return lists;
}

std::string explain_result(const std::string& result) {
  std::string text = results::find_description(result).meaning + '\n';
  for (const std::vector<ExplainedOutput>& outputs : list_outputs(result)) {
    text += '\n';
    for (const ExplainedOutput& output : outputs) {
      text += concat(output.path, "  ", output.value, "\n    ", output.meaning, '\n');
    }
  }
  return text;
}

}  // namespace trainer::commands
