// Outputs that stay short, and hints for what users of other programs try.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "pictures.h"
#include "support/contains.h"
#include "support/source_files.h"

namespace trainer::e2e::short_outputs_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

auto count_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// A list of images whose folder and ending it leaves out.
struct List {
  Workspace work;
  Path list = work / "list.csv";
  std::string config;

  List() {
    write_images(work / "img", 20, 1);
    std::ofstream file(list);
    file << "path,label\n";
    for (const char* name : {"left", "right"}) {
      for (int i = 0; i < 20; ++i) file << name << '/' << i << ',' << name << '\n';
    }
    // Any ending that the search tries.
    for (const char* name : {"left", "right"}) {
      for (int i = 0; i < 20; ++i) {
        const Path image = work / concat("img/", name, "/", i);
        fs::rename(concat(image.string(), ".ppm"), concat(image.string(), ".png"));
      }
    }
    config =
        work.config(concat("model: {layers: [flatten, dense: 2]}\ndata: {format: csv, "
                           "resize: [8, 8], train: {path: ",
                           list.string(), "}}\ntrain: {max_steps: 2, batch_size: 8}\n"));
  }
  // "{root: img, ending: .png}" with the folder of this test.
  std::string advice() const {
    return concat("write data.csv: {root: ", (work / "img").string(), ", ending: .png}");
  }
};

}  // namespace

TEST_CASE(
    "train and data: a csv whose files are elsewhere gives one sentence with the keys to write") {
  const List files;
  const std::string none =
      concat("none of the 40 files of ", files.list.string(), " exists, e.g. ");
  const Result trained = run({"train", files.config, "--run-dir", files.work / "run"});
  CHECK(trained.code == 3);
  CHECK(contains(trained.err, none));
  CHECK(contains(trained.err, files.advice()));
  CHECK(count_lines(trained.err) == 1);

  const Result checked = run({"data", files.config});
  CHECK(checked.code == 3);
  CHECK(contains(checked.err, "error: 40 files cannot be read, at which training would end"));
  CHECK(contains(checked.out, "  damaged files: 40\n"));
  CHECK(contains(checked.out, "  and 30 more; --json lists all\n"));
  CHECK(contains(checked.out, files.advice()));
  CHECK(count_lines(checked.out) < 25);
  const Result json = run({"data", files.config, "--json"});
  CHECK(json.event("split")["damaged"].size() == 40);

  // The advice is right.
  const Result followed =
      run({"train", files.config, "--run-dir", files.work / "run", "--set",
           concat("data.csv={root: ", (files.work / "img").string(), ", ending: .png}")});
  INFO(followed.err);
  CHECK(followed.code == 0);
  // One file that exists is a reason to name the line, not the folder.
  fs::create_directories(files.work / "right");
  fs::copy(files.work / "img/left/0.png", files.work / "right/0");
  CHECK(contains(run({"train", files.config, "--run-dir", files.work / "run2"}).err,
                 "there is no file "));
}

TEST_CASE("validate prints an excerpt of a long text in the place of a config") {
  const Workspace work;
  const Path file = work / "list.txt";
  {
    std::ofstream list(file);
    for (int i = 0; i < 2000; ++i) list << "folder/image" << i << ".jpg cat\n";
  }
  const Result result = run({"validate", file});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "expected a map with the keys name, seed, model"));
  CHECK(contains(result.err, "found 'folder/image0.jpg cat"));
  CHECK(contains(result.err, "...', a text of "));
  CHECK(result.err.size() < 500);
  std::ofstream(file) << std::string(3000, 'x') << ",cat\n";
  const Result list = run({"validate", file});
  CHECK(contains(list.err, "looks like a list of images, not a config (it begins with 'xxx"));
  CHECK(list.err.size() < 500);
  std::ofstream(file) << "\xEF\xBB\xBF# flowers, with comments\nname:\tflowers\n";
  CHECK_FALSE(contains(run({"validate", file}).err, "looks like a list"));
}

TEST_CASE("plan prints a large backbone by block, and by layer with --layers") {
  const std::string config = test::source_file("configs/cats_dogs_mobilenet_v2.yaml");
  const Arguments plan{"plan", config, "--set", "model.backbone.weights=\"\""};
  const Result blocks = run(plan);
  INFO(blocks.err);
  REQUIRE(blocks.code == 0);
  CHECK(contains(blocks.out, "expanded_conv (5 layers)"));
  CHECK(contains(blocks.out, "block_1 (9 layers)"));
  CHECK(contains(blocks.out, "block_16 (8 layers)"));
  CHECK_FALSE(contains(blocks.out, "block_1_expand"));
  CHECK(contains(blocks.out, "--layers lists all "));
  Arguments layers = plan;
  layers.emplace_back("--layers");
  const Result all = run(layers);
  CHECK(contains(all.out, "block_1_expand"));
  CHECK_FALSE(contains(all.out, "(8 layers)"));
  CHECK(count_lines(blocks.out) + 100 < count_lines(all.out));
  const auto total = [](const std::string& text) {
    const std::size_t at = text.find("\n  total ");
    return text.substr(at, text.find('\n', at + 1) - at);
  };
  std::string one = total(blocks.out), other = total(all.out);
  for (std::string* line : {&one, &other}) std::erase(*line, ' ');
  CHECK(one == other);
}

TEST_CASE("plan prints every backbone by block in fewer than 80 lines, and frozen blocks as such") {
  const Workspace work;
  const std::string config = work.config(
      "model: {input: [224, 224, 3], backbone: {name: vgg16, freeze: all}, "
      "head: [global_average_pool, dense: {units: 4}]}\n"
      "data: {format: image_folder, path: nowhere, num_classes: 4}\ntrain: {max_steps: 1}\n");
  const Json models = run({"models", "--json"}).event("models");
  REQUIRE(models.at("backbones").size() > 10);
  for (const Json& backbone : models.at("backbones")) {
    const std::string name = backbone.at("name");
    CAPTURE(name);
    const std::string variant = backbone.at("variant");
    CAPTURE(variant);
    if (variant == "timm_tf") continue;  // has timm's names
    const Result result = run({"plan", config, "--set", "model.backbone.name=" + name, "--set",
                               "model.backbone.variant=" + variant});
    REQUIRE(result.code == 0);
    const std::size_t begin = result.out.find("\nmodel\n"), end = result.out.find("\n  total ");
    REQUIRE(end != std::string::npos);
    const std::string table = result.out.substr(begin, end - begin);
    CHECK(count_lines(table) < 80);
    CHECK(count_lines(table) > 15);
    CHECK_FALSE(contains(table, "differs by layer"));
  }
}

TEST_CASE("plan: blocks of a network that is trained in part show the training of their layers") {
  const Workspace work;
  const std::string config = work.config(
      "model: {input: [32, 32, 3], backbone: {name: mobilenet_v3_small}, "
      "head: [global_average_pool, dense: {units: 4}]}\n"
      "data: {format: image_folder, path: nowhere, num_classes: 4}\ntrain: {max_steps: 1}\n");
  const auto find_training = [&](const Arguments& more, const std::string& block) {
    Arguments arguments{"plan", config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string text = run(arguments).out;
    const std::size_t row = text.find("\n  " + block + " (");
    REQUIRE(row != std::string::npos);
    const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
    return line.substr(line.find("initialisers  ") + 14);
  };
  CHECK(find_training({"--set", "model.backbone.freeze=all"}, "expanded_conv") == "frozen");
  CHECK(find_training({"--set", "model.backbone.freeze=all"}, "expanded_conv_10") == "frozen");
  const Arguments half{"--set",
                       "model.backbone.freeze=[expanded_conv_1_*, expanded_conv_2_expand]"};
  CHECK(find_training(half, "expanded_conv_1") == "frozen");
  CHECK(find_training(half, "expanded_conv_2") == "differs by layer");
  CHECK(find_training(half, "expanded_conv_3") == "trained, batch statistics");
  const Arguments moving{"--set", "model.backbone.freeze=[conv]", "--set",
                         "model.backbone.batch_norm=eval"};
  CHECK(find_training(moving, "expanded_conv_3") == "trained, moving statistics");
  const Arguments stages{
      "--set", "model.backbone.freeze=all", "--set",
      "model.backbone.unfreeze={at: 1 steps, freeze: none, learning_rate_multiplier: 0.1}"};
  CHECK(find_training(stages, "expanded_conv_3") == "frozen; after 1 step trained");
}

TEST_CASE("commands: the error of options of other programs has the option to use") {
  const std::string config = test::source_file("configs/digits.yaml");
  const auto error = [&](const Arguments& more) {
    Arguments arguments{"train", config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(contains(error({"--lr", "0.1"}),
                 "unknown option '--lr' of train; write --set optimizer.adam.learning_rate="));
  CHECK(contains(error({"--device", "cuda"}), "write --set parallel.device=cuda"));
  CHECK(contains(error({"--batch=32"}), "write --batch-size 32"));
  CHECK(contains(error({"--model", "resnet50"}), "write --set model.backbone.name=resnet50"));
  CHECK(contains(error({"--freeze", "10"}), "write --set model.backbone.freeze=all"));
  CHECK(contains(error({"--dropout=0.2"}), "write dropout: 0.5 as a layer of model.head"));
  CHECK(contains(error({"--cpu"}), "write --set parallel.device=cpu"));
  CHECK(contains(error({"--save-dir", "x"}), "write --run-dir FOLDER"));
  CHECK(contains(error({"--project", "x"}), "write --run-dir FOLDER"));
  CHECK(contains(error({"--exist-ok"}), "write --overwrite"));
  CHECK(contains(run({"predict", "run", "--conf", "0.5"}).err, "write --abstain 0.05"));
  CHECK(contains(error({"--nonsense"}),
                 "unknown option '--nonsense' of train; `trainer train --help` lists them"));
  CHECK(contains(error({"--epoch", "3"}), "did you mean '--epochs'?"));
  CHECK(contains(error({"--set", "lr=1"}), "unknown key 'lr', did you mean optimizer."));
  CHECK(contains(error({"--set", "learning_rate=1"}), ".learning_rate or "));
  CHECK(contains(run({"new", config, "-o", "x.yaml"}).err,
                 "unknown option '-o' of new; write --output FILE"));
  CHECK(contains(run({"find", config, "-z"}).err,
                 "unknown option '-z' of find; `trainer find --help` lists them"));
  CHECK(contains(run({"new", config, "x.yaml"}).err,
                 "error: The following argument was not expected: x.yaml; `trainer new --help`"));
  // An option of the command itself is meant as such.
  CHECK(contains(run({"plan", config, "--device", "cuda"}).err, "a GPU to plan for"));
}

TEST_CASE("sweep accepts short forms of keys in every point") {
  const Workspace work;
  const std::string config =
      work.config(concat(kModel, "data: {format: idx, path: ", work.data(), ", limit: 64}\n",
                         "train: {epochs: 3, batch_size: 16}\n"));
  const Result result = run({"sweep", config, "--over", "seed=1,2", "--epochs", "1", "--batch-size",
                             "32", "--dir", work / "sweep", "--quiet"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  for (const char* point : {"seed=1", "seed=2"}) {
    const Json record = Json::parse(read_text_file(work / concat("sweep/", point, "/run.json")));
    CHECK(record["total_steps"] == 2);
    CHECK(record["global_batch"] == 32);
  }
  CHECK(run({"sweep", config, "--over", "seed=1", "--run-dir", "x"}).code == 2);
}

TEST_CASE("predict: the others are predicted beside one damaged file, and the exit code is 3") {
  const Pictures pictures;
  REQUIRE(run({"train", pictures.config, "--quiet", "--run-dir", pictures.work / "run", "--set",
               "train.epochs=1"})
              .code == 0);
  const Path folder = pictures.work / "validation/left";
  std::ofstream(folder / "3.ppm") << "damaged";
  const auto predict = [&](const Arguments& more) {
    Arguments arguments{"predict", pictures.work / "run", folder, "--format", "csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Result named = predict({});
  CHECK(named.code == 3);
  CHECK(count_lines(named.out) == 1 + 6);
  CHECK(contains(named.err, concat("warning: skipped: ", (folder / "3.ppm").string())));
  CHECK(contains(named.err, "warning: 1 file was skipped\n"));
  const Result skipped = predict({"--on-error", "skip"});
  CHECK(skipped.code == 0);
  CHECK(skipped.out == named.out);
  const Result failed = predict({"--on-error", "fail"});
  CHECK(failed.code == 3);
  CHECK(count_lines(failed.out) < 1 + 6);
}

TEST_CASE("train: a log without a terminal has a second line and at most one line per second") {
  const Workspace work;
  const std::string config = work.config(concat(kModel, "data: {format: idx, path: ", work.data(),
                                                "}\n", "train: {max_steps: 60, batch_size: 4}\n"));
  const auto count_steps = [](const std::string& text) {
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = text.find("  step ", at)) != std::string::npos; ++at) {
      count += text.compare(at - 9, 5, "epoch") == 0 ? 1 : 0;
    }
    return count;
  };
  const Result limited = run({"train", config, "--run-dir", work / "limited"});
  INFO(limited.out);
  REQUIRE(limited.code == 0);
  const double seconds =
      Json::parse(read_text_file(work / "limited/run.json"))["sessions"][0]["seconds"];
  CHECK(count_steps(limited.out) <= static_cast<std::int64_t>(seconds) + 1);
  const std::string second = limited.out.substr(limited.out.find('\n') + 1);
  CHECK(second.starts_with("cpu, "));
  CHECK(contains(second.substr(0, second.find('\n')), "; trainer "));
  CHECK(contains(second.substr(0, second.find('\n')), ", process "));
  CHECK(contains(second.substr(0, second.find('\n')),
                 concat("; samples of ", work.data(), ": train 600, test 250")));
  const Result all =
      run({"train", config, "--run-dir", work / "all", "--set", "run.log_every=10 steps"});
  CHECK(count_steps(all.out) == 6);
}

}  // namespace trainer::e2e::short_outputs_test
