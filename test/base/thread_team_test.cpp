#include "base/threads/thread_team.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <stdexcept>

#include "base/threads/cores.h"

namespace trainer {

TEST_CASE("ThreadTeam rethrows the cause and not MemberFailed where several members throw") {
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

TEST_CASE("available_cores returns the cores that the thread may run on, restricted and restored") {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  const std::vector<int> all = available_cores();
  REQUIRE(static_cast<int>(all.size()) == CPU_COUNT(&allowed));
  for (const int core : all) CHECK(CPU_ISSET(static_cast<std::size_t>(core), &allowed));
  const std::vector<int> last{all.back()};
  {
    const Pinned pinned(last);
    CHECK(available_cores() == last);
  }
  CHECK(available_cores() == all);
}

}  // namespace trainer
