// Ranks as threads of this process: what meeting checks.
#include "cluster/rendezvous.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <mutex>

#include "base/error.h"
#include "base/process/secret.h"
#include "cluster/identity/sources.h"
#include "cluster/rendezvous/protocol.h"
#include "cluster/transport/socket.h"
#include "ranks.h"

namespace trainer::cluster {

using std::chrono::milliseconds;

TEST_CASE("Rendezvous: four ranks have their identities and a shared store") {
  const ReservedPort port;
  const auto messages = on_ranks(4, [&](int rank) {
    Rendezvous here(make_identity(rank, 4, port.number()), kPatient);
    if (here.rank() != rank || here.size() != 4) throw CheckError("rank or size");
    if (here.self().address != "127.0.0.1" || here.self().local_rank != rank ||
        here.self().local_size != 4) {
      throw CheckError("self");
    }
    here.set("key" + std::to_string(rank), std::to_string(here.generation()));
    if (here.get("key" + std::to_string((rank + 1) % 4)) != std::to_string(here.generation())) {
      throw CheckError("store");
    }
    here.set("first", std::to_string(rank));
    here.agree("first", here.get("first"));
    here.agree("seed", "42");
    here.agree("seed", "43");
  });
  for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE("Rendezvous: the error of a value that differs has the rank and line") {
  const ReservedPort port;
  const auto messages = on_ranks(3, [&](int rank) {
    Rendezvous here(make_identity(rank, 3, port.number()), kPatient);
    here.agree("config", rank == 2 ? "seed: 1\nepochs: 9\n" : "seed: 1\nepochs: 5\n");
  });
  for (const std::string& message : messages) {
    CHECK(contains(message, "2 error: rank 2 (on "));
    CHECK(contains(message, "differs from rank 0 in its config: 'epochs: 9', not 'epochs: 5'"));
  }
}

TEST_CASE("Rendezvous: the error at the time-out names the missing ranks") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    Identity identity = make_identity(rank == 0 ? 0 : 2, 4, port.number());
    // Rank 2 receives it from rank 0, however late it has come.
    Rendezvous here(identity, {milliseconds(rank == 0 ? 2'000 : 30'000), "1"});
  });
  for (const std::string& message : messages) {
    CHECK(message == "4 2 of 4 ranks did not join within 2 s: rank 1, rank 3");
  }
}

TEST_CASE("Rendezvous: the error of a missing rank 0 has its address") {
  const ReservedPort port;
  const auto messages = on_ranks(1, [&](int) {
    Rendezvous here(make_identity(1, 2, port.number()), {milliseconds(1'000), "1"});
  });
  CHECK(contains(messages[0], concat("4 rank 0 (rank 0) cannot be reached at 127.0.0.1:",
                                     port.number(), " for 1 s, the limit of parallel.timeout")));
  CHECK(contains(messages[0], "Connection refused"));  // words: kept
}

TEST_CASE("Rendezvous: another cluster, size or version is an error on all ranks") {
  SUBCASE("cluster") {
    const ReservedPort port;
    const auto messages = on_ranks(2, [&](int rank) {
      Identity identity = make_identity(rank, 2, port.number());
      identity.cluster.worker = {identity.master, {"localhost", rank == 0 ? 7 : 8}};
      Rendezvous here(identity, kPatient);
    });
    for (const std::string& message : messages) {
      CHECK(contains(message, "2 error: worker:1 on "));
      CHECK(contains(
          message,
          "has another cluster than rank 0: 'worker:1: localhost:8', not 'worker:1: localhost:7'"));
    }
  }
  SUBCASE("size") {
    const ReservedPort port;
    const auto messages = on_ranks(2, [&](int rank) {
      Rendezvous here(make_identity(rank, 2 + rank, port.number()), kPatient);
    });
    for (const std::string& message : messages)
      CHECK(contains(message, "is rank 1 of 3, but rank 0 counts 2 ranks"));
  }
  SUBCASE("version") {
    const ReservedPort port;
    const auto messages = on_ranks(2, [&](int rank) {
      Rendezvous here(make_identity(rank, 2, port.number()),
                      {milliseconds(30'000), rank == 0 ? "1.0" : "1.1"});
    });
    for (const std::string& message : messages)
      CHECK(contains(message, "runs version 1.1, but rank 0 runs 1.0"));
  }
}

TEST_CASE("Rendezvous: the second process with a rank is rejected, and the job continues") {
  const ReservedPort port;
  std::promise<std::string> refusal;
  const auto messages = on_ranks(4, [&](int thread) {
    if (thread == 3) {  // the third rank comes when one of the two is out
      const std::string message = refusal.get_future().get();
      CHECK(contains(message, "rank 1 is taken by rank 1 (on "));
      CHECK(contains(message, "two processes were given the same task"));
      Rendezvous here(make_identity(2, 3, port.number()), kPatient);
      return;
    }
    try {
      Rendezvous here(make_identity(std::min(thread, 1), 3, port.number()), kPatient);
    } catch (const ConfigError& error) {
      refusal.set_value(error.what());
    }
  });
  for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE("Rendezvous: a port in use is an error at once") {
  const ReservedPort port;
  const Socket taken = listen_at({"127.0.0.1", port.number()});
  const auto messages =
      on_ranks(1, [&](int) { Rendezvous here(make_identity(0, 2, port.number()), kPatient); });
  CHECK(contains(messages[0], concat("2 127.0.0.1:", port.number(), ": error: port ", port.number(),
                                     " is in use")));
}

TEST_CASE("Rendezvous: a rank of another job waits for its own rank 0 until the time-out") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    Identity identity = make_identity(rank, 2, port.number());
    identity.job = rank == 0 ? "new" : "old";
    Rendezvous here(identity, {milliseconds(rank == 0 ? 2'000 : 3'000), "1"});
  });
  CHECK(contains(messages[0], "1 of 2 ranks did not join within 2 s: rank 1"));
  // Rank 0 has gone before rank 1 gives up: its rejection is still the reason.
  CHECK(contains(messages[1], "another job listens there: 'new', not 'old'"));
}

TEST_CASE("Rendezvous: the others report the reason and phase of a rank that fails") {
  const ReservedPort port;
  const auto messages = on_ranks(3, [&](int rank) {
    Rendezvous here(make_identity(rank, 3, port.number()), kPatient);
    here.set_phase("reading data");
    if (rank == 1) {
      here.fail("has failed: x.jpg: is damaged");
    } else {
      here.get("never set");
    }
  });
  for (const int rank : {0, 2}) {
    const std::string& message = messages[static_cast<std::size_t>(rank)];
    CHECK(contains(message, "4 rank 1 (on "));
    CHECK(contains(message, "has failed: x.jpg: is damaged; noticed by rank "));
    CHECK(contains(message, "while reading data"));
  }
}

TEST_CASE("Rendezvous: a rank that sends an invalid message is named and disconnected") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    const Identity identity = make_identity(rank, 2, port.number());
    if (rank == 0) {
      Rendezvous here(identity, kPatient);
      here.get("never set");
      return;
    }
    std::string reason;
    const auto limit = Clock::now() + milliseconds(60'000);
    Socket socket;
    while (!socket && Clock::now() < limit) socket = connect_to(identity.master, limit, reason);
    std::string answer;
    const auto next_message = [&] {
      for (bool is_open = true;;) {
        if (auto message = take_message(answer)) return *message;
        if (!is_open) return std::string(1, '\0');
        wait_readable(socket);
        is_open = receive(socket, answer);
      }
    };
    const std::string first = next_message();
    std::string bytes =
        Writer(kHello)
            .number(kProtocol)
            .text(identity.job)
            .number(1)
            .number(2)
            .text("rank 1")
            .text(kPatient.version)
            .text(cluster_text(identity))
            .text("host")
            .number(7)
            .text("mine")
            .text(compute_proof("", {kHelloProof, Reader(first).text(), "mine", "1"}))
            .finish();
    transmit(socket, bytes);
    if (Reader(next_message()).kind() != kWelcome) throw CheckError("no welcome");
    bytes = Writer(99).finish();
    transmit(socket, bytes);
    do {
      wait_readable(socket);
    } while (receive(socket, answer));  // until the coordinator closes it
  });
  CHECK(contains(messages[0], "4 rank 1 (on host, process 7) an unknown kind of message"));
}

TEST_CASE("Rendezvous: the ranks join despite an HTTP request at the port of rank 0") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    if (rank == 1) {
      std::string reason;
      Socket connection;
      const auto limit = Clock::now() + milliseconds(60'000);
      while (!connection && Clock::now() < limit)
        connection = connect_to({"127.0.0.1", port.number()}, limit, reason);
      std::string text = "GET / HTTP/1.1\r\n\r\n";
      transmit(connection, text);
    }
    Rendezvous here(make_identity(rank, 2, port.number()), kPatient);
    here.agree("seed", "1");
  });
  for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE(
    "Rendezvous: connections that send nothing are closed with one warning, and the job runs") {
  const ReservedPort port;
  std::mutex mutex;
  std::vector<std::string> warnings;
  RendezvousOptions options = kPatient;
  options.greeting = milliseconds(500);
  options.warn = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    warnings.push_back(line);
  };
  std::vector<Socket> connections;
  const auto crowd = [&] {  // more than the coordinator keeps
    for (int i = 0; i < 300; ++i) {
      std::string reason;
      const auto limit = Clock::now() + milliseconds(60'000);
      Socket connection;
      while (!connection && Clock::now() < limit) {
        connection = connect_to({"127.0.0.1", port.number()}, limit, reason);
      }
      connections.push_back(std::move(connection));
    }
  };
  // Drops the connections that the coordinator has closed and waits until so many were.
  const auto wait_closed = [&](std::size_t count) {
    const auto limit = Clock::now() + milliseconds(60'000);
    const std::size_t end = connections.size() - count;
    for (;;) {
      std::erase_if(connections, [](const Socket& connection) {
        std::string ignored;
        return !receive(connection, ignored);
      });
      if (connections.size() <= end) return;
      std::vector<pollfd> open;
      for (const Socket& connection : connections) open.push_back({connection.get(), POLLIN, 0});
      if (::poll(open.data(), open.size(), poll_timeout(limit)) <= 0) {
        throw CheckError(concat("only ", count - (connections.size() - end), " were closed"));
      }
    }
  };
  const auto messages = on_ranks(2, [&](int rank) {
    if (rank == 1) crowd();
    Rendezvous here(make_identity(rank, 2, port.number()), options);
    here.agree("seed", "1");
    if (rank == 1) {
      crowd();
      wait_closed(400);
    }
    here.agree("seed", "2");
  });
  for (const std::string& message : messages) CHECK(message == "");
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "rejected a connection from 127.0.0.1 to 127.0.0.1:"));
  CHECK(contains(warnings[0], "which is not a rank of this job"));
}

TEST_CASE("Rendezvous: a connection whose greeting never ends is closed") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    if (rank == 1) {
      std::string reason;
      Socket connection;
      const auto limit = Clock::now() + milliseconds(60'000);
      while (!connection && Clock::now() < limit) {
        connection = connect_to({"127.0.0.1", port.number()}, limit, reason);
      }
      std::string piece(1 << 16, '\x01');  // a length of 16 MB, and more and more of it
      piece[3] = '\0';
      std::size_t sent = 0;
      while (sent < (64u << 20) && Clock::now() < limit) {
        std::string out = piece;
        if (!transmit(connection, out)) break;
        sent += piece.size() - out.size();
      }
      if (sent >= 64u << 20) throw CheckError("all of it was taken");
    }
    Rendezvous here(make_identity(rank, 2, port.number()), kPatient);
    here.agree("seed", "1");
  });
  for (const std::string& message : messages) CHECK(message == "");
}

TEST_CASE(
    "Rendezvous: a rank without the secret of the job is rejected, and all ranks join with it") {
  const ReservedPort port;
  RendezvousOptions with = kPatient, other = kPatient;
  with.secret = "a secret";
  other.secret = "another secret";
  const auto messages = on_ranks(2, [&](int rank) {
    if (rank == 1) {
      for (const RendezvousOptions& wrong : {kPatient, other}) {
        try {
          Rendezvous here(make_identity(1, 2, port.number()), wrong);
          throw CheckError("joined without the secret");
        } catch (const ConfigError& error) {
          if (!contains(error.what(), "do not have the same secret")) throw;
        }
      }
    }
    Rendezvous here(make_identity(rank, 2, port.number()), with);
    here.agree("seed", "1");
    here.set(concat("proof ", rank), here.proof({"a", "b"}));
    if (here.get("proof 0") != here.get("proof 1")) throw CheckError("other keys");
    if (here.proof({"a", "b"}) == here.proof({"ab", ""})) throw CheckError("parts run together");
    here.agree("end", "");  // rank 0 answers until both have asked
  });
  for (const std::string& message : messages) CHECK(message == "");
}

TEST_CASE("Rendezvous: a rank 0 without the secret is rejected") {
  const ReservedPort port;
  RendezvousOptions with = kPatient;
  with.secret = "a secret";
  with.timeout = milliseconds(1500);
  const Socket done(::eventfd(0, EFD_CLOEXEC));
  const auto messages = on_ranks(2, [&](int rank) {
    if (rank == 1) {
      try {
        Rendezvous here(make_identity(1, 2, port.number()), with);
      } catch (const Error&) {
        ::eventfd_write(done.get(), 1);
        throw;
      }
      return;
    }
    // Welcomes whoever comes.
    const Socket listener = listen_at({"127.0.0.1", port.number()});
    std::vector<Socket> callers;
    pollfd polled[]{{listener.get(), POLLIN, 0}, {done.get(), POLLIN, 0}};
    while (::poll(polled, 2, 60'000) > 0 && polled[1].revents == 0) {
      if (Socket caller = accept_from(listener)) {
        std::string bytes = Writer(kChallenge).text("c").finish();
        Writer welcome(kWelcome);
        welcome.text(std::string(64, '0')).number(1).text("127.0.0.1");
        for (int i = 0; i < 2; ++i) welcome.text("rank").text("host").text("127.0.0.1").number(1);
        bytes += welcome.finish();
        transmit(caller, bytes);
        callers.push_back(std::move(caller));
      }
    }
  });
  CHECK(contains(messages[1], "does not have the secret of the job"));
}

}  // namespace trainer::cluster
