#include "cluster/transport/mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/secret.h"

namespace trainer::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using InnerBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

std::string key_of(const std::string& name, int rank) { return concat("mesh/", name, '/', rank); }

}  // namespace

// Hands Gloo's own context on, except that buffers are registered and their waits bounded.
class Mesh::Transport : public gloo::transport::Context,
                        public std::enable_shared_from_this<Transport> {
 public:
  Transport(std::shared_ptr<gloo::transport::Context> inner, Milliseconds timeout)
      : Context(inner->rank, inner->size), inner_(std::move(inner)), timeout_of_calls_(timeout) {
    begin_call();
  }

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override {
    return inner_->getPair(peer);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return inner_->createPair(peer);
  }
  InnerBuffer createUnboundBuffer(void* data, std::size_t bytes) override;

  void begin_call() { begin_call(timeout_of_calls_); }
  void begin_call(Milliseconds limit) { deadline_ = Clock::now() + limit; }
  bool expired() const { return Clock::now() >= deadline_.load(); }
  Milliseconds left() const;
  void abort() noexcept;

 private:
  class Buffer;
  std::shared_ptr<gloo::transport::Context> inner_;
  const Milliseconds timeout_of_calls_;
  std::atomic<Clock::time_point> deadline_;
  std::mutex mutex_;
  std::set<gloo::transport::UnboundBuffer*> waiting_;  // Gloo's own, of all buffers that live
  bool aborted_ = false;
};

class Mesh::Transport::Buffer : public gloo::transport::UnboundBuffer {
 public:
  Buffer(std::shared_ptr<Transport> transport, InnerBuffer inner)
      : UnboundBuffer(inner->ptr, inner->size),
        transport_(std::move(transport)),
        inner_(std::move(inner)) {}
  ~Buffer() override {
    const std::lock_guard lock(transport_->mutex_);
    transport_->waiting_.erase(inner_.get());
  }

  bool waitRecv(int* peer, Milliseconds) override {
    return or_throw(inner_->waitRecv(peer, transport_->left()));
  }
  bool waitSend(int* peer, Milliseconds) override {
    return or_throw(inner_->waitSend(peer, transport_->left()));
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->send(peer, slot, offset, bytes);
  }
  void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(peer, slot, offset, bytes);
  }
  void recv(std::vector<int> peers, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    inner_->recv(std::move(peers), slot, offset, bytes);
  }

 private:
  // Gloo's collectives do not look at the result.
  static bool or_throw(bool done) {
    if (!done) throw gloo::IoException("the call was ended");
    return true;
  }
  std::shared_ptr<Transport> transport_;
  InnerBuffer inner_;
};

InnerBuffer Mesh::Transport::createUnboundBuffer(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw gloo::IoException("the group has failed");
  InnerBuffer inner = inner_->createUnboundBuffer(data, bytes);
  waiting_.insert(inner.get());
  return std::make_unique<Buffer>(shared_from_this(), std::move(inner));
}

Milliseconds Mesh::Transport::left() const {
  const auto rest = std::chrono::duration_cast<Milliseconds>(deadline_.load() - Clock::now());
  return std::max(rest, Milliseconds(0)) + Milliseconds(1);
}

void Mesh::Transport::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  for (auto* buffer : waiting_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  try {
    // A wait that expires makes Gloo close every connection of the context: the one public way to
    // do so that also leaves an exception behind for later calls.
    std::byte nothing{};
    inner_->createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, Milliseconds(0));
  } catch (const std::exception&) {
  }
}

Mesh::Mesh(int rank_of_this, int ranks, Milliseconds timeout) : Context(rank_of_this, ranks) {
  setTimeout(timeout);
}

// A socket waits for each peer, at an address of its own, which the others learn from the store.
std::shared_ptr<Mesh> Mesh::listen(Rendezvous& rendezvous,
                                   std::shared_ptr<gloo::transport::Device> device,
                                   const std::string& name, Milliseconds limit) {
  const int rank = rendezvous.rank(), size = rendezvous.size();
  const std::shared_ptr<Mesh> mesh(new Mesh(rank, size, rendezvous.timeout()));
  auto inner = device->createContext(rank, size);
  inner->setTimeout(limit);
  mesh->transport_ = std::make_shared<Transport>(std::move(inner), rendezvous.timeout());
  mesh->device_ = std::move(device);
  mesh->transportContext_ = mesh->transport_;
  std::string addresses;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    auto& pair = mesh->transport_->createPair(peer);
    pair->setLocalRank(0);
    const std::vector<char> bytes = pair->address().bytes();
    addresses.append(bytes.begin(), bytes.end());
  }
  mesh->watch_ = rendezvous.on_loss([transport = mesh->transport_] { transport->abort(); });
  rendezvous.set(key_of(name, rank), addresses);
  return mesh;
}

void Mesh::connect_pairs(Rendezvous& rendezvous, const std::string& name) {
  const int own = rendezvous.rank();
  for (int peer = 0; peer < size; ++peer) {
    if (peer == own) continue;
    const std::string theirs = rendezvous.get(key_of(name, peer));
    const std::size_t length = theirs.size() / static_cast<std::size_t>(size - 1);
    const auto place = static_cast<std::size_t>(own > peer ? own - 1 : own) * length;
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(place);
    transport_->getPair(peer)->connect({begin, begin + static_cast<std::ptrdiff_t>(length)});
  }
}

// Gloo takes whoever connects first for the peer: each end proves that it is.
void Mesh::greet_all(const Rendezvous& rendezvous, const std::string& name, Milliseconds limit) {
  constexpr std::uint64_t kSlot = std::uint64_t{0xfe} << 56;  // none of Gloo's
  constexpr std::size_t kProofBytes = 64;
  transport_->begin_call(limit);
  struct Greeting {
    int peer;
    std::string mine, theirs;
    InnerBuffer out, in;
  };
  std::vector<Greeting> greetings;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto proof = [&](int from, int to) {
      return rendezvous.proof({"mesh", name, std::to_string(from), std::to_string(to)});
    };
    greetings.push_back({peer, proof(rank, peer), std::string(kProofBytes, ' '), {}, {}});
  }
  for (Greeting& greeting : greetings) {
    greeting.in = transport_->createUnboundBuffer(greeting.theirs.data(), kProofBytes);
    greeting.out = transport_->createUnboundBuffer(greeting.mine.data(), kProofBytes);
    greeting.in->recv(greeting.peer, kSlot, 0, kProofBytes);
    greeting.out->send(greeting.peer, kSlot, 0, kProofBytes);
  }
  for (Greeting& greeting : greetings) {
    greeting.in->waitRecv(nullptr, limit);
    greeting.out->waitSend(nullptr, limit);
    const int peer = greeting.peer;
    if (!same_secret(greeting.theirs, rendezvous.proof({"mesh", name, std::to_string(peer),
                                                        std::to_string(rank)}))) {
      throw gloo::IoException(concat("what connected as rank ", peer, " is another program"));
    }
  }
}

std::shared_ptr<Mesh> Mesh::connect(Rendezvous& rendezvous,
                                    const std::shared_ptr<gloo::transport::Device>& device,
                                    const std::string& name) {
  constexpr int kAttempts = 6;
  const int own = rendezvous.rank();
  Milliseconds limit = std::max(rendezvous.timeout() / 30, Milliseconds(500));
  for (int attempt = 1;; ++attempt, limit = std::min(limit * 2, rendezvous.timeout())) {
    const std::string tried = concat(name, '/', attempt), result = concat(tried, "/result");
    std::shared_ptr<Mesh> mesh = listen(rendezvous, device, tried, limit);
    std::string mine;
    try {
      mesh->connect_pairs(rendezvous, tried);
      mesh->greet_all(rendezvous, tried, limit);
    } catch (const gloo::Exception& error) {
      mine = error.what();
      mesh->abort();
    }
    rendezvous.set(key_of(result, own), mine);
    std::string failure;
    for (int peer = 0; peer < rendezvous.size(); ++peer) {
      const std::string theirs = rendezvous.get(key_of(result, peer));
      if (failure.empty() && !theirs.empty()) failure = concat("rank ", peer, ": ", theirs);
    }
    if (failure.empty()) return mesh;
    if (attempt < kAttempts) continue;
    // All have read all results before the first of them ends, which the others would blame.
    rendezvous.agree("connection", "failed");
    throw PeerError(
        concat("the ranks cannot connect to each other in ", kAttempts, " attempts (", failure,
               "); another program connects to their ports, or a firewall ",
               "stands between them: open the ports between the hosts, and to them only"));
  }
}

Mesh::~Mesh() { watch_.reset(); }

void Mesh::begin_call() { transport_->begin_call(); }
bool Mesh::expired() const { return transport_->expired(); }
void Mesh::abort() noexcept { transport_->abort(); }

}  // namespace trainer::cluster
