#include "cluster/collective/tree_sum.h"

#include <gloo/alltoallv.h>

#include <algorithm>

#include "base/numbers/partition.h"
#include "cluster/collective/direct.h"
#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

// The number of values that are exchanged at once: enough to fill a fast connection, and few enough
// that the copies of all roots take little memory.
constexpr std::size_t kSumPiece = 1 << 18;

constexpr std::size_t kSmall = 16 << 10;  // bytes; up to here, latency is all

// Adds what the peer sends to `keep`, while `give` goes out; they may be the same.
template <class T>
void exchange_and_add(Transport& transport, int peer, std::span<const T> give, std::span<T> keep) {
  T* next = keep.data();
  transport.exchange(peer, std::as_bytes(give), keep.size_bytes(),
                     [&](std::span<const std::byte> piece) {
                       const std::size_t count = piece.size() / sizeof(T);
                       add(next, next, reinterpret_cast<const T*>(piece.data()), count);
                       next += count;
                     });
}

// The farthest pair exchanges all that it has: as many bytes as halves there and back, in one
// round. Few bytes go whole from the first round on.
template <class T>
void sum(Transport& transport, std::span<T> values) {
  struct Step {
    int peer;
    std::span<T> keep, give;
  };
  std::vector<Step> steps;
  const bool small = values.size_bytes() <= kSmall;
  for (int distance = 1; distance < transport.size; distance *= 2) {
    const int peer = transport.rank ^ distance;
    if (small || distance * 2 == transport.size) {
      exchange_and_add<T>(transport, peer, values, values);
      continue;
    }
    const std::size_t middle = values.size() / 2;
    Step step{peer, values.first(middle), values.subspan(middle)};
    if ((transport.rank & distance) != 0) std::swap(step.keep, step.give);
    exchange_and_add<T>(transport, peer, step.give, step.keep);
    values = step.keep;
    steps.push_back(step);
  }
  for (; !steps.empty(); steps.pop_back()) {
    const Step& step = steps.back();
    transport.exchange(step.peer, std::as_bytes(step.keep), std::as_writable_bytes(step.give));
  }
}

}  // namespace

void halving_doubling(Transport& transport, std::span<float> values) { sum(transport, values); }
void halving_doubling(Transport& transport, std::span<double> values) { sum(transport, values); }
void halving_doubling(Transport& transport, std::span<std::int64_t> values) {
  sum(transport, values);
}

void TreeSum::set_leaves(std::int64_t leaves) {
  if (leaves == leaves_) return;
  leaves_ = leaves;
  blocks_.clear();
  root_counts_.clear();
  for (int rank = 0; rank < context_->size; ++rank) {
    const Partition share = partition(leaves, context_->size, rank);
    const std::vector<TreeBlock> roots = tree_roots(share.first, share.first + share.count);
    blocks_.insert(blocks_.end(), roots.begin(), roots.end());
    root_counts_.push_back(std::ssize(roots));
  }
}

void TreeSum::run(std::int64_t leaves, std::span<float* const> roots, std::size_t count) {
  set_leaves(leaves);
  for (std::size_t first = 0; first < count; first += kSumPiece) {
    sum_piece(roots, first, std::min(kSumPiece, count - first));
  }
}

void TreeSum::sum_piece(std::span<float* const> roots, std::size_t first, std::size_t count) {
  const std::size_t ranks = context_->size;
  const std::size_t rank = context_->rank;
  const std::size_t slice = (count + ranks - 1) / ranks;
  const auto length = [&](std::size_t owner) {
    return std::min(count, (owner + 1) * slice) - std::min(count, owner * slice);
  };

  sent_.clear();
  std::vector<std::int64_t> sent_counts, received_counts;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    for (const float* root : roots) {
      const float* from = root + first + std::min(count, owner * slice);
      sent_.insert(sent_.end(), from, from + length(owner));
    }
    sent_counts.push_back(static_cast<std::int64_t>(roots.size() * length(owner)));
    received_counts.push_back(root_counts_[owner] * static_cast<std::int64_t>(length(rank)));
  }
  received_.resize(blocks_.size() * slice);
  gloo::AlltoallvOptions exchange(context_);
  exchange.setInput(sent_.data(), sent_counts);
  exchange.setOutput(received_.data(), received_counts);
  gloo::alltoallv(exchange);

  sources_.clear();
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    sources_.push_back(received_.data() + block * length(rank));
  }
  slices_.resize((ranks + 1) * slice);
  float* own_slice = slices_.data() + ranks * slice;
  const auto sum = [](float* out, const float* a, const float* b, std::int64_t n) {
    add(out, a, b, n);
  };
  const auto own_length = static_cast<std::int64_t>(length(rank));
  for (std::int64_t at = 0; at < own_length; at += kTreeChunk) {
    complete_tree(std::span<const TreeBlock>(blocks_), sources_.data(), at,
                  std::min(kTreeChunk, own_length - at), own_slice + at, sum);
  }

  direct_all_gather(transport_, std::as_bytes(std::span(own_slice, slice)),
                    std::as_writable_bytes(std::span(slices_).first(ranks * slice)));
  std::copy_n(slices_.data(), count, roots[0] + first);
}

}  // namespace trainer::cluster
