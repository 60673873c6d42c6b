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
  std::unique_ptr<StepNumbers> numbers = std::make_unique<StepNumbers>();

  static void at(std::uint64_t now) { simt::nanoseconds = now; }
  void lap(std::uint64_t now, ClockPhase phase) const {
    at(now);
    lap_clock(clock.get(), phase, nullptr);
  }
  const backend::PhaseTimes& stop(std::uint64_t now, const std::vector<ClockSpan>& spans = {}) {
    at(now);
    stop_clock(clock.get(), ClockPhase::kUpdate, spans.data(), static_cast<int>(spans.size()),
               numbers.get(), nullptr);
    return numbers->times;
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

TEST_CASE("cuda clock: a start, time before it does not count, earlier laps are kept or dropped") {
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

TEST_CASE("cuda clock: laps passed to another clock, counted once, and the time goes on") {
  Clocked stream, call;
  call.clock->sums[0] = 77;  // of an earlier call
  Clocked::at(1000);
  start_clock(stream.clock.get(), true, nullptr);
  stream.lap(1004, ClockPhase::kCopy);
  hand_over_clock(stream.clock.get(), call.clock.get(), nullptr);
  call.lap(1010, ClockPhase::kForward);
  CHECK(same(call.stop(1010).copy, 4 * kTick));
  CHECK(same(call.stop(1010).forward, 6 * kTick));
  CHECK(same(stream.stop(1011).copy, 0));
}

TEST_CASE("cuda clock: a clock that steps back counts nothing") {
  Clocked device;
  Clocked::at(1000);
  start_clock(device.clock.get(), true, nullptr);
  device.lap(999, ClockPhase::kForward);
  CHECK(same(device.stop(999).forward, 0));
}

}  // namespace trainer::test
