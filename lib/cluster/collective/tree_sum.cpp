#include "cluster/collective/tree_sum.h"

#include <algorithm>

#include "base/numbers/partition.h"
#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

// The number of values that are exchanged at once: enough to fill a fast connection, and few enough
// that they stay in a cache and that the copies of all roots take little memory.
constexpr std::size_t kMaxPiece = 1 << 18;

template <class T>
void add_values(T* out, const T* a, const T* b, std::int64_t count) {
  add(out, a, b, static_cast<std::size_t>(count));
}

}  // namespace

template <class T>
void TreeSum<T>::set_leaves(std::int64_t leaves, const Transport& transport) {
  if (leaves == leaves_) return;
  leaves_ = leaves;
  blocks_.clear();
  root_ends_.clear();
  for (int rank = 0; rank < transport.size; ++rank) {
    const Partition share = partition(leaves, transport.size, rank);
    const std::vector<TreeBlock> roots = tree_roots(share.first, share.first + share.count);
    blocks_.insert(blocks_.end(), roots.begin(), roots.end());
    root_ends_.push_back(blocks_.size());
  }
}

template <class T>
void TreeSum<T>::run(Transport& transport, std::int64_t leaves, std::span<T* const> roots,
                     std::size_t count) {
  set_leaves(leaves, transport);
  for (std::size_t first = 0; first < count; first += kMaxPiece) {
    sum_piece(transport, roots, first, std::min(kMaxPiece, count - first));
  }
}

template <class T>
void TreeSum<T>::sum_piece(Transport& transport, std::span<T* const> roots, std::size_t first,
                           std::size_t count) {
  const std::size_t ranks = transport.size, own = transport.rank;
  const bool is_whole = is_short(blocks_.size() * count * sizeof(T));
  // Slices begin at cache lines, so that messages do.
  constexpr std::size_t kLine = 64 / sizeof(T);
  const std::size_t length =
      is_whole ? count : (count + ranks * kLine - 1) / (ranks * kLine) * kLine;
  const auto slice = [&](std::size_t rank, T* root) {
    const std::size_t begin = is_whole ? 0 : std::min(count, rank * length);
    return std::span<T>(root + first + begin, std::min(count - begin, length));
  };
  const std::span<T> own_slice = slice(own, roots[0]);

  sent_.resize(roots.size() > 1 ? ranks * roots.size() * length : 0);
  received_.resize(blocks_.size() * own_slice.size());
  sources_.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == own) {
      for (T* root : roots) sources_.push_back(slice(own, root).data());
      continue;
    }
    std::span<T> out = slice(rank, roots[0]);
    if (roots.size() > 1) {
      T* const packed = sent_.data() + rank * roots.size() * length;
      T* end = packed;
      for (T* root : roots) end = std::ranges::copy(slice(rank, root), end).out;
      out = {packed, end};
    }
    T* const in = received_.data() + sources_.size() * own_slice.size();
    const std::size_t root_count = root_ends_[rank] - sources_.size();
    for (std::size_t root = 0; root < root_count; ++root) {
      sources_.push_back(in + root * own_slice.size());
    }
    exchanges_.push_back({static_cast<int>(rank), std::as_bytes(out),
                          std::as_writable_bytes(std::span(in, root_count * own_slice.size()))});
  }
  run_exchanges(transport, exchanges_);

  T total[kTreeChunk];
  const auto own_length = static_cast<std::int64_t>(own_slice.size());
  for (std::int64_t at = 0; at < own_length; at += kTreeChunk) {
    const std::int64_t n = std::min(kTreeChunk, own_length - at);
    complete_tree(std::span<const TreeBlock>(blocks_), sources_.data(), at, n, total,
                  add_values<T>);
    std::copy_n(total, n, own_slice.data() + at);
  }
  if (is_whole) return;

  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == own) continue;
    exchanges_.push_back({static_cast<int>(rank), std::as_bytes(own_slice),
                          std::as_writable_bytes(slice(rank, roots[0]))});
  }
  run_exchanges(transport, exchanges_);
}

template class TreeSum<float>;
template class TreeSum<double>;
template class TreeSum<std::int64_t>;

}  // namespace trainer::cluster
