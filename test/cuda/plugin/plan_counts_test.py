#!/usr/bin/env python3
"""`trainer plan --device` counts the kernels of a step as the fake GPU gets them, and the bytes that they move.

    plan_counts_test.py TRAINER PLUGIN
"""

import json
import os
import re
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {model}
data: {{format: synthetic, synthetic: {{shape: {shape}, classes: 3, train_samples: 16, test_samples: 2}}}}
optimizer: {{{optimizer}}}
train: {{max_steps: 3, batch_size: 2, precision: {precision}}}
parallel: {{device: cuda, gpus: 1}}
run: {{dir: {run}, checkpoint_every: 100000 steps}}
"""
SGD = "sgd: {learning_rate: 0.05, momentum: 0.9}"
CNN = "{layers: [conv: {filters: 4, activation: relu}, max_pool, zero_pad: 1, flatten, dense: {units: 8, activation: tanh}, dense: 3]}"
NORMS = ("{layers: [conv: {filters: 4}, batch_norm, activation: relu, depthwise_conv: {}, batch_norm, activation: relu6, conv: {filters: 8}, batch_norm, "
         "activation: selu, dropout: 0.5, global_average_pool, dense: 3]}")
RESNET = "{backbone: {name: resnet50}, head: [global_average_pool, dense: 3]}"
CASES = {"CNN": (CNN, "[8, 8, 1]", SGD, "float32"), "CNN, bfloat16": (CNN, "[8, 8, 1]", SGD, "bfloat16"),
         "loss scale": (NORMS, "[8, 8, 3]", SGD, "float16"), "norms": (NORMS, "[8, 8, 3]", SGD, "bfloat16"),
         "clipped": (NORMS, "[8, 8, 3]", "adam: {learning_rate: 0.01}, global_clip_norm: 1", "bfloat16"),
         "ResNet50": (RESNET, "[32, 32, 3]", SGD, "bfloat16")}


def run(arguments, **variables):
    done = subprocess.run([TRAINER, *arguments], env=dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, **variables), capture_output=True,
                          text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done


def check_bytes(layer, expected):
    assert layer["bytes"] == expected, f"{layer['name']}: planned {layer['bytes']} bytes, expected {expected}"


def check_conv(layers):
    """The bytes of a convolution of float32 images [2, 8, 8, 1] with 4 filters, by what each kernel reads and writes."""
    x, y, kernel, bias = 4 * 2 * 8 * 8, 4 * 2 * 6 * 6 * 4, 4 * 3 * 3 * 4, 4 * 4
    # The gradient of the kernel is written as cuDNN orders it and counted as the graph does; dy is read for the bias again.
    backward = x + y + 2 * kernel + y + bias
    check_bytes(layers["conv2d"], x + kernel + bias + y + backward)


def check_norm(layers):
    """The bytes of a batch norm with ReLU in bfloat16, [2, 6, 6, 4], by what each kernel reads and writes."""
    image, channels = 2 * 6 * 6 * 4 * 2, 4 * 4
    mask = 2 * 6 * 6 * 4  # a byte for each value, since 4 channels are less than the 8 that one load of a thread has
    forward = [image, image, image, mask, 4 * channels]  # x for the statistics, x, y; gamma, beta, mean, inverse deviation
    sums, gradient = [image, image, mask], [image, image, mask, image]  # x, dy; the same and dx
    backward = [*sums, *gradient, 5 * channels]  # the gradients of gamma and beta; gamma, mean, inverse deviation
    check_bytes(layers["batch_normalization"], sum(forward + backward))


CHECKS = {"CNN": check_conv, "norms": check_norm}


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.yaml")
        for name, (model, shape, optimizer, precision) in CASES.items():
            with open(config, "w", encoding="utf-8") as file:
                file.write(CONFIG.format(model=model, shape=shape, optimizer=optimizer, precision=precision, run=os.path.join(folder, "run")))
            planned = json.loads(run(["plan", config, "--device", "h100", "--json"]).stdout)["gpu"]["predicted"]
            work = planned["work"]
            printed = run(["train", config, "--quiet", "--overwrite"], TRAINER_FAKE_CUDA_COUNT="1").stderr
            kernels, copies = map(int, re.search(r"largest graph: (\d+) kernels, (\d+) copies and fills", printed).groups())
            print(f"{name}: {kernels} kernels, {copies} copies and fills, {planned['bytes_per_step']:.3g} bytes", flush=True)
            assert (planned["kernels_per_step"], work["copies"]) == (kernels, copies), f"{name}: planned {work}, the fake got {kernels, copies}"
            assert work["kernels"] + work["library_calls"] == kernels and work["library_calls"] > 0, work
            layers = planned["layers"]
            assert planned["bytes_per_step"] > sum(layer["bytes"] for layer in layers) > 0, name
            if name in CHECKS:
                CHECKS[name]({layer["name"]: layer for layer in layers})


if __name__ == "__main__":
    main()
