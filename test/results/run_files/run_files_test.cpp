// What is read of run folders, and what follows from it.
#include "results/run_files/run_files.h"

#include <doctest/doctest.h>

#include <cmath>

#include "results/support.h"

namespace trainer::results {
namespace {

using test::FakeRun;

struct Folder {
  TemporaryFolder folder;
  Path path() const { return folder.path() / "run"; }
  RunFiles read(const FakeRun& run) const {
    test::write_run(path(), run);
    return read_run(path());
  }
};

TEST_CASE("read_run reads times, throughput and cost from the ledger") {
  FakeRun fake;
  fake.price = 3.6;
  fake.replicas = 2;
  fake.on_cpu = false;
  const RunFiles run = Folder().read(fake);
  CHECK(total_steps(run).seconds == doctest::Approx(2));
  CHECK(total_steps(run).wait_seconds == doctest::Approx(0.4));
  CHECK(images_per_second(run) == doctest::Approx(64));
  CHECK(run.peak_memory_bytes == 200 << 20);
  CHECK(run.parameters.at(0) == "start");
  CHECK(run.parameters.at(4) == "feed");
  CHECK(*cost(run, 10) == doctest::Approx(0.02));  // two devices
  REQUIRE(run.finished);
  CHECK(scored_split(run) == Split::kTest);
  CHECK(run.results.at(Split::kTest).correct == 90);
}

TEST_CASE("images_per_second counts only the steps that use cached features in a run with them") {
  FakeRun fake;
  fake.throughput = {{"images_per_second", 100.0},
                     {"images_per_second_computing_features", 50.0},
                     {"images_per_second_cached_features", 4000.0}};
  CHECK(images_per_second(Folder().read(fake)) == 4000);
  fake.throughput.erase("images_per_second_cached_features");
  const RunFiles computing = Folder().read(fake);
  CHECK(images_per_second(computing) == doctest::Approx(64));
  CHECK(computing.finished->rates.computing == 50);
  CHECK(total_steps(Folder().read(fake)).samples == doctest::Approx(128));
}

TEST_CASE("read_run finds when and with which command the first session began") {
  FakeRun fake;
  fake.sessions = {{{"started", "2026-11-27T00:06:12Z"},
                    {"command", {"/usr/bin/trainer", "train", "photos"}},
                    {"seconds", 1}},
                   {{"started", "2026-11-28T00:06:12Z"}, {"command", {"other"}}, {"seconds", 1}}};
  const RunFiles run = Folder().read(fake);
  CHECK(run.started == "2026-11-27T00:06:12Z");
  CHECK(run.command == "trainer train photos");
  CHECK(Folder().read({}).started.empty());
}

TEST_CASE("read_run takes times and throughput from the metrics without a ledger") {
  const Folder folder;
  test::write_run(folder.path(), {});
  std::filesystem::remove(folder.path() / "ledger.csv");
  const RunFiles run = read_run(folder.path());
  CHECK(total_steps(run).seconds == doctest::Approx(2));
  CHECK(total_steps(run).wait_seconds == doctest::Approx(0.4));
  CHECK(images_per_second(run) == doctest::Approx(64));
  CHECK(*seconds_to_accuracy(run, 0.9) == doctest::Approx(4));
}

TEST_CASE("seconds_to_accuracy is the time of the steps and evaluations up to it") {
  const RunFiles run = Folder().read({});
  CHECK(*seconds_to_accuracy(run, 0.4) == doctest::Approx(2));  // two steps and an evaluation
  CHECK(*seconds_to_accuracy(run, 0.9) == doctest::Approx(4));
  CHECK_FALSE(seconds_to_accuracy(run, 0.91));
  CHECK_FALSE(cost(run, 10));
}

TEST_CASE("cost of several replicas on the CPU has the price of one device") {
  FakeRun fake;
  fake.price = 3600;
  fake.replicas = 4;
  CHECK(*cost(Folder().read(fake), 2) == doctest::Approx(2));
}

TEST_CASE("read_run reads a run in progress without its half-written line") {
  const Folder folder;
  FakeRun fake;
  fake.finished = false;
  test::write_run(folder.path(), fake);
  CHECK_FALSE(is_finished(folder.path()));
  write_file_atomic(folder.path() / "ledger.csv",
                    read_text_file(folder.path() / "ledger.csv") + "5,32,0.1");
  const RunFiles run = read_run(folder.path());
  CHECK_FALSE(run.finished);
  CHECK(run.ledger.size() == 4);
  CHECK(!scored_split(run));
}

TEST_CASE("read_run reads metrics of GPUs, the splits and the memory") {
  const Folder folder;
  test::write_run(folder.path(), {});
  write_file_atomic(folder.path() / "metrics.csv",
                    "step,split,loss,gpu0_utilization,gpu12_memory_bytes,gpu_x,gpus0_y\n"
                    "1,train,0.5,0.25,,7,7\n2,test,0.5,,,,\n3,train,0.5,0.75,1024,7,7\n");
  test::Json record = test::Json::parse(read_text_file(folder.path() / "run.json"));
  record["splits"] = {{"train", {{"samples", 30}, {"classes", {10, 20}}}},
                      {"test", {{"samples", 9}, {"classes", test::Json::array()}}}};
  record["memory"] = {{"gradients", 5}, {"activations", 6}};
  write_file_atomic(folder.path() / "run.json", record.dump());
  const RunFiles run = read_run(folder.path());
  using DevicePoints = std::vector<std::pair<double, double>>;
  REQUIRE(run.devices.size() == 2);
  CHECK(run.devices.at("gpu0_utilization") == DevicePoints{{1, 0.25}, {3, 0.75}});
  CHECK(run.devices.at("gpu12_memory_bytes") == DevicePoints{{3, 1024}});
  REQUIRE(run.splits.size() == 2);
  CHECK(run.splits[0].first == "train");
  CHECK(run.splits[0].second.samples == 30);
  CHECK(run.splits[0].second.classes == std::vector<std::int64_t>{10, 20});
  CHECK(run.splits[1].second.classes.empty());
  CHECK(run.memory[0] == std::pair<std::string, std::int64_t>{"gradients", 5});
}

TEST_CASE("read_run: the error of a folder that is not a run or has damaged files names it") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(read_run(folder.path()), doctest::Contains("holds no run.json"), DataError);
  test::write_run(folder.path(), {});
  CHECK(is_finished(folder.path()));
  write_file_atomic(folder.path() / "ledger.csv", "step,samples\n1,2,3\n");
  CHECK_THROWS_WITH_AS(read_run(folder.path()),
                       doctest::Contains("ledger.csv:2: has 3 fields; expected 2"), DataError);
  write_file_atomic(folder.path() / "run.json", "{");
  CHECK_THROWS_WITH_AS(read_run(folder.path()), doctest::Contains("run.json: is damaged"),
                       DataError);
  CHECK_FALSE(is_finished(folder.path()));
}

// Replaces the confusion matrix of the test split in run.json.
void set_confusion(const Path& folder, const std::string& matrix) {
  test::Json record = test::Json::parse(read_text_file(folder / "run.json"));
  record["finished"]["metrics"]["test"]["confusion"] = test::Json::parse(matrix);
  write_file_atomic(folder / "run.json", record.dump());
}

}  // namespace

TEST_CASE("run files: a confusion matrix has counts by class and the largest confusions") {
  const Folder folder;
  test::write_run(folder.path(), {});
  set_confusion(folder.path(), "[[5, 0, 2], [1, 6, 0], [0, 4, 0]]");
  const RunFiles run = read_run(folder.path());
  const SplitResult& result = run.results.at(Split::kTest);
  REQUIRE(result.classes.size() == 3);
  CHECK(result.classes[0].support == 7);
  CHECK(result.classes[0].predicted == 6);
  CHECK(result.classes[0].correct == 5);
  CHECK(result.classes[1].predicted == 10);
  CHECK(result.classes[2].correct == 0);
  CHECK(result.confusions == std::vector<engine::ConfusionCell>{{2, 1, 4}, {0, 2, 2}, {1, 0, 1}});
}

TEST_CASE("run files: the error of a crafted confusion matrix names run.json") {
  const Folder folder;
  test::write_run(folder.path(), {});
  for (const char* matrix :
       {"[[1, 2], [3]]", "[[1], [3]]", "[[1, 2, 3], [4, 5, 6]]", "[[], []]", "[1, 2]",
        "[[1, -2], [3, 4]]", "[[1, 2], [3, 1e300]]", "[[1, 2], [3, 9223372036854775807]]",
        "[[1, 2], [3, \"4\"]]", "[[1, 2], {\"a\": 3, \"b\": 4}]"}) {
    CAPTURE(matrix);
    set_confusion(folder.path(), matrix);
    CHECK_THROWS_WITH_AS(read_run(folder.path()), doctest::Contains("run.json: is damaged: "),
                         DataError);
  }
  set_confusion(folder.path(), "[[1, 2, 3], [4, 5, 6]]");
  CHECK_THROWS_WITH_AS(
      read_run(folder.path()),
      doctest::Contains("the confusion matrix has 2 rows, and row 1 has 3 numbers"), DataError);
  set_confusion(folder.path(), "[]");
  CHECK(read_run(folder.path()).results.at(Split::kTest).classes.empty());
}

TEST_CASE("run files: counts by class and top confusions of many classes are checked") {
  const Folder folder;
  test::write_run(folder.path(), {});
  const test::Json record = test::Json::parse(read_text_file(folder.path() / "run.json"));
  const auto read_with = [&](const char* counts, const char* top) {
    test::Json changed = record;
    test::Json& test = changed["finished"]["metrics"]["test"];
    test.erase("confusion");
    test["class_counts"] = test::Json::parse(counts);
    test["top_confusions"] = test::Json::parse(top);
    write_file_atomic(folder.path() / "run.json", changed.dump());
    return read_run(folder.path()).results.at(Split::kTest);
  };
  const char* counts = R"({"support":[4,5],"predicted":[3,6],"correct":[2,4]})";
  const SplitResult result = read_with(counts, "[[0,1,2],[1,0,1]]");
  REQUIRE(result.classes.size() == 2);
  CHECK(result.classes[1].support == 5);
  CHECK(result.classes[1].predicted == 6);
  CHECK(result.classes[1].correct == 4);
  CHECK(result.confusions == std::vector<engine::ConfusionCell>{{0, 1, 2}, {1, 0, 1}});
  for (const char* top :
       {"[[0,2,1]]", "[[2,0,1]]", "[[0,1]]", "[[0,1,2,3]]", "[[-1,0,1]]", "[7]", "[[0,1,1e300]]"}) {
    CAPTURE(top);
    CHECK_THROWS_WITH_AS(read_with(counts, top), doctest::Contains("run.json: is damaged: "),
                         DataError);
  }
  for (const char* other : {R"({"support":[4,5],"predicted":[3],"correct":[2,4]})",
                            R"({"support":[4,5],"predicted":[3,6]})", "[]"}) {
    CAPTURE(other);
    CHECK_THROWS_WITH_AS(read_with(other, "[]"), doctest::Contains("run.json: is damaged: "),
                         DataError);
  }
}

TEST_CASE("read_run names run.json and the key of a value that is damaged") {
  const Folder folder;
  test::write_run(folder.path(), {});
  const test::Json record = test::Json::parse(read_text_file(folder.path() / "run.json"));
  const std::vector<std::pair<const char*, test::Json>> cases{
      {"/replicas", 1e300},
      {"/total_steps", std::uint64_t{0x8000000000000000u}},
      {"/sessions/0/seconds", "long"},
      {"/sessions/0/peak_memory_bytes", -1e30},
      {"/finished/images_per_second", "fast"},
      {"/classes", test::Json::object()}};
  for (const auto& [pointer, value] : cases) {
    test::Json changed = record;
    changed[test::Json::json_pointer(pointer)] = value;
    write_file_atomic(folder.path() / "run.json", changed.dump());
    const std::string key = Path(pointer).filename().string();
    CHECK_THROWS_WITH_AS(read_run(folder.path()), doctest::Contains("run.json: is damaged: "),
                         DataError);
    CHECK_THROWS_WITH_AS(read_run(folder.path()), doctest::Contains(key.c_str()), DataError);
  }
}

TEST_CASE("read_run reads the run.json of an older version, which lacks keys") {
  const Folder folder;
  test::write_run(folder.path(), {});
  test::Json record = test::Json::parse(read_text_file(folder.path() / "run.json"));
  for (const char* key : {"machine", "cores", "base", "price_per_hour"}) record.erase(key);
  record["sessions"][0].erase("peak_memory_bytes");
  write_file_atomic(folder.path() / "run.json", record.dump());
  const RunFiles run = read_run(folder.path());
  CHECK(run.sessions.size() == 1);
  CHECK(run.peak_memory_bytes == 0);
  CHECK(run.finished);
}

TEST_CASE("read_run ignores counts of the ledger that are too large") {
  const Folder folder;
  test::write_run(folder.path(), {});
  write_file_atomic(folder.path() / "ledger.csv",
                    "step,samples,loss,parameters\n1,9223372036854775807,1,\n"
                    "2,9223372036854775807,1,\n3,-5,1,\n4,32,1,\n");
  const RunFiles run = read_run(folder.path());
  CHECK(run.ledger[0].samples == 0);
  CHECK(run.ledger[2].samples == 0);
  CHECK(run.ledger[3].samples == 32);
}

TEST_CASE("run files: a column of a device with a long number is not a device") {
  const Folder folder;
  test::write_run(folder.path(), {});
  write_file_atomic(folder.path() / "metrics.csv",
                    "step,split,gpu99999999999999999999_utilization,gpu_utilization,"
                    "gpu10000_utilization,gpu9999_utilization\n1,train,1,2,3,4\n");
  const RunFiles run = read_run(folder.path());
  REQUIRE(run.devices.size() == 1);
  CHECK(run.devices.begin()->first == "gpu9999_utilization");
}

TEST_CASE(
    "read_run sums the energy of all sessions and per image, and has none if a session has none") {
  const TemporaryFolder folder;
  FakeRun fake;
  fake.sessions = test::Json::array({{{"energy_joules", 100}, {"joules_per_image", 0.5}},
                                     {{"energy_joules", 500}, {"joules_per_image", 0.25}}});
  test::write_run(folder.path(), fake);
  RunFiles run = read_run(folder.path());
  CHECK(run.energy_joules.value() == 600);
  CHECK(run.joules_per_image.value() == doctest::Approx(600.0 / 2200));
  // One of them was killed: its energy is not known.
  fake.sessions.push_back({{"seconds", 1}});
  test::write_run(folder.path(), fake);
  run = read_run(folder.path());
  CHECK(!run.energy_joules);
  CHECK(!run.joules_per_image);
  fake.sessions = nullptr;
  test::write_run(folder.path(), fake);
  CHECK(!read_run(folder.path()).energy_joules);
}

TEST_CASE("run files: control characters of a crafted run.json are escaped") {
  const TemporaryFolder folder;
  test::write_run(folder.path(), {});
  test::Json record = test::Json::parse(read_text_file(folder.path() / "run.json"));
  record["name"] = "a\nb\x1b[31m";
  record["classes"] = {"cat\r", "d\xc3\xb6g"};
  record["sessions"][0]["step_times"] =
      test::step_times({test::rank_times("r\n0", test::Json::object())});
  record["finished"]["reason"] = "done\x1b";
  record["data_notices"] = {{{"kind", "note"}, {"text", "a\nb"}}};
  write_file_atomic(folder.path() / "run.json", record.dump());
  const RunFiles run = read_run(folder.path());
  CHECK(run.name == "a\\x0ab\\x1b[31m");
  CHECK(run.classes == std::vector<std::string>{"cat\\x0d", "d\xc3\xb6g"});
  CHECK(run.ranks == std::vector<std::string>{"r\\x0a0"});
  CHECK(run.finished->reason == "done\\x1b");
  REQUIRE(run.data_notices.size() == 1);
  CHECK(run.data_notices[0].text == "a\\x0ab");
  CHECK(run.data_notices[0].kind == Notice::Kind::kNote);
}

}  // namespace trainer::results
