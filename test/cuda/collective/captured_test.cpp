// Sums over GPUs in captured graphs, on the fake runtime.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <latch>
#include <semaphore>
#include <thread>

#include "backend/cuda/collectives/launch_window.h"
#include "backend/cuda/executable/call_graph.h"
#include "base/error.h"
#include "base/process/process.h"
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
  void replay(std::latch* before = nullptr, std::latch* after = nullptr) {
    rank_.collective->replay(rank_.queue(), [=, this] {
      if (before != nullptr) before->wait();
      graph_->launch(rank_.queue());
      if (after != nullptr) after->count_down();
    });
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

TEST_CASE("NcclCollective: captured sums have the values of each replay, also between other sums") {
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

TEST_CASE(
    "NcclCollective: the error of a replay that waits for a rank has the rank's host and the "
    "step") {
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

TEST_CASE(
    "NcclCollective: replays of the others and captures end with the reason of a rank that fails") {
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

TEST_CASE("NcclCollective: errors of NCCL in captures and replays have the rank, host and step") {
  struct Fault {
    const char* function;
    int call;
  };
  // The first four sums are captured.
  for (const Fault& fault :
       {Fault{"ncclAllReduce", 2}, Fault{"ncclAllReduce", 4}, Fault{"ncclCommGetAsyncError", 10},
        Fault{"cudaGraphLaunch", 3}, Fault{"cudaGraphInstantiate", 2}}) {
    CAPTURE(fault.function);
    const FakeMachine machine;
    const bool of_cuda = std::string(fault.function).starts_with("cuda");
    const bool by_watch = fault.function == std::string("ncclCommGetAsyncError");
    std::latch connected(2), faulty(1);
    const auto outcomes = run_ranks({own_devices(2)}, [&](Rank& rank) {
      Step step(rank);
      rank.collective->name_work("gradients", 5);
      connected.arrive_and_wait();
      if (rank.rank() == 0) {
        fake::fail(fault.function, fault.call, of_cuda ? "cudaErrorUnknown" : "ncclRemoteError");
        faulty.count_down();
      }
      faulty.wait();
      try {
        step.capture();
        for (int i = 0; i < 50 || by_watch; ++i) {
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

// The fake reports a deadlock after this time.
class ShortDeadlock {
 public:
  ShortDeadlock() { ::setenv("TRAINER_FAKE_CUDA_DEADLOCK_MS", "3000", 1); }
  ~ShortDeadlock() { ::unsetenv("TRAINER_FAKE_CUDA_DEADLOCK_MS"); }
};

// In the next two tests the other rank of this process waits for the first one too, so that only
// the watch can end the waits.
TEST_CASE("NcclCollective: a launch that a full queue blocks ends after parallel.timeout") {
  const ShortDeadlock deadlock;
  // Each length of the queue lets another call of a replay be the one that blocks.
  for (const char* queue : {"6", "7", "8", "9"}) {
    CAPTURE(queue);
    ::setenv("TRAINER_FAKE_CUDA_QUEUE", queue, 1);
    const FakeMachine machine;
    ::unsetenv("TRAINER_FAKE_CUDA_QUEUE");
    GroupOptions options{own_devices(2)};
    options.timeout = std::chrono::milliseconds(500);
    std::counting_semaphore<100> launched(0);
    const auto outcomes = run_ranks(options, [&](Rank& rank) {
      Step step(rank);
      step.capture();
      for (int i = 0; i < 20; ++i) {
        if (rank.rank() == 1) {
          rank.collective->replay(rank.queue(), [&launched] { launched.acquire(); });
          continue;
        }
        try {
          step.replay();
        } catch (...) {
          launched.release(20);
          throw;
        }
        launched.release();
      }
    });
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      CHECK(has(outcome.error, "for 0.5 s, the limit of parallel.timeout"));
    }
  }
}

TEST_CASE("NcclCollective: a call of NCCL that waits for a rank ends after parallel.timeout") {
  const ShortDeadlock deadlock;
  for (const bool captures : {false, true}) {
    CAPTURE(captures);
    const FakeMachine machine;
    GroupOptions options{own_devices(2)};
    options.timeout = std::chrono::milliseconds(500);
    std::latch ended(1);
    const auto outcomes = run_ranks(options, [&](Rank& rank) {
      if (rank.rank() == 1) {
        if (captures) {
          ended.wait();
          return rank.collective->check();
        }
        return rank.collective->replay(rank.queue(), [&ended] { ended.wait(); });
      }
      try {
        Step step(rank);
        captures ? step.capture() : step.enqueue();
      } catch (...) {
        ended.count_down();
        throw;
      }
      ended.count_down();
    });
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      CHECK(has(outcome.error, "for 0.5 s, the limit of parallel.timeout"));
    }
  }
}

// Rank 1 captures and launches last, with nothing in between that waits for its device.
TEST_CASE("CallGraph: the first launch waits for no rank that has launched before") {
  const ShortDeadlock deadlock;
  for (int seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const FakeMachine machine(seed);
    std::latch captured(1), launched(1);
    const auto outcomes = run_ranks({own_devices(2)}, [&](Rank& rank) {
      const bool first = rank.rank() == 0;
      Step step(rank);
      step.enqueue();  // connects the ranks
      if (!first) captured.wait();
      step.capture();
      if (first) rank.stream->synchronize();
      if (first) captured.count_down();
      step.replay(first ? nullptr : &launched, first ? &launched : nullptr);
      CHECK(step.values() == Values(2 * kCount, 6));
    });
    for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
  }
}

TEST_CASE("NcclCollective: memory calls of ranks and of another thread between launches all end") {
  const ShortDeadlock deadlock;
  for (int seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const FakeMachine machine(seed);
    std::atomic<bool> over{false};
    std::thread loader([&over] {
      while (!over) allocate_pinned(64, cudaHostAllocPortable);
    });
    const auto outcomes = run_ranks({own_devices(2)}, [&](Rank& rank) {
      Step step(rank);
      for (int call = 0; call < 10; ++call) {
        if (call == 4) step.capture();
        if ((call + rank.rank()) % 2 == 0) allocate_device(rank.device, 64);
        call < 4 ? step.enqueue() : step.replay();
      }
      CHECK(step.values().front() == 3 * 512);
    });
    over = true;
    loader.join();
    for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
  }
}

TEST_CASE("NcclCollective: abort() returns and ends the launch while a graph launch blocks") {
  const FakeMachine machine;
  std::latch launching(3);
  std::counting_semaphore<2> aborted(0);
  std::atomic<int> ended{0};
  const auto outcomes = run_ranks({own_devices(3)}, [&](Rank& rank) {
    rank.collective->replay(rank.queue(), [&] {
      launching.arrive_and_wait();
      if (rank.rank() == 2) {
        rank.collective->abort("the batch is damaged");
        aborted.release(2);
      } else if (aborted.try_acquire_for(std::chrono::seconds(10))) {
        ++ended;
      }
    });
    rank.collective->check();
  });
  CHECK(ended == 2);
  for (const Outcome& outcome : outcomes) CHECK(has(outcome.error, "the batch is damaged"));
}

TEST_CASE("LaunchWindow returns false after the limit for a late rank, and memory calls go on") {
  LaunchWindow window(2);
  const auto in = [](int milliseconds) {
    return LaunchWindow::TimePoint::clock::now() + std::chrono::milliseconds(milliseconds);
  };
  CHECK_FALSE(window.open(in(10)));
  bool other = false;
  std::thread([&] { other = window.open(in(10000)); }).join();
  CHECK(other);
  CHECK_FALSE(window.close(in(10)));
  std::atomic<bool> called{false};
  std::thread caller([&called] {
    const MemoryCall call;
    called = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(called);
  window.fail();
  caller.join();
  CHECK(called);
  CHECK_FALSE(window.open(in(10000)));
  CHECK_FALSE(window.close(in(10000)));
}

TEST_CASE("LaunchWindow: open() waits for a memory call in progress, or ends by fail()") {
  const auto limit = LaunchWindow::TimePoint::clock::now() + std::chrono::seconds(10);
  for (const bool fails : {false, true}) {
    LaunchWindow window(2);
    std::atomic<int> opened{0};
    auto call = std::make_unique<MemoryCall>();
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&] { opened += window.open(limit) && window.close(limit) ? 1 : 0; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(opened == 0);
    fails ? window.fail() : call.reset();
    for (std::thread& rank : ranks) rank.join();
    CHECK(opened == (fails ? 0 : 2));
    call.reset();
    const MemoryCall next;  // would wait for ever if the window still held it
  }
}

}  // namespace trainer::backend::cuda
