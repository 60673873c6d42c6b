// The reference backend does what makes it worth testing on: work runs later, and results are
// poison until then.
#include "reference_backend/reference_backend.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <future>

#include "backend/model_runs.h"
#include "backend/nets.h"
#include "reference_backend/stream.h"

namespace trainer::test {
namespace {

using backend::Span;

Span make_span(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

TEST_CASE("reference backend: a stream does work later in order, and results are NaN until then") {
  ReferenceStream stream;
  std::promise<void> go;
  stream.enqueue([&] { go.get_future().wait(); });
  std::vector<float> device(2), host{1, 2}, result{7, 7};
  stream.upload(make_span(device), host.data(), 8);
  stream.download(result.data(), make_span(device), 8);
  ReferenceEvent event;
  CHECK(event.done());
  stream.record(event);
  CHECK_FALSE(event.done());
  CHECK(std::isnan(result[0]));
  CHECK(device == std::vector<float>{0, 0});
  host[0] = 5;  // too early: the stream will see it
  go.set_value();
  event.wait();
  CHECK(event.done());
  CHECK(result == std::vector<float>{5, 2});
}

TEST_CASE("reference backend: a stream waits for another one's event") {
  ReferenceStream first, second;
  std::promise<void> go;
  first.enqueue([&] { go.get_future().wait(); });
  ReferenceEvent event;
  first.record(event);
  second.wait_for(event);
  int order = 0;
  second.enqueue([&] { order = 1; });
  ReferenceEvent last;
  second.record(last);
  CHECK_FALSE(last.done());
  go.set_value();
  last.wait();
  CHECK(order == 1);
}

TEST_CASE("reference backend: an error is thrown by the wait, and nothing after it runs") {
  ReferenceStream stream;
  stream.enqueue([] { throw std::runtime_error("broken"); });
  int later = 0;
  stream.enqueue([&] { later = 1; });
  CHECK_THROWS_WITH_AS(stream.synchronize(), "broken", std::runtime_error);
  CHECK(later == 0);
}

TEST_CASE("reference backend: new memory is filled with NaN") {
  const auto backend = open_reference_backend();
  const auto stream = backend->make_stream();
  const backend::Buffer buffer = backend->allocate(8);
  float values[2] = {};
  stream->download(values, buffer.span(), 8);
  stream->synchronize();
  CHECK(std::isnan(values[0]));
  CHECK(std::isnan(values[1]));
}

// The steps of the CPU backend and those of this one, within rounding.
TEST_CASE("reference backend: training gives the parameters of the CPU backend") {
  const Net net{"trained", R"({layers: [conv: {filters: 4, activation: relu}, batch_norm, max_pool,
      flatten, dropout: 0.3, dense: 4]})"};
  const graph::Graph graph = training_graph(net, DType::kFloat32);
  backend::CompileOptions options;
  options.max_samples = 6;
  options.result_outputs = {1, 2, -1};
  const auto values = starting_values(graph);
  Runner cpu(open(setups()[0]), graph, options);
  const auto reference = open_reference_backend();
  Runner interpreted(*reference, graph, options);
  start(cpu, values);
  start(interpreted, values);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    backend::Scalars scalars = gradient_scalars(6);
    scalars.learning_rate = 0.1f;
    scalars.update = step;
    const auto inputs = batch(graph, 6, net, step);
    cpu.run(6, inputs, scalars);
    interpreted.run(6, inputs, scalars);
    CHECK(interpreted.result().loss == doctest::Approx(cpu.result().loss).epsilon(1e-5));
    CHECK(interpreted.result().correct == cpu.result().correct);
    CHECK(interpreted.result().finite);
  }
  for (const auto& [name, unused] : values) {
    const std::vector<float> kept = interpreted.read(name);
    CAPTURE(name);
    CHECK(distance(cpu.read(name), std::vector<double>(kept.begin(), kept.end())) < 1e-4);
  }
}

}  // namespace trainer::test
