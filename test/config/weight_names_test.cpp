// Names of published weights: where their files are found, and what they decide.
#include "config/weight_names.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/files/files.h"
#include "config/pretrained.h"
#include "config/weight_source.h"
#include "support.h"
#include "support/contains.h"
#include "support/state_dict.h"

namespace trainer::config::weight_names_test {
namespace {

namespace fs = std::filesystem;
using test::contains;
using Variant = Backbone::Variant;

constexpr const char* kName = "timm/resnet50.a1_in1k";
constexpr const char* kRevision = "767268603ca0cb0bfe326fa87277f19c419566ef";

// The folders of a user, with files of one tensor.
struct Machine {
  TemporaryFolder folder;
  Environment environment{{"HOME", path("home")},
                          {"WEIGHTS_DIR", path("own")},
                          {"HF_HUB_CACHE", path("hub_cache")},
                          {"HF_HOME", path("hf_home")},
                          {"TORCH_HOME", path("torch")}};

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string add(const std::string& file,
                  const std::string& tensor = "layer1.0.conv1.weight") const {
    fs::create_directories(fs::path(path(file)).parent_path());
    test::write_state_dict(path(file), {{tensor, {1}, {1}}});
    return path(file);
  }
  std::string add_text(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(path(file)).parent_path());
    write_file_atomic(path(file), text);
    return path(file);
  }
  // Adds the file of a repository to a cache of the hub.
  std::string add_to_hub(const std::string& cache, const std::string& file = "model.safetensors",
                         const std::string& repository = "models--timm--resnet50.a1_in1k") const {
    const std::string root = cache + '/' + repository;
    add_text(root + "/refs/main", kRevision);
    return add(concat(root, "/snapshots/", kRevision, '/', file));
  }
  LoadedConfig load(const std::string& backbone, const std::string& data = "",
                    const std::string& model = "") const {
    return parse("model: {backbone: {" + backbone + "}, head: [global_average_pool, dense: 2]" +
                     model + "}\ndata: {format: image_folder, path: somewhere" + data + "}\n" +
                     kTrain,
                 {}, environment);
  }
  std::string mistake(const std::string& backbone) const {
    try {
      load(backbone);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

constexpr const char* kConfigJson = R"({"architecture": "resnet50", "pretrained_cfg": {
    "input_size": [3, 160, 160], "crop_pct": 0.9, "interpolation": "bilinear",
    "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}})";

}  // namespace

TEST_CASE(
    "find_named_file returns the file of WEIGHTS_DIR, or of the first cache of the hub that has "
    "it") {
  const Machine machine;
  const WeightName name = *parse_weight_name(kName);
  const std::string repository = "models--timm--resnet50.a1_in1k";
  CHECK(list_weight_places(name, machine.environment) ==
        std::vector{machine.path("own/timm/resnet50.a1_in1k"),
                    machine.path("hub_cache/" + repository),
                    machine.path("hf_home/hub/" + repository),
                    machine.path("home/.cache/huggingface/hub/" + repository)});
  CHECK(find_named_file(name, machine.environment).empty());
  // Each file is found before those that were added earlier.
  for (const std::string cache : {"home/.cache/huggingface/hub", "hf_home/hub", "hub_cache"}) {
    const std::string file = machine.add_to_hub(cache);
    CHECK(find_named_file(name, machine.environment) == file);
  }
  const std::string own = machine.add("own/timm/resnet50.a1_in1k/pytorch_model.bin");
  CHECK(find_named_file(name, machine.environment) == own);
  const std::string first = machine.add("own/timm/resnet50.a1_in1k/model.safetensors");
  CHECK(find_named_file(name, machine.environment) == first);
}

TEST_CASE("find_named_file takes no revision that leaves the cache") {
  const Machine machine;
  machine.add("hub_cache/elsewhere/model.safetensors");
  machine.add_text("hub_cache/models--timm--resnet50.a1_in1k/refs/main", "../../elsewhere");
  CHECK(find_named_file(*parse_weight_name(kName), machine.environment).empty());
}

TEST_CASE("find_named_file finds torchvision's file in WEIGHTS_DIR before the cache of torch.hub") {
  const Machine machine;
  const WeightName name = *parse_weight_name("torchvision/resnet50.IMAGENET1K_V2");
  const std::string torch = machine.add("torch/hub/checkpoints/resnet50-11ad3fa6.pth");
  CHECK(find_named_file(name, machine.environment) == torch);
  const std::string own = machine.add("own/resnet50-11ad3fa6.pth");
  CHECK(find_named_file(name, machine.environment) == own);
}

TEST_CASE("parse_weight_name takes the form of names and leaves paths of files") {
  CHECK(parse_weight_name("facebook/convnext-tiny-224")->model == "convnext-tiny-224");
  for (const char* path :
       {"weights/a.h5", "weights/a.PTH", "a", "../a", "/a/b", "a/b/c", "a/", ".a/b", "a b/c", ""}) {
    CAPTURE(path);
    CHECK_FALSE(parse_weight_name(path));
  }
}

TEST_CASE("weights: a name stands for its file in both keys, unless a file has that path") {
  const Machine machine;
  const std::string file = machine.add_to_hub("hub_cache");
  const std::string backbone = "name: resnet50, weights: " + std::string(kName);
  const Model model = machine.load(backbone).config.model;
  CHECK(model.backbone->weights == file);
  CHECK(model.weights_name == kName);
  const Model whole =
      machine.load("name: resnet50", "", ", weights: " + std::string(kName)).config.model;
  CHECK(whole.weights == file);
  CHECK(whole.weights_name == kName);
  const std::string other = machine.add("home/timm/resnet50.a1_in1k");
  const Path here = fs::current_path();
  fs::current_path(machine.path("home"));
  const Model own = machine.load(backbone).config.model;
  fs::current_path(here);
  CHECK(own.backbone->weights == kName);
  CHECK(own.weights_name.empty());
}

TEST_CASE("a name decides the variant and the preprocessing, also where its file is missing") {
  const Machine machine;
  for (const bool has_file : {false, true}) {
    if (has_file) machine.add_to_hub("hf_home/hub");
    const LoadedConfig loaded = machine.load("name: resnet50, weights: " + std::string(kName));
    const Data& data = loaded.config.data;
    CHECK(loaded.config.model.backbone->variant == Variant::kTimm);
    CHECK(data.preprocess == PreprocessPreset::kTorch);
    CHECK(data.interpolation == Interpolation::kBicubic);
    CHECK(data.fit == Fit::kCrop);
    CHECK(std::lround(224 / data.crop_fraction) == 235);  // timm rounds 224 / 0.95 down
    CHECK(data.resize == std::vector<std::int64_t>{224, 224});
    for (const char* key : {"data.preprocess", "data.interpolation", "data.fit",
                            "data.crop_fraction", "model.input"}) {
      CAPTURE(key);
      CHECK(loaded.origins.at(key).kind == Origin::Kind::kWeights);
      CHECK(loaded.origins.at(key).detail == kName);
    }
    CHECK(loaded.config.model.weights_warning.empty());
  }
}

TEST_CASE("keys of the config come before the preprocessing of the weights") {
  const Machine machine;
  const LoadedConfig loaded =
      machine.load("name: resnet50, weights: " + std::string(kName),
                   ", preprocess: scale, interpolation: bilinear, fit: pad, resize: [96, 96]");
  const Data& data = loaded.config.data;
  CHECK(data.preprocess == PreprocessPreset::kScale);
  CHECK(data.interpolation == Interpolation::kBilinear);
  CHECK(data.fit == Fit::kPad);
  CHECK(data.crop_fraction == 1);
  CHECK(data.resize == std::vector<std::int64_t>{96, 96});
  CHECK(loaded.origins.at("data.fit").kind == Origin::Kind::kFile);
}

TEST_CASE("config.json beside a file decides the variant and comes before the table") {
  const Machine machine;
  const std::string file = machine.add("mine/model.safetensors", "blocks.0.0.conv_dw.weight");
  const std::string backbone = "name: efficientnet_b0, weights: '" + file + "'";
  CHECK(contains(machine.mistake(backbone), "set it to timm or timm_tf"));
  machine.add_text("mine/config.json", R"({"architecture": "tf_efficientnet_b0"})");
  CHECK(machine.load(backbone).config.model.backbone->variant == Variant::kTimmTf);
  CHECK(machine.load(backbone + ", variant: timm").config.model.backbone->variant ==
        Variant::kTimm);

  machine.add_to_hub("hub_cache");
  machine.add_text(
      concat("hub_cache/models--timm--resnet50.a1_in1k/snapshots/", kRevision, "/config.json"),
      kConfigJson);
  const Data data = machine.load("name: resnet50, weights: " + std::string(kName)).config.data;
  CHECK(data.resize == std::vector<std::int64_t>{160, 160});
  CHECK(std::lround(160 / data.crop_fraction) == 177);
  CHECK(data.interpolation == Interpolation::kBilinear);
  REQUIRE(data.normalize);
  CHECK(data.normalize->mean == std::vector{0.1, 0.2, 0.3});
  CHECK(data.normalize->std == std::vector{0.4, 0.5, 0.6});
  CHECK(find_normalize(data).scale == 1 / 255.0);
}

TEST_CASE("config.json of another network than the names in the file is not used") {
  const Machine machine;
  const std::string file = machine.add("mine/x.safetensors", "conv2_block1_1_conv/kernel");
  machine.add_text("mine/config.json", kConfigJson);
  const Config config = machine.load("name: resnet50, weights: '" + file + "'").config;
  CHECK(config.model.backbone->variant == Variant::kKeras);
  CHECK(config.data.preprocess == PreprocessPreset::kCaffe);
  CHECK(config.data.fit == Fit::kStretch);
}

TEST_CASE("config.json with impossible values is an error that names it") {
  const Machine machine;
  const std::string backbone =
      "name: resnet50, weights: '" + machine.add("mine/x.safetensors") + "'";
  for (const auto& [cfg, message] : std::map<std::string, std::string>{
           {R"("crop_pct": 0)", "crop_pct is 0, expected a number from 0.01 to 1"},
           {R"("crop_pct": "all")", "crop_pct is \"all\", expected a number"},
           {R"("std": [1, 0, 1])", "std is [1,0,1], expected a number"},
           {R"("mean": [1])", "mean is [1], expected three numbers"},
           {R"("input_size": 224)", "input_size is 224, expected [channels, height, width]"},
           {R"("interpolation": "lanczos")", "interpolation is \"lanczos\", expected bilinear"}}) {
    CAPTURE(cfg);
    const std::string path = machine.add_text(
        "mine/config.json", R"({"architecture": "resnet50", "pretrained_cfg": {)" + cfg + "}}");
    const std::string mistake = machine.mistake(backbone);
    CHECK(contains(mistake, path));
    CHECK(contains(mistake, message));
  }
  machine.add_text("mine/config.json", "not JSON");
  CHECK(machine.mistake(backbone).empty());
}

TEST_CASE("preprocessor_config.json decides the images of weights of transformers") {
  const Machine machine;
  const std::string repository = "models--microsoft--resnet-50";
  const std::string folder = concat("hub_cache/", repository, "/snapshots/", kRevision);
  const std::string file = machine.add_to_hub("hub_cache", "model.safetensors", repository);
  machine.add(folder + "/model.safetensors",
              "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight");
  machine.add_text(folder + "/config.json", R"({"model_type": "resnet"})");
  const auto load = [&](const std::string& text) {
    machine.add_text(folder + "/preprocessor_config.json", text);
    return machine.load("name: resnet50, weights: microsoft/resnet-50").config;
  };
  const Config share = load(R"({"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3,
      "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})");
  CHECK(share.model.backbone->weights == file);
  CHECK(share.model.backbone->variant == Variant::kTransformers);
  CHECK(share.data.crop_fraction == 0.875);
  CHECK(share.data.interpolation == Interpolation::kBicubic);
  CHECK(share.data.preprocess == PreprocessPreset::kTorch);
  const Config crop = load(R"({"size": 256, "crop_size": {"height": 192, "width": 192}})");
  CHECK(crop.data.resize == std::vector<std::int64_t>{192, 192});
  CHECK(crop.data.crop_fraction == 0.75);
  CHECK(crop.data.preprocess == PreprocessPreset::kTf);
  const Config stretch = load(R"({"size": {"height": 200, "width": 200}})");
  CHECK(stretch.data.fit == Fit::kStretch);
  CHECK(stretch.data.resize == std::vector<std::int64_t>{200, 200});
}

TEST_CASE("a name of another backbone or network is an error that names both") {
  const Machine machine;
  CHECK(contains(machine.mistake("name: resnet50, weights: timm/resnet18.a1_in1k"),
                 "model.backbone.weights: timm/resnet18.a1_in1k has weights of resnet18, but "
                 "model.backbone is resnet50"));
  // The tag is not in the table.
  CHECK(contains(machine.mistake("name: resnet50, weights: timm/resnet18.another_tag"),
                 "has weights of resnet18"));
  CHECK(contains(machine.mistake("name: efficientnet_b0, variant: timm, weights: "
                                 "timm/tf_efficientnet_b0.in1k"),
                 "model.backbone.variant: is timm, but timm/tf_efficientnet_b0.in1k is a network "
                 "of timm_tf; remove the key"));
}

TEST_CASE("names of tensors that leave the preprocessing open are a warning") {
  const Machine machine;
  const std::string file = machine.add("mine/x.safetensors");
  const std::string backbone = "name: resnet50, weights: '" + file + "'";
  const std::string warning = machine.load(backbone).config.model.weights_warning;
  CHECK(contains(warning, file));
  CHECK(contains(warning, "fit weights of torchvision or timm"));
  CHECK(machine.load(backbone, ", preprocess: torch").config.model.weights_warning.empty());
  machine.add_text("mine/config.json", kConfigJson);
  CHECK(machine.load(backbone).config.model.weights_warning.empty());
  // The file's own name is enough.
  const std::string known = machine.add("other/resnet50-11ad3fa6.pth");
  const Config config = machine.load("name: resnet50, weights: '" + known + "'").config;
  CHECK(config.model.weights_warning.empty());
  CHECK(std::lround(224 / config.data.crop_fraction) == 232);
}

TEST_CASE("missing_named_weights names the places and the command") {
  const Machine machine;
  const std::string text = missing_named_weights(*parse_weight_name(kName), machine.environment);
  for (const std::string& place :
       list_weight_places(*parse_weight_name(kName), machine.environment)) {
    CHECK(contains(text, place));
  }
  CHECK(text.ends_with(". This downloads it:\n  trainer weights timm/resnet50.a1_in1k"));
  CHECK(contains(missing_named_weights(*parse_weight_name("torchvision/resnet50.IMAGENET1K_V9"),
                                       machine.environment),
                 "is not a known name, did you mean 'torchvision/resnet50.IMAGENET1K_V"));
}

TEST_CASE("weight_table: each row is of a variant of its backbone, and a default preset fits one") {
  std::map<std::pair<Backbone::Name, Variant>, std::vector<PreprocessPreset>> presets;
  for (const WeightRow& row : weight_table()) {
    CAPTURE(row.name);
    const std::vector<Variant> variants = list_variants(row.backbone);
    CHECK(std::ranges::find(variants, row.variant) != variants.end());
    CHECK(parse_weight_name(row.name));
    CHECK(find_weight_row(row.name) == &row);
    CHECK((row.variant == Variant::kTorchvision) == (*row.file != '\0'));
    if (row.side > 0) presets[{row.backbone, row.variant}].push_back(row.preset);
  }
  for (const auto& [network, found] : presets) {
    Backbone backbone;
    backbone.name = network.first;
    backbone.variant = network.second;
    CAPTURE(spell(backbone.name));
    CHECK(std::ranges::find(found, default_preprocess(backbone)) != found.end());
  }
}

}  // namespace trainer::config::weight_names_test
