// The load, power and health of a device while it works.
#pragma once

#include <optional>
#include <string>

namespace trainer::backend {

// One reading. Values that the device does not report are empty.
struct DeviceReading {
  std::optional<double> utilization;         // the share of a short time in which a kernel ran
  std::optional<double> memory_utilization;  // the share in which device memory was accessed
  std::optional<double> memory_bytes;        // memory in use by all processes
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> energy_joules;  // used since a time before the first reading
};

// Reads a device's driver, whose numbers include all processes. One thread at a time may use it.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  // Returns the name of the device for metrics: "gpu0". Replicas that share a device share it.
  virtual std::string device() const = 0;
  // Reads all values, which takes milliseconds. Throws DeviceError if the device no longer answers.
  virtual DeviceReading read() = 0;
};

}  // namespace trainer::backend
