// The keys of optimizer and schedule.
#pragma once

#include "config/fields/alternative.h"
#include "config/rule.h"

namespace trainer::config {

template <class V>
void fields(V& v, Sgd& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("momentum", s.momentum, "Momentum, in [0, 1].", within(0, 1).on_resume(Resume::kSameIfZero));
  v("nesterov", s.nesterov, "Nesterov's form of momentum.", any());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, RmsProp& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("rho", s.rho, "Decay of the mean square.", below(0, 1));
  v("momentum", s.momentum, "Momentum, in [0, 1].", within(0, 1).on_resume(Resume::kSameIfZero));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("centered", s.centered, "Divide by the variance, not the mean square.", same());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, Adam& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far.", same());
}

template <class V>
void fields(V& v, AdamW& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far.", same());
}

template <class V>
void fields(V& v, Nadam& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, Adagrad& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("initial_accumulator_value", s.initial_accumulator_value,
    "What the sum of squares starts from.", at_least(0).on_resume(Resume::kWarn));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, Lion& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Share of the mean in the direction of a step.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean.", below(0, 1));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, Lamb& s) {
  v("learning_rate", s.learning_rate, "Learning rate.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite.", above(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step.", at_least(0));
}

template <class V>
void fields(V& v, LearningRateMultiplier& s) {
  v.located(s.loc);
  v("match", s.match, "Name of a layer, with * and ?.", any().must());
  v("value", s.value, "Its learning rate is multiplied by this.", at_least(0).must());
}

template <class V>
void fields(V& v, Optimizer& s) {
  v.located(s.loc);
  v.choice("an optimizer", true, Resume::kSame);
  kind<Sgd>(v, s.kind, "sgd", "Stochastic gradient descent, with or without momentum.");
  kind<RmsProp>(v, s.kind, "rmsprop", "RMSprop.");
  kind<Adam>(v, s.kind, "adam", "Adam.");
  kind<AdamW>(v, s.kind, "adamw", "Adam with decoupled weight decay.");
  kind<Nadam>(v, s.kind, "nadam", "Adam with Nesterov's momentum.");
  kind<Adagrad>(v, s.kind, "adagrad", "Adagrad.");
  kind<Lion>(v, s.kind, "lion", "Lion: steps of one size, in the direction of a sign.");
  kind<Lamb>(v, s.kind, "lamb",
             "Adam whose step is as long as the parameter's norm says, for large batches.");
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

template <class V>
void fields(V&, ConstantSchedule&) {}

template <class V>
void fields(V& v, StepSchedule& s) {
  v("every", s.every, "Steps or epochs between two changes.", no_seconds());
  v("factor", s.factor, "The rate is multiplied by this.", above(0));
}

template <class V>
void fields(V& v, MilestonesSchedule& s) {
  v("at", s.at, "Steps or epochs at which the rate changes, e.g. [30 epochs, 60 epochs].",
    no_seconds().items(1).must());
  v("factor", s.factor, "The rate is multiplied by this at each.", above(0));
}

template <class V>
void fields(V& v, ExponentialSchedule& s) {
  v("decay_every", s.decay_every, "Steps or epochs per decay.", no_seconds());
  v("decay_rate", s.decay_rate, "Factor per decay.", above(0));
  v("staircase", s.staircase, "Whether it decays at whole decays only.", any());
}

template <class V>
void fields(V& v, CosineSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("alpha", s.alpha, "Share of the rate left at the end.", within(0, 1));
}

template <class V>
void fields(V& v, CosineRestartsSchedule& s) {
  v("first_decay", s.first_decay, "Steps or epochs of the first decay.", no_seconds().must());
  v("t_mul", s.t_mul, "Each decay is this many times as long as the one before.", at_least(1));
  v("m_mul", s.m_mul, "Each decay starts this many times as high as the one before.", above(0));
  v("alpha", s.alpha, "Share of the rate left at the end of a decay.", within(0, 1));
}

template <class V>
void fields(V& v, ReduceOnPlateauSchedule& s) {
  v("metric", s.metric, "Metric of an evaluation that has to improve.", any());
  v("factor", s.factor, "The rate is multiplied by this.", inside(0, 1));
  v("patience", s.patience, "Evaluations without improvement before it is.", at_least(1));
  v("min_delta", s.min_delta, "Smallest change that counts as improvement.", at_least(0));
  v("cooldown", s.cooldown, "Evaluations after a reduction that are not counted.", at_least(0));
  v("min_learning_rate", s.min_learning_rate, "The rate is not reduced below this.", at_least(0));
}

template <class V>
void fields(V& v, PolynomialSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("end_learning_rate", s.end_learning_rate, "Rate at the end.", at_least(0));
  v("power", s.power, "Power of the remaining share; 1 is linear.", above(0));
}

template <class V>
void fields(V& v, OneCycleSchedule& s) {
  v("rise", s.rise, "Share of the training in which the rate rises.", inside(0, 1));
  v("div_factor", s.div_factor, "The rate starts at the optimizer's rate divided by this.",
    at_least(1));
  v("final_div_factor", s.final_div_factor, "The rate ends at the starting rate divided by this.",
    at_least(1));
  v("anneal", s.anneal, "Form of both parts.", any());
}

template <class V>
void fields(V& v, RampUpSchedule& s) {
  v("start", s.start, "Rate at the start.", above(0));
  v("peak", s.peak, "Rate after the ramp.", above(0));
  v("floor", s.floor, "Rate that the decay approaches.", above(0));
  v("ramp_epochs", s.ramp_epochs, "Epochs from start to peak.", at_least(0));
  v("sustain_epochs", s.sustain_epochs, "Epochs at the peak.", at_least(0));
  v("decay", s.decay, "Factor an epoch after that, in (0, 1].",
    {.low = 0, .high = 1, .low_open = true});
  v("by", s.by, "Whether the rate changes each epoch or each step.", any());
  v("scale", s.scale, "How the peak grows with the number of replicas; none when left out.", any());
}

template <class V>
void fields(V& v, WarmUp& s) {
  v("over", s.over, "Steps or epochs of the warm-up.", no_seconds());
  v("start_factor", s.start_factor, "Share of the rate at the start.", within(0, 1));
}

template <class V>
void fields(V& v, Schedule& s) {
  v.located(s.loc);
  v.choice("a schedule", false);
  kind<ConstantSchedule>(v, s.kind, "constant", "The optimizer's learning rate throughout.");
  kind<StepSchedule>(v, s.kind, "step", "rate * factor^floor(t / every).");
  kind<MilestonesSchedule>(v, s.kind, "milestones", "Multiplied by factor at given times.");
  kind<ExponentialSchedule>(v, s.kind, "exponential", "rate * decay_rate^(t / decay_every).");
  kind<CosineSchedule>(v, s.kind, "cosine", "Half a cosine down to alpha * rate.");
  kind<CosineRestartsSchedule>(v, s.kind, "cosine_restarts",
                               "Half a cosine down, again and again, each longer.");
  kind<PolynomialSchedule>(v, s.kind, "polynomial", "A polynomial down to end_learning_rate.");
  kind<OneCycleSchedule>(v, s.kind, "one_cycle",
                         "From a small rate up to the optimizer's and down to almost nothing.");
  kind<RampUpSchedule>(v, s.kind, "ramp_up", "Linear from start to peak, then decay to floor.");
  kind<ReduceOnPlateauSchedule>(v, s.kind, "reduce_on_plateau",
                                "Reduced when a metric of the evaluations no longer improves.");
  v("warm_up", s.warm_up, "Linear rise before the schedule; none when left out.", any());
}

}  // namespace trainer::config
