// Sums over GPUs in captured graphs, on the fake runtime.
#include <doctest/doctest.h>

#include <latch>

#include "backend/cuda/executable/call_graph.h"
#include "base/error.h"
#include "base/process.h"
#include "cuda/collective/ranks.h"
#include "cuda/fake_runtime/fake.h"

namespace trainer::backend::cuda {
namespace {

using Kind = Outcome::Kind;
using Values = std::vector<float>;
constexpr std::int64_t kCount = 1000;

// A step of a rank: two buckets summed on a stream of their own, the second after the first was
// made, then added to the total on the rank's stream.
class Step {
 public:
  explicit Step(Rank& rank)
      : rank_(rank),
        values_(rank.upload(Values(2 * kCount, static_cast<float>(rank.rank() + 1)))),
        side_(create_stream()),
        made_(create_event()),
        summed_(create_event()) {}

  void enqueue() {
    for (int bucket = 0; bucket < 2; ++bucket) {
      CHECK(cudaEventRecord(made_.get(), rank_.queue()) == cudaSuccess);
      CHECK(cudaStreamWaitEvent(side_.get(), made_.get(), 0) == cudaSuccess);
      rank_.collective->all_reduce(values_ + bucket * kCount, kCount, side_.get());
    }
    CHECK(cudaEventRecord(summed_.get(), side_.get()) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(rank_.queue(), summed_.get(), 0) == cudaSuccess);
  }
  void capture() {
    graph_ = std::make_unique<CallGraph>(rank_.queue(), [this] {
      rank_.collective->begin_capture();
      try {
        enqueue();
      } catch (...) {
        rank_.collective->end_capture();
        throw;
      }
      rank_.collective->end_capture();
    });
  }
  void replay() {
    rank_.collective->replay(rank_.queue(), [this] { graph_->launch(rank_.queue()); });
  }
  Values values() { return rank_.download(values_, 2 * kCount); }

 private:
  Rank& rank_;
  float* values_;
  StreamHandle side_;
  EventHandle made_, summed_;
  std::unique_ptr<CallGraph> graph_;
};

}  // namespace

TEST_CASE("captured sums are those of each replay, between others and in every order of work") {
  for (const int ranks : {2, 4}) {
    for (int seed = 1; seed <= 10; ++seed) {
      CAPTURE(ranks);
      CAPTURE(seed);
      const FakeMachine machine(seed);
      const auto outcomes = run_ranks({own_devices(ranks)}, [&](Rank& rank) {
        Step step(rank);
        step.enqueue();
        step.capture();
        step.replay();
        step.replay();
        step.enqueue();
        float expected = 0;
        for (int r = 0; r < ranks; ++r) expected += static_cast<float>(r + 1);
        for (int again = 0; again < 3; ++again) expected *= static_cast<float>(ranks);
        const Values values = step.values();
        CHECK(values == Values(2 * kCount, expected));
      });
      for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
    }
  }
}

TEST_CASE("a replay that waits for a rank ends with its host and step, graphs and all") {
  for (const int ranks : {2, 4}) {
    const FakeMachine machine;
    std::latch others_ended(ranks - 1);
    GroupOptions options{own_devices(ranks)};
    options.timeout = std::chrono::seconds(1);
    const auto outcomes = run_ranks(options, [&](Rank& rank) {
      Step step(rank);
      step.capture();
      rank.collective->name_work("gradients", 8);
      if (rank.rank() == ranks - 1) {
        others_ended.wait();
        step.replay();
        return;
      }
      try {
        step.replay();
        step.values();
      } catch (...) {
        others_ended.count_down();
        throw;
      }
      others_ended.count_down();
    });
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      CHECK(has(outcome.error, host_name()));
      CHECK(has(outcome.error, ", summing gradients in step 8: "));
      CHECK(has(outcome.error, "for 1 s, the limit of parallel.timeout; "));
      CHECK(has(outcome.error, concat("rank ", ranks - 1, " (", host_name(), ", GPU ", ranks - 1,
                                      ") has made 0 of 1 sums")));
    }
  }
}

TEST_CASE("a rank that fails ends the replays of the others, and its own captures") {
  for (int seed = 1; seed <= 10; ++seed) {
    const FakeMachine machine(seed);
    const auto outcomes = run_ranks({own_devices(4)}, [&](Rank& rank) {
      Step step(rank);
      step.capture();
      step.replay();
      if (rank.rank() == 2) {
        rank.collective->abort("images/7.jpg: is damaged");
        throw DeviceError("images/7.jpg: is damaged");
      }
      step.replay();
      step.values();
      step.capture();
    });
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
      CHECK(outcomes[r].kind == (r == 2 ? Kind::kOwnError : Kind::kOthersError));
      CHECK(has(outcomes[r].error, "images/7.jpg: is damaged"));
    }
  }
}

TEST_CASE("errors of NCCL in a capture or of a replay name the rank, its host and the step") {
  struct Fault {
    const char* function;
    int call;
  };
  // The first four sums are captured.
  for (const Fault& fault :
       {Fault{"ncclAllReduce", 2}, Fault{"ncclAllReduce", 4}, Fault{"ncclCommGetAsyncError", 40},
        Fault{"cudaGraphLaunch", 3}, Fault{"cudaGraphInstantiate", 2}}) {
    CAPTURE(fault.function);
    const FakeMachine machine;
    const bool of_cuda = std::string(fault.function).starts_with("cuda");
    std::latch connected(2), faulty(1);
    const auto outcomes = run_ranks({own_devices(2)}, [&](Rank& rank) {
      Step step(rank);
      connected.arrive_and_wait();
      if (rank.rank() == 0) {
        fake::fail(fault.function, fault.call, of_cuda ? "cudaErrorUnknown" : "ncclRemoteError");
        faulty.count_down();
      }
      faulty.wait();
      rank.collective->name_work("gradients", 5);
      try {
        step.capture();
        for (int i = 0; i < 50; ++i) {
          step.replay();
          rank.collective->check();
        }
        step.values();
      } catch (const std::exception& error) {
        rank.collective->abort(error.what());  // as an executable does
        throw;
      }
    });
    int own = 0;
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.kind != Kind::kDone);
      own += outcome.kind == Kind::kOthersError ? 0 : 1;
      if (of_cuda) {
        CHECK(has(outcome.error, fault.function));
      } else {
        CHECK(has(outcome.error, host_name()));
        CHECK(has(outcome.error, ", summing gradients in step 5: "));
      }
    }
    CHECK(own == 1);
  }
}

}  // namespace trainer::backend::cuda
