// What devices did over a stretch of a run, from readings of their telemetry.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/telemetry.h"

namespace trainer::engine {

// Times that devices stood between their programs: StreamGaps.
using Gaps = backend::StreamGaps;

// What is read of a device besides its energy.
struct DeviceMetric {
  const char* name;  // with its unit: "power_watts"
  std::optional<double> backend::DeviceReading::*value;
};
inline constexpr std::array<DeviceMetric, 7> kDeviceMetrics{{
    {"utilization", &backend::DeviceReading::utilization},
    {"memory_utilization", &backend::DeviceReading::memory_utilization},
    {"memory_bytes", &backend::DeviceReading::memory_bytes},
    {"power_watts", &backend::DeviceReading::power_watts},
    {"temperature_celsius", &backend::DeviceReading::temperature_celsius},
    {"sm_clock_mhz", &backend::DeviceReading::sm_clock_mhz},
    {"memory_clock_mhz", &backend::DeviceReading::memory_clock_mhz},
}};
inline constexpr char kDeviceEnergy[] = "energy_joules";

// What a device did, in the order of kDeviceMetrics; nothing where it does not say.
struct DeviceUse {
  std::string device;                                              // "gpu0"
  std::array<std::optional<double>, kDeviceMetrics.size()> means;  // over the readings
  std::optional<double> energy_joules;                             // used up
};

// The readings of a device since the first.
class DeviceTotals {
 public:
  explicit DeviceTotals(std::string device) : device_(std::move(device)) {}
  // `seconds` is of any clock that does not go back.
  void add(const backend::DeviceReading& reading, double seconds);
  const std::string& device() const { return device_; }
  // Of the readings from after `earlier` on, which are totals of the same device at an earlier
  // time; the last reading where there are none. Its energy is that used up since.
  DeviceUse since(const DeviceTotals& earlier) const;
  // Of all readings.
  DeviceUse use() const { return since(DeviceTotals(device_)); }

 private:
  struct Sum {
    double sum = 0, last = 0;
    std::int64_t count = 0;
  };
  std::string device_;
  std::array<Sum, kDeviceMetrics.size()> sums_;
  // Joules since the first reading: of the device's counter, or its power over the time.
  std::optional<double> energy_;
  std::optional<double> counter_, power_;  // of the last reading that had them
  double power_seconds_ = 0;
};

// The energy of all devices together; nothing unless each has it.
std::optional<double> energy_joules(const std::vector<DeviceUse>& devices);

}  // namespace trainer::engine
