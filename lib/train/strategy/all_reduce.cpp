// Workers that make every step together.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/process.h"
#include "train/session/session.h"
#include "train/session/stage_control.h"
#include "train/strategy/synchronous.h"
#include "train/worker_group.h"

namespace trainer::train {
namespace {

using hooks::Request;

class AllReduce final : public SynchronousStrategy {
 public:
  explicit AllReduce(WorkerGroup& group) : group_(group) {}

  bool is_chief() const override { return group_.is_chief(); }
  WorkerGroup* workers() override { return &group_; }
  FeatureSharing feature_sharing() const override {
    return group_.on_one_machine() ? FeatureSharing::kOneMachine : FeatureSharing::kSeveralMachines;
  }

  // The other ranks need none of the chief's files.
  void start(StageControl& stages) override {
    const Job& job = session().job;
    checkpoint::Metadata metadata = to_metadata(session().state, job.config, job.data, job.plan);
    group_.broadcast_from_chief(metadata);
    if (!is_chief()) {
      session().state =
          from_metadata(metadata, job.config, job.data, job.plan, "the checkpoint of rank 0");
      stages.enter_after(session().state.step);
    }
    std::vector<checkpoint::Tensor> tensors = job.engine.tensors();
    group_.broadcast_from_chief(tensors);
    if (!is_chief()) {
      job.engine.load({std::move(tensors), {}}, "the variables of rank 0");
      if (session().state.loss_scale) job.engine.set_loss_scale(*session().state.loss_scale);
    }
    gather_rank_names();
  }

  std::vector<std::string> rank_names() const override { return rank_names_; }
  std::size_t first_rank() const override {
    return static_cast<std::size_t>(group_.rank() * session().job.engine.count());
  }

  bool launch(std::int64_t step) override {
    set_phase(session().phase(concat("training, step ", step + 1)));
    return SynchronousStrategy::launch(step);
  }

  std::optional<StepOutcome> result() override {
    auto outcome = SynchronousStrategy::result();
    if (outcome && !outcome->not_finite) prefetch_next_batch();
    return outcome;
  }

  // A signal of any rank counts, and the chief's clock and hooks.
  StepVerdict agree(const StepVerdict& own, std::span<engine::RankTimes> times) override {
    StepVerdict share = own;
    if (!is_chief()) share.due.evaluate = share.due.save = false;
    share.due.request = pending_request_;
    // The times of the ranks travel with it: every rank adds zeros to those of the others.
    const StepVerdict::Numbers verdict = share.to_numbers();
    exchanged_.assign(verdict.begin(), verdict.end());
    for (const engine::RankTimes& rank : times) {
      exchanged_.insert(exchanged_.end(), rank.seconds.begin(), rank.seconds.end());
    }
    group_.control().all_reduce(std::span<double>(exchanged_));
    auto from = exchanged_.cbegin() + StepVerdict::kNumbers;
    for (engine::RankTimes& rank : times) {
      std::copy_n(from, engine::kStepPhases, rank.seconds.begin());
      from += engine::kStepPhases;
    }
    StepVerdict::Numbers sum;
    std::copy_n(exchanged_.begin(), sum.size(), sum.begin());
    return StepVerdict::from_sum(sum);
  }
  bool any_rank(bool value) override {
    std::int64_t count = value ? 1 : 0;
    group_.control().all_reduce(std::span(&count, 1));
    return count > 0;
  }
  Request broadcast_from_chief(Request request) override {
    const bool stop = group_.broadcast_from_chief(request == Request::kStop);
    const bool save = group_.broadcast_from_chief(request == Request::kSave);
    return stop ? Request::kStop : save ? Request::kSave : Request::kContinue;
  }
  bool broadcast_from_chief(bool value) override { return group_.broadcast_from_chief(value); }
  void broadcast_from_chief(std::vector<checkpoint::Tensor>& tensors) override {
    group_.broadcast_from_chief(tensors);
  }
  // Only the chief has hooks; the others learn of their requests with the next step.
  Request submit(Request request) override {
    pending_request_ = request;
    return Request::kContinue;
  }
  bool may_stop_now() const override { return false; }
  void set_phase(const std::string& phase) override { group_.set_phase(phase); }

  // The others know that a peer has gone.
  void fail(const std::exception& error) noexcept override {
    if (dynamic_cast<const PeerError*>(&error) == nullptr) group_.fail(error.what());
  }

 private:
  Share share() const override { return {group_.rank(), group_.size()}; }

  // "rank 3 (replica 1 of worker 1 on host b)".
  void gather_rank_names() {
    constexpr std::size_t kLongestHost = 64;
    std::array<char, kLongestHost> own{};
    const std::string host = host_name();
    std::copy_n(host.begin(), std::min(host.size(), kLongestHost), own.begin());
    std::vector<char> hosts(kLongestHost * static_cast<std::size_t>(group_.size()));
    group_.control().all_gather(std::as_bytes(std::span(own)),
                                std::as_writable_bytes(std::span(hosts)));
    const std::int64_t replicas = session().job.engine.count();
    for (std::int64_t worker = 0; worker < group_.size(); ++worker) {
      const char* name = hosts.data() + static_cast<std::size_t>(worker) * kLongestHost;
      const std::string where =
          concat("worker ", worker, " on host ", std::string(name, ::strnlen(name, kLongestHost)));
      for (std::int64_t i = 0; i < replicas; ++i) {
        rank_names_.push_back(concat("rank ", worker * replicas + i, " (",
                                     replicas > 1 ? concat("replica ", i, " of ") : std::string(),
                                     where, ")"));
      }
    }
  }

  WorkerGroup& group_;
  std::vector<std::string> rank_names_;
  std::vector<double> exchanged_;
  Request pending_request_ = Request::kContinue;  // of the hooks after the step before
};

}  // namespace

std::unique_ptr<Strategy> make_all_reduce(WorkerGroup& group) {
  return std::make_unique<AllReduce>(group);
}

}  // namespace trainer::train
