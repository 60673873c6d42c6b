#include "config/sections/train.h"

#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor& v, EarlyStop& s) {
  v.located(s.loc);
  v("metric", s.metric, "Metric of the evaluations that has to improve.");
  v("patience", s.patience, "Evaluations without improvement before the run ends.", at_least(1));
  v("min_delta", s.min_delta, "Smallest change that counts as improvement.", at_least(0));
  v("restore_best", s.restore_best,
    "Whether the run ends with the parameters of its best evaluation, those of run.best, in place "
    "of the last ones.");
}

static void fields(FieldVisitor& v, StopAt& s) {
  v.located(s.loc);
  v("metric", s.metric, "Metric that ends the run when an evaluation reaches the value.");
  v("value", s.value, "Value at which the run ends: at least this, of a loss at most.",
    any().required());
}

void fields(FieldVisitor& v, Train& s) {
  v.located(s.loc);
  v("epochs", s.epochs, "Length of the training in epochs.",
    Rule{.low = 0, .high = 1e6, .low_open = true});
  v("max_steps", s.max_steps, "Length of the training in steps.", at_least(1));
  v.group({"epochs", "max_steps"}, true);
  v("batch_size", s.batch_size,
    "Samples per step and replica; auto: the most that fit the device's memory, up to 1024.",
    count_up_to(kMaxSamples));
  v("memory_mb", s.memory_mb,
    "MiB that batch_size: auto may fill on each replica's device; when left out 90 % of what is "
    "free on a GPU, half of that on the CPU.",
    above(0));
  v("precision", s.precision,
    "Number format that the layers compute in; auto is bfloat16 where that is faster.");
  v("loss_scale", s.loss_scale,
    "float16: factor of the loss before backward, a number or dynamic; dynamic when left out.",
    above(0));
  v("cache_features", s.cache_features,
    "Whether outputs of frozen layers are kept, once per image: auto, on, memory, disk or off.",
    free_on_resume());
  v("recompute", s.recompute,
    "blocks: activations are kept only between blocks of layers and computed again in backward, "
    "for less memory and the same result; none: all are kept.",
    free_on_resume());
  v("class_weight", s.class_weight,
    "Factor of the training loss of a sample, by its class: a map of classes, by name or number, "
    "to weights, or balanced: samples / (classes * samples of the class). With several labels per "
    "image, the factor of each label's own terms. 1 when left out.",
    at_least(0));
  v("pos_weight", s.pos_weight,
    "Several labels per image: factor of the loss of the images that have a label, as in PyTorch's "
    "BCEWithLogitsLoss: a map of labels, by name or number, to weights, or balanced: images "
    "without the label / images with it. 1 when left out.",
    at_least(0));
  v("early_stop", s.early_stop, "Stop when a metric no longer improves; never when left out.");
  v("stop_at", s.stop_at, "Stop when a metric reaches a value; never when left out.");
  v("stop_on_divergence", s.stop_on_divergence,
    "Whether a loss that diverges ends the run, with a checkpoint; otherwise it is a warning.",
    warn_on_resume());
}

}  // namespace trainer::config
