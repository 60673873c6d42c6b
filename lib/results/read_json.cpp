#include "results/read_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/formats/json_number.h"
#include "base/text.h"

namespace trainer::results {
namespace {

using Json = nlohmann::ordered_json;

// Counts the keys that an object should have and lacks.
class MissingKeys final : private FieldVisitor {
 public:
  static std::size_t count(const Json& json, Choice& choice) {
    MissingKeys missing(json);
    choice.list_fields(missing);
    return missing.count_;
  }

 private:
  explicit MissingKeys(const Json& json) : json_(json) {}
  void field(const Field& field, Value&) override {
    const bool is_needed = !field.may_be_absent && !field.may_be_missing;
    count_ += is_needed && !json_.contains(field.key) ? 1 : 0;
  }
  void choice(Choice& choice) override { choice.list_fields(*this); }

  const Json& json_;
  std::size_t count_ = 0;
};

class JsonReader final : public ValueVisitor, private FieldVisitor {
 public:
  // `path`: the keys that lead to the value: "classes[2].roc". The references outlive the reader.
  JsonReader(const Json& json, const JsonSource& source, std::string path, Unit unit)
      : json_(json), source_(source), path_(std::move(path)), unit_(unit) {}

  void boolean(bool& value) override {
    expect(json_.is_boolean(), "true or false");
    value = json_.get<bool>();
  }
  void integer(std::int64_t& value, std::int64_t max) override {
    const std::optional<std::int64_t> number = whole_number(json_);
    expect(number.has_value(), "a whole number");
    value = *number;
    expect(value <= max, concat("at most ", max));
    check_range(static_cast<double>(value));
  }
  void number(double& value) override {
    value = std::numeric_limits<double>::quiet_NaN();
    if (json_.is_null() && unit_.allows_null) return;
    expect(json_.is_number(), "a number");
    value = json_.get<double>();
    check_range(value);
  }
  void text(std::string& value) override {
    expect(json_.is_string(), "a text");
    value = json_.get<std::string>();
  }
  void word(std::string& value, const std::vector<std::string>& words) override {
    text(value);
    expect(std::ranges::find(words, value) != words.end(), "one of " + join(words, ", "));
  }
  void optional(Items& value) override {
    value.clear();
    if (json_.is_null()) return;
    value.append("", [this](const std::string&, Value& item) { read(json_, path_, item); });
  }
  void list(Items& value) override {
    expect(json_.is_array(), "a list");
    value.clear();
    for (std::size_t i = 0; i < json_.size(); ++i) {
      value.append("", [this, i](const std::string&, Value& item) {
        read(json_[i], concat(path_, '[', i, ']'), item);
      });
    }
  }
  void map(Items& value) override {
    expect(json_.is_object(), "an object");
    value.clear();
    for (const auto& entry : json_.items()) {
      value.append(entry.key(), [&](const std::string& name, Value& item) {
        read(entry.value(), join_path(name), item);
      });
    }
  }
  void object(Object& value) override {
    expect(json_.is_object(), "an object");
    value.list_fields(*this);
  }

 private:
  void field(const Field& field, Value& value) override {
    const auto found = json_.find(field.key);
    if (found == json_.end()) {
      if (field.may_be_absent || field.may_be_missing) return;
      fail("lacks the key " + join_path(field.key));
    }
    JsonReader reader(*found, source_, join_path(field.key), field.unit);
    value.accept(reader);
  }

  // Reads the alternative that lacks the fewest keys.
  void choice(Choice& choice) override {
    std::size_t best = 0, fewest = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < choice.size(); ++i) {
      choice.activate(i);
      const std::size_t missing = MissingKeys::count(json_, choice);
      if (missing < fewest) std::tie(best, fewest) = std::pair(i, missing);
    }
    choice.activate(best);
    choice.list_fields(*this);
  }

  void read(const Json& json, const std::string& path, Value& value) const {
    JsonReader reader(json, source_, path, unit_);
    value.accept(reader);
  }
  std::string join_path(const std::string& key) const {
    return path_.empty() ? key : concat(path_, '.', key);
  }

  void check_range(double value) const {
    expect(value >= unit_.min && value <= unit_.max,
           std::isinf(unit_.max) ? concat("at least ", unit_.min)
                                 : concat("from ", unit_.min, " to ", unit_.max));
  }
  void expect(bool holds, const std::string& expected) const {
    if (holds) return;
    const std::string found = json_.is_number() ? json_.dump() : std::string(json_.type_name());
    fail(concat("the value of ", path_.empty() ? "the file" : path_, " is not ", expected,
                ", but: ", found));
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw DataError(source_.file, "is damaged: ", message, source_.advice.empty() ? "" : "; ",
                    source_.advice);
  }

  const Json& json_;
  const JsonSource& source_;
  std::string path_;
  Unit unit_;
};

}  // namespace

void read_json(const Json& json, const JsonSource& source, Value& value) {
  JsonReader reader(json, source, "", kNoUnit);
  value.accept(reader);
}

Json parse_line(const std::string& line) {
  Json json = is_shallow_json(line) ? Json::parse(line, nullptr, false) : Json();
  return json.is_discarded() ? Json() : json;
}

std::optional<Json> read_json_file(const JsonSource& source) {
  if (!std::filesystem::exists(source.file)) return std::nullopt;
  Json json = parse_line(read_text_file(source.file));
  if (json.is_object()) return json;
  throw DataError(source.file, "is damaged: it does not hold a JSON object",
                  source.advice.empty() ? "" : "; ", source.advice);
}

}  // namespace trainer::results
