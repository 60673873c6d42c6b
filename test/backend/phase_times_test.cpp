// Where a call's time went, as a device reports it, against the pieces of work that it records.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "backend/device_calls.h"
#include "support/fake_gpus.h"

namespace trainer::test::phase_times_test {
namespace {

using backend::PhaseTimes;
using backend::WorkRecord;

constexpr std::int64_t kSamples = 6;

double total(const PhaseTimes& times) {
  return times.copy + times.forward + times.backward + times.all_reduce + times.update;
}

// The times of calls that each follow an upload of the batch.
std::vector<PhaseTimes> measure_times(DeviceCalls& calls, std::size_t first, std::size_t count,
                                      bool uploads) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (uploads) calls.upload();
    calls.launch(i, 0.001f);
  }
  calls.stream().synchronize();
  std::vector<PhaseTimes> times;
  for (std::size_t i = first; i < first + count; ++i) times.push_back(calls.result(i).times);
  return times;
}

}  // namespace

TEST_CASE("PhaseTimes: a call of one process has time for its phases and none for an all-reduce") {
  for (const Setup& setup : all_setups()) {
    if (setup.type != DType::kFloat32) continue;
    CAPTURE(to_string(setup));
    DeviceCalls calls(setup, kPlain, kSamples, 6);
    for (const PhaseTimes& times : measure_times(calls, 0, 6, true)) {
      if (!times.measured) {
        CHECK(total(times) == 0);
        continue;
      }
      CHECK(times.forward > 0);
      CHECK(times.backward > 0);
      CHECK(times.update > 0);
      CHECK(times.all_reduce == 0);
      CHECK(times.all_reduce_hidden == 0);
    }
  }
}

TEST_CASE(
    "PhaseTimes: a captured call has the phases of an enqueued one, a recorded call those of its "
    "layers") {
  for (const Setup& setup : all_setups()) {
    if (setup.type != DType::kFloat32) continue;
    CAPTURE(to_string(setup));
    DeviceCalls calls(setup, kPlain, kSamples, 10);
    const std::vector<PhaseTimes> free = measure_times(calls, 0, 5, true);
    backend::WorkRecorder recorder;
    if (!calls.executable().record(&recorder)) continue;
    const PhaseTimes recorded = measure_times(calls, 5, 1, true).front();
    calls.executable().record(nullptr);
    std::map<graph::Phase, double> layers;
    double update = 0, begin = 1e9, end = -1e9;
    const std::vector<WorkRecord> records = recorder.take();
    CHECK(!records.empty());
    for (const WorkRecord& record : records) {
      const double seconds = std::chrono::duration<double>(record.end - record.start).count();
      CHECK(seconds >= 0);
      if (record.kind == WorkRecord::Kind::kLayer) {
        CHECK(!record.layer.empty());
        layers[record.phase] += seconds;
      }
      if (record.kind == WorkRecord::Kind::kUpdate) update += seconds;
      using Seconds = std::chrono::duration<double>;
      begin = std::min(begin, Seconds(record.start - records.front().start).count());
      end = std::max(end, Seconds(record.end - records.front().start).count());
    }
    CHECK(layers[graph::Phase::kForward] > 0);
    CHECK(layers[graph::Phase::kBackward] > 0);
    if (!uses_fake_gpus() || !recorded.measured) continue;
    // In the model a kernel takes 5 us, events nothing and the host no time between two calls: a
    // phase is its layers and at most a few kernels more that belong to no layer.
    constexpr double kKernelSeconds = 6 * 5e-6;
    const auto is_close = [](double phase, double pieces) {
      return phase >= pieces - 1e-9 && phase <= pieces + kKernelSeconds;
    };
    CHECK(is_close(recorded.forward, layers[graph::Phase::kForward]));
    CHECK(is_close(recorded.backward, layers[graph::Phase::kBackward]));
    CHECK(is_close(recorded.update, update));
    CHECK(end - begin <= total(recorded));
    // The host takes a little time to submit work, which a device that is busy does not see.
    const auto same = [](double a, double b) { return std::abs(a - b) <= 5e-6; };
    for (const PhaseTimes& times : free) {
      CHECK(same(times.forward, recorded.forward));
      CHECK(same(times.backward, recorded.backward));
      CHECK(same(times.update, recorded.update));
      CHECK(same(times.copy, recorded.copy));
    }
    // Without an upload only the kernel that writes the scalars is counted.
    const std::vector<PhaseTimes> resident = measure_times(calls, 6, 2, false);
    CHECK(resident.back().copy > 0);
    CHECK(resident.back().copy < free.front().copy);
  }
}

}  // namespace trainer::test::phase_times_test
