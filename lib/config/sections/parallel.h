// The section parallel: devices, replicas, processes and how their gradients are summed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/choices.h"
#include "base/error.h"
#include "config/sections/duration.h"
#include "config/spelling.h"

namespace trainer::config {

class FieldVisitor;

// GPUs of this machine, a replica each.
struct Gpus {
  enum class Kind { kAll, kCount, kIndices } kind = Kind::kAll;
  std::int64_t count = 0;             // kCount: the first ones; 0: the CPU
  std::vector<std::int64_t> indices;  // kIndices: an index that comes twice has two replicas
};
// The number of replicas that it asks for; none for kAll, which depends on the machine.
std::optional<std::int64_t> replicas_of(const Gpus& gpus);

// How gradients are summed over processes; see lib/cluster/collective/gloo_communicator.h. kTree is
// another name of kHalvingDoubling, whose order of addition is a tree's. kNccl: on GPUs, where all
// but it and kAuto are refused.
enum class Collective { kAuto, kRing, kTree, kBcube, kHalvingDoubling, kNccl };

// How batch norm treats a batch that is divided among replicas.
struct ReplicaBatchNorm {
  bool sync = false;  // statistics of the whole batch; otherwise each replica's own
};

struct Parallel {
  // How several processes train one model. kParameterServer: ps tasks of TF_CONFIG keep the
  // parameters, and workers do not wait for each other. Without a cluster both are one process.
  enum class Strategy { kAllReduce, kParameterServer } strategy = Strategy::kAllReduce;
  // With kParameterServer: a gradient is dropped when the parameters have had more updates since
  // they were pulled for it; none: never.
  std::optional<std::int64_t> max_staleness;
  DeviceKind device = DeviceKind::kAuto;
  // On the CPU a number or list only counts replicas, and kAll leaves that to `replicas`.
  Gpus gpus;
  // Copies of the model in this process, each with its share of the cores and of every batch; what
  // `gpus` asks for, if that is known.
  std::int64_t replicas = 1;
  enum class LrScaling { kNone, kLinear, kSqrt };
  // Of the optimizer's learning rate, by the number of replicas; must be given for more than one.
  std::optional<LrScaling> lr_scaling;
  // Of an epoch's samples. kSample: every replica of every process takes its part of each batch.
  // kOff: each goes through all samples in an order of its own.
  enum class Shard { kSample, kOff } shard = Shard::kSample;
  bool evaluate = true;  // whether all replicas and processes evaluate; false: rank 0 alone
  // kOrdered: the same bits for any number of replicas and lanes of the same global batch.
  enum class Reduction { kFast, kOrdered } reduction = Reduction::kFast;
  std::int64_t micro_batches = 8;   // of a global batch, with kOrdered; a power of two
  std::optional<double> bucket_mb;  // MiB of gradients reduced at once; chosen when left out
  ReplicaBatchNorm batch_norm;
  bool deterministic = true;            // false permits sums whose order depends on timing
  bool pin = false;                     // whether a replica stays on cores of its own
  std::optional<std::int64_t> threads;  // processor cores to use; all when left out
  std::optional<std::int64_t> lanes;    // micro-batches computed side by side; chosen when left out
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::kAuto;
  bool autotune = false;  // on GPUs: whether kernels of cuDNN and cuBLASLt are timed and kept
  // With several processes: the longest that they wait for each other, in seconds.
  Duration timeout{60, Duration::Unit::kSeconds};
  Collective collective = Collective::kAuto;
  SourceLoc loc;
};

template <>
const Spellings<DeviceKind>& spellings<DeviceKind>();
template <>
const Spellings<Collective>& spellings<Collective>();
template <>
const Spellings<ConvolutionAlgorithm>& spellings<ConvolutionAlgorithm>();
template <>
const Spellings<Parallel::Strategy>& spellings<Parallel::Strategy>();
template <>
const Spellings<Parallel::LrScaling>& spellings<Parallel::LrScaling>();
template <>
const Spellings<Parallel::Shard>& spellings<Parallel::Shard>();
template <>
const Spellings<Parallel::Reduction>& spellings<Parallel::Reduction>();
void fields(FieldVisitor& v, Parallel& s);

}  // namespace trainer::config
