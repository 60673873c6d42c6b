#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "engine/step_times.h"
#include "results/page/page.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

using engine::RankTimes;
using engine::StepPhase;

using Points = std::vector<std::pair<double, double>>;

// A measured column of a GPU as the reader sees it.
struct Measure {
  const char* column;  // behind "gpu0_"
  const char* title;
  const char* unit;
  double factor;
  int digits;
};
constexpr Measure kMeasures[] = {
    {"utilization", "GPU utilisation", "%", 100, 0},
    {"memory_bytes", "GPU memory in use", "GiB", 1.0 / (1 << 30), 2},
    {"power_watts", "GPU power", "W", 1, 0},
    {"temperature_celsius", "GPU temperature", "degrees Celsius", 1, 0},
};

std::string mebibytes(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 1);
}

// The share of a step in which a rank computes, and what keeps it from that.
std::string ranks(const RunFiles& run) {
  if (run.step_times.empty()) return "";
  Cells cells{{"rank", "computing", "waiting for data", "copying", "all-reduce", "other"}};
  for (std::size_t i = 0; i < run.step_times.ranks(); ++i) {
    const RankTimes mean = run.step_times.mean_times(i);
    const double whole = mean.total();
    if (whole <= 0) return "";
    const auto share = [&](std::initializer_list<StepPhase> phases) {
      double sum = 0;
      for (const StepPhase phase : phases) sum += mean[phase];
      return percent(sum / whole);
    };
    const bool has_name = i < run.ranks.size() && !run.ranks[i].empty();
    cells.push_back({has_name ? run.ranks[i] : concat("rank ", i),
                     share({StepPhase::kForward, StepPhase::kBackward, StepPhase::kUpdate}),
                     share({StepPhase::kDataWait}), share({StepPhase::kCopy}),
                     share({StepPhase::kAllReduce}), share({StepPhase::kOther})});
  }
  return table("What each rank does in a step", cells, 1);
}

std::string memory(const RunFiles& run) {
  Cells cells{{"memory", "MiB"}};
  std::int64_t all = 0;
  for (const auto& [what, bytes] : run.memory) {
    cells.push_back({what, mebibytes(bytes)});
    all += bytes;
  }
  if (!run.memory.empty()) cells.push_back({"a rank in all, as planned", mebibytes(all)});
  cells.push_back({"process, at its peak", mebibytes(run.peak_memory_bytes)});
  return table("Memory of a rank on its device, and of the process", cells, 1);
}

// Returns the devices that have a column, "gpu2" before "gpu10".
std::vector<std::string> list_devices(const RunFiles& run) {
  std::set<std::int64_t> numbers;
  for (const auto& [column, points] : run.devices) {
    const auto number = parse_integer(column.substr(3, column.find('_') - 3));
    if (number) numbers.insert(*number);
  }
  std::vector<std::string> names;
  for (const std::int64_t number : numbers) names.push_back(concat("gpu", number));
  return names;
}

// Returns "-" when the device has no telemetry.
std::string extent(const RunFiles& run, const std::string& device, const Measure& measure) {
  const auto found = run.devices.find(device + '_' + measure.column);
  if (found == run.devices.end()) return "-";
  double sum = 0, most = -INFINITY;
  for (const auto& [step, value] : found->second) {
    sum += value;
    most = std::max(most, value);
  }
  const double mean = sum / static_cast<double>(found->second.size());
  return concat(fixed(mean * measure.factor, measure.digits), " (",
                fixed(most * measure.factor, measure.digits), ")");
}

std::string gpu_table(const RunFiles& run) {
  Cells cells{{"device"}};
  for (const Measure& measure : kMeasures) {
    cells.front().push_back(concat(measure.title, ", ", measure.unit));
  }
  cells.front().emplace_back("energy, J");
  for (const std::string& device : list_devices(run)) {
    cells.push_back({device});
    for (const Measure& measure : kMeasures) {
      cells.back().push_back(extent(run, device, measure));
    }
    const auto energy = run.devices.find(device + "_energy_joules");
    double joules = 0;
    if (energy != run.devices.end()) {
      for (const auto& [step, value] : energy->second) joules += value;
    }
    cells.back().push_back(energy == run.devices.end() ? "-" : fixed(joules, 0));
  }
  return table("Every GPU: the mean over the run, and the highest of the rows in parentheses",
               cells, 1);
}

}  // namespace

std::vector<Chart> device_charts(const RunFiles& run) {
  std::vector<Chart> charts;
  for (const Measure& measure : kMeasures) {
    Chart chart{concat("device-", measure.column),
                measure.title,
                "step",
                concat(measure.title, " (", measure.unit, ")"),
                {},
                true};
    std::ranges::replace(chart.id, '_', '-');
    for (const std::string& device : list_devices(run)) {
      const auto found = run.devices.find(device + '_' + measure.column);
      if (found == run.devices.end()) continue;
      Series series{device, found->second};
      for (auto& [step, value] : series.points) value *= measure.factor;
      chart.series.push_back(std::move(series));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

std::string device_section(const RunFiles& run) {
  const std::string text = heading("Devices") + ranks(run) + memory(run);
  if (run.devices.empty()) return text;
  return text + gpu_table(run) + chart_grid(device_charts(run));
}

}  // namespace trainer::results
