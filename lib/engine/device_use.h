// Summarises the telemetry of devices over a part of a run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/telemetry.h"

namespace trainer::engine {

// The times for which devices were idle between their programs.
using Gaps = backend::StreamGaps;

// A quantity that is read of a device besides its energy.
struct DeviceMetric {
  const char* name;  // includes its unit: "power_watts"
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

// The metrics of a device over an interval, in the order of kDeviceMetrics; nothing where the
// device does not report one.
struct DeviceUse {
  std::string device;                                              // "gpu0"
  std::array<std::optional<double>, kDeviceMetrics.size()> means;  // means over the readings
  std::optional<double> energy_joules;                             // the energy used
};

// Sums up the readings of a device.
class DeviceTotals {
 public:
  explicit DeviceTotals(std::string device) : device_(std::move(device)) {}
  // Adds a reading. `seconds` is the time of any clock that does not go back.
  void add(const backend::DeviceReading& reading, double seconds);
  const std::string& device() const { return device_; }
  // Returns the metrics of the readings after `earlier`, which are totals of the same device at an
  // earlier time, or the last reading if there are none. The energy is that used since `earlier`.
  DeviceUse since(const DeviceTotals& earlier) const;
  // Returns the metrics of all readings.
  DeviceUse use() const { return since(DeviceTotals(device_)); }

 private:
  struct Sum {
    double sum = 0, last = 0;
    std::int64_t count = 0;
  };
  std::string device_;
  std::array<Sum, kDeviceMetrics.size()> sums_;
  // Joules since the first reading: the device's counter, or the integral of its power.
  std::optional<double> energy_;
  std::optional<double> counter_, power_;  // values of the last reading that had them
  double power_seconds_ = 0;
};

// Returns the energy of all devices together; nothing unless each reports it.
std::optional<double> energy_joules(const std::vector<DeviceUse>& devices);

}  // namespace trainer::engine
