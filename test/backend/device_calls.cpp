#include "backend/device_calls.h"

#include <cstring>

#include "support/backend.h"

namespace trainer::test {
namespace {

std::vector<std::byte> to_bytes(const std::vector<double>& values, DType type) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    };
    if (type == DType::kUInt8) put(static_cast<std::uint8_t>(values[i]));
    if (type == DType::kInt32) put(static_cast<std::int32_t>(values[i]));
    if (type == DType::kFloat32) put(static_cast<float>(values[i]));
  }
  return bytes;
}

}  // namespace

DeviceCalls::DeviceCalls(const Setup& setup, const Net& net, std::int64_t samples,
                         std::size_t calls)
    : backend_(open(setup)),
      graph_(training_graph(net, setup.type)),
      samples_(samples),
      results_(backend_.allocate_host(calls * sizeof(backend::CallResult))),
      stream_(backend_.make_stream()),
      variables_(backend_.allocate(graph_)) {
  for (const auto& [name, values] : starting_values(graph_, setup.type)) {
    variables_->write(name, std::vector<float>(values.begin(), values.end()));
  }
  backend::CompileOptions options;
  options.max_samples = samples;
  options.result_outputs.loss = 1;
  executable_ = backend_.compile(graph_, *variables_, options);
  const auto whole = batch(graph_, samples, net);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    batch_.push_back(to_bytes(whole[i], graph_[graph_.inputs[i]].type));
    memory_.push_back(backend_.allocate(batch_.back().size()));
    inputs_.push_back(memory_.back().span());
  }
  for (const graph::ValueId id : graph_.outputs) {
    const Shape shape =
        graph_[id].shape.batched() ? graph_[id].shape.with_batch(samples) : graph_[id].shape;
    memory_.push_back(
        backend_.allocate(static_cast<std::size_t>(shape.elements()) * size_of(graph_[id].type)));
    outputs_.push_back(memory_.back().span());
  }
  upload();
}

void DeviceCalls::upload() {
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    stream_->upload(inputs_[i], batch_[i].data(), batch_[i].size());
  }
}

void DeviceCalls::launch(std::size_t i, float learning_rate) {
  backend::Scalars scalars = gradient_scalars(samples_);
  scalars.learning_rate = learning_rate;
  scalars.update = i + 1;
  auto* all = reinterpret_cast<backend::CallResult*>(results_.data());
  executable_->launch({samples_, inputs_, outputs_, all + i}, scalars, *stream_);
}

const backend::CallResult& DeviceCalls::result(std::size_t i) const {
  return reinterpret_cast<const backend::CallResult*>(results_.data())[i];
}

std::vector<float> DeviceCalls::trained_values() const {
  std::vector<float> all;
  for (const std::string& name : trained(graph_)) {
    for (const graph::Value& value : variables_->values()) {
      if (value.name != name) continue;
      std::vector<float> values(static_cast<std::size_t>(value.shape.elements()));
      variables_->read(name, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

}  // namespace trainer::test
