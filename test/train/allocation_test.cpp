// A training step allocates nothing of its own: every operator new of this program is counted, but
// for those that oneDNN calls.
#include <doctest/doctest.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "data/open.h"
#include "engine/engine.h"
#include "support/allocations.h"
#include "support/model.h"
#include "support/skip.h"
#include "train/features/feed.h"

namespace trainer::train {
namespace {

using test::allocations;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr const char* kWhySkipped = "a sanitizer has an operator new and stack frames of its own";

constexpr std::size_t kMaxRanges = 8;

// Where the code of oneDNN is in memory: [first, last) addresses.
struct ForeignCode {
  std::array<std::pair<std::uintptr_t, std::uintptr_t>, kMaxRanges> ranges;
  std::size_t count = 0;
};

int add_foreign(dl_phdr_info* info, std::size_t, void* data) {
  auto& foreign = *static_cast<ForeignCode*>(data);
  if (std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t first = info->dlpi_addr + segment.p_vaddr;
    foreign.ranges.at(foreign.count++) = {first, first + segment.p_memsz};
  }
  return 0;
}

const ForeignCode& foreign_code() {
  static const ForeignCode foreign = [] {
    ForeignCode found;
    dl_iterate_phdr(add_foreign, &found);
    return found;
  }();
  return foreign;
}

// True if oneDNN, which never calls back into trainer, is on the stack.
bool called_by_dnnl() {
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  const ForeignCode& foreign = foreign_code();
  for (int i = 0; i < depth; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    for (std::size_t k = 0; k < foreign.count; ++k) {
      if (at >= foreign.ranges[k].first && at < foreign.ranges[k].second) return true;
    }
  }
  return false;
}

class Except {
 public:
  Except() {
    called_by_dnnl();  // loads what backtrace() needs
    test::is_excepted = called_by_dnnl;
  }
  ~Except() { test::is_excepted = nullptr; }
};

constexpr const char* kModel =
    "{layers: [conv: {filters: 8, activation: relu}, batch_norm, max_pool, conv: {filters: 8}, "
    "dropout: 0.2, "
    "flatten, dense: 3]}";
constexpr const char* kOrderedModel =
    "{layers: [conv: {filters: 8, activation: relu}, max_pool, conv: {filters: 8}, flatten, dense: "
    "3]}";

config::Config build_config(std::int64_t replicas, bool ordered, config::Precision precision) {
  config::Config config = test::build_config(
      ordered ? kOrderedModel : kModel, "optimizer: {adam: {learning_rate: 0.01}, clip_norm: 1}\n");
  config.train.batch_size = 32 / replicas;
  config.train.precision = precision;
  config.parallel.replicas = replicas;
  config.parallel.threads = 2;
  if (ordered) config.parallel.reduction = config::Parallel::Reduction::kOrdered;
  config.data.format = config::DataFormat::kSynthetic;
  config.data.synthetic.train_samples = 200;
  config.data.synthetic.shape = {12, 12, 1};
  config.data.synthetic.classes = 3;
  return config;
}

constexpr std::int64_t kWarmUp = 30, kSteps = kWarmUp + 100;

// Counts those of the steps after the first kWarmUp; an epoch has seven, the last one short.
// None where the processor has no such precision.
std::int64_t count_allocations(std::int64_t replicas, bool ordered, config::Precision precision) {
  const config::Config config = build_config(replicas, ordered, precision);
  auto backends = engine::open_backends(config, {});
  const bool bf16 = precision == config::Precision::kBFloat16;
  if (bf16 && !backends.front()->supports(DType::kBFloat16)) return 0;
  const data::Datasets sets = data::open_datasets(config.data, 1);
  const graph::Graph model =
      model::build_model(config.model, config.data, test::sample({12, 12, 1}, 3), 1);
  engine::Engine engine(model, config, std::move(backends), engine::Use::kTrain);
  engine.initialise(1);
  data::LoaderOptions options;
  options.batch_size = 32;
  options.shuffle = true;
  options.threads = 1;
  options.prefetch = 2;
  options.end_step = kSteps;
  Feed feed(*sets.train, nullptr, engine, options);
  backend::Scalars scalars;
  scalars.learning_rate = 0.01f;
  const Except except;
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    if (step == kWarmUp) before = allocations;
    const data::Batch& batch = feed.next();
    scalars.update = static_cast<std::uint64_t>(step) + 1;
    scalars.loss_scale = 1.0 / static_cast<double>(batch.range.count);
    scalars.all_samples = batch.range.count;
    REQUIRE(engine.step(feed.host_batch(batch), scalars).finite);
    feed.release();
  }
  return allocations - before;
}

}  // namespace

TEST_CASE("allocation counter: allocations of trainer are counted, those of oneDNN are not") {
  if (kSanitized) TRAINER_SKIP(kWhySkipped);
  REQUIRE(foreign_code().count >= 1);
  const Except except;
  const std::int64_t before = allocations;
  const auto memory = std::make_unique<std::vector<int>>(3);
  CHECK(allocations == before + 2);
}

TEST_CASE("Engine::step: one and two replicas allocate nothing") {
  if (kSanitized) TRAINER_SKIP(kWhySkipped);
  for (const std::int64_t replicas : {1, 2}) {
    for (const bool ordered : {false, true}) {
      CAPTURE(replicas);
      for (const auto precision : {config::Precision::kFloat32, config::Precision::kBFloat16}) {
        CAPTURE(ordered);
        CAPTURE(static_cast<int>(precision));
        CHECK(count_allocations(replicas, ordered, precision) == 0);
      }
    }
  }
}

}  // namespace trainer::train
