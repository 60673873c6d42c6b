#!/usr/bin/env python3
"""Compares the training on images with several labels with Keras: the loss of each of 50 steps.

    scripts/python_env.sh numpy safetensors tensorflow-cpu -- test/keras/compare_multi_label.py TRAINER

Some labels are unknown; Keras gives their terms a sample weight of 0. The second training weighs positives and labels,
for which TensorFlow has tf.nn.weighted_cross_entropy_with_logits(). Exits with 1 if a loss differs by more than 1e-4 of
itself. Prints the largest difference.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file

IMAGES, SIDE, LABELS, STEPS, BATCH, RATE = 80, 10, 4, 50, 16, 0.5
TOLERANCE = 1e-4
CONFIG = """model:
  input: [{side}, {side}, 1]
  loss: binary_cross_entropy
  layers: [flatten, dense: {{units: 12, activation: relu}}, dense: {labels}]
data: {{format: csv, path: {folder}, shuffle: false}}
optimizer: {{sgd: {{learning_rate: {rate}}}}}
train: {{max_steps: {steps}, batch_size: {batch}}}
parallel: {{threads: 1}}
"""


def write_data(folder):
    random = np.random.default_rng(7)
    targets = (random.random((IMAGES, LABELS)) < [0.5, 0.3, 0.2, 0.1]).astype(np.float32)
    known = random.random((IMAGES, LABELS)) > 0.2
    images = random.integers(0, 120, (IMAGES, SIDE, SIDE)).astype(np.uint8)
    images[:, :LABELS, :LABELS] += (targets * 120).astype(np.uint8)[:, None, :]
    rows = ["image," + ",".join(f"label{i}" for i in range(LABELS))]
    for i in range(IMAGES):
        (folder / f"{i}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + images[i].tobytes())
        cells = [str(int(t)) if k else "" for t, k in zip(targets[i], known[i])]
        rows.append(f"{i}.pgm," + ",".join(cells))
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    return images.astype(np.float32)[..., None] / 255, targets, known.astype(np.float32)


def train_with_keras(weights, images, targets, known, positive, own):
    model = keras.Sequential([keras.Input((SIDE, SIDE, 1)), keras.layers.Flatten(),
                              keras.layers.Dense(12, activation="relu"), keras.layers.Dense(LABELS)])
    model.set_weights(weights)
    plain = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(RATE)
    losses = []
    for step in range(STEPS):
        rows = slice(step * BATCH % IMAGES, step * BATCH % IMAGES + BATCH)
        y, mask = targets[rows], known[rows]
        with tf.GradientTape() as tape:
            logits = model(images[rows], training=True)
            if positive is None:  # a term for each label, as a sample of its own
                loss = plain(y[..., None], logits[..., None], sample_weight=mask[..., None])
            else:
                terms = tf.nn.weighted_cross_entropy_with_logits(y, logits, np.float32(positive))
                loss = tf.reduce_mean(terms * mask * np.float32(own))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        losses.append(float(loss))
    return losses


def train(trainer, folder, settings):
    config, run, start = folder / "config.yaml", folder / "run", folder / "start.safetensors"
    config.write_text(CONFIG.format(side=SIDE, labels=LABELS, folder=folder, rate=RATE, steps=STEPS, batch=BATCH))
    overrides = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([trainer, "export", config, "--format", "safetensors", "--output", start, "--overwrite"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([trainer, "train", config, "--run-dir", run, "--overwrite", "--quiet", *overrides], check=True,
                   stdout=subprocess.DEVNULL)
    with open(run / "ledger.csv", newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
    tensors = load_file(start)
    names = sorted({name.rsplit("/", 1)[0] for name in tensors})
    weights = [tensors[f"{name}/{kind}"] for name in names for kind in ("kernel", "bias")]
    return losses, weights


def main():
    trainer, worst = sys.argv[1], 0.0
    positive, own = [2.0, 3.0, 0.5, 8.0], [1.0, 2.0, 1.0, 0.25]
    maps = ["{" + ", ".join(f"label{i}: {w}" for i, w in enumerate(values)) + "}" for values in (positive, own)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images, targets, known = write_data(folder)
        for settings, weights_of_terms in (([], (None, None)),
                                           ([f"train.pos_weight={maps[0]}", f"train.class_weight={maps[1]}"],
                                            (positive, own))):
            ours, weights = train(trainer, folder, settings)
            theirs = train_with_keras(weights, images, targets, known, *weights_of_terms)
            assert len(ours) == len(theirs) == STEPS, (len(ours), len(theirs))
            difference = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
            print(f"{'weighted' if settings else 'plain'}: {STEPS} steps, loss {theirs[0]:.6f} to {theirs[-1]:.6f}, "
                  f"largest relative difference {difference:.2e}")
            worst = max(worst, difference)
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
