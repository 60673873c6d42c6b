// ViT with weights of timm for images of another size.
#include <cmath>

#include "pictures.h"
#include "support/contains.h"
#include "support/skip.h"
#include "support/state_dict.h"

namespace trainer::e2e {
namespace {

using test::contains;

constexpr std::int64_t kChannels = 192;

// Adds a tensor of numbers near 0; those of norms are 1.
void add_tensor(std::vector<checkpoint::Tensor>& tensors, const std::string& name, Shape shape) {
  const bool is_norm = name.find("norm") != std::string::npos && name.ends_with("weight");
  std::vector<float> values(static_cast<std::size_t>(shape.elements()), is_norm ? 1.0f : 0.0f);
  for (std::size_t i = 0; i < values.size() && !is_norm; ++i) {
    values[i] = 0.05f * std::sin(static_cast<float>(i * i % 10007 + 7 * tensors.size()));
  }
  tensors.push_back({name, std::move(shape), std::move(values)});
}

void add_linear(std::vector<checkpoint::Tensor>& tensors, const std::string& name,
                std::int64_t outputs, std::int64_t inputs) {
  add_tensor(tensors, name + ".weight", {outputs, inputs});
  add_tensor(tensors, name + ".bias", {outputs});
}

void add_norm(std::vector<checkpoint::Tensor>& tensors, const std::string& name) {
  add_tensor(tensors, name + ".weight", {kChannels});
  add_tensor(tensors, name + ".bias", {kChannels});
}

// Writes a state dict of timm's vit_tiny_patch16_224.
std::string write_vit(const Path& path) {
  std::vector<checkpoint::Tensor> tensors;
  add_tensor(tensors, "cls_token", {1, 1, kChannels});
  add_tensor(tensors, "pos_embed", {1, 197, kChannels});
  add_tensor(tensors, "patch_embed.proj.weight", {kChannels, 3, 16, 16});
  add_tensor(tensors, "patch_embed.proj.bias", {kChannels});
  for (int i = 0; i < 12; ++i) {
    const std::string block = "blocks." + std::to_string(i) + '.';
    add_norm(tensors, block + "norm1");
    add_linear(tensors, block + "attn.qkv", 3 * kChannels, kChannels);
    add_linear(tensors, block + "attn.proj", kChannels, kChannels);
    add_norm(tensors, block + "norm2");
    add_linear(tensors, block + "mlp.fc1", 4 * kChannels, kChannels);
    add_linear(tensors, block + "mlp.fc2", kChannels, 4 * kChannels);
  }
  add_norm(tensors, "norm");
  add_linear(tensors, "head", 1000, kChannels);
  test::write_state_dict(path, tensors);
  return path.string();
}

std::string vit_config(const Workspace& work, const std::string& backbone,
                       const std::string& train = "") {
  write_images(work / "photos", 8, 1);
  return work.config(concat(
      "model: {input: [96, 96, 3], backbone: {name: vit_tiny_patch16, pooling: token, weights: '",
      write_vit(work / "vit.safetensors"), "'", backbone,
      "}, head: [dense: 2]}\ndata: {format: image_folder, path: ", (work / "photos").string(),
      ", validation_split: 0.25}\n"
      "optimizer: {adamw: {learning_rate: 0.0001}, layer_decay: 0.8}\n"
      "train: {max_steps: 2, batch_size: 4",
      train, "}\nrun: {dir: ", (work / "run").string(), "}\n"));
}

}  // namespace

TEST_CASE("plan, train, predict and export take timm's ViT for images of 96 pixels") {
  const Workspace work;
  const std::string config = vit_config(work, ", drop_path: 0.1");
  const Result plan = run({"plan", config});
  INFO(plan.err);
  REQUIRE(plan.code == 0);
  const Result trained = run({"train", config});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(contains(trained.out + trained.err,
                 "its position embeddings of 14x14 patches are interpolated to 6x6"));
  const Result predicted = run(
      {"predict", (work / "run").string(), work / "photos/left/0.ppm", "--heatmap", work / "maps"});
  INFO(predicted.err);
  CHECK(predicted.code == 0);
  CHECK(std::filesystem::exists(work / "maps/0.png"));
  CHECK(run({"train", config, "--resume", "--set", "train.max_steps=3"}).code == 0);
  for (const char* name : {"x.onnx", "x.safetensors"}) {
    CHECK(run({"export", (work / "run").string(), "--output", work / name}).code == 0);
  }
  const Result keras = run({"export", (work / "run").string(), "--output", work / "x.h5"});
  CHECK(keras.code != 0);
  CHECK(contains(keras.err, "Keras has no layer "));
}

TEST_CASE("train with cached features or recomputed blocks of ViT gives the bits of a plain run") {
  for (const auto& [backbone, key] : {std::pair{", freeze: all", "train.cache_features=disk"},
                                      std::pair{", drop_path: 0.1", "train.recompute=blocks"}}) {
    CAPTURE(key);
    const Workspace work;
    const std::string config = vit_config(work, backbone);
    // Two epochs have six steps.
    const Arguments common{"--set", "train.max_steps=6", "--set", "train.cache_features=off"};
    Arguments changed = common;
    changed.insert(changed.end(), {"--set", key});
    check_same(train_to_end(config, work / "plain", common),
               train_to_end(config, work / "changed", changed));
    const bool is_cached = contains(key, "cache_features");
    CHECK(std::filesystem::exists(work / "changed/features") == is_cached);
  }
}

TEST_CASE("train of ViT in bfloat16 has the losses of float32 within rounding") {
  const Workspace work;
  const std::string config = vit_config(work, "");
  const auto train = [&](const std::string& precision) {
    return run({"train", config, "--json", "--run-dir", work / precision, "--set",
                "run.log_every=1 steps", "--set", "train.precision=" + precision});
  };
  const auto find_losses = [](const Result& result) {
    std::vector<double> losses;
    for (const Json& line : result.lines()) {
      if (line.at("event") == "step") losses.push_back(line.at("loss"));
    }
    return losses;
  };
  const Result got = train("bfloat16");
  if (contains(got.err, "not supported by this device")) {
    TRAINER_SKIP("bfloat16 is not supported by this processor");
  }
  const std::vector<double> expected = find_losses(train("float32")), losses = find_losses(got);
  REQUIRE(expected.size() == 2);
  REQUIRE(losses.size() == 2);
  CHECK(losses != expected);
  CHECK(losses[0] == doctest::Approx(expected[0]).epsilon(0.01));
  CHECK(losses[1] == doctest::Approx(expected[1]).epsilon(0.05));
}

TEST_CASE("train of ViT: a resumed run and two replicas with ordered sums give the bits of one") {
  const Workspace work;
  const std::string config = vit_config(work, ", drop_path: 0.1");
  const auto train = [&](const char* dir, const Arguments& more) {
    Arguments arguments{"--set", "parallel.reduction=ordered"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train_to_end(config, work / dir, arguments);
  };
  const Json whole = train("whole", {});
  train("parts", {"--set", "train.max_steps=1"});
  check_same(train("parts", {"--resume"}), whole);
  check_same(train("replicas",
                   {"--replicas", "2", "--batch-size", "2", "--set", "parallel.lr_scaling=none"}),
             whole);
}

}  // namespace trainer::e2e
