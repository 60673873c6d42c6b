// Cross-validation and folds by groups, by the program itself.
#include <doctest/doctest.h>
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "npy.h"
#include "program.h"
#include "support/contains.h"
#include "support/skip.h"

namespace trainer::e2e::crossval_test {
namespace {

using test::contains;

// Pictures of persons, each of one class, whose colour depends on the class.
struct Persons {
  Workspace work;
  Path photos = work / "photos";
  Path config = work / "photos.yaml";
  int files = 0;

  Persons() {
    std::mt19937 random(7);
    for (int person = 1; person <= 18; ++person) {
      const bool is_ill = person % 3 == 0;
      const Path folder = photos / (is_ill ? "ill" : "well");
      std::filesystem::create_directories(folder);
      const auto images = static_cast<int>(1 + random() % 4);
      for (int i = 0; i < images; ++i, ++files) {
        std::ofstream file(folder / concat("person", person, "_scan_", i, ".ppm"),
                           std::ios::binary);
        file << "P6 36 40 255\n";
        for (int byte = 0; byte < 36 * 40 * 3; ++byte) {
          const unsigned base = (byte % 3 == 0) == is_ill ? 90 : 60;
          file.put(static_cast<char>(base + random() % 100));
        }
      }
    }
  }
  Result create(const std::string& group_by) const {
    return run({"new", photos, "--output", config, "--group-by", group_by},
               {{"HOME", work / "home"}, {"WEIGHTS_DIR", ""}});
  }
  Path folder() const { return work / "crossval"; }
  Arguments crossval(int steps, const Arguments& more = {}) const {
    Arguments arguments{"crossval",
                        config,
                        "--folds",
                        "3",
                        "--dir",
                        folder(),
                        "--json",
                        "--batch-size",
                        "8",
                        "--set",
                        concat("train.max_steps=", steps)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

std::string find_person(const std::string& file) {
  const std::string name = Path(file).filename().string();
  return name.substr(0, name.find('_'));
}

// The rows of out_of_fold.csv without the header.
std::vector<std::vector<std::string>> read_predictions(const Path& folder) {
  std::vector<std::string> lines = split_text(read_text_file(folder / "out_of_fold.csv"), '\n');
  REQUIRE(lines.size() > 2);
  CHECK(lines.front() == "file,fold,label,class,probability,p_ill,p_well");
  CHECK(lines.back().empty());
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) rows.push_back(split_text(lines[i], ','));
  return rows;
}

}  // namespace

TEST_CASE("crossval: each sample is predicted once, by a run without its group") {
  const Persons persons;
  REQUIRE(persons.create("(person\\d+)").code == 0);
  CHECK(contains(read_text_file(persons.config),
                 concat("  # kept in one split: ", persons.files, " files in 18 groups\n")));
  const Result result = run(persons.crossval(6));
  INFO(result.err);
  REQUIRE(result.code == 0);
  const auto rows = read_predictions(persons.folder());
  CHECK(rows.size() == static_cast<std::size_t>(persons.files));
  std::set<std::string> seen;
  std::map<std::string, std::string> fold_of;
  std::map<std::string, std::int64_t> right, count;
  for (const std::vector<std::string>& row : rows) {
    REQUIRE(row.size() == 7);
    CHECK(seen.insert(row[0]).second);
    CHECK(fold_of.try_emplace(find_person(row[0]), row[1]).first->second == row[1]);
    CHECK(Path(row[0]).parent_path().filename() == row[2]);
    CHECK(std::abs(std::stod(row[5]) + std::stod(row[6]) - 1) < 1e-6);
    CHECK((row[3] == "ill") == (std::stod(row[5]) >= 0.5));
    CHECK(row[4] == (row[3] == "ill" ? row[5] : row[6]));
    right[row[1]] += row[2] == row[3] ? 1 : 0;
    ++count[row[1]];
  }
  const Json event = result.event("crossval");
  CHECK(event == Json::parse(read_text_file(persons.folder() / "crossval.json")));
  CHECK(event["count"] == persons.files);
  const Json& accuracy = event["metrics"]["accuracy"];
  double sum = 0;
  for (int fold = 1; fold <= 3; ++fold) {
    const std::string name = std::to_string(fold);
    const double share = static_cast<double>(right[name]) / static_cast<double>(count[name]);
    CHECK(accuracy["folds"][fold - 1].get<double>() == doctest::Approx(share));
    sum += share;
    // The metrics of `evaluate` are those of the fold.
    const Result one = run({"evaluate", persons.folder() / concat("fold=", fold), "--split",
                            "validation", "--last", "--json"});
    CHECK(one.event("evaluated")["accuracy"].get<double>() == doctest::Approx(share));
    CHECK(one.event("evaluated")["loss"].get<double>() ==
          event["metrics"]["loss"]["folds"][fold - 1].get<double>());
  }
  CHECK(accuracy["mean"].get<double>() == doctest::Approx(sum / 3));
  CHECK(accuracy["low"].get<double>() <= accuracy["mean"].get<double>());
  CHECK(accuracy["high"].get<double>() >= accuracy["mean"].get<double>());
  const double all = static_cast<double>(right["1"] + right["2"] + right["3"]) / persons.files;
  CHECK(accuracy["all"].get<double>() == doctest::Approx(all));
  CHECK(event["metrics"].contains("auc"));
  CHECK(std::filesystem::exists(persons.folder() / "report.html"));

  // The results alone, again, for people.
  Arguments collect = persons.crossval(6, {"--collect"});
  std::erase(collect, "--json");
  const Result text = run(collect);
  INFO(text.out, text.err);
  CHECK(text.code == 0);
  CHECK(contains(text.out, "95 % interval"));
  CHECK(contains(text.out, concat(persons.files,
                                  " samples in 3 folds, each predicted by the run "
                                  "that has not trained on it")));
  // Other folds do not fit the runs that are there.
  Arguments other = persons.crossval(6);
  other[3] = "4";
  const Result refused = run(other);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "data.folds was 3, is 4"));
  other.push_back("--collect");
  other[3] = "2";
  const Result collected = run(other);
  CHECK(collected.code == 2);
  CHECK(contains(collected.err, "data.folds was 3, is 2"));
}

TEST_CASE("crossval warns of folds that lack a class, and gives no mean over other classes") {
  const Workspace work;
  // The third class has two samples, so that one of three folds has none.
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 32; ++i) {
    labels.push_back(i < 2 ? 2 : i % 2);
    for (int p = 0; p < 3; ++p) pixels.push_back(p == labels.back() || i % 5 == p ? 1.0F : 0.0F);
  }
  write_npy(work / "images.npy", "<f4", {32, 1, 3, 1}, pixels);
  write_npy(work / "labels.npy", "<i8", {32}, labels);
  const std::string config = work.config(
      "model: {layers: [flatten, dense: 3]}\n"
      "data: {format: npz, normalize: {scale: 1}, classes: [a, b, c], train: {images: " +
      (work / "images.npy").string() + ", labels: " + (work / "labels.npy").string() +
      "}}\ntrain: {max_steps: 4, batch_size: 8}\n"
      "run: {tensorboard: false}\n");
  const Result result =
      run({"crossval", config, "--folds", "3", "--dir", work / "folds", "--json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(contains(result.err, "the validation samples of some folds lack a class: c (1 folds)"));
  const Json event = result.event("crossval");
  const Json& metrics = event.at("metrics");
  for (const char* name : {"auc", "f1_macro", "balanced_accuracy"}) {
    CAPTURE(name);
    CHECK(metrics.at(name).at("mean").is_null());
    CHECK(metrics.at(name).at("low").is_null());
    CHECK(metrics.at(name).at("all").is_number());
    CHECK(metrics.at(name).at("folds").size() == 3);
  }
  for (const char* name : {"accuracy", "f1_weighted"}) {
    CAPTURE(name);
    CHECK(metrics.at(name).at("mean").is_number());
    CHECK(metrics.at(name).at("low").get<double>() >= 0);
    CHECK(metrics.at(name).at("high").get<double>() <= 1);
  }
  const Result text =
      run({"crossval", config, "--folds", "3", "--dir", work / "folds", "--collect"});
  INFO(text.out, text.err);
  CHECK(text.code == 0);
  CHECK_FALSE(contains(text.out, "nan"));
}

TEST_CASE("crossval: AUC, calibration and operating point are in out_of_fold.csv and the report") {
  const Persons persons;
  REQUIRE(persons.create("(person\\d+)").code == 0);
  const Arguments options{"--operating-point", "sensitivity=0.8", "--positive-class", "ill"};
  const Result result = run(persons.crossval(6, options));
  INFO(result.err);
  REQUIRE(result.code == 0);
  const Json event = result.event("crossval");
  CHECK(event["checkpoint"] == "last");
  const Json& point = event["operating_point"];
  CHECK(point["positive_class"] == "ill");
  std::vector<double> of_ill, of_well;  // probabilities of "ill"
  std::vector<double> before(15), after(15);
  int true_positives = 0, false_positives = 0;
  for (const std::vector<std::string>& row : read_predictions(persons.folder())) {
    const std::size_t fold = std::stoul(row[1]) - 1;
    const bool is_ill = row[2] == "ill", is_right = row[2] == row[3];
    const double ill = std::stod(row[5]), odds = std::log(ill / std::stod(row[6]));
    (is_ill ? of_ill : of_well).push_back(ill);
    const double temperature = event["calibration"]["fold_temperatures"][fold];
    const auto add = [&](std::vector<double>& bins, double confidence) {
      bins[static_cast<std::size_t>(std::ceil(confidence * 15)) - 1] +=
          (is_right ? 1 : 0) - confidence;
    };
    add(before, std::stod(row[4]));
    add(after, 1 / (1 + std::exp(-std::abs(odds) / temperature)));
    if (odds >= point["fold_log_odds"][fold].get<double>()) {
      ++(is_ill ? true_positives : false_positives);
    }
  }
  double wins = 0;
  for (const double ill : of_ill) {
    for (const double well : of_well) wins += ill > well ? 1 : ill == well ? 0.5 : 0;
  }
  const double area = wins / static_cast<double>(of_ill.size() * of_well.size());
  const Json& auc = event["metrics"]["auc"];
  CHECK(auc["all"].get<double>() == doctest::Approx(area).epsilon(1e-6));
  CHECK(auc["all_low"].get<double>() <= area);
  CHECK(auc["all_high"].get<double>() >= area);
  const Json& curves = event["curves"]["classes"];
  REQUIRE(curves.size() == 1);
  CHECK(curves[0]["class"] == "ill");
  CHECK(curves[0]["roc_auc_low"].get<double>() ==
        doctest::Approx(auc["all_low"].get<double>()).epsilon(1e-9));
  const auto error = [&](const std::vector<double>& bins) {
    double sum = 0;
    for (const double gap : bins) sum += std::abs(gap);
    return sum / persons.files;
  };
  const char* const kError = "expected_calibration_error";
  CHECK(event["calibration"]["before"][kError].get<double>() ==
        doctest::Approx(error(before)).epsilon(1e-4));
  CHECK(event["calibration"]["after"][kError].get<double>() ==
        doctest::Approx(error(after)).epsilon(1e-4));
  CHECK(point["counts"]["true_positives"] == true_positives);
  CHECK(point["counts"]["false_positives"] == false_positives);
  CHECK(point["found"]["sensitivity"].get<double>() >= 0.8);

  const auto number = [](const Json& value) { return fixed(value.get<double>(), 4); };
  const std::string interval = concat(number(auc["all_low"]), " to ", number(auc["all_high"]));
  const std::string report = read_text_file(persons.folder() / "report.html");
  CHECK(contains(report, "<h1>Cross-validation photos</h1>"));
  CHECK(contains(report, interval));
  CHECK(contains(report, number(auc["mean"])));
  CHECK(contains(report, number(event["calibration"]["after"][kError])));
  CHECK(contains(report, number(auc["folds"][2])));
  for (const char* title : {"Reliability", "ROC", "Precision and recall", "Operating point"}) {
    CHECK(contains(report, title));
  }
  CHECK(contains(report, percent(point["counts"]["sensitivity"].get<double>())));
  CHECK(std::filesystem::exists(persons.folder() / "reliability.svg"));
  CHECK_FALSE(contains(report, "<img "));

  // `report` adds the mistakes of the folds.
  const Path page = persons.work / "folds.html";
  const Result with = run({"report", persons.folder(), "--output", page, "--mistakes", "6"});
  INFO(with.err);
  REQUIRE(with.code == 0);
  const std::string pictures = read_text_file(page);
  CHECK(contains(pictures, interval));
  for (const std::size_t fold : {std::size_t{0}, std::size_t{2}}) {
    const std::int64_t count = event["folds"][fold]["count"];
    const double accuracy = event["metrics"]["accuracy"]["folds"][fold];
    const std::int64_t wrong = std::lround((1 - accuracy) * static_cast<double>(count));
    CHECK(contains(pictures, concat("<h2>Mistakes (fold ", fold + 1, ")</h2>\n<p>", wrong, " of ",
                                    count, " samples are wrong with the last checkpoint.")));
  }
  CHECK(contains(pictures, "<img "));
  CHECK(contains(pictures, "alt=\"Heatmap of "));
  const Result last = run({"report", persons.folder(), "--last"});
  CHECK(last.code == 2);
  CHECK(contains(last.err, "--last needs a run or a sweep"));

  // The same as text.
  Arguments collect = persons.crossval(6, options);
  collect.push_back("--collect");
  std::erase(collect, "--json");
  const Result text = run(collect);
  INFO(text.out, text.err);
  CHECK(text.code == 0);
  CHECK(contains(text.out, concat(number(auc["all"]), " (", interval, ")")));
  CHECK(contains(text.out, "each fold, by the threshold that the other folds give"));
  CHECK(contains(text.out, "expected calibration error (95 % interval)"));
  CHECK(contains(text.out, "before: samples"));
  collect.push_back("--quiet");
  CHECK_FALSE(contains(run(collect).out, "before: samples"));

  std::ofstream(persons.folder() / "crossval.json") << "{\"checkpoint\":\"last\"}";
  const Result damaged = run({"report", persons.folder()});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.err, "crossval.json"));
  CHECK(contains(damaged.err, "`trainer crossval` command again with --collect"));
}

TEST_CASE("crossval: options that the model cannot follow are an error before training") {
  const Persons persons;
  REQUIRE(persons.create("(person\\d+)").code == 0);
  const Result criterion = run(persons.crossval(6, {"--operating-point", "sensitivity=95"}));
  CHECK(criterion.code == 2);
  CHECK(contains(criterion.err, "'sensitivity=95' is not a criterion"));
  const Result positive = run(persons.crossval(6, {"--positive-class", "sick"}));
  CHECK(positive.code == 2);
  CHECK(contains(positive.err, "--positive-class"));
  CHECK(!std::filesystem::exists(persons.folder()));
}

TEST_CASE("crossval: an operating point of a model with an output per class is an error") {
  const Workspace work;
  write_npy(work / "x.npy", "<f4", {40, 4, 4}, std::vector<float>(640, 0.5f));
  std::vector<float> one_hot;
  for (int i = 0; i < 40; ++i)
    one_hot.insert(one_hot.end(), {i % 2 ? 1.0f : 0.0f, i % 2 ? 0.0f : 1.0f});
  write_npy(work / "rows.npy", "<f4", {40, 2}, one_hot);
  const std::string config = work.config(
      concat("model: {layers: [flatten, dense: 2], loss: binary_cross_entropy}\n"
             "data: {format: npz, train: {images: ",
             (work / "x.npy").string(), ", labels: ", (work / "rows.npy").string(),
             "}}\noptimizer: {sgd: {learning_rate: 0.1}}\ntrain: {epochs: 1, batch_size: 8}\n"));
  const std::string folder = work / "folds";
  const Result result = run({"crossval", config, "--folds", "2", "--dir", folder,
                             "--operating-point", "sensitivity=0.9"});
  CHECK(result.code == 2);
  CHECK(contains(result.err,
                 "--operating-point needs a model that gives each image one class, but "
                 "binary_cross_entropy with 2 outputs gives each class a probability of its own"));
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("crossval: killed and started again, it has the predictions of an uninterrupted one") {
  const Persons persons;
  REQUIRE(persons.create("(person\\d+)").code == 0);
  const Arguments arguments = persons.crossval(40, {"--set", "run.checkpoint_every=4 steps"});
  {
    Program program(arguments);
    REQUIRE(program.wait_for("\"event\":\"point\""));
    program.signal(SIGKILL);
    program.wait();
  }
  CHECK(!std::filesystem::exists(persons.folder() / "out_of_fold.csv"));
  const std::string first = read_text_file(persons.folder() / "fold=1" / "run.json");
  Arguments collect = arguments;
  collect.push_back("--collect");
  const Result partly = run(collect);
  CHECK(partly.code == 75);
  CHECK(contains(partly.err,
                 " of 3 folds have no results; give the same command without "
                 "--collect to train them"));
  const Result again = run(arguments);
  INFO(again.err);
  REQUIRE(again.code == 0);
  CHECK(again.lines()[0]["state"] == "finished earlier");
  CHECK(read_text_file(persons.folder() / "fold=1" / "run.json") == first);
  const std::string resumed = read_text_file(persons.folder() / "out_of_fold.csv");

  std::ofstream(persons.folder() / "fold=1" / "run.json") << first.substr(0, first.size() / 2);
  const Result damaged = run(collect);
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.err,
                 "1 of 3 folds have no results; give the same command without --collect to train "
                 "them, after you removed the damaged ones"));
  std::filesystem::remove_all(persons.folder());
  REQUIRE(run(arguments).code == 0);
  CHECK(read_text_file(persons.folder() / "out_of_fold.csv") == resumed);
}

TEST_CASE("train --fold gives the same parameters by two replicas and by two processes") {
  const Persons persons;
  REQUIRE(persons.create("(person\\d+)").code == 0);
  const Arguments train{"train",
                        persons.config,
                        "--json",
                        "--fold",
                        "2",
                        "--set",
                        "data.folds=4",
                        "--set",
                        "train.max_steps=5",
                        "--set",
                        "train.batch_size=4",
                        "--run-dir"};
  Arguments replicas = train;
  replicas.insert(replicas.end(), {persons.work / "replicas", "--replicas", "2"});
  const Result one = run(replicas);
  INFO(one.err);
  REQUIRE(one.code == 0);
  CHECK(contains(one.err, "fold 2 of 4 sets "));
  Arguments launch{"launch", "-n", "2", "--"};
  launch.insert(launch.end(), train.begin(), train.end());
  launch.push_back(persons.work / "processes");
  const Result two = run(launch);
  INFO(two.err);
  REQUIRE(two.code == 0);
  const Json first = one.event("finished"), second = two.event("finished");
  CHECK(first["parameters_sha256"] == second["parameters_sha256"]);
  CHECK(first["metrics"]["validation"] == second["metrics"]["validation"]);
  // A folder of its own for each fold, unless one is named.
  Arguments plan{"train", persons.config, "--fold", "9", "--set", "data.folds=4"};
  const Result wrong = run(plan);
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "data.fold: is 9, but data.folds is 4"));
}

TEST_CASE("new --group-by: a pattern that matches nothing, and a config, are errors") {
  const Persons persons;
  const Result none = persons.create("(patient\\d+)");
  CHECK(none.code == 2);
  CHECK(contains(none.err, "matches none of the paths of the "));
  CHECK(!std::filesystem::exists(persons.config));
  REQUIRE(persons.create("(person\\d+)").code == 0);
  const Result config = run({"new", persons.config, "--output", persons.work / "other.yaml",
                             "--group-by", "(person\\d+)"});
  CHECK(config.code == 2);
  CHECK(contains(config.err, "set data.group_by in it"));
}

TEST_CASE("new --group-by and data: no patient of chest X-rays is in two splits") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  const Path folder = Path(shared == nullptr ? "" : shared) / "chest_xray";
  if (!std::filesystem::is_directory(folder / "train")) {
    TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with chest_xray");
  }
  const Workspace work;
  const Path config = work / "xray.yaml";
  REQUIRE(run({"new", folder, "--output", config, "--group-by", "(person\\d+|IM-\\d+)"}).code == 0);
  const Result with = run({"data", config, "--json"});
  INFO(with.err);
  const Json shared_with = with.event("data")["shared_groups"];
  for (const auto& group : shared_with) {
    // Persons in the folders train and test remain; none is in train and in validation.
    const std::string text = group;
    CHECK(!(contains(text, " train (") && contains(text, " validation (")));
  }
  const Result without = run({"data", config, "--json", "--group-by", "(person\\d+|IM-\\d+)",
                              "--set", "data.group_by=''"});
  std::size_t divided = 0;
  const Json shared_without = without.event("data")["shared_groups"];
  for (const auto& group : shared_without) {
    const std::string text = group;
    divided += contains(text, " train (") && contains(text, " validation (") ? 1 : 0;
  }
  CHECK(divided > 50);
}

}  // namespace trainer::e2e::crossval_test
