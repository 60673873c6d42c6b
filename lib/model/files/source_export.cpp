#include "model/files/source_export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "config/pretrained.h"
#include "config/source_names.h"
#include "model/backbones/backbone.h"
#include "model/files/export.h"
#include "model/files/persistent_tensors.h"
#include "model/files/pytorch.h"

namespace trainer::model {
namespace {

using Json = nlohmann::ordered_json;
using Pooling = config::Backbone::Pooling;
using Variant = config::Backbone::Variant;

enum class Format { kTorch, kTimm };
constexpr auto spellings(Format) {
  using enum Format;
  return std::to_array<Spelling<Format>>({{kTorch, "torch"}, {kTimm, "timm"}});
}

// Returns whether a state dict of the variant has the format.
bool fits(Variant variant, Format format) {
  if (format == Format::kTorch) return variant != Variant::kKeras;
  return variant == Variant::kTimm || variant == Variant::kTimmTf;
}

// Returns the variant of the file. timm has some networks of torchvision with the same names.
Variant find_exported_variant(const config::Backbone& backbone, Format format) {
  const Variant own = config::find_variant(backbone);
  if (fits(own, format)) return own;
  std::vector<std::string> others;
  for (const Variant variant : config::list_variants(backbone.name)) {
    if (!fits(variant, format)) continue;
    others.emplace_back(spell(variant));
    config::Backbone other = backbone;
    other.variant = variant;
    const std::string layer = config::first_block_layer(other);
    if (variant == Variant::kTimm && layer == config::first_block_layer(backbone)) return variant;
  }
  throw ConfigError(
      backbone.loc,
      concat("--format ", spell(format), ": the model is ", config::python_name(backbone),
             others.empty() ? concat(", and this format has no network of ", spell(backbone.name))
                            : concat(", another network than that of the format; train with "
                                     "model.backbone.variant: ",
                                     join(others, " or "))));
}

bool pools_patches(const config::Backbone& backbone) {
  return config::has_class_token(backbone.name) && !backbone.include_top &&
         (backbone.pooling == Pooling::kAverage || backbone.pooling == Pooling::kMax);
}

// Returns the model of the library: the backbone with its classifier, and no layers after it. timm
// has ViT's mean or maximum of the patches in place of the class token, too.
config::Model make_source_model(config::Model model, Variant variant, std::int64_t logits) {
  config::Backbone& backbone = *model.backbone;
  backbone.variant = variant;
  const bool pools = pools_patches(backbone) && fits(variant, Format::kTimm);
  model.head.clear();
  backbone.include_top = true;
  if (!pools) return model;
  config::DenseLayer dense;
  dense.units = logits;
  model.head = {{dense, build_backbone(backbone, {224, 224}, logits).layers.back().name, {}, {}}};
  backbone.include_top = false;
  return model;
}

// A computation of a network. `text` has its attributes, the numbers of the operations that it
// reads, and the parameters.
struct Operation {
  const graph::Node* node;
  std::string text;
};

// Returns the operations that change numbers in an evaluation or their positions in an image.
std::vector<Operation> list_operations(const graph::Graph& graph) {
  std::map<graph::ValueId, std::size_t> makers;
  std::vector<Operation> operations;
  for (const graph::Node& node : graph.nodes) {
    if (std::holds_alternative<graph::Dropout>(node.op) ||
        std::holds_alternative<graph::Reshape>(node.op)) {
      makers[node.outputs[0]] = makers[node.inputs[0]];
      continue;
    }
    std::string text = concat(graph::name_of(node.op), ' ', graph::describe(node.op));
    for (const graph::ValueId id : node.inputs) {
      const graph::Value& value = graph[id];
      text += graph::is_persistent(value.role)
                  ? value.name.substr(value.name.rfind('/')) + to_string(value.shape)
                  : concat(' ', makers[id]);
    }
    operations.push_back({&node, std::move(text)});
    for (const graph::ValueId id : node.outputs) makers[id] = operations.size();
  }
  return operations;
}

void check_network(const graph::Graph& own, const graph::Graph& source,
                   const config::Backbone& backbone, Format format) {
  const std::vector<Operation> of_model = list_operations(own), expected = list_operations(source);
  for (std::size_t i = 0; i < of_model.size(); ++i) {
    if (i < expected.size() && of_model[i].text == expected[i].text) continue;
    const graph::Node& node = *of_model[i].node;
    throw ConfigError(
        node.loc,
        concat(node.name, ": this layer is not one of ", config::python_name(backbone),
               i < expected.size() ? concat(", which has ", expected[i].node->name, " here") : "",
               "; --format ", spell(format),
               " needs the pooling of the library and one linear layer after the features, or "
               "model.backbone.include_top: true"));
  }
}

std::vector<graph::ValueId> list_parameters(const graph::Graph& graph) {
  std::vector<graph::ValueId> ids;
  for (const graph::LayerInfo& layer : graph.layers) {
    ids.insert(ids.end(), layer.parameters.begin(), layer.parameters.end());
  }
  return ids;
}

// The model as a network of the library.
struct SourceModel {
  config::Backbone backbone;
  graph::Graph graph;
  std::vector<checkpoint::Tensor> state;
};

SourceModel convert(const config::Config& config, const SampleSpec& sample,
                    const std::vector<checkpoint::Tensor>& tensors, Format format) {
  config::Model model = config.model;
  if (!model.backbone) {
    throw ConfigError(model.loc, concat("--format ", spell(format),
                                        " needs a model with model.backbone, which comes from a "
                                        "library; export this one to .onnx, .h5 or .safetensors"));
  }
  const Variant variant = find_exported_variant(*model.backbone, format);
  constexpr std::int64_t kStride = 32;  // of VGG16's features
  if (model.backbone->name == config::Backbone::Name::kVgg16 &&
      (sample.image[0] / kStride != kVggSide || sample.image[1] / kStride != kVggSide)) {
    throw ConfigError(model.backbone->loc,
                      concat("--format ", spell(format),
                             ": the classifier of vgg16 is for images of 224x224, but the model "
                             "has images of ",
                             sample.image[0], 'x', sample.image[1]));
  }
  model.backbone->freeze = {};
  const graph::Graph own = build_model(model, config.data, sample, config.seed);
  model = make_source_model(model, variant, own[own.outputs[0]].shape[1]);
  SourceModel source{*model.backbone, build_model(model, config.data, sample, config.seed), {}};
  check_network(own, source.graph, source.backbone, format);
  const PersistentTensors persistent(own, tensors);
  const std::vector<graph::ValueId> from = list_parameters(own), to = list_parameters(source.graph);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const graph::Value& value = source.graph[to[i]];
    source.state.push_back({value.name, value.shape, persistent.at(own[from[i]].name).values});
  }
  source.state = to_pytorch(source.graph, source.backbone, std::move(source.state));
  config::use_saved_names(source.backbone, source.state);
  return source;
}

void write_state(const SourceModel& source, const std::vector<std::string>& classes,
                 const Path& path) {
  checkpoint::Metadata metadata{{"format", "pt"}};
  if (!classes.empty()) checkpoint::add_classes(classes, metadata);
  checkpoint::write_safetensors(path, source.state, metadata);
}

// Returns timm's name of the network: "mobilenetv2_050" for alpha 0.5.
std::string find_architecture(const config::Backbone& backbone) {
  std::string name = config::python_class(backbone);
  if (backbone.alpha == 1) return name;
  const std::string percent = concat(std::lround(100 * backbone.alpha));
  const std::size_t zeros = percent.size() < 3 ? 3 - percent.size() : 0;
  return name.replace(name.rfind("100"), 3, std::string(zeros, '0') + percent);
}

// Returns the share with which timm, which rounds down, resizes to the size that `data` gives.
double find_crop_share(const config::Data& data, std::int64_t side) {
  if (data.fit != config::Fit::kCrop) return 1;
  const double size = static_cast<double>(side) / data.crop_fraction;
  if (std::floor(size) == std::nearbyint(size)) return data.crop_fraction;
  return static_cast<double>(side) / (std::nearbyint(size) + 0.5);
}

Json describe_images(const config::Data& data, const Shape& image) {
  const config::Normalize normalize = config::find_normalize(data);
  if (normalize.reverse_channels) {
    throw ConfigError(data.loc,
                      "--format timm: the images have their channels in the order blue, green, red "
                      "(preprocess: caffe), which timm does not have; use --format torch");
  }
  const double range = 255 * normalize.scale;
  std::vector<double> means, deviations;
  for (std::int64_t channel = 0; channel < image[2]; ++channel) {
    means.push_back(normalize.find_mean(channel) / range);
    deviations.push_back(normalize.find_std(channel) / range);
  }
  const char* const modes[] = {"squash", "center", "border"};
  const auto mode = data.fit == config::Fit::kCrop ? 1 : data.fit == config::Fit::kPad ? 2 : 0;
  return {{"input_size", {image[2], image[0], image[1]}},
          {"interpolation", spell(data.interpolation)},
          {"crop_pct", find_crop_share(data, image[0])},
          {"crop_mode", modes[mode]},
          {"mean", means},
          {"std", deviations}};
}

Json describe_source(const SourceModel& source, const config::Data& data, const Shape& image,
                     const std::vector<std::string>& classes) {
  const config::Backbone& backbone = source.backbone;
  const std::int64_t logits = source.graph[source.graph.outputs[0]].shape[1];
  Json network = describe_images(data, image);
  network["fixed_input_size"] = config::has_class_token(backbone.name);
  network["num_classes"] = logits;
  std::string convolution;
  for (const graph::LayerInfo& layer : source.graph.layers) {
    if (convolution.empty() && layer.kind == "Conv2D") convolution = layer.name;
    if (!layer.parameters.empty()) network["classifier"] = layer.name;
  }
  // timm converts kernels of three channels to those of other images.
  if (image[2] == 3) network["first_conv"] = convolution;
  Json json{{"architecture", find_architecture(backbone)}, {"num_classes", logits}};
  if (std::ssize(classes) == logits) json["label_names"] = classes;
  if (pools_patches(backbone)) json["model_args"] = {{"global_pool", spell(backbone.pooling)}};
  json["pretrained_cfg"] = std::move(network);
  return json;
}

}  // namespace

void export_torch(const config::Config& config, const SampleSpec& sample,
                  const std::vector<checkpoint::Tensor>& tensors, const Path& path,
                  const std::vector<std::string>& classes) {
  write_state(convert(config, sample, tensors, Format::kTorch), classes, path);
}

void export_timm(const config::Config& config, const SampleSpec& sample,
                 const std::vector<checkpoint::Tensor>& tensors, const Path& folder,
                 const std::vector<std::string>& classes) {
  const SourceModel source = convert(config, sample, tensors, Format::kTimm);
  const Json json = describe_source(source, config.data, sample.image, classes);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(folder, "cannot create: " + error.message());
  write_state(source, classes, folder / kTimmFiles[0]);
  write_file_atomic(folder / kTimmFiles[1],
                    json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

}  // namespace trainer::model
