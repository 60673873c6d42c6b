// The connection of a rank that has joined: heartbeats, requests, and the failure of a rank.
#include "cluster/rendezvous/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace trainer::cluster {

Rendezvous::Link::Link(const Identity& identity, const RendezvousOptions& options)
    : rank(identity.rank),
      timeout(options.timeout),
      shared_memory(options.shared_memory),
      network(options.network ? options.network : system_network()),
      progress(options.progress),
      traffic(identity.size),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      moved_(traffic.size()) {
  join(identity, options);
  thread_ = std::thread([this] { serve(); });
}

Rendezvous::Link::~Link() {
  {
    const std::lock_guard lock(mutex);
    stopping_ = true;
  }
  send("");
  thread_.join();
}

void Rendezvous::Link::serve() {
  const auto beat = heartbeat_interval(timeout), silence = silence_limit(timeout);
  auto heard = network->now(), round = heard, sent = Clock::time_point{};
  std::unique_lock lock(mutex);
  while (!stopping_ || !out_.empty()) {
    pollfd events[2]{
        {socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0},
        {waker_.get(), POLLIN, 0}};
    lock.unlock();
    network->wait(events, network->now() + beat / 2);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(waker_.get(), &count, sizeof count);
    const std::size_t waiting = in_.size();
    const bool open = receive(socket_, in_);
    const auto now = network->now();
    const bool is_due = now - sent >= beat;
    const bool moves = is_due && measure_traffic();
    // This process itself may have stood still.
    if (moves || in_.size() > waiting || now - round > silence / 2) heard = now;
    round = now;
    lock.lock();
    if (!read_messages()) break;
    if (is_due && !ended_) {
      out_ += make_heartbeat();
      sent = now;
    }
    if (!transmit(socket_, out_) || !open) {
      lose(describe(0) + ' ' + describe_crash(describe(rank)));
      break;
    }
    if (now - heard > silence) {
      const std::string reason = describe(0) + ' ' + describe_silence(now - heard, describe(rank));
      // Rank 0 may still receive what this rank sends: all ranks then report the connection.
      out_ += Writer(kFailed)
                  .number(static_cast<std::uint64_t>(rank))
                  .text("has ended, because " + reason)
                  .finish();
      transmit(socket_, out_);
      lose(reason);
      break;
    }
    if (ended_) break;
  }
  changed_.notify_all();
  lock.unlock();
  socket_ = {};
}

// With the mutex held. False when what came makes no sense.
bool Rendezvous::Link::read_messages() {
  try {
    while (const auto message = take_message(in_)) handle(*message);
    return true;
  } catch (const PeerError& error) {
    lose(describe(0) + " sent something else than expected: " + error.what());
    return false;
  }
}

void Rendezvous::Link::handle(const std::string& message) {
  Reader reader(message);
  switch (reader.kind()) {
    case kValue:
    case kAgreed: {
      const std::uint64_t request = reader.number();
      answers_[request] = reader.text();
      break;
    }
    case kProgress: {
      const std::uint64_t request = reader.number();
      answers_[request] = message;
      break;
    }
    case kBeat: {
      const std::uint64_t count = reader.number();
      if (count != progress_count_) note_progress();
      progress_count_ = count;
      break;
    }
    case kLost: {
      reader.number();
      lose(reader.text());
      break;
    }
    case kEnd:
      ended_ = true;
      break;
    default:
      break;
  }
  changed_.notify_all();
}

// With the mutex held.
void Rendezvous::Link::lose(const std::string& reason) {
  if (lost_ || ended_ || stopping_) return;
  lost_ = reason;
  changed_.notify_all();
  mutex.unlock();
  {
    const std::lock_guard lock(watchers_mutex_);
    for (const auto& wake : watchers_) wake();
  }
  mutex.lock();
}

void Rendezvous::Link::send(const std::string& bytes) {
  {
    const std::lock_guard lock(mutex);
    out_ += bytes;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_.get(), &one, sizeof one);
}

void Rendezvous::Link::set(const std::string& key, const std::string& value) {
  if (const auto reason = lost()) throw PeerError(with_phase(*reason));
  send(Writer(kSet).text(key).text(value).finish());
}

std::string Rendezvous::Link::make_heartbeat() const {
  Writer message(kHeartbeat);
  message.number(calls_).number(is_preparing ? 1 : 0);
  for (const PeerTraffic& peer : traffic) {
    message.number(peer.sent).number(peer.received);
    message.number(peer.receive_waits).number(peer.send_waits).number(peer.moved);
  }
  return message.finish();
}

std::string Rendezvous::Link::ask(Writer& message, std::uint64_t request, const char* what) {
  send(message.finish());
  return await_answer(request, what);
}

std::vector<std::string> Rendezvous::Link::ask_all(const std::string& messages,
                                                   const std::vector<std::uint64_t>& requests,
                                                   const char* what) {
  send(messages);
  std::vector<std::string> answers;
  for (const std::uint64_t request : requests) answers.push_back(await_answer(request, what));
  return answers;
}

std::string Rendezvous::Link::await_answer(std::uint64_t request, const char* what) {
  const ActivityScope scope(progress, Activity::kBarrier);
  std::unique_lock lock(mutex);
  const auto start = network->now();
  // A rank that waits for a broken connection has the same time-out, and reports the connection.
  const auto deadline = [&] { return std::max(start, last_progress()) + timeout + grace(); };
  const auto is_over = [&] { return answers_.count(request) > 0 || lost_ || ended_; };
  while (!is_over() && network->now() < deadline()) network->wait(changed_, lock, deadline());
  const bool there = is_over();
  if (const auto found = answers_.find(request); found != answers_.end()) {
    std::string answer = std::move(found->second);
    answers_.erase(found);
    return answer;
  }
  std::string reason = lost_   ? *lost_
                       : there ? describe(0) + " has ended"
                               : concat("not all ranks came within ", seconds(timeout),
                                        ", the limit of parallel.timeout");
  lock.unlock();
  throw PeerError(with_phase(concat(reason, "; noticed by rank ", rank, " in ", what)));
}

void Rendezvous::Link::fail(const std::string& message, int culprit) {
  send(Writer(kFailed).number(static_cast<std::uint64_t>(culprit)).text(message).finish());
}

void Rendezvous::Link::leave() { send(Writer(kLeave).finish()); }

std::optional<std::string> Rendezvous::Link::lost() const {
  const std::lock_guard lock(mutex);
  return lost_;
}

void Rendezvous::Link::begin_call(const std::string& call) {
  ++calls_;
  const std::lock_guard lock(mutex);
  call_ = call;
}

std::optional<std::string> Rendezvous::Link::await_verdict(Milliseconds limit) {
  std::unique_lock lock(mutex);
  const auto deadline = network->now() + limit;
  while (!lost_ && !ended_ && network->now() < deadline) {
    network->wait(changed_, lock, deadline);
  }
  return lost_;
}

std::string Rendezvous::Link::with_phase(const std::string& message) const {
  const std::lock_guard lock(mutex);
  return phase.empty() ? message : message + ", while " + phase;
}

void Rendezvous::Link::note_progress() {
  progressed_ = network->now().time_since_epoch().count();
  progress.advance();
}

bool Rendezvous::Link::measure_traffic() {
  {
    const std::lock_guard lock(watchers_mutex_);
    for (const auto& measure : measures_) measure();
  }
  bool any = false, with_rank_0 = false;
  for (std::size_t peer = 0; peer < moved_.size(); ++peer) {
    const std::uint64_t moved = traffic[peer].moved;
    if (std::exchange(moved_[peer], moved) == moved) continue;
    any = true;
    with_rank_0 = with_rank_0 || peer == 0;
  }
  if (any) note_progress();
  return with_rank_0;
}

Rendezvous::Handle Rendezvous::Link::on_loss(std::function<void()> wake) {
  const std::lock_guard lock(watchers_mutex_);
  if (this->lost()) wake();
  return add_watcher(watchers_, std::move(wake));
}

Rendezvous::Handle Rendezvous::Link::before_heartbeat(std::function<void()> measure) {
  const std::lock_guard lock(watchers_mutex_);
  return add_watcher(measures_, std::move(measure));
}

// The caller holds watchers_mutex_.
Rendezvous::Handle Rendezvous::Link::add_watcher(std::list<std::function<void()>>& watchers,
                                                 std::function<void()> call) {
  const auto place = watchers.insert(watchers.end(), std::move(call));
  return {nullptr, [this, &watchers, place](void*) {
            const std::lock_guard guard(watchers_mutex_);
            watchers.erase(place);
          }};
}

}  // namespace trainer::cluster
