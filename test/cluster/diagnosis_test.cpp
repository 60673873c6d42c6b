// Which connection or rank is named, from what all ranks have reported.
#include "cluster/rendezvous/diagnosis.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/rendezvous/protocol.h"
#include "support/contains.h"

namespace trainer::cluster::diagnosis_test {
namespace {

using std::chrono::milliseconds;
using test::contains;

std::string describe(int rank) { return concat("rank ", rank, " (on host)"); }

// Four ranks in a ring: each waits for data of the next one, and has received all that was sent.
std::vector<RankReport> waiting_ring() {
  std::vector<RankReport> all(4, {kPresent, 7, std::vector<TrafficReport>(4)});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::size_t next = (rank + 1) % all.size();
    all[rank].traffic[next] = {0, 5000, 1, 0};
    all[next].traffic[rank].sent = 5000;
  }
  return all;
}

std::optional<Blame> find(const std::vector<RankReport>& all) {
  return find_broken_connection(all, milliseconds(4000), describe);
}

void check_names_1_and_2(const std::optional<Blame>& blame) {
  REQUIRE(blame);
  CHECK(blame->rank == 1);
  INFO(blame->what);
  CHECK(contains(blame->what, "rank 2 (on host)"));
  CHECK(contains(blame->what, "4 s, the limit of parallel.timeout"));
  CHECK(contains(blame->what, "check the network between their hosts"));
}

}  // namespace

TEST_CASE("find_broken_connection names none where every connection delivers and takes data") {
  CHECK_FALSE(find(waiting_ring()));
}

TEST_CASE("find_broken_connection names both ends where sent data has not arrived") {
  std::vector<RankReport> all = waiting_ring();
  all[2].traffic[1].sent = 6000;
  check_names_1_and_2(find(all));
}

// This happens when only the acknowledgements are lost.
TEST_CASE("find_broken_connection: all sent data has arrived and the sender cannot send more") {
  std::vector<RankReport> all = waiting_ring();
  all[2].traffic[1].send_waits = 1;
  check_names_1_and_2(find(all));
}

TEST_CASE("find_broken_connection: a sender cannot send to a rank that waits for another one") {
  std::vector<RankReport> all = waiting_ring();
  all[1].traffic[2].receive_waits = 0;
  all[2].traffic[1].send_waits = 1;
  CHECK_FALSE(find(all));
}

TEST_CASE("find_broken_connection: lost data is named before a connection that takes none") {
  std::vector<RankReport> all = waiting_ring();
  all[1].traffic[0].send_waits = 1;
  all[2].traffic[1].sent = 6000;
  check_names_1_and_2(find(all));
}

TEST_CASE("find_rank_that_left and find_rank_behind name the one rank that differs") {
  std::vector<RankReport> all = waiting_ring();
  CHECK_FALSE(find_rank_that_left(all));
  CHECK_FALSE(find_rank_behind(all, 0, 7, milliseconds(4000)));
  all[3].calls = 5;
  const auto behind = find_rank_behind(all, 0, 7, milliseconds(4000));
  REQUIRE(behind);
  CHECK(behind->rank == 3);
  CHECK(contains(behind->what, "has made only 5 of 7 calls"));
  CHECK_FALSE(find_rank_behind(all, 3, 5, milliseconds(4000)));
  all[2].state = kLeft;
  const auto left = find_rank_that_left(all);
  REQUIRE(left);
  CHECK(left->rank == 2);
}

}  // namespace trainer::cluster::diagnosis_test
