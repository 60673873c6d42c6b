// The streams of the CPU: work is done before the call that enqueues it returns.
#pragma once

#include <cstring>

#include "backend/device.h"

namespace trainer::backend::cpu {

class DoneEvent final : public Event {
 public:
  bool done() const override { return true; }
  void wait() const override {}
};

class CpuStream final : public Stream {
 public:
  void upload(Span to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to.address, from, bytes);
  }
  void download(void* to, Span from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from.address, bytes);
  }
  void record(Event&) override {}
  void wait_for(const Event&) override {}
  void synchronize() override {}
};

}  // namespace trainer::backend::cpu
