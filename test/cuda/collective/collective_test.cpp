// Sums over GPUs on the fake runtime: ranks are threads, with a GPU each or with one for all.
#include "backend/cuda/collectives/collective.h"

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <thread>

#include "backend/cuda/executable/call_graph.h"
#include "base/error.h"
#include "base/process/process.h"
#include "cuda/collective/ranks.h"
#include "cuda/fake_runtime/fake.h"

namespace trainer::backend::cuda {
namespace {

using Kind = Outcome::Kind;
using Values = std::vector<float>;

// The four groups that every promise is tried with.
struct Way {
  const char* name;
  std::vector<int> devices;
};
std::vector<Way> ways() {
  return {{"2 GPUs", own_devices(2)},
          {"4 GPUs", own_devices(4)},
          {"2 ranks of one GPU", one_device(2)},
          {"4 ranks of one GPU", one_device(4)}};
}

// Turns of a test that leaves the order of the ranks' calls to the host. ThreadSanitizer finds a
// race in more orders than those in which it shows, and its turns take twenty times as long.
constexpr int turns(int count) {
#ifdef __SANITIZE_THREAD__
  return count / 5;
#else
  return count;
#endif
}

// Numbers whose sum depends on the order of the additions.
float make_value(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(rank) * 2.1f) *
         (rank % 2 == 0 ? 1.0f : 1000.0f);
}

Values make_values(int rank, std::size_t count, float factor = 1) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * make_value(rank, i);
  return values;
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

// Returns whether each value is the sum over the ranks, but for rounding.
bool is_sum(const Values& values, int ranks, double factor = 1) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0, size = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      sum += factor * static_cast<double>(make_value(rank, i));
      size += std::abs(factor * static_cast<double>(make_value(rank, i)));
    }
    if (!(std::abs(static_cast<double>(values[i]) - sum) <= 1e-6 * size)) return false;
  }
  return true;
}

void check_all_done(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.error == "");
    CHECK(outcome.kind == Kind::kDone);
  }
}

}  // namespace

TEST_CASE("NoAllocations: device memory and pinned memory of this thread are errors") {
  const FakeMachine machine;
  const DeviceGuard guard(0);
  const auto allocate = [] {
    allocate_device(0, 8);
    allocate_pinned(8, cudaHostAllocDefault);
  };
  {
    const NoAllocations launching;
    CHECK_THROWS_AS(allocate_device(0, 8), std::logic_error);
    CHECK_THROWS_AS(allocate_zeros(0, 8), std::logic_error);
    CHECK_THROWS_AS(allocate_pinned(8, cudaHostAllocDefault), std::logic_error);
    { const NoAllocations inner; }
    CHECK_THROWS_AS(allocate_device(0, 8), std::logic_error);
    CHECK_NOTHROW(allocate_device(0, 0));
    std::thread other([&] {
      const DeviceGuard own(0);
      CHECK_NOTHROW(allocate());
    });
    other.join();
  }
  CHECK_NOTHROW(allocate());
}

TEST_CASE("CudaEvent and CudaStream: without other ranks a wait blocks and does not poll") {
  const FakeMachine machine;
  const DeviceGuard guard(0);
  CudaStream stream(0, std::make_shared<DeviceCollectives>());
  CudaEvent event(0, std::make_shared<DeviceCollectives>());
  for (const char* poll : {"cudaEventQuery", "cudaStreamQuery"})
    fake::fail(poll, 1, "cudaErrorUnknown");
  bool ran = false;
  CHECK(fake::enqueue(stream.handle(), "kernel", [&ran] { ran = true; }) == cudaSuccess);
  stream.record(event);
  event.wait();
  CHECK(ran);
  CHECK(fake::enqueue(stream.handle(), "kernel", [&ran] { ran = false; }) == cudaSuccess);
  stream.synchronize();
  CHECK_FALSE(ran);
}

TEST_CASE("CudaEvent and CudaStream open an activity while they wait for the device") {
  const FakeMachine machine;
  const DeviceGuard guard(0);
  const Progress progress;
  CudaStream stream(0, std::make_shared<DeviceCollectives>(), progress);
  CudaEvent event(0, std::make_shared<DeviceCollectives>(), progress);
  int waits = 0;
  // The kernel runs while the host waits.
  const auto enqueue = [&] {
    const auto look = [&] { waits += progress.is_open(Activity::kGpu) ? 1 : 0; };
    CHECK(fake::enqueue(stream.handle(), "look", look) == cudaSuccess);
  };
  enqueue();
  stream.synchronize();
  CHECK(waits == 1);
  enqueue();
  stream.record(event);
  event.wait();
  CHECK(waits == 2);
  const Buffer memory = allocate_zeros(0, sizeof(float));
  float value = 1;  // in memory that is not pinned
  enqueue();
  stream.download(&value, memory.span(), sizeof value);
  CHECK(waits == 3);
  CHECK_FALSE(progress.is_open(Activity::kGpu));
}

TEST_CASE("CudaStream: a wait for another rank blocks, and only the watch of the group polls") {
  using Clock = std::chrono::steady_clock;
  const FakeMachine machine;
  const Clock::time_point start = Clock::now();
  check_all_done(run_ranks({own_devices(2)}, [](Rank& rank) {
    float* values = rank.upload(Values(100, 1.0f));
    rank.collective->all_reduce(values, 100, rank.queue());
    rank.download(values, 100);
    if (rank.rank() == 1) {
      // The other rank would poll during this time.
      const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
      CHECK(fake::enqueue(rank.queue(), "slow", sleep) == cudaSuccess);
    }
    rank.collective->all_reduce(values, 100, rank.queue());
    CHECK(rank.download(values, 100) == Values(100, 4.0f));
  }));
  // A look of the watch queries at most two events of each rank. It looks at most 100 times per
  // second.
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  CHECK(static_cast<double>(fake::count_calls("cudaEventQuery")) <=
        2 * 2 * (100 * seconds + 2) + 8);
  CHECK(fake::count_calls("cudaStreamQuery") == 0);
}

TEST_CASE("runtime handles make no context on GPU 0 when destroyed on a thread without a device") {
  const FakeMachine machine;
  std::thread([] {
    const DeviceGuard guard(1);
    const StreamHandle stream = create_stream();
    std::vector<std::function<void()>> frees;
    const auto add = [&frees](auto owner) {
      auto shared = std::make_shared<decltype(owner)>(std::move(owner));
      frees.push_back([shared]() mutable { shared.reset(); });
    };
    add(allocate_device(1, 64));
    add(allocate_pinned(64, cudaHostAllocPortable));
    add(create_stream());
    add(create_event());
    add(create_blocking_event());
    add(create_timing_event());
    add(std::make_unique<CudaStream>(1, nullptr));
    add(std::make_unique<CudaEvent>(1, nullptr));
    add(CallGraph(stream.get(), [] {}));
    for (std::function<void()>& free : frees) {
      std::thread([mine = std::move(free)]() mutable {
        mine();
        mine = nullptr;
      }).join();
    }
  }).join();
  CHECK(fake::devices_with_context() == std::set<int>{1});
}

TEST_CASE("PeerWatch has contexts only on the devices of the ranks of the group") {
  const FakeMachine machine;
  // The ranks end on a thread that has chosen no device.
  std::thread([] {
    check_all_done(run_ranks({{1, 2}}, [](Rank& rank) {
      float* values = rank.upload(Values(100, 1.0f));
      rank.collective->all_reduce(values, 100, rank.queue());
      rank.download(values, 100);
      const long looks = fake::count_calls("ncclCommGetAsyncError");
      while (fake::count_calls("ncclCommGetAsyncError") < looks + 4) std::this_thread::yield();
      rank.memory.clear();
      rank.stream.reset();
    }));
  }).join();
  CHECK(fake::devices_with_context() == std::set<int>{1, 2});
}

TEST_CASE(
    "CudaCollective: all_reduce gives the same bits on all ranks in every order of device work") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    for (const std::size_t count : {1, 5, 64, 65, 1000, 20011}) {
      CAPTURE(count);
      std::vector<Values> first;
      for (const int seed : {1, 2, 3}) {
        const FakeMachine machine(seed);
        std::vector<Values> sums(way.devices.size());
        check_all_done(run_ranks({way.devices}, [&](Rank& rank) {
          float* values = rank.upload(make_values(rank.rank(), count));
          rank.collective->all_reduce(values, static_cast<std::int64_t>(count), rank.queue());
          sums[static_cast<std::size_t>(rank.rank())] = rank.download(values, count);
        }));
        for (const Values& sum : sums) CHECK(same_bits(sum, sums.front()));
        CHECK(is_sum(sums.front(), static_cast<int>(sums.size())));
        if (first.empty()) first = sums;
        CHECK(same_bits(sums.front(), first.front()));
      }
    }
  }
}

TEST_CASE("CudaCollective: all_gather returns the values of all ranks in rank order") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    for (const std::size_t count : {1, 3, 1000}) {
      const FakeMachine machine(static_cast<int>(count));
      const std::size_t ranks = way.devices.size();
      std::vector<Values> gathered(ranks);
      check_all_done(run_ranks({way.devices}, [&](Rank& rank) {
        float* from = rank.upload(make_values(rank.rank(), count));
        float* to = rank.upload(Values(count * ranks));
        rank.collective->all_gather(from, to, static_cast<std::int64_t>(count), rank.queue());
        gathered[static_cast<std::size_t>(rank.rank())] = rank.download(to, count * ranks);
      }));
      Values expected;
      for (std::size_t r = 0; r < ranks; ++r) {
        const Values part = make_values(static_cast<int>(r), count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      for (const Values& all : gathered) CHECK(same_bits(all, expected));
    }
  }
}

TEST_CASE(
    "CudaCollective: calls between other work of each rank return correct values without a wait") {
  constexpr std::size_t kCount = 777;
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    for (const int seed : {1, 2, 3, 4, 5}) {
      const FakeMachine machine(seed);
      const auto ranks = static_cast<int>(way.devices.size());
      std::vector<Values> last(way.devices.size());
      check_all_done(run_ranks({way.devices}, [&](Rank& rank) {
        const auto count = static_cast<std::int64_t>(kCount);
        float* source = rank.upload(make_values(rank.rank(), kCount));
        float* small = rank.upload(Values(13, 1.0f));
        float* values = rank.upload(Values(kCount));
        float* all = rank.upload(Values(kCount * way.devices.size()));
        for (int step = 0; step < 4; ++step) {
          // The next call's values take the place of those that others may still read.
          CHECK(cudaMemcpyAsync(values, source, kCount * sizeof(float), cudaMemcpyDeviceToDevice,
                                rank.queue()) == cudaSuccess);
          rank.collective->all_gather(values, all, count, rank.queue());
          rank.collective->all_reduce(small, 13, rank.queue());
          rank.collective->all_reduce(values, count, rank.queue());
        }
        last[static_cast<std::size_t>(rank.rank())] = rank.download(values, kCount);
        const float grown = rank.download(small, 13).front();
        CHECK(grown == std::pow(static_cast<float>(ranks), 4.0f));
        const Values gathered = rank.download(all, 2 * kCount);
        CHECK(gathered[kCount] == make_value(1, 0));
      }));
      for (const Values& values : last) {
        CHECK(is_sum(values, ranks));
        CHECK(same_bits(values, last.front()));
      }
    }
  }
}

TEST_CASE("CudaCollective: one rank keeps its own values, and calls of 0 values do no work") {
  const FakeMachine machine;
  check_all_done(run_ranks({{2}}, [](Rank& rank) {
    float* values = rank.upload({1, 2, 3});
    float* to = rank.upload({0, 0, 0});
    rank.collective->all_reduce(values, 3, rank.queue());
    rank.collective->all_gather(values, to, 3, rank.queue());
    CHECK(rank.download(values, 3) == Values{1, 2, 3});
    CHECK(rank.download(to, 3) == Values{1, 2, 3});
  }));
  for (const Way& way : ways()) {
    check_all_done(run_ranks({way.devices}, [](Rank& rank) {
      rank.collective->all_reduce(nullptr, 0, rank.queue());
      rank.collective->all_gather(nullptr, nullptr, 0, rank.queue());
    }));
  }
}

// Rank 1 fails between two sums, while the others are in the middle of theirs, or about to be.
void rank_1_fails(Rank& rank) {
  float* values = rank.upload(Values(100, 1.0f));
  rank.collective->all_reduce(values, 100, rank.queue());
  if (rank.rank() == 1) {
    rank.collective->abort("images/7.jpg: is damaged");
    throw DeviceError("images/7.jpg: is damaged");
  }
  rank.collective->all_reduce(values, 100, rank.queue());
  rank.download(values, 100);
}

TEST_CASE("CudaCollective: sums of the others end with the reason of a rank that fails") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const FakeMachine machine;
    const auto outcomes = run_ranks({way.devices}, rank_1_fails);
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
      CAPTURE(r);
      CHECK(outcomes[r].kind == (r == 1 ? Kind::kOwnError : Kind::kOthersError));
      CHECK(has(outcomes[r].error, "images/7.jpg: is damaged"));
      if (r != 1) CHECK(has(outcomes[r].error, "rank 1 has failed: "));
    }
  }
}

TEST_CASE(
    "SharedDeviceCollective: each rank waits for the readers of its values when a rank fails") {
  // How far each rank has come when another fails is the host's choice: many turns for all of them.
  for (int turn = 0; turn < turns(300); ++turn) {
    CAPTURE(turn);
    const FakeMachine machine(turn);
    const auto outcomes = run_ranks({one_device(3)}, rank_1_fails);
    for (const Outcome& outcome : outcomes) CHECK(has(outcome.error, "is damaged"));
  }
}

TEST_CASE("CudaStream: download() to memory that is not pinned is complete when the call returns") {
  // The seed decides whether CUDA's copy to such memory has ended when it returns.
  for (int turn = 0; turn < 20; ++turn) {
    CAPTURE(turn);
    const FakeMachine machine(turn);
    check_all_done(run_ranks({one_device(2)}, [](Rank& rank) {
      const Values expected = make_values(rank.rank(), 1000);
      rank.upload(expected);
      Values read(1000);
      rank.stream->download(read.data(), rank.memory.back().span(), 1000 * sizeof(float));
      const bool same = read == expected;
      rank.stream->synchronize();  // so that nothing is written to what this leaves
      CHECK(same);
    }));
  }
}

TEST_CASE(
    "SharedDeviceCollective: all sums end before memory is freed after a CUDA error in a sum") {
  const auto sum_and_free = [](Rank& rank) {
    float* values = rank.upload(Values(1000, 1.0f));
    try {
      rank.collective->all_reduce(values, 1000, rank.queue());
      rank.download(values, 1000);
    } catch (...) {
      rank.stream.reset();  // waits for its work
      rank.memory.clear();
      throw;
    }
  };
  // Each of the three ranks sets three points and waits for those of two others.
  for (const auto& [function, calls] :
       {std::pair<std::string, int>{"cudaEventRecord", 9}, {"cudaStreamWaitEvent", 18}}) {
    for (int n = 1; n <= calls; ++n) {
      for (int turn = 0; turn < turns(20); ++turn) {
        CAPTURE(function);
        CAPTURE(n);
        CAPTURE(turn);
        const FakeMachine machine(turn);
        fake::fail(function, n, "cudaErrorInvalidValue");
        const auto outcomes = run_ranks({one_device(3)}, sum_and_free);
        int own = 0;
        for (const Outcome& outcome : outcomes) {
          own += outcome.kind == Kind::kOwnError ? 1 : 0;
          if (outcome.kind == Kind::kDone) continue;  // it needed nothing of the rank that failed
          CHECK(has(outcome.error, concat(function, ": ")));
        }
        CHECK(own == 1);
      }
    }
  }
}

TEST_CASE("CudaCollective: an error names a rank that is late on all ranks") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const FakeMachine machine;
    const auto last = static_cast<int>(way.devices.size()) - 1;
    std::latch others_ended(last);
    GroupOptions options{way.devices};
    options.timeout = std::chrono::milliseconds(200);
    const auto outcomes = run_ranks(options, [&](Rank& rank) {
      float* values = rank.upload(Values(100, 1.0f));
      if (rank.rank() == last) {
        others_ended.wait();
        rank.collective->all_reduce(values, 100, rank.queue());
        return;
      }
      try {
        rank.collective->all_reduce(values, 100, rank.queue());
        rank.download(values, 100);
      } catch (...) {
        others_ended.count_down();
        throw;
      }
      others_ended.count_down();
    });
    int own = 0;
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      own += outcome.kind == Kind::kOwnError ? 1 : 0;
      CHECK(has(outcome.error, "for 0.2 s, the limit of parallel.timeout; "));
      CHECK(has(outcome.error, concat("rank ", last, " (", host_name(), ", GPU ",
                                      way.devices.back(), ") has made 0")));
      CHECK(has(outcome.error, "of 1 sums"));
    }
    CHECK(own == 1);  // who saw it first; all others get its error
    CHECK(outcomes.back().kind == Kind::kOthersError);
  }
}

TEST_CASE("NcclCollective: errors of NCCL have the rank, its host and the call") {
  struct Fault {
    const char* function;
    const char* error;
    const char* call;  // that fails with it
  };
  for (const Fault& fault :
       {Fault{"ncclAllReduce", "ncclInternalError", "ncclAllReduce"},
        Fault{"ncclAllGather", "ncclInvalidUsage", "ncclAllGather"},
        Fault{"ncclCommGetAsyncError", "ncclRemoteError", "ncclCommGetAsyncError"},
        Fault{"ncclCommInitRankConfig", "ncclSystemError", "ncclCommInitRankConfig"},
        Fault{"ncclGetUniqueId", "ncclSystemError", "ncclGetUniqueId"}}) {
    CAPTURE(fault.function);
    const FakeMachine machine;
    fake::fail(fault.function, 1, fault.error);
    const bool by_watch = fault.function == std::string("ncclCommGetAsyncError");
    const auto outcomes = run_ranks({own_devices(2)}, [&](Rank& rank) {
      float* values = rank.upload(Values(100, 1.0f));
      float* all = rank.upload(Values(200));
      for (int step = 0; step < 3 || by_watch; ++step) {
        rank.collective->all_reduce(values, 100, rank.queue());
        rank.collective->check();
        rank.collective->all_gather(values, all, 100, rank.queue());
        rank.download(values, 100);
      }
    });
    const Outcome* own = nullptr;
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      if (outcome.kind == Kind::kOwnError) own = &outcome;
      CHECK(has(outcome.error, host_name()));
      if (!by_watch) CHECK(has(outcome.error, " fails as the test asked for"));
    }
    REQUIRE(own != nullptr);
    CHECK(has(own->error, "rank "));
    CHECK(has(own->error, fault.call + std::string(": ")));
  }
}

TEST_CASE("make_cuda_collective fails on all ranks where only some ranks share a GPU") {
  const FakeMachine machine;
  for (const std::vector<int>& devices : {std::vector{0, 0, 1}, std::vector{0, 1, 2, 1}}) {
    const auto outcomes = run_ranks({devices}, [](Rank&) {});
    for (const Outcome& outcome : outcomes) {
      CHECK((outcome.kind == Kind::kOwnError || outcome.kind == Kind::kOthersError));
      CHECK(has(outcome.error, "parallel.gpus: rank "));
      CHECK(has(outcome.error, " share a GPU, and other replicas have others"));
    }
  }
}

TEST_CASE("~CudaStream waits for its device when the current device of the thread has failed") {
  const FakeMachine machine;
  std::atomic<bool> done = false;
  std::thread([&done] {
    auto stream = std::make_unique<CudaStream>(1, std::make_shared<DeviceCollectives>());
    {
      const DeviceGuard guard(1);
      CHECK(fake::enqueue(stream->handle(), "work", [&done] { done = true; }) == cudaSuccess);
    }
    const DeviceGuard own(0);
    fake::fail("cudaMalloc", 1, "cudaErrorIllegalAddress");
    CHECK_THROWS_AS(allocate_device(0, 1), DeviceError);
    CHECK_FALSE(done.load());
    stream.reset();
    CHECK(done.load());
  }).join();
}

TEST_CASE(
    "SharedDeviceCollective: ranks that sum different numbers of values are an internal error") {
  const FakeMachine machine;
  const auto outcomes = run_ranks({one_device(2)}, [](Rank& rank) {
    float* values = rank.upload(Values(10, 1.0f));
    rank.collective->all_reduce(values, 10 - rank.rank(), rank.queue());
  });
  CHECK(outcomes[1].kind == Kind::kOtherKind);
  CHECK(has(outcomes[1].error, "sums 9 values, rank 0 10"));
  CHECK(outcomes[0].kind == Kind::kOthersError);
}

}  // namespace trainer::backend::cuda
