#include "model/files/source_network.h"

#include <algorithm>
#include <set>

#include "model/backbones/backbone.h"

namespace trainer::model {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "conv4_block7_1_conv" -> "conv#_block#_#_conv"
std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (!is_digit(c)) text += c;
    if (is_digit(c) && !text.ends_with('#')) text += '#';
  }
  return text;
}

// Returns the names of the blocks that a layer may lie in, with the separator at their end:
// "layer1." and "layer1.0." of "layer1.0.conv1".
std::vector<std::string> enclosing_blocks(const std::string& name) {
  std::vector<std::string> blocks;
  for (std::size_t i = 1; i < name.size(); ++i) {
    const bool ends_block = (name[i] == '.' || name[i] == '_') && is_digit(name[i - 1]);
    if (ends_block) blocks.push_back(name.substr(0, i + 1));
  }
  return blocks;
}

// "model/conv1_conv/kernel" -> "conv1_conv", "layer1.0.conv1.weight" -> "layer1.0.conv1"
std::string find_layer(const std::string& tensor) {
  const bool has_slash = tensor.find('/') != std::string::npos;
  const std::string layer = tensor.substr(0, tensor.rfind(has_slash ? '/' : '.'));
  return layer.substr(layer.rfind('/') + 1);
}

}  // namespace

std::vector<std::string> find_foreign_layers(const config::Backbone& backbone,
                                             const std::vector<std::string>& unused) {
  constexpr Image kImage{224, 224};
  constexpr std::int64_t kClasses = 1000;
  config::Backbone whole = backbone;
  whole.include_top = true;
  std::set<std::string> layers, patterns, blocks;
  for (const config::Layer& layer : build_backbone(whole, kImage, kClasses).layers) {
    layers.insert(layer.name);
    patterns.insert(without_numbers(layer.name));
    for (std::string& block : enclosing_blocks(layer.name)) blocks.insert(std::move(block));
  }
  std::vector<std::string> foreign;
  for (const std::string& tensor : unused) {
    const std::string layer = find_layer(tensor);
    if (tensor.ends_with("reg_token") || tensor.ends_with("register_tokens")) {
      foreign.push_back(tensor);
      continue;
    }
    if (layers.contains(layer) || std::ranges::find(foreign, layer) != foreign.end()) continue;
    const bool has_pattern = layer.find_first_of("0123456789") != std::string::npos &&
                             patterns.contains(without_numbers(layer));
    const bool is_in_block = std::ranges::any_of(
        enclosing_blocks(layer), [&](const std::string& block) { return blocks.contains(block); });
    if (has_pattern || is_in_block) foreign.push_back(layer);
  }
  return foreign;
}

}  // namespace trainer::model
