#include "commands/profile/idle_time.h"

#include <doctest/doctest.h>

namespace trainer::commands {
namespace {

using Clock = ProfileTimeline::Clock;

Clock::time_point at(int milliseconds) {
  return Clock::time_point(std::chrono::milliseconds(milliseconds));
}

backend::WorkRecord record(int thread, int start, int end) {
  backend::WorkRecord record;
  record.thread = thread;
  record.start = at(start);
  record.end = at(end);
  return record;
}

}  // namespace

TEST_CASE("idle time is that of a thread that waits while another works, and outside of calls") {
  // Two steps: data until 10 and 110, then 40 ms on the device.
  const std::vector<ProfileTimeline::Step> steps{{at(0), at(10), at(50), 1},
                                                 {at(100), at(110), at(150), 1}};
  // Thread 0 works 12 to 40 in two pieces that overlap, thread 1 only 20 to 30; in the second step
  // both work 110 to 150.
  const std::vector<backend::WorkRecord> records{record(0, 12, 30),   record(0, 25, 40),
                                                 record(1, 20, 30),   record(0, 110, 150),
                                                 record(1, 110, 150), record(1, 60, 90)};
  const IdleTime idle = idle_time(records, steps);
  CHECK(idle.waiting == doctest::Approx(0.018));  // thread 1: 12 to 20 and 30 to 40
  // 10 to 12 and 40 to 50, of both threads; what lies between steps is not a part of them.
  CHECK(idle.outside == doctest::Approx(0.024));
}

TEST_CASE("idle time: the thread that sums over ranks is not a thread of the device") {
  const std::vector<ProfileTimeline::Step> steps{{at(0), at(0), at(10), 1}};
  const IdleTime idle =
      idle_time({record(0, 0, 10), record(backend::kReductionThread, 2, 4)}, steps);
  CHECK(idle.waiting == 0);
  CHECK(idle.outside == 0);
  CHECK(idle_time({}, steps).outside == 0);
}

}  // namespace trainer::commands
