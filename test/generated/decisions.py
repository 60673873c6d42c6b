#!/usr/bin/env python3
"""Compares what evaluate and predict decide with a search over all decisions, for random logits.

    test/generated/decisions.py build/release/apps/trainer/trainer
    ... decisions.py TRAINER --cases 200 --seed 7         another draw
    ... decisions.py TRAINER --seed 7 --case 12           case 12 of this draw alone

The pixels of an image are its logits: the model is a dense layer whose kernel is the identity. Logits are of order one,
have ties, are all equal, have 0 as the largest, or are far beyond the exponents of a double; classes are missing in the
validation or the test split. Compared are:

  metrics      accuracy and AUC
  temperature  the least loss of the validation split, and the loss of the test split with it
  threshold    the best counts of all thresholds on the validation split, and its counts on the test split
  abstention   the most answers of all confidences that keep the error, and its answers on the test split
  predict      the classes and abstentions that evaluate has counted, the probabilities, and the printed threshold
  warnings     a decision that the test split contradicts, by evaluate and by predict
  missing      a class that a split lacks is named

Exits with 1 where a case failed. Needs no packages.
"""

import json
import math
import struct
import sys

from cases import Failed, Generator
from random_data import make_npy

QUANTILE = 1.959963984540054


def to_float(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def log_odds(row, of_class):
    if len(row) == 1:
        return row[0] if of_class == 1 else -row[0]
    others = [x for c, x in enumerate(row) if c != of_class]
    top = max(others)
    return row[of_class] - top - math.log(sum(math.exp(x - top) for x in others))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def probabilities(row, temperature):
    row = [0.0, row[0]] if len(row) == 1 else row
    top = max(row)
    powers = [math.exp((x - top) / temperature) for x in row]
    return [power / sum(powers) for power in powers]


def loss(samples, temperature):
    total = 0
    for row, label in samples:
        row = [0.0, row[0]] if len(row) == 1 else row
        top = max(row)
        total += math.log(sum(math.exp((x - top) / temperature) for x in row)) + (top - row[label]) / temperature
    return total / len(samples)


def predict(row):
    return int(row[0] > 0) if len(row) == 1 else row.index(max(row))


def wilson(part, whole):
    if whole == 0:
        return 0, 1
    share, z2 = part / whole, QUANTILE**2
    middle = share + z2 / (2 * whole)
    half = QUANTILE * math.sqrt(share * (1 - share) / whole + z2 / (4 * whole**2))
    low, high = (middle - half) / (1 + z2 / whole), (middle + half) / (1 + z2 / whole)
    return 0 if part == 0 else low, 1 if part == whole else high


def area(scores, is_exact):
    """The least and the largest area below the ROC curve. Scores that are not exact may be equal, or differ by rounding:
    those of rows that have the same logits in another order."""
    positives = [score for score, is_positive in scores if is_positive]
    negatives = [score for score, is_positive in scores if not is_positive]
    if not positives or not negatives:
        return None
    low = high = 0
    for one in positives:
        for other in negatives:
            is_near = not is_exact and abs(one - other) <= 1e-13 * max(abs(one), abs(other), 1)
            low += 0 if is_near else (one > other) + (one == other) / 2
            high += 1 if is_near else (one > other) + (one == other) / 2
    return low / len(positives) / len(negatives), high / len(positives) / len(negatives)


class Counts:
    """Samples by their label and by what a threshold calls them."""

    def __init__(self, scores, threshold):
        self.hits = sum(is_positive and score >= threshold for score, is_positive in scores)
        self.misses = sum(is_positive and score < threshold for score, is_positive in scores)
        self.rejected = sum(not is_positive and score < threshold for score, is_positive in scores)
        self.alarms = sum(not is_positive and score >= threshold for score, is_positive in scores)

    def key(self):
        return {"true_positives": self.hits, "false_negatives": self.misses, "true_negatives": self.rejected,
                "false_positives": self.alarms}


class Criterion:
    """A criterion of --operating-point."""

    def __init__(self, draw):
        self.kind = draw.choice(["sensitivity", "specificity", "cost"])
        self.share = draw.choice([0.5, 0.8, 0.9, 0.95, 1])
        self.costs = draw.choice([(1, 1), (1, 5), (20, 1)])
        self.text = f"{self.kind}={self.share}" if self.kind != "cost" else "cost=%d:%d" % self.costs

    def cost(self, counts):
        return self.costs[0] * counts.alarms + self.costs[1] * counts.misses

    def merit(self, counts):
        """What the best threshold has most of; None where the criterion does not allow the counts."""
        if self.kind == "cost":
            return -self.cost(counts)
        pair = [(counts.hits, counts.hits + counts.misses), (counts.rejected, counts.rejected + counts.alarms)]
        goal, other = pair if self.kind == "sensitivity" else pair[::-1]
        return other[0] if goal[0] >= self.share * goal[1] - 1e-9 else None

    def is_contradicted(self, counts, likelier):
        if self.kind == "cost":
            return self.cost(counts) > self.cost(likelier)
        part, other = (counts.hits, counts.misses) if self.kind == "sensitivity" else (counts.rejected, counts.alarms)
        return part + other > 0 and wilson(part, part + other)[1] < self.share


class Plan:
    """The drawn splits and options."""

    def __init__(self, case):
        draw = self.draw = case.draw
        self.outputs = draw.choice([1, 2, 2, 2, 3, 4, 6])
        self.classes = max(2, self.outputs)
        self.kind = draw.choice(["plain", "plain", "ties", "equal", "zero", "huge", "far"])
        self.names = [f"class {c}" for c in range(self.classes)]
        self.splits = {"train": self.samples(4 * self.classes, "plain", None)}
        missing = draw.choice(["", "", "", "validation", "test"])
        for split in ("validation", "test"):
            lacks = draw.randrange(self.classes) if split == missing else None
            self.splits[split] = self.samples(draw.randint(12, 60), self.kind, lacks)
        self.criterion = Criterion(draw)
        self.positive = draw.randrange(self.classes)
        self.error = draw.choice([0.01, 0.05, 0.1, 0.3])

    def samples(self, count, kind, lacks):
        """Pairs of logits and a label, whose logit is larger on average."""
        draw = self.draw
        shift = draw.choice([0.5, 1.5, 3])
        rows = []
        for number in range(count):
            label = number % self.classes if number < 2 * self.classes else draw.randrange(self.classes)
            if label == lacks:
                label = (label + 1) % self.classes
            row = [draw.gauss(0, 1.5) + (shift if c == label else 0) for c in range(self.outputs)]
            if self.outputs == 1:
                row = [draw.gauss(0, 1.5) + (shift if label else -shift)]
            if kind == "ties":
                row = [round(x) / 2 for x in row]
            if kind == "equal":
                row = [0.25] * self.outputs
            if kind == "zero":
                row = [min(0, round(2 * x) / 2) for x in row]
            if kind == "huge":
                row = [x * 1e30 for x in row]
            if kind == "far":
                row = [x * 1000 for x in row]
            rows.append(([to_float(x) for x in row], label))
        return rows

    def write(self, case):
        data = {"format": "npz", "classes": self.names, "normalize": {"scale": 1}}
        for split, samples in self.splits.items():
            pixels = b"".join(struct.pack(f"<{self.outputs}f", *row) for row, _ in samples)
            shape = (len(samples), 1, self.outputs, 1)
            (case.folder / f"{split}.npy").write_bytes(make_npy(shape, pixels, "<f4"))
            labels = struct.pack(f"<{len(samples)}q", *(label for _, label in samples))
            (case.folder / f"{split}_labels.npy").write_bytes(make_npy((len(samples),), labels, "<i8"))
            data[split] = {"images": f"{split}.npy", "labels": f"{split}_labels.npy"}
        write_identity(case.folder / "identity.safetensors", self.outputs)
        case.write_config({
            "name": "decisions",
            "model": {"layers": ["flatten", {"dense": {"units": self.outputs, "use_bias": False}}],
                      "loss": "binary_cross_entropy" if self.outputs == 1 else "softmax_cross_entropy",
                      "weights": "identity.safetensors"},
            "data": data, "optimizer": {"sgd": {"learning_rate": 0}}, "train": {"max_steps": 1, "batch_size": 8},
            "run": {"tensorboard": False}, "parallel": {"threads": 1}})

    def scores(self, split, of_class):
        return [(log_odds(row, of_class), label == of_class) for row, label in self.splits[split]]

    def has_both(self, split):
        return len({label == self.positive for _, label in self.splits[split]}) == 2


def write_identity(path, size):
    kernel = b"".join(struct.pack("<f", row == column) for row in range(size) for column in range(size))
    header = {"dense/kernel": {"dtype": "F32", "shape": [size, size], "data_offsets": [0, len(kernel)]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + kernel)


def is_close(a, b, relative=1e-6):
    return abs(a - b) <= relative * max(abs(a), abs(b), 1e-6)


def expect(case, row, holds, message):
    if holds:
        case.passed(row)
    else:
        case.failed(row, message)


def check_metrics(case, plan, evaluated):
    samples = plan.splits["test"]
    accuracy = sum(predict(row) == label for row, label in samples) / len(samples)
    expect(case, "metrics", is_close(evaluated["accuracy"], accuracy), f"accuracy {evaluated['accuracy']}, {accuracy}")
    areas = [area(plan.scores("test", c), plan.outputs < 3) for c in (range(plan.classes) if plan.classes > 2 else [1])]
    areas = [each for each in areas if each]
    auc = evaluated.get("auc")
    if not areas:
        expect(case, "metrics", auc is None, f"auc {auc} of one class")
        return
    low, high = (sum(each[end] for each in areas) / len(areas) for end in (0, 1))
    expect(case, "metrics", auc is not None and low - 1e-9 <= auc <= high + 1e-9, f"auc {auc}, from {low} to {high}")


def check_temperature(case, plan, event):
    temperature = event["temperature"]
    validation, test = plan.splits["validation"], plan.splits["test"]
    best = min((loss(validation, temperature * factor), factor) for factor in (0.97, 1, 1.03)
               if 0.01 <= temperature * factor <= 100)
    expect(case, "temperature", best[1] == 1 or is_close(best[0], loss(validation, temperature), 1e-9),
           f"the loss at {temperature} is larger than at {best[1]} times that")
    before, after = loss(test, 1), loss(test, temperature)
    for key, value in (("before", before), ("after", after)):
        found = event[key]["negative_log_likelihood"]
        expect(case, "temperature", is_close(found, value), f"loss {key} is {found}, expected {value}")
    rises = after > before and f"{after:.4f}" != f"{before:.4f}"
    if not is_close(before, after, 1e-6):
        expect(case, "warnings", bool(event["contradiction"]) == rises, f"'{event['contradiction']}': {before}, {after}")
    return temperature


def check_threshold(case, plan, event, temperature):
    known, test = plan.scores("validation", plan.positive), plan.scores("test", plan.positive)
    threshold = math.inf if event["log_odds"] is None else event["log_odds"]
    found = Counts(known, threshold)
    merits = [plan.criterion.merit(Counts(known, each)) for each in [math.inf, *{score for score, _ in known}]]
    best = max(merit for merit in merits if merit is not None)
    expect(case, "threshold", plan.criterion.merit(found) == best,
           f"{plan.criterion.text}: {plan.criterion.merit(found)} at {threshold}, {best} is possible")
    for key, counts in (("validation", found), ("counts", Counts(test, threshold))):
        expected = counts.key()
        expect(case, "threshold", expected.items() <= event[key].items(), f"{key} {event[key]}, expected {expected}")
    scale = temperature if plan.classes == 2 else 1
    if event["log_odds"] is not None:
        expect(case, "threshold", is_close(event["probability"], sigmoid(threshold / scale)),
               f"probability {event['probability']} of the odds {threshold} at the temperature {scale}")
    is_contradicted = plan.criterion.is_contradicted(Counts(test, threshold), Counts(test, 0))
    expect(case, "warnings", bool(event["contradiction"]) == is_contradicted, f"'{event['contradiction']}' of {event}")
    return threshold


def decide(plan, row, threshold):
    if threshold is None or plan.classes > 2:
        return predict(row)
    return plan.positive if log_odds(row, plan.positive) >= threshold else 1 - plan.positive


def check_abstention(case, plan, event, temperature, threshold):
    def answers(split):
        found = []
        for row, label in plan.splits[split]:
            decided = decide(plan, row, threshold)
            found.append((probabilities(row, temperature)[decided], decided == label))
        return found
    known = answers("validation")
    most = 0
    for limit in {confidence for confidence, _ in known}:
        # Confidences that differ by the rounding of a float are one.
        given = [is_right for confidence, is_right in known if confidence >= limit * (1 - 1e-6)]
        if given.count(False) <= plan.error * len(given):
            most = max(most, len(given))
    answered = event["validation"]["answered"]
    wrong = event["validation"]["wrong"]
    expect(case, "abstention", wrong <= plan.error * answered and answered >= most,
           f"{answered} answers with {wrong} wrong, {most} are possible with {plan.error}")
    counts = event["answers"]
    is_bad = counts["answered"] > 0 and wilson(counts["wrong"], counts["answered"])[0] > plan.error
    expect(case, "warnings", bool(event["contradiction"]) == is_bad, f"'{event['contradiction']}' of {counts}")


def check_predict(case, plan, events, temperature, threshold):
    done = case.run("predict", "run", "--json", "--split", "test", "--abstain", plan.error)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    answers = events["abstention"]["answers"]
    for line, (row, label) in zip(lines, plan.splits["test"], strict=True):
        decided = plan.names[decide(plan, row, threshold)]
        if line["class"] not in (decided, None):
            raise Failed("predict", f"{line['class']} for the logits {row}, expected {decided}")
        expected = probabilities(row, temperature)
        if not all(is_close(line["probabilities"][name], p, 1e-5) for name, p in zip(plan.names, expected)):
            raise Failed("predict", f"{line['probabilities']} for {row} at {temperature}, expected {expected}")
    given = [line for line in lines if not line["abstained"]]
    wrong = sum(line["class"] != line["label"] for line in given)
    expect(case, "predict", (len(given), wrong) == (answers["answered"], answers["wrong"]),
           f"{len(given)} answers with {wrong} wrong, evaluate has counted {answers}")
    for name, event in events.items():
        text = event.get("contradiction")
        if text and (name != "operating_point" or plan.classes == 2):
            expect(case, "warnings", text in done.stderr, f"predict does not repeat '{text}'")
    point = events.get("operating_point")
    if point and plan.classes == 2 and point["probability"] is not None:
        text = f"from a probability of {point['probability']:.4f} on"
        expect(case, "predict", text in done.stderr, f"'{text}' is not in {done.stderr}")


def run_case(case):
    plan = Plan(case)
    plan.write(case)
    case.run("train", "config.yaml", "--run-dir", "run", "--quiet")
    options = ["--calibrate", "--abstain", plan.error]
    point = ["--operating-point", plan.criterion.text, "--positive-class", plan.names[plan.positive]]
    if not plan.has_both("validation"):
        done = case.run("evaluate", "run", *point, allowed=(3,))
        expect(case, "missing", plan.names[plan.positive] in done.stderr, done.stderr)
        point = []
    curves = ["--curves", *([] if point else point_class(plan))]
    if not plan.has_both("test"):
        done = case.run("evaluate", "run", "--split", "test", "--curves", *point_class(plan), allowed=(3,))
        expect(case, "missing", plan.names[plan.positive] in done.stderr, done.stderr)
        curves = []
    done = case.run("evaluate", "run", "--json", "--split", "test", *options, *curves, *point)
    events = {event["event"]: event for event in map(json.loads, done.stdout.splitlines())}
    check_metrics(case, plan, events["evaluated"])
    temperature = check_temperature(case, plan, events["calibrated"])
    threshold = check_threshold(case, plan, events["operating_point"], temperature) if point else None
    check_abstention(case, plan, events["abstention"], temperature, threshold)
    if curves:
        found = next(one["roc_auc"] for one in events["curves"]["classes"] if one["class"] == plan.names[plan.positive])
        low, high = area(plan.scores("test", plan.positive), plan.outputs < 3)
        expect(case, "metrics", low - 1e-9 <= found <= high + 1e-9, f"curve {found}, from {low} to {high}")
    check_predict(case, plan, events, temperature, threshold)
    case.run("report", "run", "--mistakes", 0)


def point_class(plan):
    return ["--positive-class", plan.names[plan.positive]]


if __name__ == "__main__":
    sys.exit(Generator("decisions", __doc__, cases=20).run(run_case))
