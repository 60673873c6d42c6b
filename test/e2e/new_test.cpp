// Configs and values that the program finds by itself.
#include <doctest/doctest.h>

#include "base/error.h"
#include "config/pretrained.h"
#include "config/values.h"
#include "pictures.h"
#include "support/contains.h"
#include "support/source_files.h"
#include "support/state_dict.h"

namespace trainer::e2e {
namespace {

using test::contains;

struct Folder {
  Workspace work;
  Path photos = work / "my photos";
  Path config = work / "start.yaml";

  Folder() {
    write_images(photos / "train", 12, 1);
    write_images(photos / "val", 4, 2);
  }
  Result create(const Path& source) const {
    return run({"new", source, "--output", config}, {{"HOME", work / "home"}, {"WEIGHTS_DIR", ""}});
  }
};

}  // namespace

TEST_CASE("new writes a config for a folder of images that trains without an edit") {
  const Folder folder;
  const Result result = folder.create(folder.photos);
  INFO(result.err);
  REQUIRE(result.code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text,
                 "# Found: 24 training images of 2 classes (left 12, right 12), 8 to validate"));
  CHECK(contains(text, "at least 40 x 36 pixels"));
  CHECK(contains(text, "name: my_photos"));
  CHECK(contains(text, "classes: [left, right]"));
  CHECK(contains(text, "No weights of a backbone were found in weights, "));
  CHECK(contains(text, "input: [32, 32, 3]"));
  const Result trained = run({"train", folder.config, "--json", "--run-dir", folder.work / "run",
                              "--set", "train.max_steps=2"});
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(trained.event("finished")["metrics"]["validation"]["count"] == 8);
  // It is the user's from here on.
  const Result again = folder.create(folder.photos);
  CHECK(again.code == 2);
  CHECK(contains(again.err, "replace it with --overwrite"));
}

TEST_CASE("new keeps the letters of a folder's name that are not ASCII") {
  const Folder folder;
  for (const auto& [name, run_name] :
       {std::pair{"Fotos für Übung", "Fotos_für_Übung"}, {"Äbung", "Äbung"}, {"a\xfc", "a_"}}) {
    CAPTURE(name);
    const Path photos = folder.work / name;
    std::filesystem::create_directory_symlink(folder.photos, photos);
    std::filesystem::remove(folder.config);
    REQUIRE(folder.create(photos).code == 0);
    CHECK(config::load_config(folder.config, {}, {}).config.name == run_name);
  }
}

TEST_CASE("new takes a side of 64 for large photos and no weights") {
  const Folder folder;
  const Path photos = folder.work / "large";
  for (const char* name : {"cats", "dogs"}) {
    std::filesystem::create_directories(photos / name);
    for (const int i : {1, 2, 3}) {
      std::ofstream(photos / name / concat(i, ".ppm"), std::ios::binary)
          << "P6 300 200 255\n"
          << std::string(300 * 200 * 3, 'a');
    }
  }
  REQUIRE(folder.create(photos).code == 0);
  CHECK(contains(read_text_file(folder.config), "input: [64, 64, 3]"));
}

TEST_CASE("new writes validation_split for a folder without splits") {
  const Folder folder;
  REQUIRE(folder.create(folder.photos / "train").code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text, "validation_split: 0.2"));
  CHECK(run({"validate", folder.config}).code == 0);
}

TEST_CASE("new uses the backbone of a file of weights beside the data") {
  const Folder folder;
  const Path weights = folder.work / "weights";
  std::filesystem::create_directories(weights);
  const std::string file = "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5";
  std::ofstream(weights / file) << "not read";
  REQUIRE(folder.create(folder.photos).code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text, "name: vgg16"));
  CHECK(contains(text, "weights: " + (weights / file).string()));
  CHECK(contains(text, "freeze: all"));
  CHECK(contains(text, "epochs: 30"));
  CHECK(run({"validate", folder.config, "--set", "model.backbone.weights=''"}).code == 0);
}

TEST_CASE("new: weights of any backbone are found") {
  for (const std::string& word : enum_words<config::Backbone::Name>()) {
    CAPTURE(word);
    const Folder folder;
    const Path weights = folder.work / "weights";
    std::filesystem::create_directories(weights);
    config::Backbone backbone;
    backbone.name = *parse_enum<config::Backbone::Name>(word);
    if (config::imagenet_weight_file(backbone).empty()) continue;
    std::ofstream(weights / config::imagenet_weight_file(backbone)) << "not read";
    const Result created = folder.create(folder.photos);
    CHECK(created.err == "");
    const std::string text = read_text_file(folder.config);
    CHECK(contains(text, concat("name: ", word, "  # its weights were found")));
    // Keras's sizes: https://keras.io/api/applications/efficientnet
    const int side = word.ends_with("_b1")   ? 240
                     : word.ends_with("_b2") ? 260
                     : word.ends_with("_b3") ? 300
                     : word.ends_with("_b4") ? 380
                     : word.ends_with("_s")  ? 384
                     : word == "xception"    ? 299
                                             : 224;
    CHECK(contains(text, concat("input: [", side, ", ", side, ", 3]")));
    CHECK(contains(
        text, concat("weights: ", (weights / config::imagenet_weight_file(backbone)).string())));
    CHECK(contains(run({"validate", folder.config}).err, "is a text file; expected Keras .h5"));
  }
}

TEST_CASE("new takes the weights of the network that suits a CPU from those of several backbones") {
  const Folder folder;
  const Path weights = folder.work / "weights";
  std::filesystem::create_directories(weights);
  // VGG16 and ResNet152 have more operations than the CPU is to compute; the fewest are taken then.
  const std::pair<const char*, const char*> files[] = {
      {"vgg16", "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5"},
      {"resnet152", "resnet152_weights_tf_dim_ordering_tf_kernels_notop.h5"},
      {"mobilenet_v2", "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"},
      {"resnet50", "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5"},
      {"efficientnet_b0", "efficientnetb0_notop.h5"},
      {"efficientnet_b0", "densenet121_weights_tf_dim_ordering_tf_kernels_notop.h5"}};
  for (const auto& [name, file] : files) {
    CAPTURE(name);
    std::ofstream(weights / file) << "not read";
    std::filesystem::remove(folder.config);
    REQUIRE(folder.create(folder.photos).code == 0);
    CHECK(contains(read_text_file(folder.config), concat("    name: ", name, "  #")));
  }
}

TEST_CASE("new takes the class token of DINOv2's weights in the cache of the hub") {
  const Folder folder;
  const Path repository =
      folder.work / "home/.cache/huggingface/hub/models--timm--vit_small_patch14_dinov2.lvd142m";
  std::filesystem::create_directories(repository / "snapshots/abc");
  std::filesystem::create_directories(repository / "refs");
  std::ofstream(repository / "refs/main") << "abc";
  std::ofstream(repository / "snapshots/abc/model.safetensors") << "not read";
  REQUIRE(folder.create(folder.photos).code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text, "input: [224, 224, 3]"));
  CHECK(contains(text, "weights: timm/vit_small_patch14_dinov2.lvd142m\n    pooling: token"));
  CHECK(contains(text, "  head:\n    - dropout: 0.2\n"));
  const Result valid =
      run({"plan", folder.config, "--set", "model.backbone.weights=''"}, {{"WEIGHTS_DIR", ""}});
  INFO(valid.err);
  CHECK(valid.code == 0);
}

TEST_CASE("new --backbone takes the given backbone, and fails without its weights") {
  const Folder folder;
  const Path weights = folder.work / "weights";
  std::filesystem::create_directories(weights);
  for (const char* name : {"vgg16", "resnet50"}) {
    std::ofstream(weights / concat(name, "_weights_tf_dim_ordering_tf_kernels_notop.h5")) << "none";
  }
  const auto create = [&](const std::string& source, const std::string& backbone) {
    return run({"new", source, "--output", folder.config, "--overwrite", "--backbone", backbone},
               {{"HOME", folder.work / "home"}, {"WEIGHTS_DIR", weights}});
  };
  for (const char* name : {"vgg16", "resnet50"}) {
    CAPTURE(name);
    REQUIRE(create(folder.photos, name).code == 0);
    CHECK(contains(read_text_file(folder.config), concat("name: ", name, "\n")));
  }
  const Result missing = create(folder.photos, "densenet121");
  CHECK(missing.code == 3);
  CHECK(contains(missing.err,
                 "--backbone densenet121: densenet121_weights_tf_dim_ordering_tf_kernels_"
                 "notop.h5 is in none of "));
  // The folder beside the data is that of the variable, and is named once.
  CHECK(contains(missing.err, concat("notop.h5 is in none of ", weights.string(), ", ")));
  CHECK(missing.err.find(weights.string()) == missing.err.rfind(weights.string()));
  CHECK(contains(missing.err, "trainer weights densenet121"));
  CHECK(contains(read_text_file(folder.config), "name: resnet50"));
  const Result unknown = create(folder.photos, "resnet51");
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "unknown backbone 'resnet51', did you mean 'resnet50'?"));
  const Result config = create(folder.config, "vgg16");
  CHECK(config.code == 2);
  CHECK(contains(config.err, "--backbone is for a folder or a list of images"));
}

TEST_CASE(
    "new: a folder of weights that cannot be searched gives a note, and the next one is used") {
  const Folder folder;
  const Path keras = folder.work / "home/.keras";
  std::filesystem::create_directories(keras);
  std::filesystem::create_symlink("models", keras / "models");  // a loop
  std::filesystem::create_directories(folder.work / "weights");
  const Path beside =
      folder.work / "weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5";
  std::ofstream(beside) << "not read";
  const Result created = run({"new", folder.photos, "--output", folder.config},
                             {{"HOME", folder.work / "home"}, {"WEIGHTS_DIR", ""}});
  CHECK(created.code == 0);
  CHECK(contains(created.err, concat("note: ", (keras / "models").string(),
                                     " cannot be searched for weights: ")));
  CHECK(contains(read_text_file(folder.config), "weights: " + beside.string()));
}

TEST_CASE("new --backbone vgg16 finds torchvision's weights as `weights: imagenet` does") {
  const Folder folder;
  const Path cache = folder.work / "home/.cache/torch/hub/checkpoints";
  std::filesystem::create_directories(cache);
  test::write_state_dict(cache / "vgg16-397923af.safetensors", {{"features.0.weight", {1}, {1}}});
  const Arguments create{"new",         folder.photos, "--output", folder.config,
                         "--overwrite", "--backbone",  "vgg16"};
  const Environment home{{"HOME", folder.work / "home"}, {"WEIGHTS_DIR", ""}};
  REQUIRE(run(create, home).code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text, "weights: " + (cache / "vgg16-397923af.safetensors").string()));
  const config::Config config = config::load_config(folder.config, {}, {}).config;
  CHECK(config.model.backbone->variant == config::Backbone::Variant::kTorchvision);
  CHECK(config.data.preprocess == config::PreprocessPreset::kTorch);

  // Beside the data is the last place.
  std::filesystem::remove_all(cache);
  std::filesystem::create_directories(folder.work / "weights");
  const Path beside = folder.work / "weights/vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5";
  std::ofstream(beside) << "not read";
  REQUIRE(run(create, home).code == 0);
  CHECK(contains(read_text_file(folder.config), "weights: " + beside.string()));
  CHECK_FALSE(contains(read_text_file(folder.config), "preprocess"));
}

TEST_CASE("new: the error of a folder without images of classes has the reason") {
  const Folder folder;
  const auto error = [&](const Path& source) {
    const Result result = folder.create(source);
    CHECK(result.code == 3);
    return result.err;
  };
  CHECK(contains(error(folder.work / "nowhere"),
                 "nowhere: no such file or folder; expected a folder with a folder of images"));
  CHECK(contains(error(folder.photos / "train" / "left"),
                 "has 0 folders with images; expected one for each of"));
  std::filesystem::create_directories(folder.photos / "train" / "third");
  std::ofstream(folder.photos / "train" / "third" / "0.ppm") << "P6 1 1 255\nabc";
  CHECK(contains(error(folder.photos), "val: has no folder third"));
  CHECK_FALSE(std::filesystem::exists(folder.config));
}

TEST_CASE("new: splits are recognized by the names that a config recognizes") {
  const Folder folder;
  std::filesystem::rename(folder.photos / "train", folder.photos / "Training");
  std::filesystem::rename(folder.photos / "val", folder.photos / "seg_valid");
  std::filesystem::create_directories(folder.photos / "Training" / "__MACOSX");
  std::filesystem::create_directories(folder.photos / "Training" / "empty");
  std::filesystem::copy(folder.photos / "Training", folder.photos / "holdout",
                        std::filesystem::copy_options::recursive);
  REQUIRE(folder.create(folder.photos).code == 0);
  const std::string text = read_text_file(folder.config);
  CHECK(contains(text, (folder.photos / "Training").string()));
  CHECK(contains(text, (folder.photos / "seg_valid").string()));
  CHECK(contains(text, "classes: [left, right]"));
  CHECK(contains(text, "holdout contains a folder per class, but is not used"));
}

TEST_CASE("new: a config as the source keeps its values with their meaning") {
  const Folder folder;
  const std::string source = test::source_file("configs/mnist.yaml");
  REQUIRE(folder.create(source).code == 0);
  CHECK(contains(
      read_text_file(folder.config),
      "  # Samples per step and replica; auto: the most that fit the device's memory, up to "
      "1024.\n  batch_size: 64\n"));
}

TEST_CASE("find: a learning rate and a batch size are suggested") {
  const Workspace work;
  const std::string config = work.config(concat(
      kModel, "data: {format: idx, path: ", work.data(),
      "}\noptimizer: {sgd: {learning_rate: 0.02}}\ntrain: {max_steps: 4, batch_size: 16}\n"));
  const Result rates = run({"find", "learning-rate", config, "--json", "--steps", "60", "--low",
                            "1e-5", "--plot", work / "range.svg"});
  INFO(rates.err);
  REQUIRE(rates.code == 0);
  const Json found = rates.event("found");
  CHECK(found["key"] == "optimizer.sgd.learning_rate");
  REQUIRE(found["suggestion"].is_number());
  CHECK(found["suggestion"].get<double>() > 1e-4);
  CHECK(found["suggestion"].get<double>() < 10);
  CHECK(found["points"].size() > 20);
  CHECK(contains(read_text_file(work / "range.svg"), "<polyline"));

  const Result sizes = run({"find", "batch-size", config, "--json", "--first", "4", "--most", "16",
                            "--seconds", "0.05"});
  INFO(sizes.err);
  REQUIRE(sizes.code == 0);
  const Json measured = sizes.event("found");
  REQUIRE_FALSE(measured["points"].empty());
  CHECK(measured["points"][0]["batch_size"] == 4);
  CHECK(measured["points"][0]["images_per_second"].get<double>() > 0);
  CHECK(measured["points"][0]["bytes"].get<std::int64_t>() > 0);
  CHECK(measured["suggestion"].get<std::int64_t>() >= 4);
  CHECK(measured["largest"] == 1024);
  CHECK(measured["too_large"].is_null());
  // Not tried, but known to be too large.
  const Result bounded = run({"find", "batch-size", config, "--json", "--first", "4", "--seconds",
                              "0.05", "--set", "train.memory_mb=2"});
  INFO(bounded.err);
  REQUIRE(bounded.code == 0);
  const Json few = bounded.event("found");
  const auto largest = few["largest"].get<std::int64_t>();
  CHECK(largest >= 4);
  CHECK(largest < 512);
  for (const Json& point : few["points"]) CHECK(point["batch_size"].get<std::int64_t>() <= largest);
}

TEST_CASE("weights imagenet: no file is a warning of validate and plan and an error of train") {
  const Folder folder;
  write_file_atomic(folder.config,
                    "model: {input: [32, 32, 3], backbone: {name: vgg16, weights: imagenet}, "
                    "head: [flatten, dense: 2]}\ndata: {format: image_folder, train: {path: " +
                        (folder.photos / "train").string() +
                        "}}\ntrain: {max_steps: 1, batch_size: 2}\n");
  const Path home = folder.work / "home";
  for (const char* command : {"validate", "plan"}) {
    const Result told = run({command, folder.config}, {{"HOME", home}, {"WEIGHTS_DIR", ""}});
    INFO(told.err);
    CHECK(told.code == 0);
    CHECK(contains(told.err, "warning: imagenet: model.backbone.weights: vgg16_weights"));
    CHECK(contains(told.err, "\n  trainer weights vgg16\n"));
    CHECK_FALSE(contains(told.err, "\\x0a"));
  }
  const Result trained = run({"train", folder.config, "--run-dir", folder.work / "run"},
                             {{"HOME", home}, {"WEIGHTS_DIR", ""}});
  INFO(trained.err);
  CHECK(trained.code == 3);
  CHECK(contains(trained.err, "\n  trainer weights vgg16\n"));
  CHECK_FALSE(contains(trained.err, "\\x0a"));
  CHECK(!std::filesystem::exists(folder.work / "run"));
}

}  // namespace trainer::e2e
