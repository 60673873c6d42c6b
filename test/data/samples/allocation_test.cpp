// A step of the loader allocates nothing: every operator new of this program is counted.
#include <doctest/doctest.h>

#include <memory>

#include "data/open.h"
#include "data/samples/loader.h"
#include "data/samples/mix.h"
#include "support/allocations.h"

namespace trainer::data {
namespace {

using test::allocations;

// Counts those of 100 batches, over several epochs with a short last batch, after the first few.
std::int64_t count_allocations(const Dataset& dataset, std::int64_t threads, std::int64_t out) {
  LoaderOptions options;
  options.batch_size = 32;
  options.shuffle = true;
  options.threads = threads;
  options.prefetch = 2 * threads;
  options.out = out;
  const auto loader = make_loader(dataset, options);
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < 120; ++step) {
    if (step == 20) before = allocations;
    REQUIRE(loader->next() != nullptr);
    if (step + 1 >= out) loader->release();
  }
  return allocations - before;
}

}  // namespace

TEST_CASE("allocation counter: allocations are counted") {
  const std::int64_t before = allocations;
  const auto memory = std::make_unique<int[]>(3);
  CHECK(allocations == before + 1);
}

TEST_CASE(
    "loader allocates nothing in a step with or without threads and with several batches out") {
  config::Data config;
  config.format = config::DataFormat::kSynthetic;
  config.synthetic.train_samples = 200;
  config.synthetic.classes = 3;
  Datasets sets = open_datasets(config, 1);
  bool mixed = false;
  SUBCASE("samples as they are") {}
  SUBCASE("mixed samples") { mixed = true; }
  if (mixed) {
    sets.train =
        mix_samples(std::move(sets.train), {{config::MixUp{}, {}}, {config::CutMix{}, {}}}, 3, 1);
  }
  for (const std::int64_t threads : {0, 1, 3}) {
    for (const std::int64_t out : {1, 2}) {
      CAPTURE(threads);
      CAPTURE(out);
      // A thread takes memory for partners when it mixes for the first time.
      CHECK(count_allocations(*sets.train, threads, out) <= (mixed ? 2 * threads : 0));
    }
  }
}

}  // namespace trainer::data
