#include "backend/cuda/kernels/step/clock.h"

#include <doctest/doctest.h>

#include <memory>

#include "cuda/simt/simt.h"

namespace trainer::test {
namespace {

using namespace backend::cuda;

constexpr double kTick = 1e-9;

// A clock in "device" memory; at() sets the device's time.
struct Clocked {
  std::unique_ptr<StepClock> clock = std::make_unique<StepClock>();
  std::unique_ptr<DeviceResult> result = std::make_unique<DeviceResult>();
  std::unique_ptr<StepScalars> scalars = std::make_unique<StepScalars>();

  static void at(std::uint64_t now) { simt::nanoseconds = now; }
  void lap(std::uint64_t now, ClockPhase phase) const {
    at(now);
    lap_clock(clock.get(), phase, nullptr);
  }
  void begin(std::uint64_t now, const StepScalars& values, StepClock* times) const {
    at(now);
    begin_call(values, scalars.get(), clock.get(), times, nullptr);
  }
  const backend::PhaseTimes& stop(std::uint64_t now, const std::vector<ClockSpan>& spans = {}) {
    at(now);
    stop_clock(clock.get(), ClockPhase::kUpdate, spans.data(), static_cast<int>(spans.size()),
               result.get(), nullptr);
    return result->times;
  }
};

bool same(double a, double b) { return std::abs(a - b) < kTick / 10; }

}  // namespace

TEST_CASE("cuda clock: a lap is its phase's, and laps of a phase add up") {
  Clocked device;
  Clocked::at(1000);
  start_clock(device.clock.get(), true, nullptr);
  device.lap(1003, ClockPhase::kCopy);
  device.lap(1010, ClockPhase::kForward);
  device.lap(1030, ClockPhase::kBackward);
  device.lap(1031, ClockPhase::kForward);
  device.lap(1036, ClockPhase::kBackward);
  device.lap(1037, ClockPhase::kUpdate);
  device.lap(1137, ClockPhase::kAllReduce);
  const backend::PhaseTimes& times = device.stop(1139);
  CHECK(times.measured);
  CHECK(same(times.copy, 3 * kTick));
  CHECK(same(times.forward, 8 * kTick));
  CHECK(same(times.backward, 25 * kTick));
  CHECK(same(times.all_reduce, 100 * kTick));
  CHECK(same(times.all_reduce_hidden, 0));
  CHECK(same(times.update, 3 * kTick));
}

TEST_CASE("cuda clock: sums are hidden until the wait for them begins") {
  Clocked device;
  Clocked::at(1000);
  start_clock(device.clock.get(), true, nullptr);
  device.lap(1100, ClockPhase::kBackward);
  device.lap(1200, ClockPhase::kAllReduce);
  // Before, across and behind the begin of the wait at 1100, and a span that was not measured.
  const backend::PhaseTimes& times =
      device.stop(1210, {{1010, 1030}, {1090, 1150}, {1150, 1190}, {0, 0}});
  CHECK(same(times.all_reduce, 100 * kTick));
  CHECK(same(times.all_reduce_hidden, 30 * kTick));
}

TEST_CASE("cuda clock: time before a start does not count, and earlier laps are kept or dropped") {
  for (const bool forget : {false, true}) {
    Clocked device;
    Clocked::at(1000);
    start_clock(device.clock.get(), true, nullptr);
    device.lap(1005, ClockPhase::kForward);
    Clocked::at(2000);
    start_clock(device.clock.get(), forget, nullptr);
    device.lap(2001, ClockPhase::kForward);
    CHECK(same(device.stop(2001).forward, (forget ? 1 : 6) * kTick));
  }
}

TEST_CASE("cuda clock: a call that begins has the times so far and its copies, counted once") {
  Clocked stream, call;
  call.clock->sums[0] = 77;  // of an earlier call
  Clocked::at(1000);
  start_clock(stream.clock.get(), true, nullptr);
  stream.lap(1002, ClockPhase::kForward);
  stream.begin(1005, {}, call.clock.get());
  call.lap(1011, ClockPhase::kForward);
  CHECK(same(call.stop(1011).copy, 3 * kTick));
  CHECK(same(call.stop(1011).forward, 8 * kTick));
  // Its time goes on where it was handed over.
  CHECK(same(stream.stop(1006).update, 1 * kTick));
  CHECK(same(stream.stop(1006).copy, 0));
  CHECK(same(stream.stop(1006).forward, 0));
}

TEST_CASE("cuda clock: the times stay for the next one when a call without a clock begins") {
  Clocked stream, call;
  Clocked::at(1000);
  start_clock(stream.clock.get(), true, nullptr);
  stream.begin(1004, {}, nullptr);
  stream.lap(1010, ClockPhase::kForward);
  Clocked::at(1020);
  start_clock(stream.clock.get(), false, nullptr);
  stream.begin(1023, {}, call.clock.get());
  CHECK(same(call.stop(1023).copy, 7 * kTick));
  CHECK(same(call.stop(1023).forward, 6 * kTick));
}

TEST_CASE("cuda clock: scalars are written when a call begins, with and without a clock") {
  Clocked stream, call;
  StepClock* const clocks[] = {call.clock.get(), nullptr};
  StepScalars expected = {0.5f, 0.25f, 1, 3ull << 40, 1, 0, 1, 7};
  for (StepClock* clock : clocks) {
    ++expected.update;
    stream.begin(1000, expected, clock);
    const StepScalars& scalars = *stream.scalars;
    CHECK(scalars.learning_rate == expected.learning_rate);
    CHECK(scalars.gradient_scale == expected.gradient_scale);
    CHECK(scalars.update == expected.update);
    CHECK(scalars.first_sample == expected.first_sample);
    CHECK(scalars.accumulate == expected.accumulate);
    CHECK(scalars.apply == expected.apply);
    CHECK(scalars.stop_when_not_finite == expected.stop_when_not_finite);
    CHECK(scalars.samples == expected.samples);
  }
}

TEST_CASE("cuda clock: a clock that steps back counts nothing") {
  Clocked device;
  Clocked::at(1000);
  start_clock(device.clock.get(), true, nullptr);
  device.lap(999, ClockPhase::kForward);
  CHECK(same(device.stop(999).forward, 0));
}

}  // namespace trainer::test
