#include "config/sections/optimizer.h"

#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor& v, Sgd& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("momentum", s.momentum, "Momentum, in [0, 1].", within(0, 1).on_resume(Resume::kSameIfZero));
  v("nesterov", s.nesterov, "Nesterov's form of momentum.", any());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, RmsProp& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("rho", s.rho, "Decay of the mean square.", below(0, 1));
  v("momentum", s.momentum, "Momentum, in [0, 1].", within(0, 1).on_resume(Resume::kSameIfZero));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("centered", s.centered, "Divide by the variance, not the mean square.", same());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, Adam& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far.", same());
}

static void fields(FieldVisitor& v, AdamW& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far.", same());
}

static void fields(FieldVisitor& v, Nadam& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, Adagrad& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("initial_accumulator_value", s.initial_accumulator_value, "Start of the sum of squares.",
    at_least(0).on_resume(Resume::kWarn));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, Lion& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Share of the mean in the direction of a step.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean.", below(0, 1));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, Lamb& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

static void fields(FieldVisitor& v, LearningRateMultiplier& s) {
  v.located(s.loc);
  v("match", s.match, "Name of a layer, with * and ?.", any().required());
  v("value", s.value, "Its learning rate is multiplied by this.", at_least(0).required());
}

void fields(FieldVisitor& v, Optimizer& s) {
  v.located(s.loc);
  v.choice("an optimizer", true, Resume::kSame);
  kind<Sgd>(v, s.kind, "sgd", "Stochastic gradient descent, with or without momentum.");
  kind<RmsProp>(v, s.kind, "rmsprop", "RMSprop.");
  kind<Adam>(v, s.kind, "adam", "Adam.");
  kind<AdamW>(v, s.kind, "adamw", "Adam with decoupled weight decay.");
  kind<Nadam>(v, s.kind, "nadam", "Adam with Nesterov's momentum.");
  kind<Adagrad>(v, s.kind, "adagrad", "Adagrad.");
  kind<Lion>(v, s.kind, "lion", "Lion: steps of equal size in the direction of a sign.");
  kind<Lamb>(v, s.kind, "lamb",
             "Adam whose step is scaled by the parameter's norm, for large batches.");
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
    "Learning rates of layers, as a list of {match, value}; the last match counts.", any());
  v("layer_decay", s.layer_decay,
    "Layers closer to the input learn slower: the learning rate of each block of a backbone, or of "
    "each layer of model.layers, is that of the next one times this, e.g. 0.75; no decay when left "
    "out.",
    Rule{.low = 0, .high = 1, .low_open = true});
  v("exclude_from_weight_decay", s.exclude_from_weight_decay,
    "Parameters without weight decay, by layer and weight with * and ?, such as [\"*/bias\", "
    "\"*/gamma\", \"*/beta\"]; none when left out.",
    warn());
  v("ema", s.ema,
    "Momentum of the weight average used by evaluation, e.g. 0.99; none when left out.",
    inside(0, 1));
}

}  // namespace trainer::config
