// A task's connections to all parameter servers: their events, and calls to them. Internal to the
// folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parameter_server.grpc.pb.h"
#include "server/client.h"

namespace trainer::server {

using Stub = proto::ParameterServer::Stub;

// Calls come from one thread. One further thread per server receives its events.
class Connections {
 public:
  // Begins to connect to the servers of `who`'s cluster, and returns.
  Connections(const cluster::Identity& who, const ClientOptions& options);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  const cluster::Identity& who() const { return who_; }
  std::size_t size() const { return connections_.size(); }
  const std::string& name(std::size_t server) const { return connections_[server]->name; }

  // Wait until all servers have greeted, and until they have the chief's parameters. Throw the
  // errors of check(), and at the timeout PeerError with `what` and the missing servers.
  void wait_until_greeted(const std::string& what);
  void wait_until_ready(const std::string& what);

  // Calls `method` of the stub with one request on each of the servers first, first + 1, ..., all
  // at once. Throws PeerError when a call fails, unless the job has ended: then its reply is empty.
  template <class Request, class Reply>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
  template <class Request, class Reply>
  std::vector<Reply> call(Method<Request, Reply> method, const std::vector<Request>& requests,
                          std::size_t first = 0);

  // Sends the outcome to all servers that can be reached within a few seconds.
  void finish(const Outcome& outcome) noexcept;

  // Throws what has ended the job: PeerError, or ConfigError when a server has rejected this task.
  void check() const;
  bool lost() const;  // true if a server has gone or has rejected this task
  std::optional<Outcome> outcome() const;
  bool stop_requested() const;

 private:
  struct Connection {
    std::string name;  // "ps:0 at host:port"
    std::unique_ptr<Stub> stub;
    std::thread listener;
    // Guarded by mutex_.
    std::shared_ptr<grpc::ClientContext> attending;
    bool greeted = false, ready = false;
  };

  void listen(Connection& connection);
  grpc::Status attend(Connection& connection);
  void handle_event(Connection& connection, const proto::Event& event);
  void lose(const Connection& connection, const grpc::Status& status);
  void throw_if_lost() const;
  void wait_for(bool Connection::*sign, const std::string& what);
  void add_token(grpc::ClientContext& context) const;
  // Makes the calls of call(), each of which ends after `limit`, and returns their statuses.
  template <class Request, class Reply>
  std::vector<grpc::Status> call_all(Method<Request, Reply> method,
                                     const std::vector<Request>& requests, std::size_t first,
                                     std::chrono::milliseconds limit, std::vector<Reply>& replies);
  void check_call(const Connection& connection, const grpc::Status& status);

  const cluster::Identity who_;
  const ClientOptions options_;
  std::vector<std::unique_ptr<Connection>> connections_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string lost_;  // the server that failed first
  std::optional<Outcome> outcome_;
  bool refused_ = false, leaving_ = false, stop_requested_ = false;
};

template <class Request, class Reply>
std::vector<grpc::Status> Connections::call_all(Method<Request, Reply> method,
                                                const std::vector<Request>& requests,
                                                std::size_t first, std::chrono::milliseconds limit,
                                                std::vector<Reply>& replies) {
  const std::size_t count = requests.size();
  replies.resize(count);
  std::vector<grpc::Status> statuses(count);
  std::vector<grpc::ClientContext> contexts(count);
  std::vector<std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>>> readers;
  grpc::CompletionQueue queue;
  for (std::size_t i = 0; i < count; ++i) {
    add_token(contexts[i]);
    contexts[i].set_deadline(std::chrono::system_clock::now() + limit);
    readers.push_back(
        (connections_[first + i]->stub.get()->*method)(&contexts[i], requests[i], &queue));
    readers[i]->Finish(&replies[i], &statuses[i], readers[i].get());
  }
  for (std::size_t i = 0; i < count; ++i) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  }
  queue.Shutdown();
  return statuses;
}

template <class Request, class Reply>
std::vector<Reply> Connections::call(Method<Request, Reply> method,
                                     const std::vector<Request>& requests, std::size_t first) {
  std::vector<Reply> replies;
  // Another task's read of all values may be in between.
  const std::vector<grpc::Status> statuses =
      call_all(method, requests, first, 2 * options_.timeout, replies);
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    check_call(*connections_[first + i], statuses[i]);
  }
  return replies;
}

}  // namespace trainer::server
