// What hooks write of the devices that a run measures.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hooks/run_record.h"
#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using namespace test;
using engine::DeviceTotals;

// Two GPUs; each call of read() is a reading of both. The first has everything, the second its
// load alone.
class Gpus {
 public:
  void read(double load) {
    ++readings_;
    backend::DeviceReading all;
    all.utilization = load;
    all.memory_utilization = load / 2;
    all.memory_bytes = 3.0 * (1u << 30);
    all.power_watts = 300;
    all.temperature_celsius = 64;
    all.sm_clock_mhz = 1755;
    all.memory_clock_mhz = 2619;
    all.energy_joules = 100 * readings_;
    totals_[0].add(all, readings_);
    backend::DeviceReading little;
    little.utilization = load / 4;
    totals_[1].add(little, readings_);
  }
  RunInfo measured(RunInfo info) {
    // A gap of 1 ms before the first reading, of 2 ms before the second, ...
    info.gaps = [this] {
      return engine::Gaps{static_cast<std::int64_t>(readings_),
                          1e-3 * readings_ * (readings_ + 1) / 2};
    };
    info.device_totals = [this] { return totals_; };
    return info;
  }
  Finish finished() const {
    Finish end = finish(FinishReason::kDone);
    for (const DeviceTotals& totals : totals_) end.devices.push_back(totals.use());
    end.energy_joules = 4321;
    end.joules_per_image = 0.5;
    end.gap_seconds = 0.0000125;
    return end;
  }

 private:
  double readings_ = 0;
  std::vector<DeviceTotals> totals_{DeviceTotals("gpu0"), DeviceTotals("gpu1")};
};

void run_steps(Hook& hook, Gpus& gpus, std::int64_t first, std::int64_t last) {
  for (std::int64_t n = first; n <= last; ++n) {
    gpus.read(static_cast<double>(n) / 10);
    hook.on_step(after_step(n));
  }
}

std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char letter : line) {
    if (letter == ',') {
      fields.emplace_back();
    } else {
      fields.back() += letter;
    }
  }
  return fields;
}

// The field of a column in row `row`, counted from 0 without the header.
std::string field(const TemporaryFolder& folder, std::size_t row, const std::string& column) {
  const auto lines = split_into_lines(read_text_file(folder.path() / "metrics.csv"));
  const auto header = split_fields(lines.at(0));
  const auto at = std::find(header.begin(), header.end(), column);
  if (at == header.end()) return "no such column";
  return split_fields(lines.at(row + 1)).at(static_cast<std::size_t>(at - header.begin()));
}

}  // namespace

TEST_CASE("metric files: columns of each GPU cover the steps since the last row") {
  const TemporaryFolder folder;
  Gpus gpus;
  gpus.read(0.7);  // before the first step
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(gpus.measured(run_info(folder.path())));
    run_steps(*hook, gpus, 1, 8);
    hook->on_evaluation(evaluation(Split::kValidation, 8, 0.1));
  }
  CHECK(field(folder, 0, "gpu0_utilization") == "0.25");
  CHECK(field(folder, 1, "gpu0_utilization") == "0.65");
  CHECK(field(folder, 1, "gpu0_memory_utilization") == "0.325");
  CHECK(field(folder, 1, "gpu0_memory_bytes") == "3221225470.0");
  CHECK(field(folder, 1, "gpu0_power_watts") == "300.0");
  CHECK(field(folder, 1, "gpu0_temperature_celsius") == "64.0");
  CHECK(field(folder, 1, "gpu0_sm_clock_mhz") == "1755.0");
  CHECK(field(folder, 1, "gpu0_memory_clock_mhz") == "2619.0");
  CHECK(field(folder, 1, "gpu0_energy_joules") == "400.0");
  CHECK(field(folder, 1, "gpu1_utilization") == "0.1625");
  CHECK(field(folder, 1, "gpu1_power_watts").empty());
  CHECK(field(folder, 0, "gap_seconds") == "0.0035");  // readings 2 to 5
  CHECK(field(folder, 1, "gap_seconds") == "0.0075");
  CHECK(field(folder, 2, "gpu0_utilization").empty());  // an evaluation
  const auto rows = split_into_lines(read_text_file(folder.path() / "metrics.jsonl"));
  const auto row = nlohmann::json::parse(rows.at(1));
  CHECK(row["gpu0_energy_joules"] == 400);
  CHECK(row["gpu1_power_watts"].is_null());
}

TEST_CASE("metric files: the columns of GPUs stay when a run is resumed without GPUs") {
  const TemporaryFolder folder;
  Gpus gpus;
  gpus.read(0.5);
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(gpus.measured(run_info(folder.path())));
    run_steps(*hook, gpus, 1, 4);
  }
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(run_info(folder.path(), 4));
    for (std::int64_t n = 5; n <= 8; ++n) hook->on_step(after_step(n));
  }
  CHECK(field(folder, 0, "gpu0_utilization") == "0.25");
  CHECK(field(folder, 1, "gpu0_utilization").empty());
  CHECK(field(folder, 1, "step") == "8");
}

TEST_CASE("metric files: a run that is resumed with GPUs gets new columns of GPUs") {
  const TemporaryFolder folder;
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(run_info(folder.path()));
    for (std::int64_t n = 1; n <= 4; ++n) hook->on_step(after_step(n));
  }
  Gpus gpus;
  gpus.read(0.5);
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(gpus.measured(run_info(folder.path(), 4)));
    run_steps(*hook, gpus, 5, 8);
  }
  CHECK(field(folder, 0, "gpu0_utilization").empty());
  CHECK(field(folder, 0, "loss") == "0.25");
  CHECK(field(folder, 1, "gpu0_utilization") == "0.65");
}

TEST_CASE("progress: each GPU and the energy have closing lines") {
  std::ostringstream out;
  Gpus gpus;
  gpus.read(0.87);
  const auto hook = make_progress_hook(out, false, false, steps(4));
  hook->on_start(gpus.measured(run_info("r")));
  out.str("");
  gpus.read(0.87);
  hook->on_finish(gpus.finished());
  CHECK(out.str().find("gap between steps on a device: 0.013 ms\n"
                       "gpu0: utilization 87 %, memory accessed 44 % of the time, memory 3.0 GiB, "
                       "300 W, 64 C, SM clock 1755 MHz, memory clock 2619 MHz, 100 J\n"
                       "gpu1: utilization 22 %\n"
                       "energy: 4321 J, 0.5 J/image\n"
                       "wall time: ") == 0);
}

TEST_CASE("json: finished has the devices and the energy") {
  std::ostringstream out;
  Gpus gpus;
  gpus.read(0.5);
  const auto hook = make_json_hook(out, steps(4));
  hook->on_start(gpus.measured(run_info("r")));
  hook->on_finish(gpus.finished());
  const auto line = nlohmann::json::parse(split_into_lines(out.str()).back());
  CHECK(line["energy_joules"] == 4321);
  CHECK(line["joules_per_image"] == 0.5);
  CHECK(line["gap_seconds"] == 0.0000125);
  REQUIRE(line["devices"].size() == 2);
  CHECK(line["devices"][0]["device"] == "gpu0");
  CHECK(line["devices"][0]["power_watts"] == 300);
  CHECK(line["devices"][1]["utilization"] == 0.125);
  CHECK(!line["devices"][1].contains("power_watts"));
}

TEST_CASE("tensorboard: each metric of each GPU is a scalar") {
  const TemporaryFolder folder;
  Gpus gpus;
  gpus.read(0.5);
  {
    const auto hook = make_tensorboard_hook({steps(4)});
    hook->on_start(gpus.measured(run_info(folder.path())));
    run_steps(*hook, gpus, 1, 4);
  }
  std::string all;
  for (const auto& file :
       std::filesystem::directory_iterator(folder.path() / "tensorboard" / "train")) {
    all += read_text_file(file.path());
  }
  for (const char* tag : {"gap_seconds", "gpu0/utilization", "gpu0/power_watts",
                          "gpu0/energy_joules", "gpu1/utilization"}) {
    CHECK_MESSAGE(all.find(tag) != std::string::npos, tag);
  }
  CHECK(all.find("gpu1/power_watts") == std::string::npos);
}

TEST_CASE("run record: each session has its energy") {
  const TemporaryFolder folder;
  Gpus gpus;
  gpus.read(0.5);
  const auto hook = make_run_record_hook({});
  hook->on_start(gpus.measured(run_info(folder.path())));
  hook->on_finish(gpus.finished());
  const auto record = nlohmann::json::parse(read_text_file(folder.path() / "run.json"));
  REQUIRE(record["sessions"].size() == 1);
  CHECK(record["sessions"][0]["energy_joules"] == 4321);
  CHECK(record["sessions"][0]["joules_per_image"] == 0.5);
}

}  // namespace trainer::hooks
