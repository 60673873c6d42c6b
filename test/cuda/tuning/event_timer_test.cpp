// The timer of parallel.autotune on the fake runtime, whose devices take the time that a test sets.
#include "backend/cuda/plans/event_timer.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "backend/cuda/plans/convolution.h"
#include "backend/cuda/plans/matmul.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/numbers/half.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_runtime/fake.h"

namespace trainer::backend::cuda {
namespace {

// A fake machine of two GPUs for one test case, which must leave nothing unfreed.
class FakeMachine {
 public:
  explicit FakeMachine(int seed = 1) {
    ::setenv("TRAINER_FAKE_CUDA_SEED", std::to_string(seed).c_str(), 1);
    fake::reset();
  }
  ~FakeMachine() {
    INFO(fake::left_over_text());
    CHECK(fake::left_over() == 0);
  }
};

Candidate make_kernel(double seconds) {
  return {"kernel",
          {{1024}, {}, {64}},
          [seconds](const std::vector<void*>& memory, cudaStream_t stream) {
            CHECK(memory[0] != nullptr);
            CHECK(memory[1] == nullptr);
            const auto run = [at = memory[2]] { *static_cast<float*>(at) += 1; };
            CHECK(fake::enqueue(stream, "kernel", run, seconds) == cudaSuccess);
          }};
}

// The first of several kernels waits for its launch.
bool is_near(double a, double b) { return std::abs(a - b) < 1e-2 * b; }

}  // namespace

TEST_CASE("event timer measures the time of the device for work in any order on any device") {
  for (int seed = 1; seed <= 5; ++seed) {
    const FakeMachine machine(seed);
    for (const int device : {0, 1}) {
      const auto timer = make_event_timer(device);
      for (const double seconds : {1e-3, 3e-3, 2e-4}) {
        CHECK(is_near(timer->seconds(make_kernel(seconds)), seconds));
      }
    }
  }
}

TEST_CASE("event timer: the memory holds random numbers of its type") {
  const FakeMachine machine;
  constexpr std::size_t kCount = 100'000;
  const auto timer = make_event_timer(0);
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    CAPTURE(to_string(type));
    Candidate candidate{"reader", {{static_cast<std::int64_t>(kCount * size_of(type)), type}}, {}};
    double sum = 0, squares = 0;
    candidate.run = [&](const std::vector<void*>& memory, cudaStream_t stream) {
      const auto run = [&, at = memory[0]] {
        sum = squares = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto half = [&] { return static_cast<const std::uint16_t*>(at)[i]; };
          const float value = type == DType::kFloat32    ? static_cast<const float*>(at)[i]
                              : type == DType::kBFloat16 ? bfloat16_to_float(half())
                                                         : float16_to_float(half());
          sum += value;
          squares += value * value;
        }
      };
      CHECK(fake::enqueue(stream, "reader", run, 1e-3) == cudaSuccess);
    };
    timer->seconds(candidate);
    // Uniform in [-1, 1): mean 0, variance 1/3.
    CHECK(std::abs(sum / kCount) < 0.01);
    CHECK(squares / kCount == doctest::Approx(1.0 / 3).epsilon(0.02));
  }
}

TEST_CASE("event timer: small work finds nothing in the cache") {
  const FakeMachine machine;
  std::vector<void*> addresses;
  Candidate candidate{"small", {{1024}}, {}};
  candidate.run = [&](const std::vector<void*>& memory, cudaStream_t stream) {
    addresses.push_back(memory[0]);
    CHECK(fake::enqueue(
              stream, "small", [] {}, 1e-3) == cudaSuccess);
  };
  make_event_timer(0)->seconds(candidate);
  // The first run is not counted; each measurement has four.
  REQUIRE(addresses.size() == 21);
  for (std::size_t i = 1; i < addresses.size(); i += 4) {
    CHECK(std::set<void*>(&addresses[i], &addresses[i] + 4).size() == 4);
  }
  // Work larger than twice the cache evicts itself.
  addresses.clear();
  candidate.memory = {{std::int64_t{101} << 20}};
  make_event_timer(0)->seconds(candidate);
  CHECK(std::set<void*>(addresses.begin(), addresses.end()).size() == 1);
}

TEST_CASE("event timer: the next candidate after one that throws is timed correctly") {
  const FakeMachine machine;
  const auto timer = make_event_timer(0);
  Candidate broken = make_kernel(1e-3);
  int runs = 0;
  const auto run = broken.run;
  broken.run = [&](const std::vector<void*>& memory, cudaStream_t stream) {
    run(memory, stream);
    if (++runs == 3) throw DeviceError("no third run");
  };
  CHECK_THROWS_AS(timer->seconds(broken), DeviceError);
  CHECK(is_near(timer->seconds(make_kernel(1e-3)), 1e-3));
}

TEST_CASE("event timer: the fastest engine and algorithm of a device are chosen") {
  const FakeMachine machine;
  const fake::KeepSettings keep;
  for (const std::int64_t fast : {28, 41, 0}) {
    fake::settings().engine_seconds = [fast](std::int64_t engine) {
      return engine == fast ? 1e-5 : 2e-5;
    };
    const DeviceGuard guard(0);
    PlannerOptions options;
    options.timer = make_event_timer(0);
    ConvolutionProblem problem;
    problem.type = DType::kBFloat16;
    problem.n = 2;
    problem.h = problem.w = 5;
    problem.c = problem.out = 16;
    problem.window.size = {3, 3};
    const auto planner = std::make_unique<ConvolutionPlanner>(options);
    CHECK(planner->plan(problem)->describe().starts_with(concat("cudnn engine ", fast, ",")));
  }
  const char* texts[] = {"4 KiB", "2 KiB", "1 KiB"};
  for (const std::int64_t fast : {0, 1, 2}) {
    fake::settings().algorithm_seconds = [fast](std::int64_t index) {
      return index == fast ? 1e-5 : 2e-5;
    };
    const DeviceGuard guard(0);
    MatmulOptions options;
    options.timer = make_event_timer(0);
    MatmulProblem problem;
    problem.m = problem.n = problem.k = 8;
    const auto planner = make_matmul_planner(options);
    CHECK(planner->plan(problem)->describe() == concat("cublasLt, timed, ", texts[fast]));
  }
}

}  // namespace trainer::backend::cuda
