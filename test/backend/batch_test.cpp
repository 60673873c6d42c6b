// What may not depend on how a batch is run: its size, lanes and pieces. What runs at all.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "backend/model_runs.h"
#include "backend/nets.h"
#include "compile/compile.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::test {
namespace {

// Several updates with batches of `sizes`, on the backend and by the reference.
void check_batches(const Net& net, const Setup& setup, std::int64_t max_samples,
                   const std::vector<std::int64_t>& sizes) {
  const graph::Graph graph = training_graph(net, setup.type);
  const auto values = starting_values(graph);
  const auto names = trained(graph);
  backend::CompileOptions options;
  options.max_samples = max_samples;
  Runner runner(open(setup), graph, options);
  for (const std::int64_t samples : sizes) {
    Reference reference(graph);
    reference.kept = values;
    start(runner, values);
    backend::Scalars scalars = gradient_scalars(samples);
    scalars.first_sample = 3;
    const auto inputs = batch(graph, samples, net, static_cast<std::uint64_t>(samples));
    const auto expected = reference.run(samples, inputs, scalars);
    const auto got = runner.run(samples, inputs, scalars);
    const double d =
        std::max(distance(got[1], expected[1]),
                 distance(lost(runner, values, names), lost(reference, values, names)));
    CHECK_MESSAGE(d < 5e-5, net.name, ", ", to_string(setup), ", batch ", samples,
                  ": relative distance ", d);
  }
}

}  // namespace

TEST_CASE("Executable: any batch size and number of lanes give the update of the reference") {
  for (const Setup& setup : setups()) {
    if (setup.type != DType::kFloat32) continue;
    check_batches(kPlain, setup, 7, {7, 1, 2, 3, 4, 5, 6, 7});
    check_batches(kNormalised, setup, 7, {7, 4, 5, 6, 3});
    check_batches(kSeparable, setup, 7, {7, 4, 5, 6, 3});
    check_batches(kChained, setup, 7, {7, 4, 3});
    check_batches(kTransformer, setup, 7, {7, 4, 1});
    check_batches(kWide, setup, 7, {7, 1, 2, 6});
    check_batches(kDenseOnly, setup, 7, {7, 1, 2, 6});
  }
}

TEST_CASE(
    "Executable: a batch of more samples than run at once gives the update of the reference") {
  for (const Setup& setup : setups()) {
    if (setup.type != DType::kFloat32) continue;
    check_batches(kPlain, setup, 200, {200, 64, 65, 129, 200});
    check_batches(kNormalised, setup, 200, {200, 150});
    check_batches(kWide, setup, 200, {200, 129, 3});
    check_batches(kDenseOnly, setup, 200, {200, 129, 3});
  }
}

TEST_CASE(
    "lanes: dense layers of many parameters are computed together with one gradient in memory") {
  const Setup one = setups().front();
  backend::CompileOptions options;
  options.max_samples = 16;
  for (const Net& net : {kWide, kDenseOnly}) {
    const graph::Graph graph = training_graph(net);
    std::int64_t single = 0;
    for (const Setup& setup : setups()) {
      if (setup.type != DType::kFloat32 || setup.instruction_set != one.instruction_set) continue;
      CAPTURE(net.name);
      Runner runner(open(setup), graph, options);
      std::ostringstream program;
      runner.print(program);
      const bool joint = program.str().find("joint_dense sgemm") != std::string::npos;
      CHECK(joint == (setup.lanes > 1));
      const std::int64_t gradients = runner.memory().gradients;
      if (setup.lanes == 1) single = gradients;
      CHECK(gradients < single + single / 100);
    }
  }
}

TEST_CASE("Executable: a call of more samples than max_samples throws std::logic_error") {
  const graph::Graph graph = training_graph(kPlain);
  Runner runner(open(setups()[0]), graph, {});
  CHECK_THROWS_AS(runner.run(2, batch(graph, 2, kPlain), {}), std::logic_error);
}

TEST_CASE("BatchNorm: batch statistics over two lanes are those of one lane") {
  const graph::Graph graph = training_graph(kNormalised);
  const auto values = starting_values(graph);
  std::vector<std::vector<float>> results;
  for (const Setup& setup : setups()) {
    if (setup.type != DType::kFloat32 || setup.instruction_set != setups()[0].instruction_set)
      continue;
    backend::CompileOptions options;
    options.max_samples = 9;
    Runner runner(open(setup), graph, options);
    start(runner, values);
    runner.run(9, batch(graph, 9, kNormalised), gradient_scalars(9));
    std::vector<float> all;
    for (const auto& [name, initial] : values) {
      const auto read = runner.read(name);
      all.insert(all.end(), read.begin(), read.end());
    }
    results.push_back(all);
  }
  for (const auto& result : results) {
    CHECK(distance(result, {results[0].begin(), results[0].end()}) < 1e-6);
  }
}

TEST_CASE("Executable: two runs of the same calls have equal results bit by bit") {
  for (const Setup& setup : setups()) {
    const graph::Graph graph = training_graph(kPlain, setup.type);
    const auto values = starting_values(graph);
    backend::CompileOptions options;
    options.max_samples = 20;
    std::vector<std::vector<float>> results;
    for (int run = 0; run < 2; ++run) {
      Runner runner(open(setup), graph, options);
      start(runner, values);
      for (std::uint64_t step = 1; step <= 3; ++step) {
        backend::Scalars scalars = gradient_scalars(20);
        scalars.update = step;
        scalars.learning_rate = 0.1f;
        runner.run(20, batch(graph, 20, kPlain, step), scalars);
      }
      results.push_back(lost(runner, values, trained(graph)));
    }
    CHECK_MESSAGE(results[0] == results[1], to_string(setup));
  }
}

TEST_CASE(
    "Dropout: any division of the batch has the same mask forward and backward with the given "
    "rate") {
  constexpr std::int64_t kSamples = 150, kElements = 400;
  std::vector<std::vector<float>> masks;
  for (const Setup& setup : setups()) {
    Builder b(setup.type);
    graph::Dropout op;
    op.rate = 0.25f;
    op.layer = 3;
    op.seed = 0x123456789ABCDEFull;
    const auto x = b.input({kBatch, 10, 10, 4}), dy = b.input({kBatch, 10, 10, 4});
    b.output(b.add1(op, {x}));
    b.output(b.add1(op, {dy}));
    op.layer = 4;
    b.output(b.add1(op, {x}));
    backend::CompileOptions options;
    options.max_samples = kSamples;
    Runner runner(open(setup), b.graph, options);
    const std::vector<std::vector<double>> ones(2, std::vector<double>(kSamples * kElements, 1.0));
    backend::Scalars scalars;
    scalars.update = 5;
    const auto got = runner.run(kSamples, ones, scalars);
    CHECK(got[0] == got[1]);
    CHECK(got[0] != got[2]);
    std::vector<float> mask;
    double kept = 0, together = 0;
    for (std::size_t i = 0; i < got[0].size(); ++i) {
      const bool keeps = got[0][i] != 0;
      mask.push_back(keeps ? 1.0f : 0.0f);
      kept += keeps ? 1 : 0;
      together += keeps && got[2][i] != 0 ? 1 : 0;
      if (keeps) CHECK(std::abs(got[0][i] - 1 / 0.75f) < 4e-3f);
    }
    const double count = static_cast<double>(mask.size());
    // Six deviations of a fair draw.
    CHECK(std::abs(kept / count - 0.75) < 6 * std::sqrt(0.75 * 0.25 / count));
    CHECK(std::abs(together / count - 0.5625) < 6 * std::sqrt(0.5625 * 0.4375 / count));
    masks.push_back(mask);

    scalars.update = 6;
    CHECK(runner.run(kSamples, ones, scalars)[0] != got[0]);
    // The second half of the batch on its own.
    scalars.update = 5;
    scalars.first_sample = kSamples / 2;
    const std::vector<std::vector<double>> half(2,
                                                std::vector<double>(kSamples / 2 * kElements, 1.0));
    const auto later = runner.run(kSamples / 2, half, scalars);
    CHECK(std::equal(later[0].begin(), later[0].end(), got[0].begin() + kSamples / 2 * kElements));
  }
  for (const auto& mask : masks) CHECK(mask == masks[0]);
}

TEST_CASE("Executable: an evaluation graph reads the variables that training has written") {
  const Net net{"folded", R"({layers: [conv: {filters: 8, use_bias: false}, batch_norm,
      activation: relu, separable_conv: {filters: 5}, batch_norm, dropout: 0.5, flatten, dense: 4]})"};
  compile::Options options;
  options.update.rule = graph::SgdRule{0.9f, false};
  const graph::Graph training = compile::training_graph(forward_graph(net), options);
  const graph::Graph evaluation = compile::evaluation_graph(forward_graph(net), options);
  for (const Setup& setup : setups()) {
    if (setup.type != DType::kFloat32) continue;
    backend::Backend& backend = open(setup);
    const auto variables = backend.allocate(training);
    const auto stream = backend.make_stream();
    std::vector<backend::Buffer> memory;
    backend::CompileOptions compiled;
    compiled.max_samples = 6;
    const auto train = backend.compile(training, *variables, compiled);
    const auto evaluate = backend.compile(evaluation, *variables, compiled);
    Reference train_reference(training), evaluate_reference(evaluation);
    train_reference.kept = starting_values(training);
    for (const auto& [name, values] : train_reference.kept) {
      variables->write(name, std::vector<float>(values.begin(), values.end()));
    }
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const auto inputs = batch(training, 6, net, step);
      std::vector<std::uint8_t> images(inputs[0].begin(), inputs[0].end());
      std::vector<std::int32_t> labels(inputs[1].begin(), inputs[1].end());
      std::vector<float> logits(24), losses(6);
      const auto moved = [&](std::size_t bytes) {
        memory.push_back(backend.allocate(bytes));
        return memory.back().span();
      };
      const backend::Span from[] = {moved(images.size()), moved(labels.size() * 4)};
      const backend::Span none[] = {{}, {}, {}};
      const backend::Span to[] = {moved(logits.size() * 4), moved(losses.size() * 4)};
      stream->upload(from[0], images.data(), images.size());
      stream->upload(from[1], labels.data(), labels.size() * 4);
      backend::Scalars scalars = gradient_scalars(6);
      scalars.learning_rate = 0.05f;
      scalars.update = step;
      train->launch({6, from, none, nullptr}, scalars, *stream);
      train_reference.run(6, inputs, scalars);
      evaluate->launch({6, from, to, nullptr}, scalars, *stream);
      stream->download(logits.data(), to[0], logits.size() * 4);
      stream->download(losses.data(), to[1], losses.size() * 4);
      stream->synchronize();
      for (auto& [name, values] : evaluate_reference.kept) values = train_reference.kept.at(name);
      const auto expected = evaluate_reference.run(6, inputs, scalars);
      CHECK(distance(logits, expected[0]) < 3e-5);
      CHECK(distance(losses, expected[1]) < 3e-5);
    }
  }
}

TEST_CASE(
    "Executable: programs of two types on the same variables compute what each computes alone") {
  const Net net{"folded", R"({layers: [conv: {filters: 8, activation: relu}, depthwise_conv: {},
      flatten, dense: {units: 16, activation: relu}, dense: 4]})"};
  constexpr std::int64_t kSamples = 3;
  const auto is_half = [](const Setup& setup) { return setup.type != DType::kFloat32; };
  if (std::ranges::none_of(setups(), is_half)) TRAINER_SKIP("the processor has no second type");
  for (const Setup& setup : setups()) {
    if (!is_half(setup)) continue;
    backend::Backend& backend = open(setup);
    std::vector<graph::Graph> graphs;
    for (const DType type : {DType::kFloat32, setup.type}) {
      compile::Options options;
      options.activations = type;
      graphs.push_back(compile::evaluation_graph(forward_graph(net), options));
    }
    const auto variables = backend.allocate(graphs[0]);
    const auto values = starting_values(graphs[0]);
    for (const auto& [name, value] : values) {
      variables->write(name, std::vector<float>(value.begin(), value.end()));
    }
    backend::CompileOptions compiled;
    compiled.max_samples = kSamples;
    std::vector<std::unique_ptr<backend::Executable>> programs;
    for (const auto& graph : graphs) {
      programs.push_back(backend.compile(graph, *variables, compiled));
    }
    const auto stream = backend.make_stream();
    const auto inputs = batch(graphs[0], kSamples, net, 1);
    const std::vector<std::uint8_t> images(inputs[0].begin(), inputs[0].end());
    const std::vector<std::int32_t> labels(inputs[1].begin(), inputs[1].end());
    const auto image_memory = backend.allocate(images.size());
    const auto label_memory = backend.allocate(labels.size() * 4);
    const auto logit_memory = backend.allocate(kSamples * 4 * 4);
    const backend::Span from[] = {image_memory.span(), label_memory.span()};
    const backend::Span to[] = {logit_memory.span(), {}};
    stream->upload(from[0], images.data(), images.size());
    stream->upload(from[1], labels.data(), labels.size() * 4);
    for (const std::size_t i : {1, 0, 1}) {
      std::vector<float> logits(kSamples * 4);
      programs[i]->launch({kSamples, from, to, nullptr}, {}, *stream);
      stream->download(logits.data(), to[0], logits.size() * 4);
      stream->synchronize();
      Runner alone(backend, graphs[i], compiled);
      start(alone, values);
      CHECK_MESSAGE(logits == alone.run(kSamples, inputs)[0], to_string(setup), ", program ", i);
    }
  }
}

TEST_CASE("Executable: instructions of common models do not fall back to a slow implementation") {
  std::vector<std::pair<std::string, config::Model>> models;
  for (const char* name : {"mnist", "mnist_dense", "fashion_mnist", "digits"}) {
    const auto loaded = config::load_config(concat(source_file("configs/"), name, ".yaml"), {}, {});
    models.emplace_back(name, loaded.config.model);
  }
  models.emplace_back("convolutions", build_config(R"({layers: [conv: {filters: 24, padding: same},
      batch_norm, activation: relu, conv: {filters: 32, strides: 2, padding: same}, batch_norm,
      activation: relu, separable_conv: {filters: 48, padding: same}, batch_norm, activation: relu,
      average_pool: 2, conv: {filters: 64, kernel_size: 1, activation: relu}, global_average_pool,
      dropout: 0.2, dense: 10]})")
                                          .model);
  for (const auto& entry : models) {
    const std::string& name = entry.first;
    const graph::Graph forward = model::build_model(entry.second, {}, sample({28, 28, 1}, 10), 1);
    for (const Setup& setup : setups()) {
      if (setup.instruction_set != setups()[0].instruction_set) continue;
      compile::Options options;
      options.activations = setup.type;
      options.update.rule = graph::AdamRule{};
      backend::CompileOptions compiled;
      compiled.max_samples = 64;
      for (const graph::Graph& graph : {compile::training_graph(forward, options),
                                        compile::evaluation_graph(forward, options)}) {
        Runner runner(open(setup), graph, compiled);
        std::ostringstream printed;
        runner.print(printed);
        INFO(name, ", ", to_string(setup), "\n", printed.str());
        CHECK(printed.str().find(": ") != std::string::npos);
        std::istringstream lines(printed.str());
        for (std::string line; std::getline(lines, line);) {
          const auto colon = line.rfind(": ");
          if (colon == std::string::npos) continue;
          CHECK_MESSAGE(line.find("ref", colon) == std::string::npos, line);
        }
      }
    }
  }
}

}  // namespace trainer::test
