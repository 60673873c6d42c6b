// What messages advise: each advice is followed to the letter, and the command then succeeds.
#include <doctest/doctest.h>

#include <filesystem>
#include <initializer_list>

#include "advice.h"
#include "base/error.h"
#include "support/contains.h"

namespace trainer::e2e::run_advice_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

void damage_checkpoints(const AdvicePlace& place) {
  for (const auto& entry : fs::directory_iterator(place.work / "run/checkpoints")) {
    write_file_atomic(entry.path(), std::string_view("damaged"));
  }
}

void move_images(const AdvicePlace& place) {
  fs::rename(place.work / "images", place.work / "free");
}

const std::string kTrain = "train DIGITS --run-dir RUN", kPhotos = "train PHOTOS --run-dir RUN";

// Runs, resumes and ranks.
std::vector<Advice> make_run_advices() {
  const std::string anew = "--run-dir NEW --set model.weights=RUN without --resume";
  return {
      {"run exists: resume", {kTrain}, kTrain, "continue it with --resume", "+ --resume"},
      {"run exists: overwrite", {kTrain}, kTrain, "replace it with --overwrite", "+ --overwrite"},
      {"run exists: another folder",
       {kTrain},
       kTrain,
       "choose another folder with --run-dir",
       "train DIGITS --run-dir FREE"},
      {"resume: another batch size",
       {kTrain},
       kTrain + " --resume --batch-size 8",
       anew,
       "train DIGITS --batch-size 8 --run-dir FREE --set model.weights=RUN"},
      {"resume: other data",
       {kTrain},
       kTrain + " --resume --set data.limit=32",
       anew,
       "train DIGITS --set data.limit=32 --run-dir FREE --set model.weights=RUN"},
      {"resume: another optimizer",
       {kTrain},
       kTrain + " --resume --set 'optimizer={adam: {}}'",
       anew,
       "train DIGITS --set 'optimizer={adam: {}}' --run-dir FREE --set model.weights=RUN"},
      {"resume: averages begin",
       {kTrain},
       kTrain + " --resume --set optimizer.ema=0.9",
       anew,
       "train DIGITS --set optimizer.ema=0.9 --run-dir FREE --set model.weights=RUN"},
      {"resume: another model",
       {kTrain},
       kTrain + " --resume --set 'model.layers=[flatten, dense: 20, dense: 10]'",
       "start a new run: --run-dir NEW without --resume",
       "train DIGITS --set 'model.layers=[flatten, dense: 20, dense: 10]' --run-dir FREE"},
      {"resume: images of another size",
       {kPhotos},
       kPhotos + " --resume --set 'data.resize=[16, 16]' --set 'model.input=[16, 16, 3]'",
       "start a new run: --run-dir NEW without --resume",
       "train PHOTOS --set 'data.resize=[16, 16]' --set 'model.input=[16, 16, 3]' --run-dir FREE"},
      {"resume: damaged checkpoints",
       {kTrain},
       kTrain + " --resume",
       "start anew with --overwrite",
       kTrain + " --overwrite",
       damage_checkpoints},
      {"run folder within the images",
       {},
       "train PHOTOS --run-dir IMAGES/run",
       "choose a folder elsewhere with --run-dir",
       kPhotos},
      {"replicas: learning rate",
       {},
       kTrain + " --replicas 2",
       "none, linear or sqrt",
       "+ --set parallel.lr_scaling=none"},
      {"collective: no GPU",
       {},
       kTrain + " --set parallel.device=cpu --set parallel.collective=nccl",
       "use auto or ring",
       "+ --set parallel.collective=auto"},
  };
}

// Lists of images. Their user has no config.
std::vector<Advice> make_list_advices() {
  return {
      {"list: files elsewhere",
       {},
       "train ELSEWHERE --epochs 1 --run-dir RUN",
       "from the one of --set data.csv.root=FOLDER",
       "+ --set data.csv.root=IMAGES"},
      {"list: files elsewhere, new",
       {},
       "new ELSEWHERE",
       "from the one of --set data.csv.root=FOLDER",
       "+ --set data.csv.root=IMAGES"},
      {"list: files in a folder beside it",
       {},
       "train ELSEWHERE --epochs 1 --run-dir RUN",
       "--set 'data.csv={root: BESIDE}'",
       "",
       [](const AdvicePlace& place) {
         fs::rename(place.work / "images", place.work / "lists/images");
       }},
      {"list: another list of this name",
       {"new LIST --output gap.yaml"},
       "train GAP --epochs 1 --run-dir RUN",
       "`trainer new GAP --output FILE`",
       "new GAP --output FREE"},
      {"csv: a missing file",
       {"new GAP --output PHOTOS --overwrite"},
       "train PHOTOS --epochs 1 --run-dir RUN --set data.on_error=fail",
       "--set data.on_error=replace"},
  };
}

// Data, models and weights.
std::vector<Advice> make_data_advices() {
  return {
      {"early stop: no validation",
       {},
       kPhotos + " --set train.early_stop.patience=3",
       "data.validation_split",
       "+ --set data.validation_split=0.25"},
      {"early stop: another metric",
       {},
       kPhotos + " --set data.validation_split=0.25 --set train.early_stop.restore_best=true "
                 "--set run.best=validation/accuracy",
       "set run.best: validation/loss",
       "+ --set run.best=validation/loss"},
      {"images: too many pixels",
       {},
       kPhotos + " --set data.max_pixels=100",
       "raise data.max_pixels",
       "+ --resume --set data.max_pixels=10000"},
      {"images: too large a file",
       {},
       kPhotos + " --set data.max_file_size=100",
       "raise data.max_file_size",
       "+ --resume --set data.max_file_size=10000"},
      {"images: a class that conflicts empty",
       {},
       kPhotos + " --set data.on_conflict=drop",
       "set data.on_conflict: keep",
       "+ --set data.on_conflict=keep",
       [](const AdvicePlace& place) {
         fs::remove_all(place.work / "images/right");
         fs::copy(place.work / "images/left", place.work / "images/right");
       }},
      {"classes: number of outputs",
       {},
       kPhotos + " --set 'model.layers=[flatten, dense: 5]'",
       "set units: 2",
       "+ --set 'model.layers=[flatten, {dense: {units: 2}}]'"},
      {"classes: one output",
       {},
       kPhotos + " --set 'model.layers=[flatten, dense: 1]'",
       "or model.loss: binary_cross_entropy",
       "+ --set model.loss=binary_cross_entropy"},
      {"weights: other layers",
       {kPhotos},
       "train PHOTOS --run-dir FREE --set model.weights=RUN --set 'model.layers=[flatten, dense: "
       "8, "
       "dense: 2]'",
       "--set 'model.allow_missing=[dense_1, dense]'"},
      {"weights: other layers, some allowed",
       {kPhotos},
       "train PHOTOS --run-dir FREE --set model.weights=RUN --set 'model.layers=[flatten, dense: "
       "8, "
       "dense: 2]' --set 'model.allow_missing=[dense]'",
       "--set 'model.allow_missing=[dense, dense_1]'"},
      {"weights: no such file",
       {kPhotos},
       "train PHOTOS --run-dir FREE --set model.weights=nowhere",
       "named by model.weights",
       "+ --set model.weights=RUN"},
      {"weights: other order of classes",
       {kPhotos},
       "evaluate RUN --split train --set 'data.classes=[right, left]'",
       "Give the data set with the classes",
       "+ --set 'data.classes=[left, right]'"},
  };
}

// Commands on runs.
std::vector<Advice> make_command_advices() {
  return {
      {"evaluate: a folder of images",
       {},
       "evaluate IMAGES",
       "`trainer train IMAGES`",
       "train IMAGES --epochs 1 --run-dir RUN"},
      {"evaluate: no such split",
       {kPhotos},
       "evaluate RUN --split test",
       "name one with --set data.test.path=PLACE",
       "+ --set data.test.path=IMAGES"},
      {"evaluate: no split for it",
       {kPhotos},
       "evaluate RUN",
       "name one with --set data.test.path=PLACE",
       "+ --set data.test.path=IMAGES"},
      {"evaluate: training split",
       {kPhotos},
       "evaluate RUN",
       "or give --split train",
       "+ --split train"},
      {"evaluate: images moved",
       {kPhotos},
       "evaluate RUN --split train",
       "Give its place with --set data.path=NEW",
       "+ --set data.path=FREE",
       move_images},
      {"resume: images moved",
       {kPhotos},
       kPhotos + " --resume --set train.max_steps=4",
       "Give its place with --set data.path=NEW",
       "+ --set data.path=FREE",
       move_images},
      {"sweep: too many points",
       {},
       "sweep DIGITS --over seed=1,2 --dir FREE --max-points 1",
       "--max-points 2",
       "sweep DIGITS --over seed=1,2 --dir FREE --max-points 2"},
      {"export: the file exists",
       {kTrain, "export RUN --format onnx --output FREE"},
       "export RUN --format onnx --output FREE",
       "replace it with --overwrite",
       "+ --overwrite"},
      {"report: the file exists",
       {kTrain, "report RUN --output FREE"},
       "report RUN --output FREE",
       "replace it with --overwrite",
       "+ --overwrite"},
      {"new: the file exists",
       {"new LIST"},
       "new LIST",
       "replace it with --overwrite",
       "+ --overwrite"},
      {"trainer: a folder in place of a command",
       {},
       "IMAGES",
       "`trainer train IMAGES`",
       "train IMAGES --epochs 1 --run-dir RUN"},
  };
}

// A run that ends because an image cannot be read any more.
struct Stopped {
  AdvicePlace place;
  Path image = place.work / "images/left/3.ppm";
  Bytes content = read_file(image);
  std::string error;
  std::string resume;  // the command that goes on for one step

  Stopped(const std::string& config, void (*harm)(const Path&)) {
    Program program({"train", place.with_paths(config), "--json", "--run-dir",
                     place.with_paths("RUN"), "--set", "train.max_steps=1000000"});
    REQUIRE(program.wait_for("\"step\""));
    harm(image);
    const Result result = program.wait();
    CHECK(result.code == kExitData);
    error = result.err;
    const std::string before = "Stopped after step ";
    const std::size_t at = error.find(before);
    CAPTURE(error);
    REQUIRE(at != std::string::npos);
    resume = concat("train ", config, " --run-dir RUN --resume --set train.max_steps=",
                    std::stoll(error.substr(at + before.size())) + 1);
  }
};

void remove_image(const Path& image) { fs::remove(image); }
void damage_image(const Path& image) { fs::resize_file(image, 100); }

}  // namespace

TEST_CASE("messages: the command that follows each advice on runs and ranks succeeds") {
  check_each(make_run_advices());
}

TEST_CASE("messages: the command that follows each advice on lists of images succeeds") {
  check_each(make_list_advices());
}

TEST_CASE("messages: the command that follows each advice on data and models succeeds") {
  check_each(make_data_advices());
}

TEST_CASE("messages: the command that follows each advice on a command and its files succeeds") {
  check_each(make_command_advices());
}

TEST_CASE("messages: the advised option is accepted in place of options of other programs") {
  struct Option {
    const char *option, *text;
    // Completes the text, or replaces it where a word of it stands for a value; may be "".
    const char *added = "", *instead = "";
  };
  const AdvicePlace place;
  place.check_success("train PHOTOS --run-dir RUN");
  const std::string train = "train PHOTOS --overwrite --run-dir FREE ";
  for (const Option& one : std::initializer_list<Option>{
           {"--lr 0.1", "--set optimizer.adam.learning_rate=1e-4, with the optimizer of the config",
            "", "--set optimizer.sgd.learning_rate=1e-4"},
           {"--optimizer sgd", "--set 'optimizer={sgd: {learning_rate: 0.01}}'"},
           {"--device cpu", "--set parallel.device=cuda, or =cpu", "", "--set parallel.device=cpu"},
           {"--batch 8", "--batch-size 32"},
           {"--imgsz 64", "--set 'data.resize=[224, 224]' --set 'model.input=[224, 224, 3]'"},
           {"--workers 2", "--set data.threads=4"},
           {"--data x", "--set data.path=FOLDER", "", "--set data.path=IMAGES"},
           {"--weights x", "--set model.weights=FILE", "", "--set model.weights=RUN"},
           {"--amp", "--set train.precision=bfloat16"},
           {"--patience 3", "--set train.early_stop.patience=5",
            " --set data.validation_split=0.25"},
           {"--name x", "--set name=NAME"}}) {
    INFO(std::string(one.option));
    const Result failed = place.run(train + one.option);
    INFO(failed.err);
    CHECK(failed.code == kExitConfig);
    CHECK(contains(failed.err, one.text));
    const bool is_replaced = *one.instead != '\0';
    place.check_success(concat(train, is_replaced ? one.instead : one.text, one.added));
  }
}

TEST_CASE("train: both advices succeed after an image of a folder is removed during the run") {
  const Stopped stopped("PHOTOS", remove_image);
  const AdvicePlace& place = stopped.place;
  CAPTURE(stopped.error);
  CHECK(contains(stopped.error,
                 place.with_paths("put IMAGES/left/3.ppm back and go on with --resume, or start a "
                                  "new run from its parameters: --run-dir NEW --set "
                                  "model.weights=RUN without --resume")));
  CHECK_FALSE(contains(stopped.error, "data.on_error=replace"));
  place.check_success("train PHOTOS --run-dir FREE --set model.weights=RUN");
  write_file_atomic(stopped.image, stopped.content);
  place.check_success(stopped.resume);
}

TEST_CASE("train: the advice to replace an image that is damaged during the run succeeds") {
  const Stopped stopped("PHOTOS", damage_image);
  CAPTURE(stopped.error);
  CHECK(contains(stopped.error, "or with --resume --set data.on_error=replace"));
  stopped.place.check_success(stopped.resume + " --set data.on_error=replace");
  // The run also resumes with the file as it was at first.
  write_file_atomic(stopped.image, stopped.content);
  stopped.place.check_success(stopped.resume);
}

TEST_CASE(
    "train: the advice to replace an image of a csv that is removed during the run succeeds") {
  const Stopped stopped("LISTED", remove_image);
  CAPTURE(stopped.error);
  CHECK(contains(stopped.error, "or with --resume --set data.on_error=replace"));
  stopped.place.check_success(stopped.resume + " --set data.on_error=replace");
  // The run also resumes with the file as it was at first.
  write_file_atomic(stopped.image, stopped.content);
  stopped.place.check_success(stopped.resume);
}

}  // namespace trainer::e2e::run_advice_test
