#include "server/server.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <atomic>

#include "base/error.h"
#include "base/process/secret.h"
#include "cluster/own_address.h"
#include "parameter_server.grpc.pb.h"
#include "server/channel.h"
#include "server/layout.h"
#include "server/messages.h"
#include "server/parameter_store.h"

namespace trainer::server {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{50};      // between two checks whether a task is still there
constexpr milliseconds kOutcomeTimeout{2000};  // for tasks to receive the outcome of the job

using Clock = std::chrono::steady_clock;

}  // namespace

struct Server::State final : proto::ParameterServer::Service {
  State(const cluster::Identity& task, const ServerOptions& given)
      : who(task), options(given), store(make_first(task, given)) {}

  static std::optional<ParameterStore::First> make_first(const cluster::Identity& who,
                                                         const ServerOptions& options) {
    if (who.index > 0) return std::nullopt;
    return ParameterStore::First{options.max_staleness};
  }

  // Rejects a caller without the secret of the job, if there is one, and warns of the first one.
  Status check_token(const ServerContext& context) {
    const auto& sent = context.client_metadata();
    const auto found = sent.find(kTokenName);
    const std::string_view theirs =
        found == sent.end() ? std::string_view()
                            : std::string_view(found->second.data(), found->second.size());
    if (same_secret(theirs, token)) return Status::OK;
    if (!has_warned.exchange(true)) {
      options.say(
          concat("rejected ", context.peer(),
                 ", which does not have the secret of the job; further ones are not reported"));
    }
    return {StatusCode::UNAUTHENTICATED,
            concat("this task and the server do not have the same secret",
                   token.empty() ? " (the server has none)" : "",
                   "; give all tasks the same TRAINER_SECRET or --secret-file")};
  }

  // Runs a handler; what it throws is the caller's fault.
  template <class Work>
  Status answer(const ServerContext& context, const Work& work) {
    if (const Status refusal = check_token(context); !refusal.ok()) return refusal;
    try {
      work();
      return Status::OK;
    } catch (const std::exception& error) {
      return {StatusCode::INVALID_ARGUMENT, error.what()};
    }
  }

  Status Attend(ServerContext* context, const proto::Task* task,
                grpc::ServerWriter<proto::Event>* events) override {
    if (const Status refusal = check_token(*context); !refusal.ok()) return refusal;
    const bool chief = task->type() == "chief";
    const std::string name = concat(task->type(), chief ? "" : concat(":", task->index()));
    if (const Status refusal = admit(*task, chief, name); !refusal.ok()) return refusal;
    options.say(name + " has come");
    const bool got_outcome = send_events(*context, *task, chief, *events);
    const std::lock_guard lock(mutex);
    --attending;
    const std::int64_t step = store.step();
    if (chief) chief_here = false;
    if (!got_outcome && chief) {
      end({Outcome::Kind::kFailed, concat(cluster::rank_name(who, 0), " has gone after step ", step,
                                          ": it was killed, has crashed or cannot be reached")});
    } else if (!got_outcome) {
      options.say(concat(name, " has gone after step ", step));
    }
    changed.notify_all();
    return Status::OK;
  }

  Status admit(const proto::Task& task, bool chief, const std::string& name) {
    const std::lock_guard lock(mutex);
    if (outcome || (chief && chief_came)) {
      return {StatusCode::ABORTED, "this server belongs to an earlier start of the job"};
    }
    if (task.agreement() != options.agreement) {
      const auto [theirs, ours] = first_difference(task.agreement(), options.agreement);
      return {StatusCode::FAILED_PRECONDITION,
              concat(name, " has '", theirs, "', not '", ours, "' as ps:", who.index)};
    }
    if (chief) {
      chief_came = chief_here = true;
    }
    ++attending;
    return Status::OK;
  }

  // Sends the job's events to a task until the job ends. Returns false when the task has gone
  // first.
  bool send_events(ServerContext& context, const proto::Task& task, bool chief,
                   grpc::ServerWriter<proto::Event>& events) {
    const auto send = [&](proto::Event::Kind kind) {
      proto::Event event;
      event.set_kind(kind);
      if (outcome) *event.mutable_outcome() = to_message(*outcome);
      return events.Write(event);
    };
    bool ready = false, stopped = false;
    std::unique_lock lock(mutex);
    bool here = send(proto::Event::GREETING);
    while (here && !context.IsCancelled()) {
      if (closing) return send(proto::Event::FINISHED);
      if (started && !ready) {
        ready = true;
        if (!chief && task.model() != model) return reject(task, events);
        here = send(proto::Event::READY);
      }
      if (chief && stop_requested && !stopped) {
        stopped = true;
        here = here && send(proto::Event::STOP);
      }
      changed.wait_for(lock, kPollInterval);
    }
    return false;
  }

  // Rejects a worker whose data or weights differ from the chief's.
  bool reject(const proto::Task& task, grpc::ServerWriter<proto::Event>& events) const {
    const auto [theirs, ours] = first_difference(task.model(), model);
    proto::Event event;
    event.set_kind(proto::Event::FINISHED);
    *event.mutable_outcome() = to_message(Outcome{
        Outcome::Kind::kRefused,
        concat("worker:", task.index(), " has '", theirs, "', not '", ours, "' as the chief")});
    events.Write(event);
    return true;
  }

  Status Initialise(ServerContext* context, const proto::Layout* layout, proto::Empty*) override {
    return answer(*context, [&] {
      const server::Start start = from_message(*layout);
      const auto servers = std::ssize(who.cluster.ps);
      store.initialise(start, find_shard(start.flat.count, who.index, servers),
                       options.learning_rate(start.train_samples));
      const std::lock_guard lock(mutex);
      model = layout->model();
    });
  }

  Status Write(ServerContext* context, const proto::Values* values, proto::Empty*) override {
    return answer(*context,
                  [&] { store.write(from_message(values->part()), from_bytes(values->values())); });
  }

  Status Start(ServerContext* context, const proto::Empty*, proto::Empty*) override {
    return answer(*context, [&] {
      store.start();
      const std::lock_guard lock(mutex);
      started = true;
      changed.notify_all();
    });
  }

  Status Pull(ServerContext* context, const proto::Empty*, proto::Parameters* reply) override {
    return answer(*context, [&] {
      const Pushed now = store.pull(*reply->mutable_values(), *reply->mutable_statistics());
      reply->set_step(now.step);
      reply->set_saved(now.saved);
    });
  }

  Status Push(ServerContext* context, const proto::Gradient* gradient,
              proto::Parameters* reply) override {
    return answer(*context, [&] {
      ParameterStore::Push push;
      push.pulled = gradient->pulled();
      push.update = gradient->update();
      push.gradient = {from_bytes(gradient->values()), from_bytes(gradient->clip_scales())};
      push.statistics_before = from_bytes(gradient->statistics_before());
      push.statistics = from_bytes(gradient->statistics());
      const Pushed pushed =
          store.push(push, *reply->mutable_values(), *reply->mutable_statistics());
      reply->set_result(static_cast<proto::Parameters::Result>(pushed.result));
      reply->set_update(pushed.update);
      reply->set_step(pushed.step);
      reply->set_staleness(pushed.staleness);
      reply->set_saved(pushed.saved);
      reply->set_learning_rate(pushed.learning_rate);
    });
  }

  Status Hold(ServerContext* context, const proto::Empty*, proto::Held* reply) override {
    return answer(*context, [&] {
      reply->set_step(store.hold());
      const Staleness staleness = store.staleness();
      reply->set_refused(staleness.refused);
      reply->set_mean_staleness(staleness.mean);
      reply->set_max_staleness(staleness.max);
    });
  }

  Status Read(ServerContext* context, const proto::Part* part, proto::Values* reply) override {
    return answer(*context, [&] {
      store.read(from_message(*part), part->step(), options.timeout / 8, *reply->mutable_values());
    });
  }

  Status Release(ServerContext* context, const proto::Empty*, proto::Empty*) override {
    return answer(*context, [&] { store.release(); });
  }

  Status Saved(ServerContext* context, const proto::Held* saved, proto::Empty*) override {
    return answer(*context, [&] { store.saved(saved->step()); });
  }

  Status Finish(ServerContext* context, const proto::Outcome* message, proto::Empty*) override {
    if (const Status refusal = check_token(*context); !refusal.ok()) return refusal;
    const std::lock_guard lock(mutex);
    end(from_message(*message));
    return Status::OK;
  }

  // The first outcome counts.
  void end(const Outcome& how) {
    if (!outcome) outcome = how;
    changed.notify_all();
  }

  const cluster::Identity who;
  const ServerOptions options;
  const std::string token = make_token(who.secret);
  std::atomic<bool> has_warned{false};
  ParameterStore store;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Outcome> outcome;
  std::string model;  // see Start
  int attending = 0;
  bool chief_came = false, chief_here = false, started = false, stop_requested = false;
  bool closing = false;
  Clock::time_point since = Clock::now();
  std::unique_ptr<grpc::Server> server;
};

Server::Server(const cluster::Identity& who, const ServerOptions& options)
    : state_(std::make_unique<State>(who, options)) {
  prepare_process();
  const cluster::Address& listed = who.cluster.ps[who.index];
  const std::string host = cluster::own_address(listed.host);
  const cluster::Address address{host.empty() ? "::" : host, listed.port};
  grpc::ServerBuilder builder;
  for (const auto& [name, value] : channel_arguments(options.timeout)) {
    builder.AddChannelArgument(name, value);
  }
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort(to_string(address), grpc::InsecureServerCredentials());
  builder.RegisterService(state_.get());
  state_->server = builder.BuildAndStart();
  if (!state_->server) {
    throw ConfigError({who.source, 0, 0}, concat("ps:", who.index, " cannot listen at ",
                                                 to_string(listed), "; is the port in use?"));
  }
}

Server::~Server() {
  state_->store.close();
  state_->server->Shutdown(std::chrono::system_clock::now());
}

std::optional<Outcome> Server::wait(milliseconds time) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.changed.wait_for(lock, time, [&] { return state.outcome.has_value(); });
  if (!state.outcome && !state.chief_came && Clock::now() - state.since > state.options.timeout) {
    state.end({Outcome::Kind::kFailed,
               concat(cluster::rank_name(state.who, 0), " has not come within ",
                      static_cast<double>(state.options.timeout.count()) / 1000, " s")});
  }
  return state.outcome;
}

bool Server::request_stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stop_requested = true;
  state_->changed.notify_all();
  return state_->chief_here;
}

void Server::close(const Outcome& outcome) {
  state_->store.close();
  {
    std::unique_lock lock(state_->mutex);
    state_->end(outcome);
    state_->closing = true;
    state_->changed.notify_all();
    state_->changed.wait_for(lock, kOutcomeTimeout, [&] { return state_->attending == 0; });
  }
  state_->server->Shutdown(std::chrono::system_clock::now() + milliseconds(500));
}

}  // namespace trainer::server
