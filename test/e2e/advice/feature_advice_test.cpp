// What commands on runs advise: each advice is followed, and the command then succeeds.
#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>

#include "advice.h"
#include "base/error.h"
#include "support/contains.h"

namespace trainer::e2e::feature_advice_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

// Advice on a file of a run that a command cannot use. The command that follows it writes the file
// anew, so that the first command has nothing to advise any more.
struct Repair {
  const char* name;
  std::string failed, text, followed;
  void (*prepare)(const AdvicePlace&) = nullptr;
};

void check_repair(const AdvicePlace& place, const Repair& repair) {
  INFO(std::string(repair.name));
  if (repair.prepare != nullptr) repair.prepare(place);
  const std::string text = place.with_paths(repair.text);
  CHECK_MESSAGE(contains(place.run(repair.failed).err, text), text);
  place.check_success(repair.followed);
  const Result repaired = place.run(repair.failed);
  INFO(repaired.err);
  CHECK(repaired.code == 0);
  CHECK_FALSE(contains(repaired.err, text));
}

// Runs of the photos. RUN has a validation split, whose accuracy hardly changes: its best
// checkpoint is the first of two. OTHER has none.
struct Runs {
  AdvicePlace place;
  Runs() {
    place.check_success(
        "train PHOTOS --run-dir RUN --set data.validation_split=0.5 --set train.max_steps=4 --set "
        "'run.evaluate_every=2 steps' --set run.best=validation/accuracy --set "
        "optimizer.sgd.learning_rate=1e-5");
    place.check_success("train PHOTOS --run-dir OTHER");
  }
};

void damage(const AdvicePlace& place, const std::string& file) {
  write_file_atomic(place.with_paths(file), std::string_view("{\"damaged\":"));
}

std::vector<Repair> make_repairs() {
  return {
      {"predict: damaged temperature", "predict RUN IMAGES --quiet",
       "`trainer evaluate RUN --calibrate`", "evaluate RUN --calibrate",
       [](const AdvicePlace& place) { damage(place, "RUN/calibration.json"); }},
      {"predict: the temperature is not a number", "predict RUN IMAGES --quiet",
       "write it anew with `trainer evaluate RUN --calibrate`", "evaluate RUN --calibrate",
       [](const AdvicePlace& place) {
         const Path file = place.with_paths("RUN/calibration.json");
         Json json = Json::parse(read_text_file(file));
         json["temperature"] = -1;
         write_file_atomic(file, json.dump());
       }},
      {"predict --flip: temperature of images alone", "predict RUN IMAGES --quiet --flip",
       "`trainer evaluate RUN --calibrate --flip` writes it anew",
       "evaluate RUN --calibrate --flip"},
      {"predict: temperature of images and mirror images", "predict RUN IMAGES --quiet",
       "`trainer evaluate RUN --calibrate` writes it anew", "evaluate RUN --calibrate"},
      {"predict: damaged operating point", "predict RUN IMAGES --quiet",
       "`trainer evaluate RUN --operating-point CRITERION`",
       "evaluate RUN --operating-point sensitivity=0.9",
       [](const AdvicePlace& place) { damage(place, "RUN/operating_point.json"); }},
      {"predict --last: temperature of the best checkpoint", "predict RUN IMAGES --quiet --last",
       "`trainer evaluate RUN --calibrate --last` writes it anew",
       "evaluate RUN --calibrate --last"},
      {"predict --average: temperature of one checkpoint", "predict RUN IMAGES --quiet --average 2",
       "`trainer evaluate RUN --calibrate --average 2` writes it anew",
       "evaluate RUN --calibrate --average 2"},
      {"predict: temperature of the last checkpoint", "predict RUN IMAGES --quiet",
       "`trainer evaluate RUN --calibrate` writes it anew", "evaluate RUN --calibrate"},
  };
}

std::vector<Advice> make_run_advices() {
  return {
      {"evaluate --calibrate: no validation",
       {},
       "evaluate OTHER --split train --calibrate",
       "name one with --set data.validation.path=PLACE",
       "+ --set data.validation.path=IMAGES"},
      {"evaluate --operating-point: no validation",
       {},
       "evaluate OTHER --split train --operating-point sensitivity=0.9",
       "name one with --set data.validation.path=PLACE",
       "+ --set data.validation.path=IMAGES"},
      {"predict --abstain: no validation",
       {},
       "predict OTHER IMAGES --abstain 0.5",
       "name one with --set data.validation.path=PLACE",
       "+ --set data.validation.path=IMAGES"},
      {"evaluate --calibrate: no validation when trained",
       {},
       "evaluate OTHER --split train --calibrate",
       "give data.validation_split or data.validation.path when training",
       "evaluate RUN --split train --calibrate"},
      {"evaluate --positive-class: alone",
       {},
       "evaluate RUN --positive-class right",
       "--curves or --operating-point",
       "+ --curves"},
      {"evaluate --ensemble: a run beside it",
       {},
       "evaluate OTHER RUN --split train --ensemble OTHER",
       "give one run before it, and RUN in its list, with commas between",
       "evaluate OTHER --split train --ensemble OTHER"},
      {"evaluate --ensemble: other images",
       {},
       "evaluate RUN --ensemble OTHER --split train",
       "name images that no run was trained on, or --split test",
       "evaluate RUN --ensemble OTHER --split test --set data.test.path=IMAGES"},
      {"evaluate --last: a config",
       {},
       "evaluate PHOTOS --split train --last",
       "name the folder of a run",
       "evaluate RUN --last"},
      {"predict --sheet: another ending",
       {},
       "predict RUN IMAGES --sheet FREE",
       "give a name that ends in .html",
       "predict RUN IMAGES --sheet FREE.html"},
      {"predict --overwrite: nothing to replace",
       {},
       "predict RUN IMAGES --overwrite",
       "--features, --heatmap or --sheet",
       "+ --sheet FREE.html"},
      {"predict --heatmap: no layer of positions",
       {},
       "predict RUN IMAGES --heatmap FREE",
       "use --heatmap-method occlusion",
       "+ --heatmap-method occlusion"},
      {"predict --heatmap-layer: occlusion",
       {},
       "predict RUN IMAGES --heatmap FREE_maps --heatmap-method occlusion --heatmap-layer dense",
       "occlusion takes no layer; leave it out",
       "predict RUN IMAGES --heatmap FREE_maps --heatmap-method occlusion"},
      {"predict --weights: a run",
       {},
       "predict RUN IMAGES --weights OTHER",
       "--weights is of a config (.yaml), whose model is not trained",
       "predict PHOTOS IMAGES --weights OTHER"},
      {"predict --weights imagenet: no backbone",
       {},
       "predict PHOTOS IMAGES --weights imagenet",
       "give a file or a run folder",
       "predict PHOTOS IMAGES --weights RUN"},
      {"export: a whole model",
       {},
       "export RUN --format keras_h5 --output FREE.keras",
       "name its weights FILE.h5 or FILE.weights.h5",
       "export RUN --format keras_h5 --output FREE.weights.h5"},
      {"export: a name of another format",
       {},
       "export RUN --format onnx --output FREE2.h5",
       "is named like a file of --format keras_h5, but the format is onnx",
       "export RUN --format keras_h5 --output FREE2.h5"},
      {"train: a copy of a run",
       {},
       "train FREE_copy --resume --set train.max_steps=6",
       "give --run-dir with the folder to train in, e.g. --run-dir=FREE_copy",
       "+ --run-dir=FREE_copy",
       [](const AdvicePlace& place) {
         fs::copy(place.with_paths("RUN"), place.with_paths("FREE_copy"),
                  fs::copy_options::recursive);
       }},
      {"crossval: a run",
       {"new RUN --output FREE.yaml"},
       "crossval RUN --folds 2 --dir FREE_folds",
       "write one with `trainer new RUN --output FILE`",
       "plan FREE.yaml"},
      {"new --group-by: a config",
       {},
       "new PHOTOS --group-by '(left/.|right/.)' --output FREE_groups.yaml",
       "set data.group_by in it",
       "data PHOTOS --set 'data.group_by=(left/.|right/.)'"},
      {"new --set: another key",
       {},
       "new IMAGES --output FREE_new.yaml --set train.epochs=3",
       "edit the file that `trainer new` writes",
       "new IMAGES --output FREE_new.yaml"},
      {"new --backbone: a config",
       {},
       "new PHOTOS --backbone resnet50 --output FREE_backbone.yaml",
       "whose model.backbone names the backbone",
       "new PHOTOS --output FREE_backbone.yaml"},
      {"train --features-dir: among the images",
       {},
       "train PHOTOS --run-dir FREE_shared --features-dir IMAGES/features",
       "choose a folder elsewhere with --features-dir",
       "train PHOTOS --run-dir FREE_shared --features-dir FREE_features"},
      {"runs --dry-run: without clean",
       {},
       "runs FREE_copy --dry-run",
       "clean",
       "runs clean FREE_copy --dry-run"},
      {"runs: no folder",
       {},
       "runs FREE_nothing",
       "expected one with runs, as `trainer train` writes them into `runs`",
       "runs RUN"},
      {"trainer --set: two settings",
       {},
       "plan PHOTOS --set train.max_steps=3 train.batch_size=2",
       "--set takes one KEY=VALUE; write --set train.max_steps=3 --set train.batch_size=2",
       "plan PHOTOS --set train.max_steps=3 --set train.batch_size=2"},
      {"explain: no such key",
       {},
       "explain optimizer.adamm",
       "`trainer explain` lists the sections",
       "explain"},
      {"plan --link: alone",
       {},
       "plan PHOTOS --link 10Gbit",
       "--workers or --gpus",
       "+ --workers 2"},
      {"report: images moved",
       {},
       "report RUN",
       "--mistakes 0 leaves them out",
       "+ --mistakes 0",
       [](const AdvicePlace& place) {
         fs::rename(place.work / "images", place.with_paths("FREE_moved"));
       }},
  };
}

std::vector<Advice> make_sweep_advices() {
  return {
      {"sweep: a folder of another config",
       {"sweep DIGITS --over seed=1,2 --dir FOLDS --set train.max_steps=1"},
       "sweep DIGITS --over seed=1,2 --dir FOLDS",
       "choose another folder with --dir, or remove this one",
       "sweep DIGITS --over seed=1,2 --dir FREE"},
      {"sweep: a folder of other files",
       {},
       "sweep DIGITS --over seed=1,2 --dir IMAGES",
       "choose another with --dir",
       "sweep DIGITS --over seed=1,2 --dir FREE"},
      {"sweep: a value twice",
       {},
       "sweep DIGITS --over seed=1,1 --dir FREE",
       "give every value of --over once",
       "sweep DIGITS --over seed=1 --dir FREE"},
      {"sweep: a manifest of a name with a line break",
       {},
       "sweep DIGITS --over seed=1 --dir 'FREE\nx' --launcher slurm",
       "choose another name or folder (--dir)",
       "sweep DIGITS --over seed=1 --dir FREE --launcher slurm"},
      {"crossval: other folds",
       {"crossval PHOTOS --folds 2 --dir FOLDS"},
       "crossval PHOTOS --folds 3 --dir FOLDS",
       "choose another folder with --dir",
       "crossval PHOTOS --folds 3 --dir FREE"},
  };
}

}  // namespace

TEST_CASE("messages: the command that each advice on a file of a run gives writes it again") {
  const Runs runs;
  runs.place.check_success("evaluate RUN --calibrate");
  for (const Repair& repair : make_repairs()) check_repair(runs.place, repair);
  check_repair(runs.place,
               {"diff: no ledger", "diff FREE OTHER", "the run was made with run.ledger: false",
                "train PHOTOS --run-dir FREE --overwrite", [](const AdvicePlace& place) {
                  place.check_success("train PHOTOS --run-dir FREE --set run.ledger=false");
                }});
}

TEST_CASE("messages: the command that follows each advice on options and runs succeeds") {
  const Runs runs;
  for (const Advice& advice : make_run_advices()) check_advice(runs.place, advice);
}

TEST_CASE("messages: the command that follows each advice on sweeps succeeds") {
  check_each(make_sweep_advices());
}

TEST_CASE("messages: the command that follows each advice on crossval and suspects succeeds") {
  const AdvicePlace place;
  place.check_success("crossval PHOTOS --folds 2 --dir FOLDS");
  const std::string suspects = "data PHOTOS --suspects FOLDS --output FREE --overwrite";
  place.check_success(suspects);
  check_repair(place, {"suspects: damaged predictions", suspects,
                       "give the same crossval command with --collect, which writes the file again",
                       "crossval PHOTOS --folds 2 --dir FOLDS --collect",
                       [](const AdvicePlace& here) { damage(here, "FOLDS/out_of_fold.csv"); }});
  check_repair(
      place, {"suspects: no predictions", suspects, "give the same crossval command again to go on",
              "crossval PHOTOS --folds 2 --dir FOLDS", [](const AdvicePlace& here) {
                fs::remove(here.with_paths("FOLDS/out_of_fold.csv"));
              }});
  check_repair(place, {"report: damaged results", "report FOLDS",
                       "give the same `trainer crossval` command again with --collect",
                       "crossval PHOTOS --folds 2 --dir FOLDS --collect",
                       [](const AdvicePlace& here) { damage(here, "FOLDS/crossval.json"); }});
  for (const Advice& advice : std::vector<Advice>{
           {"suspects: the output exists",
            {},
            "data PHOTOS --suspects FOLDS --output FREE",
            "replace it with --overwrite",
            "+ --overwrite"},
           {"suspects: the output is data.relabel",
            {},
            suspects + " --set data.relabel=FREE",
            "give another file",
            "data PHOTOS --suspects FOLDS --output FREE2 --set data.relabel=FREE"},
           {"suspects: other images",
            {},
            "data PHOTOS --suspects FOLDS --output FREE3 --set data.path=BESIDE",
            "give the config of the run, in the folder where it was trained",
            "data PHOTOS --suspects FOLDS --output FREE3",
            [](const AdvicePlace& here) { write_images(here.with_paths("BESIDE"), 6, 2); }},
           {"suspects: other classes",
            {},
            "data PHOTOS --suspects FOLDS --output FREE4 --set 'data.classes=[right, left]'",
            "give the config of the run",
            "data PHOTOS --suspects FOLDS --output FREE4"}}) {
    check_advice(place, advice);
  }
}

TEST_CASE("compare: the advised command writes damaged predictions again") {
  const Runs runs;
  const AdvicePlace& place = runs.place;
  const Path file = place.with_paths("RUN/predictions.jsonl");
  const std::string predict = "predict RUN --json";
  write_file_atomic(file, std::string_view("{}\n"));
  const Result failed = place.run("compare RUN OTHER");
  CHECK(failed.code == kExitData);
  CHECK_MESSAGE(contains(failed.err, concat("write the file with: trainer ",
                                            place.with_paths(predict), " > ", file.string())),
                failed.err);
  const Result predicted = place.run(predict);
  INFO(predicted.err);
  REQUIRE(predicted.code == 0);
  write_file_atomic(file, predicted.out);
  place.check_success("compare RUN OTHER");
}

TEST_CASE("train: the advised other folder or waiting succeeds where the run folder is in use") {
  const AdvicePlace place;
  Program program({"train", place.with_paths("PHOTOS"), "--json", "--run-dir",
                   place.with_paths("RUN"), "--set", "train.max_steps=1000000"});
  REQUIRE(program.wait_for("\"step\""));
  const std::string train = "train PHOTOS --run-dir RUN --overwrite";
  const Result failed = place.run(train);
  CHECK(failed.code == kExitConfig);
  CHECK_MESSAGE(
      contains(failed.err, "wait for it to end, stop it, or choose another folder with --run-dir"),
      failed.err);
  place.check_success("train PHOTOS --run-dir FREE");
  program.signal(SIGTERM);
  CHECK(program.wait().code == kExitInterrupted);
  place.check_success(train);
}

TEST_CASE("messages: the command that follows each advice on several labels succeeds") {
  const AdvicePlace place;
  std::string list = "path,bright,wide\n";
  for (const char* name : {"left", "right"}) {
    for (int i = 0; i < 6; ++i) {
      list += concat("images/", name, "/", i, ".ppm,", *name == 'l' ? 1 : 0, ",", i % 2, "\n");
    }
  }
  write_file_atomic(place.with_paths("LIST"), list);
  const std::string several = "LISTED --set model.loss=binary_cross_entropy ";
  place.check_success("train " + several + "--set data.folds=2 --fold 1 --run-dir RUN");
  for (const Advice& advice : std::vector<Advice>{
           {"class_weight: balanced with several labels",
            {},
            "train " + several + "--run-dir FREE --set train.class_weight=balanced",
            "give train.pos_weight: balanced, or a map of labels to weights",
            "train " + several + "--run-dir FREE --set train.pos_weight=balanced"},
           {"class_weight: a map for several labels",
            {},
            "train " + several + "--run-dir FREE --set train.class_weight=balanced",
            "or a map of labels to weights",
            "train " + several +
                "--run-dir FREE --overwrite --set "
                "'train.pos_weight={bright: 2, wide: 1}'"},
           {"pos_weight: one class per image",
            {},
            "train PHOTOS --run-dir FREE --overwrite --set train.pos_weight=balanced",
            "give train.class_weight",
            "train PHOTOS --run-dir FREE --overwrite --set train.class_weight=balanced"},
           {"relabel: several labels",
            {},
            "data " + several + "--set data.relabel=FIX",
            "correct them in the list itself",
            "data " + several,
            [](const AdvicePlace& here) {
              write_file_atomic(here.with_paths("FIX"), std::string_view("path,label\n"));
            }},
           {"evaluate --thresholds: another split",
            {},
            "evaluate RUN --thresholds f1 --split train",
            "remove --split train",
            "evaluate RUN --thresholds f1"},
           {"evaluate --calibrate: several labels",
            {},
            "evaluate RUN --calibrate",
            "leave the option out",
            "evaluate RUN"}}) {
    check_advice(place, advice);
  }
}

}  // namespace trainer::e2e::feature_advice_test
