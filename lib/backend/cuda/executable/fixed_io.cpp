#include "backend/cuda/executable/fixed_io.h"

#include <algorithm>

namespace trainer::backend::cuda {
namespace {

std::int64_t port_bytes(const Port& port, std::int64_t samples) {
  return port.bytes_per_sample > 0 ? samples * port.bytes_per_sample : port.bytes;
}

// Returns whether the program reads or makes port i and the caller has memory for it.
bool is_used(const std::vector<Span>& spans, const std::vector<Port>& ports, std::size_t i) {
  return i < ports.size() && ports[i].buffer >= 0 && spans[i];
}

}  // namespace

std::vector<Span> FixedIo::inputs(const std::vector<Span>& given, const std::vector<Port>& ports,
                                  std::int64_t max_samples) {
  return places(inputs_, given, ports, max_samples);
}

std::vector<Span> FixedIo::outputs(const std::vector<Span>& given, const std::vector<Port>& ports,
                                   std::int64_t max_samples) {
  return places(outputs_, given, ports, max_samples);
}

std::vector<Span> FixedIo::places(std::vector<Buffer>& buffers, const std::vector<Span>& given,
                                  const std::vector<Port>& ports, std::int64_t max_samples) const {
  if (buffers.size() < given.size()) buffers.resize(given.size());
  std::vector<Span> places(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!is_used(given, ports, i)) continue;
    const std::int64_t bytes = std::max<std::int64_t>(port_bytes(ports[i], max_samples), 1);
    if (buffers[i].bytes() == 0) {
      buffers[i] = allocate_device(device_, bytes);
    }
    places[i] = buffers[i].span();
  }
  return places;
}

std::int64_t FixedIo::bytes() const {
  std::size_t total = 0;
  for (const auto* buffers : {&inputs_, &outputs_}) {
    for (const Buffer& buffer : *buffers) total += buffer.bytes();
  }
  return static_cast<std::int64_t>(total);
}

void copy_samples(const std::vector<Span>& from, const std::vector<Span>& to,
                  const std::vector<Port>& ports, std::int64_t samples, cudaStream_t stream) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!is_used(from, ports, i)) continue;
    const auto bytes = static_cast<std::size_t>(port_bytes(ports[i], samples));
    copy_on_device(to[i].address, from[i].address, bytes, stream);
  }
}

}  // namespace trainer::backend::cuda
