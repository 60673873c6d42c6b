#include "cluster/collective/ring_sum.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

constexpr std::size_t kLineBytes = 64;           // bytes; messages are passed on in whole lines
constexpr std::size_t kMaxReceived = 128 << 10;  // bytes that are added at once

// In step s of 2 (p - 1), a rank receives the part of the rank s + 2 before it, and sends what it
// has received in the step before. In the first p - 1 steps it adds its own values.
template <class T>
class Ring {
 public:
  Ring(Transport& transport, std::span<T> values, std::vector<T>& scratch)
      : transport_(transport),
        values_(values),
        ranks_(transport.size),
        next_((transport.rank + 1) % transport.size),
        previous_((transport.rank + transport.size - 1) % transport.size),
        scratch_(scratch) {
    const std::size_t line = kLineBytes / sizeof(T);
    part_length_ = (values.size() + ranks_ * line - 1) / (ranks_ * line) * line;
    scratch_.resize(kMaxReceived / sizeof(T));
  }

  void run() {
    while (true) {
      skip(sent_, 1);
      skip(received_, 2);
      if (is_over(sent_) && is_over(received_)) return;
      const std::span<const std::byte> ready = find_ready();
      const bool has_sent = send(ready), has_received = receive();
      if (!has_sent && !has_received) wait(!ready.empty());
    }
  }

 private:
  using Direction = Transport::Direction;
  // A place among the parts that are sent or received.
  struct Place {
    std::size_t step = 0, bytes = 0;
  };

  bool is_over(const Place& place) const { return place.step == 2 * (ranks_ - 1); }

  // Returns the part of the rank `distance` before this one.
  std::span<T> part(std::size_t distance) const {
    const std::size_t owner = (transport_.rank + 2 * ranks_ - distance % ranks_) % ranks_;
    const std::size_t first = std::min(values_.size(), owner * part_length_);
    return values_.subspan(first, std::min(values_.size() - first, part_length_));
  }
  std::span<T> sent_part() const { return part(sent_.step + 1); }
  std::span<T> received_part() const { return part(received_.step + 2); }

  // Moves a place at the end of its part to the next part.
  void skip(Place& place, std::size_t distance) const {
    while (!is_over(place) && place.bytes == part(place.step + distance).size_bytes()) {
      place = {place.step + 1, 0};
    }
  }

  // Returns the bytes of the part to send that have been received but not sent.
  std::span<const std::byte> find_ready() const {
    if (is_over(sent_)) return {};
    const auto bytes = std::as_bytes(sent_part());
    std::size_t end = bytes.size();
    if (sent_.step > received_.step) {
      end = sent_.step == received_.step + 1 ? received_.bytes / kLineBytes * kLineBytes : 0;
    }
    return bytes.subspan(sent_.bytes, end - sent_.bytes);
  }

  bool send(std::span<const std::byte> ready) {
    const std::size_t bytes = transport_.send_some(next_, ready);
    sent_.bytes += bytes;
    return bytes > 0;
  }

  bool receive() {
    if (is_over(received_)) return false;
    const auto rest = std::as_writable_bytes(received_part()).subspan(received_.bytes);
    if (received_.step >= ranks_ - 1) {
      const std::size_t bytes = transport_.receive_some(previous_, rest);
      received_.bytes += bytes;
      return bytes > 0;
    }
    const auto memory = std::as_writable_bytes(std::span(scratch_));
    const std::size_t most = std::min(rest.size(), memory.size());
    const std::size_t bytes =
        transport_.receive_some(previous_, memory.subspan(unadded_, most - unadded_));
    unadded_ += bytes;
    const std::size_t whole =
        unadded_ == rest.size() ? unadded_ : unadded_ / kLineBytes * kLineBytes;
    T* const sums = reinterpret_cast<T*>(rest.data());
    add(sums, sums, scratch_.data(), whole / sizeof(T));
    unadded_ -= whole;
    std::memmove(memory.data(), memory.data() + whole, unadded_);
    received_.bytes += whole;
    return bytes > 0;
  }

  void wait(bool sends) {
    const bool receives = !is_over(received_);
    if (next_ == previous_) return transport_.wait(std::array{Direction{next_, sends, receives}});
    const std::array directions{Direction{next_, sends, false},
                                Direction{previous_, false, receives}};
    const std::size_t first = sends ? 0 : 1, last = receives ? 2 : 1;
    transport_.wait(std::span(directions).subspan(first, last - first));
  }

  Transport& transport_;
  const std::span<T> values_;
  const std::size_t ranks_;
  const int next_, previous_;
  std::vector<T>& scratch_;
  std::size_t part_length_ = 0;
  std::size_t unadded_ = 0;  // bytes in scratch_
  Place sent_, received_;
};

}  // namespace

template <class T>
void ring_sum(Transport& transport, std::span<T> values, std::vector<T>& scratch) {
  Ring<T>(transport, values, scratch).run();
}

template void ring_sum(Transport&, std::span<float>, std::vector<float>&);
template void ring_sum(Transport&, std::span<double>, std::vector<double>&);
template void ring_sum(Transport&, std::span<std::int64_t>, std::vector<std::int64_t>&);

}  // namespace trainer::cluster
