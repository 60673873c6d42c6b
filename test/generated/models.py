#!/usr/bin/env python3
"""Trains random models with trainer and with Keras 3 from the same weights on the same batches, and compares them.

    scripts/python_env.sh keras onnx onnxruntime -- test/generated/models.py build/release/apps/trainer/trainer
    ... models.py TRAINER --cases 500 --seed 7         another draw
    ... models.py TRAINER --seed 7 --case 12           case 12 of this draw alone

Models are chains, residuals whose branches have equal shapes, graphs with branches and repeated groups, with random
layers, losses and optimizers. Every fourth has images of 1 to 3 pixels, dense layers of up to 1,024 units, and 2 to 8
lanes. Compared are:

  loss         of every step, with Keras in float64
  weights      after the last step, likewise
  logits       of the trained model, likewise
  h5           the weights of the export as .h5 in a Keras model, bit by bit, and its logits
  weights.h5   the same of Keras 3's own layout
  onnx         the logits of onnxruntime

Where an error of the first three is above its limit, Keras in float32 from the same weights and Keras in both from
weights moved by a rounding are measured too: the limit becomes ten times their error. Exits with 1 where a case failed,
with 77 without the packages.
"""

import os
import sys

from cases import Failed, Generator, SKIPPED
from random_models import RandomModel, random_loss, random_optimizer

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

LIMITS = {"loss": 2e-5, "weights": 1e-4, "logits": 2e-5}
# The yardstick's error, times this, is allowed: roundings of two programs differ by chance.
YARDSTICK_FACTOR = 10
MOVES = 5  # of the initial weights, by their rounding, for the yardstick
STEPS = 5
LARGEST_WEIGHT = 1e4


class Model:
    """The drawn case: config, data and initial weights."""

    def __init__(self, case):
        draw = self.draw = case.draw
        self.case = case
        self.classes = draw.choice([2, 3, 4, 5])
        self.loss, self.class_weight = random_loss(draw, self.classes)
        self.outputs = 1 if self.loss["loss"] == "binary_cross_entropy" else self.classes
        # Every fourth model has images of a few pixels and large dense layers.
        self.is_small = case.number % 4 == 3
        low, high = (1, 3) if self.is_small else (5, 12)
        self.shape = (draw.randint(low, high), draw.randint(low, high), draw.choice([1, 2, 3]))
        options = {"wide_windows": True, "units": [8, 100, 512, 1000, 1024], "dense_layers": [1, 2, 3]}
        self.layers = RandomModel(draw, self.shape, self.outputs, **(options if self.is_small else {})).layers
        self.optimizer = random_optimizer(draw)
        self.batch = draw.randint(4, 9)
        # The last batch of an epoch may be short.
        self.samples = self.batch * draw.randint(2, STEPS) + draw.choice([0, draw.randint(2, self.batch)])
        self.numbers = np.random.default_rng(draw.randrange(1 << 32))
        self.images = self.numbers.integers(0, 256, (self.samples, *self.shape), dtype=np.uint8)
        self.labels = self.numbers.integers(0, self.classes, self.samples)
        self.labels[:self.classes] = range(self.classes)
        self.normalize = self.draw_normalize()

    def draw_normalize(self):
        draw = self.draw
        if draw.random() < 0.6:
            return {}
        normalize = {"scale": draw.choice([1 / 255, 1 / 128, 0.01])}
        if draw.random() < 0.5:
            count = draw.choice([1, self.shape[2]])
            normalize["mean"] = [round(draw.uniform(-0.5, 0.5), 3) for _ in range(count)]
            normalize["std"] = [round(draw.uniform(0.5, 1.5), 3) for _ in range(count)]
        if self.shape[2] == 3 and draw.random() < 0.3:
            normalize["reverse_channels"] = True
        return normalize

    def config(self):
        train = {"max_steps": STEPS, "batch_size": self.batch}
        if self.class_weight:
            train["class_weight"] = {str(i): weight for i, weight in enumerate(self.class_weight)}
        data = {"format": "npz", "train": {"path": "data.npz"}, "num_classes": self.classes, "shuffle": False}
        if self.normalize:
            data["normalize"] = self.normalize
        config = {
            "name": "generated",
            "model": {"input": list(self.shape), "layers": self.layers, "weights": "initial.safetensors", **self.loss},
            "data": data, "optimizer": self.optimizer, "train": train,
            "run": {"dir": "run", "log_every": "1 steps", "checkpoint_every": f"{STEPS} steps", "tensorboard": False},
        }
        if self.draw.random() < 0.3 or self.is_small:
            lanes = self.draw.randint(2, 8) if self.is_small else 2
            config["parallel"] = {"threads": lanes, "lanes": lanes}
        return config

    def prepared(self, images, floats):
        """What the model gets of images."""
        x = images.astype(floats)
        if self.normalize.get("reverse_channels"):
            x = x[..., ::-1]
        x = x * self.normalize.get("scale", 1 / 255) - np.array(self.normalize.get("mean", [0.0]))
        return (x / np.array(self.normalize.get("std", [1.0]))).astype(floats)

    def initial_weights(self, model):
        """Weights that no layer hides: norms have factors and statistics of their own."""
        values = {}
        for name, weight in weight_names(model):
            kind, shape = name.split("/")[1], tuple(weight.shape)
            if kind in ("gamma", "moving_variance"):
                value = self.numbers.uniform(0.6, 1.4, shape)
            elif kind in ("bias", "beta", "moving_mean"):
                value = self.numbers.normal(0, 0.1, shape)
            elif kind == "alpha":
                value = self.numbers.uniform(-0.2, 0.5, shape)
            else:
                fan_in = np.prod(shape[:2]) if kind == "depthwise_kernel" else np.prod(shape[:-1])
                value = self.numbers.normal(0, 1.2 / np.sqrt(max(fan_in, 1)), shape)
            values[name] = value.astype(np.float32)
        return values

    def train(self, model, values):
        """Keras's losses, and the weights after the last step."""
        set_weights(model, values)
        floats = keras.config.floatx()
        # Keras's focal losses clip probabilities at epsilon, trainer's do not (configs/guide_from_keras.md).
        keras.config.set_epsilon(1e-30)
        loss = make_loss(self.loss["loss"], self.loss.get("label_smoothing", 0.0), self.classes, self.loss.get("focal"),
                         self.class_weight)
        optimizer = make_optimizer(self.optimizer)
        optimizer.build(model.trainable_variables)
        losses = []
        per_epoch = -(-self.samples // self.batch)
        for step in range(STEPS):
            first = step % per_epoch * self.batch
            images = self.prepared(self.images[first:first + self.batch], floats)
            labels = self.labels[first:first + self.batch]
            if self.loss["loss"] == "binary_cross_entropy":
                labels = labels.astype(floats).reshape(-1, 1)
            elif self.loss["loss"] == "mean_squared_error":
                labels = np.eye(self.classes, dtype=floats)[labels]
            with tensorflow.GradientTape() as tape:
                value = loss(labels, model(images, training=True))
                if model.losses:
                    value += tensorflow.add_n(model.losses)
            optimizer.apply(tape.gradient(value, model.trainable_variables))
            losses.append(float(value))
        return np.array(losses), read_weights(model)

    def logits(self, model, values=None):
        if values is not None:
            set_weights(model, values)
        return np.asarray(model(self.prepared(self.images, keras.config.floatx()), training=False), np.float64)


def set_weights(model, values):
    for name, weight in weight_names(model):
        weight.assign(values[name].reshape(weight.shape))


def read_weights(model):
    return {name: np.asarray(weight, np.float64) for name, weight in weight_names(model)}


def loss_error(losses, judge):
    return float(np.max(np.abs(losses - judge) / np.maximum(np.abs(judge), 1e-3) / (1 + np.arange(len(judge)))))


def weights_error(values, judge):
    """The largest distance of a tensor, as a share of its size."""
    worst, where = 0.0, ""
    for name, reference in judge.items():
        distance = np.linalg.norm(np.asarray(values[name], np.float64).reshape(reference.shape) - reference)
        error = float(distance / max(np.linalg.norm(reference), 0.05 * np.sqrt(reference.size)))
        if not error <= worst:
            worst, where = error, name
    return worst, where


def logits_error(logits, judge):
    return float(np.abs(logits - judge).max() / max(np.abs(judge).max(), 1e-2))


def trained(case, model):
    """trainer's losses, and the tensors of its last checkpoint."""
    config = case.write_config(model.config())
    losses = {}
    for line in case.run("train", config, "--json").stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "step":
            losses[event["step"]] = event["loss"]
    if sorted(losses) != list(range(1, STEPS + 1)):
        raise Failed("trainer runs", f"expected a step event for each of 1..{STEPS}, got {sorted(losses)}")
    checkpoint = sorted((case.folder / "run" / "checkpoints").glob("step-*.safetensors"))[-1]
    return np.array([losses[step] for step in sorted(losses)]), load_file(checkpoint)


def predicted(case):
    lines = case.run("predict", "run", "images.npy", "--json", "--logits").stdout.splitlines()
    return np.array([json.loads(line)["logits"] for line in lines], np.float64)


def compare_training(case, model, single, initial, losses, tensors, logits):
    """Holds losses, weights and logits against Keras in float64."""
    double = make_graph(model.shape, model.layers, "float64")
    judge_losses, judge_weights = model.train(double, initial)
    if not all(np.abs(value).max() < LARGEST_WEIGHT for value in judge_weights.values()):
        case.passed("the model diverges")  # and then two programs agree on nothing
        return None
    names = list(judge_weights)
    missing = [name for name in names if name not in tensors]
    if missing:
        raise Failed("weights", f"the checkpoint has no tensor {missing[0]}; it has {sorted(tensors)}")
    errors = {"loss": loss_error(losses, judge_losses), "logits": logits_error(
        logits, model.logits(double, {name: tensors[name] for name in names}))}
    errors["weights"], where = weights_error(tensors, judge_weights)
    limits = dict(LIMITS)
    # A NaN is an error, too.
    if not all(errors[row] <= limits[row] for row in limits):
        # Several moves: a bias before a batch norm has a gradient of rounding alone, which Adam and LAMB scale up. In
        # float64 it is too small to tell.
        moved = [{name: value.astype(np.float64) * (1 + 6e-8 * model.numbers.choice([-1, 1], value.shape))
                  for name, value in initial.items()} for _ in range(MOVES)]
        others = [model.train(double, weights) for weights in moved]
        keras.config.set_floatx("float32")
        others += [model.train(single, weights) for weights in (initial, *moved)]
        rough_logits = model.logits(single, {name: tensors[name] for name in names})
        keras.config.set_floatx("float64")
        yardsticks = {
            "loss": max(loss_error(values, judge_losses) for values, _ in others),
            "weights": max(weights_error(values, judge_weights)[0] for _, values in others),
            "logits": logits_error(rough_logits, model.logits(double, {name: tensors[name] for name in names})),
        }
        case.passed("a yardstick was needed")
        limits = {row: max(limits[row], YARDSTICK_FACTOR * yardsticks[row]) for row in limits}
    case.check("loss", errors["loss"], limits["loss"], f"trainer {losses.tolist()}, Keras {judge_losses.tolist()}: ")
    case.check("weights", errors["weights"], limits["weights"], f"{where} ")
    case.check("logits", errors["logits"], limits["logits"])
    return names


def compare_exports(case, model, single, names, tensors, logits):
    keras.config.set_floatx("float32")
    for file, row in (("x.h5", "h5"), ("x.weights.h5", "weights.h5")):
        case.run("export", "run", "--format", "keras_h5", "--output", file, "--quiet")
        set_weights(single, {name: np.zeros_like(tensors[name]) for name in names})
        try:
            single.load_weights(case.folder / file)
        except (ValueError, KeyError, OSError) as error:
            case.failed(row, f"Keras rejects the file: {str(error).splitlines()[0][:300]}")
            continue
        other = [name for name, weight in weight_names(single) if not np.array_equal(
            np.asarray(weight), tensors[name].reshape(weight.shape))]
        if other:
            case.failed(row, f"other values of {', '.join(other)} than in the checkpoint")
        else:
            case.check(row, logits_error(model.logits(single), logits), 1e-4)
    case.run("export", "run", "--format", "onnx", "--output", "x.onnx", "--quiet")
    onnx.checker.check_model(onnx.load(case.folder / "x.onnx"), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.folder / "x.onnx", options, providers=["CPUExecutionProvider"])
    theirs, = session.run(["logits"], {"images": model.images.astype(np.float32)})
    case.check("onnx", logits_error(theirs.reshape(logits.shape), logits), 1e-4)


def run_case(case):
    model = Model(case)
    np.savez(case.folder / "data.npz", images=model.images, labels=model.labels)
    np.save(case.folder / "images.npy", model.images)
    single = make_graph(model.shape, model.layers, "float32")
    initial = model.initial_weights(single)
    save_file(initial, case.folder / "initial.safetensors")
    losses, tensors = trained(case, model)
    logits = predicted(case)
    names = compare_training(case, model, single, initial, losses, tensors, logits)
    if names is not None:
        compare_exports(case, model, single, names, tensors, logits)


def main():
    generator = Generator("models", __doc__, cases=20)
    global json, keras, np, onnx, onnxruntime, tensorflow
    global load_file, make_graph, make_loss, make_optimizer, save_file, weight_names
    try:
        import json

        import numpy as np
        import onnx
        import onnxruntime
        import tensorflow
        from keras_graph import keras, make_graph
        from keras_model import make_loss, make_optimizer, weight_names
        from safetensors.numpy import load_file, save_file
    except ImportError as error:
        print(f"[skipped] {error}; run it as scripts/python_env.sh keras onnx onnxruntime -- {' '.join(sys.argv)}")
        return SKIPPED
    return generator.run(run_case)


if __name__ == "__main__":
    sys.exit(main())
