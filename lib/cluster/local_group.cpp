#include "cluster/local_group.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/numbers/partition.h"
#include "base/numbers/sum_tree.h"
#include "base/threads/barrier.h"
#include "base/threads/thread_team.h"

namespace trainer::cluster {
namespace {

// Elements that are summed at once: the sources' pieces stay in the first-level cache.
constexpr auto kChunk = static_cast<std::size_t>(kTreeChunk);

struct Shared {
  Shared(int count, Communicator* to_others) : ranks(count), outer(to_others), slots(count) {
    for (int rank = 0; rank < count; ++rank) rank_blocks.push_back({rank, 1});
  }

  void wait() { barrier.wait(ranks); }
  void fail(int rank, const std::string& reason) noexcept {
    std::string text;
    try {
      text = concat("replica ", rank, " of this process has failed: ", reason);
    } catch (const std::exception&) {  // there is no memory: without a reason
    }
    barrier.abort(text);
  }

  struct Slot {
    void* data = nullptr;
    std::size_t size = 0;  // elements
    std::span<float* const> roots;
  };
  Slot& slot(int rank) { return slots[rank]; }

  int ranks;
  Communicator* outer;
  std::unique_ptr<Communicator> own_outer;  // of a duplicate
  // Ranks usually reach it within microseconds of each other.
  Barrier barrier{Barrier::Waiting::kSpinThenSleep};
  std::vector<Slot> slots;
  std::vector<TreeBlock> rank_blocks;  // of the tree over the ranks
  std::shared_ptr<Shared> next;        // the group that duplicate() is making
};

template <class T>
void add(T* out, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(rank) {}

  int rank() const override {
    return (shared_->outer ? shared_->outer->rank() * shared_->ranks : 0) + rank_;
  }
  int size() const override {
    return (shared_->outer ? shared_->outer->size() : 1) * shared_->ranks;
  }

  void all_reduce(std::span<float> values) override { reduce(values); }
  void all_reduce(std::span<double> values) override { reduce(values); }
  void all_reduce(std::span<std::int64_t> values) override { reduce(values); }

  void all_reduce_tree(std::int64_t leaves, std::span<float* const> roots,
                       std::size_t count) override {
    if (shared_->ranks == 1) {
      if (shared_->outer) shared_->outer->all_reduce_tree(leaves, roots, count);
      return;
    }
    publish(roots[0], count, roots);
    find_roots(leaves);
    const auto [first, last] = find_slice<float>(count);
    float total[kChunk];
    for (std::size_t i = first; i < last; i += kChunk) {
      const std::size_t n = std::min(kChunk, last - i);
      for (std::size_t root = 0; root < root_ends_.size(); ++root) {
        const std::size_t begin = root == 0 ? 0 : root_ends_[root - 1];
        complete_tree(std::span<const TreeBlock>(blocks_).subspan(begin, root_ends_[root] - begin),
                      sources_.data() + begin, static_cast<std::int64_t>(i),
                      static_cast<std::int64_t>(n), total, add<float>);
        if (shared_->outer) {
          std::copy(total, total + n, process_roots_[root] + i);
          continue;
        }
        for (const Shared::Slot& slot : shared_->slots) {
          std::copy(total, total + n, slot.roots[0] + i);
        }
      }
    }
    shared_->wait();
    if (!shared_->outer) return;
    outside([&] { shared_->outer->all_reduce_tree(leaves, process_roots_, count); });
    copy_from(0, std::as_writable_bytes(std::span(roots[0], count)));
    shared_->wait();
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    const int process = shared_->outer ? shared_->outer->rank() : 0;
    publish(bytes.data(), bytes.size());
    if (root / shared_->ranks == process) copy_from(root % shared_->ranks, bytes);
    shared_->wait();
    if (!shared_->outer) return;
    outside([&] { shared_->outer->broadcast(bytes, root / shared_->ranks); });
    copy_from(0, bytes);
    shared_->wait();
  }

  void all_gather(std::span<const std::byte> sent, std::span<std::byte> all) override {
    if (all.size() != sent.size() * size()) {
      throw std::logic_error(concat("all_gather: ", sent.size(), " bytes from each of ", size(),
                                    " ranks do not make ", all.size()));
    }
    publish(all.data(), all.size());
    auto* to = static_cast<std::byte*>(shared_->slots[0].data);
    std::ranges::copy(sent, to + rank() * sent.size());
    shared_->wait();
    if (shared_->outer) {
      outside([&] {
        const std::size_t block = sent.size() * shared_->ranks;
        const auto from = all.subspan(static_cast<std::size_t>(shared_->outer->rank()) * block);
        const std::vector<std::byte> ours(from.begin(), from.begin() + block);
        shared_->outer->all_gather(ours, all);
      });
    }
    copy_from(0, all);
    shared_->wait();
  }

  void barrier() override {
    shared_->wait();
    if (shared_->outer) outside([&] { shared_->outer->barrier(); });
  }

  std::unique_ptr<Communicator> duplicate() override {
    if (rank_ == 0) {
      std::unique_ptr<Communicator> outer;
      if (shared_->outer) {
        guarded([&] { outer = shared_->outer->duplicate(); });
      }
      shared_->next = std::make_shared<Shared>(shared_->ranks, outer.get());
      shared_->next->own_outer = std::move(outer);
    }
    shared_->wait();
    auto next = std::make_unique<LocalCommunicator>(shared_->next, rank_);
    shared_->wait();
    return next;
  }

  void abort(const std::string& reason) noexcept override {
    shared_->fail(rank_, reason);
    if (shared_->outer) shared_->outer->abort(reason);
  }

 private:
  // Publishes where this rank's elements are, and waits for the other ranks to do so.
  void publish(void* data, std::size_t size, std::span<float* const> roots = {}) {
    shared_->slot(rank_) = {data, size, roots};
    shared_->wait();
    if (size == shared_->slots[0].size) return;
    const std::string reason = concat("rank ", rank_, " of a group calls with ", size,
                                      " elements, rank 0 with ", shared_->slots[0].size);
    shared_->fail(rank_, reason);
    throw std::logic_error(reason);
  }

  void copy_from(int rank, std::span<std::byte> to) {
    if (rank == rank_ || to.empty()) return;
    std::memcpy(to.data(), shared_->slot(rank).data, to.size());
  }

  // Runs `call`; its error also reaches the other ranks, which wait for this one.
  template <class Call>
  void guarded(const Call& call) {
    try {
      call();
    } catch (...) {
      shared_->fail(rank_, handled_message());
      throw;
    }
  }

  // Runs `call` on the thread of rank 0, while the other ranks wait.
  template <class Call>
  void outside(const Call& call) {
    if (rank_ == 0) guarded(call);
    shared_->wait();
  }

  // Sets sources_ to the roots of all ranks of this process, and process_roots_ to the roots that
  // they complete together. Each of these lies in the memory of the first root that it consists of.
  void find_roots(std::int64_t leaves) {
    set_leaves(leaves);
    sources_.clear();
    for (const Shared::Slot& slot : shared_->slots) {
      sources_.insert(sources_.end(), slot.roots.begin(), slot.roots.end());
    }
    if (blocks_.size() != sources_.size()) {
      shared_->wait();  // all ranks throw, but only after all have read the roots
      throw std::logic_error(concat("all_reduce_tree: ", sources_.size(), " roots of ", leaves,
                                    " leaves on ", shared_->ranks, " ranks, expected ",
                                    blocks_.size()));
    }
    process_roots_.clear();
    for (std::size_t root = 0; root < root_ends_.size(); ++root) {
      process_roots_.push_back(sources_[root == 0 ? 0 : root_ends_[root - 1]]);
    }
  }

  void set_leaves(std::int64_t leaves) {
    if (leaves == leaves_) return;
    leaves_ = leaves;
    blocks_.clear();
    for (int r = 0; r < shared_->ranks; ++r) {
      const Partition share = partition(leaves, size(), rank() - rank_ + r);
      const std::vector<TreeBlock> roots = tree_roots(share.first, share.first + share.count);
      blocks_.insert(blocks_.end(), roots.begin(), roots.end());
    }
    root_ends_ = group_by_root(blocks_);
  }

  // Returns the elements that this rank sums: whole cache lines, so that no two ranks write into
  // one.
  template <class T>
  std::pair<std::size_t, std::size_t> find_slice(std::size_t count) const {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const auto lines = (static_cast<std::int64_t>(count) + kLine - 1) / kLine;
    const Partition part = partition(lines, shared_->ranks, rank_);
    const std::size_t first = part.first * kLine;
    return {first, std::min(count, first + static_cast<std::size_t>(part.count * kLine))};
  }

  // Each rank sums a slice over all ranks, and writes it where it is needed next.
  template <class T>
  void reduce(std::span<T> values) {
    if (shared_->ranks == 1) {
      if (shared_->outer) shared_->outer->all_reduce(values);
      return;
    }
    publish(values.data(), values.size());
    const std::vector<Shared::Slot>& slots = shared_->slots;
    const auto [first, last] = find_slice<T>(values.size());
    const std::size_t to = shared_->outer ? 1 : slots.size();
    auto& sources = std::get<std::vector<const T*>>(rank_sources_);
    sources.clear();
    for (const Shared::Slot& slot : slots) sources.push_back(static_cast<const T*>(slot.data));
    T total[kChunk];
    for (std::size_t i = first; i < last; i += kChunk) {
      const std::size_t n = std::min(kChunk, last - i);
      complete_tree(std::span<const TreeBlock>(shared_->rank_blocks), sources.data(),
                    static_cast<std::int64_t>(i), static_cast<std::int64_t>(n), total, add<T>);
      for (std::size_t slot = 0; slot < to; ++slot) {
        std::copy(total, total + n, static_cast<T*>(slots[slot].data) + i);
      }
    }
    shared_->wait();
    if (!shared_->outer) return;
    outside([&] { shared_->outer->all_reduce(values); });
    copy_from(0, std::as_writable_bytes(values));
    shared_->wait();
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  // The values of all ranks of this process in a call of all_reduce().
  std::tuple<std::vector<const float*>, std::vector<const double*>,
             std::vector<const std::int64_t*>>
      rank_sources_;
  // Used by all_reduce_tree(): the blocks of all ranks of this process, and the end of each root
  // that they complete.
  std::int64_t leaves_ = 0;
  std::vector<TreeBlock> blocks_;
  std::vector<std::size_t> root_ends_;
  // The addresses of the values of blocks_ and of these roots in a call.
  std::vector<float*> sources_, process_roots_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_group(int ranks, Communicator* outer) {
  auto shared = std::make_shared<Shared>(ranks, outer);
  std::vector<std::unique_ptr<Communicator>> group;
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(std::make_unique<LocalCommunicator>(shared, rank));
  }
  return group;
}

}  // namespace trainer::cluster
