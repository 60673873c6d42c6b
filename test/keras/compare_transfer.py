#!/usr/bin/env python3
"""Trains configs/octdl_mobilenet_v2.yaml with trainer and with Keras, from the same weights, on the same images with the
same recipe, and prints both test accuracies with their 95 % intervals, pooled over the seeds.

    scripts/python_env.sh keras -- test/keras/compare_transfer.py TRAINER --data OCTDL --weights MOBILENET.h5

OCTDL has train/ and test/, each with a folder a class. The validation split is given up, so that both train on all of
train/; Keras takes the learning rate of every step from trainer's log. Order, flips, dropout and the head's first
weights are each side's own. Fails (exit code 5) when trainer's interval lies below Keras's.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/octdl_mobilenet_v2.yaml"
CLASSES = ["AMD", "DME", "ERM", "NO"]
BATCH, FROZEN, BACKBONE_RATE, DROPOUT = 16, -38, 0.1, 0.3  # as the config has them


def wilson(correct, count, z=1.959964):
    p = correct / count
    middle, spread = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)


def load(folder):
    images, labels = [], []
    for label, name in enumerate(CLASSES):
        for path in sorted((folder / name).iterdir()):
            image = Image.open(path).convert("RGB").resize((224, 224), Image.BILINEAR)
            images.append(np.asarray(image, np.float32) / 127.5 - 1)
            labels.append(label)
    return np.stack(images), np.array(labels, np.int32)


def train_ours(options, seed):
    """Correct test images, their number, and the learning rate of every step."""
    with tempfile.TemporaryDirectory() as run:
        command = [
            options.trainer, "train", CONFIG, "--json", "--seed", str(seed), "--run-dir", f"{run}/run",
            "--epochs", str(options.epochs), "--set", "data.validation_split=0", "--set", "run.log_every=1 steps",
        ]
        environment = {**os.environ, "OCTDL_DIR": str(options.data), "WEIGHTS_DIR": str(options.weights.parent)}
        lines = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    events = [json.loads(line) for line in lines]
    test = next(event for event in events if event["event"] == "finished")["metrics"]["test"]
    rates = [event["learning_rate"] for event in events if event["event"] == "step"]
    return round(test["accuracy"] * test["count"]), test["count"], rates


def train_keras(options, seed, rates, train, test):
    keras.utils.set_random_seed(seed)
    backbone = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(224, 224, 3))
    backbone.load_weights(options.weights)
    for layer in backbone.layers[:FROZEN]:
        layer.trainable = False
    for layer in backbone.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 1.0  # the call below is an inference call: its statistics do not move
    head = keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(DROPOUT), keras.layers.Dense(len(CLASSES))])
    head.build(backbone.output_shape)
    groups = [(backbone.trainable_variables, BACKBONE_RATE), (head.trainable_variables, 1.0)]
    optimizers = []
    for variables, _ in groups:
        optimizers.append(keras.optimizers.Adam(1.0))
        optimizers[-1].build(variables)

    @tf.function(reduce_retracing=True)
    def gradients(x, y):
        with tf.GradientTape() as tape:
            logits = head(backbone(x, training=False), training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        return tape.gradient(loss, [variables for variables, _ in groups])

    images, labels = train
    random = np.random.default_rng(seed)
    step = 0
    for _ in range(options.epochs):
        order = random.permutation(len(images))
        for first in range(0, len(order), BATCH):
            index = order[first : first + BATCH]
            x = images[index]
            flipped = random.random(len(index)) < 0.5
            x[flipped] = x[flipped, :, ::-1]
            found = gradients(tf.constant(x), tf.constant(labels[index]))
            for optimizer, (variables, scale), gradient in zip(optimizers, groups, found):
                optimizer.learning_rate = rates[step] * scale
                optimizer.apply(gradient, variables)
            step += 1
    images, labels = test
    logits = [head(backbone(images[i : i + 64], training=False), training=False).numpy() for i in range(0, len(images), 64)]
    return int(np.sum(np.concatenate(logits).argmax(1) == labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder with train/ and test/")
    parser.add_argument("--weights", type=pathlib.Path, required=True, help="Keras's MobileNetV2 file without top")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    train, test = load(options.data / "train"), load(options.data / "test")
    ours = theirs = count = 0
    for seed in range(1, options.seeds + 1):
        start = time.monotonic()
        correct, images, rates = train_ours(options, seed)
        middle = time.monotonic()
        peer = train_keras(options, seed, rates, train, test)
        print(
            f"seed {seed}: trainer {correct} of {images} ({middle - start:.0f} s), Keras {peer} ({time.monotonic() - middle:.0f} s)",
            flush=True,
        )
        ours, theirs, count = ours + correct, theirs + peer, count + images
    for name, correct in (("trainer", ours), ("Keras", theirs)):
        low, high = wilson(correct, count)
        print(f"{name:8} {100 * correct / count:.1f} %  (95 % interval {100 * low:.1f} to {100 * high:.1f}, {count} test images over {options.seeds} seeds)")
    return 5 if wilson(ours, count)[1] < wilson(theirs, count)[0] else 0


if __name__ == "__main__":
    sys.exit(main())
