#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "config/checks/checks.h"
#include "config/decode.h"
#include "config/derived.h"
#include "config/describe/schema.h"
#include "config/extends.h"
#include "config/hints.h"
#include "config/keys.h"
#include "config/paths.h"
#include "config/pretrained.h"
#include "config/variant.h"
#include "config/weight_names.h"
#include "config/weight_source.h"
#include "config/yaml/rounds.h"

namespace trainer::config {
namespace {

void report_failures(const Node& node, std::vector<Diagnostic>& diagnostics) {
  if (!node.failure.empty()) diagnostics.push_back({node.loc, node.failure + node.note});
  for (const Node& item : node.items) report_failures(item, diagnostics);
  for (const Entry& entry : node.entries) report_failures(entry.value, diagnostics);
}

// Sorts diagnostics by file and line, with those of flags after those of files.
void throw_if_any(std::vector<Diagnostic>& diagnostics) {
  if (diagnostics.empty()) return;
  std::ranges::stable_sort(diagnostics, [](const Diagnostic& a, const Diagnostic& b) {
    if ((a.loc.line == 0) != (b.loc.line == 0)) return b.loc.line == 0;
    if (a.loc.line == 0) return false;
    return std::tie(a.loc.file, a.loc.line, a.loc.column) <
           std::tie(b.loc.file, b.loc.line, b.loc.column);
  });
  throw ConfigError(std::move(diagnostics));
}

// The origin of a leaf is that of the nearest thing above it that was given as one value.
std::map<std::string, Origin> origins_of_leaves(const Decoded& decoded) {
  std::map<std::string, Origin> origins;
  for (const auto& [path, value] : leaves(decoded.config)) {
    const auto found = decoded.origins.find(path);
    origins[path] = found == decoded.origins.end() ? Origin{} : found->second;
  }
  return origins;
}

// Reads a config that another program writes: `trainer train <(make_config)`.
std::string read_pipe(const std::string& path) {
  constexpr std::size_t kMaxBytes = 16 << 20;
  std::ifstream pipe(path, std::ios::binary);
  std::string text;
  for (char piece[4096]; pipe.read(piece, sizeof piece), pipe.gcount() > 0;) {
    text.append(piece, pipe.gcount());
    if (text.size() > kMaxBytes) {
      throw ConfigError(SourceLoc{path, 0, 0},
                        "more than 16 MB came through this pipe; a config is smaller");
    }
  }
  return text;
}

// Sets the size of image files to that on which the backbone's weights were trained.
void take_input_from_backbone(Config& config) {
  const bool open = config.model.input.empty() && config.data.resize.empty();
  if (!config.model.backbone || !is_image_format(config.data.format) || !open) return;
  const std::int64_t side = default_image_side(config.model.backbone->name);
  config.model.input = {side, side, config.data.channels.value_or(3)};
}

// Sets the size and channels of image files to those of the model's input.
void take_size_from_model(Config& config) {
  if (!is_image_format(config.data.format) || config.model.input.empty()) return;
  const std::vector<std::int64_t>& input = config.model.input;
  if (config.data.resize.empty()) config.data.resize = {input[0], input[1]};
  if (!config.data.channels) config.data.channels = input[2];
}

// Switches scaled decoding off if the config sets antialias only: with or without antialias, a JPEG
// that is decoded at a fraction of its size does not have the pixels that the config asks for.
void take_scaled_decode_from_antialias(Decoded& decoded) {
  const auto antialias = decoded.origins.find("data.antialias");
  if (antialias == decoded.origins.end()) return;
  if (!decoded.origins.emplace("data.scaled_decode", antialias->second).second) return;
  decoded.config.data.scaled_decode = false;
}

// Sets the preprocessing to that with which the weights of the backbone were trained.
void take_preprocess_from_backbone(Config& config) {
  if (!config.model.backbone || config.data.preprocess || config.data.normalize) return;
  config.data.preprocess = default_preprocess(*config.model.backbone);
}

// Sets the keys that the config leaves open to what was done to the images of the weights.
class PreprocessingKeys {
 public:
  PreprocessingKeys(LoadedConfig& loaded, std::string origin)
      : loaded_(loaded), data_(loaded.config.data), origin_(std::move(origin)) {}

  void take(const Preprocessing& from) {
    if (!data_.preprocess && !data_.normalize) take_numbers(from);
    if (!is_image_format(data_.format)) return;
    if (is_open(keys::kModelInput) && is_open(keys::kResize)) take_side(from.side);
    if (is_open(keys::kInterpolation)) {
      set(keys::kInterpolation, data_.interpolation, from.interpolation);
    }
    if (is_open(keys::kFit) && is_open(keys::kCropFraction)) {
      set(keys::kFit, data_.fit, from.is_stretched ? Fit::kStretch : Fit::kCrop);
    }
    if (data_.fit == Fit::kCrop && is_open(keys::kCropFraction)) {
      set(keys::kCropFraction, data_.crop_fraction, find_crop_fraction(from, data_.resize[0]));
    }
  }

 private:
  bool is_open(const char* key) const { return loaded_.origins.at(key).is_open(); }
  void mark(const std::string& key) {
    loaded_.origins[key] = {Origin::Kind::kWeights, {}, origin_};
  }
  template <class T>
  void set(const char* key, T& field, T value) {
    field = std::move(value);
    mark(key);
  }
  void take_numbers(const Preprocessing& from) {
    if (const std::optional<PreprocessPreset> preset = find_preset(from)) {
      set(keys::kPreprocess, data_.preprocess, std::optional(preset));
      return;
    }
    data_.normalize = Normalize{
        1 / 255.0, {from.mean.begin(), from.mean.end()}, {from.std.begin(), from.std.end()}, false};
    for (const auto& [key, value] : leaves(loaded_.config, keys::kNormalize)) mark(key);
  }
  void take_side(std::int64_t side) {
    std::vector<std::int64_t>& input = loaded_.config.model.input;
    set(keys::kModelInput, input, {side, side, data_.channels.value_or(3)});
    data_.resize = {side, side};
    data_.stated_shape = input;
  }

  LoadedConfig& loaded_;
  Data& data_;
  std::string origin_;
};

// Applies the overrides to the tree of a file, and decodes and checks the result.
Decoded decode_tree(Node root, const std::vector<Override>& overrides,
                    const Environment& environment, std::vector<Diagnostic>& diagnostics) {
  if (root.kind == Node::Kind::kNull) throw_if_any(diagnostics);  // the text is not YAML
  for (const Override& entry : overrides) apply(entry, environment, root, diagnostics);
  const bool has_rounds = make_rounds(root);
  expand(root, config_schema());
  report_failures(root, diagnostics);

  Decoded decoded = decode(root, diagnostics);
  take_replicas_from_gpus(decoded);
  take_scaled_decode_from_antialias(decoded);
  check(decoded, diagnostics);
  if (has_rounds) join_rounds(diagnostics);
  throw_if_any(diagnostics);
  take_input_from_backbone(decoded.config);
  take_size_from_model(decoded.config);
  Data& data = decoded.config.data;
  const bool may_have_columns =
      data.format == DataFormat::kCsv ? data.csv.label_column.empty() : holds_arrays(data.format);
  data.stated_shape = decoded.config.model.input;
  data.columns_are_labels =
      may_have_columns && decoded.config.model.loss == LossKind::kBinaryCrossEntropy;
  return decoded;
}

LoadedConfig with_name(Decoded decoded, const std::string& file) {
  if (decoded.config.name.empty()) {
    decoded.config.name = std::filesystem::path(file).stem().string();
  }
  return {decoded.config, origins_of_leaves(decoded)};
}

// Reads a config, of which paths may still be relative to its file.
LoadedConfig read_config(const std::string& text, const std::string& file,
                         const std::vector<Override>& overrides, const Environment& environment) {
  std::vector<Diagnostic> diagnostics;
  Node root = read_tree(text, file, environment, diagnostics);
  Decoded decoded = decode_tree(std::move(root), overrides, environment, diagnostics);
  find_imagenet_weights(decoded.config, environment);
  return with_name(std::move(decoded), file);
}

// Finds the weights that the config names, and sets what those of a backbone decide.
void resolve_weights(LoadedConfig& loaded, const Environment& environment) {
  Model& model = loaded.config.model;
  find_named_weights(model, environment);
  if (!model.backbone) return;
  WeightSource source = find_weight_source(model);
  resolve_variant(loaded, source);
  if (source.preprocessing) {
    PreprocessingKeys(loaded, source.origin).take(*source.preprocessing);
  }
  take_preprocess_from_backbone(loaded.config);
}

// Replaces an algorithm that earlier versions had. Returns a notice for the user, or "".
std::string replace_collective(Node& root) {
  Entry* const parallel = root.find("parallel");
  Entry* const entry = parallel ? parallel->value.find("collective") : nullptr;
  if (!entry) return "";
  std::string& word = entry->value.text;
  if (word != "tree" && word != "bcube" && word != "halving_doubling") return "";
  const std::string before = std::exchange(word, "auto");
  return concat(keys::kCollective, " is ", before,
                " in this run, which this version reads as auto: it chooses by the number of "
                "processes");
}

}  // namespace

LoadedConfig parse_config(const std::string& text, const std::string& file,
                          const std::vector<Override>& overrides, const Environment& environment) {
  LoadedConfig loaded = read_config(text, file, overrides, environment);
  resolve_weights(loaded, environment);
  return loaded;
}

LoadedConfig parse_recorded_config(const std::string& text, const std::string& file,
                                   const std::vector<Override>& overrides,
                                   const Environment& environment) {
  std::vector<Diagnostic> diagnostics;
  Node root = read_recorded_tree(text, file, diagnostics);
  const std::string notice = replace_collective(root);
  Decoded decoded = decode_tree(std::move(root), overrides, environment, diagnostics);
  decoded.config.data.folders = FolderAccess::kReadOnly;
  // The file has the weights itself, so that no weight file is searched or read.
  if (std::optional<Backbone>& backbone = decoded.config.model.backbone) {
    backbone->variant = find_variant(*backbone);
  }
  take_preprocess_from_backbone(decoded.config);
  LoadedConfig loaded = with_name(std::move(decoded), file);
  loaded.notice = notice;
  for (auto& [key, target] : {std::pair("run.mlflow", &loaded.config.run.mlflow),
                              std::pair("run.prometheus", &loaded.config.run.prometheus)}) {
    if (loaded.origins.at(key).kind == Origin::Kind::kFile) target->clear();
  }
  return loaded;
}

LoadedConfig load_config(const std::string& path, const std::vector<Override>& overrides,
                         const Environment& environment) {
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    return parse_config(read_pipe(path), path, overrides, environment);
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    throw ConfigError(
        SourceLoc{path, 0, 0},
        std::filesystem::exists(path, error)
            ? "this is not a file; give the path of a YAML config"
            : describe_missing("file", path,
                               "a YAML config, a folder of images or a list of images (CSV)"));
  }
  const std::string text = read_text_file(path);
  if (const std::string hint = list_hint(text, path); !hint.empty()) {
    throw ConfigError(SourceLoc{path, 0, 0}, hint);
  }
  LoadedConfig loaded = read_config(text, path, overrides, environment);
  find_paths_beside_file(loaded);
  resolve_weights(loaded, environment);
  return loaded;
}

bool has_section(const std::string& path, const std::string& key, const Environment& environment) {
  if (!is_file(path)) return true;
  std::vector<Diagnostic> diagnostics;
  const Node root = read_tree(read_text_file(path), path, environment, diagnostics);
  return root.kind == Node::Kind::kNull || root.find(key) != nullptr;
}

}  // namespace trainer::config
