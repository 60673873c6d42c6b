#include <algorithm>

#include "config/checks/checks.h"
#include "config/decode.h"
#include "config/keys.h"

namespace trainer::config {

std::optional<std::int64_t> count_replicas(const Gpus& gpus) {
  switch (gpus.kind) {
    case Gpus::Kind::kAll:
      return {};
    case Gpus::Kind::kCount:
      if (gpus.count == 0) return {};
      return gpus.count;
    case Gpus::Kind::kIndices:
      return std::ssize(gpus.indices);
  }
  return {};
}

void take_replicas_from_gpus(Decoded& decoded) {
  Parallel& parallel = decoded.config.parallel;
  const std::optional<std::int64_t> wanted = count_replicas(parallel.gpus);
  if (!wanted || *wanted == parallel.replicas) return;
  const auto origin_kind = [&](const char* key) {
    const auto found = decoded.origins.find(key);
    return found == decoded.origins.end() ? Origin::Kind::kDefault : found->second.kind;
  };
  const Origin::Kind gpus = origin_kind(keys::kGpus), replicas = origin_kind(keys::kReplicas);
  if (replicas == Origin::Kind::kDefault ||
      (gpus == Origin::Kind::kSet && replicas != Origin::Kind::kSet)) {
    parallel.replicas = *wanted;
    decoded.origins[keys::kReplicas] = decoded.origins[keys::kGpus];
  } else if (replicas == Origin::Kind::kSet && gpus != Origin::Kind::kSet) {
    parallel.gpus = {Gpus::Kind::kCount, parallel.replicas, {}};
    decoded.origins[keys::kGpus] = decoded.origins[keys::kReplicas];
  }
}

void check_devices(Checks& checks) {
  const Parallel& parallel = checks.config().parallel;
  const std::optional<std::int64_t> wanted = count_replicas(parallel.gpus);
  if (wanted && *wanted != parallel.replicas) {
    checks.report(keys::kReplicas,
                  concat("must be left out or the ", *wanted, " that ", keys::kGpus,
                         " asks for, a replica each; found ", parallel.replicas));
  }
  if (parallel.device == DeviceKind::kCuda && parallel.gpus.kind == Gpus::Kind::kCount &&
      parallel.gpus.count == 0) {
    checks.report(keys::kGpus, "must be at least 1 or all with device: cuda; found 0");
  }
}

void check_collective(Checks& checks) {
  const Parallel& parallel = checks.config().parallel;
  if (parallel.collective != Collective::kNccl) return;
  const bool no_gpu = parallel.gpus.kind == Gpus::Kind::kCount && parallel.gpus.count == 0;
  if (parallel.device == DeviceKind::kCpu || no_gpu) {
    checks.report(keys::kCollective,
                  "nccl sums on GPUs, and this run is on the CPU; use auto or ring");
  }
  std::vector<std::int64_t> gpus = parallel.gpus.indices;
  std::ranges::sort(gpus);
  const auto twice = std::ranges::adjacent_find(gpus);
  if (parallel.gpus.kind == Gpus::Kind::kIndices && twice != gpus.end()) {
    checks.report(keys::kCollective,
                  concat("nccl does not sum replicas that share a GPU, and ", keys::kGpus,
                         " has GPU ", *twice, " more than once; use auto"));
  }
}

void check_precision(Checks& checks) {
  const Train& train = checks.config().train;
  if (train.loss_scale && train.precision != Precision::kFloat16) {
    checks.report(
        "train.loss_scale",
        concat("belongs to precision: float16, whose small gradients would vanish; remove "
               "it, or use float16 instead of ",
               spell(train.precision)));
  }
  if (checks.config().parallel.strategy != Parallel::Strategy::kParameterServer) return;
  if (train.precision == Precision::kAuto) {
    checks.report("train.precision",
                  "auto does not go with strategy: parameter_server, whose processes may have "
                  "different processors; use bfloat16 or float32");
  }
  if (train.precision == Precision::kFloat16) {
    checks.report("train.precision",
                  "float16 does not go with strategy: parameter_server, which cannot leave out an "
                  "update whose gradients overflowed; use bfloat16 or float32");
  }
}

}  // namespace trainer::config
