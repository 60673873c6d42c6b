// The mean of a run's last checkpoints.
#include <doctest/doctest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace trainer::checkpoint {
namespace {

// As a run has them: a parameter with a slot and an average, and a moving statistic.
void save(Store& store, std::int64_t step, std::vector<float> kernel, float slot) {
  const Shape shape{static_cast<std::int64_t>(kernel.size())};
  std::vector<float> average = kernel;
  for (float& value : average) value += 100;
  store.save(step,
             {{"dense/kernel", shape, kernel},
              {"dense/kernel/m", shape, std::vector<float>(kernel.size(), slot)},
              {"dense/kernel/average", shape, average},
              {"norm/moving_mean", Shape{1}, {static_cast<float>(step)}}},
             {{"step", std::to_string(step)}});
}

}  // namespace

TEST_CASE("parameters, statistics and averages of the last checkpoints are averaged") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 5);
  save(store, 10, {1000, 1000}, 1);
  save(store, 20, {1, -4}, 2);
  save(store, 30, {2, -8}, 3);
  save(store, 40, {6, -3}, 4);
  const std::vector<Saved> last = last_checkpoints(folder.path(), 3);
  REQUIRE(last.size() == 3);
  CHECK(last[0].step == 20);
  CHECK(last[2].step == 40);
  const TensorFile mean = mean_of(last);
  CHECK(mean.metadata.at("step") == "40");
  REQUIRE(mean.tensors.size() == 3);
  CHECK(mean.tensors[0].name == "dense/kernel");
  CHECK(mean.tensors[0].values[0] == doctest::Approx(3));
  CHECK(mean.tensors[0].values[1] == doctest::Approx(-5));
  CHECK(mean.tensors[1].name == "dense/kernel/average");
  CHECK(mean.tensors[1].values[0] == doctest::Approx(103));
  CHECK(mean.tensors[2].values[0] == doctest::Approx(30));
  CHECK(mean_of(last_checkpoints(folder.path(), 1)).tensors[0].values == std::vector<float>{6, -3});
}

TEST_CASE("too few checkpoints, and those of other shapes, have no mean") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 5);
  save(store, 10, {1, 2, 3}, 1);
  CHECK_THROWS_WITH_AS(
      last_checkpoints(folder.path(), 2),
      doctest::Contains("has 1 checkpoint, but the average is to be of the last 2"), DataError);
  save(store, 20, {1, 2}, 1);
  CHECK_THROWS_WITH_AS(mean_of(last_checkpoints(folder.path(), 2)),
                       doctest::Contains("it has no dense/kernel of shape [2]"), DataError);
}

}  // namespace trainer::checkpoint
