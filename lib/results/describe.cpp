#include "results/describe.h"

namespace trainer::results {
namespace {

class Describer final : public ValueVisitor, private FieldVisitor {
 public:
  explicit Describer(Unit unit) : unit_(unit) {}
  Form take() { return std::move(form_); }

  void boolean(bool&) override { form_.kind = Form::Kind::kBoolean; }
  void integer(std::int64_t&, std::int64_t) override { form_.kind = Form::Kind::kInteger; }
  void number(double&) override {
    form_.kind = Form::Kind::kNumber;
    form_.may_be_null = unit_.allows_null;
  }
  void text(std::string&) override { form_.kind = Form::Kind::kText; }
  void word(std::string&, const std::vector<std::string>& words) override {
    form_.kind = Form::Kind::kText;
    form_.words = words;
  }
  void optional(Items& value) override {
    value.visit_default(
        [this](const std::string&, Value& item) { form_ = describe_value(item, unit_); });
    form_.may_be_null = true;
  }
  void list(Items& value) override { describe_items(Form::Kind::kList, value); }
  void map(Items& value) override { describe_items(Form::Kind::kMap, value); }
  void object(Object& value) override {
    form_.kind = Form::Kind::kObject;
    value.list_fields(*this);
  }

 private:
  void describe_items(Form::Kind kind, Items& value) {
    form_.kind = kind;
    value.visit_default([this](const std::string&, Value& item) {
      form_.items.push_back(describe_value(item, unit_));
    });
  }
  void field(const Field& field, Value& value) override {
    form_.keys.push_back({field.key, field.unit, field.meaning, field.may_be_absent,
                          describe_value(value, field.unit)});
  }

  void choice(Choice& choice) override {
    for (std::size_t i = 0; i < choice.size(); ++i) {
      choice.activate(i);
      Describer alternative(unit_);
      choice.list_fields(alternative);
      form_.alternatives.push_back(alternative.take());
    }
  }

  Unit unit_;
  Form form_;
};

}  // namespace

Form describe_value(Value& value, Unit unit) {
  Describer describer(unit);
  value.accept(describer);
  return describer.take();
}

std::vector<std::vector<KeyDescription>> list_alternatives(const Form& form) {
  if (form.alternatives.empty()) return {form.keys};
  std::vector<std::vector<KeyDescription>> lists;
  for (const Form& alternative : form.alternatives) {
    for (const std::vector<KeyDescription>& further : list_alternatives(alternative)) {
      std::vector<KeyDescription>& keys = lists.emplace_back(form.keys);
      keys.insert(keys.end(), further.begin(), further.end());
    }
  }
  return lists;
}

}  // namespace trainer::results
