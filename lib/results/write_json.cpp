#include "results/write_json.h"

#include <cmath>

#include "base/formats/json.h"

namespace trainer::results {
namespace {

using Json = nlohmann::ordered_json;

class JsonWriter final : public ValueVisitor, private FieldVisitor {
 public:
  explicit JsonWriter(Json& json) : json_(json) {}

  void boolean(bool& value) override { json_ = value; }
  void integer(std::int64_t& value, std::int64_t) override { json_ = value; }
  void number(double& value) override { json_ = std::isfinite(value) ? Json(value) : Json(); }
  void text(std::string& value) override { json_ = value; }
  void word(std::string& value, const std::vector<std::string>&) override { json_ = value; }
  void optional(Items& value) override {
    value.for_each([this](const std::string&, Value& item) { json_ = write_json(item); });
  }
  void list(Items& value) override {
    json_ = Json::array();
    value.for_each([this](const std::string&, Value& item) { json_.push_back(write_json(item)); });
  }
  void map(Items& value) override {
    json_ = Json::object();
    value.for_each([this](const std::string& name, Value& item) {
      append_key(json_, name, write_json(item));
    });
  }
  void object(Object& value) override {
    json_ = Json::object();
    value.list_fields(*this);
  }

 private:
  void field(const Field& field, Value& value) override {
    if (field.may_be_absent && value.is_empty()) return;
    append_key(json_, field.key, write_json(value));
  }

  void choice(Choice& choice) override { choice.list_fields(*this); }

  Json& json_;
};

}  // namespace

Json write_json(Value& value) {
  Json json;
  JsonWriter writer(json);
  value.accept(writer);
  return json;
}

std::string write_line(Value& value) { return to_json_line(write_json(value)) + "\n"; }

}  // namespace trainer::results
