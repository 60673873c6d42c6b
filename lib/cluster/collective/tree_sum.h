// Sums in the order of the tree of base/numbers/sum_tree.h, which ordered sums need. Inside the
// folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers/sum_tree.h"
#include "cluster/collective/exchange.h"
#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Every rank sends each other rank its roots of that rank's slice of the values, completes the tree
// of its own slice, and sends the result to all: two messages that follow each other, and with one
// root per rank as many bytes as a ring. With m roots per rank it sends and receives about m + 1
// times the values; two or three roots are usual. Few values go whole to every rank, which sums all
// of them, in one message. One thread at a time.
template <class T>
class TreeSum {
 public:
  // Does the work of Communicator::all_reduce_tree() through `transport`. Throws its errors.
  void run(Transport& transport, std::int64_t leaves, std::span<T* const> roots, std::size_t count);

 private:
  void set_leaves(std::int64_t leaves, const Transport& transport);
  // Sums elements [first, first + count), count <= kMaxPiece.
  void sum_piece(Transport& transport, std::span<T* const> roots, std::size_t first,
                 std::size_t count);

  std::int64_t leaves_ = 0;             // the leaves that the two members below describe
  std::vector<TreeBlock> blocks_;       // the roots of all ranks, in order
  std::vector<std::size_t> root_ends_;  // the end of each rank's roots among them
  std::vector<T> sent_, received_;
  std::vector<const T*> sources_;  // the own slices of blocks_
  std::vector<Exchange> exchanges_;
};

}  // namespace trainer::cluster
