#include "train/loop/device_watch.h"

#include <chrono>
#include <utility>

#include "base/error.h"

namespace trainer::train {
namespace {

// The interval is shorter than the changes of a GPU's load and longer than the time of a reading.
constexpr std::chrono::milliseconds kInterval(500);

}  // namespace

void DeviceWatch::start() {
  try {
    auto devices = engine_.make_telemetry();
    if (!devices.empty()) sampler_.emplace(std::move(devices), kInterval);
  } catch (const DeviceError& error) {
    warn_(concat("the run has no metrics of its GPUs: ", error.what()));
  }
}

void DeviceWatch::warn() {
  if (!sampler_) return;
  for (const std::string& line : sampler_->take_warnings()) warn_(line);
}

void DeviceWatch::describe(hooks::RunInfo& info) const {
  if (engine_.gaps()) info.gaps = [&engine = engine_] { return *engine.gaps(); };
  if (sampler_) info.device_totals = [&sampler = *sampler_] { return sampler.totals(); };
}

void DeviceWatch::finish(hooks::Finish& finish, double images) {
  const std::optional<engine::Gaps> gaps = engine_.gaps();
  if (gaps && gaps->count > 0) {
    finish.gap_seconds = gaps->seconds / static_cast<double>(gaps->count);
  }
  if (!sampler_) return;
  sampler_->stop();
  warn();
  for (const engine::DeviceTotals& totals : sampler_->totals()) {
    finish.devices.push_back(totals.use());
  }
  finish.energy_joules = engine::energy_joules(finish.devices);
  const double total = images * static_cast<double>(engine_.count());
  if (finish.energy_joules && total > 0) finish.joules_per_image = *finish.energy_joules / total;
}

}  // namespace trainer::train
