#include "cluster/collective/gloo_communicator.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "cluster/collective/halving_doubling.h"
#include "cluster/collective/reduce.h"
#include "cluster/collective/tree_sum.h"
#include "cluster/transport/mesh.h"
#include "cluster/transport/wires.h"

namespace trainer::cluster {
namespace {

bool power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

template <class T>
void gloo_sum(void* sum, const void* a, const void* b, std::size_t count) {
  add(static_cast<T*>(sum), static_cast<const T*>(a), static_cast<const T*>(b), count);
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<Rendezvous> rendezvous, AlgorithmTable table, std::string name)
      : rendezvous_(std::move(rendezvous)), table_(std::move(table)), name_(std::move(name)) {
    run("connecting", [&] {
      mesh_ = Mesh::connect(*rendezvous_, name_);
      if (uses(Algorithm::kHalvingDoubling)) wires_ = std::make_unique<Wires>(*rendezvous_, name_);
    });
  }

  int rank() const override { return rendezvous_->rank(); }
  int size() const override { return rendezvous_->size(); }

  void all_reduce(std::span<float> values) override { sum(values); }
  void all_reduce(std::span<double> values) override { sum(values); }
  void all_reduce(std::span<std::int64_t> values) override { sum(values); }

  void all_reduce_tree(std::int64_t leaves, std::span<float* const> roots,
                       std::size_t count) override {
    if (count == 0 || size() == 1) return;
    if (has_one_root_per_rank(leaves, size()) && (size() == 2 || wires_)) {
      std::span<float> values(roots[0], count);
      if (size() == 2) return sum(values);
      run(concat("all_reduce of ", values.size_bytes(), " bytes"),
          [&] { halving_doubling(*wires_, values); });
      return;
    }
    if (!tree_sum_) tree_sum_ = std::make_unique<TreeSum>(mesh_);
    run(concat("all_reduce_tree of ", count * sizeof(float), " bytes"),
        [&] { tree_sum_->run(leaves, roots, count); });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    if (bytes.empty() || size() == 1) return;
    run(concat("broadcast of ", bytes.size(), " bytes"), [&] {
      gloo::BroadcastOptions options(mesh_);
      options.setOutput(reinterpret_cast<char*>(bytes.data()), bytes.size());
      options.setRoot(root);
      gloo::broadcast(options);
    });
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    if (mine.empty()) return;
    run(concat("all_gather of ", mine.size(), " bytes"), [&] {
      gloo::AllgatherOptions options(mesh_);
      // Gloo takes no pointer to const, but only reads.
      options.setInput(reinterpret_cast<char*>(const_cast<std::byte*>(mine.data())), mine.size());
      options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
      gloo::allgather(options);
    });
  }

  void barrier() override {
    run("barrier", [&] {
      if (wires_) {
        std::int64_t nothing = 0;
        halving_doubling(*wires_, std::span(&nothing, 1));
        return;
      }
      gloo::BarrierOptions options(mesh_);
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
  void run(const std::string& name, Call&& call) {
    rendezvous_->begin_call(name);
    if (mesh_) mesh_->begin_call();
    if (wires_) wires_->begin_call();
    try {
      call();
    } catch (const Error&) {
      throw;  // the error of the rendezvous names the cause already
    } catch (const std::exception& error) {
      const bool expired = mesh_ && mesh_->expired();
      close();  // ranks that wait for this one, and not for the culprit, learn it now
      rendezvous_->explain(name, error.what(), expired);
    }
  }

  template <class T>
  void sum(std::span<T> values) {
    if (values.empty() || size() == 1) return;
    const Algorithm algorithm = choose(values.size_bytes());
    run(concat("all_reduce of ", values.size_bytes(), " bytes"), [&] {
      if (algorithm == Algorithm::kHalvingDoubling) {
        halving_doubling(*wires_, values);
        return;
      }
      using Options = gloo::AllreduceOptions;
      Options options(mesh_);
      options.setOutput(values.data(), values.size());
      options.setReduceFunction(&gloo_sum<T>);
      options.setAlgorithm(algorithm == Algorithm::kRing ? Options::Algorithm::RING
                                                         : Options::Algorithm::BCUBE);
      gloo::allreduce(options);
    });
  }

  void close() noexcept {
    if (mesh_) mesh_->abort();
    if (wires_) wires_->abort();
  }

  bool uses(Algorithm algorithm) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const AlgorithmRow& row) { return row.algorithm == algorithm; });
  }

  Algorithm choose(std::size_t bytes) const {
    const auto row = std::find_if(table_.begin(), table_.end(),
                                  [&](const AlgorithmRow& entry) { return bytes <= entry.bytes; });
    return row == table_.end() ? table_.back().algorithm : row->algorithm;
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  AlgorithmTable table_;
  std::string name_;
  std::shared_ptr<Mesh> mesh_;
  std::unique_ptr<Wires> wires_;
  std::unique_ptr<TreeSum> tree_sum_;  // made by the first sum that needs it
  int duplicates_ = 0;
};

}  // namespace

const char* to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kBcube:
      return "bcube";
    case Algorithm::kHalvingDoubling:
      return "halving_doubling";
  }
  return "";
}

std::unique_ptr<Communicator> open_gloo(std::shared_ptr<Rendezvous> rendezvous,
                                        AlgorithmTable table) {
  for (const AlgorithmRow& row : table) {
    if (row.algorithm == Algorithm::kHalvingDoubling && !power_of_two(rendezvous->size())) {
      throw ConfigError({}, concat("halving_doubling needs 2, 4, 8, ... ranks, but there are ",
                                   rendezvous->size(), "; use ring"));
    }
  }
  std::string name = rendezvous->next_group();
  return std::make_unique<GlooCommunicator>(std::move(rendezvous), std::move(table),
                                            std::move(name));
}

std::vector<Algorithm> candidates(int size) {
  std::vector<Algorithm> all{Algorithm::kRing, Algorithm::kBcube};
  if (power_of_two(size)) all.push_back(Algorithm::kHalvingDoubling);
  return all;
}

}  // namespace trainer::cluster
