// A communicator for ranks in processes of their own, over connections that prove who is at their
// ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/spelling.h"
#include "cluster/communicator.h"
#include "cluster/rendezvous.h"

namespace trainer::cluster {

// The algorithms of a sum. n bytes, p ranks:
//   ring              2 (p - 1) messages of n / p per rank, added in the order of a ring. Up to
//                     4 MiB, p - 1 messages travel at once, twice (direct_ring()). Above, the
//                     messages follow each other (Gloo's ring).
//   bcube             as halving_doubling, with Gloo's own grouping
//   halving_doubling  log2 p exchanges of halves, nearest rank first, and back: the order of a
//                     binary tree, (r0 + r1) + (r2 + r3). p must be a power of two. Without Gloo.
enum class Algorithm { kRing, kBcube, kHalvingDoubling };
constexpr auto spellings(Algorithm) {
  using enum Algorithm;
  return std::to_array<Spelling<Algorithm>>(
      {{kRing, "ring"}, {kBcube, "bcube"}, {kHalvingDoubling, "halving_doubling"}});
}

// Messages of at most `bytes` bytes are summed by `algorithm`. The last row is for larger ones too.
struct AlgorithmRow {
  std::size_t bytes = 0;
  Algorithm algorithm = Algorithm::kRing;
};
using AlgorithmTable = std::vector<AlgorithmRow>;  // not empty; sorted by bytes

// Every rank makes one with the same table, in the same order as its other communicators. Throws
// std::logic_error if the table has halving_doubling and the number of ranks is not a power of two,
// PeerError if a rank is gone.
//
// Errors of calls are PeerErrors that name the rank, its host, the call and the phase. Once one was
// thrown, all groups of the rendezvous are unusable.
std::unique_ptr<Communicator> open_gloo(std::shared_ptr<Rendezvous> rendezvous,
                                        AlgorithmTable table);
// Does the same with a table that the caller may change between calls, on all ranks alike.
std::unique_ptr<Communicator> open_gloo(std::shared_ptr<Rendezvous> rendezvous,
                                        std::shared_ptr<const AlgorithmTable> table);

// Opens two groups of the same ranks with one table, in the time that one takes. Collective.
struct GroupPair {
  std::unique_ptr<Communicator> first, second;
};
GroupPair open_gloo_pair(const std::shared_ptr<Rendezvous>& rendezvous,
                         const std::shared_ptr<const AlgorithmTable>& table);

// ---- Choosing ----------------------------------------------------------------------------------

// The algorithms that this number of ranks can use.
std::vector<Algorithm> candidates(int size);

// Returns the choice without a measurement: halving_doubling for a power of two, otherwise ring.
Algorithm by_rule(int size);

struct Measurement {
  std::size_t bytes = 0;
  std::vector<double> seconds;  // one per candidate: the median of the slowest rank
  Algorithm choice = Algorithm::kRing;
};

// Times all-reduces of each size with each candidate, through `group`, whose table this changes. A
// barrier that takes long shows that the ranks are far apart: then only the largest size is timed,
// once. Returns the same on every rank. Collective.
std::vector<Measurement> measure(Communicator& group, AlgorithmTable& table,
                                 std::vector<std::size_t> sizes, const Network& network);
AlgorithmTable make_algorithm_table(const std::vector<Measurement>& measurements);
// A table for people: one line per size, with the choice marked.
std::string to_text(const std::vector<Measurement>& measurements, int size);

}  // namespace trainer::cluster
