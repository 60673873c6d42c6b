#!/usr/bin/env python3
"""Compares configs/cifar10_resnet20.yaml with the network of Keras's example cifar10_resnet (version 1, n = 3), which
is built here from Keras's layers alone: parameters, outputs in evaluation, and gradients of one training step. For
gradients relu is replaced by tanh in both: where a number rounds to the other side of relu's 0, all gradients before it
differ by more than any fault of interest.

    scripts/python_env.sh keras pyyaml -- test/keras/compare_resnet20.py PROBE

PROBE is the program trainer_probe of the build. Outputs have to be within 1e-5 of Keras's, relative to their norm, and
each gradient within 1e-4 of its norm of Keras in float64. Else exit code 5.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import yaml  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/cifar10_resnet20.yaml"
OUTPUTS, GRADIENTS, IMAGES, BATCH = 1e-5, 1e-4, 24, 16
L2 = 1e-4


def convolution(x, filters, size=3, strides=1, batch_norm=True, activation=None):
    x = keras.layers.Conv2D(filters, size, strides, "same", kernel_initializer="he_normal",
                            kernel_regularizer=keras.regularizers.L2(L2))(x)
    if batch_norm:
        x = keras.layers.BatchNormalization()(x)
    return keras.layers.Activation(activation)(x) if activation else x


def resnet20(activation):
    keras.backend.clear_session()
    inputs = keras.Input((32, 32, 3))
    x = convolution(inputs, 16, activation=activation)
    for stack, filters in enumerate((16, 32, 64)):
        for block in range(3):
            strides = 2 if stack > 0 and block == 0 else 1
            y = convolution(x, filters, strides=strides, activation=activation)
            y = convolution(y, filters)
            if strides == 2:
                x = convolution(x, filters, 1, strides, batch_norm=False)
            x = keras.layers.Activation(activation)(keras.layers.Add()([y, x]))
    x = keras.layers.Flatten()(keras.layers.AveragePooling2D(8)(x))
    return keras.Model(inputs, keras.layers.Dense(10, kernel_initializer="he_normal")(x))


def model_of(dtype, activation, weights=None):
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model = resnet20(activation)
    if weights is not None:
        model.set_weights(weights)
    return model


def name_of(weight):
    return "/".join(weight.path.split("/")[-2:])


def random_weights(model):
    random = np.random.default_rng(7)
    values = []
    for weight in model.weights:
        if len(weight.shape) == 4:
            value = random.normal(0, np.sqrt(2 / np.prod(weight.shape[:3])), weight.shape)
        elif weight.name in ("gamma", "moving_variance"):
            value = random.uniform(0.5, 1.0, weight.shape)
        else:
            value = random.normal(0, 0.05, weight.shape)
        values.append(value.astype(np.float32))
    return values


def gradients(model, images, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(images, training=True) - targets)) + tf.add_n(model.losses)
    values = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return {name_of(weight): np.asarray(value) for weight, value in zip(model.trainable_weights, values)}


def relative(ours, theirs):
    norm = np.linalg.norm(theirs.astype(np.float64))
    return float(np.linalg.norm((ours - theirs).astype(np.float64)) / max(norm, 1e-30))


def run_probe(probe, folder, activation, weights):
    """The config's own model with that activation, and what the probe needs in place of the other sections."""
    save_file(weights, folder / "weights.safetensors")
    model = yaml.safe_load(CONFIG.read_text().replace("relu", activation))["model"]
    model.update(weights=str(folder / "weights.safetensors"), loss="mean_squared_error")
    config = {"model": model, "data": {"format": "synthetic", "normalize": {"scale": 1}},
              "optimizer": {"sgd": {"learning_rate": 1, "momentum": 0.5}},
              "train": {"max_steps": 1, "batch_size": BATCH}}
    (folder / "probe.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    done = subprocess.run([probe, folder / "probe.yaml", folder / "in.safetensors", folder / "out.safetensors"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trainer_probe failed with {done.returncode}: {done.stderr}")
    return load_file(folder / "out.safetensors")


def compare(probe, activation):
    """Our outputs and gradients, Keras's outputs, its gradients in float64, and its model."""
    random = np.random.default_rng(3)
    images = random.normal(0, 1, (IMAGES, 32, 32, 3)).astype(np.float32)
    targets = random.normal(0, 1, (IMAGES, 10)).astype(np.float32)
    model = model_of("float32", activation)
    weights = random_weights(model)
    model.set_weights(weights)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save_file({"images": images, "targets": targets, "batch": np.array([BATCH], np.float32)},
                  folder / "in.safetensors")
        named = {name_of(weight): value for weight, value in zip(model.weights, weights)}
        ours = run_probe(probe, folder, activation, named)
    outputs = np.asarray(model(images, training=False))
    judge = gradients(model_of("float64", activation, weights), images[:BATCH].astype(np.float64),
                      targets[:BATCH].astype(np.float64))
    return ours, outputs, judge, model


def main():
    probe = sys.argv[1]
    ours, outputs, _, model = compare(probe, "relu")
    error = relative(ours["outputs"], outputs)
    print(f"outputs of {IMAGES} images: {error:.2e} of their norm (allowed {OUTPUTS:.0e})")

    ours, _, judge, _ = compare(probe, "tanh")
    names = {name.removesuffix("/gradient") for name in ours if name.endswith("/gradient")}
    same_names = names == set(judge)
    # A bias before batch norm has the gradient 0, but for rounding.
    largest = max(float(np.linalg.norm(value)) for value in judge.values())
    zero = {name for name, value in judge.items() if float(np.linalg.norm(value)) < 1e-12 * largest}
    noise = max(float(np.linalg.norm(ours[f"{name}/gradient"])) / largest for name in zero & names)
    worst = max((relative(ours[f"{name}/gradient"], judge[name]), name) for name in (names & set(judge)) - zero)
    print(f"parameters {model.count_params():,} in {len(model.weights)} tensors, names equal: {same_names}")
    print(f"worst gradient of {len(names) - len(zero)}: {worst[1]} {worst[0]:.2e} (allowed {GRADIENTS:.0e})")
    print(f"{len(zero)} gradients that are 0: at most {noise:.2e} of the largest (allowed {GRADIENTS:.0e})")
    if not same_names or error > OUTPUTS or worst[0] > GRADIENTS or noise > GRADIENTS:
        sys.exit(5)


main()
