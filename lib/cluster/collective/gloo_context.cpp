#include "cluster/collective/gloo_context.h"

#include <gloo/transport/address.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace trainer::cluster {
namespace {

using GlooBuffer = gloo::transport::UnboundBuffer;

// Precedes every message. Its size is a multiple of 64 bytes, as Transport requires of all parts of
// a message but the last.
struct alignas(64) MessageHeader {
  std::uint64_t slot = 0, bytes = 0;
};

class QueueBuffer;

struct Message {
  QueueBuffer* buffer;
  MessageHeader header;
  std::span<std::byte> body;
  std::size_t done = 0;  // bytes of header and body
};

// The part of header and body after the first `done` bytes.
struct Rest {
  Rest(MessageHeader& header, std::span<std::byte> whole, std::size_t done)
      : head(std::as_writable_bytes(std::span(&header, 1))) {
    body = whole.subspan(done - std::min(done, head.size()));
    head = head.subspan(std::min(done, head.size()));
  }
  std::size_t bytes() const { return head.size() + body.size(); }
  std::span<std::byte> head, body;
};

class PeerAddress final : public gloo::transport::Address {
 public:
  explicit PeerAddress(int rank) : text_(concat("rank ", rank)) {}
  std::string str() const override { return text_; }
  std::vector<char> bytes() const override { return {text_.begin(), text_.end()}; }

 private:
  std::string text_;
};

// Queues the messages to and from each rank. The receiver asks for messages in the order in which
// they were sent; their slots are only compared to verify this order.
class QueueContext : public gloo::transport::Context,
                     public std::enable_shared_from_this<QueueContext> {
 public:
  explicit QueueContext(Transport& transport);

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override { return pairs_.at(peer); }
  std::unique_ptr<GlooBuffer> createUnboundBuffer(void* data, std::size_t bytes) override;

  Transport& transport() { return transport_; }
  // Starts to send at once, because the other end may already wait.
  void send(const Message& message, int peer);
  void receive(const Message& message, int peer);
  // Moves messages until `count` is above zero.
  void wait_until_positive(const int& count);
  // Drops the messages of a call that has failed. The transport cannot be used afterwards; its
  // owner closes it once the reason is reported.
  void forget(const QueueBuffer* buffer);

 private:
  struct Queues {
    std::deque<Message> out, in;
    MessageHeader incoming;  // of in.front()
  };
  Queues& find_queues(int peer) { return queues_.at(peer); }
  bool send_some(int peer);
  bool receive_some(int peer);

  Transport& transport_;
  std::vector<Queues> queues_;  // by rank
  std::vector<Transport::Direction> directions_;
};

class QueueBuffer final : public GlooBuffer {
 public:
  QueueBuffer(std::shared_ptr<QueueContext> context, void* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), context_(std::move(context)) {}
  ~QueueBuffer() override { context_->forget(this); }

  bool waitRecv(int* peer, Milliseconds) override {
    context_->wait_until_positive(received_);
    --received_;
    if (peer != nullptr) *peer = from_;
    return true;
  }
  bool waitSend(int* peer, Milliseconds) override {
    context_->wait_until_positive(sent_);
    --sent_;
    if (peer != nullptr) *peer = to_;
    return true;
  }
  void abortWaitRecv() override { context_->transport().abort(); }
  void abortWaitSend() override { context_->transport().abort(); }
  void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    context_->send(message(slot, offset, bytes), peer);
  }
  void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    context_->receive(message(slot, offset, bytes), peer);
  }
  void recv(std::vector<int> peers, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    if (peers.size() != 1)
      throw std::logic_error("a receive from any of several ranks is not supported");
    recv(peers.front(), slot, offset, bytes);
  }

  void count_sent(int peer) {
    ++sent_;
    to_ = peer;
  }
  void count_received(int peer) {
    ++received_;
    from_ = peer;
  }

 private:
  Message message(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    if (bytes == kUnspecifiedByteCount) bytes = size - std::min(size, offset);
    if (bytes == 0) return {this, {slot, 0}, {}};  // bcube sends these past the end of few elements
    if (offset > size || bytes > size - offset)
      throw std::logic_error("a message exceeds its buffer");
    return {this, {slot, bytes}, {static_cast<std::byte*>(ptr) + offset, bytes}};
  }

  std::shared_ptr<QueueContext> context_;
  int sent_ = 0, received_ = 0, to_ = -1, from_ = -1;
};

// The connection to one rank. Gloo's algorithms check that it exists, and send and receive through
// buffers that are not bound to it. Bound buffers belong to Gloo's first interface, which is not
// used.
class QueuePair final : public gloo::transport::Pair {
 public:
  QueuePair(QueueContext& context, int peer) : context_(context), peer_(peer), address_(peer) {}
  const gloo::transport::Address& address() const override { return address_; }
  void connect(const std::vector<char>&) override {}  // it is connected from construction on
  void close() override { context_.transport().abort(); }
  void setSync(bool, bool) override {}  // the thread that calls always moves the bytes
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void*, std::size_t) override {
    return nullptr;
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void*, std::size_t) override {
    return nullptr;
  }
  void send(GlooBuffer* buffer, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer->send(peer_, slot, offset, bytes);
  }
  void recv(GlooBuffer* buffer, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer->recv(peer_, slot, offset, bytes);
  }

 private:
  QueueContext& context_;
  int peer_;
  PeerAddress address_;
};

QueueContext::QueueContext(Transport& transport)
    : Context(transport.rank, transport.size), transport_(transport), queues_(transport.size) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) createPair(peer) = std::make_unique<QueuePair>(*this, peer);
  }
}

std::unique_ptr<GlooBuffer> QueueContext::createUnboundBuffer(void* data, std::size_t bytes) {
  return std::make_unique<QueueBuffer>(shared_from_this(), data, bytes);
}

void QueueContext::send(const Message& message, int peer) {
  find_queues(peer).out.push_back(message);
  if (find_queues(peer).out.size() == 1) send_some(peer);
}

void QueueContext::receive(const Message& message, int peer) {
  find_queues(peer).in.push_back(message);
}

// Returns whether anything was sent.
bool QueueContext::send_some(int peer) {
  bool any = false;
  std::deque<Message>& out = find_queues(peer).out;
  while (!out.empty()) {
    Message& message = out.front();
    const Rest rest(message.header, message.body, message.done);
    const std::size_t sent = transport_.send_some(peer, rest.head, rest.body);
    message.done += sent;
    any = any || sent > 0;
    if (sent < rest.bytes()) break;
    message.buffer->count_sent(peer);
    out.pop_front();
  }
  return any;
}

// Returns whether anything was received. Bytes without a receiver stay in the connection.
bool QueueContext::receive_some(int peer) {
  bool any = false;
  Queues& queues = find_queues(peer);
  while (!queues.in.empty()) {
    Message& message = queues.in.front();
    const Rest rest(queues.incoming, message.body, message.done);
    const std::size_t received = transport_.receive_some(peer, rest.head, rest.body);
    message.done += received;
    any = any || received > 0;
    if (message.done >= sizeof(MessageHeader) && (queues.incoming.slot != message.header.slot ||
                                                  queues.incoming.bytes != message.header.bytes)) {
      throw TransportError(
          TransportError::Kind::kBroken, peer,
          concat("rank ", peer, " sends ", queues.incoming.bytes, " bytes of another call, ",
                 message.header.bytes, " were expected"));
    }
    if (received < rest.bytes()) break;
    message.buffer->count_received(peer);
    queues.in.pop_front();
  }
  return any;
}

void QueueContext::wait_until_positive(const int& count) {
  while (count == 0) {
    bool any = false;
    directions_.clear();
    for (int peer = 0; peer < size; ++peer) {
      any |= send_some(peer);
      any |= receive_some(peer);
      const Queues& queues = find_queues(peer);
      const bool sends = !queues.out.empty(), receives = !queues.in.empty();
      if (sends || receives) directions_.push_back({peer, sends, receives});
    }
    if (!any) transport_.wait(directions_);
  }
}

void QueueContext::forget(const QueueBuffer* buffer) {
  const auto is_of_buffer = [&](const Message& message) { return message.buffer == buffer; };
  for (Queues& queues : queues_) {
    std::erase_if(queues.out, is_of_buffer);
    std::erase_if(queues.in, is_of_buffer);
  }
}

class GlooContext final : public gloo::Context {
 public:
  explicit GlooContext(Transport& transport) : Context(transport.rank, transport.size) {
    transportContext_ = std::make_shared<QueueContext>(transport);
  }
};

}  // namespace

std::shared_ptr<gloo::Context> make_gloo_context(Transport& transport) {
  return std::make_shared<GlooContext>(transport);
}

}  // namespace trainer::cluster
