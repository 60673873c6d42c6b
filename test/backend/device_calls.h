// A training program and one batch on a device, for calls that a test launches itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/harness.h"
#include "backend/nets.h"

namespace trainer::test {

class DeviceCalls {
 public:
  DeviceCalls(const Setup& setup, const Net& net, std::int64_t samples, std::size_t calls);

  // Enqueues call i with the learning rate.
  void launch(std::size_t i, float learning_rate);
  // Uploads the batch again.
  void upload();
  backend::Executable& executable() { return *executable_; }
  backend::Stream& stream() { return *stream_; }
  const backend::CallResult& result(std::size_t i) const;  // once the stream is done with the call
  std::vector<float> trained_values() const;

 private:
  backend::Backend& backend_;
  graph::Graph graph_;
  std::int64_t samples_;
  std::vector<std::vector<std::byte>> batch_;
  HostBuffer results_;
  std::vector<backend::Buffer> memory_;  // the memory of the inputs, then of the outputs
  std::vector<backend::Span> inputs_, outputs_;
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<backend::Variables> variables_;
  std::unique_ptr<backend::Executable> executable_;
};

}  // namespace trainer::test
