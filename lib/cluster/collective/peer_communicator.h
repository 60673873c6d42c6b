// A communicator for ranks in processes of their own, over connections that prove who is at their
// ends.
#pragma once

#include <memory>

#include "base/spelling.h"
#include "cluster/communicator.h"
#include "cluster/rendezvous.h"

namespace trainer::cluster {

// The order in which all_reduce() adds the values of p ranks:
//   tree  that of a binary tree over the ranks, (r0 + r1) + (r2 + r3). The ranks exchange halves
//         (halving_doubling()) if p is a power of two, and otherwise slices (TreeSum).
//   ring  above 4 MiB that of a ring (ring_sum()), which sends to one rank and receives from one;
//         up to there that of the tree, by slices
enum class Algorithm { kTree, kRing };
constexpr auto spellings(Algorithm) {
  using enum Algorithm;
  return std::to_array<Spelling<Algorithm>>({{kTree, "tree"}, {kRing, "ring"}});
}

// Returns the algorithm that took the least time in measurements with 2, 3, 4 and 8 processes: tree
// for a power of two, otherwise ring.
Algorithm fastest_algorithm(int ranks);

// Every rank makes one with the same algorithm, in the same order as its other communicators.
// Throws PeerError if a rank is gone.
//
// Errors of calls are PeerErrors that name the rank, its host, the call and the phase. Once one was
// thrown, all groups of the rendezvous are unusable.
std::unique_ptr<Communicator> open_group(std::shared_ptr<Rendezvous> rendezvous,
                                         Algorithm algorithm);

// Opens two groups of the same ranks, in the time that one takes. Collective.
struct GroupPair {
  std::unique_ptr<Communicator> first, second;
};
GroupPair open_group_pair(const std::shared_ptr<Rendezvous>& rendezvous, Algorithm algorithm);

}  // namespace trainer::cluster
