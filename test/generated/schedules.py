#!/usr/bin/env python3
"""Compares the learning rates of random schedules, as training reports them at each step, with Keras's.

    scripts/python_env.sh keras -- test/generated/schedules.py build/release/apps/trainer/trainer
    ... schedules.py TRAINER --cases 200 --seed 7         another draw
    ... schedules.py TRAINER --seed 7 --case 12           case 12 of this draw alone

Exponential, cosine, restarted cosine and polynomial schedules are Keras's in float64. Steps and milestones are their
formula, one_cycle is PyTorch's. A warm-up is Keras's with cosine, and the same line with the others. Rates agree to
2e-6 of the optimizer's rate. Exits with 1 where a case failed, with 77 without the packages.
"""

import json
import math
import os
import sys

from cases import Generator, SKIPPED

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

TOLERANCE = 2e-6
BATCH = 8


class Timeline:
    """Random durations of a training of `total` steps, `epoch` of which are an epoch."""

    def __init__(self, draw):
        self.draw = draw
        self.epoch = draw.randint(3, 9)
        self.total = draw.randint(20, 60)

    def duration(self, low, high):
        """(text of the config, steps)."""
        if self.draw.random() < 0.4:
            epochs = max(1, round(self.draw.randint(low, high) / self.epoch))
            return f"{epochs} epochs", epochs * self.epoch
        steps = self.draw.randint(low, high)
        return f"{steps} steps", steps


def whole_or(draw, timeline, options, length):
    """`decay_over`, or the whole training without a given length."""
    if draw.random() < 0.3:
        return length
    text, steps = timeline.duration(5, 50)
    options["decay_over"] = text
    return steps


def draw_exponential(draw, timeline, rate, length):
    schedules = keras.optimizers.schedules
    text, steps = timeline.duration(2, 20)
    options = {"decay_every": text, "decay_rate": round(draw.uniform(0.3, 1.2), 3), "staircase": draw.random() < 0.5}
    return options, schedules.ExponentialDecay(rate, steps, options["decay_rate"], options["staircase"]), []


def draw_cosine(draw, timeline, rate, length):
    options = {"alpha": draw.choice([0.0, round(draw.uniform(0, 0.5), 3)])}
    steps = whole_or(draw, timeline, options, length)
    return options, keras.optimizers.schedules.CosineDecay(rate, steps, alpha=options["alpha"]), []


def draw_cosine_restarts(draw, timeline, rate, length):
    text, steps = timeline.duration(2, 15)
    options = {"first_decay": text, "t_mul": draw.choice([1.0, 2.0, 3.0, 1.5]),
               "m_mul": round(draw.uniform(0.5, 1.2), 3), "alpha": draw.choice([0.0, round(draw.uniform(0, 0.5), 3)])}
    schedule = keras.optimizers.schedules.CosineDecayRestarts(rate, steps, options["t_mul"], options["m_mul"],
                                                              options["alpha"])
    # Keras finds the restart by a logarithm, whose rounding decides the step that is the restart itself.
    restarts, at, span = [], 0.0, float(steps)
    while at < 200:
        at += span
        span *= options["t_mul"]
        restarts.append(at)
    return options, schedule, restarts


def draw_polynomial(draw, timeline, rate, length):
    options = {"end_learning_rate": round(rate * draw.uniform(0, 0.5), 6), "power": draw.choice([1.0, 2.0, 0.5, 1.7])}
    steps = whole_or(draw, timeline, options, length)
    schedules = keras.optimizers.schedules
    return options, schedules.PolynomialDecay(rate, steps, options["end_learning_rate"], options["power"]), []


def draw_step(draw, timeline, rate, length):
    text, steps = timeline.duration(2, 20)
    factor = round(draw.uniform(0.1, 1.1), 3)
    return {"every": text, "factor": factor}, lambda step: rate * factor ** (step // steps), []


def draw_milestones(draw, timeline, rate, length):
    steps = sorted(draw.sample(range(1, 60), draw.randint(1, 4)))
    factor = round(draw.uniform(0.1, 1.1), 3)
    return ({"at": [f"{step} steps" for step in steps], "factor": factor},
            lambda step: rate * factor ** sum(step >= at for at in steps), [])


def draw_one_cycle(draw, timeline, rate, length):
    """PyTorch's OneCycleLR with three phases off."""
    options = {"rise": round(draw.uniform(0.1, 0.9), 2), "div_factor": draw.choice([4.0, 25.0]),
               "final_div_factor": draw.choice([10.0, 1e4]), "anneal": draw.choice(["cosine", "linear"])}
    start = rate / options["div_factor"]
    end = start / options["final_div_factor"]
    top = options["rise"] * length - 1

    def between(a, b, share):
        if options["anneal"] == "linear":
            return a + (b - a) * share
        return b + (a - b) / 2 * (1 + math.cos(math.pi * share))

    def schedule(step):
        if step <= top:
            return between(start, rate, step / top)
        return between(rate, end, (step - top) / (length - 1 - top))
    return options, schedule, []


KINDS = {"exponential": draw_exponential, "cosine": draw_cosine, "cosine_restarts": draw_cosine_restarts,
         "polynomial": draw_polynomial, "step": draw_step, "milestones": draw_milestones, "one_cycle": draw_one_cycle}


def run_case(case):
    draw = case.draw
    timeline = Timeline(draw)
    rate = float(f"{draw.uniform(1e-3, 0.1):.4g}")
    kind = draw.choice(list(KINDS))
    schedule_config, warm_up, start_factor = {}, 0, 0.0
    if draw.random() < 0.4:
        text, warm_up = timeline.duration(2, 12)
        start_factor = draw.choice([0.0, round(draw.uniform(0, 0.9), 2)])
        schedule_config["warm_up"] = {"over": text, "start_factor": start_factor}
        timeline.total = max(timeline.total, warm_up + 12)
    options, schedule, uncertain = KINDS[kind](draw, timeline, rate, timeline.total - warm_up)
    schedule_config[kind] = options
    config = case.write_config({
        "name": "schedule", "model": {"layers": ["flatten", {"dense": 2}]},
        "data": {"format": "synthetic", "synthetic": {"shape": [2, 2, 1], "classes": 2, "test_samples": 8,
                                                      "train_samples": timeline.epoch * BATCH}},
        "optimizer": {"sgd": {"learning_rate": rate}}, "schedule": schedule_config,
        "train": {"max_steps": timeline.total, "batch_size": BATCH},
        "run": {"dir": "run", "log_every": "1 steps", "tensorboard": False, "checkpoint_every": "1000 epochs",
                "evaluate_every": "1000 epochs"}})
    events = [json.loads(line) for line in case.run("train", config, "--json").stdout.splitlines()]
    rates = {event["step"]: event["learning_rate"] for event in events if event["event"] == "step"}
    worst, message = 0.0, ""
    for number in range(timeline.total):
        progress = number - warm_up
        if progress < 0:
            expected = rate * (start_factor + (1 - start_factor) * number / warm_up)
        else:
            expected = float(schedule(progress))
        if any(abs(progress - at) < 1e-6 for at in uncertain):
            continue
        error = abs(rates[number + 1] - expected) / rate
        if not error <= worst:
            worst = error
            message = f"step {number}: {rates[number + 1]:.9g}, expected {expected:.9g}; {json.dumps(schedule_config)} "
    case.check(kind + (" after a warm-up" if warm_up else ""), worst, TOLERANCE, message)


def main():
    generator = Generator("schedules", __doc__, cases=25)
    global keras
    try:
        import keras
    except ImportError as error:
        print(f"[skipped] {error}; run it as scripts/python_env.sh keras -- {' '.join(sys.argv)}")
        return SKIPPED
    keras.config.set_floatx("float64")
    return generator.run(run_case)


if __name__ == "__main__":
    sys.exit(main())
