#include "config/sections/schedule.h"

#include "config/field.h"

namespace trainer::config {

static void fields(FieldVisitor&, ConstantSchedule&) {}

static void fields(FieldVisitor& v, StepSchedule& s) {
  v("every", s.every, "Steps or epochs between two changes.", no_seconds());
  v("factor", s.factor, "Factor that the learning rate is multiplied by.", above(0));
}

static void fields(FieldVisitor& v, MilestonesSchedule& s) {
  v("at", s.at, "Steps or epochs at which the rate changes, e.g. [30 epochs, 60 epochs].",
    no_seconds().items(1).required());
  v("factor", s.factor, "Factor that the learning rate is multiplied by at each of these times.",
    above(0));
}

static void fields(FieldVisitor& v, ExponentialSchedule& s) {
  v("decay_every", s.decay_every, "Steps or epochs in which the learning rate decays once.",
    no_seconds());
  v("decay_rate", s.decay_rate, "Factor that the learning rate is multiplied by in each decay.",
    above(0));
  v("staircase", s.staircase, "Whether the learning rate changes at the end of each decay only.");
}

static void fields(FieldVisitor& v, CosineSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("alpha", s.alpha, "Share of the learning rate that is left at the end.", within(0, 1));
}

static void fields(FieldVisitor& v, CosineRestartsSchedule& s) {
  v("first_decay", s.first_decay, "Steps or epochs of the first decay.", no_seconds().required());
  v("t_mul", s.t_mul, "Each decay is this many times as long as the one before.", at_least(1));
  v("m_mul", s.m_mul, "Each decay starts this many times as high as the one before.", above(0));
  v("alpha", s.alpha, "Share of the learning rate that is left at the end of a decay.",
    within(0, 1));
}

static void fields(FieldVisitor& v, ReduceOnPlateauSchedule& s) {
  v("metric", s.metric, "Metric of an evaluation that has to improve.");
  v("factor", s.factor, "Factor that the learning rate is multiplied by.", inside(0, 1));
  v("patience", s.patience, "Evaluations without improvement before a reduction.", at_least(1));
  v("min_delta", s.min_delta, "Smallest change that counts as improvement.", at_least(0));
  v("cooldown", s.cooldown, "Evaluations after a reduction that are not counted.", at_least(0));
  v("min_learning_rate", s.min_learning_rate, "Smallest learning rate; reductions stop there.",
    at_least(0));
}

static void fields(FieldVisitor& v, PolynomialSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("end_learning_rate", s.end_learning_rate, "Learning rate at the end of the decay.",
    at_least(0));
  v("power", s.power, "Power of the remaining share; 1 is linear.", above(0));
}

static void fields(FieldVisitor& v, OneCycleSchedule& s) {
  v("rise", s.rise, "Share of the training in which the learning rate rises.", inside(0, 1));
  v("div_factor", s.div_factor, "The learning rate starts at the optimizer's divided by this.",
    at_least(1));
  v("final_div_factor", s.final_div_factor,
    "The learning rate ends at its first value divided by this.", at_least(1));
  v("anneal", s.anneal, "Shape of the rise and of the fall of the learning rate.");
}

static void fields(FieldVisitor& v, RampUpSchedule& s) {
  v("start", s.start, "Learning rate of the first step.", above(0));
  v("peak", s.peak, "Learning rate at the end of the ramp.", above(0));
  v("floor", s.floor, "Learning rate that the decay approaches.", above(0));
  v("ramp_epochs", s.ramp_epochs, "Epochs in which the learning rate rises from start to peak.",
    at_least(0));
  v("sustain_epochs", s.sustain_epochs, "Epochs in which the learning rate stays at the peak.",
    at_least(0));
  v("decay", s.decay,
    "After the peak, the distance of the learning rate to the floor is multiplied by this per "
    "epoch, in (0, 1].",
    {.low = 0, .high = 1, .low_open = true});
  v("by", s.by, "Whether the learning rate changes each epoch or each step.");
  v("scale", s.scale, "How the peak grows with the number of replicas; none when left out.");
}

static void fields(FieldVisitor& v, WarmUp& s) {
  v("over", s.over, "Steps or epochs of the warm-up.", no_seconds());
  v("start_factor", s.start_factor, "Share of the learning rate at the start of the warm-up.",
    within(0, 1));
}

void fields(FieldVisitor& v, Schedule& s) {
  v.located(s.loc);
  v.choice("a schedule", false);
  kind<ConstantSchedule>(v, s.kind, "constant", "The optimizer's learning rate throughout.");
  kind<StepSchedule>(v, s.kind, "step",
                     "The learning rate is multiplied by factor after each period of every.");
  kind<MilestonesSchedule>(v, s.kind, "milestones",
                           "The learning rate is multiplied by factor at given times.");
  kind<ExponentialSchedule>(v, s.kind, "exponential",
                            "The learning rate after t steps or epochs is the optimizer's times "
                            "decay_rate^(t / decay_every).");
  kind<CosineSchedule>(
      v, s.kind, "cosine",
      "The learning rate falls along half a cosine to alpha times its first value.");
  kind<CosineRestartsSchedule>(
      v, s.kind, "cosine_restarts",
      "The learning rate falls along half a cosine, again and again, and each time for longer.");
  kind<PolynomialSchedule>(v, s.kind, "polynomial",
                           "The learning rate falls along a polynomial to end_learning_rate.");
  kind<OneCycleSchedule>(v, s.kind, "one_cycle",
                         "The learning rate rises from a small value to the optimizer's and falls "
                         "to a very small one.");
  kind<RampUpSchedule>(
      v, s.kind, "ramp_up",
      "The learning rate rises linearly from start to peak and then decays to floor.");
  kind<ReduceOnPlateauSchedule>(
      v, s.kind, "reduce_on_plateau",
      "The learning rate is reduced when a metric of the evaluations no longer improves.");
  v("warm_up", s.warm_up,
    "Linear rise of the learning rate before the schedule; none when left out.");
}

}  // namespace trainer::config
