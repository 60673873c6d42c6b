// Lists the keys of a result: of a file of a run, or of what a command prints with --json.
//
// Each result is a struct with a function fields(FieldVisitor&, Result&) beside it, which calls the
// visitor once per key, in the order of the JSON. Writing and reading JSON (json.h) and describing
// the keys (describe.h, from which the JSON Schema and `trainer explain --result` are made) are
// visitors. They see values by their form, so that none of them is compiled once per result.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/spelling.h"

namespace trainer::results {

class FieldVisitor;
class ValueVisitor;

// The unit of a number, and the range outside of which a file is damaged.
struct Unit {
  std::string_view name;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool allows_null = true;  // null stands for a number that is not finite

  constexpr Unit(const char* unit) : name(unit) {}
  constexpr Unit(const char* unit, double lowest,
                 double highest = std::numeric_limits<double>::infinity())
      : name(unit), min(lowest), max(highest) {}
  constexpr Unit never_null() const {
    Unit unit = *this;
    unit.allows_null = false;
    return unit;
  }
};
inline constexpr Unit kNoUnit{""};
inline constexpr Unit kShare{"share", 0, 1 + 1e-9};       // may be rounded up
inline constexpr Unit kSamples{"samples", 0, 1LL << 40};  // sums of them do not overflow
inline constexpr Unit kSteps{"steps", 0};
inline constexpr Unit kSeconds{"s", 0};
inline constexpr Unit kBytes{"bytes", 0};
inline constexpr Unit kImagesPerSecond{"images/s", 0};

// Refers to a value of a result, which must outlive it.
class Value {
 public:
  virtual ~Value() = default;
  // Calls the visitor's function for the form of the value.
  virtual void accept(ValueVisitor& visitor) = 0;
  // Returns whether when_present() leaves the key out.
  virtual bool is_empty() const { return false; }
};

// The values of an optional (at most one), of a list, or of a map, whose values have names.
class Items : public Value {
 public:
  using Use = std::function<void(const std::string& name, Value& value)>;
  // Visits the items in their order.
  virtual void for_each(const Use& use) = 0;
  virtual void clear() = 0;
  // Visits a new item, or that of a map that has this name. An optional has one item at most.
  virtual void append(const std::string& name, const Use& use) = 0;
  // Visits a default item that belongs to no result.
  virtual void visit_default(const Use& use) const = 0;
};

// The keys of a nested result.
class Object : public Value {
 public:
  virtual void list_fields(FieldVisitor& visitor) = 0;
};

// A std::variant of results: an object has the keys of one of them.
class Choice {
 public:
  virtual ~Choice() = default;
  virtual std::size_t size() const = 0;
  // Makes the value a default one of the alternative.
  virtual void activate(std::size_t alternative) = 0;
  virtual void list_fields(FieldVisitor& visitor) = 0;
};

// Handles a value by its form.
class ValueVisitor {
 public:
  virtual ~ValueVisitor() = default;
  virtual void boolean(bool& value) = 0;
  // `max`: the largest number that both the type of the member and std::int64_t have.
  virtual void integer(std::int64_t& value, std::int64_t max) = 0;
  virtual void number(double& value) = 0;  // null in JSON if it is not finite
  virtual void text(std::string& value) = 0;
  // A text that is one of `words`.
  virtual void word(std::string& value, const std::vector<std::string>& words) = 0;
  virtual void optional(Items& value) = 0;  // null in JSON if it is empty
  virtual void list(Items& value) = 0;
  virtual void map(Items& value) = 0;
  virtual void object(Object& value) = 0;
};

// The class for values of a type. Types that are not matched below are results.
template <class T>
class ValueOf final : public Object {
 public:
  explicit ValueOf(T& value) : value_(value) {}
  void accept(ValueVisitor& visitor) override { visitor.object(*this); }
  void list_fields(FieldVisitor& visitor) override { fields(visitor, value_); }

 private:
  T& value_;
};

template <class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string> ||
    std::same_as<T, std::filesystem::path>
class ValueOf<T> final : public Value {
 public:
  explicit ValueOf(T& value) : value_(value) {}
  void accept(ValueVisitor& visitor) override {
    if constexpr (std::same_as<T, bool>) {
      visitor.boolean(value_);
    } else if constexpr (std::integral<T>) {
      constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
      auto number = static_cast<std::int64_t>(value_);
      visitor.integer(number, std::in_range<T>(kMax)
                                  ? kMax
                                  : static_cast<std::int64_t>(std::numeric_limits<T>::max()));
      assign(static_cast<T>(number));
    } else if constexpr (std::same_as<T, double>) {
      visitor.number(value_);
    } else if constexpr (std::same_as<T, std::string>) {
      visitor.text(value_);
    } else if constexpr (std::same_as<T, std::filesystem::path>) {
      std::string path = value_.string();
      visitor.text(path);
      assign(path);
    } else {
      std::string word(spell(value_));
      visitor.word(word, enum_words<T>());
      assign(parse_enum<T>(word).value_or(value_));
    }
  }
  bool is_empty() const override {
    if constexpr (std::same_as<T, double>) {
      return std::isnan(value_);
    } else if constexpr (std::integral<T>) {
      return value_ == 0;
    } else if constexpr (std::is_enum_v<T>) {
      return false;
    } else {
      return value_.empty();
    }
  }

 private:
  // Leaves a value alone that a visitor did not change, because it may be constant.
  void assign(T value) {
    if (value != value_) value_ = value;
  }
  T& value_;
};

// Items of the type T in a Container.
template <class Container, class T>
class ItemsOf : public Items {
 public:
  explicit ItemsOf(Container& items) : items_(items) {}
  void visit_default(const Use& use) const final {
    T item{};
    visit("", item, use);
  }

 protected:
  static void visit(const std::string& name, T& item, const Use& use) {
    ValueOf<T> value(item);
    use(name, value);
  }
  Container& items_;
};

template <class T>
class ValueOf<std::optional<T>> final : public ItemsOf<std::optional<T>, T> {
 public:
  using ItemsOf<std::optional<T>, T>::ItemsOf;
  using Use = Items::Use;
  void accept(ValueVisitor& visitor) override { visitor.optional(*this); }
  bool is_empty() const override { return !this->items_; }
  void for_each(const Use& use) override {
    if (this->items_) this->visit("", *this->items_, use);
  }
  void clear() override { this->items_.reset(); }
  void append(const std::string& name, const Use& use) override {
    this->visit(name, this->items_.emplace(), use);
  }
};

template <class T>
class ValueOf<std::vector<T>> final : public ItemsOf<std::vector<T>, T> {
 public:
  using ItemsOf<std::vector<T>, T>::ItemsOf;
  using Use = Items::Use;
  void accept(ValueVisitor& visitor) override { visitor.list(*this); }
  bool is_empty() const override { return this->items_.empty(); }
  void for_each(const Use& use) override {
    for (T& item : this->items_) this->visit("", item, use);
  }
  void clear() override { this->items_.clear(); }
  void append(const std::string& name, const Use& use) override {
    this->visit(name, this->items_.emplace_back(), use);
  }
};

// Values by name: a list of pairs keeps the order in which they were added, a map sorts them.
template <class Map, class T>
class NamedItems : public ItemsOf<Map, T> {
 public:
  using ItemsOf<Map, T>::ItemsOf;
  using Use = Items::Use;
  void accept(ValueVisitor& visitor) final { visitor.map(*this); }
  bool is_empty() const final { return this->items_.empty(); }
  void for_each(const Use& use) final {
    for (auto& item : this->items_) this->visit(item.first, item.second, use);
  }
  void clear() final { this->items_.clear(); }
  void append(const std::string& name, const Use& use) final {
    const typename Map::value_type item{name, T{}};
    this->visit(name, this->items_.insert(this->items_.end(), item)->second, use);
  }
};

template <class T>
class ValueOf<std::vector<std::pair<std::string, T>>> final
    : public NamedItems<std::vector<std::pair<std::string, T>>, T> {
 public:
  using NamedItems<std::vector<std::pair<std::string, T>>, T>::NamedItems;
};

template <class T>
class ValueOf<std::map<std::string, T>> final : public NamedItems<std::map<std::string, T>, T> {
 public:
  using NamedItems<std::map<std::string, T>, T>::NamedItems;
};

// A text that is always the same.
class Constant final : public Value {
 public:
  explicit Constant(const char* text) : text_(text) {}
  void accept(ValueVisitor& visitor) override {
    std::string text = text_;
    visitor.word(text, {text});
  }

 private:
  const char* text_;
};

struct Field {
  const char* key;
  Unit unit;
  const char* meaning;
  bool may_be_absent;           // see when_present()
  bool may_be_missing = false;  // see newer()
};

// Visits the keys of a result, in their order.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  // A key that every such result has. `unit` applies to the numbers of a list or map, too.
  template <class T>
  void operator()(const char* key, T& value, Unit unit, const char* meaning) {
    ValueOf<T> shown(value);
    field({key, unit, meaning, false}, shown);
  }
  template <class T>
  void operator()(const char* key, T& value, const char* meaning) {
    (*this)(key, value, kNoUnit, meaning);
  }
  // A key that is left out while its value is empty: an optional, text, list or map without
  // content, false, a whole number that is 0, or NaN. Reading leaves the member alone where the key
  // is absent.
  template <class T>
  void when_present(const char* key, T&& value, Unit unit, const char* meaning) {
    ValueOf<std::remove_reference_t<T>> shown(value);
    field({key, unit, meaning, true}, shown);
  }
  template <class T>
  void when_present(const char* key, T&& value, const char* meaning) {
    when_present(key, value, kNoUnit, meaning);
  }
  // A key that files of older versions may lack. Reading leaves the member alone where it is
  // absent.
  template <class T>
  void newer(const char* key, T& value, const char* meaning) {
    ValueOf<T> shown(value);
    field({key, kNoUnit, meaning, false, true}, shown);
  }
  // A key whose value is computed from other members. Reading checks its type and drops it.
  template <class T>
  void derived(const char* key, T value, Unit unit, const char* meaning) {
    (*this)(key, value, unit, meaning);
  }
  template <class T>
  void derived(const char* key, T value, const char* meaning) {
    (*this)(key, value, kNoUnit, meaning);
  }
  // The key by which programs recognise a line of JSON. It always has this text.
  void event(const char* name);
  virtual void choice(Choice& choice) = 0;

 protected:
  virtual void field(const Field& field, Value& value) = 0;
};

inline void FieldVisitor::event(const char* name) {
  Constant value(name);
  field({"event", kNoUnit, "The kind of line.", false}, value);
}

template <class... T>
void fields(FieldVisitor& v, std::variant<T...>& value) {
  class ChoiceOf final : public Choice {
   public:
    explicit ChoiceOf(std::variant<T...>& chosen) : chosen_(chosen) {}
    std::size_t size() const override { return sizeof...(T); }
    void activate(std::size_t alternative) override {
      std::size_t i = 0;
      ((i++ == alternative ? void(chosen_.template emplace<T>()) : void()), ...);
    }
    void list_fields(FieldVisitor& visitor) override {
      std::visit([&](auto& result) { fields(visitor, result); }, chosen_);
    }

   private:
    std::variant<T...>& chosen_;
  };
  ChoiceOf choice(value);
  v.choice(choice);
}

}  // namespace trainer::results
