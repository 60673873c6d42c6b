// Which checkpoint of a run the commands take.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "pictures.h"
#include "support/contains.h"

namespace trainer::e2e::best_checkpoint_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

// A run of 20 steps whose best checkpoint is that of step 5.
struct BestRun {
  Pictures pictures;
  Path folder = pictures.work / "run";
  Json finished;

  BestRun() {
    finished = pictures.finished("run", "off",
                                 {"--set", "run.keep=10", "--set", "run.checkpoint_every=5 steps",
                                  "--set", "train.max_steps=20"});
    fs::remove(folder / "checkpoints/best.safetensors");
    fs::copy_file(checkpoint("00000005"), folder / "checkpoints/best.safetensors");
  }
  Path checkpoint(const std::string& step) const {
    return folder / concat("checkpoints/step-", step, ".safetensors");
  }
};

// A folder with images and a run of two steps, whose config names the images by relative paths.
struct Project {
  Workspace work;
  Path folder = work / "project";

  Project() {
    write_images(folder / "train", 8, 1);
    write_images(folder / "validation", 4, 2);
    write_file_atomic(folder / "small.yaml",
                      "model: {input: [8, 8, 3], layers: [flatten, dense: 2]}\n"
                      "data: {format: image_folder, train: {path: train}, "
                      "validation: {path: validation}}\n"
                      "train: {max_steps: 2, batch_size: 8}\n");
    const Result trained = run(folder, {"train", "small.yaml"});
    REQUIRE_MESSAGE(trained.code == 0, trained.err);
  }
  // Runs the program with `here` as its current folder.
  static Result run(const Path& here, const Arguments& arguments) {
    Program program(arguments, {}, [&] {
      if (::chdir(here.c_str()) != 0) ::_exit(126);
    });
    return program.wait();
  }
  static Json evaluated(const Path& here, const Arguments& more) {
    Arguments arguments{"evaluate", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(here, arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("evaluated");
  }
};

Json evaluated(const Arguments& more) {
  Arguments arguments{"evaluate", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.event("evaluated");
}

}  // namespace

TEST_CASE("commands: a moved or copied run is opened as before") {
  const BestRun best;
  const Json before = evaluated({best.folder});
  const Path moved = best.pictures.work / "elsewhere" / "moved run";
  const Path copied = best.pictures.work / "copied";
  fs::create_directories(moved.parent_path());
  fs::copy(best.folder, copied, fs::copy_options::recursive);
  fs::rename(best.folder, moved);
  for (const Path& folder : {moved, copied}) {
    CAPTURE(folder);
    CHECK(evaluated({folder})["loss"] == before["loss"]);
    CHECK(run({"report", folder, "--mistakes", "2"}).code == 0);
  }
  const Json compared = run({"compare", moved, copied, "--json"}).event("compared");
  CHECK(compared["results"][0]["checkpoint"] == "best");
  CHECK(compared["results"][0]["loss"] == compared["results"][1]["loss"]);
  CHECK(compared["mcnemar"][0]["only_first"] == 0);
}

TEST_CASE("commands: a run with relative data paths is used from another folder and copied") {
  const Project project;
  const Json before = project.evaluated(project.folder, {"runs/small"});
  REQUIRE(before["count"] == 8);
  const Path runs = project.folder / "runs", copy = project.work / "copy";
  CHECK(project.evaluated(runs, {"small"})["loss"] == before["loss"]);
  CHECK(project.evaluated("/", {runs / "small"})["loss"] == before["loss"]);
  const std::string checkpoint = "small/checkpoints/step-00000002.safetensors";
  CHECK(project.evaluated(runs, {checkpoint})["loss"] == before["loss"]);
  CHECK(project.evaluated(runs / "small", {"."})["loss"] == before["loss"]);
  fs::create_symlink(runs, project.work / "link");
  CHECK(project.evaluated(project.work / ".", {"link/small"})["loss"] == before["loss"]);
  for (const Arguments& arguments :
       std::vector<Arguments>{{"plan", "small"},
                              {"data", "small"},
                              {"predict", "small"},
                              {"report", "small"},
                              {"compare", "small", "small"},
                              {"train", "small", "--resume", "--run-dir=small"}}) {
    CAPTURE(arguments);
    const Result result = project.run(runs, arguments);
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_FALSE(contains(result.out + result.err, "no such file"));
  }
  // The session that has just ended was started in runs/.
  CHECK(Json::parse(read_text_file(runs / "small/run.json"))["base"] == "..");
  CHECK(project.evaluated(project.folder, {"runs/small"})["loss"] == before["loss"]);
  CHECK(project.run(project.folder, {"data", "runs/small"}).code == 0);
  const Arguments longer{"train",           "small", "--resume",
                         "--run-dir=small", "--set", "train.max_steps=4"};
  CHECK(project.run(runs, longer).code == 0);
  CHECK(project.evaluated(project.folder, {"runs/small", "--last"})["step"] == 4);
  CHECK(project.evaluated("/", {runs / checkpoint})["step"] == 2);

  // A copy of the project reads its own data.
  fs::copy(project.folder, copy, fs::copy_options::recursive);
  fs::rename(project.folder, project.work / "gone");
  CHECK(project.evaluated("/", {copy / "runs/small"})["loss"] == before["loss"]);

  // A path of the user is that of the current folder.
  const Result set =
      project.run(copy / "runs", {"evaluate", "small", "--set", "data.validation.path=validation"});
  CHECK(set.code == 3);
  CHECK(contains(set.err, "validation: no such file or folder, named by data.validation.path. "));

  fs::rename(copy / "runs/small", project.work / "small");
  const Result moved = project.run(project.work / ".", {"evaluate", "small"});
  CHECK(moved.code == 3);
  CHECK(
      contains(moved.err,
               "train: no such file or folder, named by data.train.path; nor is there ../train in "
               "the folder in which the run was started. Give its place with"));
}

TEST_CASE("commands: a run with a best checkpoint is used with a note of its step") {
  const BestRun best;
  const Json first = evaluated({best.checkpoint("00000005")});
  const Json last = evaluated({best.checkpoint("00000020")});
  REQUIRE(first["loss"] != last["loss"]);
  CHECK_FALSE(first.contains("checkpoint"));

  const Json by_default = evaluated({best.folder});
  CHECK(by_default["step"] == 5);
  CHECK(by_default["checkpoint"] == "best");
  CHECK(by_default["loss"] == first["loss"]);
  const Json chosen = evaluated({best.folder, "--last"});
  CHECK(chosen["step"] == 20);
  CHECK(chosen["checkpoint"] == "last");
  CHECK(chosen["loss"] == last["loss"]);
  CHECK(evaluated({best.folder, "--best"})["loss"] == first["loss"]);

  const std::string note =
      concat("note: ", best.folder.string(), ": the best checkpoint, of step 5");
  const Result text = run({"evaluate", best.folder, "--quiet"});
  CHECK(contains(text.err, note));
  CHECK(contains(text.err, "; --last takes that of step 20\n"));
  CHECK(contains(text.out, ", step 5 (the best checkpoint)\n"));
  const Result last_text =
      run({"evaluate", best.folder, "--quiet", "--last", "--split", "validation"});
  CHECK(last_text.err == "");
  CHECK(contains(last_text.out, ", step 20\n"));

  const auto predictions = [&](const Arguments& more) {
    Arguments arguments{"predict", "--json", "--split", "validation"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  CHECK(predictions({best.folder}).out == predictions({best.checkpoint("00000005")}).out);
  CHECK(predictions({best.folder, "--last"}).out == predictions({best.checkpoint("00000020")}).out);
  CHECK(contains(predictions({best.folder}).err, note));

  const auto exported = [&](const std::string& name, const Arguments& more) {
    Arguments arguments{"export",      best.folder, "--format",
                        "safetensors", "--output",  best.pictures.work / name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  CHECK(contains(exported("best", {}), ": step 5 (the best checkpoint) of "));
  CHECK(contains(exported("last", {"--last"}), ": step 20 of "));
  const Result json = run({"export", best.folder, "--format", "safetensors", "--json", "--output",
                           best.pictures.work / "json"});
  CHECK(json.event("exported")["checkpoint"] == "best");
}

TEST_CASE("evaluate: the last checkpoint replaces a damaged best one with a warning") {
  const BestRun best;
  std::ofstream(best.folder / "checkpoints/best.safetensors") << "damaged";
  const Result result = run({"evaluate", best.folder, "--json"});
  CHECK(result.code == 0);
  CHECK(result.event("evaluated")["step"] == 20);
  CHECK(result.event("evaluated")["checkpoint"] == "last");
  CHECK(contains(result.err, "trying the last checkpoint"));
  CHECK(run({"evaluate", best.folder, "--best"}).code == 3);
}

TEST_CASE("report: the page of a run with a best checkpoint names it and the last one") {
  const BestRun best;
  const Json record = Json::parse(read_text_file(best.folder / "run.json"));
  for (const char* key : {"metric", "value", "epoch", "step"}) {
    CHECK(record["best"][key] == best.finished["best"][key]);
  }
  const Json made = run({"report", best.folder, "--json"}).event("report");
  CHECK(made["output"] == (best.folder / "report.html").string());
  CHECK(made["complete"] == true);
  const std::string page = read_text_file(best.folder / "report.html");
  CHECK(contains(page, concat("step ", record["best"]["step"].get<int>(), ", epoch ")));
  CHECK(contains(page, "step 20, with these metrics"));
  CHECK(contains(run({"report", best.folder}).err, "the best checkpoint, of step 5"));
  CHECK_FALSE(contains(run({"report", best.folder, "--last"}).err, "best checkpoint"));
}

TEST_CASE("commands: --best, --last and --average exclude each other") {
  const std::vector<Arguments> pairs{{"--best", "--last"},
                                     {"--last", "--average", "2"},
                                     {"--best", "--average", "2"},
                                     {"--last", "--follow"}};
  for (const Arguments& pair : pairs) {
    Arguments arguments{"evaluate", "run"};
    arguments.insert(arguments.end(), pair.begin(), pair.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK(contains(result.err, " excludes --"));
  }
  const Pictures pictures;
  CHECK(contains(run({"evaluate", pictures.config, "--last"}).err, "--last is of a run"));
}

}  // namespace trainer::e2e::best_checkpoint_test
