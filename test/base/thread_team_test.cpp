#include "base/threads/thread_team.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace trainer {

TEST_CASE("the error that is rethrown is a cause, not what it has led to") {
  ThreadTeam team(3);
  for (const int culprit : {0, 1, 2}) {
    std::atomic<bool> kept{false};
    const auto run = [&](bool cause) {
      kept = false;
      team.run(
          [&](int member) {
            if (member != culprit) throw MemberFailed("another has failed");
            spin_until([&] { return kept.load(); });  // one of the others comes first
            if (cause) throw std::out_of_range("the cause");
          },
          [&](int) { kept = true; });
    };
    CHECK_THROWS_WITH_AS(run(true), "the cause", std::out_of_range);
    CHECK_THROWS_AS(run(false), MemberFailed);
    // An earlier error is forgotten.
    std::atomic<int> calls{0};
    team.run([&](int) { ++calls; });
    CHECK(calls == 3);
  }
}

}  // namespace trainer
