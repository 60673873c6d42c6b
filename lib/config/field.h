// Lists the keys of a config, and shows their values without their types.
//
// Each section has a function fields(FieldVisitor&, Section&) in the source beside its struct,
// which calls the visitor once per key, in the order of the keys. Reading a file (decode.cpp),
// printing the effective config (emit.cpp) and describing the keys (schema.cpp, from which the JSON
// Schema and `trainer explain` are made) are visitors. They see values through the classes below,
// so that none of them is compiled once per section.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/rule.h"
#include "config/values.h"

namespace trainer::config {

class FieldVisitor;
class ScalarValue;
class FreezeValue;
class OptionalValue;
class ListValue;
class SectionValue;

// Handles a value by its form.
class ValueVisitor {
 public:
  virtual ~ValueVisitor() = default;
  virtual void scalar(ScalarValue& value) = 0;
  virtual void optional(OptionalValue& value) = 0;
  virtual void list(ListValue& value) = 0;
  virtual void section(SectionValue& value) = 0;
  // A scalar unless a visitor reads its list of selections.
  virtual void freeze(FreezeValue& value);
};

// Refers to a value of a config, which must outlive it.
class Value {
 public:
  virtual ~Value() = default;
  // Calls the visitor's function for the form of the value.
  virtual void accept(ValueVisitor& visitor) = 0;
};

// A value that one YAML value stands for, be it a scalar or a list such as [height, width].
class ScalarValue : public Value {
 public:
  void accept(ValueVisitor& visitor) override { visitor.scalar(*this); }
  // Read and write the value as config/values.h describes.
  virtual std::string read(const Node& node, const Rule& rule) = 0;
  virtual Node write() const = 0;
  virtual ValueKind kind() const = 0;
  virtual std::vector<std::string> words() const { return {}; }  // kWord: the spellings
};

class OptionalValue : public Value {
 public:
  void accept(ValueVisitor& visitor) final { visitor.optional(*this); }
  virtual bool has_value() const = 0;
  virtual void reset() = 0;
  virtual void emplace() = 0;
  virtual void visit_value(ValueVisitor& visitor) = 0;    // has_value() must hold
  virtual void visit_default(ValueVisitor& visitor) = 0;  // a default value, of no config
};

class ListValue : public Value {
 public:
  void accept(ValueVisitor& visitor) final { visitor.list(*this); }
  virtual std::size_t size() const = 0;
  virtual void resize(std::size_t size) = 0;
  virtual bool holds_sections() const = 0;
  virtual void visit_item(std::size_t index, ValueVisitor& visitor) = 0;
  virtual void visit_default(ValueVisitor& visitor) = 0;  // a default item, of no config
};

class SectionValue : public Value {
 public:
  void accept(ValueVisitor& visitor) final { visitor.section(*this); }
  virtual void list_fields(FieldVisitor& visitor) = 0;
  virtual void list_default_fields(FieldVisitor& visitor) = 0;  // the fields of a default section
};

template <class T>
concept Scalar = requires(const Node& node, T& value, const Rule& rule) {
  read(node, value, rule);
  write(value);
};

// The class for values of a type. Types that are not matched below are sections.
template <class T>
class ValueOf final : public SectionValue {
 public:
  explicit ValueOf(T& value) : value_(value) {}
  void list_fields(FieldVisitor& visitor) override { fields(visitor, value_); }
  void list_default_fields(FieldVisitor& visitor) override {
    T value{};
    fields(visitor, value);
  }

 private:
  T& value_;
};

template <Scalar T>
class ValueOf<T> final : public ScalarValue {
 public:
  explicit ValueOf(T& value) : value_(value) {}
  std::string read(const Node& node, const Rule& rule) override {
    return config::read(node, value_, rule);
  }
  Node write() const override { return config::write(value_); }
  ValueKind kind() const override {
    if constexpr (std::is_enum_v<T>) {
      return ValueKind::kWord;
    } else {
      return value_kind(value_);
    }
  }
  std::vector<std::string> words() const override {
    if constexpr (std::is_enum_v<T>) return enum_words<T>();
    return {};
  }

 private:
  T& value_;
};

class FreezeValue : public ScalarValue {
 public:
  explicit FreezeValue(Freeze& value) : value_(value) {}
  void accept(ValueVisitor& visitor) final { visitor.freeze(*this); }
  std::string read(const Node& node, const Rule& rule) final {
    return config::read(node, value_, rule);
  }
  Node write() const final { return config::write(value_); }
  ValueKind kind() const final { return ValueKind::kFreeze; }
  Freeze& get() { return value_; }

 private:
  Freeze& value_;
};
template <>
class ValueOf<Freeze> final : public FreezeValue {
 public:
  using FreezeValue::FreezeValue;
};
inline void ValueVisitor::freeze(FreezeValue& value) { scalar(value); }

template <class T>
class ValueOf<std::optional<T>> final : public OptionalValue {
 public:
  explicit ValueOf(std::optional<T>& value) : value_(value) {}
  bool has_value() const override { return value_.has_value(); }
  void reset() override { value_.reset(); }
  void emplace() override { value_.emplace(); }
  void visit_value(ValueVisitor& visitor) override { ValueOf<T>(*value_).accept(visitor); }
  void visit_default(ValueVisitor& visitor) override {
    T value{};
    ValueOf<T>(value).accept(visitor);
  }

 private:
  std::optional<T>& value_;
};

template <class T>
class ValueOf<std::vector<T>> final : public ListValue {
 public:
  explicit ValueOf(std::vector<T>& value) : value_(value) {}
  std::size_t size() const override { return value_.size(); }
  void resize(std::size_t size) override { value_.resize(size); }
  bool holds_sections() const override { return !Scalar<T>; }
  void visit_item(std::size_t index, ValueVisitor& visitor) override {
    ValueOf<T>(value_[index]).accept(visitor);
  }
  void visit_default(ValueVisitor& visitor) override {
    T value{};
    ValueOf<T>(value).accept(visitor);
  }

 private:
  std::vector<T>& value_;
};

// Visits the keys of a section, in their order.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  // A key with its value. `help` is what the reference and `trainer explain` print.
  template <class T>
  void operator()(const char* key, T& value, const char* help, const Rule& rule = {}) {
    ValueOf<T> shown(value);
    field(key, shown, help, rule);
  }
  // One number may stand for a list of numbers, unless the list needs more of them.
  void operator()(const char* key, std::vector<double>& value, const char* help,
                  const Rule& rule = {}) {
    ValueOf<std::vector<double>> shown(value);
    field(key, shown, help, rule.min_items > 1 ? rule : rule.allow_scalar());
  }

  // One of the keys that exclude each other and that choice() announces. `active`: the section
  // holds this alternative. activate() makes it hold this one; list() lists the keys below it.
  virtual void alternative(std::string_view key, const char* help, bool active,
                           const std::function<void()>& activate,
                           const std::function<void(FieldVisitor&)>& list) = 0;
  // The alternatives that follow exclude each other. `what` names one in messages. `required`: one
  // must be given. `resume`: whether another one may be chosen when a run is resumed.
  virtual void choice(const char* /*what*/, bool /*required*/, Resume = Resume::kWarn) {}
  // At most one of these keys, or with `required` exactly one, is given.
  virtual void group(const std::vector<std::string>& /*keys*/, bool /*required*/) {}
  // The name of the section in the JSON Schema and the reference, where it is used several times.
  virtual void definition(const char* /*name*/) {}
  // Sets where the section stands in the file.
  virtual void located(SourceLoc& /*loc*/) {}

 protected:
  virtual void field(const char* key, Value& value, const char* help, const Rule& rule) = 0;
};

// Lists an alternative of a std::variant whose fields stand below `key`.
template <class T, class Variant>
void kind(FieldVisitor& v, Variant& value, const char* key, const char* help) {
  v.alternative(
      key, help, std::holds_alternative<T>(value), [&] { value.template emplace<T>(); },
      [&](FieldVisitor& inner) { fields(inner, std::get<T>(value)); });
}

}  // namespace trainer::config
