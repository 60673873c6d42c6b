#include "config/sections/optimizer.h"

#include "config/field.h"

namespace trainer::config {

// ---- Keys that several optimizers have ----

template <class O>
static void learning_rate_field(FieldVisitor& v, O& s) {
  v("learning_rate", s.learning_rate,
    "Learning rate: the factor of an update, which the schedule changes over time.", at_least(0));
}

template <class O>
static void weight_decay_field(FieldVisitor& v, O& s) {
  v("weight_decay", s.weight_decay,
    "Decoupled weight decay: weights shrink by this times the learning rate in each step.",
    at_least(0));
}

template <class O>
static void momentum_field(FieldVisitor& v, O& s) {
  v("momentum", s.momentum, "Share of the last update that is added to the next one, in [0, 1].",
    within(0, 1).on_resume(Resume::kSameIfZero));
}

// Adam and the optimizers derived from it have these keys.
template <class O>
static void moment_fields(FieldVisitor& v, O& s) {
  v("beta_1", s.beta_1, "Share of the moving average of the gradients that is kept per step.",
    below(0, 1));
  v("beta_2", s.beta_2,
    "Share of the moving average of the squared gradients that is kept per step.", below(0, 1));
  v("epsilon", s.epsilon,
    "Small number added to the denominator of an update, so that it is not zero.", above(0));
}

template <class O>
static void amsgrad_field(FieldVisitor& v, O& s) {
  v("amsgrad", s.amsgrad,
    "Whether gradients are divided by the root of the largest mean square so far.",
    same_on_resume());
}

// ---- The optimizers ----

static void fields(FieldVisitor& v, Sgd& s) {
  learning_rate_field(v, s);
  momentum_field(v, s);
  v("nesterov", s.nesterov,
    "Whether Nesterov's form of momentum is used, which applies the momentum once more in each "
    "update.");
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, RmsProp& s) {
  learning_rate_field(v, s);
  v("rho", s.rho, "Share of the moving average of the squared gradients that is kept per step.",
    below(0, 1));
  momentum_field(v, s);
  v("epsilon", s.epsilon,
    "Small number added to the mean square, or to the variance, before its root is taken, so that "
    "it is not zero.",
    above(0));
  v("centered", s.centered,
    "Whether gradients are divided by the root of their variance instead of their mean square.",
    same_on_resume());
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, Adam& s) {
  learning_rate_field(v, s);
  moment_fields(v, s);
  amsgrad_field(v, s);
}

static void fields(FieldVisitor& v, AdamW& s) {
  learning_rate_field(v, s);
  weight_decay_field(v, s);
  moment_fields(v, s);
  amsgrad_field(v, s);
}

static void fields(FieldVisitor& v, Nadam& s) {
  learning_rate_field(v, s);
  moment_fields(v, s);
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, Adagrad& s) {
  learning_rate_field(v, s);
  v("initial_accumulator_value", s.initial_accumulator_value,
    "Value of the sum of squared gradients before the first step.",
    at_least(0).on_resume(Resume::kWarn));
  v("epsilon", s.epsilon,
    "Small number added to the sum of squares before its root is taken, so that it is not zero.",
    above(0));
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, Lion& s) {
  learning_rate_field(v, s);
  v("beta_1", s.beta_1, "Share of the moving average of the gradients in the direction of a step.",
    below(0, 1));
  v("beta_2", s.beta_2, "Share of the moving average of the gradients that is kept per step.",
    below(0, 1));
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, Lamb& s) {
  learning_rate_field(v, s);
  moment_fields(v, s);
  weight_decay_field(v, s);
}

static void fields(FieldVisitor& v, LearningRateMultiplier& s) {
  v.located(s.loc);
  v("match", s.match, "Name of a layer, with * and ?.", any().required());
  v("value", s.value, "Factor of the learning rate of the layers that match.",
    at_least(0).required());
}

void fields(FieldVisitor& v, Optimizer& s) {
  v.located(s.loc);
  v.choice("an optimizer", true, Resume::kSame);
  kind<Sgd>(v, s.kind, "sgd", "Stochastic gradient descent, with or without momentum.");
  kind<RmsProp>(
      v, s.kind, "rmsprop",
      "RMSprop: gradients are divided by the root of the moving average of their squares.");
  kind<Adam>(
      v, s.kind, "adam",
      "Adam: moving averages of the gradients are divided by the root of those of their squares.");
  kind<AdamW>(v, s.kind, "adamw", "AdamW: Adam with decoupled weight decay.");
  kind<Nadam>(v, s.kind, "nadam", "Nadam: Adam with Nesterov's momentum, as in Keras.");
  kind<Adagrad>(v, s.kind, "adagrad",
                "Adagrad: gradients are divided by the root of the sum of all their squares.");
  kind<Lion>(v, s.kind, "lion", "Lion: steps of equal size in the direction of a sign.");
  kind<Lamb>(v, s.kind, "lamb",
             "LAMB: Adam whose step is scaled by the norm of each parameter, for large batches.");
  v("clip_value", s.clip_value,
    "Each gradient element is kept within [-v, v]; no clip when left out.", above(0));
  v("clip_norm", s.clip_norm, "Largest norm of each gradient tensor; no clip when left out.",
    above(0));
  v("global_clip_norm", s.global_clip_norm, "Largest norm of all gradients; no clip when left out.",
    above(0));
  v.group({"clip_value", "clip_norm", "global_clip_norm"}, false);
  v("accumulate", s.accumulate, "Batches summed into one update.",
    at_least(1).on_resume(Resume::kSame));
  v("learning_rate_multiplier", s.learning_rate_multiplier,
    "Learning rates of layers, as a list of {match, value}; the last match counts.");
  v("layer_decay", s.layer_decay,
    "Layers closer to the input learn slower: the learning rate of each block of a backbone, or of "
    "each layer of model.layers, is that of the next one times this, e.g. 0.75; no decay when left "
    "out.",
    Rule{.low = 0, .high = 1, .low_open = true});
  v("exclude_from_weight_decay", s.exclude_from_weight_decay,
    "Parameters without weight decay, by layer and weight with * and ?, such as [\"*/bias\", "
    "\"*/gamma\", \"*/beta\"]; none when left out.",
    warn_on_resume());
  v("ema", s.ema,
    "Momentum of the weight average used by evaluation, e.g. 0.99; none when left out.",
    inside(0, 1));
  v("ema_warm_up", s.ema_warm_up,
    "Whether the momentum of the average rises to ema: at update n it is at most 1 - n^(-2/3), as "
    "in timm's ModelEmaV3 with use_warmup.");
}

}  // namespace trainer::config
