// Calls of fewer samples than lanes, which the CPU backend computes in one lane of all threads.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "backend/cpu/cpu.h"
#include "backend/cpu/lanes/lanes.h"
#include "backend/model_runs.h"
#include "backend/nets.h"
#include "compile/compile.h"

namespace trainer::test {
namespace {

using backend::cpu::OneSampleForm;
using backend::cpu::runs_in_one_lane;
using backend::cpu::ThreadTimes;
using Form = OneSampleForm::Form;

constexpr ThreadTimes kQuiet{1, 1, 0}, kBusy{1, 0.5, 3};

// Returns clocks that go on by this between any two readings.
backend::cpu::ReadThreadTimes advance_by(const ThreadTimes& step) {
  return [step, now = ThreadTimes{}]() mutable {
    now = {now.seconds + step.seconds, now.cpu_seconds + step.cpu_seconds,
           now.preemptions + step.preemptions};
    return now;
  };
}

std::unique_ptr<backend::Backend> open_threads(int threads, int lanes = 0,
                                               const std::string& instruction_set = "",
                                               const ThreadTimes& call_times = kQuiet) {
  backend::cpu::CpuOptions options;
  options.threads = threads;
  options.lanes = lanes;
  options.instruction_set = instruction_set;
  options.read_thread_times = advance_by(call_times);
  return backend::cpu::open_backend(options);
}

// The ops of the backbones: convolutions of all kinds and sizes, squeeze and excitation, layer
// norm, pooling, residual sums, and a dense layer that lanes of a training program compute
// together.
const Net kManyOps{"mixed",
                   R"({layers: [conv: {filters: 32, strides: 2, padding: same, use_bias: false},
    batch_norm, activation: swish, max_pool: {pool_size: 3, strides: 2, padding: same},
    residual: {layers: [conv: {filters: 32, padding: same, use_bias: false}, batch_norm,
      activation: relu, conv: {filters: 32, padding: same}], activation: relu},
    depthwise_conv: {kernel_size: 7, padding: same}, layer_norm,
    conv: {filters: 96, kernel_size: 1, activation: gelu, name: a},
    global_average_pool: {keepdims: true}, conv: {filters: 8, kernel_size: 1, activation: swish},
    conv: {filters: 96, kernel_size: 1, activation: sigmoid, name: s}, multiply: {inputs: [a, s]},
    conv: {filters: 24, kernel_size: 1, strides: 2}, flatten,
    dense: {units: 640, activation: relu}, dense: 4]})",
                   {33, 30, 3}};

graph::Graph make_evaluation(const Net& net, DType type = DType::kFloat32) {
  compile::Options options;
  options.activations = type;
  return compile::evaluation_graph(forward_graph(net), options);
}

backend::CompileOptions for_samples(std::int64_t samples) {
  backend::CompileOptions options;
  options.max_samples = samples;
  return options;
}

std::string program_text(const Runner& runner) {
  std::ostringstream out;
  runner.print(out);
  return out.str();
}

// The number of programs of one lane that a runner has compiled.
std::size_t count_one_lane(const Runner& runner) {
  const std::string text = program_text(runner), mark = ", 1 lanes";
  std::size_t count = 0;
  for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("runs_in_one_lane: one lane takes few samples, and lanes take a sample each") {
  for (const int threads : {2, 3, 4, 8, 16, 64}) CHECK(runs_in_one_lane(1, threads, threads));
  CHECK(!runs_in_one_lane(1, 1, 1));
  CHECK(!runs_in_one_lane(1, 1, 8));  // there is one lane anyway
  CHECK(!runs_in_one_lane(0, 2, 2));
  CHECK(!runs_in_one_lane(2, 2, 2));
  CHECK(!runs_in_one_lane(3, 2, 2));
  CHECK(runs_in_one_lane(2, 4, 4));
  CHECK(!runs_in_one_lane(3, 4, 4));  // by the model 4 threads are 2.8 times as fast as one
  CHECK(runs_in_one_lane(7, 16, 16));
  CHECK(!runs_in_one_lane(9, 16, 16));
  // A lane of 4 threads is 2.8 times as fast as one thread, and a lane of 16 threads 8 times.
  CHECK(runs_in_one_lane(2, 4, 16));
  CHECK(!runs_in_one_lane(3, 4, 16));
}

TEST_CASE("OneSampleForm: a preempted thread that loses a tenth of its time is disturbed") {
  CHECK(!ThreadTimes{1, 1, 0}.is_disturbed());
  CHECK(!ThreadTimes{1, 0.95, 4}.is_disturbed());
  CHECK(!ThreadTimes{1, 0.5, 0}.is_disturbed());  // it waited without work
  CHECK(ThreadTimes{1, 0.5, 1}.is_disturbed());
}

TEST_CASE("OneSampleForm: calls stay on all threads while nothing disturbs them") {
  OneSampleForm form(kQuiet);
  for (int i = 0; i < 100; ++i) {
    CHECK(form.form() == Form::kAllThreads);
    form.record({i % 7 == 0 ? 5.0 : 1.0, 1, 0});
  }
}

TEST_CASE("OneSampleForm: a disturbed call is followed by four times its time on one thread") {
  OneSampleForm form(kQuiet);
  form.record({8, 2, 5});
  for (int i = 0; i < 8; ++i) {
    CHECK(form.form() == Form::kOneThread);
    form.record({4, 4, 0});
  }
  CHECK(form.form() == Form::kOneThread);
  form.record({4, 1, 3});  // a disturbance starts the time anew
  for (int i = 0; i < 9; ++i) {
    CHECK(form.form() == Form::kOneThread);
    form.record({4, 4, 0});
  }
  CHECK(form.form() == Form::kAllThreads);
  form.record({3, 1, 2});  // faster than one thread, although disturbed
  CHECK(form.form() == Form::kAllThreads);
  form.record({5, 1, 2});
  CHECK(form.form() == Form::kOneThread);
  form.record({6, 1, 2});  // slower than all threads, although these were disturbed
  CHECK(form.form() == Form::kAllThreads);
}

TEST_CASE("OneSampleForm: the times before the first call choose its form") {
  OneSampleForm form(kBusy);
  CHECK(form.form() == Form::kOneThread);
  form.record(kBusy);
  CHECK(form.form() == Form::kOneThread);
  form.record(kQuiet);
  CHECK(form.form() == Form::kAllThreads);
}

TEST_CASE("Executable: a short call of one sample has the same bits on one thread and on all") {
  for (const Setup& setup : setups()) {
    for (const Net& net :
         {kManyOps, kPlain, kNormalised, kWide, kSeparable, kChained, kTransformer}) {
      const graph::Graph graph = make_evaluation(net, setup.type);
      const auto values = starting_values(graph, setup.type);
      for (const int threads : {2, 3, 8}) {
        const auto quiet = open_threads(threads, threads, setup.instruction_set);
        const auto busy = open_threads(threads, threads, setup.instruction_set, kBusy);
        Runner on_all(*quiet, graph, for_samples(9)), on_one(*busy, graph, for_samples(9));
        start(on_all, values);
        start(on_one, values);
        CAPTURE(to_string(setup));
        CAPTURE(net.name);
        CAPTURE(threads);
        for (const std::uint64_t seed : {1, 2}) {
          const auto inputs = batch(graph, 1, net, seed);
          const auto got = on_one.run(1, inputs);
          CHECK(omp_get_max_threads() == 1);
          CHECK(got == on_all.run(1, inputs));
          CHECK(omp_get_max_threads() == threads);
        }
      }
    }
  }
}

TEST_CASE("Executable: a short call of one sample alone runs on one thread on busy cores") {
  const graph::Graph graph = make_evaluation(kPlain);
  for (const std::int64_t max_samples : {1, 2, 9}) {
    const auto backend = open_threads(4, 4, "", kBusy);
    Runner runner(*backend, graph, for_samples(max_samples));
    start(runner, starting_values(graph));
    for (const std::int64_t samples : {1, 2, 1}) {
      if (samples > max_samples) continue;
      runner.run(samples, batch(graph, samples, kPlain));
      CHECK(omp_get_max_threads() == (samples == 1 ? 1 : 4));
    }
  }
}

TEST_CASE("Executable: a call of fewer samples than lanes has the outputs of one lane") {
  for (const Setup& setup : setups()) {
    const graph::Graph graph = make_evaluation(kManyOps, setup.type);
    const auto values = starting_values(graph, setup.type);
    for (const int threads : {2, 3, 8}) {
      const auto lanes = open_threads(threads, threads, setup.instruction_set);
      const auto one = open_threads(threads, 1, setup.instruction_set);
      Runner on_lanes(*lanes, graph, for_samples(17)), in_one(*one, graph, for_samples(17));
      start(on_lanes, values);
      start(in_one, values);
      CHECK(count_one_lane(on_lanes) == 0);
      std::map<std::int64_t, std::vector<std::vector<float>>> first;
      // A last short batch follows a full one; short and full calls then alternate.
      for (const std::int64_t samples : {17, 1, 17, 2, 5, 1, 2, 17}) {
        CAPTURE(to_string(setup));
        CAPTURE(threads);
        CAPTURE(samples);
        const auto inputs = batch(graph, samples, kManyOps, static_cast<std::uint64_t>(samples));
        const auto got = on_lanes.run(samples, inputs);
        const bool is_short = runs_in_one_lane(samples, threads, threads);
        // run() leaves the number of OpenMP threads of a lane behind.
        CHECK(omp_get_max_threads() == (is_short ? threads : 1));
        if (is_short) CHECK(got == in_one.run(samples, inputs));
        CHECK(got == first.try_emplace(samples, got).first->second);
      }
      CHECK(count_one_lane(on_lanes) == (threads == 2 ? 1 : 2));
    }
  }
}

TEST_CASE("Executable: the outputs of a short call are those of the reference") {
  for (const Net& net :
       {kManyOps, kPlain, kNormalised, kWide, kDenseOnly, kSeparable, kChained, kTransformer}) {
    const graph::Graph graph = make_evaluation(net);
    Reference reference(graph);
    reference.kept = starting_values(graph);
    for (const int threads : {2, 4}) {
      const auto backend = open_threads(threads);
      Runner runner(*backend, graph, for_samples(6));
      start(runner, reference.kept);
      for (const std::int64_t samples : {6, 1, 2}) {
        const auto inputs = batch(graph, samples, net);
        const auto expected = reference.run(samples, inputs, {});
        const auto got = runner.run(samples, inputs);
        for (std::size_t i = 0; i < got.size(); ++i) {
          CHECK_MESSAGE(distance(got[i], expected[i]) < 3e-5, net.name, ", ", threads, " threads, ",
                        samples, " samples");
        }
      }
    }
  }
}

TEST_CASE("Executable: a sample's outputs are the same bits in a short call and among others") {
  for (const Net& net : {kManyOps, kTransformer}) {
    const graph::Graph graph = make_evaluation(net);
    const auto values = starting_values(graph);
    // Another number of samples may choose another algorithm.
    backend::CompileOptions direct = for_samples(4);
    direct.convolution = ConvolutionAlgorithm::kDirect;
    const auto inputs = batch(graph, 4, net);
    const auto run = [&](int threads, std::int64_t samples) {
      const auto backend = open_threads(threads);
      Runner runner(*backend, graph, direct);
      start(runner, values);
      std::vector<std::vector<double>> first = inputs;
      for (auto& input : first) input.resize(input.size() / 4 * static_cast<std::size_t>(samples));
      std::vector<float> logits = runner.run(samples, first)[0];
      logits.resize(4);  // of the first sample
      return logits;
    };
    const std::vector<float> expected = run(1, 1);
    for (const int threads : {1, 2, 4, 7}) {
      for (const std::int64_t samples : {1, 2, 4}) {
        CHECK_MESSAGE(run(threads, samples) == expected, net.name, ", ", threads, " threads, ",
                      samples, " samples");
      }
    }
  }
}

TEST_CASE("Executable: a short call reads the weights that were written or trained last") {
  compile::Options options;
  const graph::Graph training = compile::training_graph(forward_graph(kManyOps), options);
  const graph::Graph evaluating = make_evaluation(kManyOps);
  const auto backend = open_threads(2);
  const auto variables = backend->allocate(training);
  const auto stream = backend->make_stream();
  const auto train = backend->compile(training, *variables, for_samples(4));
  const auto evaluate = backend->compile(evaluating, *variables, for_samples(4));
  const auto inputs = batch(training, 4, kManyOps);
  std::vector<std::uint8_t> images(inputs[0].begin(), inputs[0].end());
  std::vector<std::int32_t> labels(inputs[1].begin(), inputs[1].end());
  const auto span = [](auto& values) {
    return backend::Span{reinterpret_cast<std::byte*>(values.data()),
                         sizeof(values[0]) * values.size()};
  };
  const backend::Span from[] = {span(images), span(labels)};
  const backend::Span none[] = {{}, {}, {}};
  // The logits of the first image, in a call of its own.
  const auto predict = [&](backend::Executable& program) {
    std::vector<float> logits(4);
    const backend::Span to[] = {span(logits), {}};
    program.launch({1, from, to, nullptr}, {}, *stream);
    return logits;
  };
  std::vector<std::vector<float>> seen;
  const auto check_new = [&] {
    const std::vector<float> logits = predict(*evaluate);
    const auto fresh_backend = open_threads(2, 1);
    const auto fresh = fresh_backend->allocate(training);
    for (const graph::Value& value : variables->values()) {
      std::vector<float> values(static_cast<std::size_t>(value.shape.elements()));
      variables->read(value.name, values);
      fresh->write(value.name, values);
    }
    CHECK(logits == predict(*fresh_backend->compile(evaluating, *fresh, for_samples(4))));
    CHECK(std::ranges::find(seen, logits) == seen.end());
    seen.push_back(logits);
  };
  for (const auto& [name, values] : starting_values(training)) {
    variables->write(name, std::vector<float>(values.begin(), values.end()));
  }
  check_new();
  for (std::uint64_t step = 1; step <= 2; ++step) {
    backend::Scalars scalars = gradient_scalars(4);
    scalars.learning_rate = 0.01f;
    scalars.update = step;
    train->launch({4, from, none, nullptr}, scalars, *stream);
    check_new();
  }
  // A checkpoint that is loaded writes all values.
  for (const auto& [name, values] : starting_values(training)) {
    std::vector<float> other(values.begin(), values.end());
    for (float& value : other) value *= 0.9f;
    variables->write(name, other);
  }
  check_new();
}

TEST_CASE("Executable: the program of short calls adds at most a tenth to the memory") {
  for (const Net& net : {kManyOps, kWide, kSeparable}) {
    for (const ThreadTimes& times : {kQuiet, kBusy}) {
      const graph::Graph graph = make_evaluation(net);
      const auto backend = open_threads(2, 2, "", times);
      Runner runner(*backend, graph, for_samples(16));
      start(runner, starting_values(graph));
      runner.run(16, batch(graph, 16, net));
      const std::int64_t before = runner.memory().total();
      runner.run(1, batch(graph, 1, net));
      CHECK(count_one_lane(runner) == 1);
      CHECK_MESSAGE(runner.memory().total() <= before + before / 10, net.name);
    }
  }
}

TEST_CASE("Executable: programs for calls of less than a sample per lane have one lane only") {
  const graph::Graph graph = make_evaluation(kPlain);
  const auto backend = open_threads(4);
  const Runner runner(*backend, graph, for_samples(2));
  CHECK(program_text(runner).starts_with("program for 2 samples per lane, 1 lanes"));
}

TEST_CASE("Executable: a program whose results may not depend on the batch keeps its lanes") {
  const graph::Graph graph = make_evaluation(kPlain);
  const auto backend = open_threads(4);
  backend::CompileOptions options = for_samples(8);
  options.same_for_any_batch = true;
  Runner runner(*backend, graph, options);
  start(runner, starting_values(graph));
  runner.run(1, batch(graph, 1, kPlain));
  CHECK(count_one_lane(runner) == 0);
}

}  // namespace trainer::test
