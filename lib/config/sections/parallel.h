// The section parallel: devices, replicas, processes and how their gradients are summed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/choices.h"
#include "base/error.h"
#include "base/spelling.h"
#include "config/sections/duration.h"

namespace trainer::config {

class FieldVisitor;

// GPUs of this machine, each with one replica.
struct Gpus {
  enum class Kind { kAll, kCount, kIndices } kind = Kind::kAll;
  std::int64_t count = 0;             // kCount: the first ones; 0: the CPU
  std::vector<std::int64_t> indices;  // kIndices: a repeated index has several replicas
};
// Returns the number of replicas of `gpus`; nothing for kAll, which depends on the machine.
std::optional<std::int64_t> count_replicas(const Gpus& gpus);

// The algorithm that sums gradients over processes; see lib/cluster/collective/peer_communicator.h.
// GPUs accept kNccl and kAuto only.
enum class Collective { kAuto, kRing, kNccl };

// Options of batch norm for a batch that is divided among replicas.
struct ReplicaBatchNorm {
  bool sync = false;  // true: statistics of the whole batch; false: of each replica's part
};

// A condition on the number of processes of a job: `true` in a config is any number above 1.
struct ClusterSize {
  std::int64_t count = 0;  // 0: any above 1
  bool accepts(std::int64_t processes) const {
    return count == 0 ? processes > 1 : processes == count;
  }
};

struct Parallel {
  // The way in which several processes train one model. kParameterServer: ps tasks of TF_CONFIG
  // hold the parameters, and workers do not wait for each other. Without a cluster, both mean one
  // process.
  enum class Strategy { kAllReduce, kParameterServer } strategy = Strategy::kAllReduce;
  std::optional<std::int64_t> max_staleness;
  DeviceKind device = DeviceKind::kAuto;
  // On the CPU, a number or list gives the number of replicas only, and kAll leaves it to
  // `replicas`.
  Gpus gpus;
  // Copies of the model in this process, each with its share of the cores and of every batch. Set
  // to the number of `gpus` if that is known.
  std::int64_t replicas = 1;
  enum class LrScaling { kNone, kLinear, kSqrt };
  std::optional<LrScaling> lr_scaling;
  enum class Shard { kSample, kOff } shard = Shard::kSample;
  bool evaluate = true;  // true: all replicas and processes evaluate; false: rank 0 alone
  enum class Reduction { kFast, kOrdered } reduction = Reduction::kFast;
  std::int64_t micro_batches = 8;   // number per global batch, with kOrdered; a power of two
  std::optional<double> bucket_mb;  // MiB of gradients reduced at once; chosen when left out
  ReplicaBatchNorm batch_norm;
  bool deterministic = true;            // false permits sums whose order depends on timing
  bool pin = false;                     // true: a replica is bound to its own cores
  std::optional<std::int64_t> threads;  // processor cores to use; all when left out
  std::optional<std::int64_t> lanes;    // micro-batches computed in parallel; chosen when left out
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::kAuto;
  bool autotune = false;  // times kernels of cuDNN and cuBLASLt on GPUs and keeps the fastest
  // With several processes: the longest time that they wait for each other.
  Duration timeout{60, Duration::Unit::kSeconds};
  Collective collective = Collective::kAuto;
  std::vector<std::string> hosts;  // the hosts of the ranks in order; see cluster::identify()
  std::optional<ClusterSize> require_cluster;  // the size that the job must have
  SourceLoc loc;
};

constexpr auto spellings(Collective) {
  using enum Collective;
  return std::to_array<Spelling<Collective>>({{kAuto, "auto"}, {kRing, "ring"}, {kNccl, "nccl"}});
}
constexpr auto spellings(Parallel::Strategy) {
  using enum Parallel::Strategy;
  return std::to_array<Spelling<Parallel::Strategy>>(
      {{kAllReduce, "all_reduce"}, {kParameterServer, "parameter_server"}});
}
constexpr auto spellings(Parallel::LrScaling) {
  using enum Parallel::LrScaling;
  return std::to_array<Spelling<Parallel::LrScaling>>(
      {{kNone, "none"}, {kLinear, "linear"}, {kSqrt, "sqrt"}});
}
constexpr auto spellings(Parallel::Shard) {
  using enum Parallel::Shard;
  return std::to_array<Spelling<Parallel::Shard>>({{kSample, "sample"}, {kOff, "off"}});
}
constexpr auto spellings(Parallel::Reduction) {
  using enum Parallel::Reduction;
  return std::to_array<Spelling<Parallel::Reduction>>({{kFast, "fast"}, {kOrdered, "ordered"}});
}
void fields(FieldVisitor& v, Parallel& s);

}  // namespace trainer::config
