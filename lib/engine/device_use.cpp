#include "engine/device_use.h"

#include <algorithm>

namespace trainer::engine {

void DeviceTotals::add(const backend::DeviceReading& reading, double seconds) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const std::optional<double>& value = reading.*kDeviceMetrics[i].value;
    if (!value) continue;
    sums_[i].sum += *value;
    sums_[i].last = *value;
    ++sums_[i].count;
  }
  if (reading.energy_joules) {
    // A counter that went back was reset, so that the energy used in between is unknown.
    const double used = counter_ ? std::max(0.0, *reading.energy_joules - *counter_) : 0;
    energy_ = energy_.value_or(0) + used;
    counter_ = reading.energy_joules;
  } else if (reading.power_watts && !counter_) {
    const double used =
        power_ ? (*power_ + *reading.power_watts) / 2 * (seconds - power_seconds_) : 0;
    energy_ = energy_.value_or(0) + used;
    power_ = reading.power_watts;
    power_seconds_ = seconds;
  }
}

DeviceUse DeviceTotals::since(const DeviceTotals& earlier) const {
  DeviceUse use;
  use.device = device_;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& now = sums_[i];
    const Sum& before = earlier.sums_[i];
    if (now.count == 0) continue;
    const auto count = static_cast<double>(now.count - before.count);
    use.means[i] = count > 0 ? (now.sum - before.sum) / count : now.last;
  }
  if (energy_) use.energy_joules = *energy_ - earlier.energy_.value_or(0);
  return use;
}

std::optional<double> energy_joules(const std::vector<DeviceUse>& devices) {
  if (devices.empty()) return std::nullopt;
  double sum = 0;
  for (const DeviceUse& use : devices) {
    if (!use.energy_joules) return std::nullopt;
    sum += *use.energy_joules;
  }
  return sum;
}

}  // namespace trainer::engine
