// Backbones of Keras and torchvision, and files of weights that are those of neither.
#include "base/error.h"
#include "pictures.h"
#include "support/contains.h"
#include "support/source_files.h"
#include "support/state_dict.h"

namespace trainer::e2e {
namespace {

using test::contains;
using namespace std::string_literals;

std::string resnet50_config(const Workspace& work, const std::string& more = "") {
  return work.config("model: {input: [32, 32, 3], backbone: {name: resnet50, freeze: all" + more +
                     "}, head: [global_average_pool, dense: 2]}\n"
                     "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 2, "
                     "train_samples: 4, test_samples: 2}}\n"
                     "train: {max_steps: 1, batch_size: 2, cache_features: off}\n"
                     "run: {dir: " +
                     (work / "run").string() + "}\n");
}

// Returns the file of a state dict of torchvision, of which the model takes one tensor.
std::string write_torchvision_file(const Workspace& work) {
  const Path path = work / "resnet50.safetensors";
  test::write_state_dict(path, {{"layer1.0.conv1.weight", {1}, {1}},
                                {"bn1.bias", {64}, std::vector<float>(64, 0.5f)},
                                {"bn1.num_batches_tracked", {}, {1}, true}});
  return path.string();
}

// Returns the value and the origin of a key as `plan` prints them.
std::pair<std::string, std::string> planned(const std::string& config, const std::string& key) {
  const Result plan = run({"plan", config, "--json"});
  INFO(plan.err);
  REQUIRE(plan.code == 0);
  const Json event = plan.event("plan");
  for (const Json& setting : event.at("config")) {
    if (setting.at("key") == key) return {setting.at("value"), setting.at("origin")};
  }
  return {};
}

}  // namespace

TEST_CASE("plan prints backbone.variant with the key that decides it") {
  const Workspace work;
  const std::string key = "model.backbone.variant";
  CHECK(planned(resnet50_config(work), key) == std::pair{"keras"s, "model.backbone.name"s});
  const std::string file = ", allow_missing: ['*'], weights: " + write_torchvision_file(work);
  const std::string config = resnet50_config(work, file);
  CHECK(planned(config, key) == std::pair{"torchvision"s, "model.backbone.weights"s});
  CHECK(planned(config, "data.preprocess").first == "torch");
  const auto [value, origin] = planned(resnet50_config(work, ", variant: torchvision"), key);
  CHECK(value == "torchvision");
  CHECK(contains(origin, "config.yaml:"));
}

TEST_CASE("plan and validate print the error of a file of weights that train rejects") {
  const Workspace work;
  const Path other = work / "other.safetensors";
  test::write_state_dict(other, {{"encoder.weight", {1}, {1}}});
  const Path pickle = work / "w.pth";
  std::filesystem::copy_file(test::source_file("test/checkpoint/pytorch/module.pth"), pickle);
  for (const auto& [file, reason] :
       {std::pair{other.string(), "has no tensor that the model takes: it holds encoder.weight"},
        std::pair{pickle.string(), "holds an object of torch.nn.modules.linear.Linear"},
        std::pair{write_torchvision_file(work), "does not fit the model"}}) {
    const std::string config = resnet50_config(work, ", weights: " + file);
    const Result trained = run({"train", config});
    CHECK(trained.code == 3);
    CHECK(contains(trained.err, reason));
    for (const char* command : {"plan", "validate"}) {
      CAPTURE(command);
      const Result checked = run({command, config});
      CHECK(checked.code == 3);
      CHECK(contains(checked.err, reason));
      CHECK_FALSE(contains(checked.out, "from a file"));
    }
  }
}

TEST_CASE("train --resume: a run recorded without backbone.variant keeps its network") {
  const Workspace work;
  const std::string config = resnet50_config(work);
  REQUIRE(run({"train", config, "--quiet"}).code == 0);
  // The config of a run before there was the key.
  const Path recorded = work / "run/config.yaml";
  std::string text = read_text_file(recorded);
  const std::size_t at = text.find("    variant: keras\n");
  REQUIRE(at != std::string::npos);
  write_file_atomic(recorded, text.erase(at, std::string("    variant: keras\n").size()));
  const Result resumed = run({"train", config, "--resume", "--quiet", "--set", "train.max_steps=2",
                              "--set", "model.backbone.weights=" + write_torchvision_file(work)});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK(contains(read_text_file(recorded), "variant: keras"));
  CHECK(contains(read_text_file(recorded), "preprocess: caffe"));
  CHECK(run({"export", work / "run", "--format", "safetensors", "--output", work / "x.safetensors"})
            .code == 0);
}

}  // namespace trainer::e2e
