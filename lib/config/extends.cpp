#include "config/extends.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "base/files/files.h"
#include "base/text.h"
#include "config/describe/schema.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

// Removes keys of the extended file that exclude the file's own key.
void drop_base_alternatives(Node& base, const std::string& key,
                            const std::vector<std::string>& group) {
  if (std::ranges::find(group, key) == group.end()) return;
  std::erase_if(base.entries, [&](const Entry& entry) {
    return entry.key != key && std::ranges::find(group, entry.key) != group.end();
  });
}

// Merges `derived` into `base`, which it overrides. Both are expanded.
void merge(Node& base, Node derived, const Schema* schema) {
  if (derived.kind != Node::Kind::kMap || base.kind != Node::Kind::kMap) {
    base = std::move(derived);
    return;
  }
  // Maps whose keys are not keys of a section, such as train.class_weight, are merged by name.
  if (schema != nullptr && schema->kind != Schema::Kind::kMap) schema = nullptr;
  // A section with this many keys has unknown ones, which are errors, so that merging is not
  // needed.
  constexpr std::size_t kMaxSectionKeys = 1000;
  if (schema != nullptr && derived.entries.size() > kMaxSectionKeys) {
    base = std::move(derived);
    return;
  }
  std::unordered_map<std::string, std::size_t> places;  // of base.entries, where none is dropped
  if (schema == nullptr) {
    for (std::size_t i = 0; i < base.entries.size(); ++i) places.emplace(base.entries[i].key, i);
  }
  const auto find_in_base = [&](const std::string& key) -> Entry* {
    if (schema != nullptr) return base.find(key);
    const auto found = places.find(key);
    return found == places.end() ? nullptr : &base.entries[found->second];
  };
  for (Entry& entry : derived.entries) {
    const Field* field = schema == nullptr ? nullptr : schema->find(entry.key);
    if (schema != nullptr && entry.value.kind != Node::Kind::kNull) {
      for (const Schema::Group& group : schema->groups)
        drop_base_alternatives(base, entry.key, group.keys);
    }
    if (schema != nullptr) drop_base_alternatives(base, entry.key, schema->choices);
    if (Entry* same = find_in_base(entry.key)) {
      same->loc = entry.loc;
      merge(same->value, std::move(entry.value), field == nullptr ? nullptr : &field->schema);
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
  base.loc = derived.loc;
}

class TreeReader {
 public:
  TreeReader(const Environment& environment, std::vector<Diagnostic>& diagnostics)
      : environment_(environment), diagnostics_(diagnostics) {}

  Node read(const std::string& text, const std::string& file) {
    Node root = read_yaml(text, file, diagnostics_);
    std::erase_if(root.entries, [](const Entry& entry) { return entry.key.starts_with("x-"); });
    substitute(root, environment_);
    const auto extends = std::ranges::find(root.entries, "extends", &Entry::key);
    if (extends == root.entries.end()) return root;
    const Node value = std::move(extends->value);
    root.entries.erase(extends);
    chain_.push_back(canonical_name(file));
    Node base = read_base(value, file);
    chain_.pop_back();
    if (base.kind != Node::Kind::kMap) return base;
    expand(base, config_schema());
    expand(root, config_schema());
    merge(base, std::move(root), &config_schema());
    return base;
  }

 private:
  static std::string canonical_name(const fs::path& file) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(file, error);
    return (error ? file : path).string();
  }

  // Reads the tree of the extended file; null, with a diagnostic, if it cannot be read.
  Node read_base(const Node& value, const std::string& file) {
    if (!value.failure.empty()) return reject(value, value.failure);
    if (value.kind != Node::Kind::kScalar || value.text.empty()) {
      return reject(value, "expected the path of a config, found " + describe(value));
    }
    std::error_code error;
    const bool pipe = fs::is_fifo(file, error);
    const fs::path path = pipe ? fs::path(value.text) : fs::path(file).parent_path() / value.text;
    if (!fs::is_regular_file(path, error)) {
      return reject(value, concat("there is no file ", path.string(),
                                  "; the path counts from the folder of the config that gives it"));
    }
    const std::string identity = canonical_name(path);
    if (std::ranges::find(chain_, identity) != chain_.end()) {
      std::vector<std::string> files = chain_;
      files.push_back(identity);
      return reject(value, "a file cannot extend itself: " + join(files, " extends "));
    }
    const std::size_t before = diagnostics_.size();
    Node base = read(read_text_file(path.string()), path.string());
    if (base.kind == Node::Kind::kMap || diagnostics_.size() > before) return base;
    return reject(value, concat(path.string(), " holds ", describe(base), ", expected a map"));
  }

  Node reject(const Node& value, const std::string& message) {
    diagnostics_.push_back({value.loc, "extends: " + message});
    return {};
  }

  const Environment& environment_;
  std::vector<Diagnostic>& diagnostics_;
  std::vector<std::string> chain_;  // the files that are being read, as canonical paths
};

}  // namespace

Node read_recorded_tree(const std::string& text, const std::string& file,
                        std::vector<Diagnostic>& diagnostics) {
  Node root = read_yaml(text, file, diagnostics);
  std::erase_if(root.entries, [&](const Entry& entry) {
    if (entry.key != "extends") return false;
    diagnostics.push_back(
        {entry.loc,
         "extends: the config that a file records cannot read other files; to use this config, "
         "name it on the command line as a file of your own"});
    return true;
  });
  unescape(root);
  return root;
}

Node read_tree(const std::string& text, const std::string& file, const Environment& environment,
               std::vector<Diagnostic>& diagnostics) {
  return TreeReader(environment, diagnostics).read(text, file);
}

}  // namespace trainer::config
