// The model of a config beside what training starts from.
#include "inference/open_model/untrained.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "base/files/files.h"
#include "engine/engine.h"
#include "inference/open_model/open_model.h"
#include "model/build_model.h"

namespace trainer::inference {
namespace {

std::map<std::string, std::vector<float>> by_name(const std::vector<checkpoint::Tensor>& tensors) {
  std::map<std::string, std::vector<float>> values;
  for (const checkpoint::Tensor& tensor : tensors) values[tensor.name] = tensor.values;
  return values;
}

std::string write_config(const TemporaryFolder& folder, const std::string& text) {
  const Path path = folder.path() / "small.yaml";
  std::ofstream(path) << text;
  return path;
}

const std::string kModel =
    "model: {layers: [conv: {filters: 3, kernel_size: 3}, batch_norm, flatten, dense: 4]}\n"
    "data: {format: synthetic, synthetic: {shape: [6, 6, 1], classes: 4, train_samples: 9}}\n";

}  // namespace

TEST_CASE("open_untrained returns the values from which training starts") {
  const TemporaryFolder folder;
  for (const char* ema : {"", ", ema: 0.9"}) {
    const std::string path =
        write_config(folder, kModel + "optimizer: {sgd: {learning_rate: 0.1}" + ema + "}\n" +
                                 "train: {epochs: 1, batch_size: 3}\n");
    std::vector<Notice> notices;
    const OpenedModel opened = open_untrained(
        path, "",
        {{{"seed", "11", "--set"}}, {}, [&](const Notice& notice) { notices.push_back(notice); }});
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].kind == Notice::Kind::kNote);
    CHECK(opened.classes == std::vector<std::string>{"0", "1", "2", "3"});
    CHECK(*opened.image_shape == Shape{6, 6, 1});

    const config::Config& config = opened.config;
    CHECK(config.seed == 11);
    engine::Engine engine(
        model::build_model(config.model, config.data, sample_spec(opened), config.seed), config,
        engine::open_backends(config, {}), engine::Use::kTrain);
    engine.initialise(config.seed);
    const auto expected = by_name(engine.replica().tensors());
    const auto found = by_name(opened.file.tensors);
    CHECK(found.size() == (*ema == '\0' ? 8 : 14));
    for (const auto& [name, values] : found) {
      CAPTURE(name);
      CHECK(values == expected.at(name));
    }
    engine::Engine evaluation(engine.replica().model(), config, engine::open_backends(config, {}),
                              engine::Use::kEvaluate);
    CHECK_NOTHROW(evaluation.load(opened.file, path));
  }
}

TEST_CASE("is_config is true for an existing file with the ending of a config") {
  const TemporaryFolder folder;
  CHECK(is_config(write_config(folder, kModel)));
  CHECK_FALSE(is_config(folder.path().string()));
  CHECK_FALSE(is_config((folder.path() / "none.yaml").string()));
}

}  // namespace trainer::inference
