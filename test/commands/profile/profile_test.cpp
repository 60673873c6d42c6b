#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "commands/profile/input_profile.h"
#include "commands/profile/layer_profile.h"
#include "commands/profile/profile_print.h"
#include "commands/profile/trace_file.h"
#include "data/open.h"
#include "data/samples/stage_times.h"
#include "model/build_model.h"
#include "results/write_json.h"
#include "support/model.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::json;

config::Config build_config(std::int64_t replicas) {
  config::Config config = test::build_config(
      "{layers: [conv: {filters: 8, activation: relu, name: first}, max_pool, flatten, dense: "
      "{units: 3, name: last}]}",
      "optimizer: {sgd: {learning_rate: 0.01}}\nparallel: {bucket_mb: 0.0001}\n");
  config.train.batch_size = 16;
  config.parallel.replicas = replicas;
  config.parallel.threads = 2;
  config.data.format = config::DataFormat::kSynthetic;
  config.data.synthetic.train_samples = 320;  // whole batches
  config.data.synthetic.shape = {12, 12, 1};
  config.data.synthetic.classes = 3;
  return config;
}

// A profile, and what its texts need.
struct Profiled {
  explicit Profiled(const config::Config& config, std::int64_t steps)
      : data(train::open_training_data(config, Split::kTrain)),
        engine(model::build_model(config.model, config.data, train::sample_spec(data), 1), config,
               engine::open_backends(config, {}), engine::Use::kTrain) {
    engine.initialise(1);
    layers = profile_layers(engine, *data.train, config, steps);
  }

  const ProfileRow& row(const std::string& name) const {
    const auto found =
        std::find_if(layers.rows.begin(), layers.rows.end(),
                     [&](const ProfileRow& candidate) { return candidate.name == name; });
    REQUIRE_MESSAGE(found != layers.rows.end(), name);
    return *found;
  }

  data::Datasets data;
  engine::Engine engine;
  LayerProfile layers;
};

}  // namespace

TEST_CASE("profile: times and work of layers are at most the time of a step in total") {
  for (const std::int64_t replicas : {1, 2}) {
    CAPTURE(replicas);
    const Profiled profiled(build_config(replicas), 4);
    const LayerProfile& layers = profiled.layers;
    CHECK(layers.has_layers);
    CHECK(layers.ranks == replicas);
    CHECK(layers.samples == 16 * replicas);
    CHECK(layers.timeline.steps.size() == 4);
    // 10 x 10 outputs of 8 filters; pooled to 5 x 5, 200 numbers. Of the first layer backward has
    // the weights' gradient alone.
    const auto samples = static_cast<double>(16 * replicas);
    CHECK(profiled.row("first").flops == 2 * 2.0 * 9 * 100 * 8 * samples);
    CHECK(profiled.row("last").flops == 3 * 2.0 * 200 * 3 * samples);
    for (const char* name : {"first", "last"}) {
      CHECK(profiled.row(name).forward_seconds > 0);
      CHECK(profiled.row(name).backward_seconds > 0);
      CHECK(profiled.row(name).implementations.find("; ") != std::string::npos);
    }
    CHECK_FALSE(profiled.row("update").is_layer);
    CHECK(profiled.row("update").seconds() > 0);
    CHECK(layers.seconds_of_layers() > 0);
    CHECK(layers.seconds_of_layers() < layers.seconds_of_rows());
    CHECK(layers.seconds_of_rows() == doctest::Approx(layers.step_seconds).epsilon(0.001));
    CHECK(layers.times.steps() == 4);
    CHECK(layers.times.ranks() == static_cast<std::size_t>(replicas));
    CHECK(layers.device_seconds() <= layers.step_seconds);
  }
}

TEST_CASE(
    "profile: the trace has the steps, phases around their layers, and buckets between ranks") {
  const Profiled profiled(build_config(2), 3);
  const Json trace = Json::parse(trace_json(profiled.layers));
  CHECK(trace.at("displayTimeUnit") == "ms");
  std::map<int, std::string> processes;
  std::set<std::string> threads, names;
  struct Slice {
    double start, end;
  };
  std::map<std::pair<int, int>, std::vector<Slice>> phases;  // by process and thread
  for (const Json& event : trace.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "M") {
      const std::string name = event.at("args").at("name");
      if (event.at("name") == "process_name") processes[event.at("pid")] = name;
      if (event.at("name") == "thread_name") threads.insert(name);
      continue;
    }
    REQUIRE(kind == "X");
    CHECK(event.at("ts").get<double>() >= 0);
    CHECK(event.at("dur").get<double>() >= 0);
    names.insert(event.at("name"));
    const std::string name = event.at("name");
    if (name != "forward" && name != "backward") continue;
    const double start = event.at("ts");
    phases[{event.at("pid"), event.at("tid")}].push_back(
        {start, start + event.at("dur").get<double>()});
  }
  CHECK(processes.size() == 3);
  CHECK(processes[1] == "host");
  CHECK(processes[2].starts_with("rank 0 ("));
  CHECK(processes[3].starts_with("rank 1 ("));
  for (const char* name : {"training loop", "worker thread 0", "all-reduce"}) {
    CAPTURE(name);
    CHECK(threads.contains(name));
  }
  for (const char* name : {"step 1", "step 3", "data wait", "device", "forward", "backward",
                           "update", "first", "last", "all-reduce bucket"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
  // A thread's layers lie in a phase of the same thread. Times are rounded to parts of a
  // microsecond.
  constexpr double kRounding = 0.01;
  int layers = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || !event.at("args").contains("implementation")) continue;
    ++layers;
    const double start = event.at("ts"), end = start + event.at("dur").get<double>();
    const auto& around = phases[{event.at("pid"), event.at("tid")}];
    CHECK(std::any_of(around.begin(), around.end(), [&](const Slice& slice) {
      return slice.start <= start + kRounding && end <= slice.end + kRounding;
    }));
  }
  CHECK(layers > 0);
}

TEST_CASE("profile: a trace has one line for each thread of the loader") {
  const ProfileTimeline::Clock::time_point start{};
  LayerProfile profile;
  for (const int thread : {0, 1, -1}) {
    profile.timeline.reads.push_back({thread + 5, thread, start, start});
  }
  std::map<std::string, int> lines;  // by what is read
  std::map<int, std::string> names;
  const Json trace = Json::parse(trace_json(profile));
  for (const Json& event : trace.at("traceEvents")) {
    const std::string name = event.at("name");
    if (event.at("ph") == "X") lines[name] = event.at("tid");
    if (name == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  CHECK(names[lines["read batch 5"]] == "loader thread 0");
  CHECK(names[lines["read batch 6"]] == "loader thread 1");
  CHECK(names[lines["read batch 4"]] == "training loop");
}

TEST_CASE("profile is printed as text and as a JSON event") {
  const Profiled profiled(build_config(1), 2);
  Profile profile{profiled.layers, {}, {1e9, {2e9, 8e9, 1e3}}};
  profile.input.images_per_second = 100;
  profile.input.devices_fed = 2;
  profile.input.suggested_threads = 3;
  profile.input.cores = 2;
  std::ostringstream text, line;
  print_profile(profile, text);
  results::print_json(profile, line);
  for (const char* part :
       {"2 steps of 16 samples on ", "layer ", "first", "GFLOP/s", "of a step of ",
        "peak: 1.0 GFLOP/s", "of limit", "memory, 2.0 GB/s, or through the second caches, 8.0 GB/s",
        "time of a step: ", "and can feed 2.0 devices of this speed",
        "data.threads: 3 would keep 1 device supplied; there are 2 cores"}) {
    INFO(text.str());
    CAPTURE(part);
    CHECK(text.str().find(part) != std::string::npos);
  }
  const Json event = Json::parse(line.str());
  CHECK(event.at("event") == "profile");
  CHECK(event.at("rows").at(0).at("name") == "input");
  CHECK(event.at("rows_seconds").get<double>() ==
        doctest::Approx(event.at("step_seconds").get<double>()).epsilon(0.001));
  CHECK(event.at("input").at("suggested_threads") == 3);
}

namespace {

// Every sample takes a millisecond to read and two to decode, which is what the profile measures.
class SlowImages final : public data::Dataset {
 public:
  SlowImages() { spec_.image_shape = {4, 4, 1}; }
  std::int64_t size() const override { return 1000; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t, std::int64_t, void*, void*) const override {
    using std::chrono::milliseconds;
    {
      const data::StageTimer timer(data::ReadStage::kRead);
      std::this_thread::sleep_for(milliseconds(1));
    }
    const data::StageTimer timer(data::ReadStage::kDecode);
    std::this_thread::sleep_for(milliseconds(2));
  }
  std::string fingerprint() const override { return "slow"; }

 private:
  data::DatasetSpec spec_;
};

}  // namespace

TEST_CASE("profile: stages of the input have their rate and the number of threads that they need") {
  const SlowImages images;
  config::Config config = build_config(1);
  config.train.batch_size = 4;
  config.data.threads = 1;
  const InputProfile profile = profile_input(images, config, 0.2, 500, 2);
  CHECK(profile.samples > 0);
  CHECK(profile.loader == "1 thread, 4 batches ahead");
  CHECK(profile.stages[0] >= 0.001);
  CHECK(profile.stages[1] >= 0.002);
  CHECK(profile.stages[2] == 0);
  CHECK(profile.batch_seconds >= 0);
  CHECK(profile.images_per_second < 600);  // 333, and what is ready when the clock starts
  CHECK(profile.devices_fed == doctest::Approx(profile.images_per_second / 500));
  // 1000 images per second of at least 3 ms each.
  CHECK(profile.suggested_threads >= 3);
  CHECK(profile.suggested_threads == std::ceil(1000 * profile.seconds_per_sample()));
}

TEST_CASE("profile suggests no thread for samples in memory") {
  const Profiled profiled(build_config(1), 1);
  CHECK(profile_input(*profiled.data.train, build_config(1), 0.01, 500, 2).suggested_threads == 0);
}

TEST_CASE("profile: the minimum time of a layer is the larger of its operations and its operands") {
  const Limits limits{100, {10, 50, 200}};
  ProfileRow row;
  row.flops = 1000;
  row.bytes = 90;
  CHECK(least_seconds(row, limits) == 10);  // at the peak
  row.bytes = 1000;
  CHECK(least_seconds(row, limits) == 100);  // through memory
  row.flops = 0;
  row.bytes = 200;
  CHECK(least_seconds(row, limits) == 4);  // through the second caches
  row.is_layer = false;
  CHECK(least_seconds(row, limits) == 0);
  row.is_layer = true;
  CHECK(least_seconds(row, {100, {}}) == 0);
  CHECK(least_seconds(row, {0, {10, 50, 200}}) == 0);
}

TEST_CASE("profile: operands of a layer are its values and its parameters, each counted once") {
  const Profiled profiled(build_config(1), 1);
  const Limits limits{1, {1, 1, 0}};
  for (const ProfileRow& row : profiled.layers.rows) {
    CAPTURE(row.name);
    if (row.flops > 0) CHECK(row.bytes > 0);
    if (row.is_layer) CHECK(least_seconds(row, limits) == std::max(row.flops, row.bytes));
  }
}

TEST_CASE("measure_bandwidth: caches are faster than memory, with one and several threads") {
  for (const int threads : {1, 2}) {
    const Bandwidth bandwidth = measure_bandwidth(threads, 0);
    CHECK(bandwidth.memory > 1e7);
    CHECK(bandwidth.cache > 1e7);
    CHECK(bandwidth.cache_bytes >= threads * 1e5);
  }
}

TEST_CASE("measure_peak: does not depend on the model of the config") {
  config::Config config = build_config(2);
  config.data.preprocess = config::PreprocessPreset::kCaffe;  // for images of three channels
  CHECK(measure_peak(config, {}, 0) > 1e8);
}

}  // namespace trainer::commands
