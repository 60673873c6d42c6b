// Sums in the order of a binary tree over the ranks, which ordered sums need. Gloo and MPI start
// with the farthest rank and add in another order. Inside the folder.
#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/numbers/sum_tree.h"
#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH (2005),
// section 4.5, with the nearest rank first, so that what is added is (r0 + r1) + (r2 + r3), and
// without halves where they gain nothing. The number of ranks is a power of two. Sends and receives
// in the calling thread: Gloo passes each message to another thread, which on two busy cores cost a
// scheduler tick (4 ms) per call. Throws std::runtime_error, as Transport::exchange does.
void halving_doubling(Transport& transport, std::span<float> values);
void halving_doubling(Transport& transport, std::span<double> values);
void halving_doubling(Transport& transport, std::span<std::int64_t> values);

// Sums of ranks that hold several roots of the tree each: where the number of ranks is not a power
// of two, the sum is not a sequence of pairwise sums of ranks. A rank sends each other rank its
// roots of that rank's slice of the values (Gloo's alltoallv), completes the tree of its own slice,
// and gathers the slices of all ranks. With m roots per rank it sends and receives about m + 1
// times the values, where a ring moves them twice; two or three roots are usual. With one root per
// rank, halving_doubling() gives the same sums and moves less. One thread at a time.
class TreeSum {
 public:
  // `context` sends through `transport`, which must outlive the object.
  TreeSum(std::shared_ptr<gloo::Context> context, Transport& transport)
      : context_(std::move(context)), transport_(transport) {}

  // Does the work of Communicator::all_reduce_tree(). Throws the errors of Transport.
  void run(std::int64_t leaves, std::span<float* const> roots, std::size_t count);

 private:
  void set_leaves(std::int64_t leaves);
  // Sums elements [first, first + count), count <= kPiece.
  void sum_piece(std::span<float* const> roots, std::size_t first, std::size_t count);

  std::shared_ptr<gloo::Context> context_;
  Transport& transport_;
  std::int64_t leaves_ = 0;                // the leaves that blocks_ and root_counts_ describe
  std::vector<TreeBlock> blocks_;          // the roots of all ranks, in order
  std::vector<std::int64_t> root_counts_;  // indexed by rank
  std::vector<float> sent_, received_, slices_;
  std::vector<const float*> sources_;
};

}  // namespace trainer::cluster
