#include "server/client.h"

#include "base/error.h"
#include "server/channel.h"
#include "server/connections.h"
#include "server/layout.h"
#include "server/messages.h"

namespace trainer::server {
namespace {

using backend::FlatBuffer;

// A message of protobuf holds less than 2 GiB, and a server's parameters travel in one.
void check_size(std::int64_t count, std::size_t servers) {
  constexpr std::int64_t kMaxMiB = 2040;
  const Partition largest = find_shard(count, 0, static_cast<std::int64_t>(servers));
  const std::int64_t mib = largest.count * static_cast<std::int64_t>(sizeof(float)) >> 20;
  if (mib <= kMaxMiB) return;
  throw ConfigError({}, concat("TF_CONFIG: each of ", servers, " parameter servers would keep ",
                               mib, " MiB of parameters, and ", kMaxMiB,
                               " are the most; give the cluster more ps tasks"));
}

constexpr FlatBuffer kParameters{FlatBuffer::Kind::kParameters};
constexpr FlatBuffer kStatistics{FlatBuffer::Kind::kStatistics};

std::vector<FlatBuffer> list_buffers(const backend::Flat& flat) {
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
  State(const cluster::Identity& who, const ClientOptions& options) : connections(who, options) {}

  // The elements of a buffer that a server has; server 0 has all statistics.
  Partition share(FlatBuffer buffer, std::size_t server) const {
    if (buffer.kind == FlatBuffer::Kind::kStatistics) return {0, flat.statistics};
    return find_shard(flat.count, static_cast<std::int64_t>(server), std::ssize(connections));
  }
  std::size_t count_servers(FlatBuffer buffer) const {
    return buffer.kind == FlatBuffer::Kind::kStatistics ? 1 : connections.size();
  }
  void give(FlatBuffer buffer, std::size_t server, const std::string& bytes,
            const Sink& sink) const {
    const std::span<const float> values = from_bytes(bytes);
    const Partition part = share(buffer, server);
    if (std::ssize(values) != part.count) {
      throw PeerError(concat(connections.name(server), " has sent ", values.size(),
                             " values, expected ", part.count));
    }
    if (part.count > 0) sink(buffer, part.first, values);
  }

  Connections connections;
  backend::Flat flat;
  Staleness staleness;
};

Client::Client(const cluster::Identity& who, const ClientOptions& options) {
  prepare_process();
  state_ = std::make_unique<State>(who, options);
  state_->connections.wait_until_greeted("cannot be reached");
}

Client::~Client() = default;

bool Client::is_chief() const { return state_->connections.who().role == cluster::Role::kChief; }

std::size_t Client::servers() const { return state_->connections.size(); }

void Client::start(const Start& start, const Source& values) {
  check_size(start.flat.count, servers());
  state_->flat = start.flat;
  state_->connections.call(&Stub::AsyncInitialise, std::vector(servers(), to_message(start)));
  for (const FlatBuffer buffer : list_buffers(start.flat)) {
    std::vector<proto::Values> messages(state_->count_servers(buffer));
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Partition part = state_->share(buffer, i);
      std::vector<float> part_values(part.count);
      values(buffer, part.first, part_values);
      *messages[i].mutable_part() = to_message(buffer);
      messages[i].set_values(to_bytes(part_values));
    }
    state_->connections.call(&Stub::AsyncWrite, messages);
  }
  state_->connections.call(&Stub::AsyncStart, std::vector<proto::Empty>(servers()));
}

void Client::wait_until_started(const backend::Flat& flat) {
  state_->flat = flat;
  state_->connections.wait_until_ready(
      concat("got no parameters from ", cluster::rank_name(state_->connections.who(), 0)));
}

Pushed Client::pull(const Sink& sink) {
  const std::vector<proto::Parameters> replies =
      state_->connections.call(&Stub::AsyncPull, std::vector<proto::Empty>(servers()));
  Pushed pulled;
  if (outcome()) {
    pulled.result = Pushed::Result::kOver;
    return pulled;
  }
  for (std::size_t i = 0; i < servers(); ++i) {
    state_->give(kParameters, i, replies[i].values(), sink);
  }
  state_->give(kStatistics, 0, replies[0].statistics(), sink);
  pulled.step = replies[0].step();
  pulled.saved = replies[0].saved();
  return pulled;
}

Pushed Client::push(std::int64_t pulled, const backend::Gradient& gradient,
                    std::span<const float> before, std::span<const float> statistics,
                    const Sink& sink) {
  std::vector<proto::Gradient> messages(1);
  const auto fill = [&](proto::Gradient& message, std::size_t server) {
    const Partition part = state_->share(kParameters, server);
    message.set_pulled(pulled);
    message.set_values(gradient.values.data() + part.first, part.count * sizeof(float));
    message.set_clip_scales(to_bytes(gradient.clip_scales));
  };
  fill(messages[0], 0);
  messages[0].set_statistics_before(to_bytes(before));
  messages[0].set_statistics(to_bytes(statistics));
  const proto::Parameters reply =
      std::move(state_->connections.call(&Stub::AsyncPush, messages).front());
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
    others = state_->connections.call(&Stub::AsyncPush, messages, 1);
  } else {
    const std::vector<proto::Empty> nothing(servers() - 1);
    others = state_->connections.call(&Stub::AsyncPull, nothing, 1);
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
  const proto::Held held =
      state_->connections.call(&Stub::AsyncHold, std::vector<proto::Empty>(1)).front();
  const std::int64_t step = held.step();
  state_->staleness = {held.refused(), held.mean_staleness(), held.max_staleness()};
  for (const FlatBuffer buffer : list_buffers(state_->flat)) {
    proto::Part part = to_message(buffer);
    part.set_step(step);
    const std::vector<proto::Part> parts(state_->count_servers(buffer), part);
    const std::vector<proto::Values> replies = state_->connections.call(&Stub::AsyncRead, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      state_->give(buffer, i, replies[i].values(), sink);
    }
  }
  state_->connections.call(&Stub::AsyncRelease, std::vector<proto::Empty>(1));
  return step;
}

void Client::saved(std::int64_t step) {
  proto::Held message;
  message.set_step(step);
  state_->connections.call(&Stub::AsyncSaved, std::vector{message});
}

Staleness Client::staleness() const { return state_->staleness; }

void Client::finish(const Outcome& outcome) noexcept { state_->connections.finish(outcome); }

void Client::check() const { state_->connections.check(); }

bool Client::lost() const { return state_->connections.lost(); }

std::optional<Outcome> Client::outcome() const { return state_->connections.outcome(); }

bool Client::stop_requested() const { return state_->connections.stop_requested(); }

}  // namespace trainer::server
