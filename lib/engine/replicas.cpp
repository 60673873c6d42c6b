#include "engine/replicas.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/cores.h"
#include "base/error.h"
#include "base/partition.h"
#include "cluster/local_group.h"

namespace trainer::engine {
namespace {

using config::Parallel;

constexpr backend::FlatBuffer kStatistics{backend::FlatBuffer::Kind::kStatistics};

// Ordered sums need lanes in a power of two, and as many pieces of the batch as all lanes together.
std::int64_t lanes_of(const Parallel& parallel, std::int64_t threads, std::int64_t workers) {
  if (parallel.lanes) return *parallel.lanes;
  if (parallel.reduction != Parallel::Reduction::kOrdered) return 0;
  const auto most = std::min(threads, parallel.micro_batches / (parallel.replicas * workers));
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

// FNV-1a over the bits.
std::int64_t checksum(std::span<const float> values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3u;
  }
  return static_cast<std::int64_t>(hash);
}

// The cores of a replica's lanes; none when they shall not be pinned, or when replicas share cores.
std::vector<int> cores_of(const Parallel& parallel, std::int64_t replica, std::int64_t threads) {
  const std::vector<int> cores = available_cores();
  const auto size = static_cast<std::int64_t>(cores.size());
  if (!parallel.pin || parallel.replicas == 1 || parallel.replicas * threads > size) return {};
  const auto first = cores.begin() + replica * threads;
  return {first, first + threads};
}

std::int64_t threads_of(const Parallel& parallel) {
  const auto cores = static_cast<std::int64_t>(available_cores().size());
  return std::max<std::int64_t>(1, parallel.threads.value_or(cores) / parallel.replicas);
}

// The core of each replica's first lane; none when they are not pinned.
std::vector<int> pinned_cores(const Parallel& parallel) {
  std::vector<int> firsts;
  for (std::int64_t replica = 0; replica < parallel.replicas; ++replica) {
    const std::vector<int> cores = cores_of(parallel, replica, threads_of(parallel));
    if (cores.empty()) return {};
    firsts.push_back(cores.front());
  }
  return firsts;
}

// What a batch's samples of one replica are in memory.
const void* at_sample(const void* samples, std::int64_t first, std::int64_t bytes) {
  return samples == nullptr ? nullptr : static_cast<const char*>(samples) + first * bytes;
}

}  // namespace

std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             std::int64_t workers) {
  const Parallel& parallel = config.parallel;
  if (parallel.device == Parallel::Device::kCuda) {
    throw DeviceError("parallel.device: this build has no CUDA backend; use device: cpu or auto");
  }
  const std::int64_t threads = threads_of(parallel);
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (std::int64_t replica = 0; replica < parallel.replicas; ++replica) {
    backend::CpuOptions options;
    options.lanes = static_cast<int>(lanes_of(parallel, threads, workers));
    const bool ordered = parallel.reduction == Parallel::Reduction::kOrdered;
    options.threads = ordered ? options.lanes : static_cast<int>(threads);
    options.cores = cores_of(parallel, replica, threads);
    backends.push_back(backend::open_cpu_backend(options));
  }
  return backends;
}

std::string core_warning(const Parallel& parallel) {
  const auto cores = static_cast<std::int64_t>(available_cores().size());
  std::string asked;
  if (parallel.threads.value_or(0) > cores) asked = concat("parallel.threads: ", *parallel.threads);
  if (parallel.lanes.value_or(0) * parallel.replicas > cores) {
    asked += concat(asked.empty() ? "" : ", ", "parallel.lanes: ", *parallel.lanes);
    if (parallel.replicas > 1) asked += concat(" in each of ", parallel.replicas, " replicas");
  }
  if (asked.empty()) return "";
  return concat(asked, ", but this process may use ", cores, cores == 1 ? " core" : " cores",
                ": more threads than cores slow each other down; leave it out to use all");
}

bool uses_batch_statistics(const graph::Graph& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const graph::LayerInfo& layer) {
    return layer.kind == "BatchNormalization" && layer.trainable && !layer.moving_statistics;
  });
}

Replicas::Replicas(const graph::Graph& model, const config::Config& config,
                   std::vector<std::unique_ptr<backend::Backend>> backends, Engine::Use use,
                   cluster::Communicator* workers)
    : workers_(workers),
      evaluates_alone_(!config.parallel.evaluate),
      backends_(std::move(backends)),
      pinned_(pinned_cores(config.parallel)),
      team_(static_cast<int>(backends_.size()), [this](int replica) {
        if (!pinned_.empty()) pin_thread(pinned_[static_cast<std::size_t>(replica)]);
      }) {
  const auto replicas = static_cast<int>(backends_.size());
  const bool alone = replicas == 1 && workers == nullptr;
  if (!alone) group_ = cluster::make_local_group(replicas, workers);
  engines_.resize(backends_.size());
  statistics_.resize(backends_.size());
  const auto open = [&](int replica) {
    const auto r = static_cast<std::size_t>(replica);
    EngineGroup group;
    if (!alone) group = group_of(replica, config.parallel.batch_norm.sync);
    engines_[r] = std::make_unique<Engine>(model, config, *backends_[r], use, group);
  };
  team_.run(open, [this](int replica) {
    if (!group_.empty()) group_[static_cast<std::size_t>(replica)]->abort(handled_message());
  });
  const auto most = static_cast<std::size_t>(std::max(batch(), evaluation_batch()));
  logits_.resize(most * static_cast<std::size_t>(outputs()));
  losses_.resize(most);
}

Replicas::~Replicas() = default;

EngineGroup Replicas::group_of(int replica, bool sync) {
  const auto r = static_cast<std::size_t>(replica);
  EngineGroup group;
  group.gradients = group_[r].get();
  group.remote = workers_ != nullptr;
  if (sync) statistics_[r] = group_[r]->duplicate();
  group.statistics = statistics_[r].get();
  return group;
}

template <class Work>
void Replicas::run(const Work& work) {
  // The caller's thread is replica 0's for as long as this takes.
  std::optional<Pinned> pinned;
  if (!pinned_.empty()) pinned.emplace(pinned_.front());
  team_.run(work, [this](int replica) {
    const auto r = static_cast<std::size_t>(replica);
    const std::string reason = handled_message();
    if (!group_.empty()) group_[r]->abort(reason);
    if (statistics_[r]) statistics_[r]->abort(reason);
  });
}

std::string Replicas::describe() const {
  const std::string one = backends_.front()->describe();
  return count() == 1 ? one : concat(count(), " replicas, each ", one);
}

void Replicas::initialise(std::uint64_t seed) {
  run([&](int replica) { engine(replica).initialise(seed); });
}

void Replicas::write(const std::vector<checkpoint::Tensor>& tensors) {
  for (const auto& engine : engines_) engine->write(tensors);
}

void Replicas::load(const checkpoint::TensorFile& file, const std::string& path) {
  for (const auto& engine : engines_) engine->load(file, path);
}

void Replicas::change_frozen(const graph::Graph& model) {
  run([&](int replica) { engine(replica).change_frozen(model); });
}

const void* Replicas::input_of(std::int64_t samples, const void* images, std::int64_t all_samples) {
  if (prefix() == nullptr) return images;
  const std::int64_t all = all_samples > 0 ? all_samples : samples;
  if (count() == 1) return engines_.front()->input_of(samples, images, all);
  input_.resize(static_cast<std::size_t>(samples * engines_.front()->input_bytes()));
  run([&](int replica) {
    const Partition part = partition(samples, count(), replica);
    Engine& own = engine(replica);
    const void* features =
        own.input_of(part.count, at_sample(images, part.first, own.image_bytes()), all);
    const std::int64_t bytes = own.input_bytes();
    std::memcpy(input_.data() + part.first * bytes, features,
                static_cast<std::size_t>(part.count * bytes));
  });
  return input_.data();
}

const void* Replicas::evaluation_input_of(std::int64_t samples, const void* images,
                                          std::int64_t all_samples) {
  return evaluates_alone_ ? engines_.front()->evaluation_input_of(samples, images, samples)
                          : input_of(samples, images, all_samples);
}

bool Replicas::step_on(std::int64_t samples, const void* input, const void* labels,
                       const backend::Scalars& scalars) {
  std::vector<char> finite(engines_.size());
  run([&](int replica) {
    const Partition part = partition(samples, count(), replica);
    Engine& own = engine(replica);
    backend::Scalars mine = scalars;
    mine.first_sample += static_cast<std::uint64_t>(part.first);
    if (mine.all_samples == 0) mine.all_samples = samples;
    finite[static_cast<std::size_t>(replica)] =
        own.step_on(part.count, at_sample(input, part.first, own.input_bytes()),
                    at_sample(labels, part.first, own.target_bytes()), mine);
  });
  gather(samples, count());
  penalty_.reset();
  for (std::int64_t r = count(); r-- > 0;) {
    if (partition(samples, count(), r).count > 0) penalty_ = engine(r).penalty();
  }
  // Other workers know only with the update.
  if (workers_ != nullptr && !scalars.apply) return true;
  return std::all_of(finite.begin(), finite.end(), [](char one) { return one != 0; });
}

void Replicas::evaluate_on(std::int64_t samples, const void* input, const void* labels,
                           std::int64_t all_samples) {
  run([&](int replica) {
    if (replica >= evaluators()) return;
    const Partition part = partition(samples, evaluators(), replica);
    Engine& own = engine(replica);
    own.evaluate_on(part.count, at_sample(input, part.first, own.input_bytes()),
                    at_sample(labels, part.first, own.label_bytes()),
                    all_samples > 0 ? all_samples : samples);
  });
  gather(samples, evaluators());
}

Replicas::Statistics Replicas::statistics() {
  Statistics all;
  for (const auto& engine : engines_) {
    const backend::Variables& kept = engine->kept();
    all.emplace_back(static_cast<std::size_t>(kept.flat().statistics));
    kept.read_flat(kStatistics, 0, all.back());
  }
  return all;
}

void Replicas::restore(const Statistics& statistics) {
  for (std::size_t r = 0; r < engines_.size(); ++r) {
    engines_[r]->kept().write_flat(kStatistics, 0, statistics[r]);
  }
}

void Replicas::gather(std::int64_t samples, std::int64_t replicas) {
  const auto width = static_cast<std::size_t>(outputs());
  for (std::int64_t r = 0; r < replicas; ++r) {
    const Partition part = partition(samples, replicas, r);
    const auto first = static_cast<std::size_t>(part.first);
    const auto size = static_cast<std::size_t>(part.count);
    std::copy_n(engine(r).logits().begin(), size * width, logits_.begin() + first * width);
    std::copy_n(engine(r).losses().begin(), size, losses_.begin() + first);
  }
}

backend::MemoryReport Replicas::memory() const {
  backend::MemoryReport all;
  for (const auto& engine : engines_) {
    const backend::MemoryReport one = engine->memory();
    all.variables += one.variables;
    all.gradients += one.gradients;
    all.activations += one.activations;
    all.derived += one.derived;
  }
  return all;
}

std::string Replicas::find_not_finite(std::int64_t samples, const void* input, const void* labels,
                                      const backend::Scalars& scalars) {
  for (std::int64_t r = 0; r < count(); ++r) {
    const Partition part = partition(samples, count(), r);
    if (part.count == 0) continue;
    Engine& own = engine(r);
    const std::string where =
        own.find_not_finite(part.count, at_sample(input, part.first, own.input_bytes()),
                            at_sample(labels, part.first, own.target_bytes()), scalars);
    if (!where.empty()) return where;
  }
  return "";
}

void Replicas::check_equal() {
  if (group_.empty()) return;
  std::string different;
  run([&](int replica) {
    // The same order of tensors everywhere: the graph's.
    std::vector<std::int64_t> sums;
    const std::vector<checkpoint::Tensor> tensors = engine(replica).tensors();
    for (const checkpoint::Tensor& tensor : tensors) sums.push_back(checksum(tensor.values));
    cluster::Communicator& group = *group_[static_cast<std::size_t>(replica)];
    std::vector<std::int64_t> all(sums.size() * static_cast<std::size_t>(group.size()));
    group.all_gather(std::as_bytes(std::span(sums)), std::as_writable_bytes(std::span(all)));
    if (replica > 0) return;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t rank = 1; rank < static_cast<std::size_t>(group.size()); ++rank) {
        if (all[rank * sums.size() + i] == all[i]) continue;
        different += concat("\n  ", tensors[i].name, " on rank ", rank);
      }
    }
  });
  if (different.empty()) return;
  throw CheckError("variables are not those of rank 0:" + different +
                   "\nThe replicas no longer train the same model. Go on from the last checkpoint "
                   "with --resume.");
}

}  // namespace trainer::engine
