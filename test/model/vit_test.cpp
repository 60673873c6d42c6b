// ViT and DINOv2: their layers, the names in their files, and position embeddings of other sizes.
// Fixture: test/keras/make_position_embeddings.py.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "config/source_names.h"
#include "model/features.h"
#include "model/files/position_embedding.h"
#include "model/files/pytorch.h"
#include "model/files/source_network.h"
#include "model/table.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;
using config::Backbone;

graph::Graph build_vit(const std::string& backbone, Shape image, std::int64_t classes = 1000) {
  return test::build("{backbone: {" + backbone + "}}", test::sample(std::move(image), classes));
}

graph::Graph build_headed(const std::string& backbone) {
  return test::build("{backbone: {" + backbone + "}, head: [flatten, dense: 4]}",
                     test::sample({48, 64, 3}, 4));
}

std::int64_t count_parameters(const graph::Graph& graph) {
  std::int64_t count = 0;
  for (const LayerRow& row : layer_table(graph)) count += row.parameters;
  return count;
}

Backbone make_backbone(Backbone::Name name, Backbone::Variant variant) {
  Backbone backbone;
  backbone.name = name;
  backbone.variant = variant;
  return backbone;
}

std::string published(const Backbone& backbone, const std::string& name) {
  std::vector<Tensor> tensors{{name, {1}, {1}}};
  config::use_published_names(backbone, tensors);
  return tensors[0].name;
}

// Returns the interpolated positions of a file whose tensor has this shape, and its notes.
std::pair<Tensor, std::vector<std::string>> fit(const std::string& backbone, Tensor tensor) {
  const config::Config config =
      test::build_config("{backbone: {" + backbone + "}, head: [flatten, dense: 4]}");
  const graph::Graph graph =
      build_model(config.model, config.data, test::sample({48, 64, 3}, 4), 1);
  std::vector<Tensor> file{std::move(tensor)};
  std::vector<std::string> notes = fit_positions(graph, *config.model.backbone, file);
  return {std::move(file[0]), std::move(notes)};
}

}  // namespace

// The counts are those of timm, torchvision and transformers.
TEST_CASE("backbone: ViT and DINOv2 have the parameter counts of their libraries") {
  const auto count = [](const std::string& backbone, std::int64_t side) {
    return count_parameters(build_vit("include_top: true, " + backbone, {side, side, 3}));
  };
  CHECK(count("name: vit_tiny_patch16", 224) == 5717416);
  CHECK(count("name: vit_small_patch16", 224) == 22050664);
  CHECK(count("name: vit_small_patch16, variant: transformers", 224) == 22050664);
  CHECK(count("name: vit_base_patch16, variant: torchvision", 224) == 86567656);
  CHECK(count("name: dinov2_small", 518) == 22441192);
  CHECK(count("name: dinov2_small_reg", 518) == 22442344);
  CHECK(count("name: dinov2_base, variant: transformers", 518) == 88116712);
}

TEST_CASE("backbone: pooling of ViT gives the patches as an image, their mean or the class token") {
  const auto shape = [](const std::string& more) {
    const graph::Graph graph = build_headed("name: vit_tiny_patch16" + more);
    const auto features = std::find_if(graph.layers.begin(), graph.layers.end(),
                                       [](const auto& one) { return one.name == "flatten"; });
    return graph[std::prev(features)->output].shape;
  };
  CHECK(shape("") == Shape{kBatch, 3, 4, 192});
  CHECK(shape(", pooling: token") == Shape{kBatch, 192});
  CHECK(shape(", pooling: avg") == Shape{kBatch, 192});
  // The mean has timm's fc_norm after it in place of the norm before.
  CHECK(build_headed("name: vit_tiny_patch16, pooling: avg").find("fc_norm/gamma") >= 0);
  CHECK(build_headed("name: vit_tiny_patch16, pooling: avg").find("norm/gamma") < 0);
  CHECK(build_headed("name: vit_tiny_patch16, pooling: token").find("norm/gamma") >= 0);
  CHECK_THROWS_WITH_AS(build_headed("name: resnet18, pooling: token"),
                       doctest::Contains("resnet18 has no class token; use avg or max"),
                       ConfigError);
}

TEST_CASE("backbone: an image that the patches do not divide is an error with the nearest size") {
  CHECK_THROWS_WITH_AS(
      build_vit("name: dinov2_small, include_top: true", {224, 100, 3}),
      doctest::Contains("dinov2_small needs images whose height and width are multiples of 14, got "
                        "[224, 100, 3]; set data.resize: [224, 98]"),
      ConfigError);
  CHECK_THROWS_WITH_AS(build_vit("name: dinov2_small, include_top: true", {32, 32, 3}),
                       doctest::Contains("set data.resize: [42, 42]"), ConfigError);
}

TEST_CASE("backbone: ViT has the drop path rates of timm, which rise from 0 at the first block") {
  std::vector<double> rates;
  for (const graph::Node& node : build_headed("name: vit_tiny_patch16, drop_path: 0.11").nodes) {
    if (const auto* drop = std::get_if<graph::Dropout>(&node.op)) rates.push_back(drop->rate);
  }
  REQUIRE(rates.size() == 22);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    CHECK(rates[i] == doctest::Approx(0.01 * static_cast<double>(i / 2 + 1)).epsilon(1e-6));
  }
}

TEST_CASE("backbone: layer_decay of ViT has a group per block, and the norm is in the last") {
  std::map<std::string, int> depths;
  const graph::Graph graph = build_vit("name: vit_tiny_patch16, include_top: true", {32, 32, 3});
  for (const graph::LayerInfo& layer : graph.layers) depths[layer.name] = layer.depth;
  CHECK(depths["patch_embed.proj"] == 0);
  CHECK(depths["pos_embed"] == 0);
  CHECK(depths["blocks.0.attn.qkv"] == 1);
  CHECK(depths["blocks.11.mlp.fc2"] == 12);
  CHECK(depths["norm"] == 12);
  CHECK(depths["head"] == 13);
}

TEST_CASE("find_feature_map finds the patches that the last attention of ViT reads") {
  const auto find = [](const std::string& backbone) {
    return find_feature_map(build_headed(backbone), "").name;
  };
  CHECK(find("name: vit_tiny_patch16, pooling: token") == "blocks.11.norm1");
  CHECK(find("name: vit_tiny_patch16, variant: transformers, pooling: token") ==
        "vit.encoder.layer.11.layernorm_before");
  CHECK(find("name: vit_tiny_patch16") == "patch_grid");
  const graph::Graph graph = build_headed("name: vit_tiny_patch16");
  const auto grid = find_token_grid(graph, find_feature_map(graph, "blocks.3.norm1").output);
  REQUIRE(grid);
  CHECK(grid->height == 3);
  CHECK(grid->width == 4);
  CHECK(grid->before == 1);
}

TEST_CASE("resample gives the position embeddings of timm, transformers and torchvision") {
  const auto rows = nlohmann::json::parse(
      std::ifstream(test::source_file("test/keras/position_embeddings.json")));
  const std::map<std::string, Resampling> kinds{{"antialias", Resampling::kAntialias},
                                                {"plain", Resampling::kPlain},
                                                {"align_corners", Resampling::kAlignCorners}};
  int compared = 0;
  for (const auto& row : rows) {
    const std::int64_t side = row["from"];
    for (const auto& [name, kind] : kinds) {
      if (!row.contains(name)) continue;
      CAPTURE(name);
      CAPTURE(side);
      const auto expected = row[name].get<std::vector<float>>();
      const std::vector<float> got = resample(row["values"].get<std::vector<float>>(), {side, side},
                                              {row["to"][0], row["to"][1]}, 2, kind);
      REQUIRE(got.size() == expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-5f);
      ++compared;
    }
  }
  CHECK(compared == 11);
}

TEST_CASE("fit_positions keeps the class token's vector and interpolates those of the patches") {
  std::vector<float> values(192 * 5, 2);
  std::fill_n(values.begin(), 192, 7.0f);
  const auto [tensor, notes] =
      fit("name: vit_tiny_patch16", {"pos_embed/embeddings", {1, 5, 192}, values});
  CHECK(tensor.shape == Shape{13, 192});
  REQUIRE(tensor.values.size() == 13 * 192);
  CHECK(tensor.values[0] == 7);
  CHECK(tensor.values[192] == doctest::Approx(2));
  CHECK(tensor.values.back() == doctest::Approx(2));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "its position embeddings of 2x2 patches are interpolated to 3x4");
  // The shape alone, as plan reads it.
  CHECK(fit("name: vit_tiny_patch16", {"pos_embed/embeddings", {1, 5, 192}, {}}).first.shape ==
        Shape{13, 192});
  // A number that is not a square, and a file of this program for the same grid, stay.
  CHECK(fit("name: vit_tiny_patch16", {"pos_embed/embeddings", {1, 7, 192}, {}}).first.shape ==
        Shape{7, 192});
  CHECK(fit("name: vit_tiny_patch16", {"pos_embed/embeddings", {13, 192}, {}}).second.empty());
}

TEST_CASE("from_pytorch gives DINOv2's own files with registers the form of timm's") {
  const graph::Graph graph = build_headed("name: vit_tiny_patch16");
  CHECK(from_pytorch(graph, {{"mask_token", {1, 192}, {}}}).empty());
  const graph::Graph dinov2 =
      build_vit("name: dinov2_small_reg, include_top: true", {42, 42, 3}, 5);
  const auto filled = [](std::int64_t rows, float value) {
    return std::vector<float>(static_cast<std::size_t>(rows * 384), value);
  };
  std::vector<float> positions = filled(10, 3);
  std::fill_n(positions.begin(), 384, 0.5f);
  const std::vector<Tensor> file =
      from_pytorch(dinov2, {{"register_tokens", {1, 4, 384}, filled(4, 1)},
                            {"cls_token", {1, 1, 384}, filled(1, 2)},
                            {"pos_embed", {1, 10, 384}, positions}});
  CHECK(file[0].name == "reg_token/tokens");
  CHECK(file[0].shape == Shape{4, 384});
  CHECK(file[1].name == "cls_token/tokens");
  CHECK(file[1].shape == Shape{1, 384});
  CHECK(file[1].values == filled(1, 2.5f));
  CHECK(file[2].name == "pos_embed/embeddings");
  CHECK(file[2].shape == Shape{1, 9, 384});
  CHECK(file[2].values == filled(9, 3));
}

TEST_CASE("use_published_names: names of other versions become those of published files") {
  using enum Backbone::Name;
  using enum Backbone::Variant;
  const Backbone vit = make_backbone(kVitTinyPatch16, kTransformers);
  CHECK(published(vit, "vit.layers.3.attention.q_proj.weight") ==
        "vit.encoder.layer.3.attention.attention.query.weight");
  CHECK(published(vit, "layers.3.attention.o_proj.bias") ==
        "vit.encoder.layer.3.attention.output.dense.bias");
  CHECK(published(vit, "vit.layers.3.mlp.fc1.bias") ==
        "vit.encoder.layer.3.intermediate.dense.bias");
  CHECK(published(vit, "encoder.layer.3.output.dense.bias") ==
        "vit.encoder.layer.3.output.dense.bias");
  CHECK(published(vit, "classifier.weight") == "classifier.weight");
  const Backbone dinov2 = make_backbone(kDinoV2SmallReg, kTransformers);
  CHECK(published(dinov2, "embeddings.register_tokens") ==
        "dinov2_with_registers.embeddings.register_tokens");
  CHECK(published(dinov2, "encoder.layer.0.mlp.fc1.weight") ==
        "dinov2_with_registers.encoder.layer.0.mlp.fc1.weight");
  const Backbone torchvision = make_backbone(kVitBasePatch16, kTorchvision);
  const std::string layer = "encoder.layers.encoder_layer_0.";
  CHECK(published(torchvision, layer + "mlp.linear_2.bias") == layer + "mlp.3.bias");
  CHECK(published(torchvision, layer + "self_attention.in_proj_weight") ==
        layer + "self_attention.in_proj.weight");
  CHECK(published(make_backbone(kResNet18, kTransformers), "a.b") == "a.b");
}

TEST_CASE("find_foreign_layers finds registers, layer scale and blocks that a ViT lacks") {
  const Backbone plain =
      make_backbone(Backbone::Name::kDinoV2Small, Backbone::Variant::kTransformers);
  CHECK(find_foreign_layers(plain, {"dinov2.embeddings.register_tokens"}).size() == 1);
  const Backbone vit = make_backbone(Backbone::Name::kVitSmallPatch16, Backbone::Variant::kTimm);
  CHECK(find_foreign_layers(vit, {"blocks.0.ls1.gamma"}).size() == 1);
  CHECK(find_foreign_layers(vit, {"blocks.12.norm1.weight"}).size() == 1);
  CHECK(find_foreign_layers(vit, {"head_dist.weight", "pooler.dense.weight"}).empty());
}

TEST_CASE("layers: attention, transformer_block and patch_embedding have Keras's sizes") {
  const graph::Graph graph = test::build(
      "{layers: [{patch_embedding: {filters: 12, patch_size: [4, 2], class_token: true, name: p}}, "
      "{attention: {num_heads: 3, key_dim: 5, name: a}}, "
      "{transformer_block: {num_heads: 2, mlp_ratio: 1.5, drop_path: 0.1, name: b}}, "
      "{slice_tokens: {end: 1}}, flatten, dense: 3]}",
      test::sample({8, 6, 3}, 3));
  const auto shape = [&](const std::string& name) {
    const graph::ValueId id = graph.find(name);
    REQUIRE(id >= 0);
    return graph[id].shape;
  };
  CHECK(shape("p/kernel") == Shape{4, 2, 3, 12});
  CHECK(shape("p/class_tokens") == Shape{1, 12});
  CHECK(shape("p/position_embeddings") == Shape{7, 12});
  // Keras's MultiHeadAttention(3, 5) of 12 channels has 3 * (12 + 1) * 15 + 15 * 12 + 12 numbers.
  CHECK(shape("a/qkv_kernel") == Shape{12, 45});
  CHECK(shape("a/qkv_bias") == Shape{45});
  CHECK(shape("a/output_kernel") == Shape{15, 12});
  CHECK(shape("a/output_bias") == Shape{12});
  CHECK(shape("b/attention_qkv_kernel") == Shape{12, 36});
  CHECK(shape("b/mlp1_kernel") == Shape{12, 18});
  CHECK(shape("b/norm2_gamma") == Shape{12});
  // Glorot's limit with Keras's fans of [12, 3, 5] and [3, 5, 12].
  CHECK(graph[graph.find("a/qkv_kernel")].initial.b ==
        doctest::Approx(std::sqrt(6.0 / (12 * 3 + 12 * 5))));
  CHECK(graph[graph.find("a/output_kernel")].initial.b ==
        doctest::Approx(std::sqrt(6.0 / (3 * 5 + 3 * 12))));
}

TEST_CASE("layers: attention reports images, heads that do not divide and wrong slices") {
  const auto build = [](const std::string& layers) {
    return test::build("{layers: [" + layers + ", global_average_pool, dense: 3]}",
                       test::sample({8, 8, 3}, 3));
  };
  const std::string patches = "patch_embedding: {filters: 6, patch_size: 4}, ";
  CHECK_THROWS_WITH_AS(build("attention: {num_heads: 1}"),
                       doctest::Contains("expects tokens [batch, tokens, channels], but its input "
                                         "is [batch, 8, 8, 3]; put patch_embedding before it"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(build(patches + "attention: {num_heads: 4}"),
                       doctest::Contains("num_heads: 4 does not divide the 6 channels"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(build(patches + "slice_tokens: {begin: 3, end: 9}"),
                       doctest::Contains("tokens 3 to 9 are not among the 4"), ConfigError);
  CHECK_THROWS_WITH_AS(build("patch_embedding: {filters: 6, patch_size: 3}"),
                       doctest::Contains("patches of 3x3 do not divide its input"), ConfigError);
}

}  // namespace trainer::model
