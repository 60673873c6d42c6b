// What a device says of its load, power and health while it works.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainer::backend {

// One reading. Nothing where the device does not say.
struct DeviceReading {
  std::optional<double> utilization;         // share of the last moment in which a kernel ran
  std::optional<double> memory_utilization;  // the same, in which device memory was read or written
  std::optional<double> memory_bytes;        // in use, of all processes
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> energy_joules;  // used up since a moment before the first reading
};

// A device as its driver sees it, with the work of all processes on it. One thread at a time.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  // "gpu0": the same for replicas that share a device. Part of the names of metrics.
  virtual std::string device() const = 0;
  // Takes milliseconds. Throws DeviceError when the device no longer answers.
  virtual DeviceReading read() = 0;
};

}  // namespace trainer::backend
