// The keys of a config as a list to read, made from the field lists: for `trainer explain` and
// configs/reference.md.
#pragma once

#include <string>
#include <vector>

#include "results/field.h"

namespace trainer::commands {

// A key, or an alternative such as optimizer.adam.
struct Explained {
  std::string path;     // "optimizer.adam.learning_rate"; in a section of its own "conv.filters"
  std::string value;    // the values that are allowed: "a number, at least 0"
  std::string initial;  // the default as YAML; "" without one
  bool required = false;
  std::string help;
};

// The keys of one part of a config, in the order of the field lists.
struct ExplainedSection {
  std::string
      name;  // a key of the whole ("optimizer"), or what is used in several places ("layer")
  bool shared = false;  // the latter: paths begin below it
  std::vector<Explained> keys;
};
std::vector<ExplainedSection> explained_sections();

// The key at `path` and what stands below it, as lines. A path may leave out what leads to it
// ("adam", "conv.filters"). A part of paths, or the end of several keys, lists all keys that
// contain it. Without a path, the sections. Throws ConfigError that names the nearest.
std::string explain(const std::string& path);
// Returns the same keys as one JSON object in a line; all keys without a path.
std::string explain_json(const std::string& path);

// What explain_json() writes.
struct ExplainEvent {
  std::vector<Explained> keys;
};
void fields(results::FieldVisitor& v, ExplainEvent& event);

}  // namespace trainer::commands
