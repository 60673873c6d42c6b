#!/usr/bin/env python3
"""Writes test/keras/backbones/*.txt: the layers of Keras's applications, as their summaries list them.

One line a layer: name, class, shape of the output without the batch, parameters, layers before it.
Automatic names, which depend on what was built before, are written without their number.
"""

import os
import re
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras  # noqa: E402

APPLICATIONS = {
    "vgg16": keras.applications.VGG16,
    "mobilenet_v2": keras.applications.MobileNetV2,
    "resnet50": keras.applications.ResNet50,
}
CASES = {
    "vgg16": dict(name="vgg16", input_shape=(224, 224, 3), include_top=False),
    "vgg16_top": dict(name="vgg16", input_shape=(64, 96, 3), include_top=True, classes=10),
    "mobilenet_v2": dict(name="mobilenet_v2", input_shape=(224, 224, 3), include_top=False),
    "mobilenet_v2_odd": dict(name="mobilenet_v2", input_shape=(101, 67, 3), alpha=0.35, include_top=False, pooling="avg"),
    "mobilenet_v2_wide": dict(name="mobilenet_v2", input_shape=(96, 96, 3), alpha=1.3, include_top=False, pooling="max"),
    "mobilenet_v2_top": dict(name="mobilenet_v2", input_shape=(160, 160, 3), alpha=0.5, include_top=True, classes=7),
    "resnet50": dict(name="resnet50", input_shape=(224, 224, 3), include_top=False),
    "resnet50_top": dict(name="resnet50", input_shape=(97, 64, 3), include_top=True, classes=5),
}
AUTOMATIC = re.compile(r"^((?:input_layer|global_\w+?_pooling2d)(?:_\d+)?)$")


def label(name):
    return re.sub(r"_\d+$", "", name) if AUTOMATIC.match(name) else name


def inputs_of(layer):
    tensors = layer.input if isinstance(layer.input, list) else [layer.input]
    return ",".join(label(tensor._keras_history.operation.name) for tensor in tensors)


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "backbones")
    os.makedirs(folder, exist_ok=True)
    for case, settings in CASES.items():
        settings = dict(settings)
        model = APPLICATIONS[settings.pop("name")](weights=None, **settings)
        with open(os.path.join(folder, case + ".txt"), "w") as out:
            for layer in model.layers:
                shape = layer.output.shape[1:]
                is_input = isinstance(layer, keras.layers.InputLayer)
                out.write(" ".join([
                    "input" if is_input else label(layer.name), type(layer).__name__, "x".join(map(str, shape)),
                    str(layer.count_params()), "-" if is_input else inputs_of(layer).replace("input_layer", "input"),
                ]) + "\n")
        print(case, len(model.layers), model.count_params())


if __name__ == "__main__":
    sys.exit(main())
