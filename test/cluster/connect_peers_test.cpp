// Connections between ranks: how they are made, who is rejected, and what a closed one does.
#include "cluster/transport/connect_peers.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "cluster/collective/peer_communicator.h"
#include "cluster/own_address.h"
#include "cluster/transport/local_socket.h"
#include "cluster/transport/socket.h"
#include "cluster/transport/transport.h"
#include "ranks.h"

namespace trainer::cluster {
namespace {

using std::chrono::milliseconds;

// Opens more connections than a rank keeps. Some of them send a greeting without a valid proof.
std::vector<Socket> crowd_at(const Address& address) {
  std::vector<Socket> others;
  for (int i = 0; i < 300; ++i) {
    std::string reason;
    others.push_back(connect_to(address, Clock::now() + milliseconds(60'000), reason));
    std::string bytes = i % 3 == 0 ? "" : i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n" : "\1";
    if (i % 3 == 2) bytes.resize(8 + 32 + 64, '\0');
    transmit(others.back(), bytes);
  }
  return others;
}

// Returns the text of a message that was sent with a descriptor.
std::string received(const Socket& socket, Socket& descriptor) {
  std::array<std::byte, 8> bytes{};
  ssize_t got = -1;
  while ((got = receive_with(socket, bytes, descriptor)) < 0) wait_readable(socket);
  if (got <= 0) return "";
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(got)};
}

}  // namespace

TEST_CASE("Transport: a peer that sends nothing does not delay the connection between the ranks") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    Rendezvous here(make_identity(rank, 2, port.number()), kPatient);
    Socket other_peer;
    if (rank == 1) {
      std::string reason;
      const auto address = parse_address(here.get("ranks/test/0"));
      other_peer = connect_to(address.value(), Clock::now() + milliseconds(60'000), reason);
    }
    Transport transport(here, "test");
    transport.begin_call();
    const std::int64_t mine = rank;
    std::int64_t other = -1;
    transport.exchange(1 - rank, std::as_bytes(std::span(&mine, 1)),
                       std::as_writable_bytes(std::span(&other, 1)));
    if (other != 1 - rank) throw CheckError("what came is wrong");
  });
  for (const std::string& message : messages) CHECK(message == "");
}

TEST_CASE("Communicator: unauthenticated peers at the ports between ranks delay no rank") {
  const ReservedPort port;
  const auto messages = on_ranks(3, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.timeout = milliseconds(60'000);
    options.shared_memory = false;
    const auto here = std::make_shared<Rendezvous>(make_identity(rank, 3, port.number()), options);
    std::vector<Socket> others;  // they connect before the ranks
    if (rank > 0) {
      const std::string address = here->get(concat("ranks/0/", rank - 1));
      others = crowd_at(parse_address(address).value());
    }
    std::vector<float> values(1000, static_cast<float>(rank + 1));
    const auto group = open_group(here, Algorithm::kRing);
    group->all_reduce(std::span<float>(values));
    if (values != std::vector<float>(1000, 6.0f)) throw CheckError("a wrong sum");
    group->barrier();
  });
  for (const std::string& message : messages) CHECK(message == "");
}

TEST_CASE("connect_peers rejects another process that listens in the place of a rank") {
  const ReservedPort port;
  std::string refusal;  // that rank 1 gives
  const auto messages = on_ranks(2, [&](int rank) {
    Rendezvous here(make_identity(rank, 2, port.number()), kPatient);
    if (rank == 0) {
      int number = 0;
      const Socket listener = listen_on("127.0.0.1", number);
      here.set("ranks/test/0", to_string(Address{"127.0.0.1", number}));
      Socket caller;
      while (!(caller = accept_from(listener))) wait_readable(listener);
      std::string bytes(32 + 64, '0');
      transmit(caller, bytes);
      here.agree("end", "");
      return;
    }
    Interrupt interrupt(here.network());
    const int peers[]{0};
    try {
      connect_peers(here, "test", peers, {}, Clock::now() + milliseconds(60'000), interrupt);
    } catch (const std::runtime_error& error) {
      refusal = error.what();
    }
    here.agree("end", "");  // neither has gone before both are done
  });
  for (const std::string& message : messages) CHECK(message == "");
  CHECK(contains(refusal, "what listens in the place of rank 0 does not belong to this job"));
}

TEST_CASE(
    "listen_at binds an address of this host, and listens on all addresses for any other one") {
  CHECK(own_address("127.0.0.1") == "127.0.0.1");
  CHECK(own_address("127.0.0.9") == "127.0.0.9");
  CHECK(own_address("192.0.2.1") == "");  // of nobody: a block for texts
  CHECK(own_address("no such host.invalid") == "");
  const ReservedPort port;
  const Socket listener = listen_at({"127.0.0.9", port.number()});
  std::string reason;
  const auto limit = Clock::now() + milliseconds(60'000);
  CHECK(connect_to({"127.0.0.9", port.number()}, limit, reason));
  CHECK_FALSE(connect_to({"127.0.0.1", port.number()}, limit, reason));
  const ReservedPort other;
  const Socket anywhere = listen_at({"192.0.2.1", other.number()});
  CHECK(connect_to({"127.0.0.1", other.number()}, limit, reason));
}

TEST_CASE("Transport: exchange() over memory or sockets ends at once when a connection closes") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    const ReservedPort port;
    std::string end;  // the error of rank 0
    const auto messages = on_ranks(2, [&](int rank) {
      RendezvousOptions options = kPatient;
      options.shared_memory = shared;
      Rendezvous here(make_identity(rank, 2, port.number()), options);
      const auto start = Clock::now();
      {
        Transport transport(here, "test");
        transport.begin_call();
        std::array<std::byte, 64> in{};
        try {
          if (rank == 0) transport.exchange(1, {}, in);  // rank 1 sends nothing and closes
        } catch (const std::runtime_error& error) {
          end = error.what();
        }
      }
      if (Clock::now() - start > options.timeout / 2) throw CheckError("waited for the time-out");
      here.agree("end", "");
    });
    for (const std::string& message : messages) CHECK(message == "");
    CHECK(contains(end, "the connection was closed"));
  }
}

TEST_CASE("Transport: exchange() ends with the system's reason when a connection is reset") {
  const ReservedPort port;
  std::string end;  // the error of rank 0
  const auto messages = on_ranks(2, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.shared_memory = false;
    Rendezvous here(make_identity(rank, 2, port.number()), options);
    {
      Transport transport(here, "test");
      transport.begin_call();
      std::array<std::byte, 64> half{};
      const std::array<std::byte, 128> whole{};
      try {
        if (rank == 1) transport.exchange(0, {}, half);  // and closes with the rest unread
        if (rank == 0) transport.exchange(1, whole, half);
      } catch (const std::runtime_error& error) {
        if (rank == 0) end = error.what();
      }
    }
    here.agree("end", "");
  });
  for (const std::string& message : messages) CHECK(message == "");
  CHECK(contains(end, "receiving failed: Connection reset by peer"));
}

TEST_CASE(
    "connect_locally: processes of one host are connected by a name and can send descriptors") {
  const std::string name = concat("trainer test ", ::getpid());
  CHECK_FALSE(connect_locally(name));
  {
    const Socket listener = listen_locally(name);
    REQUIRE(listener);
    CHECK_FALSE(listen_locally(name));
    const Socket caller = connect_locally(name);
    REQUIRE(caller);
    const Socket called = accept_from(listener);
    REQUIRE(called);
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const Socket out(pipe[0]), in(pipe[1]);
    const auto text = std::as_bytes(std::span("hello", 5));
    Socket none, handed;
    REQUIRE(send_with(caller, text, in));
    CHECK(received(called, handed) == "hello");
    REQUIRE(handed);
    CHECK(::write(handed.get(), "x", 1) == 1);
    char byte = 0;
    CHECK(::read(out.get(), &byte, 1) == 1);
    CHECK(byte == 'x');
    REQUIRE(send_with(called, text, {}));
    CHECK(received(caller, none) == "hello");
    CHECK_FALSE(none);
  }
  CHECK_FALSE(connect_locally(name));  // gone with the listener
  const std::string long_name(200, 'n');
  CHECK_FALSE(listen_locally(long_name));
  CHECK_FALSE(connect_locally(long_name));
}

}  // namespace trainer::cluster
