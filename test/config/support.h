// Small configs for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::config {

inline const std::string kModel = "model: {layers: [flatten, dense: 10]}\n";
inline const std::string kData = "data: {format: digits, path: d}\n";
inline const std::string kTrain = "train: {epochs: 1}\n";
inline const std::string kSmall = kModel + kData + kTrain;

// The override of `--set path=value`.
inline Override set(const std::string& path, const std::string& value) {
  return {path, value, "--set", Override::Syntax::kYaml};
}

inline LoadedConfig parse(const std::string& text, const std::vector<Override>& overrides = {},
                          const Environment& environment = {}) {
  return parse_config(text, "x.yaml", overrides, environment);
}

// A config whose layer list is `layers`, in flow style without the brackets.
inline std::vector<Layer> parse_layers(const std::string& layers) {
  return parse("model: {layers: [" + layers + "]}\n" + kData + kTrain).config.model.layers;
}

// All messages, or "" when the text is right.
inline std::string mistakes(const std::string& text, const std::vector<Override>& overrides = {},
                            const Environment& environment = {}) {
  try {
    parse(text, overrides, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// A config that uses every kind of value and every kind of layer.
std::string rich_config();

}  // namespace trainer::config
