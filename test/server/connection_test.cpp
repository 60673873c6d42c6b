// Servers and clients over gRPC, in one process.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cluster/transport/socket.h"
#include "server/connections.h"
#include "server/server.h"
#include "support.h"

namespace trainer::server {
namespace {

using backend::FlatBuffer;
using cluster::Role;
using std::chrono::milliseconds;

// No other socket is given this number until the test program ends.
int draw_port() {
  static std::vector<std::unique_ptr<cluster::ReservedPort>> all;
  return all.emplace_back(std::make_unique<cluster::ReservedPort>())->number();
}

// Everything a task has, by buffer.
struct Values {
  std::vector<std::vector<float>> buffers;
  explicit Values(int seed) {
    for (int i = 0; i < 4; ++i) buffers.push_back(numbers(64, seed + i));
    for (float& square : buffers[2]) square = std::abs(square);  // of Adam
    buffers.push_back(numbers(3, seed + 4));
  }
  std::vector<float>& of(FlatBuffer buffer) {
    switch (buffer.kind) {
      case FlatBuffer::Kind::kParameters:
        return buffers[0];
      case FlatBuffer::Kind::kSlot:
        return buffers[static_cast<std::size_t>(1 + buffer.slot)];
      case FlatBuffer::Kind::kAverage:
        return buffers[3];
      case FlatBuffer::Kind::kStatistics:
      case FlatBuffer::Kind::kRest:
        break;
    }
    return buffers[4];
  }
  Source source() {
    return [this](FlatBuffer buffer, std::int64_t first, std::span<float> to) {
      std::copy_n(of(buffer).begin() + first, to.size(), to.begin());
    };
  }
  Sink sink() {
    return [this](FlatBuffer buffer, std::int64_t first, std::span<const float> from) {
      std::copy(from.begin(), from.end(), of(buffer).begin() + first);
    };
  }
};

struct Job {
  explicit Job(int count, const std::string& secret = "") {
    who.secret = secret;
    who.source = "TF_CONFIG";
    who.size = 2;
    who.cluster.chief = {{"127.0.0.1", draw_port()}};
    who.cluster.worker = {{"127.0.0.1", draw_port()}};
    for (int i = 0; i < count; ++i) who.cluster.ps.push_back({"127.0.0.1", draw_port()});
    for (int i = 0; i < count; ++i) {
      ServerOptions options;
      options.timeout = timeout;
      options.agreement = "seed: 7\n";
      options.learning_rate = [](std::int64_t samples) {
        CHECK(samples == 100);
        return rate_of_tests;
      };
      options.say = [](const std::string&) {};
      servers.push_back(std::make_unique<Server>(task(Role::kParameterServer, i), options));
    }
  }

  cluster::Identity task(Role role, int index) const {
    cluster::Identity identity = who;
    identity.role = role;
    identity.index = index;
    identity.rank = role == Role::kChief ? 0 : role == Role::kWorker ? 1 + index : -1;
    return identity;
  }
  // The same job for a task that was given another secret; without servers.
  Job as(const std::string& secret) const {
    Job other(0, secret);
    other.who.cluster = who.cluster;
    return other;
  }
  std::unique_ptr<Client> join(Role role, const std::string& agreement = "seed: 7\n",
                               const std::string& model = "training data: x\n") const {
    ClientOptions options;
    options.timeout = timeout;
    options.agreement = agreement;
    options.model = model;
    return std::make_unique<Client>(task(role, 0), options);
  }

  const milliseconds timeout{30'000};
  cluster::Identity who;
  std::vector<std::unique_ptr<Server>> servers;
};

}  // namespace

TEST_CASE("Server rejects a client with another secret than that of its job") {
  Job job(2, "the secret of this job");
  const auto chief = job.join(Role::kChief);
  Values given(1), read(50);
  chief->start(small_start(), given.source());
  for (const char* secret : {"", "another secret of some job"}) {
    Job other = job.as(secret);
    CHECK_THROWS_WITH_AS(other.join(Role::kWorker),
                         doctest::Contains("do not have the same secret"), ConfigError);
  }
  CHECK(chief->read(read.sink()) == 0);
  CHECK(read.buffers == given.buffers);
}

TEST_CASE("Server rejects every call without the token of a job with a secret") {
  Job job(1, "the secret of this job");
  const auto chief = job.join(Role::kChief);
  Values given(1), read(50);
  chief->start(small_start(), given.source());
  const auto stub = proto::ParameterServer::NewStub(grpc::CreateChannel(
      concat("127.0.0.1:", job.who.cluster.ps[0].port), grpc::InsecureChannelCredentials()));
  std::string token;
  const auto refused = [&](const auto& method) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("trainer-token", token);
    return method(context).error_code() == grpc::StatusCode::UNAUTHENTICATED;
  };
  proto::Empty nothing;
  proto::Parameters parameters;
  proto::Held held;
  proto::Values values;
  for (const std::string& sent :
       {std::string(), std::string("trainer-token"), std::string(64, '0')}) {
    token = sent;
    CHECK(refused([&](auto& c) { return stub->Initialise(&c, {}, &nothing); }));
    CHECK(refused([&](auto& c) { return stub->Write(&c, {}, &nothing); }));
    CHECK(refused([&](auto& c) { return stub->Start(&c, {}, &nothing); }));
    CHECK(refused([&](auto& c) { return stub->Pull(&c, {}, &parameters); }));
    CHECK(refused([&](auto& c) { return stub->Push(&c, {}, &parameters); }));
    CHECK(refused([&](auto& c) { return stub->Hold(&c, {}, &held); }));
    CHECK(refused([&](auto& c) { return stub->Read(&c, {}, &values); }));
    CHECK(refused([&](auto& c) { return stub->Release(&c, {}, &nothing); }));
    CHECK(refused([&](auto& c) { return stub->Saved(&c, {}, &nothing); }));
    CHECK(refused([&](auto& c) { return stub->Finish(&c, {}, &nothing); }));
  }
  CHECK(parameters.values().empty());
  CHECK(chief->read(read.sink()) == 0);
  CHECK(read.buffers == given.buffers);
}

TEST_CASE("Client writes and reads values and applies gradients with one or three servers") {
  for (const int count : {1, 3}) {
    Job job(count);
    const auto chief = job.join(Role::kChief);
    Values given(1), read(50);
    chief->start(small_start(), given.source());
    CHECK(chief->read(read.sink()) == 0);
    CHECK(read.buffers == given.buffers);
    const auto worker = job.join(Role::kWorker);
    worker->wait_until_started(small_start().flat);
    Values pulled(50);
    CHECK(worker->pull(pulled.sink()).step == 0);
    CHECK(pulled.buffers[0] == given.buffers[0]);
    CHECK(pulled.buffers[4] == given.buffers[4]);

    const std::vector<float> gradient = numbers(64, 9);
    const Pushed first =
        chief->push(0, {gradient, {}}, given.buffers[4], given.buffers[4], given.sink());
    CHECK(first.step == 1);
    const Pushed second =
        worker->push(0, {gradient, {}}, pulled.buffers[4], pulled.buffers[4], pulled.sink());
    CHECK(second.staleness == 1);
    CHECK(second.learning_rate == rate_of_tests(1));
    CHECK(chief->read(read.sink()) == 2);
    CHECK(read.buffers[0] == pulled.buffers[0]);
    CHECK(read.buffers[1] != numbers(64, 2));
    CHECK(chief->staleness().mean == 0.5);
    chief->saved(2);
    CHECK(worker->pull(pulled.sink()).saved == 2);

    chief->finish({Outcome::Kind::kInterrupted, ""});
    for (const auto& server : job.servers) {
      const auto outcome = server->wait(milliseconds(60'000));
      REQUIRE(outcome);
      CHECK(outcome->kind == Outcome::Kind::kInterrupted);
      server->close(*outcome);
    }
    CHECK(worker->push(2, {gradient, {}}, pulled.buffers[4], pulled.buffers[4], pulled.sink())
              .result == Pushed::Result::kOver);
    CHECK(worker->outcome()->kind == Outcome::Kind::kInterrupted);
  }
}

TEST_CASE("Client: the error of another config or other data names the task and the difference") {
  Job job(1);
  CHECK_THROWS_WITH_AS(job.join(Role::kWorker, "seed: 8\n"),
                       doctest::Contains("worker:0 has 'seed: 8', not 'seed: 7' as ps:0"),
                       ConfigError);
  const auto chief = job.join(Role::kChief);
  Values values(1);
  chief->start(small_start(), values.source());
  const auto join = [&] {  // either answer may report it
    job.join(Role::kWorker, "seed: 7\n", "training data: y\n")
        ->wait_until_started(small_start().flat);
  };
  CHECK_THROWS_WITH_AS(join(),
                       doctest::Contains("worker:0 has 'training data: y', not 'training data: x'"),
                       ConfigError);
  CHECK_NOTHROW(chief->check());
}

TEST_CASE("Client::start rejects a model too large for its servers before anything is sent") {
  Job job(1);
  const auto chief = job.join(Role::kChief);
  Start start = small_start();
  start.flat.count = std::int64_t{600} << 20;
  CHECK_THROWS_WITH_AS(
      chief->start(start, {}),
      doctest::Contains("each of 1 parameter servers would keep 2400 MiB of parameters"),
      ConfigError);
}

TEST_CASE("Client: the error of a lost server or a failed chief names it") {
  Job job(2);
  const auto chief = job.join(Role::kChief);
  Values values(1);
  chief->start(small_start(), values.source());
  const auto worker = job.join(Role::kWorker);
  worker->wait_until_started(small_start().flat);
  SUBCASE("server") {
    job.servers[1].reset();
    CHECK_THROWS_WITH_AS(for (;;) worker->pull(values.sink()), doctest::Contains("ps:1 at 127."),
                         PeerError);
  }
  SUBCASE("chief") {
    chief->finish({Outcome::Kind::kFailed, "chief has failed: no disk"});
    for (const auto& server : job.servers) server->close(*server->wait(milliseconds(60'000)));
    CHECK_THROWS_WITH_AS(worker->check(), "chief has failed: no disk", PeerError);
  }
}

}  // namespace trainer::server
