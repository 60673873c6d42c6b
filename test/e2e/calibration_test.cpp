// evaluate --calibrate, and what predict, export and report make of the temperature that it stores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

using test::contains;

// A run of 40 steps with a validation split and two checkpoints.
struct CalibratedRun {
  Workspace work;
  std::string config, folder = work / "run";

  explicit CalibratedRun(const std::string& data = ", validation_split: 0.3") {
    config = work.config(kModel + ("data: {format: idx, path: " + work.data() + data + R"(}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {max_steps: 40, batch_size: 32}
run: {checkpoint_every: 20 steps, keep: 2, best: ""}
)"));
    train({});
  }
  void train(const Arguments& more) const {
    Arguments arguments{"train", config, "--run-dir", folder, "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
  }
  Json calibrate(const Arguments& more = {}) const {
    Arguments arguments{"evaluate", folder, "--calibrate", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("calibrated");
  }
  Result predict(const Arguments& more) const {
    Arguments arguments{"predict", folder, "--json", "--logits"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  }
};

// The mean of -log p of the labels, from the lines of predict.
double mean_loss(const std::vector<Json>& lines) {
  double sum = 0;
  for (const Json& line : lines) {
    sum -= std::log(line.at("probabilities").at(line.at("label").get<std::string>()).get<double>());
  }
  return sum / static_cast<double>(lines.size());
}

// The logits of an exported file, for the first images of the test split.
std::vector<float> logits_of_file(const CalibratedRun& calibrated, const Path& file) {
  const Result result = run({"predict", calibrated.config, "--weights", file, "--json", "--logits",
                             "--split", "test", "--limit", "20"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  std::vector<float> logits;
  for (const Json& line : result.lines()) {
    for (const Json& logit : line.at("logits")) logits.push_back(logit.get<float>());
  }
  return logits;
}

}  // namespace

TEST_CASE("evaluate --calibrate measures what predict gives, and predict uses the temperature") {
  const CalibratedRun trained;
  const std::vector<Json> before = trained.predict({"--split", "test"}).lines();
  const Json event = trained.calibrate();
  const double temperature = event.at("temperature");
  CHECK(std::abs(temperature - 1) > 0.01);
  CHECK(event.at("split") == "test");
  CHECK(event.at("fitted").at("split") == "validation");
  CHECK(event.at("fitted").at("negative_log_likelihood_after").get<double>() <
        event.at("fitted").at("negative_log_likelihood_before").get<double>());
  CHECK(event.at("before").at("negative_log_likelihood").get<double>() ==
        doctest::Approx(mean_loss(before)).epsilon(1e-5));
  CHECK(event.at("before").at("bins").size() == 15);
  CHECK(event.at("stored") == trained.folder + "/calibration.json");

  const Result calibrated = trained.predict({"--split", "test"});
  CHECK(contains(calibrated.err, "note: " + trained.folder + ": probabilities are calibrated"));
  const std::vector<Json> after = calibrated.lines();
  CHECK(event.at("after").at("negative_log_likelihood").get<double>() ==
        doctest::Approx(mean_loss(after)).epsilon(1e-5));
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].at("class") == before[i].at("class"));
    CHECK(after[i].at("logits").at(3).get<double>() ==
          doctest::Approx(before[i].at("logits").at(3).get<double>() / temperature).epsilon(1e-5));
  }
  const Result raw = trained.predict({"--split", "test", "--uncalibrated"});
  CHECK(raw.lines() == before);
  CHECK_FALSE(contains(raw.err, "calibrated"));
  // The likelihood of the validation split is least at the temperature.
  CHECK(mean_loss(trained.predict({"--split", "validation"}).lines()) ==
        doctest::Approx(event.at("fitted").at("negative_log_likelihood_after").get<double>())
            .epsilon(1e-5));
}

TEST_CASE("evaluate --calibrate: text and report have the diagram before and after calibration") {
  const CalibratedRun trained;
  const Result text = run({"evaluate", trained.folder, "--calibrate"});
  INFO(text.out);
  CHECK(text.code == 0);
  CHECK(contains(text.out, "calibration: temperature "));
  CHECK(contains(text.out, " validation samples (negative log-likelihood "));
  CHECK(contains(text.out, "stored in " + trained.folder + "/calibration.json\n"));
  CHECK(contains(text.out, "expected calibration error (95 % interval)"));
  CHECK(contains(text.out, "before: samples"));
  const Result brief = run({"evaluate", trained.folder, "--calibrate", "--quiet"});
  CHECK(contains(brief.out, "calibration: temperature "));
  CHECK_FALSE(contains(brief.out, "before: samples"));
  const Path page = trained.work / "report.html";
  REQUIRE(run({"report", trained.folder, "--output", page}).code == 0);
  const std::string html = read_text_file(page);
  CHECK(contains(html, "<svg class=\"chart\" id=\"reliability\""));
  CHECK(contains(html, "Before and after the temperature"));
}

TEST_CASE("predict ignores a temperature of other parameters or of another --flip with a warning") {
  const CalibratedRun trained;
  trained.calibrate();
  const std::string ignored = "so it is ignored; `trainer evaluate ";
  // The other checkpoint of the run.
  const Path older = trained.folder + "/checkpoints/step-00000020.safetensors";
  const Result other = run({"predict", older, "--json", "--limit", "1"});
  CHECK(other.code == 0);
  CHECK(contains(other.err, "warning: "));
  CHECK(contains(other.err, "belongs to the parameters of step 40, not to those of step 20"));
  CHECK(contains(other.err, ignored));
  CHECK(contains(trained.predict({"--flip"}).err, "was made without --flip, " + ignored));
  // The same checkpoint by the name of its file.
  const Path newest = trained.folder + "/checkpoints/step-00000040.safetensors";
  CHECK(contains(run({"predict", newest, "--limit", "1"}).err, "probabilities are calibrated"));
  // A run that goes on has other parameters.
  trained.train({"--resume", "--set", "train.max_steps=45"});
  CHECK(contains(trained.predict({}).err, ignored));
  trained.calibrate();
  CHECK(contains(trained.predict({}).err, "probabilities are calibrated"));
  // One that replaces it has none.
  trained.train({"--overwrite"});
  CHECK_FALSE(std::filesystem::exists(trained.folder + "/calibration.json"));
  CHECK_FALSE(contains(trained.predict({}).err, "calibra"));
}

TEST_CASE("export: a calibrated model gives logits divided by the temperature") {
  const CalibratedRun trained;
  const double temperature = trained.calibrate().at("temperature");
  const auto write = [&](const std::string& format, const std::string& name,
                         const Arguments& more = {}) {
    Arguments arguments{"export",   trained.folder,      "--format", format,
                        "--output", trained.work / name, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("exported");
  };
  const Json keras = write("keras_h5", "calibrated.h5");
  CHECK(keras.at("temperature") == temperature);
  CHECK(keras.at("temperature_applied") == true);
  CHECK_FALSE(write("keras_h5", "raw.h5", {"--uncalibrated"}).contains("temperature"));
  const std::vector<float> calibrated = logits_of_file(trained, trained.work / "calibrated.h5");
  const std::vector<float> raw = logits_of_file(trained, trained.work / "raw.h5");
  REQUIRE(calibrated.size() == 200);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    CHECK(static_cast<double>(calibrated[i]) ==
          doctest::Approx(static_cast<double>(raw[i]) / temperature).epsilon(1e-4));
  }
  // Weights to train from stay as they are, and the file has the temperature.
  const Json safetensors = write("safetensors", "a.safetensors");
  CHECK(safetensors.at("temperature_applied") == false);
  CHECK(logits_of_file(trained, trained.work / "a.safetensors") == raw);
  CHECK(contains(read_text_file(trained.work / "a.safetensors"), "\"temperature\":"));
  CHECK(write("onnx", "calibrated.onnx").at("temperature_applied") == true);
  write("onnx", "raw.onnx", {"--uncalibrated"});
  const auto file_size = [&](const char* name) {
    return std::filesystem::file_size(trained.work / name);
  };
  // A division and its constant are more.
  CHECK(file_size("calibrated.onnx") > file_size("raw.onnx"));
  const Result text = run({"export", trained.folder, "--format", "safetensors", "--output",
                           trained.work / "b.safetensors"});
  CHECK(contains(text.out, "; not calibrated: divide the logits by the temperature "));
}

TEST_CASE(
    "evaluate --calibrate: the error of no validation split or no probabilities has the reason") {
  const CalibratedRun without("");
  const Result none = run({"evaluate", without.folder, "--calibrate"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "--calibrate needs the validation split"));
  CHECK(contains(none.err, "give data.validation_split or data.validation.path"));
  CHECK(none.out.empty());  // the error comes before the evaluation
  CHECK_FALSE(std::filesystem::exists(without.folder + "/calibration.json"));
  const Result regression =
      run({"evaluate", without.config, "--calibrate", "--set", "model.loss=mean_squared_error"});
  CHECK(regression.code == 2);
  CHECK(contains(regression.err, "mean_squared_error gives numbers, not probabilities"));
}

TEST_CASE("binary_cross_entropy over classes has a sigmoid per class, which is not calibrated") {
  const Workspace work;
  const std::string folder = work / "run";
  const std::string config =
      work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(, validation_split: 0.3}
train: {max_steps: 10, batch_size: 32}
)"));
  REQUIRE(run({"train", config, "--run-dir", folder, "--quiet", "--set",
               "model.loss=binary_cross_entropy"})
              .code == 0);
  const Result predicted =
      run({"predict", folder, "--split", "test", "--json", "--logits", "--quiet"});
  REQUIRE(predicted.code == 0);
  double sum = 0;
  for (const Json& line : predicted.lines()) {
    const auto logits = line.at("logits").get<std::vector<double>>();
    REQUIRE(logits.size() == 10);
    const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    CHECK(line.at("class") == std::to_string(largest));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = 1 / (1 + std::exp(-logits[i]));
      const std::string name = std::to_string(i);
      CHECK(line.at("probabilities").at(name).get<double>() == doctest::Approx(p).epsilon(1e-5));
      sum -= std::log(line.at("label") == name ? p : 1 - p) / 10;
    }
  }
  const Result evaluated = run({"evaluate", folder, "--json"});
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.event("evaluated").at("loss").get<double>() ==
        doctest::Approx(sum / static_cast<double>(predicted.lines().size())).epsilon(1e-4));
  const Result calibrated = run({"evaluate", folder, "--calibrate"});
  CHECK(calibrated.code == 2);
  CHECK(contains(calibrated.err, "gives each class a probability of its own"));
  REQUIRE(run({"export", folder, "--format", "onnx", "--output", work / "binary.onnx"}).code == 0);
  CHECK(contains(read_text_file(work / "binary.onnx"), "\"activation\":\"sigmoid\""));
}

TEST_CASE("evaluate --calibrate: a config without a run stores nothing") {
  const CalibratedRun trained;
  const Result result = run({"evaluate", trained.config, "--calibrate", "--json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.event("calibrated").at("stored").is_null());
  CHECK_FALSE(std::filesystem::exists(trained.work / "calibration.json"));
}

TEST_CASE("predict and report: the error of a damaged calibration.json has the next step") {
  const CalibratedRun trained;
  trained.calibrate();
  const Path file = trained.folder + "/calibration.json";
  std::string good = read_text_file(file);
  const auto check = [&](const std::string& content, const std::string& reason) {
    CAPTURE(content);
    std::ofstream(file) << content;
    const Result result = run({"predict", trained.folder, "--limit", "1"});
    CHECK(result.code == 3);
    CHECK(contains(result.err, "calibration.json"));
    CHECK(contains(result.err, reason));
    CHECK(contains(result.err, "--calibrate"));
  };
  check("", "does not hold a JSON object");
  check("[1]", "does not hold a JSON object");
  const auto start = good.find("\"temperature\":");
  const auto end = good.find(',', start);
  check(good.substr(0, start) + "\"temperature\":-1" + good.substr(end),
        "the value of temperature is not from 0.001 to 1000, but: ");
  check(good.substr(0, start) + "\"temperature\":1e-300" + good.substr(end),
        "the value of temperature is not from 0.001 to 1000, but: ");
  check(good.substr(0, start) + "\"temperature\":\"x\"" + good.substr(end),
        "the value of temperature is not a number, but: string");
  std::ofstream(file) << "{\"temperature\":2}";
  const Result report = run({"report", trained.folder, "--output", trained.work / "report.html"});
  CHECK(report.code == 3);
  CHECK(contains(report.err, "calibration.json"));
  CHECK(contains(report.err, "is damaged"));
  std::filesystem::remove(file);
  std::filesystem::create_symlink(trained.work / "elsewhere", file);
  const Result link = run({"evaluate", trained.folder, "--calibrate"});
  CHECK(link.code == 3);
  CHECK(contains(link.err, "is a link inside a run folder"));
  CHECK_FALSE(std::filesystem::exists(trained.work / "elsewhere"));
}

}  // namespace trainer::e2e
