// How a rank joins its job: it greets the coordinator until that answers.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "base/process.h"
#include "cluster/rendezvous_link.h"

namespace trainer::cluster {
namespace {

constexpr Milliseconds kShortestRetry{10}, kLongestRetry{500};

// "worker:1", without its address, which members know better.
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
  const auto deadline = Clock::now() + timeout;
  // The coordinator's own deadline is first and its message better: it knows who is missing.
  const auto patience = deadline + timeout / 10 + Milliseconds(200);
  std::string reason = "no answer";
  for (auto pause = kShortestRetry; Clock::now() < deadline;
       pause = std::min(pause * 3 / 2, kLongestRetry)) {
    socket_ = connect_to(identity.master, deadline, reason);
    if (socket_ && greet(identity, options, patience, reason)) return;
    std::this_thread::sleep_for(pause);
  }
  throw PeerError(concat("rank 0 (", rank_name(identity, 0), ") cannot be reached at ",
                         to_string(identity.master), " for ", seconds(timeout), ": ", reason));
}

// False when another attempt may help.
bool Rendezvous::Link::greet(const Identity& identity, const RendezvousOptions& options,
                             Clock::time_point deadline, std::string& reason) {
  in_.clear();
  std::string hello = Writer(kHello)
                          .number(kProtocol)
                          .text(identity.job)
                          .number(static_cast<std::uint64_t>(identity.rank))
                          .number(static_cast<std::uint64_t>(identity.size))
                          .text(short_name(identity))
                          .text(options.version)
                          .text(cluster_text(identity))
                          .text(host_name())
                          .number(static_cast<std::uint64_t>(::getpid()))
                          .finish();
  if (!transmit(socket_, hello)) return false;
  members.resize(static_cast<std::size_t>(identity.size));
  const std::string answer = wait_message(deadline, reason);
  return !answer.empty() && read_answer(answer, reason);
}

// "" when the connection closed or the deadline passed.
std::string Rendezvous::Link::wait_message(Clock::time_point deadline, std::string& reason) {
  while (Clock::now() < deadline) {
    pollfd event{socket_.get(), POLLIN, 0};
    ::poll(&event, 1, 100);
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

bool Rendezvous::Link::read_answer(const std::string& message, std::string& reason) {
  Reader reader(message);
  if (reader.kind() == kReject) {
    const std::uint64_t refusal = reader.number();
    reason = reader.text();
    if (refusal == kWrong) throw ConfigError({}, reason);
    if (refusal == kMissing) throw PeerError(reason);
    return false;
  }
  if (reader.kind() != kWelcome) throw PeerError("rank 0 answers what was not asked");
  generation = reader.number();
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
