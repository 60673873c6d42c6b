#include "cluster/rendezvous.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>

#include "base/process/secret.h"
#include "cluster/rendezvous/coordinator.h"
#include "cluster/rendezvous/link.h"

namespace trainer::cluster {

std::vector<RankReport> Rendezvous::Link::reports(const std::string& call) {
  std::vector<RankReport> all(members.size());
  for (RankReport& one : all) one.traffic.resize(members.size());
  {
    const std::lock_guard lock(mutex);
    if (ended_) {
      all[0].state = kLeft;
      return all;
    }
  }
  const std::uint64_t request = next_request();
  const std::string answer = ask(Writer(kStatus).number(request), request, call.c_str());
  Reader reader(answer);
  reader.number();
  for (RankReport& one : all) {
    one.state = reader.number();
    one.calls = reader.number();
    for (TrafficReport& peer : one.traffic) {
      std::array<std::uint64_t, kTrafficNumbers> numbers{};
      for (std::uint64_t& number : numbers) number = reader.number();
      peer = {numbers[kSent], numbers[kReceived], numbers[kReceiveWaits], numbers[kSendWaits]};
    }
  }
  return all;
}

std::string Rendezvous::Link::describe(int other) const {
  const Member& member = members[other];
  return concat("rank ", other, " (",
                member.name == concat("rank ", other) ? "" : member.name + " ", "on ", member.host,
                ", process ", member.process, ")");
}

Rendezvous::Rendezvous(const Identity& identity, const RendezvousOptions& options)
    : exceptions_(std::uncaught_exceptions()) {
  std::signal(SIGPIPE, SIG_IGN);
  if (identity.rank == 0) {
    CoordinatorOptions coordinator{identity.master,
                                   identity.job,
                                   cluster_text(identity),
                                   options.version,
                                   {},
                                   options.timeout,
                                   silence_limit(options.timeout),
                                   heartbeat_interval(options.timeout)};
    coordinator.secret = options.secret;
    coordinator.warn = options.warn;
    coordinator.greeting = options.greeting;
    coordinator.network = options.network ? options.network : system_network();
    for (int r = 0; r < identity.size; ++r) coordinator.names.push_back(rank_name(identity, r));
    coordinator_ = std::make_unique<Coordinator>(std::move(coordinator));
  }
  link_ = std::make_unique<Link>(identity, options);
}

Rendezvous::~Rendezvous() {
  if (std::uncaught_exceptions() > exceptions_ && !lost()) {
    fail("has stopped with an error");
  } else {
    link_->leave();
  }
  link_.reset();
}

int Rendezvous::rank() const { return link_->rank; }
int Rendezvous::size() const { return static_cast<int>(link_->members.size()); }
const std::vector<Member>& Rendezvous::members() const { return link_->members; }
const Member& Rendezvous::self() const { return link_->members[link_->rank]; }
std::string Rendezvous::describe(int rank) const { return link_->describe(rank); }
std::chrono::milliseconds Rendezvous::timeout() const { return link_->timeout; }
std::uint64_t Rendezvous::generation() const { return link_->generation; }
bool Rendezvous::shared_memory() const { return link_->shared_memory; }
const Network& Rendezvous::network() const { return *link_->network; }
const Progress& Rendezvous::progress() const { return link_->progress; }
std::string Rendezvous::proof(std::initializer_list<std::string_view> parts) const {
  return compute_proof(link_->session_key, parts);
}

void Rendezvous::set(const std::string& key, const std::string& value) { link_->set(key, value); }

std::string Rendezvous::get(const std::string& key) {
  const std::uint64_t request = link_->next_request();
  return link_->ask(Writer(kGet).number(request).text(key), request, "the rendezvous");
}

std::vector<std::string> Rendezvous::get(const std::vector<std::string>& keys) {
  std::vector<std::uint64_t> requests;
  std::string messages;
  for (const std::string& key : keys) {
    requests.push_back(link_->next_request());
    messages += Writer(kGet).number(requests.back()).text(key).finish();
  }
  return link_->ask_all(messages, requests, "the rendezvous");
}

void Rendezvous::agree(const std::string& key, const std::string& value) { agree({{key, value}}); }

void Rendezvous::agree(const std::vector<std::pair<std::string, std::string>>& values) {
  std::vector<std::uint64_t> requests;
  std::string messages;
  for (const auto& [key, value] : values) {
    requests.push_back(link_->next_request());
    messages += Writer(kAgree).number(requests.back()).text(key).text(value).finish();
  }
  for (const std::string& difference : link_->ask_all(messages, requests, "the rendezvous")) {
    if (!difference.empty()) throw ConfigError({}, difference);
  }
}

void Rendezvous::set_preparing(bool is_preparing) { link_->is_preparing = is_preparing; }

void Rendezvous::fail(const std::string& message, std::optional<int> culprit) noexcept {
  try {
    link_->fail(message, culprit.value_or(link_->rank));
  } catch (const std::exception&) {  // no memory: the closing connection reports it too
  }
}

std::optional<std::string> Rendezvous::lost() const { return link_->lost(); }

void Rendezvous::set_phase(const std::string& phase) {
  const std::lock_guard lock(link_->mutex);
  link_->phase = phase;
}

std::string Rendezvous::next_group() { return std::to_string(groups_++); }

void Rendezvous::begin_call(const std::string& call) {
  if (const auto reason = lost()) {
    throw PeerError(
        link_->with_phase(concat(*reason, "; noticed by rank ", rank(), " before ", call)));
  }
  link_->begin_call(call);
}

void Rendezvous::explain(const std::string& call, const CallFailure& failure) {
  // A broken connection is known here and at the coordinator at about the same time.
  const auto moment = std::min(timeout() / 40, Milliseconds(200));
  auto verdict = link_->await_verdict(moment);
  if (!verdict) {
    const std::vector<RankReport> all = link_->reports(call);
    std::optional<Blame> blame = find_rank_that_left(all);
    if (!blame && failure.timed_out) {
      blame =
          find_broken_connection(all, timeout(), [&](int other) { return link_->describe(other); });
    }
    if (!blame && failure.timed_out) {
      blame = find_rank_behind(all, rank(), link_->calls(), timeout());
    }
    if (!blame && !failure.timed_out) verdict = link_->await_verdict(link_->grace());
    if (!verdict) {
      if (!blame) {
        const std::string where =
            failure.peer ? "exchange data with " + link_->describe(*failure.peer) : "go on";
        blame = Blame{rank(), concat("cannot ", where, ": ", failure.reason)};
      }
      // All ranks receive it from the coordinator, so that all name the same one.
      link_->fail(blame->what, blame->rank);
      verdict = link_->await_verdict(link_->grace());
    }
    if (!verdict) verdict = link_->describe(blame->rank) + " " + blame->what;
  }
  throw PeerError(link_->with_phase(concat(*verdict, "; noticed by rank ", rank(), " in ", call)));
}

PeerTraffic& Rendezvous::traffic(int peer) { return link_->traffic[peer]; }

std::chrono::steady_clock::time_point Rendezvous::last_progress() const {
  return link_->last_progress();
}

Rendezvous::Handle Rendezvous::on_loss(std::function<void()> wake) {
  return link_->on_loss(std::move(wake));
}

Rendezvous::Handle Rendezvous::before_heartbeat(std::function<void()> measure) {
  return link_->before_heartbeat(std::move(measure));
}

}  // namespace trainer::cluster
