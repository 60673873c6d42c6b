#include "cluster/halving_doubling.h"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>

#include "cluster/reduce.h"

namespace trainer::cluster {
namespace {

using Buffer = gloo::transport::UnboundBuffer;

constexpr std::size_t kPiece = 256 << 10;  // bytes in flight while the piece before is added
constexpr std::size_t kSmall = 4 << 10;  // up to here, latency is all: exchange everything at once
constexpr std::uint64_t kSlot = std::uint64_t{0x7f} << 56;  // Gloo's own prefixes are small numbers

struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

template <class T>
class Exchange {
 public:
  Exchange(Mesh& mesh, std::span<T> values, std::vector<std::byte>& scratch)
      : mesh_(mesh),
        values_(values),
        received_(reinterpret_cast<T*>(scratch.data())),
        room_(scratch.size() / sizeof(T)),
        data_(mesh.createUnboundBuffer(values.data(), values.size_bytes())),
        scratch_(mesh.createUnboundBuffer(scratch.data(), scratch.size())) {}

  // Gives `give` to the partner and adds what it gives to `keep`.
  void reduce(int partner, Range give, Range keep) {
    const std::size_t piece = room_ / 2;
    const std::uint64_t slot = kSlot | ++step_;
    const auto part = [piece](Range range, std::size_t i) {
      return Range{std::min(range.begin + i * piece, range.end),
                   std::min(range.begin + (i + 1) * piece, range.end)};
    };
    const auto receive = [&](std::size_t i) {
      const std::size_t count = part(keep, i).size();
      if (count > 0) scratch_->recv(partner, slot, i % 2 * piece * sizeof(T), count * sizeof(T));
    };
    const std::size_t pieces = (std::max(give.size(), keep.size()) + piece - 1) / piece;
    receive(0);
    receive(1);
    for (std::size_t i = 0; i < pieces; ++i) send(partner, slot, part(give, i));
    for (std::size_t i = 0; i < pieces; ++i) {
      const Range mine = part(keep, i);
      if (mine.size() == 0) continue;
      scratch_->waitRecv();
      add(values_.data() + mine.begin, values_.data() + mine.begin, received_ + i % 2 * piece,
          mine.size());
      receive(i + 2);
    }
    for (std::size_t i = 0; i < pieces; ++i) wait_sent(part(give, i));
  }

  // The other way round: `keep` goes out, `take` comes back.
  void gather(int partner, Range keep, Range take) {
    const std::uint64_t slot = kSlot | ++step_;
    if (take.size() > 0)
      data_->recv(partner, slot, take.begin * sizeof(T), take.size() * sizeof(T));
    send(partner, slot, keep);
    if (take.size() > 0) data_->waitRecv();
    wait_sent(keep);
  }

  // Everything out, everything in.
  void swap_all(int partner) {
    const std::uint64_t slot = kSlot | ++step_;
    scratch_->recv(partner, slot, 0, values_.size_bytes());
    send(partner, slot, {0, values_.size()});
    scratch_->waitRecv();
    wait_sent({0, values_.size()});
    add(values_.data(), values_.data(), received_, values_.size());
  }

 private:
  void send(int partner, std::uint64_t slot, Range range) {
    if (range.size() > 0)
      data_->send(partner, slot, range.begin * sizeof(T), range.size() * sizeof(T));
  }
  void wait_sent(Range range) {
    if (range.size() > 0) data_->waitSend();
  }

  Mesh& mesh_;
  std::span<T> values_;
  T* received_;
  std::size_t room_;
  std::unique_ptr<Buffer> data_, scratch_;
  std::uint64_t step_ = 0;
};

template <class T>
void sum(Mesh& mesh, std::span<T> values, std::vector<std::byte>& scratch) {
  scratch.resize(2 * kPiece);
  Exchange<T> exchange(mesh, values, scratch);
  if (values.size_bytes() <= kSmall) {
    for (int distance = 1; distance < mesh.size; distance *= 2)
      exchange.swap_all(mesh.rank ^ distance);
    return;
  }
  std::vector<std::pair<Range, Range>> steps;  // kept, given away
  Range range{0, values.size()};
  for (int distance = 1; distance < mesh.size; distance *= 2) {
    const std::size_t middle = range.begin + range.size() / 2;
    Range keep{range.begin, middle}, give{middle, range.end};
    if ((mesh.rank & distance) != 0) std::swap(keep, give);
    exchange.reduce(mesh.rank ^ distance, give, keep);
    steps.emplace_back(keep, give);
    range = keep;
  }
  for (int distance = mesh.size / 2; distance > 0; distance /= 2) {
    const auto [keep, give] = steps.back();
    exchange.gather(mesh.rank ^ distance, keep, give);
    steps.pop_back();
  }
}

}  // namespace

void halving_doubling(Mesh& mesh, std::span<float> values, std::vector<std::byte>& scratch) {
  sum(mesh, values, scratch);
}
void halving_doubling(Mesh& mesh, std::span<double> values, std::vector<std::byte>& scratch) {
  sum(mesh, values, scratch);
}
void halving_doubling(Mesh& mesh, std::span<std::int64_t> values, std::vector<std::byte>& scratch) {
  sum(mesh, values, scratch);
}

}  // namespace trainer::cluster
