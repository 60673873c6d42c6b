#include "cluster/collective/gloo_communicator.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "cluster/collective/direct.h"
#include "cluster/collective/gloo_context.h"
#include "cluster/collective/reduce.h"
#include "cluster/collective/tree_sum.h"
#include "cluster/transport/transport.h"

namespace trainer::cluster {
namespace {

bool power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

template <class T>
void gloo_sum(void* sum, const void* a, const void* b, std::size_t count) {
  add(static_cast<T*>(sum), static_cast<const T*>(a), static_cast<const T*>(b), count);
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<Rendezvous> rendezvous,
                   std::shared_ptr<const AlgorithmTable> table, std::string name)
      : rendezvous_(std::move(rendezvous)), table_(std::move(table)), name_(std::move(name)) {
    run(Activity::kBarrier, "connecting", [&] {
      transport_ = std::make_unique<Transport>(*rendezvous_, name_);
      context_ = make_gloo_context(*transport_);
    });
  }

  int rank() const override { return rendezvous_->rank(); }
  int size() const override { return rendezvous_->size(); }

  void all_reduce(std::span<float> values) override { sum(values); }
  void all_reduce(std::span<double> values) override { sum(values); }
  void all_reduce(std::span<std::int64_t> values) override {
    if (values.empty() || size() == 1) return;
    if (!is_direct_sum(values.size_bytes())) return sum(values);
    run(Activity::kSum, concat("all_reduce of ", values.size_bytes(), " bytes"),
        [&] { direct_sum(*transport_, values); });
  }

  void all_reduce_tree(std::int64_t leaves, std::span<float* const> roots,
                       std::size_t count) override {
    if (count == 0 || size() == 1) return;
    if (has_one_root_per_rank(leaves, size())) {
      // Two ranks add in one order only, so that the table may choose the algorithm.
      std::span<float> values(roots[0], count);
      if (size() == 2) return sum(values);
      run(Activity::kSum, concat("all_reduce of ", values.size_bytes(), " bytes"),
          [&] { halving_doubling(*transport_, values); });
      return;
    }
    if (!tree_sum_) tree_sum_ = std::make_unique<TreeSum>(context_, *transport_);
    run(Activity::kSum, concat("all_reduce_tree of ", count * sizeof(float), " bytes"),
        [&] { tree_sum_->run(leaves, roots, count); });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    if (bytes.empty() || size() == 1) return;
    run(Activity::kBarrier, concat("broadcast of ", bytes.size(), " bytes"), [&] {
      if (is_direct(bytes.size() * size(), size())) {
        direct_broadcast(*transport_, bytes, root);
        return;
      }
      gloo::BroadcastOptions options(context_);
      options.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
      options.setRoot(root);
      gloo::broadcast(options);
    });
  }

  void all_gather(std::span<const std::byte> sent, std::span<std::byte> all) override {
    if (sent.empty()) return;
    run(Activity::kBarrier, concat("all_gather of ", sent.size(), " bytes"), [&] {
      if (is_direct(all.size(), size())) {
        direct_all_gather(*transport_, sent, all);
        return;
      }
      gloo::AllgatherOptions options(context_);
      // Gloo takes no pointer to const, but only reads.
      options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(sent.data())), sent.size());
      options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
      gloo::allgather(options);
    });
  }

  void barrier() override {
    run(Activity::kBarrier, "barrier", [&] {
      std::int64_t nothing = 0;
      if (is_direct_sum(sizeof nothing)) {
        direct_sum(*transport_, std::span(&nothing, 1));
        return;
      }
      if (power_of_two(size())) {
        halving_doubling(*transport_, std::span(&nothing, 1));
        return;
      }
      gloo::BarrierOptions options(context_);
      gloo::barrier(options);
    });
  }

  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<GlooCommunicator>(rendezvous_, table_,
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
    const Algorithm algorithm = choose(values.size_bytes());
    run(Activity::kSum, concat("all_reduce of ", values.size_bytes(), " bytes"), [&] {
      if (algorithm == Algorithm::kHalvingDoubling) {
        halving_doubling(*transport_, values);
        return;
      }
      if (algorithm == Algorithm::kRing && size() <= kMaxDirectRanks &&
          values.size_bytes() <= kMaxDirectRingBytes) {
        direct_ring(*transport_, values, std::get<std::vector<T>>(scratch_));
        return;
      }
      using Options = gloo::AllreduceOptions;
      Options options(context_);
      options.setOutput(values.data(), values.size());
      options.setReduceFunction(&gloo_sum<T>);
      options.setAlgorithm(algorithm == Algorithm::kRing ? Options::Algorithm::RING
                                                         : Options::Algorithm::BCUBE);
      gloo::allreduce(options);
    });
  }

  // Ranks of one host that are a power of two reach each other through memory in log2 p exchanges,
  // which take less time than messages through sockets.
  bool is_direct_sum(std::size_t bytes) const {
    const bool is_one_host = rendezvous_->self().local_size == size();
    return is_direct(bytes * static_cast<std::size_t>(size()), size()) &&
           !(is_one_host && power_of_two(size()));
  }

  void close() noexcept {
    if (transport_) transport_->abort();
  }

  Algorithm choose(std::size_t bytes) const {
    const auto row = std::ranges::find_if(
        *table_, [&](const AlgorithmRow& entry) { return bytes <= entry.bytes; });
    return row == table_->end() ? table_->back().algorithm : row->algorithm;
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  std::shared_ptr<const AlgorithmTable> table_;
  std::string name_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<gloo::Context> context_;  // uses transport_
  std::unique_ptr<TreeSum> tree_sum_;       // made by the first sum that needs it
  std::tuple<std::vector<float>, std::vector<double>, std::vector<std::int64_t>> scratch_;
  int duplicates_ = 0;
};

void check_table(const AlgorithmTable& table, int size) {
  for (const AlgorithmRow& row : table) {
    if (row.algorithm == Algorithm::kHalvingDoubling && !power_of_two(size)) {
      throw std::logic_error(concat("halving_doubling over ", size,
                                    " ranks, which are not a power of two; internal error, please "
                                    "report it"));
    }
  }
}

}  // namespace

std::unique_ptr<Communicator> open_gloo(std::shared_ptr<Rendezvous> rendezvous,
                                        AlgorithmTable table) {
  return open_gloo(std::move(rendezvous), std::make_shared<const AlgorithmTable>(std::move(table)));
}

std::unique_ptr<Communicator> open_gloo(std::shared_ptr<Rendezvous> rendezvous,
                                        std::shared_ptr<const AlgorithmTable> table) {
  check_table(*table, rendezvous->size());
  std::string name = rendezvous->next_group();
  return std::make_unique<GlooCommunicator>(std::move(rendezvous), std::move(table),
                                            std::move(name));
}

GroupPair open_gloo_pair(const std::shared_ptr<Rendezvous>& rendezvous,
                         const std::shared_ptr<const AlgorithmTable>& table) {
  check_table(*table, rendezvous->size());
  const std::string names[2]{rendezvous->next_group(), rendezvous->next_group()};
  GroupPair pair;
  std::exception_ptr error;
  std::thread beside([&] {
    try {
      pair.second = std::make_unique<GlooCommunicator>(rendezvous, table, names[1]);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    pair.first = std::make_unique<GlooCommunicator>(rendezvous, table, names[0]);
  } catch (...) {
    beside.join();
    throw;
  }
  beside.join();
  if (error) std::rethrow_exception(error);
  return pair;
}

std::vector<Algorithm> candidates(int size) {
  std::vector<Algorithm> all{Algorithm::kRing, Algorithm::kBcube};
  if (power_of_two(size)) all.push_back(Algorithm::kHalvingDoubling);
  return all;
}

}  // namespace trainer::cluster
