// evaluate --novelty, and what predict, export and report make of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/formats/npy.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e::novelty_test {
namespace {

using test::contains;

// A run on drawn digits, and images of noise.
struct DigitRun {
  Workspace work;
  std::string folder = work / "run", noise = work / "noise";

  DigitRun() {
    const std::string config = work.config(concat(kModel, "data: {format: idx, path: ", work.data(),
                                                  R"(, validation_split: 0.3}
optimizer: {adam: {learning_rate: 0.003}}
train: {epochs: 2, batch_size: 32}
)"));
    train_to_end(config, folder);
    std::filesystem::create_directories(noise);
    std::uint32_t state = 1;
    for (int i = 0; i < 40; ++i) {
      std::string text = "P5 28 28 255\n";
      for (int pixel = 0; pixel < 28 * 28; ++pixel) {
        state = state * 1664525u + 1013904223u;
        text += static_cast<char>(state >> 24);
      }
      std::ofstream(Path(noise) / concat(i, ".pgm"), std::ios::binary) << text;
    }
  }
  Json evaluate(const Arguments& more) const {
    Arguments arguments{"evaluate", folder, "--novelty", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("novelty");
  }
  Result predict(const Arguments& more) const {
    Arguments arguments{"predict", folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  }
  // Returns the features of a split, divided by their lengths.
  std::vector<std::vector<double>> read_features(const std::string& split) const {
    const Path file = work / (split + ".npy");
    predict({"--split", split, "--features", file});
    const std::string content = read_text_file(file);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(content.data());
    const NpyHeader header = read_npy_header({bytes, content.size()}, file);
    const auto count = static_cast<std::size_t>(header.dims[0]);
    std::vector<float> values((content.size() - header.offset) / sizeof(float));
    std::memcpy(values.data(), content.data() + header.offset, values.size() * sizeof(float));
    std::vector<std::vector<double>> rows(count);
    const std::size_t width = values.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      double square = 0;
      for (std::size_t j = 0; j < width; ++j) {
        rows[i].push_back(static_cast<double>(values[i * width + j]));
        square += rows[i][j] * rows[i][j];
      }
      for (double& x : rows[i]) x /= std::sqrt(square);
    }
    return rows;
  }
};

// Returns the mean of the 10 smallest of 1 minus the cosine.
double find_distance(const std::vector<double>& row,
                     const std::vector<std::vector<double>>& training) {
  std::vector<double> distances;
  for (const std::vector<double>& other : training) {
    double product = 0;
    for (std::size_t j = 0; j < row.size(); ++j) product += row[j] * other[j];
    distances.push_back(1 - product);
  }
  std::ranges::sort(distances);
  double sum = 0;
  for (std::size_t i = 0; i < 10; ++i) sum += distances[i];
  return sum / 10;
}

std::int64_t count_novel(const std::vector<Json>& lines) {
  return std::ranges::count_if(lines, [](const Json& line) { return line.at("novel") == true; });
}

}  // namespace

TEST_CASE("evaluate --novelty: predict calls the images novel that it counts") {
  const DigitRun trained;
  const std::vector<Json> before = trained.predict({"--json", "--split", "test"}).lines();
  const Json event = trained.evaluate({"--unknown", trained.noise});
  CHECK(event.at("stored") == trained.folder + "/novelty.json");
  CHECK(event.at("training_images") == 420);
  CHECK(event.at("references") == 420);
  CHECK(event.at("validation").at("samples") == 180);
  CHECK(event.at("counts").at("samples") == 250);
  CHECK(event.at("counts").at("rate") < 0.15);
  CHECK(event.at("unknown").at("rate") > 0.9);
  CHECK(event.at("unknown").at("auc") > 0.99);
  const double limit = event.at("limit");

  const Result test = trained.predict({"--json", "--split", "test"});
  CHECK(contains(test.err, "show none of the classes, by novelty.json; --no-novelty"));
  const std::vector<Json> lines = test.lines();
  CHECK(count_novel(lines) == event.at("counts").at("novel"));
  const std::vector<std::vector<double>> training = trained.read_features("train");
  const std::vector<std::vector<double>> features = trained.read_features("test");
  REQUIRE(lines.size() == features.size());
  REQUIRE(lines.size() == before.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double distance = lines[i].at("distance");
    CHECK(distance == doctest::Approx(find_distance(features[i], training)).epsilon(1e-3));
    CHECK(lines[i].at("novel") == (distance > limit));
    CHECK(lines[i].at("nearest").size() == 3);
    // The class stays beside it.
    CHECK(lines[i].at("class") == before[i].at("class"));
    CHECK(lines[i].at("probability").get<double>() ==
          doctest::Approx(before[i].at("probability").get<double>()).epsilon(1e-4));
  }
  std::vector<double> known;
  for (const std::vector<double>& row : trained.read_features("validation")) {
    known.push_back(find_distance(row, training));
  }
  std::ranges::sort(known);
  CHECK(limit == doctest::Approx(known[171]).epsilon(1e-3));  // the 172nd of 180: 181 * 0.95
  CHECK(trained.predict({"--json", "--split", "test", "--no-novelty"}).lines() == before);

  const Result others = trained.predict({"--json", trained.noise});
  CHECK(count_novel(others.lines()) == event.at("unknown").at("novel"));
  const Result table = trained.predict({trained.noise, "--limit", "3"});
  CHECK(contains(table.out, "(none of the classes)"));
  CHECK(contains(table.out, "probability  distance"));
  const std::string nearest = others.lines()[0].at("nearest")[0].at("image");
  CHECK(contains(table.out, "  nearest " + nearest + "\n"));
  const Result csv = trained.predict({trained.noise, "--format", "csv", "--limit", "1"});
  CHECK(contains(csv.out, ",class,probability,novel,distance,"));
  CHECK(contains(csv.out, ",true,"));
  const Path sheet = trained.work / "sheet.html";
  trained.predict({trained.noise, "--sheet", sheet});
  CHECK(contains(read_text_file(sheet), "None of the classes ("));

  // Features are those of float32 in every precision.
  const Arguments first{"--json", "--split", "test", "--limit", "5"};
  Arguments rounded = first;
  rounded.insert(rounded.end(), {"--set", "train.precision=bfloat16"});
  CHECK(trained.predict(rounded).lines() == trained.predict(first).lines());

  // An abstaining model has the classes of before.
  const std::vector<Json> abstaining =
      trained.predict({"--json", "--split", "test", "--abstain", "0.02"}).lines();
  CHECK(count_novel(abstaining) == count_novel(lines));
  CHECK(abstaining[0].contains("abstained"));
}

TEST_CASE("evaluate --novelty: report shows it, export warns, and other parameters ignore it") {
  const DigitRun trained;
  const Result text = run({"evaluate", trained.folder, "--novelty", "--novelty-false-alarms", "0.2",
                           "--unknown", trained.noise});
  CHECK(contains(text.out, "novelty: none of the classes above a distance of "));
  CHECK(contains(text.out, "for false alarms of 20.00 %; stored in "));
  CHECK(contains(text.out, "largest probability"));
  const Path page = trained.work / "report.html";
  REQUIRE(run({"report", trained.folder, "--output", page, "--mistakes", "0"}).code == 0);
  const std::string html = read_text_file(page);
  CHECK(contains(html, "Distances to the training images"));
  CHECK(contains(html, "Farthest images (test)"));
  const Result exported = run({"export", trained.folder, "--output", trained.work / "model.onnx"});
  CHECK(exported.code == 0);
  CHECK(contains(exported.err, "the onnx file gives a class for images of anything"));

  // Another checkpoint has other parameters.
  const Result average = trained.predict({"--json", "--average", "2", "--limit", "1"});
  CHECK(contains(average.err, "novelty.json: belongs to the parameters of step "));
  CHECK_FALSE(average.lines()[0].contains("novel"));
  const Result flipped = trained.predict({"--json", "--flip", "--limit", "1"});
  CHECK(contains(flipped.err, "novelty.json: was made without --flip, so it is ignored"));

  // Other tensors do not belong to the limit.
  const Path features = Path(trained.folder) / "novelty.safetensors";
  const std::string content = read_text_file(features);
  std::filesystem::remove(features);
  const Result missing = run({"predict", trained.folder, "--limit", "1"});
  CHECK(missing.code == 3);
  CHECK(
      contains(missing.err, "is missing, and novelty.json needs it; write it anew with `trainer"));
  for (const auto& entry :
       std::filesystem::directory_iterator(Path(trained.folder) / "checkpoints")) {
    if (entry.path().extension() != ".safetensors") continue;
    std::filesystem::copy_file(entry.path(), features,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const Result other = run({"predict", trained.folder, "--limit", "1"});
  CHECK(other.code == 3);
  CHECK(contains(other.err, "it does not belong to the novelty.json beside it; write it anew"));
  std::string damaged = content;
  damaged[damaged.size() - 5] ^= 1;
  std::ofstream(features, std::ios::binary) << damaged;
  CHECK(run({"predict", trained.folder, "--limit", "1"}).code == 3);
}

TEST_CASE("evaluate --novelty: what it cannot be measured on is an error") {
  const DigitRun trained;
  const auto fail = [&](const Arguments& more, int code) {
    Arguments arguments{"evaluate", trained.folder, "--novelty"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == code);
    return result.err;
  };
  CHECK(contains(fail({"--split", "train"}, 2), "evaluate the test or validation split"));
  CHECK(contains(fail({"--novelty-false-alarms", "0.001"}, 3), "needs at least 999"));
  fail({"--novelty-false-alarms", "0"}, 2);
  fail({"--flip"}, 2);
  fail({"--unknown", trained.work / "nothing"}, 3);
  CHECK_FALSE(std::filesystem::exists(Path(trained.folder) / "novelty.json"));
}

}  // namespace trainer::e2e::novelty_test
