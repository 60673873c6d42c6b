#include "inference/predict/heatmap_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/formats/canvas.h"
#include "base/text.h"

namespace trainer::inference {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNameBytes = 200;  // of the 255 that file systems allow

// Returns the folders and the name of a path without the root, which cannot be part of a file name.
std::vector<std::string> split_path(const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path.lexically_normal().relative_path()) {
    parts.push_back(part.string());
  }
  return parts;
}

std::int64_t count_samples(const PredictionInput& input, std::optional<std::int64_t> limit) {
  const std::int64_t size = input.dataset().size();
  return std::min(size, limit.value_or(size));
}

// Returns the number of folders that the paths of all files start with.
std::size_t count_common_folders(const std::vector<PredictionInput>& inputs,
                                 std::optional<std::int64_t> limit) {
  std::optional<std::vector<std::string>> common;
  for (const PredictionInput& input : inputs) {
    for (std::int64_t i = 0; input.one_per_file && i < count_samples(input, limit); ++i) {
      const std::vector<std::string> folders = split_path(fs::path(input.name_of(i)).parent_path());
      if (!common) common = folders;
      const auto end =
          std::mismatch(common->begin(), common->end(), folders.begin(), folders.end());
      common->erase(end.first, common->end());
    }
  }
  return common ? common->size() : 0;
}

// Returns the end of a long name, from the start of a character in UTF-8.
std::string shorten(std::string name) {
  if (name.size() <= kMaxNameBytes) return name;
  std::size_t first = name.size() - kMaxNameBytes;
  while (first < name.size() && (static_cast<unsigned char>(name[first]) & 0xC0) == 0x80) ++first;
  return name.substr(first);
}

std::string plain_name(const PredictionInput& input, std::int64_t index, std::size_t common) {
  if (!input.one_per_file) return concat(fs::path(input.name).stem().string(), '_', index);
  const fs::path file = fs::path(input.name_of(index)).replace_extension();
  std::vector<std::string> parts = split_path(file);
  parts.erase(parts.begin(), parts.begin() + std::min(common, parts.size() - 1));
  return join(parts, "_");
}

}  // namespace

std::vector<std::vector<std::string>> name_heatmaps(const std::vector<PredictionInput>& inputs,
                                                    std::optional<std::int64_t> limit) {
  const std::size_t common = count_common_folders(inputs, limit);
  std::set<std::string> taken;
  std::vector<std::vector<std::string>> names;
  for (const PredictionInput& input : inputs) {
    std::vector<std::string>& of_input = names.emplace_back();
    for (std::int64_t i = 0; i < count_samples(input, limit); ++i) {
      const std::string plain = shorten(plain_name(input, i, common));
      std::string name = plain;
      for (int number = 2; !taken.insert(name).second; ++number) name = concat(plain, '-', number);
      of_input.push_back(name + ".png");
    }
  }
  return names;
}

HeatmapFolder::HeatmapFolder(Path folder, std::vector<std::vector<std::string>> names,
                             bool overwrite)
    : folder_(std::move(folder)), names_(std::move(names)) {
  std::error_code error;
  const fs::file_status status = fs::status(folder_, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw ConfigError({}, "--heatmap ", printable(folder_.string()),
                      " is not a folder; name a folder for the heatmaps");
  }
  for (const std::vector<std::string>& of_input : names_) {
    for (const std::string& name : of_input) {
      check_output_path("--heatmap", folder_ / name, overwrite);
    }
  }
  fs::create_directories(folder_, error);
  if (error) throw DataError(folder_.string(), "cannot make this folder: " + error.message());
}

std::string HeatmapFolder::path(std::size_t input, std::int64_t index) const {
  return (folder_ / names_[input][index]).string();
}

void HeatmapFolder::write(std::size_t input, std::int64_t index,
                          const HeatmapPicture& picture) const {
  Canvas canvas(static_cast<int>(picture.width), static_cast<int>(picture.height));
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < canvas.width(); ++x) {
      const std::uint8_t* pixel =
          picture.pixels.data() + 3 * static_cast<std::size_t>(y * canvas.width() + x);
      canvas.set(x, y, {pixel[0], pixel[1], pixel[2]});
    }
  }
  write_file_atomic(path(input, index), canvas.png());
}

}  // namespace trainer::inference
