#!/usr/bin/env python3
"""Writes test/keras/weights/: one small network in every file that Keras 3 writes, for the tests of weight import.

    scripts/python_env.sh keras -- test/keras/make_weight_files.py

The weights follow a formula that the test repeats: element i of weight k of the layers in order is
(k + 1) + i / 1024. In nested.h5 the network stands in another model.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "weights"


def network():
    return keras.Sequential([
        keras.Input((8, 8, 3)),
        layers.Conv2D(4, 3, name="first_conv"),
        layers.BatchNormalization(name="first_bn"),
        layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False, name="deep"),
        layers.SeparableConv2D(5, 1, name="both"),
        layers.ReLU(6.0, name="cut"),
        layers.GlobalAveragePooling2D(name="pool"),
        layers.Dropout(0.5, name="drop"),
        layers.Dense(3, name="last"),
    ], name="network")


def fill(model):
    # Keras lists a layer's trained weights first; the formula numbers them as a layer has them.
    k = 0
    for layer in model.layers:
        for weight in layer.weights:
            values = (k + 1) + np.arange(np.prod(weight.shape)) / 1024
            weight.assign(values.reshape(weight.shape).astype(np.float32))
            k += 1


def write_old(model, path):
    """The layout of the applications' files; Keras 1's names for the first layer, as VGG16's file has them."""
    with h5py.File(path, "w") as out:
        out.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = out.create_group(layer.name)
            names = [f"{layer.name}/{weight.name}:0" for weight in layer.weights]
            if layer.name == "first_conv":
                names = ["first_conv_W_1:0", "first_conv_b_1:0"]
            if layer.name == "deep":
                names = ["deep/depthwise_kernel:0"]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.weights):
                group[name] = np.asarray(weight)


def main():
    FOLDER.mkdir(exist_ok=True)
    model = network()
    fill(model)
    write_old(model, FOLDER / "applications.h5")
    model.save(FOLDER / "keras3.keras")
    nested = keras.Sequential([keras.Input((8, 8, 3)), model, layers.Dense(2, name="more")])
    nested.save(FOLDER / "nested.h5")
    np.savez_compressed(FOLDER / "arrays.npz", **{
        f"{layer.name}/{weight.name}": np.asarray(weight) for layer in model.layers for weight in layer.weights})
    for path in sorted(FOLDER.iterdir()):
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
