#include "cluster/rendezvous/coordinator.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/process/secret.h"
#include "base/text.h"
#include "cluster/rendezvous/diagnosis.h"
#include "cluster/rendezvous/protocol.h"

namespace trainer::cluster {
namespace {

// The time for which a rank may prepare, as a multiple of the time-out.
constexpr int kPreparationLimit = 10;

std::uint64_t draw_generation() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string shorten(const std::string& text) {
  return text.size() <= 200 ? text : text.substr(0, 200) + "...";
}

// The first line in which two texts differ: "'a', not 'b'".
std::string difference(const std::string& here, const std::string& there) {
  const auto a = split_lines(here), b = split_lines(there);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? "'" + shorten(a[i]) + "'" : "nothing more";
    const std::string right = i < b.size() ? "'" + shorten(b[i]) + "'" : "nothing more";
    if (left != right) return left + ", not " + right;
  }
  return "the same";
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      network_(*options_.network),
      generation_(draw_generation()),
      listener_(network_.listen_at(options_.address)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ranks_(options_.names.size()),
      started_(network_.now()),
      last_beat_(started_),
      last_round_(started_) {
  thread_ = std::thread([this] { serve(); });
}

Coordinator::~Coordinator() {
  ending_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_.get(), &one, sizeof one);
  thread_.join();
}

void Coordinator::serve() {
  while (!ending_) {
    wait_for_events();
    accept_all();
    for (const auto& connection : connections_) read(*connection);
    drop_unauthenticated();
    check_join_deadline();
    check_silence();
    beat();
    flush();
  }
  // Closing with unread bytes resets a connection and may destroy what was just sent: wait until
  // the ranks have closed theirs.
  listener_ = {};
  send_all(Writer(kEnd));
  const auto deadline =
      network_.now() + std::min<Milliseconds>(options_.silence, Milliseconds(2000));
  for (const auto& connection : connections_) connection->closing = true;
  flush();
  while (network_.now() < deadline && !all_gone()) {
    wait_for_events();
    for (const auto& connection : connections_) {
      if (!receive(connection->socket, connection->in)) forget(*connection);
      connection->in.clear();
    }
    flush();
  }
}

bool Coordinator::all_gone() const {
  return std::ranges::all_of(connections_,
                             [](const auto& connection) { return !connection->open; });
}

void Coordinator::wait_for_events() {
  std::vector<pollfd> events;
  if (listener_) events.push_back({listener_.get(), POLLIN, 0});
  if (!ending_) events.push_back({waker_.get(), POLLIN, 0});
  for (const auto& connection : connections_) {
    if (!connection->open) continue;
    const short wanted = connection->out.empty() ? POLLIN : POLLIN | POLLOUT;
    events.push_back({connection->socket.get(), wanted, 0});
  }
  network_.wait(events, network_.now() + std::min(options_.beat, Milliseconds(100)));
}

// Accepts only some at once, so that the ranks among them are read before drop_unauthenticated().
void Coordinator::accept_all() {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    Socket socket = network_.accept_from(listener_);
    if (!socket) return;
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->since = network_.now();
    connection->challenge = draw_secret(16);
    connection->out = Writer(kChallenge).text(connection->challenge).finish();
    connections_.push_back(std::move(connection));
  }
}

// A rank greets at once. Connections that do not greet in time, and the oldest of too many, are
// closed; a rank among them connects again.
void Coordinator::drop_unauthenticated() {
  constexpr std::ptrdiff_t kMaxUnauthenticated = 128;
  const auto is_unauthenticated = [](const auto& connection) {
    return connection->open && connection->rank < 0;
  };
  auto excess = std::ranges::count_if(connections_, is_unauthenticated) - kMaxUnauthenticated;
  for (const auto& connection : connections_) {  // the oldest first
    if (!is_unauthenticated(connection)) continue;
    if (excess-- > 0) {
      drop(*connection, "too many connections without a greeting");
    } else if (network_.now() - connection->since > options_.greeting) {
      drop(*connection, "it sent no greeting in time");
    }
  }
}

void Coordinator::drop(Connection& connection, const std::string& reason) {
  connection.open = false;
  if (!connection.closing) count_rejection(connection, reason);
}

void Coordinator::count_rejection(const Connection& connection, const std::string& reason) {
  if (++rejected_ > 1 || !options_.warn) return;
  options_.warn(concat("rejected a connection from ", remote_host(connection.socket), " to ",
                       to_string(options_.address), ", which is not a rank of this job: ", reason,
                       "; further ones are not reported"));
}

void Coordinator::read(Connection& connection) {
  if (!connection.open) return;
  constexpr std::size_t kMaxUnauthenticatedBytes = 1 << 20, kMaxRankBytes = std::size_t{2} << 30;
  const bool is_unauthenticated = connection.rank < 0;
  const bool open = receive(connection.socket, connection.in,
                            is_unauthenticated ? kMaxUnauthenticatedBytes : kMaxRankBytes);
  if (is_unauthenticated && connection.in.size() >= kMaxUnauthenticatedBytes) {
    drop(connection, "its first message is not a greeting");
    return;
  }
  try {
    while (connection.open && !connection.closing) {
      const auto message = take_message(connection.in);
      if (!message) break;
      handle(connection, *message);
    }
  } catch (const Error& error) {  // an unauthenticated peer, or a damaged message
    if (connection.rank < 0) {
      drop(connection, error.what());
    } else {
      closed(connection, error.what());
    }
  }
  if (open || !connection.open) return;
  if (connection.rank < 0) {
    drop(connection, "it closed without a greeting");
  } else {
    closed(connection, describe_crash(describe(0)));
  }
}

void Coordinator::handle(Connection& connection, const std::string& message) {
  Reader reader(message);
  if (connection.rank < 0) {
    if (reader.kind() != kHello) throw PeerError("its first message is not a greeting");
    hello(connection, reader);
    return;
  }
  const int rank = connection.rank;
  Rank& sender = ranks_[rank];
  sender.heard = network_.now();
  switch (reader.kind()) {
    case kSet: {
      const std::string key = reader.text();
      set_key(key, reader.text());
      break;
    }
    case kGet: {
      const std::uint64_t request = reader.number();
      get_key(rank, request, reader.text());
      break;
    }
    case kAgree:
      agree(rank, reader);
      break;
    case kStatus:
      status(rank, reader.number());
      break;
    case kHeartbeat:
      note_heartbeat(rank, reader);
      break;
    case kFailed: {
      const std::size_t culprit = reader.number();
      const std::string text = reader.text();
      lose(culprit < ranks_.size() ? static_cast<int>(culprit) : rank, text);
      break;
    }
    case kLeave:
      sender.state = kLeft;
      break;
    default:
      throw PeerError("an unknown kind of message");
  }
}

void Coordinator::hello(Connection& connection, Reader& reader) {
  if (reader.number() != kProtocol) throw PeerError("another program");
  const std::string job = reader.text();
  const int rank = reader.integer(), size = reader.integer();
  Rank newcomer;
  newcomer.name = reader.text();
  newcomer.version = reader.text();
  newcomer.cluster = reader.text();
  newcomer.host = reader.text();
  newcomer.process = reader.number();
  newcomer.challenge = reader.text();
  const std::string proof = reader.text();
  newcomer.remote = remote_host(connection.socket);
  newcomer.address = local_host(connection.socket);
  if (!proves_secret(connection, newcomer.challenge, proof, rank)) {
    count_rejection(connection, "it does not have the secret of the job");
    reject(connection, kWrong,
           concat("this rank and rank 0 do not have the same secret",
                  options_.secret.empty() ? " (rank 0 has none)" : "",
                  "; give all ranks the same TRAINER_SECRET or --secret-file"));
    return;
  }
  if (!accept_hello(connection, newcomer, rank, size, job)) return;
  newcomer.connection = &connection;
  newcomer.heard = network_.now();
  newcomer.joined = true;
  ranks_[rank] = std::move(newcomer);
  connection.rank = rank;
  const auto joined = [](const Rank& member) { return member.joined; };
  if (std::ranges::all_of(ranks_, joined)) welcome_all();
}

bool Coordinator::proves_secret(const Connection& connection, const std::string& challenge,
                                const std::string& proof, int rank) const {
  return same_secret(proof, compute_proof(options_.secret, {kHelloProof, connection.challenge,
                                                            challenge, std::to_string(rank)}));
}

bool Coordinator::accept_hello(Connection& connection, const Rank& newcomer, int rank, int size,
                               const std::string& job) {
  const std::string who =
      concat(newcomer.name, " on ", newcomer.host, " (process ", newcomer.process, ")");
  if (job != options_.job) {  // checked first: errors of this job do not concern ranks of another
    reject(connection, kLater,
           concat("another job listens there: '", options_.job, "', not '", job, "'"));
  } else if (is_rejected_) {
    reject(connection, rejection_, rejection_message_);
  } else if (running_) {
    reject(connection, kLater, "a job with all its ranks is already running there");
  } else if (size != static_cast<int>(ranks_.size()) || rank < 0 || rank >= size) {
    reject_all(kWrong, concat(who, " is rank ", rank, " of ", size, ", but rank 0 counts ",
                              ranks_.size(), " ranks; start all of them with the same size"));
    reject(connection, kWrong, rejection_message_);
  } else if (const Rank& holder = ranks_[rank]; holder.joined) {
    reject(connection, kWrong,
           concat("rank ", rank, " is taken by ", describe(rank),
                  "; two processes were given the same ",
                  "task, or one of an earlier start still waits"));
  } else if (newcomer.cluster != options_.cluster) {
    reject_all(kWrong, concat(who, " has another cluster than rank 0: ",
                              difference(newcomer.cluster, options_.cluster)));
    reject(connection, kWrong, rejection_message_);
  } else if (newcomer.version != options_.version) {
    reject_all(kWrong, concat(who, " runs version ", newcomer.version, ", but rank 0 runs ",
                              options_.version));
    reject(connection, kWrong, rejection_message_);
  } else {
    return true;
  }
  return false;
}

void Coordinator::welcome_all() {
  running_ = true;
  running_since_ = network_.now();
  // Ranks of rank 0's host may have come by loopback; others reach them where they reach rank 0.
  std::string host_address = ranks_[0].address;
  for (const Rank& member : ranks_) {
    if (!is_loopback(member.remote)) host_address = member.address;
  }
  for (Rank& member : ranks_) {
    member.address =
        is_loopback(member.remote) || &member == &ranks_[0] ? host_address : member.remote;
    member.heard = network_.now();
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Writer message(kWelcome);
    message.text(compute_proof(options_.secret, {kWelcomeProof, ranks_[r].challenge}));
    message.number(generation_).text(ranks_[r].address);
    for (const Rank& member : ranks_) {
      message.text(member.name).text(member.host).text(member.address).number(member.process);
    }
    send(static_cast<int>(r), message);
  }
}

void Coordinator::set_key(const std::string& key, std::string value) {
  for (const auto& [rank, request] : waiting_[key]) {
    send(rank, Writer(kValue).number(request).text(value));
  }
  waiting_.erase(key);
  store_.emplace(key, std::move(value));
}

void Coordinator::get_key(int rank, std::uint64_t request, const std::string& key) {
  const auto found = store_.find(key);
  if (found == store_.end()) {
    waiting_[key].emplace_back(rank, request);
  } else {
    send(rank, Writer(kValue).number(request).text(found->second));
  }
}

void Coordinator::agree(int rank, Reader& reader) {
  const std::uint64_t request = reader.number();
  const std::string key = reader.text();
  Agreement& agreement = agreements_[key];
  agreement.values[rank] = {request, reader.text()};
  if (agreement.values.size() < ranks_.size()) return;
  const std::string& expected = agreement.values.begin()->second.second;
  std::string message;
  for (const auto& [other, value] : agreement.values) {
    if (value.second == expected || !message.empty()) continue;
    message = concat(describe(other), " differs from rank 0 in its ", key, ": ",
                     difference(value.second, expected));
  }
  for (const auto& [other, value] : agreement.values) {
    send(other, Writer(kAgreed).number(value.first).text(message));
  }
  agreements_.erase(key);
}

void Coordinator::status(int rank, std::uint64_t request) {
  Writer message(kProgress);
  message.number(request);
  for (const Rank& member : ranks_) {
    message.number(member.state).number(member.calls);
    for (std::size_t i = 0; i < kTrafficNumbers * ranks_.size(); ++i) {
      message.number(i < member.traffic.size() ? member.traffic[i] : 0);
    }
  }
  send(rank, message);
}

// Counts a heartbeat as progress if a number in it has changed: a rank that only waits sends the
// same numbers again. Data that has moved between a rank and rank 0 is a sign of life of that rank,
// because its heartbeats may be delayed behind the data or its acknowledgements.
void Coordinator::note_heartbeat(int rank, Reader& reader) {
  Rank& sender = ranks_[rank];
  const std::uint64_t calls = reader.number();
  const bool is_preparing = reader.number() != 0;
  bool has_moved =
      calls != sender.calls ||
      (is_preparing && network_.now() - running_since_ < kPreparationLimit * options_.join_timeout);
  sender.calls = calls;
  sender.traffic.resize(kTrafficNumbers * ranks_.size());
  for (std::size_t i = 0; i < sender.traffic.size(); ++i) {
    const std::uint64_t number = std::exchange(sender.traffic[i], reader.number());
    const std::size_t which = i % kTrafficNumbers;
    if (number == sender.traffic[i] || which == kReceiveWaits || which == kSendWaits) continue;
    has_moved = true;
    if (rank == 0 && which == kMoved) ranks_[i / kTrafficNumbers].heard = network_.now();
  }
  if (has_moved) ++progress_;
}

void Coordinator::forget(Connection& connection) {
  connection.open = false;
  if (connection.rank >= 0) ranks_[connection.rank].connection = nullptr;
}

void Coordinator::closed(Connection& connection, const std::string& reason) {
  forget(connection);
  if (connection.rank < 0) return;
  Rank& rank = ranks_[connection.rank];
  if (rank.state == kLeft) return;
  if (running_) {
    lose(connection.rank, reason);
  } else {
    rank.joined = false;  // it may be started again in time
  }
}

void Coordinator::check_silence() {
  const auto now = network_.now();
  // This process itself stood still and could read nothing.
  if (now - last_round_ > options_.silence / 2) {
    for (Rank& rank : ranks_) rank.heard = now;
  }
  last_round_ = now;
  if (!running_) return;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    if (rank.state != kPresent || now - rank.heard < options_.silence) continue;
    lose(static_cast<int>(r), describe_silence(now - rank.heard, describe(0)));
  }
}

void Coordinator::check_join_deadline() {
  if (running_ || is_rejected_ || network_.now() - started_ < options_.join_timeout) return;
  std::string missing;
  int count = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].joined) continue;
    missing += (count++ > 0 ? ", " : "") + options_.names[r];
  }
  reject_all(kMissing, concat(count, " of ", ranks_.size(), " ranks did not join within ",
                              seconds(options_.join_timeout), ": ", missing));
}

void Coordinator::lose(int rank, const std::string& reason) {
  Rank& gone = ranks_[rank];
  if (gone.state == kPresent) gone.state = kGone;
  if (lost_) return;  // what follows is its consequence
  lost_ = true;
  send_all(std::move(
      Writer(kLost).number(static_cast<std::uint64_t>(rank)).text(describe(rank) + " " + reason)));
}

void Coordinator::reject(Connection& connection, std::uint64_t rejection,
                         const std::string& message) {
  connection.out += Writer(kReject).number(rejection).text(message).finish();
  connection.closing = true;
}

void Coordinator::reject_all(std::uint64_t rejection, const std::string& message) {
  is_rejected_ = true;
  rejection_ = rejection;
  rejection_message_ = message;
  for (const auto& connection : connections_) {
    if (connection->open && connection->rank >= 0) reject(*connection, rejection, message);
  }
}

void Coordinator::send(int rank, Writer& message) {
  if (Connection* connection = ranks_[rank].connection) {
    connection->out += message.finish();
  }
}

void Coordinator::send_all(Writer message) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) send(static_cast<int>(r), message);
}

void Coordinator::flush() {
  for (const auto& connection : connections_) {
    if (!connection->open) continue;
    if (!transmit(connection->socket, connection->out)) {
      closed(*connection, describe_crash(describe(0)));
    }
    // The other end reads up to the end, then closes.
    if (connection->closing && connection->out.empty())
      ::shutdown(connection->socket.get(), SHUT_WR);
  }
  const auto over = [](const auto& connection) { return !connection->open; };
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), over),
                     connections_.end());
}

void Coordinator::beat() {
  if (!running_ || network_.now() - last_beat_ < options_.beat) return;
  last_beat_ = network_.now();
  send_all(std::move(Writer(kBeat).number(progress_)));
}

std::string Coordinator::describe(int rank) const {
  const Rank& member = ranks_[rank];
  return concat("rank ", rank, " (", member.name == concat("rank ", rank) ? "" : member.name + " ",
                "on ", member.host, ", process ", member.process, ")");
}

}  // namespace trainer::cluster
