#include "config/decode.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "config/field.h"
#include "config/hints.h"
#include "config/machine.h"
#include "config/values.h"

namespace trainer::config {
namespace {

struct KeyLocation {
  std::string path;  // dotted, "" for the root
  SourceLoc loc;     // of the key, for errors about the whole value
};

Origin find_origin(const Node& node) {
  // A list is one value: an entry that an override or variable gives determines its origin.
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::kMap && item.origin != Origin::Kind::kFile)
      return find_origin(item);
  }
  return {node.origin, node.loc, node.variable};
}

// The exception after the last error that is reported.
struct TooManyErrors {};

// Throws TooManyErrors if it is the last one.
void add_diagnostic(std::vector<Diagnostic>& diagnostics, Diagnostic diagnostic) {
  const SourceLoc loc = diagnostic.loc;
  diagnostics.push_back(std::move(diagnostic));
  if (diagnostics.size() < kMaxDiagnostics) return;
  diagnostics.push_back(
      {loc, concat("more than ", kMaxDiagnostics, " errors; correct these first")});
  throw TooManyErrors();
}

// Reads a value from a node.
class ValueReader final : public ValueVisitor {
 public:
  ValueReader(Decoded& out, std::vector<Diagnostic>& diagnostics, const Node& node,
              KeyLocation where, const Rule& rule)
      : out_(out), diagnostics_(diagnostics), node_(node), where_(std::move(where)), rule_(rule) {}

  void read(Value& value) { value.accept(*this); }

  void scalar(ScalarValue& value) override {
    if (!usable()) return;
    report(value.read(node_, rule_));
    if (value.kind() != ValueKind::kClassWeight) return;
    for (const Entry& entry : node_.entries) {
      out_.origins[where_.path + '.' + entry.key] = find_origin(entry.value);
    }
  }

  void freeze(FreezeValue& value) override {
    if (!is_selection_list(node_)) return scalar(value);
    Freeze& freeze = value.get();
    freeze.kind = Freeze::Kind::kSelections;
    freeze.loc = node_.loc;
    ValueOf<std::vector<LayerSelection>> selections(freeze.selections);
    list(selections);
  }

  void optional(OptionalValue& value) override {
    const bool empty = node_.kind == Node::Kind::kScalar && node_.text.empty() && !node_.quoted;
    value.reset();
    if (node_.kind == Node::Kind::kNull || empty) return;
    value.emplace();
    value.visit_value(*this);
  }

  void list(ListValue& value) override {
    if (!usable()) return;
    value.resize(0);
    const bool may_be_empty = !rule_.is_required && !rule_.never_empty;
    if (node_.kind == Node::Kind::kNull && may_be_empty) return;
    if (rule_.allows_scalar && !value.holds_sections() && node_.kind == Node::Kind::kScalar) {
      value.resize(1);
      value.visit_item(0, *this);
      return;
    }
    const std::size_t size = node_.items.size();
    std::string wrong;
    if (node_.kind != Node::Kind::kList) {
      wrong = "expected a list, found " + describe(node_);
    } else if ((size > 0 || !may_be_empty) && (size < rule_.min_items || size > rule_.max_items)) {
      const bool exact = rule_.min_items == rule_.max_items;
      wrong = concat("expected ", exact ? "" : "at least ", counted(rule_.min_items, "entry"),
                     ", found ", size);
    }
    report(wrong);
    value.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      KeyLocation item{concat(where_.path, '[', i, ']'), node_.items[i].loc};
      out_.places[item.path] = item.loc;
      ValueReader reader(out_, diagnostics_, node_.items[i], std::move(item), rule_);
      value.visit_item(i, reader);
    }
  }

  void section(SectionValue& value) override;

 private:
  // Returns whether the text has all its variables. The reader of the file reports unset ones.
  bool usable() {
    if (!node_.failure.empty()) out_.broken.insert(where_.path);
    return node_.failure.empty();
  }
  void report(const std::string& wrong) {
    if (wrong.empty()) return;
    out_.broken.insert(where_.path);
    add_diagnostic(diagnostics_, {node_.loc, where_.path + ": " + wrong + node_.note});
  }

  Decoded& out_;
  std::vector<Diagnostic>& diagnostics_;
  const Node& node_;
  KeyLocation where_;
  const Rule& rule_;
};

class MapReader final : public FieldVisitor {
 public:
  MapReader(Decoded& out, std::vector<Diagnostic>& diagnostics, const Node& node, KeyLocation where)
      : out_(out), diagnostics_(diagnostics), node_(node), where_(std::move(where)) {}

  void group(const std::vector<std::string>& keys, bool required) override {
    groups_.push_back({keys, required});
  }
  void choice(const char* what, bool required, Resume) override {
    what_ = what;
    choice_required_ = required;
  }

  void alternative(std::string_view name, const char*, bool, const std::function<void()>& activate,
                   const std::function<void(FieldVisitor&)>& list) override {
    keys_.emplace_back(name);
    choices_.emplace_back(name);
    const Entry* entry = node_.find(name);
    if (!entry) return;
    given_.push_back(entry);
    if (given_.size() > 1) return;
    activate();
    const KeyLocation where = below(*entry);
    out_.places[where.path] = entry->loc;
    out_.origins[where_.path] = out_.origins[where.path] = find_origin(entry->value);
    MapReader inner(out_, diagnostics_, entry->value, where);
    list(inner);
    inner.finish();
  }

  // An entry of a list in which a flag changes a value has the location of the flag.
  void located(SourceLoc& loc) override {
    loc = where_.loc;
    if (where_.path.find('[') == std::string::npos) return;
    for (const Entry& entry : node_.entries) {
      if (entry.value.origin == Origin::Kind::kSet) loc = entry.value.loc;
    }
  }

  // Reports errors of the map itself. Call it after all fields.
  void finish() {
    if (!node_.failure.empty()) {
      out_.broken.insert(where_.path);
      return;
    }
    if (node_.kind != Node::Kind::kMap && node_.kind != Node::Kind::kNull) {
      const bool word = node_.kind == Node::Kind::kScalar && !choices_.empty();
      report(
          node_, node_.loc,
          word ? unknown("name", node_.text, concat("Expected ", what_), choices_)
               : concat("expected a map with the keys ", join(keys_), "; found ", describe(node_)));
      out_.broken.insert(where_.path);
      return;
    }
    report_unknown();
    for (const auto& [key, help] : missing_) {
      if (is_guessed(key)) continue;
      report(node_, where_.loc, concat("missing required key '", key, "': ", help));
    }
    check_choice();
    for (const Group& group : groups_) check_group(group);
  }

 private:
  void field(const char* key, Value& value, const char* help, const Rule& rule) override {
    keys_.push_back(key);
    if (const Entry* entry = node_.find(key)) {
      const KeyLocation where = below(*entry);
      out_.places[where.path] = entry->loc;
      out_.origins[where.path] = find_origin(entry->value);
      ValueReader(out_, diagnostics_, entry->value, where, rule).read(value);
    } else if (rule.is_required) {
      missing_.push_back({key, help});
    }
  }

  struct Group {
    std::vector<std::string> keys;
    bool required = false;
  };

  KeyLocation below(const Entry& entry) const {
    return {where_.path.empty() ? entry.key : where_.path + '.' + entry.key, entry.loc};
  }

  void report(const Node& node, const SourceLoc& loc, const std::string& message) {
    const std::string path = where_.path.empty() ? "" : where_.path + ": ";
    add_diagnostic(diagnostics_, {loc, path + message + node.note});
  }

  void report_unknown() {
    if (const auto named = named_choice(node_, choices_, keys_)) {
      guesses_.push_back(named->choice);
      return report(node_, node_.loc, named->message);
    }
    for (const Entry& entry : node_.entries) {
      if (std::ranges::find(keys_, entry.key) != keys_.end()) continue;
      if (const auto guess = nearest(entry.key, keys_)) guesses_.push_back(*guess);
      add_diagnostic(diagnostics_,
                     {entry.loc, unknown_key(entry.key, where_.path, keys_) + entry.value.note});
    }
  }

  // Returns whether an unknown key is probably a misspelling of this key, which is then not
  // reported as missing.
  bool is_guessed(const std::string& key) const {
    return std::ranges::find(guesses_, key) != guesses_.end();
  }

  void check_choice() {
    if (choices_.empty()) return;
    if (given_.size() > 1) {
      report(given_[1]->value, given_[1]->loc,
             concat("'", given_[0]->key, "' and '", given_[1]->key,
                    "' cannot both be given; choose one"));
    }
    if (!given_.empty() || !choice_required_) return;
    // An empty value keeps the default; an empty list entry has none.
    if (node_.kind == Node::Kind::kNull && !where_.path.ends_with(']')) return;
    if (std::ranges::any_of(choices_, [&](const std::string& key) { return is_guessed(key); })) {
      return;
    }
    report(node_, where_.loc, concat("expected ", what_, ", one of: ", join(choices_)));
  }

  void check_group(const Group& group) {
    std::vector<const Entry*> given;
    for (const Entry& entry : node_.entries) {
      const bool member = std::ranges::find(group.keys, entry.key) != group.keys.end();
      if (member && entry.value.kind != Node::Kind::kNull) given.push_back(&entry);
    }
    if (given.size() > 1) {
      report(given[1]->value, given[1]->loc,
             concat("'", given[0]->key, "' and '", given[1]->key,
                    "' cannot both be given; choose one of: ", join(group.keys)));
    }
    if (!given.empty() || !group.required) return;
    if (std::ranges::any_of(group.keys, [&](const std::string& key) { return is_guessed(key); })) {
      return;
    }
    report(node_, where_.loc, "missing required key, exactly one of: " + join(group.keys));
  }

  Decoded& out_;
  std::vector<Diagnostic>& diagnostics_;
  const Node& node_;
  KeyLocation where_;
  std::vector<std::string> keys_, choices_, guesses_;
  std::vector<std::pair<std::string, std::string>> missing_;
  std::vector<const Entry*> given_;
  std::vector<Group> groups_;
  const char* what_ = "";
  bool choice_required_ = false;
};

void ValueReader::section(SectionValue& value) {
  MapReader reader(out_, diagnostics_, node_, where_);
  value.list_fields(reader);
  reader.finish();
}

// Reads the root of a file into a struct with fields(), and the places of its values.
template <class Struct>
void decode_root(const Node& root, Struct& values, Decoded& places,
                 std::vector<Diagnostic>& diagnostics) {
  MapReader reader(places, diagnostics, root, {"", root.loc});
  try {
    fields(reader, values);
    reader.finish();
  } catch (const TooManyErrors&) {
    // The errors are in `diagnostics`.
  }
}

}  // namespace

Decoded decode(const Node& root, std::vector<Diagnostic>& diagnostics) {
  Decoded out;
  decode_root(root, out.config, out, diagnostics);
  return out;
}

MachineShape decode_machine(const Node& root, std::vector<Diagnostic>& diagnostics) {
  Decoded places;
  MachineShape shape;
  decode_root(root, shape, places, diagnostics);
  return shape;
}

}  // namespace trainer::config
