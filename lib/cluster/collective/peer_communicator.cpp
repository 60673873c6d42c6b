#include "cluster/collective/peer_communicator.h"

#include <bit>
#include <exception>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "cluster/collective/exchange.h"
#include "cluster/collective/halving_doubling.h"
#include "cluster/collective/ring_sum.h"
#include "cluster/collective/tree_sum.h"
#include "cluster/transport/transport.h"

namespace trainer::cluster {
namespace {

// Up to here the latency of the 2 (p - 1) messages of a ring, which follow each other, counts more
// than its speed.
constexpr std::size_t kMaxTreeBytes = 4 << 20;

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

class PeerCommunicator final : public Communicator {
 public:
  PeerCommunicator(std::shared_ptr<Rendezvous> rendezvous, Algorithm algorithm, std::string name)
      : rendezvous_(std::move(rendezvous)), algorithm_(algorithm), name_(std::move(name)) {
    run(Activity::kBarrier, "connecting",
        [&] { transport_ = std::make_unique<Transport>(*rendezvous_, name_); });
  }

  int rank() const override { return rendezvous_->rank(); }
  int size() const override { return rendezvous_->size(); }

  void all_reduce(std::span<float> values) override { sum(values); }
  void all_reduce(std::span<double> values) override { sum(values); }
  void all_reduce(std::span<std::int64_t> values) override { sum(values); }

  void all_reduce_tree(std::int64_t leaves, std::span<float* const> roots,
                       std::size_t count) override {
    if (count == 0 || size() == 1) return;
    run(Activity::kSum, concat("all_reduce_tree of ", count * sizeof(float), " bytes"), [&] {
      if (has_one_root_per_rank(leaves, size())) return add_in_tree(std::span(roots[0], count));
      std::get<TreeSum<float>>(tree_sums_).run(*transport_, leaves, roots, count);
    });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    if (bytes.empty() || size() == 1) return;
    run(Activity::kBarrier, concat("broadcast of ", bytes.size(), " bytes"),
        [&] { cluster::broadcast(*transport_, bytes, root); });
  }

  void all_gather(std::span<const std::byte> sent, std::span<std::byte> all) override {
    if (sent.empty()) return;
    run(Activity::kBarrier, concat("all_gather of ", sent.size(), " bytes"),
        [&] { cluster::all_gather(*transport_, sent, all); });
  }

  void barrier() override {
    std::int64_t nothing = 0;
    run(Activity::kBarrier, "barrier", [&] { add_in_tree(std::span(&nothing, 1)); });
  }

  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<PeerCommunicator>(rendezvous_, algorithm_,
                                              concat(name_, '.', duplicates_++));
  }

  void abort(const std::string& reason) noexcept override {
    rendezvous_->fail("has failed: " + reason);
    close();
  }

 private:
  template <class Call>
  void run(Activity activity, const std::string& name, Call&& call) {
    const ActivityScope scope(rendezvous_->progress(), activity);
    rendezvous_->begin_call(name);
    if (transport_) transport_->begin_call();
    try {
      call();
    } catch (const Error&) {
      throw;  // the error of the rendezvous names the cause already
    } catch (const TransportError& error) {
      fail(name, {error.what(), error.peer, error.kind == TransportError::Kind::kTimeout});
    } catch (const std::exception& error) {
      fail(name, {error.what()});
    }
  }

  // Closes the connections only after all ranks have the reason, because they would take a closed
  // connection for the cause.
  [[noreturn]] void fail(const std::string& name, const Rendezvous::CallFailure& failure) {
    try {
      rendezvous_->explain(name, failure);
    } catch (...) {
      close();
      throw;
    }
  }

  template <class T>
  void sum(std::span<T> values) {
    if (values.empty() || size() == 1) return;
    run(Activity::kSum, concat("all_reduce of ", values.size_bytes(), " bytes"), [&] {
      if (algorithm_ == Algorithm::kTree || values.size_bytes() <= kMaxTreeBytes) {
        return add_in_tree(values);
      }
      ring_sum(*transport_, values, std::get<std::vector<T>>(scratch_));
    });
  }

  // Ranks of one host that are a power of two reach each other through memory in log2 p exchanges,
  // which take less time than messages to all of them.
  template <class T>
  void add_in_tree(std::span<T> values) {
    const bool is_one_host = rendezvous_->self().local_size == size();
    const bool is_one_message = is_short(values.size_bytes() * size()) && !is_one_host;
    if (algorithm_ == Algorithm::kTree && is_power_of_two(size()) && !is_one_message) {
      return halving_doubling(*transport_, values);
    }
    T* const root = values.data();
    std::get<TreeSum<T>>(tree_sums_)
        .run(*transport_, size(), std::span<T* const>(&root, 1), values.size());
  }

  void close() noexcept {
    if (transport_) transport_->abort();
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  Algorithm algorithm_;
  std::string name_;
  std::unique_ptr<Transport> transport_;
  std::tuple<TreeSum<float>, TreeSum<double>, TreeSum<std::int64_t>> tree_sums_;
  std::tuple<std::vector<float>, std::vector<double>, std::vector<std::int64_t>> scratch_;
  int duplicates_ = 0;
};

}  // namespace

Algorithm fastest_algorithm(int ranks) {
  return is_power_of_two(ranks) ? Algorithm::kTree : Algorithm::kRing;
}

std::unique_ptr<Communicator> open_group(std::shared_ptr<Rendezvous> rendezvous,
                                         Algorithm algorithm) {
  std::string name = rendezvous->next_group();
  return std::make_unique<PeerCommunicator>(std::move(rendezvous), algorithm, std::move(name));
}

GroupPair open_group_pair(const std::shared_ptr<Rendezvous>& rendezvous, Algorithm algorithm) {
  const std::string names[2]{rendezvous->next_group(), rendezvous->next_group()};
  GroupPair pair;
  std::exception_ptr error;
  std::thread beside([&] {
    try {
      pair.second = std::make_unique<PeerCommunicator>(rendezvous, algorithm, names[1]);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    pair.first = std::make_unique<PeerCommunicator>(rendezvous, algorithm, names[0]);
  } catch (...) {
    beside.join();
    throw;
  }
  beside.join();
  if (error) std::rethrow_exception(error);
  return pair;
}

}  // namespace trainer::cluster
