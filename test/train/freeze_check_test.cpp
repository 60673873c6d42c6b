#include "train/loop/freeze_check.h"

#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::train::freeze_check_test {
namespace {

struct Job {
  explicit Job(const std::string& backbone)
      : config(
            test::build_config("{backbone: {name: mobilenet_v2, alpha: 0.35, " + backbone +
                                   "}, head: [global_average_pool, dense: 3]}",
                               "optimizer: {sgd: {learning_rate: 0.5}}\nparallel: {threads: 1}\n")),
        engine(model::build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1),
               config, engine::open_backends(config, {}), engine::Use::kTrain) {
    engine.initialise(1);
  }

  void step() {
    std::vector<std::uint8_t> images(4 * 32 * 32 * 3);
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<std::uint8_t>(i * 37 % 251);
    const std::vector<std::int32_t> labels{0, 1, 2, 0};
    backend::Scalars scalars;
    scalars.learning_rate = 0.5f;
    scalars.loss_scale = 0.25;
    engine.step({4, images.data(), false, labels.data()}, scalars);
  }

  config::Config config;
  engine::Engine engine;
};

}  // namespace

TEST_CASE("FreezeCheck: frozen parameters and statistics have the same bits after training") {
  Job job("freeze: '[:-3]'");
  const FreezeCheck check(job.engine);
  // 51 convolutions and batch norms below Conv_1, whose kernel is trained.
  CHECK(check.tensors() == 51 + 51 * 4);
  const std::string before = job.engine.replica().parameters_sha256();
  job.step();
  job.step();
  CHECK(job.engine.replica().parameters_sha256() != before);
  CHECK_NOTHROW(check.check(job.engine));
}

TEST_CASE("FreezeCheck: batch_norm eval keeps the statistics of trained layers") {
  Job job("batch_norm: eval");
  const FreezeCheck check(job.engine);
  CHECK(check.tensors() == 52 * 2);
  job.step();
  CHECK_NOTHROW(check.check(job.engine));
}

TEST_CASE("FreezeCheck: the error of a changed frozen tensor has its name and exit code 5") {
  Job job("freeze: all");
  const FreezeCheck check(job.engine);
  job.step();
  CHECK_NOTHROW(check.check(job.engine));
  for (checkpoint::Tensor& tensor : job.engine.replica().tensors()) {
    if (tensor.name != "bn_Conv1/moving_mean") continue;
    tensor.values[3] = -0.0f;  // equal to what it was, but not in its bits
    job.engine.write({tensor});
  }
  try {
    check.check(job.engine);
    FAIL("the change was not seen");
  } catch (const CheckError& error) {
    CHECK(error.code() == kExitCheck);
    CHECK(std::string(error.what()).find("bn_Conv1/moving_mean") != std::string::npos);
    CHECK(std::string(error.what()).find("Conv1/kernel") == std::string::npos);
  }
}

}  // namespace trainer::train::freeze_check_test
