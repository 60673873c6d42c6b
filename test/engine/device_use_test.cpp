#include "engine/device_use.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <semaphore>

#include "base/error.h"
#include "engine/device_sampler.h"

namespace trainer::engine {
namespace {

using backend::DeviceReading;

constexpr std::size_t kUtilization = 0, kPower = 3, kTemperature = 4;

DeviceReading busy(double utilization) {
  DeviceReading reading;
  reading.utilization = utilization;
  return reading;
}

// Returns what `answer` returns for its n-th reading, counted from 1.
class Scripted final : public backend::Telemetry {
 public:
  using Answer = std::function<DeviceReading(int n)>;
  Scripted(std::string device, Answer answer)
      : device_(std::move(device)), answer_(std::move(answer)) {}
  std::string device() const override { return device_; }
  DeviceReading read() override { return answer_(++readings_); }

 private:
  std::string device_;
  Answer answer_;
  int readings_ = 0;
};

DeviceSampler::Devices devices(std::vector<std::pair<std::string, Scripted::Answer>> scripts) {
  DeviceSampler::Devices all;
  for (auto& [name, answer] : scripts) {
    all.push_back(std::make_unique<Scripted>(name, std::move(answer)));
  }
  return all;
}

constexpr auto kDeadline = std::chrono::minutes(1);

}  // namespace

TEST_CASE("device totals: means are over the readings since an earlier time") {
  DeviceTotals totals("gpu0");
  totals.add(busy(0.2), 0);
  totals.add(busy(0.4), 1);
  const DeviceTotals earlier = totals;
  totals.add(busy(0.9), 2);
  totals.add(busy(0.7), 3);
  CHECK(totals.use().device == "gpu0");
  CHECK(totals.use().means[kUtilization].value() == doctest::Approx(0.55));
  CHECK(totals.since(earlier).means[kUtilization].value() == doctest::Approx(0.8));
  // Nothing was read since: what holds is the last reading.
  CHECK(totals.since(totals).means[kUtilization].value() == doctest::Approx(0.7));
  CHECK(!totals.use().means[kPower]);
  CHECK(!totals.use().energy_joules);
}

TEST_CASE("device totals: a reading without a value is left out of the mean") {
  DeviceTotals totals("gpu0");
  DeviceReading reading;
  reading.temperature_celsius = 60;
  totals.add(reading, 0);
  totals.add(busy(0.5), 1);
  reading.temperature_celsius = 70;
  totals.add(reading, 2);
  CHECK(totals.use().means[kTemperature].value() == 65);
  CHECK(totals.use().means[kUtilization].value() == 0.5);
}

TEST_CASE("device totals: energy is the growth of the device's counter") {
  DeviceTotals totals("gpu0");
  DeviceReading reading;
  reading.power_watts = 1000;  // the counter is more precise
  reading.energy_joules = 7000;
  totals.add(reading, 0);
  CHECK(totals.use().energy_joules.value() == 0);
  reading.energy_joules = 7150;
  totals.add(reading, 1);
  const DeviceTotals earlier = totals;
  reading.energy_joules = 7350;
  totals.add(reading, 2);
  CHECK(totals.use().energy_joules.value() == 350);
  CHECK(totals.since(earlier).energy_joules.value() == 200);
  reading.energy_joules = 40;  // the driver was loaded again
  totals.add(reading, 3);
  reading.energy_joules = 50;
  totals.add(reading, 4);
  CHECK(totals.use().energy_joules.value() == 360);
}

TEST_CASE("device totals: energy is power integrated over time where there is no energy counter") {
  DeviceTotals totals("gpu0");
  DeviceReading reading;
  reading.power_watts = 100;
  totals.add(reading, 10);
  reading.power_watts = 200;
  totals.add(reading, 12);  // 150 W for 2 s
  totals.add(DeviceReading(), 13);
  reading.power_watts = 200;
  totals.add(reading, 16);  // 200 W for 4 s
  CHECK(totals.use().energy_joules.value() == doctest::Approx(1100));
}

TEST_CASE("energy_joules is the sum of all devices, or has no value if one has none") {
  DeviceUse one, other;
  one.energy_joules = 10;
  CHECK(!energy_joules({}));
  CHECK(!energy_joules({one, other}));
  other.energy_joules = 5;
  CHECK(energy_joules({one, other}).value() == 15);
}

TEST_CASE("DeviceSampler reads at the start, at its interval and when it is stopped") {
  std::atomic<int> readings = 0;
  DeviceSampler sampler(devices({{"gpu0",
                                  [&](int n) {
                                    ++readings;
                                    return busy(n);
                                  }}}),
                        std::chrono::hours(1));
  CHECK(readings == 1);
  CHECK(sampler.totals().front().use().means[kUtilization].value() == 1);
  sampler.stop();
  CHECK(readings == 2);
  CHECK(sampler.totals().front().use().means[kUtilization].value() == 1.5);
  sampler.stop();
  CHECK(readings == 2);

  std::binary_semaphore tenth(0);
  DeviceSampler often(devices({{"gpu0",
                                [&](int n) {
                                  if (n == 10) tenth.release();
                                  return busy(n);
                                }}}),
                      std::chrono::milliseconds(1));
  REQUIRE(tenth.try_acquire_for(kDeadline));
  CHECK(often.totals().front().use().means[kUtilization].value() >= 5);  // the mean of 1 to 9
}

TEST_CASE("DeviceSampler warns once of a device that fails and still reads the other devices") {
  std::binary_semaphore tenth(0);
  DeviceSampler sampler(devices({{"gpu0",
                                  [](int n) {
                                    if (n >= 3) throw DeviceError("GPU is lost");
                                    return busy(0.5);
                                  }},
                                 {"gpu1",
                                  [&](int n) {
                                    if (n == 10) tenth.release();
                                    return busy(0.25);
                                  }}}),
                        std::chrono::milliseconds(1));
  REQUIRE(tenth.try_acquire_for(kDeadline));
  const std::vector<std::string> warnings = sampler.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "the metrics of gpu0 end here, and training goes on: GPU is lost");
  sampler.stop();
  CHECK(sampler.take_warnings().empty());
  REQUIRE(sampler.totals().size() == 2);
  CHECK(sampler.totals()[0].use().means[kUtilization].value() == 0.5);
  CHECK(sampler.totals()[1].use().means[kUtilization].value() == 0.25);
}

TEST_CASE("DeviceSampler has no totals and no warnings without devices") {
  DeviceSampler sampler({}, std::chrono::milliseconds(1));
  sampler.stop();
  CHECK(sampler.totals().empty());
  CHECK(sampler.take_warnings().empty());
}

}  // namespace trainer::engine
