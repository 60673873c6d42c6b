// How a rank joins its job: it greets the coordinator until that answers.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "base/process/process.h"
#include "base/process/secret.h"
#include "cluster/rendezvous/link.h"

namespace trainer::cluster {
namespace {

constexpr Milliseconds kMinJoinPause{10}, kMaxJoinPause{500};
constexpr Milliseconds kReplyTimeout{5'000};  // allows for a busy machine of rank 0

// Returns "worker:1" without the address: members have one of their own.
std::string short_name(const Identity& identity) {
  const std::string name = rank_name(identity, identity.rank);
  return name.substr(0, name.find(" at "));
}

void count_local_ranks(std::vector<Member>& members) {
  std::map<std::string, int> counts;
  for (Member& member : members) member.local_rank = counts[member.host]++;
  for (Member& member : members) member.local_size = counts[member.host];
}

}  // namespace

void Rendezvous::Link::join(const Identity& identity, const RendezvousOptions& options) {
  const auto deadline = network->now() + timeout;
  // The coordinator's deadline comes first, because its message names the missing ranks.
  const auto patience = deadline + timeout / 10 + kReplyTimeout;
  std::string reason = "no answer", rejection;
  for (auto pause = kMinJoinPause; network->now() < deadline;
       pause = std::min(pause * 3 / 2, kMaxJoinPause)) {
    socket_ = network->connect_to(identity.master, deadline, reason);
    if (socket_ && greet(identity, options, deadline, patience, reason, rejection)) return;
    network->sleep(std::min(pause, std::chrono::duration_cast<Milliseconds>(
                                       std::max(deadline - network->now(), Clock::duration(0)))));
  }
  // A rejection by the coordinator explains more than that it has ended since.
  throw PeerError("rank 0 (", rank_name(identity, 0), ") cannot be reached at ",
                  to_string(identity.master), " for ", seconds(timeout),
                  ", the limit of parallel.timeout: ", rejection.empty() ? reason : rejection);
}

// Returns false when another attempt may succeed.
bool Rendezvous::Link::greet(const Identity& identity, const RendezvousOptions& options,
                             Clock::time_point deadline, Clock::time_point patience,
                             std::string& reason, std::string& rejection) {
  in_.clear();
  // The coordinator sends the first message. A process that accepts connections and sends nothing
  // is another program; the coordinator may listen there later.
  const std::string first =
      wait_message(std::min(deadline, network->now() + kReplyTimeout), reason);
  if (first.empty()) return false;
  Reader challenge(first);
  if (challenge.kind() != kChallenge) {
    reason = "the process that listens there is not rank 0 of this program";
    return false;
  }
  const std::string peer_challenge = challenge.text(), own_challenge = draw_secret(16);
  std::string hello =
      Writer(kHello)
          .number(kProtocol)
          .text(identity.job)
          .number(static_cast<std::uint64_t>(identity.rank))
          .number(static_cast<std::uint64_t>(identity.size))
          .text(short_name(identity))
          .text(options.version)
          .text(cluster_text(identity))
          .text(host_name())
          .number(static_cast<std::uint64_t>(::getpid()))
          .text(own_challenge)
          .text(compute_proof(options.secret, {kHelloProof, peer_challenge, own_challenge,
                                               std::to_string(identity.rank)}))
          .finish();
  if (!transmit(socket_, hello)) return false;
  members.resize(identity.size);
  const std::string answer = wait_message(patience, reason);
  return !answer.empty() &&
         read_answer(answer, compute_proof(options.secret, {kWelcomeProof, own_challenge}),
                     options.secret, rejection);
}

// Returns "" when the connection closed or the deadline passed.
std::string Rendezvous::Link::wait_message(Clock::time_point deadline, std::string& reason) {
  while (network->now() < deadline) {
    pollfd event{socket_.get(), POLLIN, 0};
    network->wait(std::span(&event, 1), deadline);
    const bool open = receive(socket_, in_);
    try {
      if (auto message = take_message(in_)) return *message;
    } catch (const PeerError& error) {
      reason = error.what();
      return "";
    }
    if (!open) {
      reason = "it closed the connection";
      return "";
    }
  }
  reason = "it does not answer";
  return "";
}

bool Rendezvous::Link::read_answer(const std::string& message, const std::string& welcome_proof,
                                   const std::string& secret, std::string& rejection) {
  Reader reader(message);
  if (reader.kind() == kReject) {
    const std::uint64_t kind = reader.number();
    rejection = reader.text();
    if (kind == kWrong) throw ConfigError({}, rejection);
    if (kind == kMissing) throw PeerError(rejection);
    return false;
  }
  if (reader.kind() != kWelcome) throw PeerError("rank 0 answers what was not asked");
  if (!same_secret(reader.text(), welcome_proof)) {
    rejection = "the process that listens there does not have the secret of the job";
    return false;
  }
  generation = reader.number();
  session_key = compute_proof(secret, {"trainer session", std::to_string(generation)});
  reader.text();
  for (Member& member : members) {
    member.name = reader.text();
    member.host = reader.text();
    member.address = reader.text();
    member.process = reader.number();
  }
  count_local_ranks(members);
  return true;
}

}  // namespace trainer::cluster
