#!/usr/bin/env python3
"""Gives trainer the weights of Keras's own models, exports them as Keras's files, and compares what Keras says of both.

    scripts/python_env.sh keras -- test/keras/compare_export.py build/release/apps/trainer/trainer [BACKBONE...]

TRAINER is the program of the build; BACKBONE is one of those below, all when left out. Needs Keras and Pillow, which
scripts/python_env.sh installs. Each backbone has random weights and the batch norm statistics of the images, so that its
features depend on them. Prints how much log-probabilities vary between images, and how much those of Keras with x.h5
and x.weights.h5 differ at most from Keras's before the export and from trainer's. Exits with 1 where the first is more
than 1e-5 of the variation, the second more than 3e-3 (of ResNet50, Keras in float32 differs from float64 by 2e-4) or
Keras refuses a file, with 77 without Keras.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Name in keras.applications, options, and how images are prepared; EfficientNet's model does that itself.
APPLICATIONS = {
    "vgg16": ("VGG16", {}, "caffe"), "mobilenet_v2": ("MobileNetV2", {}, "tf"), "resnet50": ("ResNet50", {}, "caffe"),
    "densenet121": ("DenseNet121", {}, "torch"),
    "mobilenet_v3_small": ("MobileNetV3Small", {"include_preprocessing": False}, "tf"),
    "convnext_tiny": ("ConvNeXtTiny", {"include_preprocessing": False}, "torch"),
    "efficientnet_b0": ("EfficientNetB0", {}, ""), "efficientnet_b1": ("EfficientNetB1", {}, ""),
}
COMMAND = "scripts/python_env.sh keras -- test/keras/compare_export.py"
SIDE, CLASSES, IMAGES = 64, 3, 6
# Of the variation: of the weights alone, and of another program's arithmetic.
SAME, NEAR = 1e-5, 3e-3


def load_packages():
    global keras, np, Image
    import keras
    import numpy as np
    from PIL import Image


def prepared(images, mode):
    images = images.astype(np.float32)
    if not mode:
        return images
    if mode == "tf":
        return images / 127.5 - 1
    if mode == "caffe":
        return images[..., ::-1] - np.array([103.939, 116.779, 123.68], np.float32)
    return (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])


def keras_model(name):
    keras.backend.clear_session()
    application, options, _ = APPLICATIONS[name]
    base = getattr(keras.applications, application)(weights=None, include_top=False, input_shape=(SIDE, SIDE, 3), **options)
    x = keras.layers.GlobalAveragePooling2D()(base.output)
    return keras.Model(base.input, keras.layers.Dense(CLASSES)(x))


def with_features(model, x):
    """Gives batch norm the statistics of x, and the head weights that tell its features apart."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
        if isinstance(layer, keras.layers.Normalization):
            deviation = np.array([0.229, 0.224, 0.225], np.float32)
            layer.set_weights([np.array([0.485, 0.456, 0.406], np.float32), deviation**2, np.array(0)])
            layer.finalize_state()
    model(x, training=True)
    features = np.asarray(keras.Model(model.input, model.layers[-2].output)(x))
    kernel, bias = model.layers[-1].get_weights()
    model.layers[-1].set_weights([kernel / max(features.std(axis=0).mean(), 1e-6), bias])


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def log_probabilities(model, x):
    return np.asarray(keras.ops.log_softmax(model.predict(x, verbose=0).astype(np.float64)))


def predicted(trainer, name, folder):
    """Drawn images, a config of the backbone with Keras's weights, and Keras's and its log-probabilities for the images."""
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    for i, image in enumerate(images):
        path = folder / "images" / str(i % CLASSES) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    config = folder / "config.yaml"
    config.write_text(json.dumps({
        "model": {"backbone": {"name": name, "freeze": "none"}, "head": ["global_average_pool", {"dense": CLASSES}]},
        "data": {"format": "image_folder", "resize": [SIDE, SIDE], "train": {"path": str(folder / "images")}},
        "train": {"epochs": 1, "batch_size": IMAGES},
    }))
    keras.utils.set_random_seed(1)
    model = keras_model(name)
    x = prepared(images, APPLICATIONS[name][2])
    with_features(model, x)
    model.save_weights(folder / "keras.weights.h5")
    files = [folder / "images" / str(i % CLASSES) / f"{i}.png" for i in range(IMAGES)]
    lines = run(trainer, "predict", config, "--weights", folder / "keras.weights.h5", *files, "--json").splitlines()
    ours = np.log([list(json.loads(line)["probabilities"].values()) for line in lines])
    return x, config, log_probabilities(model, x), ours


def compare(trainer, name, folder):
    """Returns whether Keras loads both files of the backbone and computes nearly the same with them."""
    x, config, before, ours = predicted(trainer, name, folder)
    variation = before.std(axis=0).max()
    same = True
    for file in ("x.h5", "x.weights.h5"):
        run(trainer, "export", config, "--weights", folder / "keras.weights.h5", "--format", "keras_h5",
            "--output", folder / file, "--quiet")
        model = keras_model(name)
        try:
            model.load_weights(folder / file)
        except ValueError as error:
            print(f"{name} {file}: rejected: {str(error).splitlines()[0][:200]}")
            same = False
            continue
        theirs = log_probabilities(model, x)
        changed, differ = np.abs(theirs - before).max(), np.abs(theirs - ours).max()
        print(f"{name} {file}: vary by {variation:.2g}, changed by {changed:.2g}, differ from trainer's by {differ:.2g}",
              flush=True)
        same = same and changed <= SAME * variation and differ <= NEAR * variation
    return same


def compare_backbones(description, command, backbones, compare_one):
    """Runs compare_one(trainer, name, folder) for the backbones of the command line, or for all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path, metavar="TRAINER", help="the program trainer")
    parser.add_argument("backbones", nargs="*", metavar="BACKBONE", help=", ".join(backbones))
    if len(sys.argv) == 1:
        parser.print_help()
        return 2
    options = parser.parse_args()
    for name in options.backbones:
        if name not in backbones:
            parser.error(f"there is no backbone '{name}'; there are {', '.join(backbones)}")
    try:
        load_packages()
    except ImportError as error:
        print(f"[skipped] {error}; run it as {command} {' '.join(sys.argv[1:])}")
        return 77
    failed = False
    for name in options.backbones or backbones:
        with tempfile.TemporaryDirectory() as folder:
            failed = not compare_one(options.trainer, name, pathlib.Path(folder)) or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(compare_backbones(__doc__, COMMAND, APPLICATIONS, compare))
