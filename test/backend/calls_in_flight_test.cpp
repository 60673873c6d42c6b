// Calls that are given to a stream faster than it does them.
#include <doctest/doctest.h>

#include <cstring>

#include "backend/model_runs.h"
#include "backend/nets.h"
#include "support/backend.h"

namespace trainer::test {
namespace {

constexpr std::int64_t kSamples = 6;
constexpr std::size_t kCalls = 24;

struct Outcome {
  std::vector<double> losses;
  std::vector<float> parameters;
};

std::vector<std::byte> bytes_of(const std::vector<double>& values, DType type) {
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

// Trains with one batch, each call with a learning rate of its own; waits after every
// `wait_every` calls.
Outcome train(const Setup& setup, std::size_t wait_every) {
  backend::Backend& backend = open(setup);
  const graph::Graph graph = training_graph(kPlain, setup.type);
  const auto stream = backend.make_stream();
  const auto variables = backend.allocate(graph);
  for (const auto& [name, values] : starting_values(graph, setup.type)) {
    variables->write(name, std::vector<float>(values.begin(), values.end()));
  }
  backend::CompileOptions options;
  options.max_samples = kSamples;
  options.numbers.loss = 1;
  const auto executable = backend.compile(graph, *variables, options);
  // One batch for all calls: what differs is in their scalars.
  std::vector<backend::Buffer> memory;
  std::vector<std::vector<std::byte>> uploaded;
  std::vector<backend::Span> inputs, outputs;
  const auto whole = batch(graph, kSamples, kPlain);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    uploaded.push_back(bytes_of(whole[i], graph[graph.inputs[i]].type));
    memory.push_back(backend.allocate(uploaded.back().size()));
    inputs.push_back(memory.back().span());
    stream->upload(inputs.back(), uploaded.back().data(), uploaded.back().size());
  }
  for (const graph::ValueId id : graph.outputs) {
    const Shape shape =
        graph[id].shape.batched() ? graph[id].shape.with_batch(kSamples) : graph[id].shape;
    memory.push_back(
        backend.allocate(static_cast<std::size_t>(shape.elements()) * size_of(graph[id].type)));
    outputs.push_back(memory.back().span());
  }
  HostBuffer numbers = backend.allocate_host(kCalls * sizeof(backend::Numbers));
  auto* all = reinterpret_cast<backend::Numbers*>(numbers.data());
  for (std::size_t i = 0; i < kCalls; ++i) {
    backend::Scalars scalars = gradient_scalars(kSamples);
    scalars.learning_rate = 0.001f * static_cast<float>(i % 7 + 1);
    scalars.update = i + 1;
    executable->launch({kSamples, inputs, outputs, all + i}, scalars, *stream);
    if ((i + 1) % wait_every == 0) stream->synchronize();
  }
  stream->synchronize();
  Outcome outcome;
  for (std::size_t i = 0; i < kCalls; ++i) outcome.losses.push_back(all[i].loss);
  for (const std::string& name : trained(graph)) {
    for (const graph::Value& value : variables->values()) {
      if (value.name != name) continue;
      std::vector<float> values(static_cast<std::size_t>(value.shape.elements()));
      variables->read(name, values);
      outcome.parameters.insert(outcome.parameters.end(), values.begin(), values.end());
    }
  }
  return outcome;
}

}  // namespace

TEST_CASE("many calls in flight have the scalars and numbers of each") {
  for (const Setup& setup : all_setups()) {
    if (setup.type != DType::kFloat32) continue;
    const Outcome one_by_one = train(setup, 1), at_once = train(setup, kCalls);
    CAPTURE(to_string(setup));
    CHECK(at_once.losses == one_by_one.losses);
    CHECK(at_once.parameters == one_by_one.parameters);
    CHECK(at_once.losses.front() != at_once.losses.back());
  }
}

}  // namespace trainer::test
