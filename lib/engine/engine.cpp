#include "engine/engine.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/numbers/sum_tree.h"
#include "cluster/local_group.h"
#include "cluster/open_communicator.h"
#include "config/rule.h"
#include "engine/fit_batch.h"

namespace trainer::engine {
namespace {

using config::Parallel;

constexpr backend::FlatBuffer kStatistics{backend::FlatBuffer::Kind::kStatistics};

// Returns the FNV-1a hash of the bits.
std::int64_t checksum(std::span<const float> values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3u;
  }
  return static_cast<std::int64_t>(hash);
}

// Returns the address of sample `first` of a batch in host memory.
const void* at_sample(const void* samples, std::int64_t first, std::int64_t bytes) {
  return samples == nullptr ? nullptr : static_cast<const char*>(samples) + first * bytes;
}

bool share_gpu(const Parallel& parallel) {
  std::vector<std::int64_t> gpus = parallel.gpus.indices;
  std::ranges::sort(gpus);
  return parallel.gpus.kind == config::Gpus::Kind::kIndices &&
         std::ranges::adjacent_find(gpus) != gpus.end();
}

// Throws DeviceError if parallel.collective does not fit the devices of the replicas.
void check_collective(const Parallel& parallel, const backend::Platform& platform,
                      std::int64_t workers) {
  using config::Collective;
  if (parallel.collective == Collective::kAuto) return;
  const bool nccl = parallel.collective == Collective::kNccl;
  if (!uses_gpus(parallel, platform)) {
    if (!nccl) return;
    throw DeviceError(
        "parallel.collective: nccl sums on GPUs, and this run is on the CPU; use auto or ring");
  }
  if (nccl || parallel.replicas * workers == 1) return;
  throw DeviceError(
      "parallel.collective: ring is for sums on CPUs. GPUs sum by NCCL, which chooses its "
      "algorithm "
      "itself and takes no other choice than NCCL_ALGO in the environment of every process: use "
      "auto or nccl, and to try it NCCL_ALGO=allreduce:ring");
}

}  // namespace

backend::DeviceOptions device_options(const Parallel& parallel, const backend::Platform& platform,
                                      std::int64_t workers) {
  backend::DeviceOptions options;
  options.platform = platform;
  options.kind = parallel.device;
  // `gpus: 0` means the CPU. For a number and for all, the first GPUs have a replica each.
  using Gpus = config::Gpus;
  const bool no_gpu = parallel.gpus.kind == Gpus::Kind::kCount && parallel.gpus.count == 0;
  if (no_gpu && options.kind == DeviceKind::kAuto) {
    options.kind = DeviceKind::kCpu;
  }
  if (parallel.gpus.kind == Gpus::Kind::kIndices) {
    options.gpus.assign(parallel.gpus.indices.begin(), parallel.gpus.indices.end());
  }
  options.replicas = parallel.replicas;
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(parallel.timeout.count));
  if (parallel.gpus.kind == Gpus::Kind::kCount && !no_gpu) options.gpu_count = parallel.gpus.count;
  options.cpu = {parallel.threads, parallel.lanes, parallel.pin};
  options.cuda.autotune = parallel.autotune;
  options.ordered = parallel.reduction == Parallel::Reduction::kOrdered;
  options.micro_batches = parallel.micro_batches;
  options.processes = workers;
  return options;
}

bool uses_gpus(const Parallel& parallel, const backend::Platform& platform) {
  const DeviceKind kind = device_options(parallel, platform).kind;
  return kind == DeviceKind::kCuda ||
         (kind == DeviceKind::kAuto && !backend::list_gpus(platform).gpus.empty());
}

bool uses_nccl(const Parallel& parallel, const backend::Platform& platform, std::int64_t workers) {
  return parallel.replicas * workers > 1 && !share_gpu(parallel) && uses_gpus(parallel, platform);
}

std::string describe_sums(const Parallel& parallel, const backend::Platform& platform,
                          std::int64_t workers) {
  if (parallel.replicas * workers == 1) return "";
  if (uses_gpus(parallel, platform)) {
    if (!uses_nccl(parallel, platform, workers)) {
      return "by kernels of the GPU that replicas share";
    }
    return "by NCCL, which chooses ring, tree or another algorithm for each size by the "
           "connections";
  }
  if (workers == 1) return "in memory";
  return concat("in the order of a ", spell(cluster::choose_algorithm(parallel, workers)));
}

std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             const backend::Platform& platform,
                                                             std::int64_t workers,
                                                             const LocalPlace& place) {
  check_collective(config.parallel, platform, workers);
  backend::DeviceOptions options = device_options(config.parallel, platform, workers);
  options.local_rank = place.rank;
  options.local_size = place.size;
  options.cuda.agree = place.agree;
  return backend::open_backends(options);
}

bool uses_batch_statistics(const graph::Graph& model) {
  return std::ranges::any_of(model.layers, [](const graph::LayerInfo& layer) {
    return layer.kind == "BatchNormalization" && layer.trainable && !layer.moving_statistics;
  });
}

Engine::Engine(const graph::Graph& model, const config::Config& config,
               std::vector<std::unique_ptr<backend::Backend>> backends, Use use,
               cluster::Communicator* workers, Misfit misfit)
    : workers_(workers),
      evaluates_alone_(!config.parallel.evaluate),
      backends_(std::move(backends)),
      team_(static_cast<int>(backends_.size()), [this](int index) {
        // The thread undoes this itself when it ends, which is before the backends are destroyed.
        thread_local std::unique_ptr<backend::ThreadBinding> binding;
        binding = backends_[index]->bind_thread();
      }) {
  const auto replicas = static_cast<int>(backends_.size());
  const bool alone = replicas == 1 && workers == nullptr;
  if (!alone) group_ = cluster::make_local_group(replicas, workers);
  replicas_.resize(backends_.size());
  times_.resize(backends_.size());
  statistics_.resize(backends_.size());
  const auto open = [&](int index) {
    ReplicaGroup group;
    if (!alone) group = make_group(index, config.parallel.batch_norm.sync);
    replicas_[index] = std::make_unique<Replica>(model, config, *backends_[index], use, group);
  };
  try {
    team_.run(open, [this](int index) {
      if (!group_.empty()) group_[index]->abort(handled_message());
    });
  } catch (const backend::DoesNotFit& error) {
    if (use != Use::kTrain || misfit == Misfit::kReport) throw;
    close_replicas();  // frees their memory, so that the message can name the batch that fits
    throw backend::DoesNotFit(explain_misfit(model, config, backends_, error.what()));
  }
  launched_.resize(std::max(1, replica().launches_in_flight()));
  const std::int64_t processes = evaluates_alone_ || workers == nullptr ? 1 : workers->size();
  const std::size_t evaluated =
      max_rank_samples(evaluation_batch() * processes, replica().leaves(), processes);
  logits_.resize(evaluated * static_cast<std::size_t>(replica().outputs()));
  evaluated_losses_.resize(evaluated);
}

Engine::~Engine() { close_replicas(); }

void Engine::close_replicas() noexcept {
  for (const auto& replica : replicas_) {
    if (replica) replica->release_programs();
  }
  replicas_.clear();
}

ReplicaGroup Engine::make_group(int index, bool sync) {
  ReplicaGroup group;
  group.gradients = group_[index].get();
  group.remote = workers_ != nullptr;
  if (sync) statistics_[index] = group_[index]->duplicate();
  group.statistics = statistics_[index].get();
  return group;
}

template <class Work>
void Engine::run(const Work& work) {
  // The calling thread is that of replica 0 until this returns.
  const auto binding = backends_.front()->bind_thread();
  // The work is passed by reference, because a std::function that copies it would allocate.
  team_.run(std::ref(work), [this](int index) {
    const std::string reason = handled_message();
    replicas_[index]->abort(reason);
    if (!group_.empty()) group_[index]->abort(reason);
    if (statistics_[index]) statistics_[index]->abort(reason);
  });
}

std::string Engine::describe() const {
  const std::string one = backends_.front()->describe();
  return count() == 1 ? one : concat(count(), " replicas, each ", one);
}

std::vector<std::unique_ptr<backend::Telemetry>> Engine::make_telemetry() {
  std::vector<std::unique_ptr<backend::Telemetry>> all;
  for (const auto& backend : backends_) {
    std::unique_ptr<backend::Telemetry> one = backend->make_telemetry();
    const bool known = one == nullptr || std::ranges::any_of(all, [&](const auto& other) {
                         return other->device() == one->device();
                       });
    if (!known) all.push_back(std::move(one));
  }
  return all;
}

void Engine::initialise(std::uint64_t seed) {
  run([&](int index) { replica(index).initialise(seed); });
}

void Engine::write(const std::vector<checkpoint::Tensor>& tensors) {
  for (const auto& replica : replicas_) replica->write(tensors);
}

void Engine::load(const checkpoint::TensorFile& file, const std::string& path) {
  for (const auto& replica : replicas_) replica->load(file, path);
}

void Engine::change_frozen(const graph::Graph& model) {
  run([&](int index) { replica(index).change_frozen(model); });
}

Partition Engine::replica_samples(std::int64_t samples, std::int64_t all_samples,
                                  std::int64_t index) const {
  const std::int64_t leaves = replica().leaves();
  if (leaves == 0) return partition(samples, count(), index);
  const std::int64_t processes = workers_ == nullptr ? 1 : workers_->size();
  const std::int64_t process = workers_ == nullptr ? 0 : workers_->rank();
  Partition part =
      rank_samples(all_samples, leaves, processes * count(), process * count() + index);
  part.first -= rank_samples(all_samples, leaves, processes, process).first;
  return part;
}

HostBatch Engine::select_samples(const HostBatch& batch, const Partition& part,
                                 std::int64_t label_bytes) const {
  const bool images = replica().prefix() == nullptr || !batch.is_features;
  const std::int64_t bytes = images ? replica().image_bytes() : replica().input_bytes();
  HostBatch selected = batch;
  selected.samples = part.count;
  selected.input = at_sample(batch.input, part.first, bytes);
  selected.labels = at_sample(batch.labels, part.first, label_bytes);
  return selected;
}

void Engine::prepare(std::int64_t samples, std::int64_t all_samples) {
  run([&](int index) {
    replica(index).prepare(replica_samples(samples, all_samples, index).count, all_samples);
  });
}

void Engine::launch(const HostBatch& batch, const backend::Scalars& scalars) {
  const std::int64_t all = scalars.all_samples > 0 ? scalars.all_samples : batch.samples;
  run([&](int index) {
    const Partition part = replica_samples(batch.samples, all, index);
    backend::Scalars shifted = scalars;
    shifted.first_sample += static_cast<std::uint64_t>(part.first);
    shifted.all_samples = all;
    replica(index).launch(select_samples(batch, part, replica().target_bytes()), shifted);
  });
  last_all_samples_ = all;
  last_evaluators_ = count();
  launched_[launches_++ % launched_.size()] = {batch.samples, all, scalars.apply};
}

StepResult Engine::result() {
  const auto [samples, all_samples, applied] = launched_[results_++ % launched_.size()];
  StepResult sum;
  for (std::int64_t r = 0; r < count(); ++r) {
    const backend::CallResult one = replica(r).result();
    times_[r] = one.times;
    sum.loss += one.loss;
    sum.correct += one.correct;
    sum.finite = sum.finite && one.finite;
    sum.skipped = sum.skipped || one.skipped;
    sum.update_not_finite = sum.update_not_finite || one.update_not_finite;
    sum.gradient_norm = one.gradient_norm;  // the same for all, as they update by one gradient
    if (!sum.penalty && replica_samples(samples, all_samples, r).count > 0)
      sum.penalty = one.penalty;
  }
  // The other workers learn of the result only with the update.
  if (workers_ != nullptr && !applied) sum.finite = true;
  return sum;
}

std::optional<backend::StreamGaps> Engine::gaps() {
  backend::StreamGaps all;
  for (const auto& replica : replicas_) {
    const std::optional<backend::StreamGaps> one = replica->gaps();
    if (!one) return std::nullopt;
    all.count += one->count;
    all.seconds += one->seconds;
  }
  return all;
}

HostAllocator Engine::host_allocator() {
  return
      [&backend = *backends_.front()](std::size_t bytes) { return backend.allocate_host(bytes); };
}

std::span<const float> Engine::losses() {
  losses_.clear();
  for (const auto& replica : replicas_) {
    const std::span<const float> losses = replica->losses();
    losses_.insert(losses_.end(), losses.begin(), losses.end());
  }
  return losses_;
}

void Engine::evaluate(const HostBatch& batch, std::int64_t all_samples) {
  const std::int64_t all = all_samples > 0 ? all_samples : batch.samples;
  run([&](int index) {
    if (index >= evaluators()) return;
    const Partition part =
        evaluates_alone_ ? Partition{0, batch.samples} : replica_samples(batch.samples, all, index);
    const std::size_t first = part.first;
    const std::size_t count = part.count;
    const std::size_t width = replica().outputs();
    replica(index).evaluate(select_samples(batch, part, replica().label_bytes()),
                            evaluates_alone_ ? batch.samples : all,
                            std::span(logits_).subspan(first * width, count * width),
                            std::span(evaluated_losses_).subspan(first, count));
  });
  last_evaluators_ = evaluators();
  last_all_samples_ = all;
}

const void* Engine::read_features(std::int64_t samples) {
  const std::size_t bytes = replica().input_bytes();
  features_.resize(static_cast<std::size_t>(samples) * bytes);
  run([&](int index) {
    if (index >= last_evaluators_) return;
    const Partition part = last_evaluators_ == 1
                               ? Partition{0, samples}
                               : replica_samples(samples, last_all_samples_, index);
    replica(index).read_features(part.count,
                                 features_.data() + static_cast<std::size_t>(part.first) * bytes);
  });
  return features_.data();
}

Engine::Statistics Engine::statistics() {
  Statistics all;
  for (const auto& replica : replicas_) {
    const backend::Variables& variables = replica->variables();
    all.emplace_back(static_cast<std::size_t>(variables.flat().statistics));
    variables.read_flat(kStatistics, 0, all.back());
  }
  return all;
}

void Engine::restore(const Statistics& statistics) {
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    replicas_[r]->variables().write_flat(kStatistics, 0, statistics[r]);
  }
}

void Engine::set_loss_scale(const backend::LossScaleState& scale) {
  for (const auto& replica : replicas_) replica->set_loss_scale(scale);
}

backend::MemoryReport Engine::memory() const {
  backend::MemoryReport all;
  for (const auto& replica : replicas_) {
    const backend::MemoryReport one = replica->memory();
    all.variables += one.variables;
    all.gradients += one.gradients;
    all.activations += one.activations;
    all.derived += one.derived;
    all.staging += one.staging;
    all.tables += one.tables;
    all.slots += one.slots;
    all.workspace = std::max(all.workspace, one.workspace);
  }
  return all;
}

std::string Engine::find_not_finite(const HostBatch& batch, const backend::Scalars& scalars) {
  const std::int64_t all = scalars.all_samples > 0 ? scalars.all_samples : batch.samples;
  for (std::int64_t r = 0; r < count(); ++r) {
    const HostBatch part =
        select_samples(batch, replica_samples(batch.samples, all, r), replica().target_bytes());
    if (part.samples == 0) continue;
    const std::string where = replica(r).find_not_finite(part, scalars);
    if (!where.empty()) return where;
  }
  return "";
}

void Engine::check_equal() {
  if (group_.empty()) return;
  std::string different;
  run([&](int index) {
    // All ranks visit the tensors in the order of the graph.
    std::vector<std::int64_t> sums;
    const std::vector<checkpoint::Tensor> tensors = replica(index).tensors();
    for (const checkpoint::Tensor& tensor : tensors) sums.push_back(checksum(tensor.values));
    cluster::Communicator& group = *group_[index];
    std::vector<std::int64_t> all(sums.size() * group.size());
    group.all_gather(std::as_bytes(std::span(sums)), std::as_writable_bytes(std::span(all)));
    if (index > 0) return;
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
