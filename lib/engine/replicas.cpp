#include "engine/replicas.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "backend/memory_planner.h"
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

}  // namespace

backend::DeviceOptions device_options(const Parallel& parallel, std::int64_t workers) {
  backend::DeviceOptions options;
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
  options.cuda = {parallel.autotune};
  options.ordered = parallel.reduction == Parallel::Reduction::kOrdered;
  options.micro_batches = parallel.micro_batches;
  options.processes = workers;
  return options;
}

bool uses_gpus(const Parallel& parallel) {
  const DeviceKind kind = device_options(parallel).kind;
  return kind == DeviceKind::kCuda ||
         (kind == DeviceKind::kAuto && !backend::list_gpus().gpus.empty());
}

namespace {

bool share_gpu(const Parallel& parallel) {
  std::vector<std::int64_t> gpus = parallel.gpus.indices;
  std::ranges::sort(gpus);
  return parallel.gpus.kind == config::Gpus::Kind::kIndices &&
         std::ranges::adjacent_find(gpus) != gpus.end();
}

}  // namespace

std::string describe_sums(const Parallel& parallel, std::int64_t workers) {
  if (parallel.replicas * workers == 1) return "";
  if (uses_gpus(parallel)) {
    if (share_gpu(parallel)) return "by kernels of the GPU that replicas share";
    return "by NCCL, which chooses ring, tree or another algorithm for each size by the "
           "connections";
  }
  if (workers == 1) return "in memory";
  if (parallel.collective != config::Collective::kAuto) {
    return concat("by ", spell(parallel.collective));
  }
  const std::string rule = cluster::describe_rule(parallel, workers);
  if (rule.empty()) return "by the algorithm that is fastest when the run starts";
  return concat("by ", rule, ", the rule for ", workers, " processes whose bits must repeat");
}

namespace {

// Throws DeviceError if parallel.collective does not fit the devices of the replicas.
void check_collective(const Parallel& parallel, std::int64_t workers) {
  using config::Collective;
  if (parallel.collective == Collective::kAuto) return;
  const bool nccl = parallel.collective == Collective::kNccl;
  if (!uses_gpus(parallel)) {
    if (!nccl) return;
    throw DeviceError(
        "parallel.collective: nccl sums on GPUs, and this run is on the CPU; use auto, ring or "
        "tree");
  }
  if (nccl || parallel.replicas * workers == 1) return;
  const bool ring = parallel.collective == Collective::kRing;
  const bool tree = parallel.collective == Collective::kTree;
  throw DeviceError(concat(
      "parallel.collective: ", spell(parallel.collective),
      " is for sums on CPUs. GPUs sum by NCCL, which chooses its algorithm itself and takes no "
      "other choice than NCCL_ALGO in the environment of every process: use auto or nccl",
      ring || tree ? concat(", and to try it NCCL_ALGO=allreduce:", ring ? "ring" : "tree") : ""));
}

}  // namespace

std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             std::int64_t workers,
                                                             const LocalPlace& place) {
  check_collective(config.parallel, workers);
  backend::DeviceOptions options = device_options(config.parallel, workers);
  options.local_rank = place.rank;
  options.local_size = place.size;
  return backend::open_backends(options);
}

bool uses_batch_statistics(const graph::Graph& model) {
  return std::ranges::any_of(model.layers, [](const graph::LayerInfo& layer) {
    return layer.kind == "BatchNormalization" && layer.trainable && !layer.moving_statistics;
  });
}

Replicas::Replicas(const graph::Graph& model, const config::Config& config,
                   std::vector<std::unique_ptr<backend::Backend>> backends, Engine::Use use,
                   cluster::Communicator* workers)
    : workers_(workers),
      evaluates_alone_(!config.parallel.evaluate),
      backends_(std::move(backends)),
      team_(static_cast<int>(backends_.size()), [this](int replica) {
        // The thread undoes this itself when it ends, which is before the backends are destroyed.
        thread_local std::unique_ptr<backend::ThreadBinding> binding;
        binding = backends_[replica]->bind_thread();
      }) {
  const auto replicas = static_cast<int>(backends_.size());
  const bool alone = replicas == 1 && workers == nullptr;
  if (!alone) group_ = cluster::make_local_group(replicas, workers);
  engines_.resize(backends_.size());
  times_.resize(backends_.size());
  statistics_.resize(backends_.size());
  const auto open = [&](int replica) {
    EngineGroup group;
    if (!alone) group = make_group(replica, config.parallel.batch_norm.sync);
    engines_[replica] = std::make_unique<Engine>(model, config, *backends_[replica], use, group);
  };
  try {
    team_.run(open, [this](int replica) {
      if (!group_.empty()) group_[replica]->abort(handled_message());
    });
  } catch (const backend::OutOfMemory& error) {
    if (use != Engine::Use::kTrain) throw;
    close_engines();  // frees their memory, so that the message can name the batch that fits
    throw backend::OutOfMemory(explain_out_of_memory(model, config, backends_, error.what()));
  }
  launched_.resize(std::max(1, launches_in_flight()));
  const std::int64_t processes = evaluates_alone_ || workers == nullptr ? 1 : workers->size();
  const std::size_t evaluated =
      max_rank_samples(evaluation_batch() * processes, leaves(), processes);
  logits_.resize(evaluated * static_cast<std::size_t>(outputs()));
  evaluated_losses_.resize(evaluated);
}

Replicas::~Replicas() { close_engines(); }

void Replicas::close_engines() noexcept {
  for (const auto& engine : engines_) {
    if (engine) engine->release_programs();
  }
  engines_.clear();
}

EngineGroup Replicas::make_group(int replica, bool sync) {
  EngineGroup group;
  group.gradients = group_[replica].get();
  group.remote = workers_ != nullptr;
  if (sync) statistics_[replica] = group_[replica]->duplicate();
  group.statistics = statistics_[replica].get();
  return group;
}

template <class Work>
void Replicas::run(const Work& work) {
  // The calling thread is that of replica 0 until this returns.
  const auto binding = backends_.front()->bind_thread();
  // The work is passed by reference, because a std::function that copies it would allocate.
  team_.run(std::ref(work), [this](int replica) {
    const std::string reason = handled_message();
    engines_[replica]->abort(reason);
    if (!group_.empty()) group_[replica]->abort(reason);
    if (statistics_[replica]) statistics_[replica]->abort(reason);
  });
}

std::string Replicas::describe() const {
  const std::string one = backends_.front()->describe();
  return count() == 1 ? one : concat(count(), " replicas, each ", one);
}

std::vector<std::unique_ptr<backend::Telemetry>> Replicas::make_telemetry() {
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

Partition Replicas::replica_samples(std::int64_t samples, std::int64_t all_samples,
                                    std::int64_t replica) const {
  if (leaves() == 0) return partition(samples, count(), replica);
  const std::int64_t processes = workers_ == nullptr ? 1 : workers_->size();
  const std::int64_t process = workers_ == nullptr ? 0 : workers_->rank();
  const Partition own = rank_samples(all_samples, leaves(), processes, process);
  Partition part =
      rank_samples(all_samples, leaves(), processes * count(), process * count() + replica);
  part.first -= own.first;
  return part;
}

HostBatch Replicas::select_samples(const HostBatch& batch, const Partition& part,
                                   std::int64_t replica, std::int64_t label_bytes) const {
  const Engine& own = *engines_[replica];
  const bool images = prefix() == nullptr || !batch.is_features;
  HostBatch mine = batch;
  mine.samples = part.count;
  mine.input = at_sample(batch.input, part.first, images ? own.image_bytes() : own.input_bytes());
  mine.labels = at_sample(batch.labels, part.first, label_bytes);
  return mine;
}

void Replicas::prepare(std::int64_t samples, std::int64_t all_samples) {
  run([&](int replica) {
    engine(replica).prepare(replica_samples(samples, all_samples, replica).count, all_samples);
  });
}

void Replicas::launch(const HostBatch& batch, const backend::Scalars& scalars) {
  const std::int64_t all = scalars.all_samples > 0 ? scalars.all_samples : batch.samples;
  run([&](int replica) {
    Engine& own = engine(replica);
    const Partition part = replica_samples(batch.samples, all, replica);
    backend::Scalars mine = scalars;
    mine.first_sample += static_cast<std::uint64_t>(part.first);
    mine.all_samples = all;
    own.launch(select_samples(batch, part, replica, own.target_bytes()), mine);
  });
  last_all_samples_ = all;
  last_evaluators_ = count();
  launched_[launches_++ % launched_.size()] = {batch.samples, all, scalars.apply};
}

StepResult Replicas::result() {
  const auto [samples, all_samples, applied] = launched_[results_++ % launched_.size()];
  StepResult sum;
  for (std::int64_t r = 0; r < count(); ++r) {
    const backend::Numbers own = engine(r).result();
    times_[r] = own.times;
    sum.loss += own.loss;
    sum.correct += own.correct;
    sum.finite = sum.finite && own.finite;
    sum.skipped = sum.skipped || own.skipped;
    sum.update_not_finite = sum.update_not_finite || own.update_not_finite;
    sum.gradient_norm = own.gradient_norm;  // the same for all, as they update by one gradient
    if (!sum.penalty && replica_samples(samples, all_samples, r).count > 0)
      sum.penalty = own.penalty;
  }
  // The other workers learn of the result only with the update.
  if (workers_ != nullptr && !applied) sum.finite = true;
  return sum;
}

std::optional<backend::StreamGaps> Replicas::gaps() {
  backend::StreamGaps all;
  for (const auto& engine : engines_) {
    const std::optional<backend::StreamGaps> one = engine->gaps();
    if (!one) return std::nullopt;
    all.count += one->count;
    all.seconds += one->seconds;
  }
  return all;
}

HostAllocator Replicas::host_allocator() {
  return
      [&backend = *backends_.front()](std::size_t bytes) { return backend.allocate_host(bytes); };
}

std::span<const float> Replicas::losses() {
  losses_.clear();
  for (const auto& engine : engines_) {
    const std::span<const float> own = engine->losses();
    losses_.insert(losses_.end(), own.begin(), own.end());
  }
  return losses_;
}

void Replicas::evaluate(const HostBatch& batch, std::int64_t all_samples) {
  const std::int64_t all = all_samples > 0 ? all_samples : batch.samples;
  run([&](int replica) {
    if (replica >= evaluators()) return;
    Engine& own = engine(replica);
    const Partition part = evaluates_alone_ ? Partition{0, batch.samples}
                                            : replica_samples(batch.samples, all, replica);
    const std::size_t first = part.first;
    const std::size_t count = part.count;
    const std::size_t width = outputs();
    own.evaluate(select_samples(batch, part, replica, own.label_bytes()),
                 evaluates_alone_ ? batch.samples : all,
                 std::span(logits_).subspan(first * width, count * width),
                 std::span(evaluated_losses_).subspan(first, count));
  });
  last_evaluators_ = evaluators();
  last_all_samples_ = all;
}

const void* Replicas::read_features(std::int64_t samples) {
  const std::size_t bytes = engines_.front()->input_bytes();
  features_.resize(static_cast<std::size_t>(samples) * bytes);
  run([&](int replica) {
    if (replica >= last_evaluators_) return;
    const Partition part = last_evaluators_ == 1
                               ? Partition{0, samples}
                               : replica_samples(samples, last_all_samples_, replica);
    engine(replica).read_features(part.count,
                                  features_.data() + static_cast<std::size_t>(part.first) * bytes);
  });
  return features_.data();
}

Replicas::Statistics Replicas::statistics() {
  Statistics all;
  for (const auto& engine : engines_) {
    const backend::Variables& variables = engine->variables();
    all.emplace_back(static_cast<std::size_t>(variables.flat().statistics));
    variables.read_flat(kStatistics, 0, all.back());
  }
  return all;
}

void Replicas::restore(const Statistics& statistics) {
  for (std::size_t r = 0; r < engines_.size(); ++r) {
    engines_[r]->variables().write_flat(kStatistics, 0, statistics[r]);
  }
}

void Replicas::set_loss_scale(const backend::LossScaleState& scale) {
  for (const auto& engine : engines_) engine->set_loss_scale(scale);
}

backend::MemoryReport Replicas::memory() const {
  backend::MemoryReport all;
  for (const auto& engine : engines_) {
    const backend::MemoryReport one = engine->memory();
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

std::string Replicas::find_not_finite(const HostBatch& batch, const backend::Scalars& scalars) {
  const std::int64_t all = scalars.all_samples > 0 ? scalars.all_samples : batch.samples;
  for (std::int64_t r = 0; r < count(); ++r) {
    Engine& own = engine(r);
    const HostBatch mine =
        select_samples(batch, replica_samples(batch.samples, all, r), r, own.target_bytes());
    if (mine.samples == 0) continue;
    const std::string where = own.find_not_finite(mine, scalars);
    if (!where.empty()) return where;
  }
  return "";
}

void Replicas::check_equal() {
  if (group_.empty()) return;
  std::string different;
  run([&](int replica) {
    // All ranks visit the tensors in the order of the graph.
    std::vector<std::int64_t> sums;
    const std::vector<checkpoint::Tensor> tensors = engine(replica).tensors();
    for (const checkpoint::Tensor& tensor : tensors) sums.push_back(checksum(tensor.values));
    cluster::Communicator& group = *group_[replica];
    std::vector<std::int64_t> all(sums.size() * group.size());
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
