// Calls that are given to a stream faster than it does them.
#include <doctest/doctest.h>

#include "backend/device_calls.h"

namespace trainer::test::calls_in_flight_test {
namespace {

constexpr std::int64_t kSamples = 6;
constexpr std::size_t kCalls = 24;

struct Outcome {
  std::vector<double> losses;
  std::vector<float> parameters;
};

// Trains with one batch, each call with a learning rate of its own; waits after every
// `wait_every` calls.
Outcome train(const Setup& setup, std::size_t wait_every) {
  DeviceCalls calls(setup, kPlain, kSamples, kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) {
    calls.launch(i, 0.001f * static_cast<float>(i % 7 + 1));
    if ((i + 1) % wait_every == 0) calls.stream().synchronize();
  }
  calls.stream().synchronize();
  Outcome outcome;
  for (std::size_t i = 0; i < kCalls; ++i) outcome.losses.push_back(calls.result(i).loss);
  outcome.parameters = calls.trained_values();
  return outcome;
}

}  // namespace

TEST_CASE("Executable: many calls in flight have their own scalars and numbers") {
  for (const Setup& setup : all_setups()) {
    if (setup.type != DType::kFloat32) continue;
    const Outcome one_by_one = train(setup, 1), at_once = train(setup, kCalls);
    CAPTURE(to_string(setup));
    CHECK(at_once.losses == one_by_one.losses);
    CHECK(at_once.parameters == one_by_one.parameters);
    CHECK(at_once.losses.front() != at_once.losses.back());
  }
}

TEST_CASE("Variables: read() behind calls in flight returns the values that the last one wrote") {
  for (const Setup& setup : setups()) {
    if (setup.type != DType::kFloat32) continue;
    CAPTURE(to_string(setup));
    DeviceCalls calls(setup, kPlain, kSamples, kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) {
      calls.launch(i, 0.001f * static_cast<float>(i % 7 + 1));
    }
    const std::vector<float> read = calls.trained_values();
    CHECK(read == train(setup, kCalls).parameters);
  }
}

}  // namespace trainer::test::calls_in_flight_test
