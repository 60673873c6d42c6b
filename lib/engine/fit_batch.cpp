#include "engine/fit_batch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "engine/engine.h"

namespace trainer::engine {
namespace {

constexpr std::int64_t kFirst = 16;         // the first size that is tried
constexpr std::int64_t kBatchMultiple = 8;  // sizes above kFirst are multiples of it

std::string mebibytes(std::int64_t bytes) { return concat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

// Returns the number of replicas on the GPU that has most of them.
std::int64_t sharers(const config::Config& config) {
  const std::vector<std::int64_t>& gpus = config.parallel.gpus.indices;
  std::int64_t largest = 1;
  for (const std::int64_t gpu : gpus) {
    largest = std::max<std::int64_t>(largest, std::ranges::count(gpus, gpu));
  }
  return largest;
}

}  // namespace

BatchFit largest_batch(std::int64_t max_samples, std::int64_t bound,
                       const std::function<std::int64_t(std::int64_t)>& bytes) {
  BatchFit best;
  const auto fits = [&](std::int64_t samples) {
    try {
      const std::int64_t needed = bytes(samples);
      if (needed > bound) return false;
      if (samples > best.samples) best = {samples, needed, best.misfit};
      return true;
    } catch (const backend::DoesNotFit& error) {
      best.misfit = error.what();
      return false;
    }
  };
  if (max_samples < 1) return best;
  std::int64_t low = 0, high = std::min(kFirst, max_samples);  // low fits or is 0
  while (fits(high)) {
    low = high;
    if (high == max_samples) return best;
    high = std::min(2 * high, max_samples);
  }
  // `low` fits and `high` does not.
  for (;;) {
    const std::int64_t multiple = low >= kFirst ? kBatchMultiple : 1;
    const std::int64_t middle = (low + high) / 2 / multiple * multiple;
    if (middle <= low || middle >= high) return best;
    (fits(middle) ? low : high) = middle;
  }
}

backend::MemoryReport planned_memory(
    const graph::Graph& model, config::Config config, std::int64_t samples,
    const std::function<std::vector<std::unique_ptr<backend::Backend>>()>& plan) {
  config.train.batch_size = samples;
  const Engine engine(model, config, plan(), Use::kTrain, nullptr, Misfit::kReport);
  backend::MemoryReport one = engine.memory();
  const std::int64_t count = engine.count();
  for (std::int64_t* part : {&one.variables, &one.gradients, &one.activations, &one.derived,
                             &one.staging, &one.tables, &one.slots}) {
    *part /= count;
  }
  return one;
}

std::vector<std::unique_ptr<backend::Backend>> plan_only(
    const std::vector<std::unique_ptr<backend::Backend>>& backends) {
  std::vector<std::unique_ptr<backend::Backend>> planned;
  for (const auto& backend : backends) planned.push_back(backend->plan_only());
  return planned;
}

std::int64_t free_memory(const config::Config& config,
                         const std::vector<std::unique_ptr<backend::Backend>>& backends) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& backend : backends) least = std::min(least, backend->free_memory());
  return least / sharers(config);
}

// The second call of a kind is captured as a graph, which takes memory too. Batches of other sizes
// may run other kernels of the libraries.
std::int64_t free_memory_in_training(const graph::Graph& model, config::Config config,
                                     const backend::Platform& platform) {
  config.train.batch_size = 1;
  config.evaluate.batch_size = 1;
  config.parallel.autotune = false;
  std::vector<std::unique_ptr<backend::Backend>> opened = open_backends(config, platform);
  if (free_memory(config, opened) == 0) return 0;
  Engine engine(model, config, std::move(opened), Use::kTrain);
  const Replica& replica = engine.replica();
  const std::vector<std::byte> images(engine.batch() * replica.image_bytes()),
      labels(engine.batch() * std::max(replica.label_bytes(), replica.target_bytes()));
  for (int call = 0; call < 2; ++call) {
    engine.step({engine.batch(), images.data(), false, labels.data()}, {});
    engine.evaluate({engine.evaluation_batch(), images.data(), false, labels.data()});
  }
  return free_memory(config, engine.backends()) + engine.memory().total() / engine.count();
}

std::string describe(const backend::MemoryReport& memory) {
  std::string text;
  const auto add = [&](const char* what, std::int64_t bytes) {
    if (bytes > 0) text += concat(text.empty() ? "" : ", ", what, ' ', mebibytes(bytes));
  };
  add("parameters and statistics", memory.variables - memory.slots);
  add("optimizer slots", memory.slots);
  add("gradients", memory.gradients);
  add("activations", memory.activations);
  if (memory.workspace > 0) {
    text += concat(" (the largest workspace ", mebibytes(memory.workspace), ')');
  }
  add("reordered weights", memory.derived);
  add("batches and results", memory.staging);
  add("tables", memory.tables);
  return text;
}

std::string explain_misfit(const graph::Graph& model, const config::Config& config,
                           const std::vector<std::unique_ptr<backend::Backend>>& backends,
                           const std::string& reason) {
  const std::int64_t free = free_memory(config, backends);
  const auto plan = [&] { return plan_only(backends); };
  const std::int64_t batch = config.train.batch_size;
  std::string size, advice;
  try {
    const backend::MemoryReport needed = planned_memory(model, config, batch, plan);
    size = concat(" takes ", mebibytes(needed.total()), " per replica: ", describe(needed), "; ",
                  mebibytes(free), " are free");
    if (config.train.recompute == config::Recompute::kNone) {
      advice = ", or take train.recompute: blocks";
    }
  } catch (const backend::DoesNotFit&) {
    size = " is too large";
  }
  const BatchFit fit = largest_batch(batch - 1, free, [&](std::int64_t samples) {
    return planned_memory(model, config, samples, plan).total();
  });
  return concat(reason, ". train.batch_size: ", batch, size, ". ",
                fit.samples > 0
                    ? concat("The largest batch_size that fits is ", fit.samples, advice)
                    : concat("Not even one sample fits: use a smaller model or images", advice));
}

}  // namespace trainer::engine
