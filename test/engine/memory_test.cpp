// What a model takes on a device: as it is planned, as it is reported, and with activations
// computed again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "backend/gpu_model.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/fit_batch.h"
#include "support/backend.h"
#include "support/fake_gpus.h"
#include "support/model.h"
#include "support/skip.h"
#include "train/host_memory.h"
#include "train/resolve_batch_size.h"

namespace trainer::engine {
namespace {

// Everything that a segment may be made of: batch norm, dropout, a residual sum, both poolings.
const char* const kBlocks = R"({layers: [
  conv: {filters: 8, padding: same, use_bias: false}, batch_norm, activation: {function: relu, name: stem},
  conv: {filters: 16, padding: same, activation: relu}, dropout: 0.25,
  conv: {filters: 8, padding: same, use_bias: false}, batch_norm: {name: norm},
  add: {inputs: [stem, norm]}, activation: relu, max_pool: 2,
  conv: {filters: 16, padding: same, activation: tanh}, average_pool: 2,
  conv: {filters: 16, padding: same, activation: gelu}, dropout: 0.1, flatten, dense: 3]})";

config::Config build_config(const char* recompute, std::int64_t replicas = 1) {
  config::Config config = test::build_config(
      kBlocks, concat("optimizer: {adam: {learning_rate: 0.01}}\n",
                      "parallel: {replicas: ", replicas, ", lr_scaling: none}\n"));
  config.parallel.threads = 2;
  config.train.batch_size = 8;
  if (std::string(recompute) == "blocks") config.train.recompute = config::Recompute::kBlocks;
  return config;
}

std::unique_ptr<Engine> make(const config::Config& config,
                             std::vector<std::unique_ptr<backend::Backend>> backends) {
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({16, 16, 2}, 3), 1);
  return std::make_unique<Engine>(model, config, std::move(backends), Use::kTrain);
}

std::unique_ptr<Engine> make(const config::Config& config) {
  auto engine = make(config, test::open_test_backends(device_options(config.parallel, {})));
  engine->initialise(3);
  return engine;
}

// Losses of a few steps, the last of them short.
std::vector<double> train(Engine& engine, std::int64_t batch) {
  std::vector<double> losses;
  std::uint64_t update = 0;
  for (const std::int64_t samples : {batch, batch, batch - 3}) {
    std::vector<std::uint8_t> images;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < samples * 512; ++i) {
      images.push_back(static_cast<std::uint8_t>((i * 31 + i / 7 + losses.size() * 11) % 253));
    }
    for (std::int64_t i = 0; i < samples; ++i) labels.push_back(static_cast<std::int32_t>(i % 3));
    backend::Scalars scalars;
    scalars.learning_rate = 0.01f;
    scalars.update = ++update;
    scalars.loss_scale = 1.0 / static_cast<double>(samples);
    losses.push_back(engine.step({samples, images.data(), false, labels.data()}, scalars).loss);
  }
  return losses;
}

std::unique_ptr<Engine> plan(const config::Config& config, const std::string& plugin) {
  return make(config, open_backends(config, {.cuda_plugin = plugin, .planned_gpu = "h100"}));
}

}  // namespace

TEST_CASE("train.recompute: blocks gives the same bits with less memory") {
  for (const std::int64_t replicas : {1, 2}) {
    const auto kept = make(build_config("none", replicas));
    const auto again = make(build_config("blocks", replicas));
    CHECK(train(*again, 8 * replicas) == train(*kept, 8 * replicas));
    CHECK(again->replica().parameters_sha256() == kept->replica().parameters_sha256());
    if (test::uses_reference_backend()) continue;  // it keeps all values of a graph
    CHECK(again->memory().activations < kept->memory().activations);
  }
}

TEST_CASE("open_backends reports why a GPU cannot be planned for without the CUDA backend") {
  CHECK_THROWS_WITH_AS(plan(build_config("none"), "/nowhere/libtrainer_cuda.so"),
                       doctest::Contains("the CUDA backend /nowhere/libtrainer_cuda.so cannot be"),
                       DeviceError);
}

TEST_CASE("GPU memory: a planned GPU has the report of a GPU in use") {
  if (!test::uses_gpus()) TRAINER_SKIP("the CUDA backend is not the one that tests run on");
  const char* plugin = std::getenv("TRAINER_CUDA_PLUGIN");
  REQUIRE(plugin != nullptr);
  for (const std::int64_t replicas : {1, 2}) {
    CAPTURE(replicas);
    const config::Config config = build_config("none", replicas);
    const auto real = make(config);
    train(*real, 8 * replicas);
    const backend::MemoryReport expected = real->memory();
    const auto planned = plan(config, plugin);
    const backend::MemoryReport memory = planned->memory();
    CHECK(planned->describe().find("planned for NVIDIA H100 80GB HBM3") != std::string::npos);
    CHECK(memory.variables == expected.variables);
    CHECK(memory.slots == expected.slots);
    CHECK(memory.gradients == expected.gradients);
    CHECK(memory.derived == expected.derived);
    // Several ranks copy a call's inputs and outputs to fixed places at the first captured step.
    CHECK(memory.staging <= expected.staging);
    if (replicas == 1) CHECK(memory.staging == expected.staging);
    // A product may take more than one here does.
    CHECK(memory.activations >= expected.activations);
    CHECK(memory.activations <= expected.activations + replicas * (std::int64_t{32} << 20));
    const auto steps = planned->replica().training_instructions();
    CHECK(std::any_of(steps.begin(), steps.end(), [](const backend::InstructionInfo& step) {
      return step.implementation.find("conv cudnn engine") != std::string::npos &&
             step.workspace > 0;
    }));
  }
}

TEST_CASE("GPU memory: backbones with every kind of layer can be planned for a GPU") {
  if (!test::uses_gpus()) TRAINER_SKIP("the CUDA backend is not the one that tests run on");
  const char* plugin = std::getenv("TRAINER_CUDA_PLUGIN");
  REQUIRE(plugin != nullptr);
  for (const char* name : {"efficientnet_b0", "mobilenet_v3_small", "convnext_tiny"}) {
    CAPTURE(name);
    const config::Config config = test::build_config(
        concat("{backbone: {name: ", name, "}, head: [global_average_pool, dense: 3]}"));
    const graph::Graph model =
        model::build_model(config.model, config.data, test::sample({64, 64, 3}, 3), 1);
    Engine engine(model, config,
                  open_backends(config, {.cuda_plugin = plugin, .planned_gpu = "h100"}),
                  Use::kTrain);
    CHECK(engine.memory().activations > 0);
    CHECK(engine.replica().training_instructions().size() > 200);
  }
}

TEST_CASE("GPU memory: batch_size: auto keeps the tensors of VGG16 below 2^31 elements") {
  if (!test::uses_fake_gpus()) TRAINER_SKIP("plans for a GPU by the model of cuDNN");
  const backend::Platform h200{.cuda_plugin = std::getenv("TRAINER_CUDA_PLUGIN"),
                               .planned_gpu = "h200"};
  config::Config config =
      test::build_config("{backbone: {name: vgg16}, head: [global_average_pool, dense: 3]}");
  config.train.precision = config::Precision::kBFloat16;
  config.train.batch_size = config::BatchSize::automatic();
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({224, 224, 3}, 3), 1);
  const Notice notice = train::resolve_batch_size(config, h200, model, 100000);
  CHECK(config.train.batch_size == 664);  // 668 rounded down to a multiple of 8
  CHECK(notice.text.find("which are 668 samples; TRAINER_CUDA_LARGE_TENSORS=1") !=
        std::string::npos);
  config.train.batch_size = 1024;
  CHECK_THROWS_WITH_AS(Engine(model, config, open_backends(config, h200), Use::kTrain),
                       doctest::Contains("TRAINER_CUDA_LARGE_TENSORS=1 lifts this limit. "
                                         "train.batch_size: 1024 is too large. The largest "
                                         "batch_size that fits is 664"),
                       backend::DoesNotFit);
}

TEST_CASE("largest_batch is exact while small, then a multiple of 8, and at most the limit") {
  const auto linear = [](std::int64_t samples) { return 100 + 10 * samples; };
  const auto most = [&](std::int64_t limit, std::int64_t bound) {
    const BatchFit fit = largest_batch(limit, bound, linear);
    if (fit.samples > 0) CHECK(fit.bytes == linear(fit.samples));
    return fit.samples;
  };
  CHECK(most(1024, 109) == 0);
  CHECK(most(1024, 110) == 1);
  CHECK(most(1024, 239) == 13);
  CHECK(most(1024, 260) == 16);
  CHECK(most(1024, 339) == 16);
  CHECK(most(1024, 340) == 24);
  CHECK(most(1024, 100 + 10 * 807) == 800);
  CHECK(most(1024, 1 << 30) == 1024);
  CHECK(most(1000, 1 << 30) == 1000);
  CHECK(most(20, 100 + 10 * 19) == 16);
  CHECK(most(7, 1 << 30) == 7);
  CHECK(most(0, 1 << 30) == 0);
}

TEST_CASE(
    "host_memory_warning names the largest batch that fits for one beyond the available memory") {
  config::Config config = build_config("none");
  config.parallel.device = DeviceKind::kCpu;
  config.train.batch_size = 48;
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({16, 16, 2}, 3), 1);
  const auto plan = [&] { return open_backends(config, {}); };
  const backend::MemoryReport planned = planned_memory(model, config, 48, plan);
  const std::int64_t needed = planned.total() + 4 * 48 * 512;  // the loader's batches
  CHECK(train::host_bytes_per_replica(model, config, {}, 48) == needed);
  CHECK(train::host_memory_warning(model, config, {}, planned, needed).text.empty());
  CHECK(train::host_memory_warning(model, config, {}, planned, 0).text.empty());

  // The advice holds: the batch that the warning names fits, and the next larger one does not.
  const std::int64_t available = train::host_bytes_per_replica(model, config, {}, 24);
  const Notice warning = train::host_memory_warning(model, config, {}, planned, available);
  CHECK(warning.kind == Notice::Kind::kWarning);
  CHECK(warning.text.starts_with("train.batch_size: 48 needs "));
  CHECK(warning.text.ends_with("The largest batch_size that fits is 24"));
  CHECK(train::host_bytes_per_replica(model, config, {}, 25) > available);

  CHECK(train::host_memory_warning(model, config, {}, planned, 1)
            .text.ends_with("Not even one sample fits: use a smaller model or images"));
}

TEST_CASE("batch_size: auto on the CPU is the largest batch within the memory limit") {
  config::Config config = build_config("none");
  config.parallel.device = DeviceKind::kCpu;
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({16, 16, 2}, 3), 1);
  config.train.batch_size = 48;
  CHECK(train::resolve_batch_size(config, {}, model, 10000).text.empty());
  CHECK(config.train.batch_size == 48);
  const auto bytes = [&](std::int64_t samples) {
    return planned_memory(model, config, samples, [&] { return open_backends(config, {}); })
               .total() +
           4 * samples * 512;
  };
  const std::int64_t bound = bytes(48) + (1 << 18);
  config.train.memory_mb = static_cast<double>(bound) / (1 << 20);
  config.train.batch_size = config::BatchSize::automatic();
  CHECK_THROWS_AS((void)static_cast<std::int64_t>(config.train.batch_size), ConfigError);
  const Notice notice = train::resolve_batch_size(config, {}, model, 10000);
  const std::string& line = notice.text;
  const std::int64_t found = config.train.batch_size;
  CHECK(notice.kind == Notice::Kind::kNote);
  CHECK(line.find(concat("train.batch_size: auto takes ", found, ": ")) == 0);
  CHECK(line.find("(train.memory_mb)") != std::string::npos);
  CHECK(found >= 48);
  CHECK(found % 8 == 0);
  CHECK(bytes(found) <= bound);
  CHECK(bytes(found + 8) > bound);
  // No more than there are samples; and a bound that is too small.
  config.train.batch_size = config::BatchSize::automatic();
  CHECK(train::resolve_batch_size(config, {}, model, 20).text.find("20 is the most") !=
        std::string::npos);
  CHECK(config.train.batch_size == 20);
  config.train.batch_size = config::BatchSize::automatic();
  config.train.memory_mb = 0.01;
  CHECK_THROWS_WITH_AS(train::resolve_batch_size(config, {}, model, 10000),
                       doctest::Contains("not even one sample fits 0 MiB (train.memory_mb)"),
                       ConfigError);
}

TEST_CASE("GPU memory: the report counts every allocation on the GPU") {
  if (!test::uses_fake_gpus()) TRAINER_SKIP("needs a GPU whose free memory is known to the byte");
  for (const bool ordered : {false, true}) {
    CAPTURE(ordered);
    config::Config config = build_config("none");
    if (ordered) {
      // Batch norm would take statistics over parts.
      config = test::build_config(
          "{layers: [conv: {filters: 8, activation: relu}, max_pool, flatten, dense: 3]}");
      config.train.batch_size = 8;
      config.parallel.reduction = config::Parallel::Reduction::kOrdered;
    }
    auto backends = test::open_test_backends(1);
    const backend::Backend& device = *backends.front();
    const std::int64_t before = device.free_memory();
    const auto engine = make(config, std::move(backends));
    // Each of less than a hundred allocations takes whole units of 256 bytes.
    const auto rounding = [&] { return before - device.free_memory() - engine->memory().total(); };
    CHECK(rounding() >= 0);
    CHECK(rounding() < 100 * 256);
    train(*engine, 8);
    CHECK(rounding() >= 0);
    CHECK(rounding() < 100 * 256);
  }
}

TEST_CASE("Engine: after prepare(), the first call with a short batch allocates nothing") {
  if (!test::uses_fake_gpus()) TRAINER_SKIP("needs a GPU whose free memory is known to the byte");
  for (const bool prepared : {false, true}) {
    CAPTURE(prepared);
    auto backends = test::open_test_backends(1);
    const backend::Backend& device = *backends.front();
    const auto engine = make(build_config("none"), std::move(backends));
    train(*engine, 8);  // with batches of 8 and 5
    if (prepared) engine->prepare(2, 2);
    const std::int64_t before = device.free_memory();
    train(*engine, 5);  // with batches of 5 and 2
    CHECK((device.free_memory() == before) == prepared);
  }
}

TEST_CASE("GPU memory: the error of too little has its parts and the batch size that fits") {
  if (!test::uses_fake_gpus()) TRAINER_SKIP("needs a GPU whose free memory is known to the byte");
  auto backends = test::open_test_backends(1);
  const backend::Backend& device = *backends.front();
  config::Config config = build_config("none");
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({16, 16, 2}, 3), 1);
  const std::int64_t room =
      planned_memory(model, config, 40, [&] { return plan_only(backends); }).total();
  // Another program's memory.
  const auto other = test::open_test_backends(1);
  const backend::Buffer taken =
      other.front()->allocate(static_cast<std::size_t>(device.free_memory() - room - (1 << 14)));
  config.train.batch_size = 512;
  std::string message;
  try {
    make(config, std::move(backends));
  } catch (const backend::DoesNotFit& error) {
    CHECK(error.code() == kExitDevice);
    message = error.what();
  }
  CAPTURE(message);
  for (const char* part : {"GPU 0: out of memory: ", "train.batch_size: 512 takes ",
                           "parameters and statistics ", "optimizer slots ", "gradients ",
                           "activations ", "the largest workspace ", "batches and results ",
                           "The largest batch_size that fits is 40, or take train.recompute"}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  config.train.batch_size = 40;
  CHECK_NOTHROW(make(config, test::open_test_backends(1)));
  config.train.batch_size = 48;
  CHECK_THROWS_AS(make(config, test::open_test_backends(1)), backend::DoesNotFit);
}

}  // namespace trainer::engine
