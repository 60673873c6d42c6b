// What the data settles and what it must not be, before a model is built.
#include "train/open.h"

#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "compile/compile.h"
#include "engine/evaluate.h"
#include "model/build_model.h"
#include "support/float_images.h"

namespace trainer::train {
using test::FloatImageFiles;
using test::write_floats;

TEST_CASE(
    "resolve_normalize uses scale 1 with a note or a warning for floats without data.normalize") {
  FloatImageFiles floats(0.125f);
  const data::Datasets data = train::open_training_data(floats.config);
  const Notice notice = train::resolve_normalize(floats.config, data);
  const std::string& line = notice.text;
  CHECK(notice.kind == Notice::Kind::kNote);
  CHECK(line.find("taken as they are (scale: 1), here from 0 to 0.875") != std::string::npos);
  CHECK(line.find("give data.normalize") == std::string::npos);
  CHECK(config::find_normalize(floats.config.data).scale == 1);
  CHECK(config::to_yaml(floats.config).find("scale: 1\n") != std::string::npos);
  CHECK(train::resolve_normalize(floats.config, data).text.empty());

  FloatImageFiles large(30);
  const Notice advice =
      train::resolve_normalize(large.config, train::open_training_data(large.config));
  CHECK(advice.kind == Notice::Kind::kWarning);
  CHECK(advice.text.find("from 0 to 210; give data.normalize") != std::string::npos);

  FloatImageFiles said(1, ", normalize: {scale: 0.5}");
  CHECK(train::resolve_normalize(said.config, train::open_training_data(said.config)).text.empty());
  CHECK(config::find_normalize(said.config.data).scale == 0.5);
  config::Config bytes = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 10]}\ndata: {format: synthetic}\ntrain: {epochs: 1}\n");
  CHECK(train::resolve_normalize(bytes, train::open_training_data(bytes)).text.empty());
  CHECK(config::find_normalize(bytes.data).scale == 1 / 255.0);
}

TEST_CASE("open_training_data: floating-point labels are an error for a loss of classes") {
  const FloatImageFiles floats(1, "", true);
  CHECK_THROWS_WITH_AS(train::open_training_data(floats.config),
                       doctest::Contains("its labels are floating-point numbers"), DataError);
  config::Config regression = floats.config;
  regression.model.loss = LossKind::kMeanSquaredError;
  CHECK_NOTHROW(train::open_training_data(regression));
}

TEST_CASE("open_training_data rejects a list whose labels are numbers to estimate") {
  const TemporaryFolder folder;
  std::string list = "image,age\n";
  for (const char* age : {"31.5", "35.1", "47.2", "52.4", "60.3", "71.8"}) {
    const std::string name = concat(age, ".pgm");
    write_file_atomic(folder.path() / name, "P5 2 2 255\nabcd");
    list += concat(name, ',', age, '\n');
  }
  write_file_atomic(folder.path() / "ages.csv", list);
  config::Config ages = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 1], loss: mean_squared_error}\ntrain: {epochs: 1}\n"
      "data: {format: csv, resize: [2, 2], train: {path: " +
      (folder.path() / "ages.csv").string() + "}, csv: {label_column: age}}\n");
  CHECK_THROWS_WITH_AS(open_training_data(ages),
                       doctest::Contains("the labels are 6 numbers, from 31.5 to 71.8; a list has "
                                         "classes, not numbers to estimate"),
                       ConfigError);
}

TEST_CASE("open_training_data: softmax with one class is an error") {
  const FloatImageFiles floats(0.1f);
  write_file_atomic(floats.folder.path() / "labels",
                    Bytes{0, 0, 8, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK_THROWS_WITH_AS(open_training_data(floats.config),
                       doctest::Contains("floats.yaml:3:1: error: data: there is one class only"),
                       ConfigError);
  const config::Config synthetic = FloatImageFiles::parsed(
      "model: {layers: [flatten, dense: 1]}\ntrain: {epochs: 1}\ndata: {format: synthetic, "
      "synthetic: {shape: [8, 8, 3], classes: 1}}\n");
  CHECK_THROWS_WITH_AS(check_model(synthetic), doctest::Contains("there is one class only"),
                       ConfigError);
}

TEST_CASE("check_batch: a batch beyond the memory of this machine is an error at its line") {
  config::Config config = FloatImageFiles(0.1f).config;
  const model::SampleSpec sample{Shape{224, 224, 3}, DType::kUInt8, true, 10};
  check_batch(config, sample);
  config.train.batch_size = 16'000'000;  // 2.4 TB
  CHECK_THROWS_WITH_AS(check_batch(config, sample),
                       doctest::Contains("floats.yaml:2:1: error: train.batch_size: the images of "
                                         "a batch of 16000000 samples for each of 1 replicas"),
                       ConfigError);
  config.train.batch_size = 1;
  config.data.prefetch = 16'000'000;
  CHECK_THROWS_WITH_AS(check_batch(config, sample), doctest::Contains("data.prefetch: the images"),
                       ConfigError);
  config.data.prefetch.reset();
  config.evaluate.batch_size = 16'000'000;
  CHECK_THROWS_WITH_AS(check_batch(config, sample), doctest::Contains("evaluate.batch_size: "),
                       ConfigError);
}

TEST_CASE("check_model: nothing to train is an error unless layers are unfrozen later") {
  const auto check = [](const std::string& model) {
    const config::Config config = FloatImageFiles::parsed(
        "model: " + model +
        "\ntrain: {epochs: 2}\ndata: {format: synthetic, synthetic: {shape: "
        "[32, 32, 3], classes: 3}}\n");
    check_model(config);
  };
  const char* kWhy = "floats.yaml:1:1: error: model: has nothing to train";
  CHECK_THROWS_WITH_AS(check("{layers: [global_average_pool]}"), doctest::Contains(kWhy),
                       ConfigError);
  check("{layers: [flatten, dense: 3]}");
}

TEST_CASE("check_model: what training needs of the layers is checked before there are samples") {
  const auto check = [](const std::string& layers, const std::string& keys) {
    check_model(FloatImageFiles::parsed("model: {layers: [" + layers +
                                        "]}\ntrain: {epochs: 2}\ndata: {format: digits, path: "
                                        "nowhere}\n" +
                                        keys));
  };
  const std::string ordered = "parallel: {reduction: ordered}\n";
  check("flatten, dense: 10", ordered +
                                  "optimizer: {sgd: {}, learning_rate_multiplier: [{match: dense, "
                                  "value: 2}], exclude_from_weight_decay: [dense/bias]}\n");
  CHECK_THROWS_WITH_AS(
      check("flatten, dense: 10",
            "optimizer: {sgd: {}, learning_rate_multiplier: [{match: conv, value: 2}]}\n"),
      doctest::Contains("floats.yaml:4:49: error: optimizer.learning_rate_"
                        "multiplier: no layer with parameters is named 'conv'"),
      ConfigError);
  CHECK_THROWS_WITH_AS(
      check("flatten, dense: 10", "optimizer: {sgd: {}, exclude_from_weight_decay: ['*/gamma']}\n"),
      doctest::Contains("optimizer.exclude_from_weight_decay: no parameter is named"), ConfigError);
  CHECK_THROWS_WITH_AS(
      check("batch_norm, flatten, dense: 10", ordered),
      doctest::Contains("floats.yaml:1:18: error: layer batch_normalization: takes "
                        "statistics over the batch"),
      ConfigError);
}

TEST_CASE("check_model: batch norm of frozen layers takes no statistics") {
  const auto check = [](const std::string& unfreeze) {
    check_model(FloatImageFiles::parsed(
        "model: {backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all" + unfreeze +
        "}, head: [flatten, dense: 3]}\ntrain: {epochs: 2}\nparallel: {reduction: ordered}\n"
        "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 3}}\n"));
  };
  check("");
  CHECK_THROWS_WITH_AS(check(", unfreeze: {at: 1 epoch, freeze: none}"),
                       doctest::Contains("takes statistics over the batch"), ConfigError);
}

TEST_CASE("check_model: features of layers that are not at the start are an error") {
  const auto check = [](const std::string& freeze) {
    check_model(FloatImageFiles::parsed(
        "model: {backbone: {name: mobilenet_v2, alpha: 0.35, freeze: " + freeze +
        "}, head: [flatten, dense: 3]}\ntrain: {epochs: 2, cache_features: on}\n"
        "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 3}}\n"));
  };
  check("all");
  CHECK_THROWS_WITH_AS(check("[block_16_*]"),
                       doctest::Contains("train.cache_features: no layers at the start of the "
                                         "model are frozen; use auto or off"),
                       ConfigError);
}

TEST_CASE("check_model: weights of a class that data.classes does not name are an error") {
  const auto check = [](const std::string& weights) {
    check_model(
        FloatImageFiles::parsed("model: {layers: [flatten, dense: 2]}\ntrain: {epochs: 2, "
                                "class_weight: {" +
                                weights +
                                "}}\ndata: {format: idx, path: nowhere, classes: [cat, "
                                "dog]}\n"));
  };
  check("dog: 2, 0: 3");
  CHECK_THROWS_WITH_AS(check("dig: 2"),
                       doctest::Contains("train.class_weight: the data has no class 'dig', did you "
                                         "mean 'dog'?"),
                       ConfigError);
}

TEST_CASE("check_model returns what it could check of a config without shapes or classes") {
  const auto check = [](const std::string& layers, const std::string& data,
                        const std::string& loss = "softmax_cross_entropy") {
    return check_model(FloatImageFiles::parsed("model: {layers: [" + layers + "], loss: " + loss +
                                               "}\ntrain: {epochs: 2}\ndata: " + data + "\n"));
  };
  CHECK(check("flatten, dense: 11", "{format: digits, path: nowhere, num_classes: 11}") ==
        ModelCheck::kWhole);
  const std::string idx = "{format: idx, path: nowhere}", cifar = "{format: cifar, path: nowhere}";
  CHECK(check("flatten, dense: 10", "{format: digits, path: nowhere}") == ModelCheck::kWhole);
  CHECK(check("flatten, dense: 7", cifar) == ModelCheck::kNoClasses);
  CHECK(check("flatten, dense: 7", idx) == ModelCheck::kNoShape);
  // The end of the model needs no shapes.
  for (const char* end : {"dense: {units: 3, activation: softmax}", "dense: 3, activation: softmax",
                          "residual: {layers: [dense: 3], activation: softmax}"}) {
    CAPTURE(end);
    CHECK_THROWS_WITH_AS(check(std::string("flatten, ") + end, idx),
                         doctest::Contains("remove the softmax at the end of the model"),
                         ConfigError);
  }
  CHECK_THROWS_WITH_AS(
      check("flatten, dense: {units: 1, activation: sigmoid}", idx, "binary_cross_entropy"),
      doctest::Contains("floats.yaml:1:"), ConfigError);
  CHECK(check("flatten, dense: {units: 3, activation: softmax}", idx, "mean_squared_error") ==
        ModelCheck::kNoShape);
  CHECK_THROWS_WITH_AS(
      check("flatten, dense: 2", cifar, "binary_cross_entropy"),
      doctest::Contains("one logit for binary_cross_entropy of two classes; set units: 1"),
      ConfigError);
}

TEST_CASE("why_not_finite names the model if the samples are finite") {
  FloatImageFiles floats(0.1f);
  const data::Datasets data = open_training_data(floats.config);
  engine::Metrics metrics;
  metrics.count = 8;
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  const auto why = [&] {
    return engine::why_not_finite(metrics, floats.config.data, Split::kTrain, *data.train);
  };
  CHECK(why().find("its samples are finite, so the model has diverged") != std::string::npos);
  metrics.loss = 1;
  CHECK(why() == "");
}

TEST_CASE("resolve_normalize notes bytes of which the largest is 1") {
  const TemporaryFolder folder;
  const auto note = [&](std::uint8_t largest) {
    write_file_atomic(folder.path() / "images",
                      Bytes{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, largest});
    write_file_atomic(folder.path() / "labels", Bytes{0, 0, 8, 1, 0, 0, 0, 2, 0, 1});
    const std::string at = folder.path().string();
    config::Config config = FloatImageFiles::parsed(
        "model: {layers: [flatten, dense: 2]}\ntrain: {epochs: 1}\ndata: {train: {images: " + at +
        "/images, labels: " + at + "/labels}}\n");
    return resolve_normalize(config, open_training_data(config)).text;
  };
  CHECK(note(1).find("bytes of which the largest is 1, and bytes are divided by 255") !=
        std::string::npos);
  CHECK(note(2) == "");
}

TEST_CASE("class_weight: weights are given by name or number, or balanced as in scikit-learn") {
  FloatImageFiles floats(0.1f, ", classes: [cat, dog, bird]");  // labels 0 1 2 0 1 2 0 1
  const auto weights = [&](const config::ClassWeight& weight) {
    floats.config.train.class_weight = weight;
    return open_training_data(floats.config).class_weight;
  };
  CHECK(open_training_data(floats.config).class_weight.empty());
  const std::vector<float> named{1, 2.5f, 0.5f};
  CHECK(weights({false, {{"dog", 2.5}, {"2", 0.5}}, {}}) == named);
  const std::vector<float> balanced{8.0f / 9, 8.0f / 9, 8.0f / 6};
  CHECK(weights({true, {}, {}}) == balanced);
  CHECK_THROWS_WITH_AS(weights({false, {{"dgo", 2}}, {}}),
                       doctest::Contains("the data has no class 'dgo', did you mean 'dog'?"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(weights({false, {{"3", 2}}, {}}), doctest::Contains("no class '3'"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(weights({false, {{"dog", 2}, {"1", 3}}, {}}),
                       doctest::Contains("names class 1 twice"), ConfigError);
}

TEST_CASE("class_weight is part of the training loss, not of the evaluation loss") {
  FloatImageFiles floats(0.1f);
  floats.config.train.class_weight = config::ClassWeight{false, {{"1", 3}}, {}};
  const data::Datasets data = open_training_data(floats.config);
  const graph::Graph model = model::build_model(floats.config.model, floats.config.data,
                                                sample_spec(data), floats.config.seed);
  const auto get_weights = [](const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (const auto* loss = std::get_if<graph::Loss>(&node.op)) return loss->class_weight;
    }
    return std::vector<float>{-1};
  };
  const std::vector<float> expected{1, 3, 1};
  CHECK(get_weights(compile::training_graph(model, {})) == expected);
  CHECK(get_weights(compile::evaluation_graph(model, {}, false)).empty());
}

}  // namespace trainer::train
