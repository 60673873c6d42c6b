// The mean of a run's last checkpoints.
#include "checkpoint/average.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "checkpoint/store.h"

namespace trainer::checkpoint {
namespace {

// Saves what a run has: a parameter with a slot and an average, and a moving statistic.
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

TEST_CASE("average_checkpoints returns the means of parameters, statistics and averages") {
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
  const TensorFile mean = average_checkpoints(last).value();
  CHECK(mean.metadata.at("step") == "40");
  REQUIRE(mean.tensors.size() == 3);
  CHECK(mean.tensors[0].name == "dense/kernel");
  CHECK(mean.tensors[0].values[0] == doctest::Approx(3));
  CHECK(mean.tensors[0].values[1] == doctest::Approx(-5));
  CHECK(mean.tensors[1].name == "dense/kernel/average");
  CHECK(mean.tensors[1].values[0] == doctest::Approx(103));
  CHECK(mean.tensors[2].values[0] == doctest::Approx(30));
  CHECK(average_checkpoints(last_checkpoints(folder.path(), 1))->tensors[0].values ==
        std::vector<float>{6, -3});
}

TEST_CASE("average_checkpoints rejects too few checkpoints or other shapes") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 5);
  save(store, 10, {1, 2, 3}, 1);
  CHECK_THROWS_WITH_AS(
      last_checkpoints(folder.path(), 2),
      doctest::Contains("has 1 checkpoint, but the average is to be of the last 2"), DataError);
  save(store, 20, {1, 2}, 1);
  CHECK_THROWS_WITH_AS(average_checkpoints(last_checkpoints(folder.path(), 2)),
                       doctest::Contains("it has no dense/kernel of shape [2]"), DataError);
  CHECK_THROWS_WITH_AS(last_checkpoints(folder.path() / "none", 2),
                       doctest::Contains("no such file or folder; expected a run folder"),
                       DataError);
}

TEST_CASE(
    "average_checkpoints returns no mean for a removed checkpoint and rejects a damaged one") {
  const TemporaryFolder folder;
  Store store(folder.path() / "checkpoints", 5);
  for (const std::int64_t step : {10, 20, 30}) save(store, step, {1, 2}, 1);
  const std::vector<Saved> last = last_checkpoints(folder.path(), 3);
  for (const Saved& damaged : {last[1], last[2]}) {
    const Bytes whole = read_file(damaged.path);
    Bytes part = whole;
    part.pop_back();
    write_file_atomic(damaged.path, part);
    const bool is_newest = damaged.step == 30;
    CHECK_THROWS_WITH_AS(average_checkpoints(last), doctest::Contains(damaged.path.c_str()), Error);
    CHECK_THROWS_WITH_AS(average_checkpoints(last),
                         doctest::Contains(is_newest ? "; move it away to average those before it"
                                                     : "; average fewer, without this one"),
                         Error);
    write_file_atomic(damaged.path, whole);
  }
  CHECK(average_checkpoints(last));
  for (const Saved& removed : {last[0], last[2]}) {
    std::filesystem::remove(removed.path);
    CHECK_FALSE(average_checkpoints(last));
  }
}

TEST_CASE("is_slot: names below the name of another tensor are slots") {
  const std::set<std::string> names{"dense/kernel", "dense/kernel/m", "norm/moving_mean"};
  CHECK(is_slot("dense/kernel/m", names));
  CHECK(is_slot("dense/kernel/average", names));
  CHECK_FALSE(is_slot("dense/kernel", names));
  CHECK_FALSE(is_slot("norm/moving_mean", names));
  CHECK_FALSE(is_slot("kernel", names));
}

}  // namespace trainer::checkpoint
