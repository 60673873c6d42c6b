// Logits, features, mirror images and averages of checkpoints, each beside the same by hand.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/formats/npy.h"
#include "checkpoint/store.h"
#include "program.h"
#include "support/contains.h"
#include "support/nameless_file.h"
#include "support/process_events.h"
#include "support/skip.h"

namespace trainer::e2e {
namespace {

using test::contains;

// A short run with checkpoints after 4, 8, ... steps, of which the last three are kept.
struct Trained {
  Workspace work;
  std::string run_folder = work / "run";

  Trained() {
    const std::string config =
        work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {max_steps: 18, batch_size: 32}
run: {checkpoint_every: 4 steps, keep: 3}
)"));
    const Result result = run({"train", config, "--run-dir", run_folder, "--quiet"});
    INFO(result.err);
    REQUIRE(result.code == 0);
  }
  std::vector<Json> predict(const Arguments& more) const {
    Arguments arguments{"predict", run_folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.lines();
  }
  Json evaluate(const Arguments& more) const {
    Arguments arguments{"evaluate", run_folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("evaluated");
  }
};

struct Array {
  std::vector<std::int64_t> dims;
  std::vector<float> values;
};
Array read_npy(const Path& path) {
  const Bytes bytes = read_file(path);
  const NpyHeader header = read_npy_header(bytes, path);
  REQUIRE(header.type == "f4");
  Array array{header.dims, std::vector<float>((bytes.size() - header.offset) / sizeof(float))};
  std::memcpy(array.values.data(), bytes.data() + header.offset,
              array.values.size() * sizeof(float));
  return array;
}

double probability(const Json& line, std::int64_t index) {
  return line.at("probabilities").at(std::to_string(index)).get<double>();
}

}  // namespace

TEST_CASE("predict warns of names in a pipe that it does not read") {
  const Trained trained;
  const Path image = trained.work / "image.pgm";
  std::ofstream(image) << "P5 28 28 255\n" << std::string(784, 'x');
  const std::string names = image.string() + "\n";
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  REQUIRE(::write(ends[1], names.data(), names.size()) == static_cast<ssize_t>(names.size()));
  ::close(ends[1]);
  const auto take_pipe = [&] { ::dup2(ends[0], STDIN_FILENO); };
  const Result ignored = Program({"predict", trained.run_folder}, {}, take_pipe).wait();
  CHECK(ignored.code == 0);
  CHECK(contains(ignored.err, "no images are named, so that a split of the data is predicted"));
  const Result read = Program({"predict", trained.run_folder, "-"}, {}, take_pipe).wait();
  CHECK(read.code == 0);
  CHECK(contains(read.out, "image.pgm"));
  CHECK_FALSE(contains(read.err, "no images are named"));
  ::close(ends[0]);
}

TEST_CASE("predict --logits writes the logits of the probabilities in every format") {
  const Trained trained;
  for (const Json& line : trained.predict({"--logits", "--limit", "20"})) {
    REQUIRE(line.at("logits").size() == 10);
    double sum = 0;
    for (const Json& logit : line.at("logits")) sum += std::exp(logit.get<double>());
    for (std::int64_t i = 0; i < 10; ++i) {
      const double p = std::exp(line.at("logits").at(static_cast<std::size_t>(i)).get<double>());
      CHECK(probability(line, i) == doctest::Approx(p / sum));
    }
  }
  const Json first = trained.predict({"--logits", "--limit", "1"}).at(0);
  CHECK_FALSE(trained.predict({"--limit", "1"}).at(0).contains("logits"));
  const Result csv =
      run({"predict", trained.run_folder, "--logits", "--format", "csv", "--limit", "1"});
  CHECK(contains(csv.out, ",p_9,logit_0,logit_1,"));
  const std::string last = csv.out.substr(csv.out.rfind(',') + 1);
  CHECK(std::stod(last) == doctest::Approx(first.at("logits").at(9).get<double>()));
  const auto newline = csv.out.find('\n');
  CHECK(std::count(csv.out.begin(), csv.out.begin() + static_cast<std::ptrdiff_t>(newline), ',') ==
        std::count(csv.out.begin() + static_cast<std::ptrdiff_t>(newline), csv.out.end(), ','));
  const Result table = run({"predict", trained.run_folder, "--logits", "--limit", "1"});
  CHECK(contains(table.out, "label  logits\n"));
  char text[32];
  std::snprintf(text, sizeof text, "  %.4f\n", first.at("logits").at(9).get<double>());
  CHECK(contains(table.out, text));
}

TEST_CASE("predict --features writes features in the order of images, which give the logits") {
  const Trained trained;
  const Path file = trained.work / "features.npy";
  const Arguments write{"predict", trained.run_folder, "--features", file};
  const Result result = run(write);
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(contains(result.out, "features [250, 200] of layer flatten, float32"));
  const Array features = read_npy(file);
  REQUIRE(features.dims == std::vector<std::int64_t>{250, 200});
  REQUIRE(features.values.size() == 250 * 200);
  const Path other = trained.work / "other.npy";
  REQUIRE(
      run({"predict", trained.run_folder, "--features", other, "--set", "train.precision=bfloat16"})
          .code == 0);
  CHECK(read_npy(other).values == features.values);

  const Path weights = trained.work / "weights.safetensors";
  REQUIRE(
      run({"export", trained.run_folder, "--format", "safetensors", "--output", weights}).code ==
      0);
  const auto values = load_values(weights);
  const std::vector<float>& kernel = values.at("dense/kernel");
  const std::vector<Json> lines = trained.predict({"--logits"});
  REQUIRE(lines.size() == 250);
  for (std::size_t image = 0; image < lines.size(); ++image) {
    for (std::size_t k = 0; k < 10; ++k) {
      auto sum = static_cast<double>(values.at("dense/bias")[k]);
      for (std::size_t i = 0; i < 200; ++i) {
        sum += static_cast<double>(features.values[image * 200 + i]) *
               static_cast<double>(kernel[i * 10 + k]);
      }
      CHECK(lines[image].at("logits").at(k).get<double>() == doctest::Approx(sum).epsilon(1e-4));
    }
  }

  CHECK(run(write).code == 2);  // the file is there
  Arguments layer = write;
  layer.insert(layer.end(), {"--overwrite", "--layer", "max_pooling2d_1", "--limit", "4"});
  const Result of_layer = run(layer);
  INFO(of_layer.err);
  CHECK(of_layer.code == 0);
  CHECK(read_npy(file).dims.size() == 4);
  CHECK(read_npy(file).dims[0] == 4);
  layer[6] = "flaten";
  const Result wrong = run(layer);
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "did you mean 'flatten'?"));
  CHECK(run({"predict", trained.run_folder, "--layer", "flatten"}).code == 2);
  CHECK(run({"predict", trained.run_folder, "--features", trained.work / "x.npy", "--flip"}).code ==
        2);
}

TEST_CASE("predict --heatmap writes a PNG per image, with its path in the JSON line") {
  const Trained trained;
  const std::vector<Json> plain = trained.predict({"--limit", "3"});
  const Path folder = trained.work / "maps";
  for (const char* method : {"grad_cam", "occlusion"}) {
    CAPTURE(method);
    std::vector<Json> lines = trained.predict(
        {"--limit", "3", "--heatmap", folder, "--overwrite", "--heatmap-method", method});
    REQUIRE(lines.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      const Path file = folder / concat("test_", i, ".png");
      CHECK(lines[i].at("heatmap") == file.string());
      const Bytes bytes = read_file(file);
      CHECK(std::string(bytes.begin(), bytes.begin() + 4) == "\x89PNG");
      lines[i].erase("heatmap");
    }
    CHECK(lines == plain);
  }
  const Bytes predicted = read_file(folder / "test_0.png");
  const auto fail = [&](const Arguments& more) {
    Arguments arguments{"predict", trained.run_folder, "--limit", "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(contains(fail({"--heatmap", folder}), "exists; replace it with --overwrite"));
  CHECK(read_file(folder / "test_0.png") == predicted);
  CHECK(contains(fail({"--heatmap", folder, "--heatmap-class", "ten"}),
                 "--heatmap-class: the model has no class 'ten'; classes: 0, 1"));
  CHECK(contains(fail({"--heatmap", folder, "--heatmap-layer", "flaten"}),
                 "did you mean 'flatten'?"));
  CHECK(contains(fail({"--heatmap", folder, "--heatmap-layer", "flatten"}),
                 "more than one position"));
  CHECK(contains(
      fail({"--heatmap", folder, "--heatmap-method", "occlusion", "--heatmap-layer", "conv2d"}),
      "occlusion takes no layer"));
  CHECK(contains(fail({"--heatmap-class", "1"}), "--heatmap"));
  CHECK(contains(fail({"--overwrite"}), "--features, --heatmap or --sheet"));
  // Each class has a map of its own.
  std::set<Bytes> maps;
  for (const char* name : {"0", "1", "2"}) {
    trained.predict({"--limit", "1", "--heatmap", folder, "--overwrite", "--heatmap-class", name,
                     "--heatmap-layer", "conv2d"});
    maps.insert(read_file(folder / "test_0.png"));
  }
  CHECK(maps.size() == 3);
}

TEST_CASE("predict --features: no file remains if it is interrupted or killed while it writes") {
  const Trained trained;
  if (!test::has_nameless_files(trained.work / ".")) TRAINER_SKIP("files need a name here");
  // The images of the test split, many times.
  constexpr std::size_t kHeader = 16, kImages = 250, kTimes = 400;
  const Bytes once = read_file(trained.work.data() + "/t10k-images-idx3-ubyte");
  Bytes often(once.begin(), once.begin() + kHeader);
  for (std::size_t i = 0; i < kTimes; ++i) {
    often.insert(often.end(), once.begin() + kHeader, once.end());
  }
  const auto count = static_cast<std::uint32_t>(kTimes * kImages);
  for (std::size_t i = 0; i < 4; ++i)
    often[4 + i] = static_cast<std::uint8_t>(count >> (24 - 8 * i));
  const Path images = trained.work / "often-images-idx3-ubyte", folder = trained.work / "out";
  write_file_atomic(images, often);
  std::filesystem::create_directory(folder);
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  const Arguments write{"predict", trained.run_folder, images, "--features", folder / "x.npy"};
  for (const int number : {SIGINT, SIGKILL}) {
    Program program(write);
    const Path open = concat("/proc/", program.pid(), "/fd");
    const auto writes = [&] {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(open, ignored)) {
        const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
        const bool deleted = target.starts_with(folder.string()) && target.ends_with(" (deleted)");
        if (deleted && std::filesystem::file_size(entry.path(), ignored) > 1'000'000) return true;
      }
      return false;
    };
    CHECK(test::poll_until(writes));  // the unnamed file of another process reports no event
    program.signal(number);
    CHECK(program.wait().code == -number);
    CHECK(files() == 0);
  }
  Arguments some = write;
  some.insert(some.end(), {"--limit", "20000"});
  REQUIRE(run(some).code == 0);
  CHECK(files() == 1);
  const Array features = read_npy(folder / "x.npy");
  REQUIRE(features.dims == std::vector<std::int64_t>{20000, 200});
  REQUIRE(features.values.size() == 20000 * 200);
  constexpr std::ptrdiff_t kPeriod = kImages * 200;
  const auto first = features.values.begin();
  CHECK(std::count(first, first + kPeriod, 0.0f) < kPeriod);
  for (std::ptrdiff_t i = 1; i < 80; ++i) {
    CHECK(std::equal(first, first + kPeriod, first + i * kPeriod));
  }
}

TEST_CASE("predict --flip gives the mean of an image and its mirror image") {
  const Trained trained;
  // The images of the test split, mirrored by hand.
  Bytes images = read_file(trained.work.data() + "/t10k-images-idx3-ubyte");
  constexpr std::ptrdiff_t kHeader = 16, kWidth = 28;
  for (auto row = images.begin() + kHeader; row < images.end(); row += kWidth) {
    std::reverse(row, row + kWidth);
  }
  const Path mirrored = trained.work / "mirrored-idx3-ubyte";
  write_file_atomic(mirrored, images);

  const std::vector<Json> plain = trained.predict({}), other = trained.predict({mirrored});
  const std::vector<Json> flipped = trained.predict({"--flip"});
  REQUIRE(flipped.size() == 250);
  double loss = 0;
  int right = 0, changed = 0;
  for (std::size_t i = 0; i < flipped.size(); ++i) {
    double largest = 0;
    std::int64_t best = 0;
    for (std::int64_t k = 0; k < 10; ++k) {
      const double mean = (probability(plain[i], k) + probability(other[i], k)) / 2;
      CHECK(probability(flipped[i], k) == doctest::Approx(mean).epsilon(1e-4));
      if (mean > largest) best = k;
      largest = std::max(largest, mean);
    }
    const auto label = std::stoll(flipped[i].at("label").get<std::string>());
    CHECK(flipped[i].at("class") == std::to_string(best));
    right += best == label ? 1 : 0;
    changed += flipped[i].at("class") == plain[i].at("class") ? 0 : 1;
    loss -= (std::log(probability(plain[i], label)) + std::log(probability(other[i], label))) / 2;
  }
  CHECK(changed > 0);
  const Json metrics = trained.evaluate({"--flip"});
  CHECK(metrics.at("accuracy").get<double>() == doctest::Approx(right / 250.0));
  CHECK(metrics.at("loss").get<double>() == doctest::Approx(loss / 250).epsilon(1e-4));
  CHECK(metrics.at("loss") != trained.evaluate({}).at("loss"));
}

TEST_CASE("export --average writes the mean of the last checkpoints") {
  const Trained trained;
  const Path checkpoints = Path(trained.run_folder) / "checkpoints";
  std::map<std::string, std::vector<double>> sums;
  for (const checkpoint::Saved& saved : checkpoint::list_checkpoints(checkpoints)) {
    for (const auto& [name, values] : load_values(saved.path)) {
      std::vector<double>& sum = sums[name];
      sum.resize(values.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]);
    }
  }
  const Path file = trained.work / "mean.safetensors";
  const Result exported = run({"export", trained.run_folder, "--average", "3", "--format",
                               "safetensors", "--output", file});
  INFO(exported.err);
  REQUIRE(exported.code == 0);
  CHECK(contains(exported.err, "the mean of the checkpoints of steps 12, 16, 18"));
  const auto means = load_values(file);
  CHECK(means.contains("batch_normalization/moving_variance"));
  for (const auto& [name, values] : means) {
    CAPTURE(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(static_cast<double>(values[i]) ==
            doctest::Approx(sums.at(name)[i] / 3).epsilon(1e-5).scale(1e-3));
    }
  }
  const Json last = trained.evaluate({});
  CHECK(trained.evaluate({"--average", "1"}).at("loss") == last.at("loss"));
  const Json mean = trained.evaluate({"--average", "3"});
  CHECK(mean.at("loss") != last.at("loss"));
  // The model with these weights has the same results.
  const Json given =
      run({"evaluate", trained.run_folder + "/config.yaml", "--weights", file, "--json"})
          .event("evaluated");
  CHECK(given.at("loss").get<double>() == doctest::Approx(mean.at("loss").get<double>()));
  CHECK(trained.predict({"--average", "2", "--limit", "2"}).size() == 2);

  const auto refuses = [](const Arguments& arguments, int code, const std::string& what) {
    const Result result = run(arguments);
    CAPTURE(result.err);
    CHECK(result.code == code);
    CHECK(contains(result.err, what));
  };
  refuses({"evaluate", trained.run_folder, "--average", "4"}, 3, "has 3 checkpoints, but");
  refuses({"evaluate", trained.run_folder + "x", "--average", "3"}, 3,
          "no such file or folder; expected a run folder");
  refuses({"evaluate", trained.run_folder, "--average", "0"}, 2, "at least 1");
  refuses({"evaluate", trained.run_folder, "--average", "2", "--best"}, 2, "--best");
  refuses({"evaluate", trained.run_folder, "--average", "2", "--follow"}, 2, "--follow");
  refuses({"predict", trained.run_folder + "/config.yaml", "--average", "2"}, 2,
          "--average is of a run");
  refuses({"predict", checkpoints / "step-00000018.safetensors", "--average", "1"}, 2,
          "name the folder of the run");
  // One that has gone whenever it is read.
  std::filesystem::create_symlink("nowhere", checkpoints / "step-00000099.safetensors");
  refuses({"evaluate", trained.run_folder, "--average", "2"}, 3,
          "its checkpoints are removed before they can be read");
}

}  // namespace trainer::e2e
