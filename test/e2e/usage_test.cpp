// What the program prints for a user who mistypes, moves, mixes up or damages things.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "base/threads/cores.h"
#include "pictures.h"
#include "program.h"
#include "support/contains.h"
#include "support/source_files.h"

namespace trainer::e2e::usage_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

// A small model on the pictures below a folder.
std::string pictures_config(const Workspace& work, const std::string& data = "") {
  return work.config(concat(R"(
model: {layers: [flatten, dense: 2]}
data: {format: image_folder, resize: [8, 8], path: )",
                            (work / "pictures").string(), data, R"(}
train: {max_steps: 2, batch_size: 8}
run: {tensorboard: false}
)"));
}

std::string small_config(const Workspace& work) {
  return work.config(concat(kModel, "data: {format: idx, path: ", work.data(),
                            ", limit: 64}\ntrain: {epochs: 1}\n"));
}

}  // namespace

TEST_CASE("trainer --version: --verbose prints the version of every library") {
  const Result result = run({"--version", "--verbose"});
  CHECK(result.code == 0);
  CHECK(result.err == "");
  CHECK(result.out.rfind("trainer ", 0) == 0);
  for (const char* name :
       {"libc ", "libstdc++ ", "libdnnl ", "libjpeg ", "libprotobuf ", "CLI11 "}) {
    INFO(name);
    const std::size_t at = result.out.find(name);
    REQUIRE(at != std::string::npos);
    const std::string line = result.out.substr(at, result.out.find('\n', at) - at);
    CHECK(line.find_first_of("0123456789", line.find(' ')) != std::string::npos);
  }
  CHECK(contains(run({"--help"}).out, "with --verbose"));
}

TEST_CASE("trainer --help: every command has examples with options that it accepts") {
  const std::string program = run({"--help"}).out;
  std::istringstream lines(program.substr(program.find("\nSubcommands:") + 1));
  std::string line;
  std::getline(lines, line);
  int commands = 0;
  while (std::getline(lines, line) && !line.empty()) {
    if (line[2] == ' ') continue;  // a description goes on
    const std::string command = line.substr(2, line.find(' ', 2) - 2);
    CAPTURE(command);
    ++commands;
    const std::string help = run({command, "--help"}).out;
    const std::size_t start = help.find("Examples:\n");
    REQUIRE(start != std::string::npos);
    CHECK(contains(help, "Exit codes: 0 done"));
    std::istringstream examples(help.substr(start));
    std::string example;
    std::getline(examples, example);
    int count = 0;
    while (std::getline(examples, example) && example.starts_with("  ")) {
      ++count;
      CHECK(contains(example, "trainer " + command));
      std::istringstream words(example);
      for (std::string word; words >> word && word != "--";) {
        if (word.starts_with("--")) CHECK_MESSAGE(help.find(word) < start, word);
      }
    }
    CHECK(count > 0);
  }
  CHECK(commands == 27);
}

TEST_CASE("validate --json prints one object per config, with the locations of mistakes") {
  const Workspace work;
  const std::string good = small_config(work);
  const Path bad = work / "bad.yaml";
  std::ofstream(bad) << "model: {layers: [flatten, dense: 0]}\ndata: {format: digits}\n";
  const Result result = run({"validate", good, bad, "--json"});
  CHECK(result.code == 2);
  CHECK(result.err.empty());
  const std::vector<Json> lines = result.lines();
  REQUIRE(lines.size() == 2);
  const Json of_data{{"what", "samples and labels"}, {"command", "data"}};
  const Json of_shapes{{"what", "shapes of layers, which follow from the data"},
                       {"command", "plan"}};
  const Json of_machine{{"what", "memory and devices"}, {"command", "plan"}};
  CHECK(lines[0] == Json{{"event", "validated"},
                         {"config", good},
                         {"ok", true},
                         {"errors", Json::array()},
                         {"not_checked", {of_data, of_shapes, of_machine}}});
  CHECK(lines[1].at("ok") == false);
  CHECK_FALSE(lines[1].contains("not_checked"));
  REQUIRE(lines[1].at("errors").size() >= 2);
  bool placed = false;
  for (const Json& error : lines[1].at("errors")) {
    CHECK(error.at("file") == bad.string());
    if (contains(error.at("message"), "dense")) placed = error.at("line") == 1;
  }
  CHECK(placed);
}

TEST_CASE("predict and export: --quiet prints no messages, export --json prints the written file") {
  const Workspace work;
  const Path dir = work / "run";
  REQUIRE(run({"train", small_config(work), "--quiet", "--epochs", "1", "--run-dir", dir}).code ==
          0);
  const auto to = [&](const char* name, const char* flag) {
    return run({"export", dir, "--format", "safetensors", "--output", work / name, flag});
  };
  const Result quiet = to("a.safetensors", "--quiet");
  CHECK(quiet.code == 0);
  CHECK(quiet.out.empty());
  CHECK(fs::exists(work / "a.safetensors"));
  const Json told = to("b.safetensors", "--json").event("exported");
  CHECK(told.at("output") == (work / "b.safetensors").string());
  CHECK(told.at("format") == "safetensors");
  CHECK(told.at("run") == dir.string());
  CHECK(told.at("step").get<int>() > 0);
  const Result loud = run({"predict", dir, "--limit", "3", "--format", "csv"});
  const Result silent = run({"predict", dir, "--limit", "3", "--format", "csv", "--quiet"});
  CHECK(loud.code == 0);
  CHECK(silent.code == 0);
  CHECK(silent.out == loud.out);
}

TEST_CASE("plan --gpus replaces a key of the config, and --link and --workers need each other") {
  const Workspace work;
  const std::string config = small_config(work);
  CHECK(run({"plan", config, "--gpus", "0"}).code == 0);
  CHECK(run({"plan", config, "--gpus", "all"}).code == 0);
  const Result two = run({"plan", config, "--gpus", "2"});
  CHECK(two.code == 2);
  CHECK(contains(two.err, "parallel.lr_scaling: must be given with 2 replicas"));
  CHECK_FALSE(contains(two.err, "--link"));
  for (const char* gpus : {"2", "[0, 0]"}) {
    const Result scaled =
        run({"plan", config, "--gpus", gpus, "--set", "parallel.lr_scaling=none"});
    CHECK(scaled.code == 0);
    CHECK(contains(scaled.out, "--gpus"));
  }
  const Result word = run({"plan", config, "--gpus", "some"});
  CHECK(word.code == 2);
  CHECK(contains(word.err, "parallel.gpus"));
  const Result alone = run({"plan", config, "--workers", "2"});
  CHECK(alone.code == 2);
  CHECK(contains(alone.err, "--link"));
  const Result link = run({"plan", config, "--link", "1Gbit"});
  CHECK(link.code == 2);
  CHECK(contains(link.err, "--workers"));
}

TEST_CASE("parallel.device: cuda on a machine without GPUs is valid until the device is opened") {
  const Workspace work;
  const std::string config = small_config(work);
  const Result valid = run({"validate", config, "--set", "parallel.device=cuda"});
  CHECK(valid.code == 0);
  const Result plan = run({"plan", config, "--set", "parallel.device=cuda"});
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "none here"));
  const Result train = run({"train", config, "--set", "parallel.device=cuda"});
  CHECK(train.code == 4);
  CHECK(contains(train.err, "parallel.device"));
}

TEST_CASE("validate finds errors of the model for a config that gives its sizes") {
  const Workspace work;
  const auto validate = [&](const std::string& input, const std::string& layers) {
    return run({"validate",
                work.config(concat("model: {", input, "layers: ", layers,
                                   "}\ndata: {format: image_folder, path: /nowhere/at/all, ",
                                   "classes: [a, b]", input.empty() ? ", resize: [32, 32]" : "",
                                   "}\ntrain: {epochs: 1}\n"))});
  };
  const std::string input = "input: [32, 32, 3], ";
  CHECK(validate(input, "[flatten, dense: 2]").code == 0);
  for (const std::string& given : {input, std::string()}) {
    const Result units = validate(given, "[flatten, dense: 5]");
    CHECK(units.code == 2);
    CHECK(contains(units.err, "config.yaml:"));
    CHECK(contains(units.err, "each of the 2 classes"));
  }
  const Result two = validate(input,
                              "[{conv: {filters: 2, kernel_size: 40, name: big}}, {conv: {filters: "
                              "2, inputs: input, name: unused}}, {flatten: {inputs: input}}, "
                              "{dense: 2}]");
  CHECK(two.code == 2);
  CHECK(contains(two.err, "big: window 40x40 does not fit"));
  CHECK(contains(two.err, "unused: no later layer uses this one"));

  const auto freeze = [&](const std::string& which) {
    return run({"validate",
                work.config("model: {input: [32, 32, 3], backbone: {name: vgg16, freeze: " + which +
                            "}, head: [flatten, dense: 2]}\ndata: {format: image_folder, path: "
                            "/nowhere, classes: [a, b]}\ntrain: {epochs: 1}\n")});
  };
  CHECK(freeze("[:-4]").code == 0);
  const Result wrong = freeze("block5_con1");
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err,
                 "no layer of the backbone is named 'block5_con1'; did you mean "
                 "'block5_conv1'?"));
  // Nothing is known of the images: nothing is reported of the layers.
  CHECK(run({"validate", work.config("model: {layers: [flatten, dense: 5]}\ndata: {format: idx, "
                                     "path: /nowhere}\ntrain: {epochs: 1}\n")})
            .code == 0);
}

TEST_CASE(
    "evaluate uses the validation split of a run without a test split, also after the data moved") {
  const Workspace work;
  write_images(work / "pictures/train", 8, 1);
  write_images(work / "pictures/validation", 4, 2);
  const std::string dir = work / "run";
  REQUIRE(run({"train", pictures_config(work), "--quiet", "--run-dir", dir}).code == 0);
  const Result result = run({"evaluate", dir, "--json"});
  CHECK(result.code == 0);
  CHECK(contains(result.err, "no test split"));
  CHECK(result.lines().at(0).at("split") == "validation");
  CHECK(run({"evaluate", dir, "--split", "test"}).code == 3);

  const Result predicted = run({"predict", dir, "--json", "--limit", "2"});
  REQUIRE(predicted.code == 0);
  CHECK(predicted.lines().size() == 2);
  CHECK(contains(predicted.lines()[0].at("file").get<std::string>(), "validation/left/0.ppm"));

  fs::rename(work / "pictures", work / "moved");
  const Result lost = run({"evaluate", dir});
  CHECK(lost.code == 3);
  CHECK(contains(lost.err, (work / "pictures").string() + ": no such file or folder"));
  CHECK(contains(lost.err, "--set data.path=NEW"));
  const std::string place = "data.path=" + (work / "moved").string();
  CHECK(run({"evaluate", dir, "--set", place}).code == 0);
  fs::remove_all(work / "moved/validation");
  const Result none = run({"evaluate", dir, "--set", place});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "--split train"));
}

TEST_CASE("evaluate: changed data with validation_split are an error for the validation split") {
  const Workspace work;
  write_images(work / "pictures/train", 12, 1);
  const std::string config = pictures_config(work, ", validation_split: 0.25");
  const std::string dir = work / "run";
  REQUIRE(run({"train", config, "--quiet", "--run-dir", dir}).code == 0);
  const Result same = run({"evaluate", dir, "--split", "validation"});
  CHECK(same.code == 0);
  CHECK(same.err.empty());
  CHECK(run({"evaluate", dir, "--split", "train"}).err.empty());

  fs::copy(work / "pictures/train/left/0.ppm", work / "pictures/train/left/more.ppm");
  const Result changed = run({"evaluate", dir, "--split", "validation"});
  CHECK(changed.code == 3);
  CHECK(contains(changed.err, "that the run was trained on"));
  const Result train = run({"evaluate", dir, "--split", "train"});
  CHECK(train.code == 0);
  CHECK(contains(train.err, "warning: the training data is not what it was"));
  const Result told = run({"evaluate", dir, "--split", "validation", "--set",
                           "data.path=" + (work / "pictures").string()});
  CHECK(told.code == 0);
  CHECK(contains(told.err, "warning: the training data is not what it was"));

  const Result resumed =
      run({"train", config, "--resume", "--run-dir", dir, "--set", "data.classes=[right, left]"});
  CHECK(resumed.code == 3);
  CHECK(
      contains(resumed.err,
               "\n  classes were left, right; are right, left; class 0 was 'left', is 'right'\n"));
  CHECK_FALSE(contains(resumed.err, "crc32c"));
}

TEST_CASE("train: skipped or replaced files cause one warning") {
  const Workspace work;
  write_images(work / "pictures/train", 12, 1);
  std::ofstream(work / "pictures/train/left/0.ppm") << "P6 no picture";
  for (const std::string on_error : {"skip", "replace"}) {
    CAPTURE(on_error);
    const std::string dir = work / on_error;
    const Result result =
        run({"train",
             pictures_config(work,
                             ", validation_split: 0.25, error_budget: 3, "
                             "on_error: " +
                                 on_error),
             "--json", "--run-dir", dir, "--epochs", "1", "--set", "train.max_steps=null"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    const std::string what = on_error == "skip" ? "skipped" : "replaced";
    const std::string line =
        "warning: 1 of 24 files " + what + " (train), see " + dir + "/data_report.txt\n";
    CHECK(result.err == line);
    const Json event = result.event("data_report");
    CHECK(event.at(what) == 1);
    CHECK(event.at("files") == 24);
    CHECK(result.lines().back().at("event") == "finished");
    const std::string report = read_text_file(dir + "/data_report.txt");
    CHECK(contains(report, "left/0.ppm"));
    CHECK(report.find("left/0.ppm") == report.rfind("left/0.ppm"));
  }
}

TEST_CASE("data: --json prints the counts, and a group that matches nothing is an error") {
  const Workspace work;
  write_images(work / "pictures/train", 3, 1);
  write_images(work / "pictures/test", 2, 2);
  const std::string config = pictures_config(work);
  const Result result = run({"data", config, "--json", "--group-by", "([0-9]+)[.]ppm"});
  CHECK(result.code == 0);  // the same numbers in both splits are a warning
  const Result strict = run({"data", config, "--strict", "--group-by", "([0-9]+)[.]ppm"});
  CHECK(strict.code == 3);
  CHECK(contains(strict.err, "error: the check found what its report lists, and --strict makes"));
  REQUIRE(result.lines().size() == 3);
  CHECK(result.lines()[1].at("class_counts").at("right") == 2);
  const Json all = result.event("data");
  CHECK(all.at("groups") == 3);
  CHECK(all.at("grouped_files") == 10);
  CHECK(all.at("shared_groups").size() == 2);
  const Result none = run({"data", config, "--group-by", "patient([0-9]+)"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "matches none of the files"));
}

TEST_CASE("plan prints the number of samples per class of an image folder") {
  const Workspace work;
  write_images(work / "pictures/train", 6, 1);
  const std::string config = pictures_config(work);
  const Result result = run({"plan", config, "--set", "data.limit=5"});
  REQUIRE(result.code == 0);
  CHECK((contains(result.out, "5 samples (left: 3, right: 2)") ||
         contains(result.out, "5 samples (left: 2, right: 3)")));
  const Result one = run({"plan", config, "--set", "data.limit=1", "--json"});
  CHECK(one.event("plan").at("data").at("warnings").size() == 1);
}

TEST_CASE("export: an existing file is an error without --overwrite") {
  const Workspace work;
  write_images(work / "pictures/train", 6, 1);
  REQUIRE(run({"train", pictures_config(work), "--run-dir", work / "run"}).code == 0);
  const Path file = work / "m.onnx";
  std::ofstream(file) << "precious";
  const Arguments arguments{"export", work / "run", "--format", "onnx", "--output", file};
  const Result refused = run(arguments);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, file.string() + " exists; replace it with --overwrite"));
  CHECK(read_text_file(file) == "precious");
  Arguments replacing = arguments;
  replacing.push_back("--overwrite");
  CHECK(run(replacing).code == 0);
  CHECK(read_text_file(file) != "precious");
  fs::remove(file);
  const Result beside = run(arguments);
  CHECK(beside.code == 2);
  CHECK(contains(beside.err, "m.json exists; replace it with --overwrite"));
  replacing[5] = work / "run";
  const Result folder = run(replacing);
  CHECK(folder.code == 2);
  CHECK(contains(folder.err, "is a folder"));
}

TEST_CASE("profile: an existing trace is an error") {
  const Workspace work;
  const Path trace = work / "trace.json";
  std::ofstream(trace) << "precious";
  const Result refused = run({"profile", small_config(work), "--trace", trace});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, trace.string() + " exists; replace it with --overwrite"));
  CHECK(read_text_file(trace) == "precious");
}

TEST_CASE("commands: validate, plan and train print the same warning of a doubtful freeze") {
  const auto warnings = [](const std::string& freeze) {
    const Pictures pictures(freeze);
    // Without the warning on batch norm, which needs the number of steps.
    const auto err = [](const Arguments& arguments) {
      std::string kept;
      for (const std::string& line : split_text(run(arguments).err, '\n')) {
        if (!line.empty() && !contains(line, "moving statistics")) kept += line + '\n';
      }
      return kept;
    };
    const std::string told = err({"validate", pictures.config});
    CHECK(err({"plan", pictures.config}) == told);
    CHECK(err({"train", pictures.config, "--run-dir", pictures.work / "run", "--set",
               "train.max_steps=1"}) == told);
    CHECK(std::count(told.begin(), told.end(), '\n') == (told.empty() ? 0 : 1));
    return told;
  };
  for (const char* nothing : {"freeze: '[:-400]'", "freeze: '[5:3]'"}) {
    const std::string told = warnings(nothing);
    CHECK(contains(told, "warning: "));
    CHECK(contains(told, "config.yaml:"));
    CHECK(contains(told, "model.backbone.freeze: selects no layer that has weights"));
  }
  CHECK(contains(warnings("freeze: all"), "keep the random numbers that they start with"));
  CHECK(contains(warnings("unfreeze: {at: 5 epochs}"), "the run ends before 5 epochs"));
  CHECK(warnings("freeze: none").empty());
}

TEST_CASE("launch: a command that several processes cannot run together is an error") {
  for (const char* command : {"evaluate", "predict", "benchmark", "verify", "launch", "nothing"}) {
    const Result result = run({"launch", "-n", "2", "--", command, "x"});
    CHECK(result.code == 2);
    CHECK(contains(result.err, concat("launch: '", command, "' is not a command that several")));
  }
}

TEST_CASE("train warns of more threads than cores") {
  const Workspace work;
  write_images(work / "pictures/train", 6, 1);
  const std::string config = pictures_config(work);
  const auto warnings = [&](const Arguments& more) {
    Arguments arguments{"train", config, "--run-dir", work / "run", "--overwrite", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == 0);
    return result.err;
  };
  const auto cores = static_cast<std::size_t>(usable_core_count());
  const std::string threads = std::to_string(cores + 3);
  const std::string warned = warnings({"--set", "parallel.threads=" + threads});
  CHECK(
      contains(warned, concat("warning: parallel.threads: ", threads, ", but this process may use ",
                              cores, cores == 1 ? " core:" : " cores:")));
  CHECK(std::count(warned.begin(), warned.end(), '\n') == 1);
  CHECK(contains(warnings({"--set", "parallel.lanes=" + threads}), "parallel.lanes: " + threads));
  CHECK(warnings({"--set", concat("parallel.threads=", cores)}).empty());
}

TEST_CASE("commands: contradicting or impossible options are an error") {
  const std::string config = test::source_file("configs/mnist.yaml");
  const auto error = [](const Arguments& arguments) {
    const Result result = run(arguments);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(contains(error({"trian", config}), "unknown command 'trian', did you mean 'train'?"));
  CHECK(contains(error({"train", config, "--resume", "--overwrite"}), " excludes --"));
  CHECK(contains(error({"train", config, "--set", "seed=1", "train.epochs=2"}),
                 "--set takes one KEY=VALUE; write --set seed=1 --set train.epochs=2"));
  CHECK(contains(error({"predict", "x", "--top", "0"}), "a whole number of at least 1, found 0"));
  CHECK(contains(error({"predict", "x", "--limit", "0"}), "a whole number of at least 1, found 0"));
  for (const char* replicas : {"0", "1,0", "many"}) {
    const std::string told = error({"verify", "replicas", config, "--replicas", replicas});
    CHECK(contains(told, "expected a whole number of at least 1, found "));
    CHECK(told.size() < 200);
  }
  for (const char* seconds : {"0", "-1"}) {
    CHECK(contains(error({"benchmark", config, "--seconds", seconds}), "a number greater than 0"));
  }
  for (const char* command : {"evaluate", "predict"}) {
    CHECK(contains(error({command, "x", "--epochs", "2"}), "--epochs"));
  }
  const Arguments exported{"export", "x", "--format", "onnx", "--output", "m.onnx", "--seed", "2"};
  CHECK(contains(error(exported), "--seed"));
  CHECK(contains(error({"export", "x", "--format", "onnx", "--output", "m.h5"}),
                 "--format keras_h5"));
  CHECK(contains(error({"export", "x", "--output", "m.h5", "--onnx-input", "uint8"}),
                 "give --format onnx"));
  CHECK(contains(error({"export", "x", "--format", "onnx", "--output", "m.json"}),
                 "end it in .onnx"));
}

}  // namespace trainer::e2e::usage_test
