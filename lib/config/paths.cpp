#include "config/paths.h"

#include <filesystem>

#include "base/text.h"
#include "config/pretrained.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

// Returns the part of a path that must exist: of a glob that before its first wildcard, and of a
// folder in a zip archive the archive.
fs::path fixed_part(const std::string& path) {
  fs::path fixed;
  for (const fs::path& part : fs::path(path)) {
    if (part.string().find_first_of("*?[") != std::string::npos) break;
    fixed /= part;
    if (to_lower(part.extension().string()) == ".zip") break;
  }
  return fixed;
}

class PathFinder {
 public:
  explicit PathFinder(const std::map<std::string, Origin>& origins) : origins_(origins) {}

  void find(const std::string& key, std::string& path) const {
    if (path.empty() || fs::path(path).is_absolute()) return;
    const auto origin = origins_.find(key);
    if (origin == origins_.end() || origin->second.kind != Origin::Kind::kFile) return;
    const fs::path folder = fs::path(origin->second.loc.file).parent_path();
    const fs::path fixed = fixed_part(path);
    std::error_code error;
    if (folder.empty() || fixed.empty() || fs::exists(fixed, error)) return;
    if (fs::exists(folder / fixed, error)) path = (folder / path).lexically_normal().string();
  }

 private:
  const std::map<std::string, Origin>& origins_;
};

}  // namespace

void find_paths_beside_file(LoadedConfig& loaded) {
  const PathFinder finder(loaded.origins);
  Data& data = loaded.config.data;
  finder.find("data.path", data.path);
  finder.find("data.csv.root", data.csv.root);
  finder.find("data.relabel", data.relabel);
  for (const auto& [name, files] : {std::pair<std::string, SplitFiles*>{"data.train", &data.train},
                                    {"data.validation", &data.validation},
                                    {"data.test", &data.test}}) {
    finder.find(name + ".path", files->path);
    // Globs and names of files are below the path where one is given.
    if (!files->path.empty()) continue;
    finder.find(name + ".images", files->images);
    finder.find(name + ".labels", files->labels);
    finder.find(name + ".glob", files->glob);
  }
  Model& model = loaded.config.model;
  finder.find("model.weights", model.weights);
  if (model.backbone && model.backbone->weights != kImagenet) {
    finder.find("model.backbone.weights", model.backbone->weights);
  }
}

}  // namespace trainer::config
