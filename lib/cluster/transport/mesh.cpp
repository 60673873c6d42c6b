#include "cluster/transport/mesh.h"

#include <gloo/transport/address.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "cluster/transport/connect_peers.h"
#include "cluster/transport/interrupt.h"

namespace trainer::cluster {
// Stands before every message.
struct MessageHeader {
  std::uint64_t slot = 0, bytes = 0;
};

namespace {

using GlooBuffer = gloo::transport::UnboundBuffer;

[[noreturn]] void fail_connection(const std::string& reason) { throw std::runtime_error(reason); }

// How many of `parts` one call has moved; 0 when none can be moved now.
std::size_t moved(ssize_t result, const char* what) {
  if (result >= 0) return static_cast<std::size_t>(result);
  if (errno == EAGAIN || errno == EINTR) return 0;
  fail_connection(concat(what, " failed: ", std::strerror(errno)));
}

// What sendmsg and recvmsg are given: the header and the body without the first `done` bytes.
class Rest {
 public:
  Rest(MessageHeader& header, std::span<std::byte> body, std::size_t done) {
    const auto head = std::as_writable_bytes(std::span(&header, 1));
    const auto left = head.subspan(std::min(done, head.size()));
    const auto more = body.subspan(done - std::min(done, head.size()));
    parts_[0] = {left.data(), left.size()};
    parts_[1] = {more.data(), more.size()};
    message_.msg_iov = parts_;
    message_.msg_iovlen = 2;
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  msghdr* message() { return &message_; }
  std::size_t bytes() const { return parts_[0].iov_len + parts_[1].iov_len; }

 private:
  iovec parts_[2];
  msghdr message_{};
};

// Gloo looks whether there is a pair for each rank, and does no more with it.
class Placeholder final : public gloo::transport::Pair {
 public:
  const gloo::transport::Address& address() const override { throw none(); }
  void connect(const std::vector<char>&) override { throw none(); }
  void close() override {}
  void setSync(bool, bool) override { throw none(); }
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void*, std::size_t) override {
    throw none();
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void*, std::size_t) override {
    throw none();
  }
  void send(GlooBuffer*, std::uint64_t, std::size_t, std::size_t) override { throw none(); }
  void recv(GlooBuffer*, std::uint64_t, std::size_t, std::size_t) override { throw none(); }

 private:
  static std::logic_error none() { return std::logic_error("a mesh has no pairs"); }
};

}  // namespace

// Used by one thread at a time, but for abort(). Messages between two ranks come in the order in
// which they were sent, and the receiver asks for them in this order: the slots only prove it.
class Mesh::Transport : public gloo::transport::Context,
                        public std::enable_shared_from_this<Transport> {
 public:
  Transport(int rank_of_this, int ranks, Milliseconds timeout)
      : Context(rank_of_this, ranks),
        timeout_of_calls_(timeout),
        deadline_(Clock::now() + timeout),
        links_(static_cast<std::size_t>(ranks)) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank_of_this) createPair(peer) = std::make_unique<Placeholder>();
    }
  }

  void connect(Rendezvous& rendezvous, const std::string& name) {
    std::vector<int> peers;
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) peers.push_back(peer);
    }
    auto found =
        connect_peers(rendezvous, concat("mesh/", name), peers, false, deadline_, interrupt_);
    const std::lock_guard lock(mutex_);
    for (PeerConnection& other : found) link_to(other.rank).socket = std::move(other.socket);
  }

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return pairs_.at(static_cast<std::size_t>(peer));
  }
  std::unique_ptr<GlooBuffer> createUnboundBuffer(void* data, std::size_t bytes) override;

  void begin_call() { deadline_ = Clock::now() + timeout_of_calls_; }
  bool expired() const { return Clock::now() >= deadline_; }
  void abort() noexcept {
    interrupt_.raise();
    const std::lock_guard lock(mutex_);
    for (const Link& link : links_) {
      if (link.socket) ::shutdown(link.socket.get(), SHUT_RDWR);
    }
  }

 private:
  class Buffer;
  struct Message {
    Buffer* buffer;
    MessageHeader header;
    std::span<std::byte> body;
    std::size_t done = 0;  // bytes of header and body
  };
  struct Link {
    Socket socket;
    std::deque<Message> out, in;
    MessageHeader incoming;  // of in.front()
  };

  Link& link_to(int peer) { return links_.at(static_cast<std::size_t>(peer)); }
  void send(Message message, int peer);
  void receive(Message message, int peer);
  bool send_some(Link& link, int peer);
  bool receive_some(Link& link, int peer);
  bool move_some();
  void wait_until(const int& count);
  void forget(const Buffer* buffer);

  const Milliseconds timeout_of_calls_;
  Clock::time_point deadline_;
  Interrupt interrupt_;
  std::mutex mutex_;  // of the sockets, while they are filled in
  std::vector<Link> links_;
};

class Mesh::Transport::Buffer : public GlooBuffer {
 public:
  Buffer(std::shared_ptr<Transport> transport, void* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), transport_(std::move(transport)) {}
  ~Buffer() override { transport_->forget(this); }

  bool waitRecv(int* peer, Milliseconds) override {
    transport_->wait_until(received_);
    --received_;
    if (peer != nullptr) *peer = from_;
    return true;
  }
  bool waitSend(int* peer, Milliseconds) override {
    transport_->wait_until(sent_);
    --sent_;
    if (peer != nullptr) *peer = to_;
    return true;
  }
  void abortWaitRecv() override { transport_->abort(); }
  void abortWaitSend() override { transport_->abort(); }
  void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    transport_->send(message(slot, offset, bytes), peer);
  }
  void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    transport_->receive(message(slot, offset, bytes), peer);
  }
  void recv(std::vector<int> peers, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    if (peers.size() != 1) throw std::logic_error("a message of whichever rank");
    recv(peers.front(), slot, offset, bytes);
  }

  void has_sent(int peer) {
    ++sent_;
    to_ = peer;
  }
  void has_received(int peer) {
    ++received_;
    from_ = peer;
  }

 private:
  Message message(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    if (bytes == kUnspecifiedByteCount) bytes = size - std::min(size, offset);
    if (bytes == 0) return {this, {slot, 0}, {}};  // bcube's, behind the end of few elements
    if (offset > size || bytes > size - offset) throw std::logic_error("beyond a buffer's end");
    return {this, {slot, bytes}, {static_cast<std::byte*>(ptr) + offset, bytes}};
  }

  std::shared_ptr<Transport> transport_;
  int sent_ = 0, received_ = 0, to_ = -1, from_ = -1;
};

std::unique_ptr<GlooBuffer> Mesh::Transport::createUnboundBuffer(void* data, std::size_t bytes) {
  return std::make_unique<Buffer>(shared_from_this(), data, bytes);
}

// Begins at once: the other end may be waiting already.
void Mesh::Transport::send(Message message, int peer) {
  Link& link = link_to(peer);
  link.out.push_back(message);
  if (link.out.size() == 1) send_some(link, peer);
}

void Mesh::Transport::receive(Message message, int peer) { link_to(peer).in.push_back(message); }

// Returns whether anything was sent.
bool Mesh::Transport::send_some(Link& link, int peer) {
  bool any = false;
  while (!link.out.empty()) {
    Message& message = link.out.front();
    Rest rest(message.header, message.body, message.done);
    const std::size_t sent =
        moved(::sendmsg(link.socket.get(), rest.message(), MSG_NOSIGNAL), "sending");
    message.done += sent;
    any = any || sent > 0;
    if (sent < rest.bytes()) break;
    message.buffer->has_sent(peer);
    link.out.pop_front();
  }
  return any;
}

// Returns whether anything was received. Bytes without a receiver stay in the kernel.
bool Mesh::Transport::receive_some(Link& link, int peer) {
  bool any = false;
  while (!link.in.empty()) {
    Message& message = link.in.front();
    Rest rest(link.incoming, message.body, message.done);
    const ssize_t result = ::recvmsg(link.socket.get(), rest.message(), 0);
    if (result == 0) fail_connection("the connection was closed");
    const std::size_t got = moved(result, "receiving");
    message.done += got;
    any = any || got > 0;
    if (message.done >= sizeof(MessageHeader) && (link.incoming.slot != message.header.slot ||
                                                  link.incoming.bytes != message.header.bytes)) {
      fail_connection(concat("rank ", peer, " sends ", link.incoming.bytes,
                             " bytes of another call, ", message.header.bytes, " were expected"));
    }
    if (got < rest.bytes()) break;
    message.buffer->has_received(peer);
    link.in.pop_front();
  }
  return any;
}

bool Mesh::Transport::move_some() {
  bool any = false;
  for (int peer = 0; peer < size; ++peer) {
    Link& link = link_to(peer);
    any |= send_some(link, peer);
    any |= receive_some(link, peer);
  }
  return any;
}

void Mesh::Transport::wait_until(const int& count) {
  while (count == 0) {
    if (interrupt_.raised()) fail_connection("the call was ended");
    if (move_some()) continue;
    std::vector<pollfd> files;
    for (const Link& link : links_) {
      const int events = (link.out.empty() ? 0 : POLLOUT) | (link.in.empty() ? 0 : POLLIN);
      if (events != 0) files.push_back({link.socket.get(), static_cast<short>(events), 0});
    }
    files.emplace_back();
    interrupt_.wait_for(files, deadline_, timeout_of_calls_);
  }
}

// Drops the messages of a call that has failed; the connections are not used again.
void Mesh::Transport::forget(const Buffer* buffer) {
  const auto of_it = [&](const Message& message) { return message.buffer == buffer; };
  for (Link& link : links_) {
    if (std::erase_if(link.out, of_it) + std::erase_if(link.in, of_it) > 0) abort();
  }
}

Mesh::Mesh(const Rendezvous& rendezvous, std::shared_ptr<Transport> transport)
    : Context(rendezvous.rank(), rendezvous.size()), transport_(std::move(transport)) {
  setTimeout(rendezvous.timeout());
  transportContext_ = transport_;
}

std::shared_ptr<Mesh> Mesh::connect(Rendezvous& rendezvous, const std::string& name) {
  const auto transport =
      std::make_shared<Transport>(rendezvous.rank(), rendezvous.size(), rendezvous.timeout());
  const std::shared_ptr<Mesh> mesh(new Mesh(rendezvous, transport));
  mesh->watch_ = rendezvous.on_loss([transport] { transport->abort(); });
  transport->connect(rendezvous, name);
  return mesh;
}

Mesh::~Mesh() { watch_.reset(); }

void Mesh::begin_call() { transport_->begin_call(); }
bool Mesh::expired() const { return transport_->expired(); }
void Mesh::abort() noexcept { transport_->abort(); }

}  // namespace trainer::cluster
