// Images with several labels, from a list to predictions, as a user has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "program.h"
#include "support/pair_area.h"

namespace trainer::e2e::multi_label_test {
namespace {

constexpr int kImages = 96, kSide = 8;

// Grey images whose labels are bright quarters: "top", "low" and "right".
struct Lists {
  TemporaryFolder folder;

  Lists() {
    for (int i = 0; i < kImages; ++i) write_image(i);
    for (const bool validation : {false, true}) {
      std::string columns = "image,top,low,right\n", cells = "path,label\n";
      for (int i = validation ? 64 : 0; i < (validation ? kImages : 64); ++i) {
        const int labels = find_labels(i);
        columns += concat(i, ".pgm");
        std::string cell;
        for (int label = 0; label < 3; ++label) {
          const bool has = (labels >> label & 1) > 0, unknown = i % 11 == label;
          columns += unknown ? "," : has ? ",1" : ",0";
          const char* const names[] = {"top", "low", "right"};
          if (has) cell += (cell.empty() ? "" : "|") + std::string(names[label]);
        }
        columns += '\n';
        cells += concat(i, ".pgm,", cell, '\n');
      }
      const std::string name = validation ? "validation.csv" : "train.csv";
      write(folder.path() / "columns" / name, columns);
      write(folder.path() / "cells" / name, cells);
    }
  }

  static int find_labels(int i) { return i * 5 % 8; }  // a bit per label; 0 for none
  static void write(const Path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void write_image(int i) const {
    std::string text = concat("P5 ", kSide, ' ', kSide, " 255\n");
    const int labels = find_labels(i);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool left = x < kSide / 2, high = y < kSide / 2;
        const bool bright = left ? (high ? labels & 1 : labels & 2) > 0 : (labels & 4) > 0;
        text += static_cast<char>((bright ? 200 : 10) + (i * 31 + y * 17 + x * 7) % 50);
      }
    }
    write(folder.path() / "images" / concat(i, ".pgm"), text);
  }

  // Returns the path of a config of the lists in folder `lists`, with `more` keys of data and other
  // sections.
  std::string config(const std::string& lists, const std::string& csv = "",
                     const std::string& data = "", const std::string& sections = "") const {
    const Path path = folder.path() / (lists + ".yaml");
    write(path, concat("model:\n  input: [8, 8, 1]\n  loss: binary_cross_entropy\n  layers: "
                       "[flatten, dense: 3]\ndata: {format: "
                       "csv, path: ",
                       (folder.path() / lists).string(),
                       ", csv: {root: ", (folder.path() / "images").string(), csv, "}", data,
                       "}\noptimizer: {adam: {learning_rate: 0.1}}\ntrain: {max_steps: 80, "
                       "batch_size: 16}\nparallel: {reduction: ordered, threads: 2, timeout: 20 "
                       "seconds}\n",
                       sections));
    return path.string();
  }
  Path operator/(const std::string& name) const { return folder.path() / name; }
};

std::string fail(const Arguments& arguments, int code) {
  const Result result = run(arguments);
  CHECK(result.code == code);
  return result.err;
}

}  // namespace

TEST_CASE("commands: columns of labels with unknown values are trained, evaluated and predicted") {
  const Lists lists;
  const std::string config = lists.config("columns");
  const Path dir = lists / "run";
  const Json finished = train_to_end(config, dir);
  CHECK(finished.at("metrics").at("validation").at("loss") < 0.2);
  const Result text = run({"evaluate", dir});
  INFO(text.out);
  CHECK(text.out.find("validation: loss 0.") != std::string::npos);
  CHECK(text.out.find(", subset accuracy ") != std::string::npos);
  CHECK(text.out.find("\nlabel") != std::string::npos);
  CHECK(finished.at("best").at("metric") == "validation/loss");
  const Json report = run({"evaluate", dir, "--last", "--json"}).event("evaluated");
  CHECK(report.at("subset_accuracy") > 0.9);
  CHECK(report.at("hamming_loss") < 0.1);
  CHECK(report.at("auc") > 0.95);
  CHECK(report.at("accuracy").is_null());
  REQUIRE(report.at("per_label").size() == 3);
  CHECK(report.at("per_label")[1].at("label") == "low");
  const Json& low = report.at("per_label")[1];
  CHECK(low.at("positives").get<int>() + low.at("negatives").get<int>() == 29);  // 3 are unknown

  // run.json and metrics.csv have the same values.
  const Json record = Json::parse(read_text_file(dir / "run.json"));
  const Json& metrics = record.at("finished").at("metrics").at("validation");
  for (const char* key : {"f1_macro", "f1_micro", "subset_accuracy", "auc", "average_precision"}) {
    CHECK(metrics.at(key) == report.at(key));
  }
  CHECK(metrics.at("labels")[1].at("positives") == low.at("positives"));
  const std::string csv = read_text_file(dir / "metrics.csv");
  CHECK(csv.find("f1_micro,subset_accuracy,hamming_loss,average_precision") != std::string::npos);

  const std::string folder = lists / "images";
  const Result predicted = run({"predict", dir, folder + "/7.pgm", folder + "/8.pgm", "--json"});
  INFO(predicted.err);
  REQUIRE(predicted.lines().size() == 2);
  CHECK(predicted.lines()[0].at("labels") == Json{"top", "low"});  // 7 * 5 % 8 is 3
  CHECK(predicted.lines()[1].at("labels") == Json::array());
  CHECK(predicted.lines()[0].at("probabilities").at("right") < 0.5);
  const Result table = run({"predict", dir, folder + "/7.pgm"});
  CHECK(table.out.find("  top ") != std::string::npos);
  CHECK(table.out.find("right") == std::string::npos);
  const std::string split = run({"predict", dir, "--format", "csv", "--limit", "2"}).out;
  CHECK(split.find("file,index,labels,label,p_top,p_low,p_right\n") == 0);
  CHECK(fail({"predict", dir, folder + "/7.pgm", "--top", "2"}, 2).find("--top") !=
        std::string::npos);
  CHECK(fail({"predict", dir, "--abstain", "0.1"}, 2).find("--abstain is for one class") !=
        std::string::npos);
  CHECK(fail({"predict", dir, "--default-threshold"}, 2).find("--default-threshold is for") !=
        std::string::npos);
  const Result data = run({"data", config});
  CHECK(data.out.find("several labels per file: ") != std::string::npos);
}

TEST_CASE("evaluate --novelty judges images with several labels without their labels") {
  const Lists lists;
  const Path dir = lists / "run";
  train_to_end(lists.config("columns"), dir);
  const Result result = run({"evaluate", dir, "--novelty", "--novelty-false-alarms", "0.1",
                             "--unknown", lists / "images", "--json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const Json event = result.event("novelty");
  CHECK(event.at("split") == "validation");
  CHECK(event.at("counts") == event.at("validation"));  // by cross-fitting
  CHECK(event.at("training_images") == 64);
  // The images of both splits.
  CHECK(event.at("unknown").at("samples") == 96);
  CHECK(event.at("unknown").at("auc").get<double>() < 0.6);
  const std::vector<Json> lines = run({"predict", dir, "--json"}).lines();
  REQUIRE(lines.size() == 32);
  for (const Json& line : lines) {
    CHECK(line.at("novel") == (line.at("distance") > event.at("limit")));
    CHECK(line.contains("labels"));
    CHECK_FALSE(line.at("nearest")[0].contains("class"));
  }
  const Result csv = run({"predict", dir, "--format", "csv", "--limit", "1"});
  CHECK(csv.out.find(",labels,novel,distance,label,") != std::string::npos);
  CHECK(run({"predict", dir, "--limit", "1"}).out.find("  distance  labels") != std::string::npos);
}

TEST_CASE("train: cells with several labels equal columns of labels bit by bit") {
  const Lists lists;
  const std::string cells = lists.config("cells", ", label_separator: '|'");
  // The labels are sorted: low, right, top.
  const Json finished = train_to_end(cells, lists / "run");
  CHECK(finished.at("metrics").at("validation").at("loss") < 0.2);
  const Json report = run({"evaluate", lists / "run", "--json"}).event("evaluated");
  CHECK(report.at("per_label")[0].at("label") == "low");
  std::string columns = "image,low,right,top\n";
  for (int i = 0; i < 64; ++i) {
    const int labels = Lists::find_labels(i);
    columns += concat(i, ".pgm,", labels >> 1 & 1, ',', labels >> 2 & 1, ',', labels & 1, '\n');
  }
  Lists::write(lists / "columns" / "train.csv", columns);
  std::filesystem::remove(lists / "columns" / "validation.csv");
  CHECK(train_to_end(lists.config("columns"), lists / "other").at("parameters_sha256") ==
        finished.at("parameters_sha256"));
}

TEST_CASE(
    "train: several labels with mixup give the same bits on replicas, on workers and after a "
    "resume") {
  const Lists lists;
  const std::string config =
      lists.config("columns", "",
                   ", train: {path: " + (lists / "columns" / "train.csv").string() +
                       ", augment: [mixup: 0.4]}, validation: {path: " +
                       (lists / "columns" / "validation.csv").string() + "}",
                   "run: {checkpoint_every: 5 steps, best: validation/average_precision}\n");
  const Arguments weights{"--set", "train.pos_weight=balanced", "--set",
                          "train.class_weight={top: 2}"};
  const auto with_weights = [&](Arguments more) {
    more.insert(more.end(), weights.begin(), weights.end());
    return more;
  };
  const Json whole = train_to_end(config, lists / "whole", weights);
  CHECK(train_to_end(config, lists / "plain").at("parameters_sha256") !=
        whole.at("parameters_sha256"));
  CHECK(whole.at("best").at("metric") == "validation/average_precision");
  const Arguments half{"--batch-size", "8", "--set", "parallel.lr_scaling=none"};
  Arguments two = with_weights(half);
  two.insert(two.end(), {"--replicas", "2"});
  CHECK(train_to_end(config, lists / "two", two).at("parameters_sha256") ==
        whole.at("parameters_sha256"));
  // Stopped in the middle of an epoch.
  train_to_end(config, lists / "parts", with_weights({"--set", "train.max_steps=10"}));
  const Json parts = train_to_end(config, lists / "parts", with_weights({"--resume"}));
  CHECK(parts.at("parameters_sha256") == whole.at("parameters_sha256"));
  CHECK(parts.at("metrics") == whole.at("metrics"));
  // Two processes.
  const int first = draw_port(), second = draw_port();
  const auto task = [&](int index) -> Environment {
    const Json cluster{{"worker", {concat("127.0.0.1:", first), concat("127.0.0.1:", second)}}};
    const Json job{{"cluster", cluster}, {"task", {{"type", "worker"}, {"index", index}}}};
    return {{"TF_CONFIG", job.dump()}};
  };
  Arguments shared{"train", config, "--json", "--run-dir", lists / "workers"};
  for (const Arguments& more : {half, weights}) {
    shared.insert(shared.end(), more.begin(), more.end());
  }
  Program chief(shared, task(0)), other(shared, task(1));
  const Result result = chief.wait();
  INFO(result.err);
  CHECK(other.wait().code == 0);
  REQUIRE(result.code == 0);
  CHECK(result.event("finished").at("parameters_sha256") == whole.at("parameters_sha256"));
  const auto labels = [](const Path& run) {
    return Json::parse(read_text_file(run / "run.json"))
        .at("finished")
        .at("metrics")
        .at("validation")
        .at("labels");
  };
  CHECK(labels(lists / "workers") == labels(lists / "whole"));
}

TEST_CASE(
    "evaluate --thresholds: found on validation, they are stored in the run and used by predict") {
  const Lists lists;
  const std::string config = lists.config("columns");
  const Path dir = lists / "run";
  train_to_end(config, dir, {"--set", "train.max_steps=4"});
  const Json before = run({"evaluate", dir, "--json"}).event("evaluated");
  const Result found = run({"evaluate", dir, "--thresholds", "f1", "--json"});
  INFO(found.err);
  REQUIRE(found.code == 0);
  const Json after = found.event("evaluated");
  CHECK(after.at("f1_macro") >= before.at("f1_macro"));
  CHECK(after.at("thresholds") == "f1");
  CHECK(after.at("auc") == before.at("auc"));
  CHECK(after.at("per_label")[0].at("threshold") != 0.5);
  // The same again, now read from the run.
  const Json again = run({"evaluate", dir, "--json"}).event("evaluated");
  CHECK(again.at("per_label") == after.at("per_label"));
  const Json sensitive =
      run({"evaluate", dir, "--thresholds", "sensitivity=1", "--json"}).event("evaluated");
  for (const Json& label : sensitive.at("per_label")) CHECK(label.at("recall") == 1);
  const double threshold = sensitive.at("per_label")[2].at("threshold");
  const Result predicted = run({"predict", dir, "--json"});
  for (const Json& line : predicted.lines()) {
    const Json& names = line.at("labels");
    const bool has = std::find(names.begin(), names.end(), "right") != names.end();
    CHECK(has == (line.at("probabilities").at("right").get<double>() > threshold));
  }
  const Path onnx = lists / "model.onnx";
  REQUIRE(run({"export", dir, "--format", "onnx", "--output", onnx}).code == 0);
  CHECK(read_text_file(onnx).find("thresholds") != std::string::npos);
  CHECK(fail({"evaluate", dir, "--thresholds", "f3"}, 2).find("sensitivity=S") !=
        std::string::npos);
  CHECK(fail({"evaluate", dir, "--thresholds", "f1", "--split", "train"}, 2)
            .find("validation split") != std::string::npos);
  // A checkpoint of the run finds them, and its folder does not get a file of its own.
  const Path checkpoints = dir / "checkpoints";
  const Result single = run({"predict", checkpoints / "best.safetensors", "--json"});
  INFO(single.err);
  REQUIRE(single.lines().size() == predicted.lines().size());
  for (std::size_t i = 0; i < single.lines().size(); ++i) {
    CHECK(single.lines()[i].at("labels") == predicted.lines()[i].at("labels"));
  }
  const std::string text = read_text_file(dir / "thresholds.json");
  std::filesystem::remove(dir / "thresholds.json");
  CHECK(run({"evaluate", checkpoints, "--thresholds", "sensitivity=1"}).code == 0);
  CHECK(read_text_file(dir / "thresholds.json") == text);
  CHECK_FALSE(std::filesystem::exists(checkpoints / "thresholds.json"));
  CHECK(fail({"evaluate", config, "--thresholds", "f1"}, 2).find(" is not a run") !=
        std::string::npos);
  // Those of other mirror images or other parameters are not used.
  const std::string flipped = run({"predict", dir, "--flip", "--json"}).err;
  CHECK(flipped.find("thresholds.json: was made without --flip, so it is ignored") !=
        std::string::npos);
  Json damaged = Json::parse(text);
  damaged["labels"] = Json::array();
  Lists::write(dir / "thresholds.json", damaged.dump());
  CHECK(fail({"predict", dir}, 3).find("thresholds.json") != std::string::npos);
  Lists::write(dir / "thresholds.json", "{\"labels\": ");
  CHECK(fail({"predict", dir}, 3).find("thresholds.json") != std::string::npos);
  Lists::write(dir / "thresholds.json", text);
  train_to_end(config, dir, {"--resume", "--set", "train.max_steps=6"});
  const std::string other = run({"predict", dir, "--last", "--json"}).err;
  CHECK(other.find("belongs to the parameters of step 4, not to those of step 6") !=
        std::string::npos);
  train_to_end(config, dir, {"--overwrite"});
  CHECK_FALSE(std::filesystem::exists(dir / "thresholds.json"));
}

TEST_CASE(
    "crossval predicts each image with several labels once, and measures the AUC of each label") {
  const Lists lists;
  std::filesystem::remove(lists / "columns" / "validation.csv");
  const std::string config = lists.config("columns");
  const Path folder = lists / "folds";
  const Arguments crossval{"crossval", config, "--folds", "3",
                           "--dir",    folder, "--set",   "train.max_steps=8"};
  Arguments json = crossval;
  json.push_back("--json");
  const Result result = run(json);
  INFO(result.err);
  REQUIRE(result.code == 0);
  const Json event = result.event("crossval");
  CHECK(event == Json::parse(read_text_file(folder / "crossval.json")));
  CHECK(event.at("count") == 64);
  CHECK(event.at("classes") == Json{"top", "low", "right"});

  // The values of each label by fold: probabilities of images with it and without it.
  struct Scores {
    std::vector<double> with, without;
  };
  Scores all[3], by_fold[3][3];
  std::set<std::string> files;
  int wrong = 0, known = 0;
  const std::vector<std::string> rows =
      split_text(read_text_file(folder / "out_of_fold.csv"), '\n');
  REQUIRE(rows.size() == 66);
  CHECK(rows.front() == "file,fold,y_top,y_low,y_right,p_top,p_low,p_right");
  for (std::size_t i = 1; i < 65; ++i) {
    const std::vector<std::string> cells = split_text(rows[i], ',');
    REQUIRE(cells.size() == 8);
    CHECK(files.insert(cells[0]).second);
    const int image = std::stoi(Path(cells[0]).stem().string());
    const std::size_t fold = std::stoul(cells[1]) - 1;
    for (std::size_t label = 0; label < 3; ++label) {
      const bool has = (Lists::find_labels(image) >> label & 1) > 0;
      const bool is_unknown = static_cast<std::size_t>(image) % 11 == label;
      CHECK(cells[2 + label] == (is_unknown ? "" : has ? "1" : "0"));
      if (is_unknown) continue;
      const double p = std::stod(cells[5 + label]);
      for (Scores* scores : {&all[label], &by_fold[label][fold]}) {
        (has ? scores->with : scores->without).push_back(p);
      }
      ++known;
      wrong += (p > 0.5) != has ? 1 : 0;
    }
  }
  const auto area = [](const Scores& scores) {
    return test::compare_pairs(scores.with, scores.without).area;
  };
  double mean_area = 0;
  for (std::size_t label = 0; label < 3; ++label) {
    const Json& found = event.at("labels").at(label);
    CAPTURE(found.dump());
    CHECK(found.at("positives") == all[label].with.size());
    CHECK(found.at("negatives") == all[label].without.size());
    const Json& auc = found.at("auc");
    CHECK(auc.at("all").get<double>() == doctest::Approx(area(all[label])).epsilon(1e-6));
    CHECK(auc.at("all_low") <= auc.at("all"));
    CHECK(auc.at("all_high") >= auc.at("all"));
    double sum = 0;
    for (std::size_t fold = 0; fold < 3; ++fold) {
      const double own = area(by_fold[label][fold]);
      CHECK(auc.at("folds").at(fold).get<double>() == doctest::Approx(own).epsilon(1e-6));
      sum += own;
    }
    CHECK(auc.at("mean").get<double>() == doctest::Approx(sum / 3).epsilon(1e-6));
    CHECK(auc.at("low") <= auc.at("mean"));
    CHECK(auc.at("high") >= auc.at("mean"));
    mean_area += area(all[label]) / 3;
    const Json& curve = event.at("curves").at("classes").at(label);
    CHECK(curve.at("class") == found.at("label"));
    CHECK(curve.at("roc_auc").get<double>() == doctest::Approx(area(all[label])).epsilon(1e-6));
    CHECK(curve.at("average_precision").get<double>() ==
          doctest::Approx(found.at("average_precision").at("all").get<double>()).epsilon(1e-12));
  }
  const Json& metrics = event.at("metrics");
  CHECK(metrics.at("auc").at("all").get<double>() == doctest::Approx(mean_area).epsilon(1e-6));
  CHECK(metrics.at("hamming_loss").at("all").get<double>() ==
        doctest::Approx(static_cast<double>(wrong) / known));
  for (const char* name : {"loss", "f1_macro", "f1_micro", "subset_accuracy"}) {
    CHECK(metrics.at(name).at("low") <= metrics.at(name).at("mean"));
  }
  CHECK_FALSE(event.contains("confusion"));
  // The metrics of `evaluate` are those of the fold.
  const Json fold =
      run({"evaluate", folder / "fold=2", "--split", "validation", "--last", "--json"})
          .event("evaluated");
  CHECK(fold.at("subset_accuracy") == metrics.at("subset_accuracy").at("folds").at(1));
  CHECK(fold.at("per_label").at(2).at("auc") ==
        event.at("labels").at(2).at("auc").at("folds").at(1));

  // The same as text and in the report.
  Arguments collect = crossval;
  collect.push_back("--collect");
  const Result text = run(collect);
  INFO(text.out);
  CHECK(text.code == 0);
  CHECK(text.out.find("AUC: mean") != std::string::npos);
  CHECK(text.out.find("\nright  ") != std::string::npos);
  CHECK(text.out.find("curves: one class against the rest, out-of-fold") != std::string::npos);
  const std::string page = read_text_file(folder / "report.html");
  CHECK(page.find("<caption>Metrics of every label</caption>") != std::string::npos);
  CHECK(page.find("id=\"roc\"") != std::string::npos);
  const Path with_mistakes = lists / "report.html";
  CHECK(run({"report", folder, "--output", with_mistakes}).code == 0);
  CHECK(fail({"crossval", config, "--folds", "3", "--dir", lists / "none", "--operating-point",
              "sensitivity=0.9", "--positive-class", "top"},
             2)
            .find("--operating-point needs a model that gives each image one class") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(lists / "none"));
  CHECK(fail({"data", config, "--suspects", folder, "--output", lists / "suspects.csv"}, 2)
            .find("several labels") != std::string::npos);
}

TEST_CASE("report shows the thresholds of labels that evaluate has found") {
  const Lists lists;
  const Path dir = lists / "run";
  train_to_end(lists.config("columns"), dir, {"--set", "train.max_steps=4"});
  const Json found = run({"evaluate", dir, "--thresholds", "f1", "--json"}).event("evaluated");
  REQUIRE(run({"report", dir, "--output", lists / "report.html"}).code == 0);
  const std::string page = read_text_file(lists / "report.html");
  CHECK(page.find("thresholds by f1, found on the validation split") != std::string::npos);
  for (const Json& label : found.at("per_label")) {
    CHECK(page.find(concat("<th scope=\"row\">", label.at("label").get<std::string>(),
                           "</th><td class=\"n\">", fixed(label.at("threshold"), 4), "</td>")) !=
          std::string::npos);
  }
}

TEST_CASE("train: data.sampling: balanced works with several labels") {
  const Lists lists;
  train_to_end(lists.config("columns"), lists / "balanced", {"--set", "data.sampling=balanced"});
}

TEST_CASE("train: keys that need one class per image are errors with several labels") {
  const Lists lists;
  const std::string config = lists.config("columns");
  const auto error = [&](const std::string& setting) {
    return fail({"train", config, "--run-dir", lists / "none", "--set", setting}, 2);
  };
  CHECK(error("train.class_weight=balanced").find("give train.pos_weight: balanced") !=
        std::string::npos);
  CHECK(error("run.best=validation/f1_weighted").find("the metric f1_weighted is for one class") !=
        std::string::npos);
  CHECK(
      error("train.pos_weight={left: 2}").find("train.pos_weight: the data has no class 'left'") !=
      std::string::npos);
  CHECK(fail({"train", config, "--run-dir", lists / "none", "--set",
              "model.loss=softmax_cross_entropy"},
             3)
            .find("without model.loss: binary_cross_entropy an image has one label") !=
        std::string::npos);
  const std::string cells = lists.config("cells", ", label_separator: '|'");
  // The labels of cells are sorted: their weights do not fit the order of the columns.
  train_to_end(cells, lists / "sorted", {"--set", "train.max_steps=1"});
  CHECK(fail({"train", config, "--run-dir", lists / "none", "--set",
              "model.weights=" + (lists / "sorted").string()},
             3)
            .find("was trained with the same classes in another order") != std::string::npos);
  CHECK(fail({"train", cells, "--run-dir", lists / "none", "--set",
              "model.loss=softmax_cross_entropy"},
             2)
            .find("give model.loss: binary_cross_entropy") != std::string::npos);
  // The other way round: one class of three per image.
  Lists::write(lists / "columns" / "train.csv", "path,label\n0.pgm,a\n1.pgm,b\n2.pgm,c\n");
  std::filesystem::remove(lists / "columns" / "validation.csv");
  CHECK(run({"train", config, "--run-dir", lists / "classes"}).code == 0);
}

}  // namespace trainer::e2e::multi_label_test
