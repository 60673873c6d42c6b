#include "train/process_group.h"

#include <algorithm>

#include "base/error.h"
#include "cluster/open_communicator.h"
#include "config/derived.h"

namespace trainer::train {
namespace {

using config::Parallel;

}  // namespace

void check_workers(const config::Config& config, const cluster::Identity& who) {
  const Parallel& parallel = config.parallel;
  const bool servers = !who.cluster.ps.empty();
  if (parallel.strategy == Parallel::Strategy::kParameterServer) {
    if (!servers && who.size > 1) {
      throw ConfigError(parallel.loc,
                        "parallel.strategy: parameter_server needs ps tasks in the cluster "
                        "of TF_CONFIG (",
                        who.source, " gives ", who.size,
                        " workers and none); `trainer launch --ps 1` makes one on this "
                        "machine; or use all_reduce");
    }
    return;
  }
  if (servers) {
    throw ConfigError(parallel.loc,
                      "parallel.strategy: the cluster of TF_CONFIG has ps tasks, which only "
                      "parameter_server has a use for; set parallel: {strategy: parameter_server}, "
                      "or leave the ps tasks out");
  }
  if (who.size == 1) return;
  const bool ramp_up = std::holds_alternative<config::RampUpSchedule>(config.schedule.kind);
  if (!parallel.lr_scaling && !ramp_up) {
    throw ConfigError(parallel.loc, "parallel.lr_scaling: must be given with ", who.size,
                      " workers, whose batch is as many times as large: none, linear or sqrt");
  }
  if (parallel.reduction != Parallel::Reduction::kOrdered) return;
  const std::int64_t ranks = who.size * parallel.replicas;
  const std::int64_t lanes = parallel.lanes.value_or(1);
  if (parallel.micro_batches / ranks < lanes) {
    throw ConfigError(parallel.loc,
                      "parallel.micro_batches: reduction: ordered needs at least one for "
                      "each of the ",
                      ranks * lanes, " lanes of all workers' replicas; found ",
                      parallel.micro_batches,
                      "; set a larger power of two for all runs that must agree");
  }
  if (who.size > 2 && parallel.collective == config::Collective::kRing) {
    throw ConfigError(
        parallel.loc,
        "parallel.collective: reduction: ordered needs auto: ring does not sum in the "
        "order of a tree");
  }
}

std::shared_ptr<cluster::Rendezvous> join_job(const cluster::Identity& who,
                                              const config::Config& config,
                                              const std::function<void(const std::string&)>& warn,
                                              const Progress& progress) {
  cluster::RendezvousOptions options;
  options.progress = progress;
  options.secret = who.secret;
  options.warn = warn;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(config.parallel.timeout.count * 1000));
  options.version = who.build.empty() ? TRAINER_VERSION : who.build;
  auto rendezvous = std::make_shared<cluster::Rendezvous>(who, options);
  rendezvous->set_phase("starting");
  rendezvous->set_preparing(true);
  return rendezvous;
}

ProcessGroup::ProcessGroup(std::shared_ptr<cluster::Rendezvous> rendezvous,
                           const config::Config& config, const backend::Platform& platform,
                           const std::function<void(const std::string&)>& say)
    : rendezvous_(std::move(rendezvous)) {
  rendezvous_->set_preparing(false);
  const bool gpus = engine::uses_gpus(config.parallel, platform);
  rendezvous_->agree(
      {{"config", config::common_config(config)}, {"device", gpus ? "GPUs" : "CPU"}});
  cluster::Communicators groups = cluster::open_communicators(rendezvous_, config.parallel);
  gradients_ = std::move(groups.gradients);
  control_ = std::move(groups.control);
  if (!is_chief()) return;
  say("gradients are summed " + engine::describe_sums(config.parallel, platform, size()));
  for (const cluster::Member& member : rendezvous_->members()) {
    say(concat(member.name, " on ", member.host, " (", member.address, "), process ",
               member.process));
  }
}

ProcessGroup::~ProcessGroup() = default;

bool ProcessGroup::on_one_machine() const {
  return size() == 1 || rendezvous_->self().local_size == size();
}

std::string ProcessGroup::describe(int rank) const {
  return size() == 1 ? concat("rank ", rank) : rendezvous_->describe(rank);
}

engine::LocalPlace ProcessGroup::place() const {
  if (size() == 1) return {};
  const auto agree = [rendezvous = rendezvous_](const std::string& key, const std::string& choice) {
    rendezvous->set("choice " + key, choice);
    return rendezvous->get("choice " + key);
  };
  return {rendezvous_->self().local_rank, rendezvous_->self().local_size, agree};
}

void ProcessGroup::agree(const std::string& what, const std::string& value) {
  if (size() > 1) rendezvous_->agree(what, value);
}

void ProcessGroup::agree(const std::vector<std::pair<std::string, std::string>>& values) {
  if (size() > 1) rendezvous_->agree(values);
}

bool ProcessGroup::any_rank(bool value) {
  if (size() == 1) return value;
  std::int64_t count = value ? 1 : 0;
  control_->all_reduce(std::span(&count, 1));
  return count > 0;
}

void ProcessGroup::sum(std::span<double> values) {
  if (size() > 1) control_->all_reduce(values);
}

std::vector<std::string> ProcessGroup::hosts() const {
  std::vector<std::string> names;
  for (const cluster::Member& member : rendezvous_->members()) names.push_back(member.host);
  return names;
}

void ProcessGroup::prepare(const std::function<void()>& work) {
  if (size() > 1) rendezvous_->set_preparing(true);
  work();
  if (size() > 1) rendezvous_->set_preparing(false);
}

void ProcessGroup::set_phase(const std::string& phase) {
  if (size() > 1) rendezvous_->set_phase(phase);
}

void ProcessGroup::fail(const std::exception& error) noexcept {
  if (size() > 1 && dynamic_cast<const PeerError*>(&error) == nullptr) {
    rendezvous_->fail(error.what());
  }
}

bool ProcessGroup::broadcast_from_chief(bool value) {
  if (size() == 1) return value;
  std::uint8_t byte = value ? 1 : 0;
  control_->broadcast(std::as_writable_bytes(std::span(&byte, 1)), 0);
  return byte != 0;
}

void ProcessGroup::broadcast_from_chief(checkpoint::Metadata& metadata) {
  if (size() == 1) return;
  const auto share = [this](auto& values) {
    control_->broadcast(std::as_writable_bytes(std::span(values)), 0);
  };
  // Sends the lengths of all keys and values in one buffer, and their texts in another.
  std::vector<std::uint64_t> lengths;
  std::string texts;
  for (const auto& [key, value] : metadata) {
    for (const std::string* text : {&key, &value}) {
      lengths.push_back(text->size());
      texts += *text;
    }
  }
  std::vector<std::uint64_t> sizes{lengths.size(), texts.size()};
  share(sizes);
  lengths.resize(sizes[0]);
  texts.resize(sizes[1]);
  share(lengths);
  share(texts);
  metadata.clear();
  std::size_t at = 0;
  for (std::size_t i = 0; i + 1 < lengths.size(); i += 2) {
    const std::string key = texts.substr(at, lengths[i]);
    metadata[key] = texts.substr(at + lengths[i], lengths[i + 1]);
    at += lengths[i] + lengths[i + 1];
  }
}

void ProcessGroup::broadcast_from_chief(std::vector<checkpoint::Tensor>& tensors) {
  if (size() == 1) return;
  for (checkpoint::Tensor& tensor : tensors) {
    control_->broadcast(std::as_writable_bytes(std::span(tensor.values)), 0);
  }
}

}  // namespace trainer::train
