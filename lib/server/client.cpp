#include "server/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "parameter_server.grpc.pb.h"
#include "server/channel.h"
#include "server/layout.h"
#include "server/messages.h"

namespace trainer::server {
namespace {

using grpc::ClientContext;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Stub = proto::ParameterServer::Stub;

constexpr milliseconds kVerdict{1000};  // for the reason of a call's failure to come in
constexpr milliseconds kRetry{100};     // until a server of an earlier start has ended
constexpr milliseconds kFinish{5000};

// A message of protobuf holds less than 2 GiB, and a server's parameters travel in one.
void check_size(std::int64_t count, std::size_t servers) {
  constexpr std::int64_t kMostMiB = 2040;
  const Part largest = shard_of(count, 0, static_cast<std::int64_t>(servers));
  const std::int64_t mib = largest.count * static_cast<std::int64_t>(sizeof(float)) >> 20;
  if (mib <= kMostMiB) return;
  throw ConfigError({}, concat("TF_CONFIG: each of ", servers, " parameter servers would keep ",
                               mib, " MiB of parameters, and ", kMostMiB,
                               " are the most; give the cluster more ps tasks"));
}

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

using backend::FlatBuffer;

constexpr FlatBuffer kParameters{FlatBuffer::Kind::kParameters};
constexpr FlatBuffer kStatistics{FlatBuffer::Kind::kStatistics};

std::vector<FlatBuffer> buffers_of(const backend::Flat& flat) {
  std::vector<FlatBuffer> buffers{kParameters};
  for (int slot = 0; slot < flat.slots; ++slot) {
    buffers.push_back({FlatBuffer::Kind::kSlot, slot});
  }
  if (flat.average) buffers.push_back({FlatBuffer::Kind::kAverage});
  if (flat.statistics > 0) buffers.push_back(kStatistics);
  return buffers;
}

}  // namespace

struct Client::State {
  struct Connection {
    std::string name;  // "ps:0 at host:port"
    std::unique_ptr<Stub> stub;
    std::thread listener;
    // Guarded by the mutex below.
    std::shared_ptr<ClientContext> attending;
    bool greeted = false, ready = false;
  };

  State(const cluster::Identity& task, const ClientOptions& given) : who(task), options(given) {
    for (std::size_t i = 0; i < who.cluster.ps.size(); ++i) {
      const std::string address = to_string(who.cluster.ps[i]);
      grpc::ChannelArguments arguments;
      for (const auto& [name, value] : channel_arguments(options.timeout)) {
        arguments.SetInt(name, value);
      }
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetMaxSendMessageSize(-1);
      auto connection = std::make_unique<Connection>();
      connection->name = concat("ps:", i, " at ", address);
      connection->stub = proto::ParameterServer::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
      connections.push_back(std::move(connection));
    }
    for (auto& connection : connections) {
      connection->listener = std::thread([this, one = connection.get()] { listen(*one); });
    }
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      leaving = true;
      for (const auto& connection : connections) {
        if (connection->attending) connection->attending->TryCancel();
      }
      changed.notify_all();
    }
    for (const auto& connection : connections) connection->listener.join();
  }

  // ---- What servers tell, on a thread for each ----

  void listen(Connection& connection) {
    for (;;) {
      const Status status = attend(connection);
      std::unique_lock lock(mutex);
      if (leaving || outcome) return;
      // A server that is about to end may still hold the address of its successor.
      const bool again = !connection.greeted && (status.error_code() == StatusCode::ABORTED ||
                                                 status.error_code() == StatusCode::UNAVAILABLE);
      if (!again) {
        lose(connection, status);
        return;
      }
      changed.wait_for(lock, kRetry, [&] { return leaving; });
      if (leaving) return;
    }
  }

  Status attend(Connection& connection) {
    proto::Task task;
    task.set_type(cluster::to_string(who.role));
    task.set_index(who.index);
    task.set_agreement(options.agreement);
    task.set_model(options.model);
    const auto context = std::make_shared<ClientContext>();
    context->set_wait_for_ready(true);
    {
      const std::lock_guard lock(mutex);
      if (leaving) return Status::CANCELLED;
      connection.attending = context;
    }
    const auto events = connection.stub->Attend(context.get(), task);
    for (proto::Event event; events->Read(&event);) {
      const std::lock_guard lock(mutex);
      hear(connection, event);
    }
    return events->Finish();
  }

  void hear(Connection& connection, const proto::Event& event) {
    switch (event.kind()) {
      case proto::Event::READY:
        connection.ready = true;
        break;
      case proto::Event::STOP:
        stop_requested = true;
        break;
      case proto::Event::FINISHED:
        if (!outcome) outcome = from_message(event.outcome());
        break;
      default:
        connection.greeted = true;
    }
    changed.notify_all();
  }

  void lose(const Connection& connection, const Status& status) {
    if (lost.empty()) {
      refused = status.error_code() == StatusCode::FAILED_PRECONDITION;
      lost = refused ? concat(status.error_message(), "; it is ", connection.name)
                     : concat(connection.name,
                              " has gone: it was killed, has crashed or cannot be "
                              "reached (",
                              status.error_message(), ")");
    }
    changed.notify_all();
  }

  // With the mutex held.
  void throw_if_lost() const {
    if (outcome && outcome->kind == Outcome::Kind::kFailed) throw PeerError(outcome->message);
    if (outcome && outcome->kind == Outcome::Kind::kRefused) {
      throw ConfigError({who.source, 0, 0}, outcome->message);
    }
    if (lost.empty()) return;
    if (refused) throw ConfigError({who.source, 0, 0}, lost);
    throw PeerError(lost);
  }

  template <class Ready>
  void wait_for(const Ready& ready, const std::string& what) {
    std::unique_lock lock(mutex);
    const auto all = [&] {
      return std::all_of(connections.begin(), connections.end(),
                         [&](const auto& connection) { return ready(*connection); });
    };
    changed.wait_for(lock, options.timeout, [&] { return !lost.empty() || outcome || all(); });
    throw_if_lost();
    if (all() || outcome) return;
    std::string missing;
    for (const auto& connection : connections) {
      if (!ready(*connection)) missing += concat(missing.empty() ? "" : ", ", connection->name);
    }
    throw PeerError(concat(missing, ": ", what, " within ", seconds(options.timeout), " s"));
  }

  // ---- Calls ----

  void prepare(ClientContext& context) const {
    // Another task's read of all values may be in between.
    context.set_deadline(std::chrono::system_clock::now() + 2 * options.timeout);
  }

  void check(const Connection& connection, const Status& status) {
    if (status.ok()) return;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kVerdict, [&] { return !lost.empty() || outcome; });
    throw_if_lost();
    if (outcome) return;
    if (status.error_code() == StatusCode::DEADLINE_EXCEEDED) {
      throw PeerError(
          concat(connection.name, " has not answered for ", seconds(2 * options.timeout), " s"));
    }
    throw PeerError(concat(connection.name, ": ", status.error_message()));
  }

  // One call to each of these servers, side by side.
  template <class Request, class Reply>
  struct Calls {
    using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>>;
    using Method = Reader (Stub::*)(ClientContext*, const Request&, grpc::CompletionQueue*);

    Calls(State& state, std::size_t first, const std::vector<Request>& requests, Method method)
        : replies(requests.size()), statuses(requests.size()), contexts(requests.size()) {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        state.prepare(contexts[i]);
        Stub& stub = *state.connections[first + i]->stub;
        readers.push_back((stub.*method)(&contexts[i], requests[i], &queue));
        readers[i]->Finish(&replies[i], &statuses[i], this);
      }
      for (std::size_t i = 0; i < requests.size(); ++i) {
        void* tag = nullptr;
        bool ok = false;
        queue.Next(&tag, &ok);
      }
      queue.Shutdown();
      for (std::size_t i = 0; i < requests.size(); ++i) {
        state.check(*state.connections[first + i], statuses[i]);
      }
    }

    std::vector<Reply> replies;
    std::vector<Status> statuses;
    std::vector<ClientContext> contexts;
    std::vector<Reader> readers;
    grpc::CompletionQueue queue;
  };

  // The elements of a buffer that a server has; server 0 has all statistics.
  Part share(FlatBuffer buffer, std::size_t server) const {
    if (buffer.kind == FlatBuffer::Kind::kStatistics) return {0, flat.statistics};
    return shard_of(flat.count, static_cast<std::int64_t>(server),
                    static_cast<std::int64_t>(connections.size()));
  }
  std::size_t servers_of(FlatBuffer buffer) const {
    return buffer.kind == FlatBuffer::Kind::kStatistics ? 1 : connections.size();
  }
  void give(FlatBuffer buffer, std::size_t server, const std::string& bytes,
            const Sink& sink) const {
    const std::span<const float> values = from_bytes(bytes);
    const Part part = share(buffer, server);
    if (static_cast<std::int64_t>(values.size()) != part.count) {
      throw PeerError(concat(connections[server]->name, " has sent ", values.size(),
                             " values, expected ", part.count));
    }
    if (part.count > 0) sink(buffer, part.first, values);
  }

  const cluster::Identity who;
  const ClientOptions options;
  std::vector<std::unique_ptr<Connection>> connections;
  backend::Flat flat;
  Staleness staleness;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string lost;  // what has gone first
  std::optional<Outcome> outcome;
  bool refused = false, leaving = false, stop_requested = false;
};

Client::Client(const cluster::Identity& who, const ClientOptions& options) {
  prepare_process();
  state_ = std::make_unique<State>(who, options);
  state_->wait_for([](const State::Connection& one) { return one.greeted; }, "cannot be reached");
}

Client::~Client() = default;

bool Client::is_chief() const { return state_->who.role == cluster::Role::kChief; }

std::size_t Client::servers() const { return state_->connections.size(); }

void Client::start(const Start& start, const Source& values) {
  using Layouts = State::Calls<proto::Layout, proto::Empty>;
  using Writes = State::Calls<proto::Values, proto::Empty>;
  using Starts = State::Calls<proto::Empty, proto::Empty>;
  check_size(start.flat.count, servers());
  state_->flat = start.flat;
  Layouts(*state_, 0, std::vector(servers(), to_message(start)), &Stub::AsyncInitialise);
  for (const FlatBuffer buffer : buffers_of(start.flat)) {
    std::vector<proto::Values> messages(state_->servers_of(buffer));
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Part part = state_->share(buffer, i);
      std::vector<float> own(static_cast<std::size_t>(part.count));
      values(buffer, part.first, own);
      *messages[i].mutable_part() = to_message(buffer);
      messages[i].set_values(to_bytes(own));
    }
    Writes(*state_, 0, messages, &Stub::AsyncWrite);
  }
  Starts(*state_, 0, std::vector<proto::Empty>(servers()), &Stub::AsyncStart);
}

void Client::wait_until_started(const backend::Flat& flat) {
  state_->flat = flat;
  state_->wait_for([](const State::Connection& one) { return one.ready; },
                   concat("got no parameters from ", cluster::rank_name(state_->who, 0)));
}

Pushed Client::pull(const Sink& sink) {
  using Pulls = State::Calls<proto::Empty, proto::Parameters>;
  const Pulls pulls(*state_, 0, std::vector<proto::Empty>(servers()), &Stub::AsyncPull);
  Pushed pulled;
  if (outcome()) {
    pulled.result = Pushed::Result::kOver;
    return pulled;
  }
  for (std::size_t i = 0; i < servers(); ++i) {
    state_->give(kParameters, i, pulls.replies[i].values(), sink);
  }
  state_->give(kStatistics, 0, pulls.replies[0].statistics(), sink);
  pulled.step = pulls.replies[0].step();
  pulled.saved = pulls.replies[0].saved();
  return pulled;
}

Pushed Client::push(std::int64_t pulled, const backend::Gradient& gradient,
                    std::span<const float> before, std::span<const float> statistics,
                    const Sink& sink) {
  using Pushes = State::Calls<proto::Gradient, proto::Parameters>;
  using Pulls = State::Calls<proto::Empty, proto::Parameters>;
  std::vector<proto::Gradient> messages(1);
  const auto fill = [&](proto::Gradient& message, std::size_t server) {
    const Part part = state_->share(kParameters, server);
    message.set_pulled(pulled);
    message.set_values(gradient.values.data() + part.first,
                       static_cast<std::size_t>(part.count) * sizeof(float));
    message.set_clip_scales(to_bytes(gradient.clip_scales));
  };
  fill(messages[0], 0);
  messages[0].set_statistics_before(to_bytes(before));
  messages[0].set_statistics(to_bytes(statistics));
  const Pushes first(*state_, 0, messages, &Stub::AsyncPush);
  const proto::Parameters& reply = first.replies[0];
  Pushed pushed;
  pushed.result = static_cast<Pushed::Result>(reply.result());
  pushed.update = reply.update();
  pushed.step = reply.step();
  pushed.staleness = reply.staleness();
  pushed.saved = reply.saved();
  pushed.learning_rate = reply.learning_rate();
  if (outcome()) pushed.result = Pushed::Result::kOver;
  if (pushed.result == Pushed::Result::kOver) return pushed;

  std::vector<proto::Parameters> others;
  if (pushed.result == Pushed::Result::kApplied) {
    messages.assign(servers() - 1, {});
    for (std::size_t i = 0; i < messages.size(); ++i) {
      fill(messages[i], i + 1);
      messages[i].set_update(pushed.update);
    }
    others = std::move(Pushes(*state_, 1, messages, &Stub::AsyncPush).replies);
  } else {
    const std::vector<proto::Empty> nothing(servers() - 1);
    others = std::move(Pulls(*state_, 1, nothing, &Stub::AsyncPull).replies);
  }
  if (outcome()) {
    pushed.result = Pushed::Result::kOver;
    return pushed;
  }
  state_->give(kParameters, 0, reply.values(), sink);
  state_->give(kStatistics, 0, reply.statistics(), sink);
  for (std::size_t i = 0; i < others.size(); ++i) {
    state_->give(kParameters, i + 1, others[i].values(), sink);
  }
  return pushed;
}

std::int64_t Client::read(const Sink& sink) {
  using Holds = State::Calls<proto::Empty, proto::Held>;
  using Reads = State::Calls<proto::Part, proto::Values>;
  using Releases = State::Calls<proto::Empty, proto::Empty>;
  const Holds held(*state_, 0, std::vector<proto::Empty>(1), &Stub::AsyncHold);
  const std::int64_t step = held.replies[0].step();
  state_->staleness = {held.replies[0].refused(), held.replies[0].mean_staleness(),
                       held.replies[0].max_staleness()};
  for (const FlatBuffer buffer : buffers_of(state_->flat)) {
    proto::Part part = to_message(buffer);
    part.set_step(step);
    const std::vector<proto::Part> parts(state_->servers_of(buffer), part);
    const Reads reads(*state_, 0, parts, &Stub::AsyncRead);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      state_->give(buffer, i, reads.replies[i].values(), sink);
    }
  }
  Releases(*state_, 0, std::vector<proto::Empty>(1), &Stub::AsyncRelease);
  return step;
}

void Client::saved(std::int64_t step) {
  proto::Held message;
  message.set_step(step);
  State::Calls<proto::Held, proto::Empty>(*state_, 0, {message}, &Stub::AsyncSaved);
}

Staleness Client::staleness() const { return state_->staleness; }

void Client::finish(const Outcome& outcome) noexcept {
  std::vector<std::thread> calls;
  for (const auto& connection : state_->connections) {
    calls.emplace_back([&outcome, stub = connection->stub.get()] {
      ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kFinish);
      proto::Empty nothing;
      stub->Finish(&context, to_message(outcome), &nothing);
    });
  }
  for (std::thread& call : calls) call.join();
}

void Client::check() const {
  const std::lock_guard lock(state_->mutex);
  state_->throw_if_lost();
}

bool Client::lost() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->lost.empty();
}

std::optional<Outcome> Client::outcome() const {
  const std::lock_guard lock(state_->mutex);
  return state_->outcome;
}

bool Client::stop_requested() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stop_requested;
}

}  // namespace trainer::server
