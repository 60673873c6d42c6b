// The C interface of libtrainer.so, linked without the library.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "checkpoint/safetensors.h"
#include "data/open.h"
#include "engine/engine.h"
#include "inference/predict/predict.h"
#include "library/trainer.h"
#include "model/build_model.h"
#include "support/contains.h"
#include "threads.h"
#include "train/state.h"

namespace trainer::library {
namespace {

using test::contains;

constexpr int kHeight = 40, kWidth = 36;

std::vector<std::uint8_t> draw_pixels(std::uint32_t seed, int channels = 3) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kHeight * kWidth * channels));
  for (std::uint8_t& value : pixels) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<std::uint8_t>(seed >> 24);
  }
  return pixels;
}

std::string to_pnm(const std::vector<std::uint8_t>& pixels, int channels = 3) {
  return concat(channels == 3 ? "P6 " : "P5 ", kWidth, ' ', kHeight, " 255\n") +
         std::string(pixels.begin(), pixels.end());
}

// Image files of two classes, and a checkpoint of a model with drawn weights.
struct Saved {
  TemporaryFolder folder;
  std::string path = (folder.path() / "model.safetensors").string();
  std::vector<std::string> files;

  explicit Saved(const std::string& fit = "stretch", const std::string& model = "dense: 2",
                 const std::string& loss = "softmax_cross_entropy", int channels = 3) {
    for (const char* name : {"left", "right"}) {
      const Path inner = folder.path() / "images" / name;
      std::filesystem::create_directories(inner);
      for (std::uint32_t i = 0; i < 3; ++i) {
        files.push_back((inner / concat(i, ".ppm")).string());
        const auto pixels = draw_pixels(static_cast<std::uint32_t>(files.size()));
        std::ofstream(files.back(), std::ios::binary) << to_pnm(pixels);
      }
    }
    config::Config config =
        config::parse_config(
            concat("model: {input: [16, 16, ", channels,
                   "], layers: [conv: {filters: 4}, flatten, ", model, "], loss: ", loss,
                   "}\ntrain: {epochs: 1, batch_size: 4}\nparallel: {threads: 2}\n",
                   "data: {format: image_folder, path: ", (folder.path() / "images").string(),
                   ", resize: [16, 16], channels: ", channels, ", fit: ", fit, "}\n"),
            "saved.yaml", {}, {})
            .config;
    const data::Datasets data = data::open_datasets(config.data, config.seed, Split::kTrain);
    engine::Engine engine(
        model::build_model(config, {data.image_shape, data.image_type, data.label_is_index, 2}),
        config, engine::open_backends(config, {}), engine::Use::kPredict);
    engine.initialise(3);
    // Two GPUs might have trained the run.
    config.parallel.device = DeviceKind::kCuda;
    config.parallel.replicas = 2;
    checkpoint::write_safetensors(
        path, engine.replica().tensors(),
        train::to_metadata({}, config, data, train::plan_steps(config, 6)));
  }
};

struct Opened {
  trainer_model* model = nullptr;
  trainer_error error = {};

  explicit Opened(const std::string& path, const trainer_options* options = nullptr) {
    trainer_open(path.c_str(), options, &model, &error);
  }
  ~Opened() { trainer_close(model); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

struct Rows {
  trainer_status status = TRAINER_OK;
  std::string message;
  std::vector<double> probabilities;
  std::vector<std::int32_t> classes;
  std::vector<std::string> errors;
};

Rows predict(trainer_model* model, const std::vector<trainer_image>& images) {
  Rows rows;
  trainer_error error;
  trainer_result* result = nullptr;
  rows.status = trainer_predict(model, images.data(), images.size(), &result, &error);
  rows.message = error.message;
  if (rows.status != TRAINER_OK) return rows;
  const std::size_t count = trainer_image_count(result);
  const double* probabilities = trainer_probabilities(result);
  rows.probabilities.assign(probabilities, probabilities + count * trainer_class_count(model));
  rows.classes.assign(trainer_classes(result), trainer_classes(result) + count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = trainer_image_error(result, i);
    rows.errors.push_back(text == nullptr ? "" : text);
  }
  trainer_free(result);
  return rows;
}

}  // namespace

TEST_CASE("trainer_predict gives files, bytes and pixels the probabilities of `predict`") {
  for (const char* fit : {"stretch", "crop", "pad"}) {
    CAPTURE(fit);
    const Saved saved(fit);
    const Opened opened(saved.path);
    INFO(opened.error.message);
    REQUIRE(opened.error.code == TRAINER_OK);
    std::vector<trainer_image> files, encoded, pixels;
    std::vector<std::vector<std::uint8_t>> drawn;
    std::vector<std::string> bytes;
    for (std::size_t i = 0; i < saved.files.size(); ++i) {
      drawn.push_back(draw_pixels(static_cast<std::uint32_t>(i) + 1));
      bytes.push_back(to_pnm(drawn.back()));
    }
    for (std::size_t i = 0; i < saved.files.size(); ++i) {
      files.push_back(trainer_image_file(saved.files[i].c_str()));
      encoded.push_back(trainer_image_encoded(bytes[i].data(), bytes[i].size()));
      pixels.push_back(trainer_image_pixels(drawn[i].data(), kHeight, kWidth, 3));
    }
    const inference::OpenedModel model =
        inference::open_model({saved.path, {}, {}, ""},
                              {{{"parallel.device", "cpu", ""}, {"parallel.replicas", "1", ""}}});
    const auto inputs = inference::open_prediction_inputs(model, saved.files, {}, true);
    const auto engine = inference::make_engine(model, inputs);
    std::vector<double> expected;
    std::vector<std::int32_t> classes;
    inference::predict(*engine, inputs[0], {model.config.model.loss},
                       [&](const results::Prediction& prediction) {
                         expected.insert(expected.end(), prediction.probabilities.begin(),
                                         prediction.probabilities.end());
                         classes.push_back(prediction.predicted);
                       });
    for (const auto& images : {files, encoded, pixels}) {
      const Rows rows = predict(opened.model, images);
      CHECK(rows.probabilities == expected);
      CHECK(rows.classes == classes);
    }
    CHECK(predict(opened.model, {pixels[4]}).probabilities ==
          std::vector<double>(expected.begin() + 8, expected.begin() + 10));
  }
}

TEST_CASE("trainer_predict reads pixels by their strides") {
  const Saved saved;
  const Opened opened(saved.path);
  REQUIRE(opened.error.code == TRAINER_OK);
  const auto drawn = draw_pixels(5);
  const Rows expected =
      predict(opened.model, {trainer_image_pixels(drawn.data(), kHeight, kWidth, 3)});
  // Planes of blue, green and red, the last row first, with a gap behind each row.
  constexpr int kRow = kWidth + 7, kPlane = kRow * kHeight;
  std::vector<std::uint8_t> planes(3 * kPlane);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      for (int c = 0; c < 3; ++c) {
        planes[(2 - c) * kPlane + (kHeight - 1 - y) * kRow + x] = drawn[(y * kWidth + x) * 3 + c];
      }
    }
  }
  const trainer_image image{
      TRAINER_PIXELS, &planes[2 * kPlane + (kHeight - 1) * kRow], 0, kHeight, kWidth, 3, -kRow, 1,
      -kPlane};
  CHECK(predict(opened.model, {image}).probabilities == expected.probabilities);
}

TEST_CASE("trainer_predict makes grey of colour and colour of grey as for files") {
  for (const int channels : {1, 3}) {
    CAPTURE(channels);
    const Saved saved("stretch", "dense: 2", "softmax_cross_entropy", channels);
    const Opened opened(saved.path);
    REQUIRE(opened.error.code == TRAINER_OK);
    const int other = 4 - channels;
    const auto drawn = draw_pixels(9, other);
    const std::string bytes = to_pnm(drawn, other);
    const Rows rows =
        predict(opened.model, {trainer_image_pixels(drawn.data(), kHeight, kWidth, other),
                               trainer_image_encoded(bytes.data(), bytes.size())});
    CHECK(rows.errors[0] == "");
    CHECK(rows.probabilities[0] == rows.probabilities[2]);
    CHECK(rows.probabilities[0] > 0);
  }
}

TEST_CASE("trainer_predict names the images that it cannot read, and predicts the others") {
  const Saved saved;
  const Opened opened(saved.path);
  const auto drawn = draw_pixels(1);
  const Rows rows = predict(
      opened.model, {trainer_image_file("/nowhere/a.png"), trainer_image_encoded("GIF89a", 6),
                     trainer_image_pixels(drawn.data(), kHeight, kWidth / 2, 4),
                     trainer_image_pixels(drawn.data(), 0, kWidth, 3),
                     trainer_image_file(saved.files[0].c_str())});
  REQUIRE(rows.status == TRAINER_OK);
  CHECK(contains(rows.errors[0], "/nowhere/a.png"));
  CHECK(contains(rows.errors[1], "image 1: "));
  CHECK(contains(rows.errors[2], "image 2: has 4 channels; expected 3, or 1 of grey pixels"));
  CHECK(contains(rows.errors[3], "image 3: has 0 x 36 pixels; expected at least 1 x 1"));
  CHECK(rows.errors[4] == "");
  CHECK(rows.classes[0] == -1);
  CHECK(std::isnan(rows.probabilities[0]));
  CHECK(rows.classes[4] >= 0);
  CHECK(rows.probabilities[8] + rows.probabilities[9] == doctest::Approx(1));
}

TEST_CASE("trainer_open describes the model") {
  const Saved saved;
  trainer_options options = {};
  options.threads = 1;
  const Opened opened(saved.path, &options);
  INFO(opened.error.message);
  REQUIRE(opened.error.code == TRAINER_OK);
  CHECK(trainer_class_count(opened.model) == 2);
  CHECK(std::string(trainer_class_name(opened.model, 1)) == "right");
  CHECK(trainer_class_name(opened.model, 2) == nullptr);
  CHECK(trainer_step(opened.model) == 0);
  CHECK(trainer_has_labels(opened.model) == 0);
  std::int32_t height = 0, width = 0, channels = 0;
  trainer_input_size(opened.model, &height, &width, &channels);
  CHECK(height == 16);
  CHECK(width == 16);
  CHECK(channels == 3);
  CHECK(std::string(trainer_notes(opened.model)) == "");
  CHECK(std::string(trainer_version()) ==
        concat(TRAINER_VERSION_MAJOR, '.', TRAINER_VERSION_MINOR, '.', TRAINER_VERSION_PATCH));
}

TEST_CASE("trainer_predict gives a class of one output the rest of its probability") {
  const Saved saved("stretch", "dense: 1", "binary_cross_entropy");
  const Opened opened(saved.path);
  INFO(opened.error.message);
  REQUIRE(trainer_class_count(opened.model) == 2);
  const Rows rows = predict(opened.model, {trainer_image_file(saved.files[0].c_str())});
  CHECK(rows.probabilities[0] + rows.probabilities[1] == doctest::Approx(1));
  CHECK(rows.classes[0] == (rows.probabilities[1] > 0.5 ? 1 : 0));
}

TEST_CASE(
    "trainer_predict has features where the options ask for them, and no novelty without a limit") {
  const Saved saved;
  trainer_options options = {};
  options.features = 1;
  const Opened opened(saved.path, &options), plain(saved.path);
  INFO(opened.error.message);
  REQUIRE(trainer_feature_count(opened.model) == 14 * 14 * 4);
  CHECK(trainer_feature_count(plain.model) == 0);
  CHECK(std::isnan(trainer_novelty_limit(opened.model)));
  const trainer_image images[] = {trainer_image_file(saved.files[0].c_str()),
                                  trainer_image_file("/nowhere.png")};
  trainer_result* result = nullptr;
  REQUIRE(trainer_predict(opened.model, images, 2, &result, nullptr) == TRAINER_OK);
  const float* features = trainer_features(result);
  REQUIRE(features != nullptr);
  CHECK(features[0] != features[14 * 14 * 4 - 1]);
  CHECK(std::isnan(features[14 * 14 * 4]));
  CHECK(trainer_novel(result) == nullptr);
  CHECK(trainer_distances(result) == nullptr);
  CHECK(trainer_labels(result) == nullptr);
  CHECK(trainer_probabilities(result)[0] == predict(plain.model, {images[0]}).probabilities[0]);
  trainer_free(result);
}

TEST_CASE("trainer_open and trainer_predict return errors with a code and a message") {
  const Saved saved;
  const auto open = [](const std::string& path, const trainer_options* options = nullptr) {
    const Opened opened(path, options);
    CHECK(opened.model == nullptr);
    return std::pair<int, std::string>(opened.error.code, opened.error.message);
  };
  CHECK(open("/nowhere/run").first == TRAINER_DATA);
  CHECK(contains(open("/nowhere/run").second, "/nowhere/run"));
  CHECK(open((saved.folder.path() / "images").string()).first == TRAINER_DATA);
  trainer_options options = {};
  options.checkpoint = "third";
  CHECK(open(saved.path, &options).first == TRAINER_CONFIG);
  CHECK(contains(open(saved.path, &options).second, "checkpoint 'third': expected best or last"));
  options = {};
  options.threads = -1;
  CHECK(open(saved.path, &options).first == TRAINER_ARGUMENT);
  CHECK(trainer_open(nullptr, nullptr, nullptr, nullptr) == TRAINER_ARGUMENT);

  const Opened opened(saved.path);
  CHECK(predict(nullptr, {}).status == TRAINER_ARGUMENT);
  trainer_image image = trainer_image_file(nullptr);
  CHECK(predict(opened.model, {image}).message == "data of an image is NULL");
  image = trainer_image_file("a");
  image.kind = 7;
  CHECK(predict(opened.model, {image}).status == TRAINER_ARGUMENT);
  CHECK(predict(opened.model, {}).status == TRAINER_OK);
  trainer_error error;
  CHECK(trainer_predict(opened.model, nullptr, 1, nullptr, &error) == TRAINER_ARGUMENT);
  trainer_close(nullptr);
  trainer_free(nullptr);
}

TEST_CASE("trainer_predict in a forked process is an error, and trainer_close does not hang") {
  const Saved saved;
  const Opened opened(saved.path);
  const std::vector<trainer_image> images{trainer_image_file(saved.files[0].c_str())};
  const Rows before = predict(opened.model, images);
  const pid_t child = ::fork();
  if (child == 0) {
    const Rows rows = predict(opened.model, images);
    trainer_close(opened.model);
    ::_exit(rows.status == TRAINER_FORKED && contains(rows.message, "was forked") ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(predict(opened.model, images).probabilities == before.probabilities);
}

TEST_CASE("trainer_open leaves signals and the settings of the caller's thread as they are") {
  const Saved saved;
  const unsigned rounding = __builtin_ia32_stmxcsr();
  struct sigaction before[NSIG] = {}, after[NSIG] = {};
  for (int i = 1; i < NSIG; ++i) ::sigaction(i, nullptr, &before[i]);
  {
    const Opened opened(saved.path);
    predict(opened.model, {trainer_image_file(saved.files[0].c_str())});
    for (int i = 1; i < NSIG; ++i) {
      ::sigaction(i, nullptr, &after[i]);
      const bool is_same = before[i].sa_handler == after[i].sa_handler;
      CHECK(is_same);
    }
    CHECK(__builtin_ia32_stmxcsr() == rounding);
    // Threads of the handle take no signals of the program.
    int blocking = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "status");
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const std::size_t at = text.find("SigBlk:\t");
      const std::uint64_t mask = std::strtoull(text.c_str() + at + 8, nullptr, 16);
      blocking += ((mask >> (SIGTERM - 1)) & 1) != 0 ? 1 : 0;
    }
    CHECK(blocking >= 1);
  }
}

// TRAINER_LIBRARY_IMAGES sets the number of images of all threads together.
TEST_CASE("trainer_predict: eight threads with one handle get the same bits, in flat memory") {
  const Saved saved;
  const char* wanted = std::getenv("TRAINER_LIBRARY_IMAGES");
  const int images = wanted == nullptr ? 800 : std::atoi(wanted);
  long growth = 0;
  CHECK(predict_from_threads(saved.path.c_str(), 8, images / 8, &growth) == 0);
  MESSAGE(images, " images, ", growth, " bytes more after a quarter of them");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(growth < (4 << 20));
#endif
}

}  // namespace trainer::library
