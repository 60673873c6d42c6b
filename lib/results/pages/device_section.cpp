#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "engine/step_times.h"
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
std::optional<Table> ranks_table(const RunFiles& run) {
  if (run.step_times.empty()) return {};
  Table table({"rank", "computing", "waiting for data", "copying", "all-reduce", "other"},
              NumbersFrom{1}, "What each rank does in a step");
  for (std::size_t i = 0; i < run.step_times.ranks(); ++i) {
    const RankTimes mean = run.step_times.mean_times(i);
    const double whole = mean.total();
    if (whole <= 0) return {};
    const auto share = [&](std::initializer_list<StepPhase> phases) {
      double sum = 0;
      for (const StepPhase phase : phases) sum += mean[phase];
      return percent(sum / whole);
    };
    table.add({rank_name(run, i),
               share({StepPhase::kForward, StepPhase::kBackward, StepPhase::kUpdate}),
               share({StepPhase::kDataWait}), share({StepPhase::kCopy}),
               share({StepPhase::kAllReduce}), share({StepPhase::kOther})});
  }
  return table;
}

Table memory_table(const RunFiles& run) {
  Table table({"memory", "MiB"}, NumbersFrom{1},
              "Memory of a rank on its device, and of the process");
  std::int64_t all = 0;
  for (const auto& [what, bytes] : run.memory) {
    table.add({what, mebibytes(bytes)});
    all += bytes;
  }
  if (!run.memory.empty()) table.add({"a rank in all, as planned", mebibytes(all)});
  table.add({"process, at its peak", mebibytes(run.peak_memory_bytes)});
  return table;
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

Table gpu_table(const RunFiles& run) {
  std::vector<std::string> header{"device"};
  for (const Measure& measure : kMeasures) {
    header.push_back(concat(measure.title, ", ", measure.unit));
  }
  header.emplace_back("energy, J");
  Table table(std::move(header), NumbersFrom{1},
              "Every GPU: the mean over the run, and the highest of the rows in parentheses");
  for (const std::string& device : list_devices(run)) {
    std::vector<std::string> row{device};
    for (const Measure& measure : kMeasures) row.push_back(extent(run, device, measure));
    const auto energy = run.devices.find(device + "_energy_joules");
    double joules = 0;
    if (energy != run.devices.end()) {
      for (const auto& [step, value] : energy->second) joules += value;
    }
    row.push_back(energy == run.devices.end() ? "-" : fixed(joules, 0));
    table.add(std::move(row));
  }
  return table;
}

// Returns charts of what was measured: utilisation, memory, power, temperature.
Charts device_charts(const RunFiles& run) {
  Charts charts;
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

}  // namespace

std::string rank_name(const RunFiles& run, std::size_t rank) {
  const bool has_name = rank < run.ranks.size() && !run.ranks[rank].empty();
  return has_name ? run.ranks[rank] : concat("rank ", rank);
}

Document device_section(const RunFiles& run) {
  Document section;
  section.add(Heading{"Devices"});
  if (const auto ranks = ranks_table(run)) section.add(*ranks);
  section.add(memory_table(run));
  if (run.devices.empty()) return section;
  section.add(gpu_table(run));
  section.add(device_charts(run));
  return section;
}

}  // namespace trainer::results
