#include "engine/device_sampler.h"

#include <utility>

#include "base/error.h"

namespace trainer::engine {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

DeviceSampler::DeviceSampler(Devices devices, std::chrono::milliseconds interval)
    : devices_(std::move(devices)), interval_(interval) {
  for (const auto& device : devices_) totals_.emplace_back(device->device());
  if (devices_.empty()) return;
  read_all();
  thread_ = std::thread([this] { work(); });
}

DeviceSampler::~DeviceSampler() { stop(); }

void DeviceSampler::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stop_requested_.notify_all();
  thread_.join();
}

std::vector<DeviceTotals> DeviceSampler::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<std::string> DeviceSampler::take_warnings() {
  if (!has_warnings_.exchange(false)) return {};  // avoids the lock, as this is called every step
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

void DeviceSampler::work() {
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      last = stop_requested_.wait_for(lock, interval_, [this] { return stops_; });
    }
    read_all();
  }
}

// Reads the devices without the lock: a query takes milliseconds, for which no step should wait.
void DeviceSampler::read_all() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i]) continue;
    try {
      const backend::DeviceReading reading = devices_[i]->read();
      const std::lock_guard lock(mutex_);
      totals_[i].add(reading, now());
    } catch (const DeviceError& error) {
      devices_[i].reset();
      const std::lock_guard lock(mutex_);
      warnings_.push_back(concat("the metrics of ", totals_[i].device(),
                                 " end here, and training goes on: ", error.what()));
      has_warnings_ = true;
    }
  }
}

}  // namespace trainer::engine
