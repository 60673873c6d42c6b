#include "commands/explain/explain.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "config/describe/schema.h"
#include "config/values.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

using SchemaKind = config::Schema::Kind;

std::string with_range(const std::string& text, const config::Schema& schema) {
  const std::string range = config::range_text(schema.rule);
  return range.empty() ? text : text + ", " + range;
}

std::string describe_value(const config::Schema& schema);

std::string describe_list(const config::Schema& schema) {
  const config::Schema& item = schema.item.front();
  const std::string items = !item.definition.empty()         ? plural(item.definition)
                            : item.kind == SchemaKind::kText ? "texts"
                            : item.kind == SchemaKind::kMap  ? "maps"
                                                             : "";
  const config::Rule& rule = schema.rule;
  std::string text = items.empty() ? "a list, each " + describe_value(item) : "a list of " + items;
  if (rule.min_items > 0 && rule.min_items == rule.max_items) {
    text += concat(", ", rule.min_items, " of them");
  }
  return schema.bare_item ? text + "; one may stand without the list" : text;
}

// "one of sgd, adam"; "a map, or its rate alone".
std::string describe_map(const config::Schema& schema) {
  if (!schema.definition.empty()) {
    const bool vowel = std::string_view("aeiou").find(schema.definition[0]) != std::string::npos;
    return (vowel ? "an " : "a ") + schema.definition;
  }
  std::string text = schema.choices.empty() ? "a map" : "one of " + join(schema.choices);
  if (!schema.shorthand.empty()) text += ", or its " + schema.shorthand + " alone";
  if (schema.rule.or_switch) text += ", or true";
  return text;
}

std::string describe_value(const config::Schema& schema) {
  switch (schema.kind) {
    case SchemaKind::kBoolean:
      return "true or false";
    case SchemaKind::kInteger:
      return with_range("a whole number", schema);
    case SchemaKind::kNumber:
      return with_range("a number", schema);
    case SchemaKind::kText:
      return "a text";
    case SchemaKind::kWord:
      return "one of " + join(schema.words);
    case SchemaKind::kDuration:
      return schema.rule.seconds ? "a number of steps, epochs or seconds: 2 epochs"
                                 : "a number of steps or epochs: 2 epochs";
    case SchemaKind::kPair:
      return with_range("a whole number or [height, width]", schema);
    case SchemaKind::kPadding:
      return "valid, same or [top, bottom, left, right]";
    case SchemaKind::kFourSides:
      return with_range("a whole number or [top, bottom, left, right]", schema);
    case SchemaKind::kClusterSize:
      return with_range("a whole number or true", schema);
    case SchemaKind::kBatchSize:
      return with_range("a whole number or auto", schema);
    case SchemaKind::kValueRange:
      return with_range("auto or [low, high] as whole numbers", schema);
    case SchemaKind::kClassWeight:
      return "balanced, or a map of classes to numbers" +
             (config::range_text(schema.rule).empty() ? "" : ' ' + config::range_text(schema.rule));
    case SchemaKind::kLoopValues:
      return "a map of variables to lists of values";
    case SchemaKind::kFreeze:
      return "a slice, a name, a list of both, a number, all or none";
    case SchemaKind::kGpus:
      return "a number, all or a list of indices";
    case SchemaKind::kLossScale:
      return with_range("dynamic or a number", schema);
    case SchemaKind::kList:
      return describe_list(schema);
    case SchemaKind::kMap:
      return describe_map(schema);
  }
  return "";
}

std::string print_initial(const config::Field& field) {
  const config::Node& node = field.initial;
  if (field.schema.rule.is_required) return "";
  if (node.kind == config::Node::Kind::kScalar)
    return node.text.empty() ? "" : config::print_flow(node);
  if (node.kind == config::Node::Kind::kList)
    return node.items.empty() ? "" : config::print_flow(node);
  for (const config::Entry& entry : node.entries) {
    if (field.schema.is_choice(entry.key)) return entry.key;
  }
  return "";
}

class Lister {
 public:
  std::vector<ExplainedSection> list() && {
    for (const config::Field& field : config::config_schema().fields) {
      sections_.push_back({field.key, false, {}});
      add(field, "");
    }
    // What is used in several places, as found on the way.
    for (; !shared_.empty(); shared_.pop_front()) {
      const config::Schema& schema = *shared_.front();
      sections_.push_back({schema.definition, true, {}});
      for (const config::Field& field : schema.fields) add(field, "");
    }
    return std::move(sections_);
  }

 private:
  void add(const config::Field& field, const std::string& above) {
    const std::string path = above + field.key;
    const bool is_alternative = field.schema.kind == SchemaKind::kMap &&
                                field.schema.choices.empty() && field.schema.definition.empty() &&
                                field.schema.shorthand.empty();
    const std::string value = is_alternative && field.schema.fields.empty()
                                  ? "nothing more"
                                  : describe_value(field.schema);
    sections_.back().keys.push_back(
        {path, value, print_initial(field), field.schema.rule.is_required, field.help});
    const config::Schema& inner =
        field.schema.kind == SchemaKind::kList ? field.schema.item.front() : field.schema;
    if (inner.kind != SchemaKind::kMap) return;
    if (inner.definition.empty()) {
      for (const config::Field& one : inner.fields) add(one, path + '.');
    } else if (seen_.insert(inner.definition).second) {
      shared_.push_back(&inner);
    }
  }

  std::vector<ExplainedSection> sections_;
  std::deque<const config::Schema*> shared_;
  std::set<std::string> seen_;
};

std::string print_line(const Explained& key) {
  std::string text = concat(key.path, "  ", key.value);
  if (key.required) text += "; required";
  if (!key.initial.empty()) text += "; default " + key.initial;
  return text + "\n    " + key.help + '\n';
}

struct ExplainedKey {
  const ExplainedSection* section;
  const Explained* key;
};

// `path`, or the first key that ends with it, or that its end names in a shared section.
std::optional<ExplainedKey> find(const std::vector<ExplainedSection>& sections, std::string path) {
  for (;;) {
    for (const auto& section : sections) {
      for (const Explained& key : section.keys) {
        if (key.path == path) return ExplainedKey{&section, &key};
      }
    }
    for (const auto& section : sections) {
      for (const Explained& key : section.keys) {
        if (key.path.ends_with('.' + path)) return ExplainedKey{&section, &key};
      }
    }
    // model.layers.conv: what a layer may be has a section of its own.
    const std::size_t dot = path.find('.');
    if (dot == std::string::npos) return std::nullopt;
    const std::string first = path.substr(0, dot);
    const bool leads_on = std::ranges::any_of(sections, [&](const auto& section) {
      return std::ranges::any_of(section.keys, [&](const Explained& key) {
        return key.path == first || key.path.ends_with('.' + first);
      });
    });
    if (!leads_on) return std::nullopt;
    path = path.substr(dot + 1);
  }
}

// Returns the keys whose path contains `word`, in any case, in the order of the sections.
std::vector<const Explained*> find_containing(const std::vector<ExplainedSection>& sections,
                                              const std::string& word) {
  std::vector<const Explained*> keys;
  for (const ExplainedSection& section : sections) {
    for (const Explained& key : section.keys) {
      if (key.path.find(to_lower(word)) != std::string::npos) keys.push_back(&key);
    }
  }
  return keys;
}

// Returns whether several keys end with `word` and none is `word` itself.
bool is_ambiguous(const std::vector<const Explained*>& keys, const std::string& word) {
  const auto is_word = [&](const Explained* key) { return key->path == word; };
  const auto ends = [&](const Explained* key) { return key->path.ends_with('.' + word); };
  return std::ranges::none_of(keys, is_word) && std::ranges::count_if(keys, ends) > 1;
}

// Names the keys but `shown` whose last part contains the word.
std::string print_others(const std::vector<const Explained*>& matches, const std::string& word,
                         const std::string& shown) {
  constexpr std::size_t kMaxNames = 12;
  if (word.find('.') != std::string::npos) return "";
  std::vector<std::string> names;
  for (const Explained* key : matches) {
    const std::string last = key->path.substr(key->path.rfind('.') + 1);
    if (key->path != shown && last.find(word) != std::string::npos) names.push_back(key->path);
  }
  return names.empty() ? "" : concat("\nalso: ", join_first(names, kMaxNames), '\n');
}

// Returns the keys one level below `path`.
std::vector<const Explained*> below(const ExplainedSection& section, const std::string& path) {
  std::vector<const Explained*> keys;
  for (const Explained& key : section.keys) {
    if (!key.path.starts_with(path)) continue;
    if (key.path.find('.', path.size()) == std::string::npos) keys.push_back(&key);
  }
  return keys;
}

std::string overview(const std::vector<ExplainedSection>& sections) {
  std::string text;
  for (const ExplainedSection& section : sections) {
    if (section.shared) {
      std::vector<std::string> kinds;
      for (const Explained* key : below(section, "")) kinds.push_back(key->path);
      text += concat(section.name, "  has the keys or kinds\n    ", join(kinds), '\n');
    } else {
      text += print_line(section.keys.front());
    }
  }
  return text;
}

// What a path names: the keys to explain, and text about further keys.
struct Explanation {
  std::vector<const Explained*> keys;
  std::string title, others;
};

Explanation find_explanation(const std::vector<ExplainedSection>& sections,
                             const std::string& path) {
  const std::vector<const Explained*> matches = find_containing(sections, path);
  for (const ExplainedSection& section : sections) {
    if (!section.shared || section.name != path) continue;
    return {below(section, ""), "", print_others(matches, path, path)};
  }
  const auto place = is_ambiguous(matches, path) ? std::nullopt : find(sections, path);
  if (place) {
    std::vector<const Explained*> keys = below(*place->section, place->key->path + '.');
    keys.insert(keys.begin(), place->key);
    return {std::move(keys), "", print_others(matches, path, place->key->path)};
  }
  if (!matches.empty()) {
    return {matches,
            concat(matches.size(), matches.size() == 1 ? " key contains '" : " keys contain '",
                   path, "':\n\n"),
            ""};
  }
  std::vector<std::string> words;
  for (const ExplainedSection& section : sections) {
    words.push_back(section.name);
    for (const Explained& key : section.keys) {
      words.push_back(key.path);
      words.push_back(key.path.substr(key.path.rfind('.') + 1));
    }
  }
  throw ConfigError({}, "explain: there is no key '", path, "'", config::suggestion(path, words),
                    "; `trainer explain` lists the sections");
}

}  // namespace

std::vector<ExplainedSection> explained_sections() { return Lister().list(); }

std::string explain(const std::string& path) {
  const std::vector<ExplainedSection> sections = explained_sections();
  if (path.empty()) return overview(sections);
  const Explanation found = find_explanation(sections, path);
  std::vector<std::string> lines;
  for (const Explained* key : found.keys) lines.push_back(print_line(*key));
  return found.title + join(lines, "\n") + found.others;
}

void fields(results::FieldVisitor& v, Explained& key) {
  v("key", key.path, "The path of the key.");
  v("value", key.value, "The values that are allowed.");
  v.when_present("default", key.initial, "The default as YAML.");
  v("required", key.required, "Whether a config must have it.");
  v("help", key.help, "What it means.");
}

void fields(results::FieldVisitor& v, ExplainEvent& event) {
  v.event("explain");
  v("keys", event.keys, "The keys, in the order of the reference.");
}

std::string explain_json(const std::string& path) {
  const std::vector<ExplainedSection> sections = explained_sections();
  ExplainEvent event;
  if (path.empty()) {
    for (const ExplainedSection& section : sections) {
      event.keys.insert(event.keys.end(), section.keys.begin(), section.keys.end());
    }
  } else {
    for (const Explained* key : find_explanation(sections, path).keys) event.keys.push_back(*key);
  }
  return results::to_line(event);
}

}  // namespace trainer::commands
