#include "config/weight_source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/files.h"
#include "config/pretrained.h"
#include "config/weight_names.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

// The presets as numbers of pixels from 0 to 1.
constexpr struct {
  PreprocessPreset preset;
  std::array<double, 3> mean, std;
} kPresets[] = {{PreprocessPreset::kTorch, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                {PreprocessPreset::kTf, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
                {PreprocessPreset::kScale, {0, 0, 0}, {1, 1, 1}}};

Preprocessing start_with(PreprocessPreset preset) {
  const auto& row = *std::ranges::find(kPresets, preset, [](const auto& of) { return of.preset; });
  Preprocessing result;
  result.mean = row.mean;
  result.std = row.std;
  return result;
}

Preprocessing to_preprocessing(const WeightRow& row) {
  Preprocessing result = start_with(row.preset);
  result.side = row.side;
  result.crop_fraction = row.crop_fraction;
  result.interpolation = row.interpolation;
  return result;
}

// The network that an architecture of timm, such as tf_efficientnet_b0, is.
struct Network {
  Backbone::Name name;
  Backbone::Variant variant;
};
std::optional<Network> find_timm_network(const std::string& architecture) {
  for (const WeightRow& row : weight_table()) {
    const std::string_view name = row.name;
    if (name.starts_with("timm/" + architecture + '.')) return Network{row.backbone, row.variant};
  }
  for (const Backbone& backbone : list_backbones()) {
    const bool is_timm = backbone.variant == Backbone::Variant::kTimm ||
                         backbone.variant == Backbone::Variant::kTimmTf;
    if (is_timm && architecture == python_class(backbone)) {
      return Network{backbone.name, *backbone.variant};
    }
  }
  return std::nullopt;
}

// A file of JSON beside weights, whose values are checked as they are read.
class WeightDescription {
 public:
  WeightDescription(Path path, nlohmann::json json)
      : path_(std::move(path)), json_(std::move(json)) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const nlohmann::json& operator[](const char* key) const { return json_[key]; }
  WeightDescription inner(const char* key) const { return {path_, json_[key]}; }

  std::string text(const char* key) const {
    return has(key) && json_[key].is_string() ? json_[key].get<std::string>() : "";
  }
  double number(const char* key, double low, double high) const {
    return check(json_[key], key, low, high);
  }
  // Sets one number per channel, where there are any.
  void take(const char* key, std::array<double, 3>& numbers, double low) const {
    if (!has(key)) return;
    if (!json_[key].is_array() || json_[key].size() != numbers.size()) fail(key, "three numbers");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = check(json_[key][i], key, low, 1e6);
    }
  }
  void take_interpolation(const char* key, Interpolation& value) const {
    if (!has(key)) return;
    const std::optional<Interpolation> found = parse_enum<Interpolation>(text(key));
    if (!found) fail(key, "bilinear or bicubic");
    value = *found;
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    throw DataError(path_, key, " is ", json_[key].dump(), ", expected ", expected,
                    "; correct or remove this file, which describes the weights beside it");
  }

 private:
  double check(const nlohmann::json& value, const char* key, double low, double high) const {
    if (!value.is_number() || !(value >= low && value <= high)) {
      fail(key, concat("a number from ", low, " to ", high));
    }
    return value.get<double>();
  }

  Path path_;
  nlohmann::json json_;
};

constexpr double kMinShare = 0.01, kMaxSide = 16384, kMinStd = 1e-6;

std::optional<WeightDescription> read_description(const Path& path) {
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxBytes) return {};
  nlohmann::json json = nlohmann::json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object()) return {};
  return WeightDescription(path, std::move(json));
}

// Reads pretrained_cfg of timm.
Preprocessing read_pretrained_cfg(const WeightDescription& cfg) {
  Preprocessing result = start_with(PreprocessPreset::kTorch);
  result.crop_fraction = 0.875;  // timm's DEFAULT_CROP_PCT
  if (cfg.has("input_size")) {
    const nlohmann::json& size = cfg["input_size"];
    if (!size.is_array() || size.size() != 3 || !size[2].is_number_integer() || size[2] < 1 ||
        size[2] > kMaxSide) {
      cfg.fail("input_size", "[channels, height, width]");
    }
    result.side = size[2].get<std::int64_t>();
  }
  if (cfg.has("crop_pct")) result.crop_fraction = cfg.number("crop_pct", kMinShare, 1);
  result.is_stretched = cfg.text("crop_mode") == "squash";
  cfg.take_interpolation("interpolation", result.interpolation);
  cfg.take("mean", result.mean, -1e6);
  cfg.take("std", result.std, kMinStd);
  return result;
}

// Returns a size of transformers: a number, or one of the sides of an object; 0 if there is none.
std::int64_t read_size(const WeightDescription& file, const char* key) {
  if (!file.has(key)) return 0;
  if (!file[key].is_object()) return std::llround(file.number(key, 1, kMaxSide));
  for (const char* side : {"shortest_edge", "height"}) {
    const WeightDescription size = file.inner(key);
    if (size.has(side)) return std::llround(size.number(side, 1, kMaxSide));
  }
  return 0;
}

// Reads preprocessor_config.json of transformers.
std::optional<Preprocessing> read_preprocessor(const WeightDescription& file) {
  constexpr int kBilinear = 2, kBicubic = 3;  // PIL.Image.Resampling
  Preprocessing result = start_with(PreprocessPreset::kTf);
  const std::int64_t size = read_size(file, "size");
  if (size == 0) return std::nullopt;
  const bool crops = !file.has("do_center_crop") || file["do_center_crop"] == true;
  const std::int64_t crop = crops ? read_size(file, "crop_size") : 0;
  result.side = crop > 0 ? crop : size;
  result.is_stretched = crop == 0 && !file.has("crop_pct");
  if (crop > 0) result.crop_fraction = std::min(1.0, static_cast<double>(crop) / size);
  if (file.has("crop_pct")) result.crop_fraction = file.number("crop_pct", kMinShare, 1);
  if (file.has("resample")) {
    if (file["resample"] != kBilinear && file["resample"] != kBicubic) {
      file.fail("resample", "2 (bilinear) or 3 (bicubic)");
    }
    if (file["resample"] == kBicubic) result.interpolation = Interpolation::kBicubic;
  }
  file.take("image_mean", result.mean, -1e6);
  file.take("image_std", result.std, kMinStd);
  return result;
}

// Adds what the files beside the weights have where the name leaves it open.
void add_descriptions(const Path& folder, WeightSource& source) {
  const Path path = folder / "config.json";
  const std::optional<WeightDescription> file = read_description(path);
  if (!file) return;
  if (source.origin.empty()) source.origin = path.string();
  if (const std::string architecture = file->text("architecture"); !architecture.empty()) {
    const std::optional<Network> network = find_timm_network(architecture);
    if (network && !source.variant) source.variant = network->variant;
    if (file->has("pretrained_cfg") && (*file)["pretrained_cfg"].is_object()) {
      source.preprocessing = read_pretrained_cfg(file->inner("pretrained_cfg"));
    }
  } else if (file->has("model_type") || file->has("architectures")) {
    if (!source.variant) source.variant = Backbone::Variant::kTransformers;
    const std::optional<WeightDescription> images =
        read_description(folder / "preprocessor_config.json");
    if (images) source.preprocessing = read_preprocessor(*images);
  }
}

// Returns what is known of a name: its row, or for another tag of timm its architecture.
WeightSource read_name(const std::string& text) {
  WeightSource source;
  source.origin = text;
  if (const WeightRow* row = find_weight_row(text)) {
    source.backbone = row->backbone;
    source.variant = row->variant;
    if (row->side > 0) source.preprocessing = to_preprocessing(*row);
    return source;
  }
  const std::optional<WeightName> name = parse_weight_name(text);
  if (!name || name->library != "timm") return source;
  const std::string architecture = name->model.substr(0, name->model.find('.'));
  if (const std::optional<Network> network = find_timm_network(architecture)) {
    source.backbone = network->name;
    source.variant = network->variant;
  }
  return source;
}

}  // namespace

double find_crop_fraction(const Preprocessing& preprocessing, std::int64_t side) {
  if (preprocessing.is_stretched) return 1;
  const double size = static_cast<double>(side) / preprocessing.crop_fraction;
  if (std::nearbyint(size) == std::floor(size)) return preprocessing.crop_fraction;
  constexpr double kDigits = 1e4;  // more than any size of an image needs
  return std::round(static_cast<double>(side) / std::floor(size) * kDigits) / kDigits;
}

std::optional<PreprocessPreset> find_preset(const Preprocessing& preprocessing) {
  for (const auto& row : kPresets) {
    if (row.mean == preprocessing.mean && row.std == preprocessing.std) return row.preset;
  }
  return std::nullopt;
}

WeightSource find_weight_source(const Model& model) {
  const Path file = model.weights.empty() ? model.backbone->weights : model.weights;
  std::string name = model.weights_name;
  if (name.empty()) {
    const auto row = std::ranges::find(weight_table(), file.filename().string(), &WeightRow::file);
    if (row != weight_table().end() && *row->file != '\0') name = row->name;
  }
  WeightSource source = name.empty() ? WeightSource{} : read_name(name);
  if (is_file(file)) add_descriptions(file.parent_path(), source);
  return source;
}

}  // namespace trainer::config
