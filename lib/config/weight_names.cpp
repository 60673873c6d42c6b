#include "config/weight_names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "config/pretrained.h"
#include "config/values.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

// Returns whether a part of a name, or a revision, is one component of a path.
bool is_path_part(const std::string& part) {
  constexpr std::string_view kOthers = "._-";
  const auto is_allowed = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           kOthers.find(c) != std::string_view::npos;
  };
  return !part.empty() && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part, is_allowed);
}

bool has_weight_ending(const std::string& path) {
  static const std::vector<std::string> kEndings{".h5",  ".hdf5", ".keras", ".safetensors", ".npz",
                                                 ".pth", ".pt",   ".th",    ".bin"};
  return std::ranges::find(kEndings, to_lower(fs::path(path).extension().string())) !=
         kEndings.end();
}

// Returns ~/.cache, or the folder that takes its place; "" without a home folder.
std::string cache_folder(const Environment& environment) {
  const std::string cache = read_variable(environment, "XDG_CACHE_HOME");
  const std::string home = read_variable(environment, "HOME");
  return !cache.empty() || home.empty() ? cache : (fs::path(home) / ".cache").string();
}

// Returns the folder with the files of the revision that a repository in a cache has; "" for none.
std::string find_snapshot(const std::string& repository) {
  const fs::path reference = fs::path(repository) / "refs/main";
  if (!is_file(reference)) return "";
  const std::string text = read_text_file(reference);
  const std::string revision = text.substr(0, text.find_first_of(" \r\n"));
  return is_path_part(revision) ? (fs::path(repository) / "snapshots" / revision).string() : "";
}

// Returns the first of the usual names of files that a folder has; "" for none.
std::string find_hub_file(const std::string& folder) {
  if (folder.empty()) return "";
  for (const char* file : {"model.safetensors", "pytorch_model.bin"}) {
    if (is_file(fs::path(folder) / file)) return (fs::path(folder) / file).string();
  }
  return "";
}

// Returns $WEIGHTS_DIR/timm/NAME; "" if the variable is not set.
std::string own_folder(const WeightName& name, const Environment& environment) {
  const std::string folder = read_variable(environment, "WEIGHTS_DIR");
  return folder.empty() ? "" : (fs::path(folder) / name.library / name.model).string();
}

}  // namespace

std::optional<WeightName> parse_weight_name(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || has_weight_ending(text)) return std::nullopt;
  WeightName name{text.substr(0, slash), text.substr(slash + 1)};
  if (!is_path_part(name.library) || !is_path_part(name.model)) return std::nullopt;
  return name;
}

const WeightRow* find_weight_row(const std::string& name) {
  const auto row = std::ranges::find(weight_table(), name, &WeightRow::name);
  return row == weight_table().end() ? nullptr : &*row;
}

bool is_published(const WeightName& name) {
  return name.library == "timm" || name.is_torchvision() || find_weight_row(name.text()) != nullptr;
}

std::string hub_repository(const std::string& cache, const WeightName& name) {
  return (fs::path(cache) / concat("models--", name.library, "--", name.model)).string();
}

std::vector<std::string> hub_caches(const Environment& environment) {
  std::vector<std::string> caches;
  const std::string hub = read_variable(environment, "HF_HUB_CACHE");
  if (!hub.empty()) caches.push_back(hub);
  const std::string home = read_variable(environment, "HF_HOME");
  if (!home.empty()) caches.push_back((fs::path(home) / "hub").string());
  const std::string cache = cache_folder(environment);
  if (!cache.empty()) caches.push_back((fs::path(cache) / "huggingface/hub").string());
  return caches;
}

std::string torch_folder(const Environment& environment) {
  fs::path home = read_variable(environment, "TORCH_HOME");
  if (home.empty() && !cache_folder(environment).empty()) {
    home = fs::path(cache_folder(environment)) / "torch";
  }
  return home.empty() ? "" : (home / "hub/checkpoints").string();
}

std::vector<std::string> list_weight_places(const WeightName& name,
                                            const Environment& environment) {
  std::vector<std::string> places;
  if (name.is_torchvision()) {
    places = weight_folders(environment);
    const std::string torch = torch_folder(environment);
    if (!torch.empty()) places.push_back(torch);
    return places;
  }
  const std::string library_folder = own_folder(name, environment);
  if (!library_folder.empty()) places.push_back(library_folder);
  for (const std::string& cache : hub_caches(environment)) {
    places.push_back(hub_repository(cache, name));
  }
  return places;
}

std::string find_named_file(const WeightName& name, const Environment& environment) {
  const WeightRow* row = find_weight_row(name.text());
  if (name.is_torchvision() && row == nullptr) return "";
  for (const std::string& place : list_weight_places(name, environment)) {
    std::string file;
    if (name.is_torchvision()) {
      const fs::path path = fs::path(place) / row->file;
      if (is_file(path)) file = path.string();
    } else {
      file = find_hub_file(place == own_folder(name, environment) ? place : find_snapshot(place));
    }
    if (!file.empty()) return file;
  }
  return "";
}

void find_named_weights(Model& model, const Environment& environment) {
  const auto find = [&](std::string& path) {
    const std::optional<WeightName> name = parse_weight_name(path);
    if (!name || path_exists(path)) return;
    const std::string file = find_named_file(*name, environment);
    if (!file.empty() || is_published(*name)) model.weights_name = path;
    if (!file.empty()) path = file;
  };
  if (model.backbone && model.backbone->weights != kImagenet) find(model.backbone->weights);
  // Weights of all layers come before those of the backbone.
  if (!model.weights.empty()) {
    model.weights_name.clear();
    find(model.weights);
  }
}

std::string missing_named_weights(const WeightName& name, const Environment& environment) {
  if (name.is_torchvision() && find_weight_row(name.text()) == nullptr) {
    std::vector<std::string> names;
    for (const WeightRow& row : weight_table()) {
      if (std::string_view(row.name).starts_with("torchvision/")) names.emplace_back(row.name);
    }
    return concat("is not a known name", suggestion(name.text(), names),
                  "; `trainer weights --search torchvision` lists them");
  }
  return concat("is neither a file nor in any of ", join(list_weight_places(name, environment)),
                ". This downloads it:\n  trainer weights ", name.text());
}

}  // namespace trainer::config
