// Reads the telemetry of the devices of a process while they train.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/telemetry.h"
#include "engine/device_use.h"

namespace trainer::engine {

// Reads every device at an interval in a thread of its own: a query takes milliseconds, and some
// hold a lock of the driver, so that no step may wait for one. A device that stops answering is not
// read again, and training goes on. All calls are made by one thread.
class DeviceSampler {
 public:
  using Devices = std::vector<std::unique_ptr<backend::Telemetry>>;

  // Reads each device once and starts the thread, except if there are no devices.
  DeviceSampler(Devices devices, std::chrono::milliseconds interval);
  ~DeviceSampler();
  DeviceSampler(const DeviceSampler&) = delete;
  DeviceSampler& operator=(const DeviceSampler&) = delete;

  // Reads each device a last time and ends the thread.
  void stop();
  // Returns the totals of every device, including those that no longer answer.
  std::vector<DeviceTotals> totals() const;
  // Returns the problems of devices since the last call, one line each.
  std::vector<std::string> take_warnings();

 private:
  void work();
  void read_all();

  Devices devices_;  // null: no longer answers. Used by the thread alone while it runs
  std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;  // guards stops_, totals_ and warnings_
  std::condition_variable stop_requested_;
  bool stops_ = false;
  std::vector<DeviceTotals> totals_;
  std::vector<std::string> warnings_;
  std::atomic<bool> has_warnings_ = false;
  std::thread thread_;
};

}  // namespace trainer::engine
