#include "results/sweeps/grid.h"

#include <doctest/doctest.h>

#include <limits>

#include "base/text.h"
#include "results/sweeps/support.h"
#include "support/contains.h"

namespace trainer::results {
namespace {

using test::contains;
using test::FakeRun;
using test::FakeSweep;

TEST_CASE("parse_axis takes a key and its values, and fails without either") {
  const Axis axis = parse_axis("parallel.gpus=1,[0, 2],all");
  CHECK(axis.key == "parallel.gpus");
  CHECK(axis.values == std::vector<std::string>{"1", "[0, 2]", "all"});
  for (const char* wrong : {"seed", "=1", "seed=", "seed=1,,2"}) {
    CHECK_THROWS_WITH_AS(parse_axis(wrong), doctest::Contains("expected key=value"), ConfigError);
  }
}

TEST_CASE("parse_axis: commas within quotes and brackets are parts of a value") {
  CHECK(parse_axis(R"(name="a,b",'c,"d',e's,f)").values ==
        std::vector<std::string>{R"("a,b")", R"('c,"d')", "e's", "f"});
  CHECK(parse_axis(R"(name="a\",b",c)").values == std::vector<std::string>{R"("a\",b")", "c"});
  CHECK(parse_axis(R"(data.classes=["a]",b],[c])").values ==
        std::vector<std::string>{R"(["a]",b])", "[c]"});
}

TEST_CASE("axes_of_environment: variables give axes that flags replace") {
  const config::Environment environment{
      {"NUM_GPUS", "1 2"}, {"BATCH_SIZE", "32,64"}, {"SEEDS", " "}, {"LEARNING_RATE", "0.1"}};
  const auto axes =
      axes_of_environment(environment, {parse_axis("train.batch_size=8")}, "optimizer.sgd.x");
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].key == "parallel.gpus");
  CHECK(axes[0].values == std::vector<std::string>{"1", "2"});
  CHECK(axes[0].variable == "NUM_GPUS");
  CHECK(axes[1].key == "optimizer.sgd.x");
}

TEST_CASE("make_points makes all combinations, named by their values") {
  const auto points =
      make_points({parse_axis("train.batch_size=32,64"), parse_axis("parallel.gpus=1,[0, 1]")});
  REQUIRE(points.size() == 4);
  CHECK(points[0].name == "batch_size=32_gpus=1");
  CHECK(points[1].name == "batch_size=32_gpus=-0--1-");
  CHECK(points[3].values[0].second == "64");
  CHECK(make_points({parse_axis("name=ä b")})[0].name == "name=ä-b");
  // Keys that end alike keep their whole names.
  const auto alike =
      make_points({parse_axis("train.batch_size=1"), parse_axis("evaluate.batch_size=2")});
  CHECK(alike.front().name == "train.batch_size=1_evaluate.batch_size=2");
  CHECK_THROWS_WITH_AS(make_points({parse_axis("seed=1,1")}), doctest::Contains("called seed=1"),
                       ConfigError);
  CHECK(make_points({}).front().name == "run");
}

TEST_CASE("plan_sweep: a mistake in any point is an error before the first point starts") {
  CHECK_THROWS_WITH_AS(FakeSweep({"train.batch_size=32,none"}),
                       doctest::Contains("train.batch_size"), ConfigError);
  CHECK_THROWS_WITH_AS(FakeSweep({"train.batchsize=32"}), doctest::Contains("batch_size"),
                       ConfigError);
}

TEST_CASE("write_plan: a folder of other files or of another sweep is an error") {
  const FakeSweep sweep({"train.batch_size=32,64"});
  SUBCASE("files of somebody else") {
    std::filesystem::create_directories(sweep.plan.folder);
    write_file_atomic(sweep.plan.folder / "thesis.txt", "x");
    CHECK_THROWS_WITH_AS(write_plan(sweep.plan), doctest::Contains("no sweep.json"), ConfigError);
  }
  SUBCASE("a run of another config") {
    write_plan(sweep.plan);
    FakeRun other;
    other.batch_size = 48;
    sweep.write("batch_size=64", other);
    CHECK_THROWS_WITH_AS(write_plan(sweep.plan),
                         doctest::Contains("train.batch_size was 48, is 64"), ConfigError);
  }
  SUBCASE("its own") {
    write_plan(sweep.plan);
    FakeRun right;
    right.batch_size = 64;
    sweep.write("batch_size=64", right);
    write_plan(sweep.plan);
    const SweepPlan again = read_plan(sweep.plan.folder);
    CHECK(again.name == "fake");
    REQUIRE(again.points.size() == 2);
    CHECK(again.points[1].name == "batch_size=64");
    write_file_atomic(
        sweep.plan.folder / "sweep.json",
        R"({"name": "a", "config": "a.yaml", "axes": [{"key": "seed", "values": []}]})");
    CHECK_THROWS_WITH_AS(read_plan(sweep.plan.folder), doctest::Contains("values is an empty list"),
                         DataError);
  }
}

TEST_CASE("make_points: the error of more points than the limit has the option that raises it") {
  std::vector<Axis> axes(6, Axis{"seed", {}, ""});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].key = concat("key", i);
    for (int value = 0; value < 10; ++value) axes[i].values.push_back(std::to_string(value));
  }
  CHECK_THROWS_WITH_AS(make_points(axes),
                       doctest::Contains("the sweep has 1000000 points, the limit is 1000: give "
                                         "fewer values, or raise the limit with --max-points "
                                         "1000000"),
                       ConfigError);
  axes.resize(3);
  CHECK(make_points(axes).size() == 1000);
  CHECK_THROWS_AS(make_points(axes, 999), ConfigError);
  axes.resize(30, axes.front());  // more than 2^63
  CHECK_THROWS_AS(make_points(axes, std::numeric_limits<std::int64_t>::max() - 1), ConfigError);
}

TEST_CASE("make_points: long values give valid file names that differ") {
  const std::string value(300, '1');
  const std::vector<Point> points = make_points({{"seed", {value, value + "2"}, ""}});
  REQUIRE(points.size() == 2);
  CHECK(points[0].name.size() == 200);
  CHECK(points[0].name.starts_with("seed=111"));
  CHECK(points[0].name != points[1].name);
  CHECK(points[0].values[0].second == value);
}

}  // namespace
}  // namespace trainer::results
