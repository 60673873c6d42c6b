#include "cluster/rendezvous.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "cluster/coordinator.h"
#include "cluster/protocol.h"

namespace trainer::cluster {
namespace {

constexpr Milliseconds kShortestRetry{10}, kLongestRetry{500};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Milliseconds silence_of(Milliseconds timeout) { return timeout / 2; }
Milliseconds beat_of(Milliseconds timeout) {
  return std::clamp(timeout / 20, Milliseconds(20), Milliseconds(2000));
}

std::string seconds(Milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

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

// The connection to the coordinator, and the thread that reads it and sends heartbeats.
class Rendezvous::Link {
 public:
  Link(const Identity& identity, const RendezvousOptions& options);
  ~Link();

  void set(const std::string& key, const std::string& value);
  std::string ask(Writer& message, std::uint64_t request, const char* what);
  std::uint64_t next_request() { return ++requests_; }
  void fail(const std::string& message, int culprit);
  void leave();
  std::optional<std::string> lost() const;
  void begin_call(const std::string& call);
  std::optional<std::string> await_verdict(Milliseconds limit);
  std::string with_phase(const std::string& message) const;
  // Whom to blame, and what it does: "is alive, but ...".
  struct Blame {
    int rank;
    std::string what;
  };
  std::optional<Blame> who_left(const std::string& call);
  std::optional<Blame> who_is_behind(const std::string& call);
  std::string describe(int other) const;
  Handle on_loss(std::function<void()> wake);

  const int rank;
  const Milliseconds timeout;
  std::vector<Member> members;
  std::uint64_t generation = 0;
  mutable std::mutex mutex;
  std::string phase;

 private:
  void join(const Identity& identity, const RendezvousOptions& options);
  bool greet(const Identity& identity, const RendezvousOptions& options, Clock::time_point deadline,
             std::string& reason);
  bool read_answer(const std::string& message, std::string& reason);
  std::string wait_message(Clock::time_point deadline, std::string& reason);
  void serve();
  bool read_messages();
  void handle(const std::string& message);
  void send(const std::string& bytes);
  void lose(const std::string& reason);
  struct Progress {
    std::uint64_t state = kPresent, calls = 0;
  };
  std::vector<Progress> progress(const std::string& call);

  Socket socket_, waker_;
  std::string in_;
  std::condition_variable changed_;
  std::string out_;
  std::map<std::uint64_t, std::string> answers_;
  std::optional<std::string> lost_;
  std::list<std::function<void()>> watchers_;
  std::mutex watchers_mutex_;
  std::atomic<std::uint64_t> requests_{0}, calls_{0};
  std::string call_;
  bool ended_ = false;     // rank 0 has left
  bool stopping_ = false;  // this one leaves
  std::thread thread_;
};

Rendezvous::Link::Link(const Identity& identity, const RendezvousOptions& options)
    : rank(identity.rank),
      timeout(options.timeout),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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

void Rendezvous::Link::serve() {
  const auto beat = beat_of(timeout), silence = silence_of(timeout);
  auto heard = Clock::now(), round = heard, sent = Clock::time_point{};
  std::unique_lock lock(mutex);
  while (!stopping_ || !out_.empty()) {
    pollfd events[2]{
        {socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0},
        {waker_.get(), POLLIN, 0}};
    lock.unlock();
    ::poll(events, 2, static_cast<int>(beat.count() / 2));
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(waker_.get(), &count, sizeof count);
    const bool open = receive(socket_, in_);
    const auto now = Clock::now();
    if (!in_.empty() || now - round > silence / 2)
      heard = now;  // or this process itself stood still
    round = now;
    lock.lock();
    if (!read_messages()) break;
    if (now - sent >= beat && !ended_) {
      out_ += Writer(kCalls).number(calls_).finish();
      sent = now;
    }
    if (!transmit(socket_, out_) || !open) {
      lose(describe(0) + " was killed or has crashed: its connection has closed");
      break;
    }
    if (now - heard > silence) {
      lose(concat(describe(0), " has been silent for ",
                  seconds(std::chrono::duration_cast<Milliseconds>(now - heard) / 100 * 100),
                  ": it is stopped, or its host cannot be reached"));
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
    case kLost: {
      reader.number();
      lose(reader.text());
      break;
    }
    case kEnd:
      ended_ = true;
      break;
    default:
      break;  // a heartbeat
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

std::string Rendezvous::Link::ask(Writer& message, std::uint64_t request, const char* what) {
  send(message.finish());
  std::unique_lock lock(mutex);
  const bool there = changed_.wait_for(
      lock, timeout, [&] { return answers_.count(request) > 0 || lost_ || ended_; });
  if (const auto found = answers_.find(request); found != answers_.end()) {
    std::string answer = std::move(found->second);
    answers_.erase(found);
    return answer;
  }
  std::string reason = lost_   ? *lost_
                       : there ? describe(0) + " has ended"
                               : concat("not all ranks came within ", seconds(timeout));
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
  changed_.wait_for(lock, limit, [&] { return lost_ || ended_; });
  return lost_;
}

std::string Rendezvous::Link::with_phase(const std::string& message) const {
  const std::lock_guard lock(mutex);
  return phase.empty() ? message : message + ", while " + phase;
}

std::vector<Rendezvous::Link::Progress> Rendezvous::Link::progress(const std::string& call) {
  std::vector<Progress> all(members.size());
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
  for (Progress& one : all) {
    one.state = reader.number();
    one.calls = reader.number();
  }
  return all;
}

std::optional<Rendezvous::Link::Blame> Rendezvous::Link::who_left(const std::string& call) {
  const std::vector<Progress> all = progress(call);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].state == kLeft) return Blame{static_cast<int>(r), "ended before the others"};
  }
  return {};
}

std::optional<Rendezvous::Link::Blame> Rendezvous::Link::who_is_behind(const std::string& call) {
  const std::vector<Progress> all = progress(call);
  const std::uint64_t mine = calls_;
  const auto last =
      std::min_element(all.begin(), all.end(),
                       [](const Progress& a, const Progress& b) { return a.calls < b.calls; });
  const int other = static_cast<int>(last - all.begin());
  if (other == rank || last->calls >= mine) return {};
  return Blame{other, concat("is alive, but has made only ", last->calls, " of ", mine,
                             " calls: it hangs, or needs longer than ", seconds(timeout))};
}

Rendezvous::Handle Rendezvous::Link::on_loss(std::function<void()> wake) {
  const std::lock_guard lock(watchers_mutex_);
  if (this->lost()) wake();
  const auto place = watchers_.insert(watchers_.end(), std::move(wake));
  return {nullptr, [this, place](void*) {
            const std::lock_guard guard(watchers_mutex_);
            watchers_.erase(place);
          }};
}

std::string Rendezvous::Link::describe(int other) const {
  const Member& member = members[static_cast<std::size_t>(other)];
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
                                   silence_of(options.timeout),
                                   beat_of(options.timeout)};
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
const Member& Rendezvous::self() const {
  return link_->members[static_cast<std::size_t>(link_->rank)];
}
std::chrono::milliseconds Rendezvous::timeout() const { return link_->timeout; }
std::uint64_t Rendezvous::generation() const { return link_->generation; }

void Rendezvous::set(const std::string& key, const std::string& value) { link_->set(key, value); }

std::string Rendezvous::get(const std::string& key) {
  const std::uint64_t request = link_->next_request();
  return link_->ask(Writer(kGet).number(request).text(key), request, "the rendezvous");
}

void Rendezvous::agree(const std::string& key, const std::string& value) {
  const std::uint64_t request = link_->next_request();
  const std::string difference =
      link_->ask(Writer(kAgree).number(request).text(key).text(value), request, "the rendezvous");
  if (!difference.empty()) throw ConfigError({}, difference);
}

void Rendezvous::fail(const std::string& message, std::optional<int> culprit) noexcept {
  try {
    link_->fail(message, culprit.value_or(link_->rank));
  } catch (const std::exception&) {  // no memory: the closing connection says it too
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

void Rendezvous::explain(const std::string& call, const std::string& reason, bool expired) {
  // A broken connection is known here and at the coordinator at about the same time.
  const auto moment = std::min(timeout() / 40, Milliseconds(200));
  const auto grace = std::min(timeout() / 4, Milliseconds(2000));
  auto verdict = link_->await_verdict(moment);
  if (!verdict) {
    auto blame = link_->who_left(call);
    if (!blame && expired) blame = link_->who_is_behind(call);
    if (!blame && !expired) verdict = link_->await_verdict(grace);
    if (!verdict) {
      if (!blame) blame = Link::Blame{rank(), "cannot go on: " + reason};
      // All hear of it from the coordinator, so that all name the same.
      link_->fail(blame->what, blame->rank);
      verdict = link_->await_verdict(grace);
    }
    if (!verdict) verdict = link_->describe(blame->rank) + " " + blame->what;
  }
  throw PeerError(link_->with_phase(concat(*verdict, "; noticed by rank ", rank(), " in ", call)));
}

Rendezvous::Handle Rendezvous::on_loss(std::function<void()> wake) {
  return link_->on_loss(std::move(wake));
}

}  // namespace trainer::cluster
