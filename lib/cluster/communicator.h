// Ranks that compute sums together: replicas in one process, workers on many machines, or both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trainer::cluster {

// A group of `size` ranks. Every rank makes the same calls in the same order with the same sizes.
// One thread of a rank at a time may call it; a second thread needs a duplicate().
//
// Every call blocks until done. It throws PeerError when a rank has gone, is silent past the
// deadline, or has called abort(); the group cannot be used afterwards.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sums in place, with the same bits on every rank and in every run. Unless the group is made for
  // another order, it is that of a binary tree over the ranks: (r0 + r1) + (r2 + r3).
  virtual void all_reduce(std::span<float> values) = 0;
  virtual void all_reduce(std::span<double> values) = 0;
  virtual void all_reduce(std::span<std::int64_t> values) = 0;
  // Sums over the tree of base/numbers/sum_tree.h with `leaves` leaves, at least one per rank, of
  // which rank r of R holds partition(leaves, R, r): roots[i] points to its tree_roots() i, `count`
  // values that overlap no other root. The sum ends up in roots[0] of every rank, with the same
  // bits for any number of ranks; the other roots are undefined then.
  virtual void all_reduce_tree(std::int64_t leaves, std::span<float* const> roots,
                               std::size_t count) = 0;
  // Copies the bytes of rank `root` to all ranks.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  // Gathers `sent` of all ranks, in rank order, in `all`, which has size() * sent.size() bytes.
  virtual void all_gather(std::span<const std::byte> sent, std::span<std::byte> all) = 0;
  virtual void barrier() = 0;
  // A second group of the same ranks, whose calls are independent of this group's. Collective.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  // Makes every rank that waits in this group throw PeerError, because this rank has failed for
  // `reason`. Any thread may call it. Only the first reason is sent.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace trainer::cluster
