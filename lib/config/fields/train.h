// The keys of train, parallel, evaluate and run.
#pragma once

#include "config/rule.h"

namespace trainer::config {

template <class V>
void fields(V& v, EarlyStop& s) {
  v.located(s.loc);
  v("metric", s.metric, "Metric that has to improve.", any());
  v("patience", s.patience, "Evaluations without improvement before it stops.", at_least(1));
  v("min_delta", s.min_delta, "Smallest change that counts as improvement.", at_least(0));
  v("restore_best", s.restore_best,
    "Whether the run ends with the parameters of its best evaluation, those of run.best, in place "
    "of the last ones.",
    any());
}

template <class V>
void fields(V& v, StopAt& s) {
  v.located(s.loc);
  v("metric", s.metric, "Metric of an evaluation.", any());
  v("value", s.value, "Value at which the run ends: at least this, of a loss at most.",
    any().must());
}

template <class V>
void fields(V& v, Train& s) {
  v.located(s.loc);
  v("epochs", s.epochs, "Length of the training in epochs.",
    Rule{.low = 0, .high = 1e6, .low_open = true});
  v("max_steps", s.max_steps, "Length of the training in steps.", at_least(1));
  v.group({"epochs", "max_steps"}, true);
  v("batch_size", s.batch_size,
    "Samples a step and replica; auto: the most that fit the device's memory, up to 1024.",
    count_up_to(kMostSamples));
  v("memory_mb", s.memory_mb,
    "MiB that batch_size: auto may fill on each replica's device; when left out 90 % of what is "
    "free on a GPU, half of that on the CPU.",
    above(0));
  v("precision", s.precision, "Arithmetic of the layers.", any());
  v("loss_scale", s.loss_scale,
    "float16: what the loss is multiplied by before backward, a number or dynamic; dynamic when "
    "left out.",
    above(0));
  v("cache_features", s.cache_features,
    "Whether outputs of frozen layers are kept, once an image: auto, on, memory, disk or off.",
    free());
  v("recompute", s.recompute,
    "blocks: activations are kept only between blocks of layers and computed again in backward, "
    "for "
    "less memory and the same result; none: all are kept.",
    free());
  v("class_weight", s.class_weight,
    "What the training loss of a sample is multiplied by, by its class: a map of classes, by name "
    "or number, to weights, or balanced: samples / (classes * samples of the class). 1 when left "
    "out.",
    at_least(0));
  v("early_stop", s.early_stop, "Stop when a metric no longer improves; never when left out.",
    any());
  v("stop_at", s.stop_at, "Stop when a metric reaches a value; never when left out.", any());
  v("stop_on_divergence", s.stop_on_divergence,
    "Whether a loss that diverges ends the run, with a checkpoint; otherwise it is a warning.",
    warn());
}

template <class V>
void fields(V& v, ReplicaBatchNorm& s) {
  v("sync", s.sync,
    "Whether batch norm in training takes its statistics over all replicas' samples; otherwise "
    "each over its own, and the moving statistics are averaged.",
    any());
}

template <class V>
void fields(V& v, Parallel& s) {
  v.located(s.loc);
  v("strategy", s.strategy,
    "How several processes train one model: all_reduce, in step, or parameter_server, "
    "asynchronously by way of the ps tasks of TF_CONFIG.",
    any());
  v("max_staleness", s.max_staleness,
    "parameter_server: a gradient is dropped when its parameters have had more updates since they "
    "were pulled; unbounded when left out.",
    at_least(0));
  v("device", s.device, "Where to train.", any());
  v("gpus", s.gpus,
    "GPUs of this machine, a replica each: a number, all, or a list of indices in which one may "
    "come twice. On the CPU a number or list only counts replicas.",
    within(0, 1023));
  v("replicas", s.replicas,
    "Copies of the model in this process, each with its share of the cores and of every batch.",
    within(1, kMaxReplicas));
  v("lr_scaling", s.lr_scaling,
    "How the number of replicas scales the optimizer's learning rate; must be given for more than "
    "one.",
    any());
  v("shard", s.shard,
    "sample: an epoch's samples are divided among the replicas of all processes; off: each goes "
    "through all of them in an order of its own.",
    any());
  v("evaluate", s.evaluate,
    "Whether evaluation is spread over all replicas and processes; false: rank 0 evaluates alone, "
    "with the same result.",
    any());
  v("reduction", s.reduction,
    "ordered: the same bits for any number of replicas of the same global batch.", any());
  v("micro_batches", s.micro_batches,
    "Parts that reduction: ordered cuts the global batch into, a power of two.", within(1, 4096));
  v("bucket_mb", s.bucket_mb,
    "MiB of gradients that are reduced at once while backward still runs; 0: all of them after it; "
    "chosen when left out.",
    at_least(0));
  v("batch_norm", s.batch_norm, "Batch norm with several replicas.", any());
  v("deterministic", s.deterministic,
    "Whether a run gives the same bits every time; false permits sums whose order depends on "
    "timing; the CPU has none.",
    any());
  v("pin", s.pin,
    "Whether each replica's threads stay on cores of their own, for machines that do nothing else.",
    any());
  v("threads", s.threads, "Processor cores to use; all when left out.", count_up_to(kMostThreads));
  v("lanes", s.lanes, "Micro-batches computed side by side; chosen when left out.",
    count_up_to(kMostThreads));
  v("convolution", s.convolution, "Algorithm of convolutions.", any());
  v("autotune", s.autotune,
    "On GPUs: whether the first start times what cuDNN and cuBLASLt offer for each layer and keeps "
    "the fastest for later starts; false takes their own choice.",
    any());
  v("timeout", s.timeout,
    "Longest time that processes wait for each other. One that is silent for half of it counts as "
    "gone.",
    any());
  v("collective", s.collective,
    "How gradients are summed. On the CPU, over processes: ring, tree (also halving_doubling), "
    "bcube, or auto, the fastest. On GPUs: nccl, which is auto too.",
    any());
}

template <class V>
void fields(V& v, Evaluate& s) {
  v("batch_size", s.batch_size, "Samples a batch; the training batch size when left out.",
    count_up_to(kMostSamples));
  v("top_k", s.top_k, "Also report whether the label is among the k best.", at_least(1));
  v("start_delay_secs", s.start_delay_secs,
    "evaluate --follow: seconds before the first evaluation.", at_least(0));
  v("throttle_secs", s.throttle_secs,
    "evaluate --follow: least seconds between the starts of two evaluations.", at_least(0));
  v("timeout_secs", s.timeout_secs,
    "evaluate --follow: ends when no new checkpoint came for so many seconds.", above(0));
}

template <class V>
void fields(V& v, Run& s) {
  v.located(s.loc);
  v("dir", s.dir, "Folder of the run; runs/<name> when left out.", any());
  v("checkpoint_every", s.checkpoint_every, "Steps, epochs or seconds.", any());
  v("keep", s.keep, "Checkpoints kept.", at_least(1));
  v("best", s.best, "Metric whose best checkpoint is kept too, \"\" for none.", any());
  v("log_every", s.log_every, "Steps, epochs or seconds.", any());
  v("summary_every", s.summary_every,
    "Steps, epochs or seconds between points of training in the metrics files and TensorBoard; "
    "ends of epochs and evaluations have one, too.",
    any());
  v("evaluate_every", s.evaluate_every, "Steps, epochs or seconds.", any());
  v("tensorboard", s.tensorboard, "Whether TensorBoard files are written.", any());
  v("ledger", s.ledger, "Whether ledger.csv is written: a row a step, for trainer diff.", any());
  v("price_per_hour", s.price_per_hour,
    "What an hour of one replica's device costs, in a currency of yours, for the costs of reports "
    "and sweeps.",
    at_least(0));
}

}  // namespace trainer::config
