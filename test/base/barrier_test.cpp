#include "base/threads/barrier.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>
#include <vector>

#include "base/threads/thread_team.h"

namespace trainer {
namespace {

using Waiting = Barrier::Waiting;

constexpr Waiting kAllWaiting[] = {Waiting::kSpin, Waiting::kSpinThenSleep, Waiting::kSleep};

// Runs wait() on a thread of its own; returns the message of what it throws, or "returned".
class Waiter {
 public:
  Waiter(Barrier& barrier, int parties)
      : thread_([this, &barrier, parties] {
          try {
            barrier.wait(parties);
            result_ = "returned";
          } catch (const MemberFailed& error) {
            result_ = error.what();
          }
        }) {}
  std::string result() {
    thread_.join();
    return result_;
  }

 private:
  std::string result_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("Barrier: no thread is a round ahead of another in many rounds") {
  constexpr int kThreads = 3, kRounds = 2000;
  for (const Waiting waiting : kAllWaiting) {
    CAPTURE(static_cast<int>(waiting));
    Barrier barrier(waiting);
    std::array<int, kThreads> rounds{};  // written by one thread between two waits, read by all
    ThreadTeam team(kThreads);
    std::atomic<int> wrong{0};
    team.run([&](int member) {
      for (int round = 0; round < kRounds; ++round) {
        rounds[static_cast<std::size_t>(member)] = round;
        barrier.wait(kThreads);
        for (const int other : rounds) wrong += other == round ? 0 : 1;
        barrier.wait(kThreads);
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("Barrier admits another number of threads in each round") {
  Barrier barrier(Waiting::kSpin);
  barrier.wait(1);
  Waiter second(barrier, 2);
  barrier.wait(2);
  CHECK(second.result() == "returned");
  Waiter third(barrier, 3), fourth(barrier, 3);
  barrier.wait(3);
  CHECK(third.result() == "returned");
  CHECK(fourth.result() == "returned");
}

TEST_CASE("Barrier: each waiting thread throws the first reason of an abort") {
  for (const Waiting waiting : kAllWaiting) {
    CAPTURE(static_cast<int>(waiting));
    Barrier barrier(waiting);
    Waiter one(barrier, 3), other(barrier, 3);
    // Time itself is tested: a thread that sleeps is woken. Either order must pass.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    barrier.abort("first");
    barrier.abort("second");
    CHECK(one.result() == "first");
    CHECK(other.result() == "first");
  }
}

TEST_CASE("Barrier: a thread that arrives after an abort throws, and reset() makes it usable") {
  for (const Waiting waiting : kAllWaiting) {
    CAPTURE(static_cast<int>(waiting));
    Barrier barrier(waiting);
    barrier.abort("gone");
    CHECK_THROWS_WITH_AS(barrier.wait(2), "gone", MemberFailed);
    CHECK_THROWS_WITH_AS(barrier.wait(1), "gone", MemberFailed);
    barrier.reset();
    Waiter second(barrier, 2);
    barrier.wait(2);
    CHECK(second.result() == "returned");
    barrier.abort("again");
    CHECK_THROWS_WITH_AS(barrier.wait(2), "again", MemberFailed);
  }
}

TEST_CASE(
    "Barrier: the failed member's error is reported after an abort between rounds of a team") {
  constexpr int kThreads = 3;
  for (const Waiting waiting : kAllWaiting) {
    CAPTURE(static_cast<int>(waiting));
    Barrier barrier(waiting);
    ThreadTeam team(kThreads);
    for (int run = 0; run < 50; ++run) {
      const auto work = [&](int member) {
        for (int round = 0;; ++round) {
          if (member == run % kThreads && round == run % 7) throw std::out_of_range("the cause");
          barrier.wait(kThreads);
        }
      };
      CHECK_THROWS_WITH_AS(team.run(work, [&](int) { barrier.abort(handled_message()); }),
                           "the cause", std::out_of_range);
      barrier.reset();
    }
  }
}

TEST_CASE("Barrier: wait_until() returns whether all arrived before the deadline") {
  for (const Waiting waiting : {Waiting::kSpinThenSleep, Waiting::kSleep}) {
    CAPTURE(static_cast<int>(waiting));
    Barrier barrier(waiting);
    const auto deadline = Barrier::Clock::now() + std::chrono::milliseconds(20);
    CHECK_FALSE(barrier.wait_until(2, deadline));
    CHECK(Barrier::Clock::now() >= deadline);
    barrier.reset();
    Waiter second(barrier, 2);
    CHECK(barrier.wait_until(2, Barrier::Clock::now() + std::chrono::minutes(1)));
    CHECK(second.result() == "returned");
  }
}

}  // namespace trainer
