// evaluate --curves, --operating-point and --abstain, and what predict, export and report make of
// them; predict --abstain.
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

// A run of a few steps, whose predictions are right for some of the samples.
struct BinaryRun {
  Workspace work;
  std::string config, folder = work / "run";

  explicit BinaryRun(const std::string& head = "[flatten, dense: 1], loss: binary_cross_entropy",
                     int classes = 2) {
    config = work.config(concat("model: {layers: ", head, R"(}
data:
  format: synthetic
  validation_split: 0.4
  synthetic: {shape: [6, 6, 1], classes: )",
                                classes, R"(, train_samples: 300, test_samples: 200}
optimizer: {sgd: {learning_rate: 0.0005}}
train: {max_steps: 10, batch_size: 32}
run: {best: ""}
)"));
    const Result result = run({"train", config, "--run-dir", folder, "--quiet"});
    INFO(result.err);
    REQUIRE(result.code == 0);
  }
  Json evaluate(const Arguments& more, const std::string& event) const {
    Arguments arguments{"evaluate", folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event(event);
  }
  Result predict(const Arguments& more) const {
    Arguments arguments{"predict", folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  }
};

struct Rates {
  std::int64_t true_positives = 0, positives = 0, true_negatives = 0, negatives = 0;
};

// The counts of the classes that predict gives.
Rates count_rates(const std::vector<Json>& lines, const std::string& positive) {
  Rates rates;
  for (const Json& line : lines) {
    const bool right = line.at("class") == line.at("label");
    const bool is_positive = line.at("label") == positive;
    ++(is_positive ? rates.positives : rates.negatives);
    (is_positive ? rates.true_positives : rates.true_negatives) += right ? 1 : 0;
  }
  return rates;
}

}  // namespace

TEST_CASE("evaluate --operating-point: predict gives the sensitivity and specificity it reports") {
  const BinaryRun trained;
  const Result before = trained.predict({"--split", "test"});
  const Json point = trained.evaluate({"--operating-point", "sensitivity=0.95"}, "operating_point");
  const Json &found = point.at("validation"), &counts = point.at("counts");
  CHECK(found.at("sensitivity").get<double>() >= 0.95);
  CHECK(point.at("positive_class") == "1");
  CHECK(point.at("split") == "test");
  for (const char* split : {"validation", "test"}) {
    CAPTURE(split);
    const Json& expected = std::string(split) == "test" ? counts : found;
    const Result result = trained.predict({"--split", split});
    CHECK(contains(result.err, ": 1 is predicted from a probability of "));
    CHECK(contains(result.err, "the operating point sensitivity=0.95 of operating_point.json"));
    const Rates rates = count_rates(result.lines(), "1");
    CHECK(rates.true_positives == expected.at("true_positives"));
    CHECK(rates.true_negatives == expected.at("true_negatives"));
    CHECK(rates.positives - rates.true_positives == expected.at("false_negatives"));
    CHECK(rates.negatives - rates.true_negatives == expected.at("false_positives"));
  }
  // A temperature changes the probabilities, not the classes.
  const std::vector<Json> classes = trained.predict({"--split", "test"}).lines();
  trained.evaluate({"--calibrate"}, "calibrated");
  const std::vector<Json> calibrated = trained.predict({"--split", "test"}).lines();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    CHECK(classes[i].at("class") == calibrated[i].at("class"));
  }
  const Result likelier =
      trained.predict({"--split", "test", "--default-threshold", "--uncalibrated"});
  CHECK(likelier.lines() == before.lines());
  CHECK_FALSE(contains(likelier.err, "operating"));
}

TEST_CASE("evaluate --operating-point accepts the other class, costs, and two logits") {
  const BinaryRun trained("[flatten, dense: 2]");
  const Json zero = trained.evaluate(
      {"--operating-point", "specificity=0.9", "--positive-class", "0"}, "operating_point");
  CHECK(zero.at("positive_class") == "0");
  CHECK(zero.at("validation").at("specificity").get<double>() >= 0.9);
  const Rates rates = count_rates(trained.predict({"--split", "test"}).lines(), "0");
  CHECK(rates.true_positives == zero.at("counts").at("true_positives"));
  CHECK(rates.true_negatives == zero.at("counts").at("true_negatives"));
  const auto errors = [&](const char* cost) {
    const Json event = trained.evaluate({"--operating-point", cost}, "operating_point");
    return event.at("validation");
  };
  const Json dear_misses = errors("cost=1:20"), dear_alarms = errors("cost=20:1");
  CHECK(dear_misses.at("false_negatives").get<int>() <
        dear_alarms.at("false_negatives").get<int>());
  CHECK(dear_misses.at("false_positives").get<int>() >
        dear_alarms.at("false_positives").get<int>());
}

TEST_CASE("evaluate --curves --operating-point prints text, stores files and fills the report") {
  const BinaryRun trained;
  const Result result = run({"evaluate", trained.folder, "--curves", "--calibrate",
                             "--operating-point", "sensitivity=0.9"});
  INFO(result.out);
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(contains(result.out, "95 % interval (DeLong)"));
  CHECK(contains(result.out, "stored in " + trained.folder + "/curves.json\n"));
  CHECK(contains(result.out, "operating point: sensitivity=0.9: 1 from a probability of "));
  CHECK(contains(result.out, "stored in " + trained.folder + "/operating_point.json\n"));
  CHECK(contains(result.out, "calibration: temperature "));
  const Path page = trained.work / "report.html", plots = trained.work / "plots";
  REQUIRE(run({"report", trained.folder, "--output", page, "--plots", plots}).code == 0);
  const std::string html = read_text_file(page);
  for (const char* part : {"id=\"roc\"", "id=\"precision-recall\"", "id=\"reliability\"",
                           "Areas of the curves", "operating point: sensitivity=0.9: 1 from a"}) {
    CAPTURE(part);
    CHECK(contains(html, part));
  }
  CHECK(std::filesystem::exists(plots / "roc.svg"));
  std::string calibration = read_text_file(trained.folder + "/calibration.json");
  const std::size_t step = calibration.find("\"step\":10");
  REQUIRE(step != std::string::npos);
  std::ofstream(trained.folder + "/calibration.json")
      << calibration.replace(step, 9, "\"step\":1e300");
  const Result huge = run({"report", trained.folder, "--output", page, "--overwrite"});
  CHECK(huge.code == 3);
  CHECK(
      contains(huge.err, "calibration.json: is damaged: the value of step is not a whole number"));
  std::filesystem::remove(trained.folder + "/calibration.json");
  std::ofstream(trained.folder + "/curves.json") << "{\"classes\":[{}]}";
  const Result damaged = run({"report", trained.folder, "--output", page, "--overwrite"});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.err, "curves.json: is damaged"));
  std::ofstream(trained.folder + "/operating_point.json")
      << "{\"step\":1,\"tensors_sha256\":\"0\",\"flip\":false}";
  const Result other = trained.predict({"--limit", "1"});
  CHECK(contains(other.err, "operating_point.json: belongs to the parameters of step 1"));
}

TEST_CASE("evaluate --curves draws every class of several against the rest") {
  const BinaryRun trained("[flatten, dense: 4]", 4);
  const Json curves = trained.evaluate({"--curves"}, "curves");
  const Json evaluated = trained.evaluate({}, "evaluated");
  REQUIRE(curves.at("classes").size() == 4);
  double sum = 0;
  for (const Json& one : curves.at("classes")) {
    sum += one.at("roc_auc").get<double>();
    CHECK(one.at("positives").get<int>() + one.at("negatives").get<int>() == 200);
    CHECK(one.at("roc_auc_low").get<double>() < one.at("roc_auc").get<double>());
    CHECK(one.at("roc").front().at("threshold").is_null());
  }
  CHECK(sum / 4 == doctest::Approx(evaluated.at("auc").get<double>()).epsilon(1e-9));
  const Json one = trained.evaluate({"--curves", "--positive-class", "2"}, "curves");
  REQUIRE(one.at("classes").size() == 1);
  CHECK(one.at("classes").at(0) == curves.at("classes").at(2));
  const Result none = run({"evaluate", trained.folder, "--operating-point", "sensitivity=0.9"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "--operating-point needs --positive-class"));
  // predict has no use for an operating point of four classes.
  trained.evaluate({"--operating-point", "sensitivity=0.9", "--positive-class", "3"},
                   "operating_point");
  CHECK_FALSE(contains(trained.predict({"--limit", "1"}).err, "operating"));
  const Path onnx = trained.work / "model.onnx";
  REQUIRE(run({"export", trained.folder, "--format", "onnx", "--output", onnx}).code == 0);
  CHECK_FALSE(contains(read_text_file(onnx), "operating_point"));
}

TEST_CASE("evaluate --operating-point: wrong options are rejected before the evaluation") {
  const BinaryRun trained;
  const auto message = [&](const Arguments& more) {
    Arguments arguments{"evaluate", trained.folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(contains(message({"--operating-point", "sensitivity=95"}),
                 "'sensitivity=95' is not a criterion; give sensitivity=SHARE"));
  CHECK(contains(message({"--curves", "--positive-class", "cat"}),
                 "--positive-class: the model has no class 'cat'; classes: 0, 1"));
  const BinaryRun two("[flatten, dense: 2]");
  const Result regression =
      run({"evaluate", two.folder, "--curves", "--set", "model.loss=mean_squared_error"});
  CHECK(regression.code == 2);
  CHECK(contains(regression.err, "--curves needs a model that gives each image one class"));
  const Result abstains =
      run({"predict", two.folder, "--abstain", "0.1", "--set", "model.loss=mean_squared_error"});
  CHECK(abstains.code == 2);
  CHECK(contains(abstains.err, "--abstain needs a model that gives each image one class"));
}

TEST_CASE("predict --abstain keeps the error on validation and reports its coverage") {
  const BinaryRun trained("[flatten, dense: 4]", 4);
  const std::string error = "0.1";
  const Result result = trained.predict({"--split", "validation", "--abstain", error});
  const std::vector<Json> lines = result.lines();
  std::int64_t answered = 0, wrong = 0;
  double least = 2, most_abstained = -1;
  for (const Json& line : lines) {
    const double probability = line.at("probability");
    if (line.at("abstained").get<bool>()) {
      CHECK(line.at("class").is_null());
      most_abstained = std::max(most_abstained, probability);
      continue;
    }
    ++answered;
    wrong += line.at("class") == line.at("label") ? 0 : 1;
    least = std::min(least, probability);
  }
  INFO(result.err);
  CHECK(answered > 0);
  CHECK(answered < static_cast<std::int64_t>(lines.size()));
  CHECK(static_cast<double>(wrong) <= 0.1 * static_cast<double>(answered));
  CHECK(most_abstained < least);
  CHECK(contains(result.err, "note: --abstain 0.1: predicts from a confidence of "));
  CHECK(contains(result.err, concat(" (", answered, " of ", lines.size(), " images have a class")));

  const Result test = trained.predict({"--split", "test", "--abstain", error});
  CHECK(contains(test.err, "note: coverage "));
  const Result all = trained.predict({"--split", "test", "--abstain", "1"});
  CHECK(
      contains(all.err, "note: coverage 100.00 % (200 of 200 images have a class, with an error"));
  const Result table =
      run({"predict", trained.folder, "--split", "validation", "--abstain", error});
  CHECK(contains(table.out, "(abstains)"));
  const Result csv = run(
      {"predict", trained.folder, "--split", "validation", "--abstain", error, "--format", "csv"});
  CHECK(contains(csv.out, "index,class,probability,abstained,label"));
  CHECK(contains(csv.out, ",true,"));
  CHECK(contains(csv.out, ",false,"));
  CHECK_FALSE(trained.predict({"--limit", "1"}).lines().at(0).contains("abstained"));
}

TEST_CASE("evaluate --abstain: predict --abstain gives the coverage and the error it reports") {
  const BinaryRun trained("[flatten, dense: 4]", 4);
  trained.evaluate({"--calibrate"}, "calibrated");
  const Json event = trained.evaluate({"--abstain", "0.1"}, "abstention");
  CHECK(event.at("allowed_error") == 0.1);
  CHECK(event.at("split") == "test");
  CHECK(event.at("temperature") != 1);
  for (const char* split : {"validation", "test"}) {
    CAPTURE(split);
    const Json& expected = event.at(std::string(split) == "test" ? "answers" : "validation");
    const std::vector<Json> lines = trained.predict({"--split", split, "--abstain", "0.1"}).lines();
    std::int64_t answered = 0, wrong = 0;
    for (const Json& line : lines) {
      CHECK(line.at("abstains_below") == event.at("confidence"));
      CHECK(line.at("abstained") == (line.at("probability") < event.at("confidence")));
      if (line.at("abstained").get<bool>()) continue;
      ++answered;
      wrong += line.at("class") == line.at("label") ? 0 : 1;
    }
    CHECK(expected.at("samples") == lines.size());
    CHECK(expected.at("answered") == answered);
    CHECK(expected.at("wrong") == wrong);
    CHECK(answered > 0);
    const double share = static_cast<double>(wrong) / static_cast<double>(answered);
    CHECK(expected.at("error").get<double>() == doctest::Approx(share));
    CHECK(expected.at("error_low").get<double>() <= share);
    CHECK(expected.at("error_high").get<double>() >= share);
    CHECK(expected.at("coverage").get<double>() ==
          doctest::Approx(static_cast<double>(answered) / static_cast<double>(lines.size())));
  }
  CHECK(event.at("validation").at("error") <= 0.1);
  const Json stored = Json::parse(read_text_file(trained.folder + "/abstention.json"));
  for (const char* key : {"confidence", "validation", "answers"}) {
    CHECK(stored.at(key) == event.at(key));
  }
  CHECK(event.at("stored") == trained.folder + "/abstention.json");

  const Result text = run({"evaluate", trained.folder, "--abstain", "0.1"});
  CHECK(contains(text.out, "abstention: a class from a confidence of "));
  CHECK(contains(text.out, " on, for an error of at most 10.00 %, at the temperature "));
  CHECK(contains(text.out, "; stored in " + trained.folder + "/abstention.json\n"));
  CHECK(contains(text.out, "error of these (95 % interval)"));
  const Path page = trained.work / "report.html";
  REQUIRE(run({"report", trained.folder, "--output", page}).code == 0);
  const std::string html = read_text_file(page);
  CHECK(contains(html, "abstention: a class from a confidence of "));
  CHECK(contains(html, "<caption>Abstention</caption>"));

  // An operating point decides about the classes of both.
  const Json likeliest = trained.evaluate({"--abstain", "0.3"}, "abstention");
  CHECK(likeliest.at("operating_point").is_null());
  const std::string costs = trained.work / "costs.csv";
  std::ofstream(costs) << "true,0,1,2,3\n0,0,9,9,9\n1,1,0,1,1\n2,1,1,0,1\n3,1,1,1,0\n";
  trained.evaluate({"--operating-point", "cost=" + costs}, "operating_point");
  const Json decided = trained.evaluate({"--abstain", "0.3"}, "abstention");
  CHECK(decided.at("operating_point") == "cost=" + costs);
  CHECK(decided.at("validation") != likeliest.at("validation"));
  std::int64_t answered = 0, wrong_answers = 0;
  for (const Json& line : trained.predict({"--split", "test", "--abstain", "0.3"}).lines()) {
    if (line.at("abstained").get<bool>()) continue;
    ++answered;
    wrong_answers += line.at("class") == line.at("label") ? 0 : 1;
  }
  CHECK(decided.at("answers").at("answered") == answered);
  CHECK(decided.at("answers").at("wrong") == wrong_answers);
  REQUIRE(run({"report", trained.folder, "--output", page, "--overwrite"}).code == 0);
  CHECK(contains(read_text_file(page), ", decided by the operating point cost="));

  const Result wrong = run({"evaluate", trained.folder, "--abstain", "1.5"});
  CHECK(wrong.code == 2);
}

TEST_CASE("evaluate --operating-point cost=FILE: predict, export and report use the costs") {
  const BinaryRun trained("[flatten, dense: 4]", 4);
  const std::string file = trained.work / "costs.csv";
  // To miss class 3 is dear, and the classes are not in order.
  std::ofstream(file) << "true,3,0,1,2\n3,0,50,40,30\n0,1,0,2,3\n1,1,2,0,3\n2,1,2,3,0\n";
  const std::vector<std::vector<double>> costs{
      {0, 2, 3, 1}, {2, 0, 3, 1}, {2, 3, 0, 1}, {50, 40, 30, 0}};
  const std::vector<Json> likeliest = trained.predict({"--split", "test"}).lines();
  const Json event = trained.evaluate({"--operating-point", "cost=" + file}, "operating_point");
  CHECK(event.at("criterion") == "cost=" + file);
  CHECK(event.at("costs") == Json(costs));
  CHECK(event.at("samples") == 200);
  trained.evaluate({"--calibrate"}, "calibrated");
  const Json calibrated =
      trained.evaluate({"--operating-point", "cost=" + file}, "operating_point");
  CHECK(calibrated.at("likeliest") == event.at("likeliest"));
  CHECK(event.at("temperature") == 1);
  CHECK(calibrated.at("temperature") != 1);
  const Result predicted = trained.predict({"--split", "test"});
  CHECK(contains(predicted.err,
                 concat(": the class of the least expected cost is predicted, the operating point "
                        "cost=",
                        file, " of operating_point.json")));
  double cost = 0, cost_of_likeliest = 0;
  int differ = 0;
  const std::vector<Json> lines = predicted.lines();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    const auto label = static_cast<std::size_t>(std::stoi(line.at("label").get<std::string>()));
    const auto decided = static_cast<std::size_t>(std::stoi(line.at("class").get<std::string>()));
    double expected[4] = {};
    for (std::size_t k = 0; k < 16; ++k) {
      const double p = line.at("probabilities").at(std::to_string(k / 4));
      expected[k % 4] += p * costs[k / 4][k % 4];
    }
    CHECK(std::min_element(expected, expected + 4) - expected == static_cast<int>(decided));
    cost += costs[label][decided];
    const auto top =
        static_cast<std::size_t>(std::stoi(likeliest[i].at("class").get<std::string>()));
    cost_of_likeliest += costs[label][top];
    differ += top != decided ? 1 : 0;
  }
  CHECK(differ > 10);
  CHECK(calibrated.at("least_cost").at("cost").get<double>() == doctest::Approx(cost / 200));
  CHECK(calibrated.at("likeliest").at("cost").get<double>() ==
        doctest::Approx(cost_of_likeliest / 200));
  CHECK(cost < cost_of_likeliest);
  CHECK(trained.predict({"--split", "test", "--default-threshold", "--uncalibrated"}).lines() ==
        likeliest);

  const Result text = run({"evaluate", trained.folder, "--operating-point", "cost=" + file});
  CHECK(contains(text.out, ": the class of the least expected cost, at the temperature "));
  CHECK(contains(text.out, "\nthe class of the least expected cost   "));
  const Path page = trained.work / "report.html", onnx = trained.work / "model.onnx";
  REQUIRE(run({"report", trained.folder, "--output", page}).code == 0);
  CHECK(contains(read_text_file(page), "<caption>Cost of the decisions</caption>"));
  CHECK(contains(read_text_file(page), "true class \\ decided class"));
  REQUIRE(run({"export", trained.folder, "--format", "onnx", "--output", onnx}).code == 0);
  CHECK(contains(read_text_file(onnx), "\"costs\":[[0.0,2.0,3.0,1.0],[2.0,0.0,3.0,1.0],"));

  const auto fail = [&](const Arguments& more, int code) {
    Arguments arguments{"evaluate", trained.folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == code);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(contains(fail({"--operating-point", "cost=" + file, "--positive-class", "3"}, 2),
                 "--positive-class has no meaning for --operating-point cost="));
  CHECK(contains(fail({"--operating-point", "cost=none.csv"}, 3), "none.csv"));
  std::ofstream(file) << "true,0,1\n";
  CHECK(contains(fail({"--operating-point", "cost=" + file}, 3), "costs.csv:1: the header has 3"));
  std::string stored = read_text_file(trained.folder + "/operating_point.json");
  const std::size_t first = stored.find("[[0.0,2.0");
  REQUIRE(first != std::string::npos);
  std::ofstream(trained.folder + "/operating_point.json") << stored.replace(first, 5, "[[-1");
  const Result damaged = run({"predict", trained.folder, "--limit", "1"});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.err, "operating_point.json: is damaged"));
}

TEST_CASE("evaluate: without a run, each option uses the results of those before it") {
  const BinaryRun trained("[flatten, dense: 4]", 4);
  const std::string weights = trained.work / "weights.safetensors";
  const std::string costs = trained.work / "costs.csv";
  std::ofstream(costs) << "true,0,1,2,3\n0,0,9,9,9\n1,1,0,1,1\n2,1,1,0,1\n3,1,1,1,0\n";
  REQUIRE(run({"export", trained.folder, "--format", "safetensors", "--output", weights}).code ==
          0);
  const Arguments options{"--json",        "--calibrate", "--operating-point",
                          "cost=" + costs, "--abstain",   "0.3"};
  const auto evaluate = [&](Arguments arguments) {
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  };
  const Result of_run = evaluate({"evaluate", trained.folder});
  const Result of_config = evaluate({"evaluate", trained.config, "--weights", weights});
  const Json temperature = of_config.event("calibrated").at("temperature");
  CHECK(temperature != 1);
  CHECK(of_config.event("abstention").at("temperature") == temperature);
  CHECK(of_config.event("operating_point").at("temperature") == temperature);
  CHECK(of_config.event("abstention").at("stored").is_null());
  for (const char* key : {"operating_point", "validation", "answers"}) {
    CHECK(of_config.event("abstention").at(key) == of_run.event("abstention").at(key));
  }
}

}  // namespace trainer::e2e
