#include "server/connections.h"

#include <algorithm>

#include "base/error.h"
#include "server/channel.h"
#include "server/messages.h"

namespace trainer::server {
namespace {

using grpc::ClientContext;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr milliseconds kVerdict{1000};  // for the reason of a call's failure to come in
constexpr milliseconds kRetry{100};     // until a server of an earlier start has ended
constexpr milliseconds kFinish{5000};

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::unique_ptr<Stub> open_stub(const std::string& address, milliseconds timeout) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : channel_arguments(timeout)) arguments.SetInt(name, value);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return proto::ParameterServer::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

}  // namespace

Connections::Connections(const cluster::Identity& who, const ClientOptions& options)
    : who_(who), options_(options) {
  for (std::size_t i = 0; i < who_.cluster.ps.size(); ++i) {
    const std::string address = to_string(who_.cluster.ps[i]);
    auto connection = std::make_unique<Connection>();
    connection->name = concat("ps:", i, " at ", address);
    connection->stub = open_stub(address, options_.timeout);
    connections_.push_back(std::move(connection));
  }
  for (auto& connection : connections_) {
    connection->listener = std::thread([this, one = connection.get()] { listen(*one); });
  }
}

Connections::~Connections() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    for (const auto& connection : connections_) {
      if (connection->attending) connection->attending->TryCancel();
    }
    changed_.notify_all();
  }
  for (const auto& connection : connections_) connection->listener.join();
}

// ---- Events of the servers, on one thread per server ----

void Connections::listen(Connection& connection) {
  for (;;) {
    const Status status = attend(connection);
    std::unique_lock lock(mutex_);
    if (leaving_ || outcome_) return;
    // A server that is about to end may still hold the address of its successor.
    const bool again = !connection.greeted && (status.error_code() == StatusCode::ABORTED ||
                                               status.error_code() == StatusCode::UNAVAILABLE);
    if (!again) {
      lose(connection, status);
      return;
    }
    changed_.wait_for(lock, kRetry, [&] { return leaving_; });
    if (leaving_) return;
  }
}

Status Connections::attend(Connection& connection) {
  proto::Task task;
  task.set_type(cluster::to_string(who_.role));
  task.set_index(who_.index);
  task.set_agreement(options_.agreement);
  task.set_model(options_.model);
  const auto context = std::make_shared<ClientContext>();
  context->set_wait_for_ready(true);
  add_token(*context);
  {
    const std::lock_guard lock(mutex_);
    if (leaving_) return Status::CANCELLED;
    connection.attending = context;
  }
  const auto events = connection.stub->Attend(context.get(), task);
  for (proto::Event event; events->Read(&event);) {
    const std::lock_guard lock(mutex_);
    handle_event(connection, event);
  }
  return events->Finish();
}

void Connections::handle_event(Connection& connection, const proto::Event& event) {
  switch (event.kind()) {
    case proto::Event::READY:
      connection.ready = true;
      break;
    case proto::Event::STOP:
      stop_requested_ = true;
      break;
    case proto::Event::FINISHED:
      if (!outcome_) outcome_ = from_message(event.outcome());
      break;
    default:
      connection.greeted = true;
  }
  changed_.notify_all();
}

void Connections::lose(const Connection& connection, const Status& status) {
  if (lost_.empty()) {
    refused_ = status.error_code() == StatusCode::FAILED_PRECONDITION ||
               status.error_code() == StatusCode::UNAUTHENTICATED;
    lost_ = refused_ ? concat(status.error_message(), "; it is ", connection.name)
                     : concat(connection.name,
                              " has gone: it was killed, has crashed or cannot be "
                              "reached (",
                              status.error_message(), ")");
  }
  changed_.notify_all();
}

// ---- What has ended the job ----

// With the mutex held.
void Connections::throw_if_lost() const {
  if (outcome_ && outcome_->kind == Outcome::Kind::kFailed) throw PeerError(outcome_->message);
  if (outcome_ && outcome_->kind == Outcome::Kind::kRefused) {
    throw ConfigError({who_.source, 0, 0}, outcome_->message);
  }
  if (lost_.empty()) return;
  if (refused_) throw ConfigError({who_.source, 0, 0}, lost_);
  throw PeerError(lost_);
}

void Connections::check() const {
  const std::lock_guard lock(mutex_);
  throw_if_lost();
}

bool Connections::lost() const {
  const std::lock_guard lock(mutex_);
  return !lost_.empty();
}

std::optional<Outcome> Connections::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

bool Connections::stop_requested() const {
  const std::lock_guard lock(mutex_);
  return stop_requested_;
}

// ---- Waits and calls ----

void Connections::wait_until_greeted(const std::string& what) {
  wait_for(&Connection::greeted, what);
}

void Connections::wait_until_ready(const std::string& what) { wait_for(&Connection::ready, what); }

void Connections::wait_for(bool Connection::*sign, const std::string& what) {
  std::unique_lock lock(mutex_);
  const auto all = [&] {
    return std::ranges::all_of(connections_,
                               [&](const auto& connection) { return connection.get()->*sign; });
  };
  changed_.wait_for(lock, options_.timeout, [&] { return !lost_.empty() || outcome_ || all(); });
  throw_if_lost();
  if (all() || outcome_) return;
  std::string missing;
  for (const auto& connection : connections_) {
    if (!(connection.get()->*sign))
      missing += concat(missing.empty() ? "" : ", ", connection->name);
  }
  throw PeerError(concat(missing, ": ", what, " within ", seconds(options_.timeout), " s"));
}

void Connections::add_token(ClientContext& context) const {
  if (!who_.secret.empty()) context.AddMetadata(kTokenName, make_token(who_.secret));
}

void Connections::check_call(const Connection& connection, const Status& status) {
  if (status.ok()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kVerdict, [&] { return !lost_.empty() || outcome_; });
  throw_if_lost();
  if (outcome_) return;
  if (status.error_code() == StatusCode::DEADLINE_EXCEEDED) {
    throw PeerError(
        concat(connection.name, " has not answered for ", seconds(2 * options_.timeout), " s"));
  }
  throw PeerError(concat(connection.name, ": ", status.error_message()));
}

// Starts no thread: at a limit of threads, the error that ends the job has to reach the servers
// too.
void Connections::finish(const Outcome& outcome) noexcept {
  std::vector<proto::Empty> replies;
  call_all(&Stub::AsyncFinish, std::vector(connections_.size(), to_message(outcome)), 0, kFinish,
           replies);
}

}  // namespace trainer::server
