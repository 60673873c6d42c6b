#include "config/sections/parallel.h"

#include "base/threads/cores.h"
#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor& v, ReplicaBatchNorm& s) {
  v("sync", s.sync,
    "Whether batch norm in training takes its statistics over all replicas' samples; otherwise "
    "each over its own, and the moving statistics are averaged.");
}

void fields(FieldVisitor& v, Parallel& s) {
  v.located(s.loc);
  v("strategy", s.strategy,
    "How several processes train one model: all_reduce, in step, or parameter_server, "
    "asynchronously by way of the ps tasks of TF_CONFIG.");
  v("max_staleness", s.max_staleness,
    "parameter_server: a gradient is dropped when its parameters have had more updates since they "
    "were pulled; unbounded when left out.",
    at_least(0));
  v("device", s.device,
    "Device to train on; auto takes the GPUs of the machine, or its CPU if there are none.");
  v("gpus", s.gpus,
    "GPUs of this machine, one per replica: a number, all, or a list of indices, in which an index "
    "may be repeated. On the CPU a number or list only counts replicas.",
    within(0, 1023));
  v("replicas", s.replicas,
    "Copies of the model in this process, each with its share of the cores and of every batch.",
    within(1, kMaxReplicas));
  v("lr_scaling", s.lr_scaling,
    "How the number of replicas scales the optimizer's learning rate; must be given for more than "
    "one.");
  v("shard", s.shard,
    "sample: an epoch's samples are divided among the replicas of all processes; off: each goes "
    "through all of them in an order of its own.");
  v("evaluate", s.evaluate,
    "Whether evaluation is spread over all replicas and processes; false: rank 0 evaluates alone, "
    "with the same result.");
  v("reduction", s.reduction,
    "ordered: the same bits for any number of replicas of the same global batch.");
  v("micro_batches", s.micro_batches,
    "Parts that reduction: ordered cuts the global batch into, a power of two; each replica "
    "computes at least one.",
    within(1, 4096));
  v("bucket_mb", s.bucket_mb,
    "MiB of gradients that are reduced at once while backward still runs; 0: all of them after it; "
    "chosen when left out.",
    at_least(0));
  v("batch_norm", s.batch_norm,
    "How batch norm takes its statistics where there are several replicas.");
  v("deterministic", s.deterministic,
    "Whether a run gives the same bits every time; false permits sums whose order depends on "
    "timing; the CPU has none.");
  v("pin", s.pin,
    "Whether each replica's threads are bound to their own cores, for machines without other "
    "load.");
  v("threads", s.threads,
    "Processor cores to use; all when left out. Another number gives other bits, with a fixed "
    "number of lanes too where it is larger than that; not with reduction: ordered.",
    count_up_to(kMaxThreads).on_resume(Resume::kWarn));
  v("lanes", s.lanes,
    "Micro-batches computed in parallel; chosen when left out. Another number gives other bits; "
    "not with reduction: ordered.",
    within(1, kMaxLanes).on_resume(Resume::kWarn));
  v("convolution", s.convolution, "Algorithm with which the CPU computes convolutions.");
  v("autotune", s.autotune,
    "On GPUs: whether the first start times what cuDNN and cuBLASLt offer for each layer and keeps "
    "the fastest for later starts; false takes their own choice.");
  v("timeout", s.timeout,
    "Longest time without progress of any process in a call; while data is opened, ten times as "
    "long. A process that is silent for half of it counts as gone.");
  v("collective", s.collective,
    "How gradients are summed. On the CPU, over processes: auto, the fastest for their number, or "
    "ring, in which a process sends to one other only. On GPUs: nccl, which is auto too.");
  v("hosts", s.hosts,
    "Hosts of a job with one process each, by rank, where no launcher gives ranks: names, "
    "host:port or a pattern such as pod-{0..3}.digits. The rank is JOB_COMPLETION_INDEX, or the "
    "place of this host in the list.",
    any().allow_scalar().unless_empty());
  v("require_cluster", s.require_cluster,
    "Number of processes that the job must have, or true for any above 1: a process that is alone, "
    "or a job of another size, is an error before anything is written.",
    at_least(1));
}

}  // namespace trainer::config
