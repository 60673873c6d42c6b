#!/usr/bin/env python3
"""Exports backbones with heads as Keras's files, loads them into Keras's own models and compares what they say.

    scripts/python_env.sh keras pillow -- test/keras/compare_export.py build/release/apps/trainer/trainer [BACKBONE...]

Each backbone has random weights and a step of training, so that batch norm's statistics are none that Keras starts from.
Prints the largest difference of log-probabilities, of x.h5 and x.weights.h5; exits 1 above 1e-4, or where Keras refuses
a file.
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
import keras  # noqa: E402
import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

A = keras.applications
APPLICATIONS = {
    "vgg16": (A.VGG16, {}, "caffe"), "mobilenet_v2": (A.MobileNetV2, {}, "tf"), "resnet50": (A.ResNet50, {}, "caffe"),
    "densenet121": (A.DenseNet121, {}, "torch"),
    "mobilenet_v3_small": (A.MobileNetV3Small, {"include_preprocessing": False}, "tf"),
    "convnext_tiny": (A.ConvNeXtTiny, {"include_preprocessing": False}, "torch"),
    "efficientnet_b0": (A.EfficientNetB0, {}, "torch"),
}
SIDE, CLASSES, IMAGES, LIMIT = 64, 3, 6, 1e-4


def prepared(images, mode):
    images = images.astype(np.float32)
    if mode == "tf":
        return images / 127.5 - 1
    if mode == "caffe":
        return images[..., ::-1] - np.array([103.939, 116.779, 123.68], np.float32)
    return (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])


def keras_model(name):
    keras.backend.clear_session()
    application, options, _ = APPLICATIONS[name]
    base = application(weights=None, include_top=False, input_shape=(SIDE, SIDE, 3), **options)
    x = keras.layers.GlobalAveragePooling2D()(base.output)
    return keras.Model(base.input, keras.layers.Dense(CLASSES)(x))


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(trainer, name, folder):
    """A run of two steps on drawn images, and its probabilities for these images."""
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
        "optimizer": {"sgd": {"learning_rate": 0.01}}, "train": {"max_steps": 2, "batch_size": IMAGES},
    }))
    run(trainer, "train", config, "--run-dir", folder / "run", "--quiet")
    files = [folder / "images" / str(i % CLASSES) / f"{i}.png" for i in range(IMAGES)]
    lines = run(trainer, "predict", folder / "run", *files, "--json").splitlines()
    return images, [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path)
    parser.add_argument("backbones", nargs="*", default=list(APPLICATIONS))
    options = parser.parse_args()
    failed = False
    for name in options.backbones:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            images, ours = trained(options.trainer, name, folder)
            log_p = np.log([list(row["probabilities"].values()) for row in ours])
            for file in ("x.h5", "x.weights.h5"):
                run(options.trainer, "export", folder / "run", "--format", "keras_h5", "--output", folder / file, "--quiet")
                model = keras_model(name)
                try:
                    model.load_weights(folder / file)
                except ValueError as error:
                    print(f"{name} {file}: refused: {str(error).splitlines()[0][:200]}")
                    failed = True
                    continue
                x = images if name.startswith("efficientnet") else prepared(images, APPLICATIONS[name][2])
                theirs = np.asarray(keras.ops.log_softmax(model.predict(x, verbose=0).astype(np.float64)))
                difference = np.abs(theirs - log_p).max()
                print(f"{name} {file}: {difference:.2g}")
                failed = failed or not difference <= LIMIT
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
