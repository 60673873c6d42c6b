#include "config/paths.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "config/pretrained.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

// A path of the config, which find() may replace.
struct PathKey {
  std::string key;
  std::string* path = nullptr;
  bool is_glob = false;
};

// Returns the part of a path that must exist: of a glob that before its first wildcard, and of a
// folder in a zip archive the archive.
fs::path fixed_part(const PathKey& one) {
  fs::path fixed;
  for (const fs::path& part : fs::path(*one.path)) {
    if (one.is_glob && part.string().find_first_of("*?[") != std::string::npos) break;
    fixed /= part;
    if (to_lower(part.extension().string()) == ".zip") break;
  }
  return fixed;
}

class PathFinder {
 public:
  // Without `base`, paths are relative to the file that has them.
  PathFinder(const std::map<std::string, Origin>& origins, std::optional<fs::path> base)
      : origins_(origins), base_(std::move(base)) {}

  // Looks for all paths in one place, so that no split comes from another data set: in the other
  // folder only if the current one has none of them. Returns, by key, the other places that do not
  // exist.
  std::map<std::string, std::string> find(std::vector<PathKey> keys) const {
    std::erase_if(keys, [&](const PathKey& one) { return find_folder(one).empty(); });
    for (const PathKey& one : keys) {
      if (path_exists(fixed_part(one))) return {};
    }
    std::map<std::string, std::string> missing;
    for (const PathKey& one : keys) {
      const fs::path folder = find_folder(one);
      const std::string place = (folder / *one.path).lexically_normal().string();
      if (path_exists(folder / fixed_part(one))) {
        *one.path = place;
      } else if (place != fs::path(*one.path).lexically_normal()) {
        missing[one.key] = concat(
            place, base_ ? " in the folder in which the run was started" : " beside the config");
      }
    }
    return missing;
  }

 private:
  // Returns the folder to which the path is relative; empty for a path that is not of a file.
  fs::path find_folder(const PathKey& one) const {
    if (one.path->empty() || fs::path(*one.path).is_absolute()) return {};
    const auto origin = origins_.find(one.key);
    if (origin == origins_.end() || origin->second.kind != Origin::Kind::kFile) return {};
    if (fixed_part(one).empty()) return {};
    return base_ ? *base_ : fs::path(origin->second.loc.file).parent_path();
  }

  const std::map<std::string, Origin>& origins_;
  std::optional<fs::path> base_;
};

void find_paths(LoadedConfig& loaded, const PathFinder& finder) {
  Data& data = loaded.config.data;
  std::vector<PathKey> keys{{"data.path", &data.path},
                            {"data.csv.root", &data.csv.root},
                            {"data.relabel", &data.relabel}};
  for (const auto& [name, files] : {std::pair<std::string, SplitFiles*>{"data.train", &data.train},
                                    {"data.validation", &data.validation},
                                    {"data.test", &data.test}}) {
    keys.push_back({name + ".path", &files->path});
    // Globs and names of files are below the path where one is given.
    if (!files->path.empty()) continue;
    keys.push_back({name + ".images", &files->images});
    keys.push_back({name + ".labels", &files->labels});
    keys.push_back({name + ".glob", &files->glob, true});
  }
  data.missing_beside_file = finder.find(keys);
  Model& model = loaded.config.model;
  finder.find({{"model.weights", &model.weights}});
  if (model.backbone && model.backbone->weights != kImagenet) {
    finder.find({{"model.backbone.weights", &model.backbone->weights}});
  }
}

}  // namespace

void find_paths_beside_file(LoadedConfig& loaded) {
  find_paths(loaded, PathFinder(loaded.origins, std::nullopt));
}

void find_paths_of_run(LoadedConfig& loaded, const fs::path& base) {
  find_paths(loaded, PathFinder(loaded.origins, base));
}

}  // namespace trainer::config
