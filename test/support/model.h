// Models written as YAML, for tests.
#pragma once

#include <string>

#include "config/config.h"
#include "model/build_model.h"

namespace trainer::test {

// `model` is the model section of a config; `rest` whole other sections.
inline config::Config build_config(const std::string& model, const std::string& rest = "") {
  const std::string data =
      rest.find("data:") == std::string::npos ? "data: {format: synthetic}\n" : "";
  const std::string text = "model: " + model + "\n" + data + "train: {epochs: 1}\n" + rest;
  return config::parse_config(text, "test.yaml", {}, {}).config;
}

inline model::SampleSpec sample(Shape image, std::int64_t classes) {
  model::SampleSpec spec;
  spec.image = std::move(image);
  spec.classes = classes;
  return spec;
}

inline graph::Graph build(const std::string& model, const model::SampleSpec& spec,
                          const std::string& rest = "") {
  const config::Config config = build_config(model, rest);
  return model::build_model(config.model, config.data, spec, config.seed);
}

}  // namespace trainer::test
