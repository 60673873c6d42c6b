// Layers that are unfrozen in the course of a run.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "pictures.h"

namespace trainer::e2e {
namespace {

// Five steps per epoch: the last layers are trained from step 5 on, all from step 13 on.
const char* const kStages =
    "freeze: all, unfreeze: [{at: 1 epoch, freeze: '[:-20]', learning_rate_multiplier: 0.5}, "
    "{at: 13 steps}]";

const Arguments kKeepAll{"--set", "run.keep=30",      "--set", "run.checkpoint_every=1 step",
                         "--set", "optimizer.ema=0.9"};

Path checkpoint_path(const Path& run, int step) {
  return run / "checkpoints" / concat("step-000000", step < 10 ? "0" : "", step, ".safetensors");
}

using Values = std::map<std::string, std::vector<float>>;

}  // namespace

TEST_CASE("unfreeze: layers and statistics keep their bits until their stage") {
  const Pictures pictures(kStages);
  pictures.finished("run", "auto", kKeepAll);
  std::vector<Values> steps;
  for (int step = 4; step <= 14; ++step) {
    steps.push_back(load_values(checkpoint_path(pictures.work / "run", step)));
  }
  const auto moves = [&](const std::string& name, int step) {  // in update number `step`, from 0
    return steps[static_cast<std::size_t>(step - 4)].at(name) !=
           steps[static_cast<std::size_t>(step - 3)].at(name);
  };
  for (int step = 4; step < 14; ++step) {
    CAPTURE(step);
    CHECK(moves("dense/kernel", step));
    CHECK(moves("Conv_1/kernel", step) == (step >= 5));
    CHECK(moves("Conv_1_bn/moving_mean", step) == (step >= 5));
    CHECK(moves("Conv1/kernel", step) == (step >= 13));
    CHECK(moves("bn_Conv1/moving_mean", step) == (step >= 13));
  }
  // A slot is there as long as its parameter is trained.
  CHECK_FALSE(steps[1].contains("Conv_1/kernel/average"));
  CHECK(steps[2].contains("Conv_1/kernel/average"));
  CHECK_FALSE(steps[9].contains("Conv1/kernel/average"));
  CHECK(steps[10].contains("Conv1/kernel/average"));
}

TEST_CASE("unfreeze: a resume at any step equals an uninterrupted run bit by bit") {
  const Pictures pictures(kStages);
  const Json reference = pictures.finished("whole", "auto", kKeepAll);
  check_same(reference, pictures.finished("off", "off", kKeepAll));
  for (const int step : {3, 4, 5, 6, 12, 13, 14}) {
    CAPTURE(step);
    const std::string name = concat("from", step);
    std::filesystem::copy(pictures.work / "whole", pictures.work / name,
                          std::filesystem::copy_options::recursive);
    for (int later = step + 1; later <= 20; ++later) {
      std::filesystem::remove(checkpoint_path(pictures.work / name, later));
    }
    Arguments resume = kKeepAll;
    resume.push_back("--resume");
    const Result result = run(pictures.train(name, "auto", resume));
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(result.event("start").at("first_step") == step);
    check_same(reference, result.event("finished"));
  }
  // Evaluated by itself: with the averages of what was trained last.
  const Result evaluation =
      run({"evaluate", pictures.work / "whole", "--last", "--split", "validation", "--json"});
  INFO(evaluation.err);
  CHECK(evaluation.code == 0);
  CHECK(evaluation.out.find(reference.at("metrics").at("validation").at("loss").dump()) !=
        std::string::npos);
}

TEST_CASE("unfreeze: the first Adam step of a new parameter has the length of the learning rate") {
  // Adam's first step has the length of the learning rate for every weight, whatever the gradient;
  // with the run's own count it would be 3 times as long after these 5 steps.
  const Pictures pictures("freeze: all, unfreeze: {at: 5 steps, freeze: '[:-20]'}");
  pictures.finished("run", "auto",
                    {"--set", "run.keep=30", "--set", "run.checkpoint_every=1 step"});
  const Values before = load_values(checkpoint_path(pictures.work / "run", 5));
  const Values after = load_values(checkpoint_path(pictures.work / "run", 6));
  const std::vector<float>& was = before.at("Conv_1/kernel");
  const std::vector<float>& is = after.at("Conv_1/kernel");
  float longest = 0;
  for (std::size_t i = 0; i < was.size(); ++i)
    longest = std::max(longest, std::abs(is[i] - was[i]));
  CHECK(longest == doctest::Approx(1e-3).epsilon(0.01));
}

TEST_CASE("unfreeze: a checkpoint of a stage that the config does not have is an error") {
  const Pictures pictures(kStages);
  pictures.finished("run", "auto", {});
  const Result result = run({"evaluate", (pictures.work / "run").string(), "--last", "--set",
                             "model.backbone.unfreeze=[]"});
  INFO(result.err);
  CHECK(result.code == 3);
  CHECK(result.err.find("is of stage 2 of model.backbone.unfreeze, which has 0 entries here") !=
        std::string::npos);
}

TEST_CASE("plan: unfreeze shows the stages with their steps") {
  const Pictures pictures(kStages);
  const Result plan = run({"plan", pictures.config});
  INFO(plan.err);
  CHECK(plan.code == 0);
  CHECK(plan.out.find("frozen; after 13 steps trained") != std::string::npos);
  CHECK(plan.out.find("; after 1 epoch trained") != std::string::npos);
  CHECK(plan.out.find("learning rate times") != std::string::npos);
}

TEST_CASE("unfreeze: impossible stages are an error before the first step") {
  const auto message = [](const std::string& stages) {
    const Pictures pictures("freeze: all, unfreeze: " + stages);
    const Result result = run(pictures.train("run", "auto"));
    CHECK(result.code == 2);
    CHECK_FALSE(std::filesystem::exists(checkpoint_path(pictures.work / "run", 0)));
    return result.err;
  };
  CHECK(message("[{at: 2 epochs}, {at: 10 steps}]")
            .find("10 steps is step 10, not after step 10 of the entry before") !=
        std::string::npos);
  CHECK(
      message("{at: 2 epochs, freeze: [nothing_*]}")
          .find(
              "model.backbone.unfreeze[0].freeze: no layer of the backbone is named 'nothing_*'") !=
      std::string::npos);
}

}  // namespace trainer::e2e
