#!/usr/bin/env python3
"""Writes test/keras/backbones/features.json: what Keras's applications make of one image, with weights of a formula.

    scripts/python_env.sh keras -- test/keras/make_backbone_features.py [NAME...]

All cases, or those named; the others stay as they are. Each has the layers with weights in Keras's order, and of the
features the norm and every n-th number. Keras computes in float64. ResNet18 and 34, which Keras lacks, are built of
Keras's layers as torchvision defines them, with torchvision's names.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras  # noqa: E402
import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "backbones" / "features.json"
SIZE = (64, 96, 3)
APPLICATIONS = {
    "vgg16": (keras.applications.VGG16, {}),
    "mobilenet_v2": (keras.applications.MobileNetV2, {}),
    "resnet50": (keras.applications.ResNet50, {}),
    "resnet101": (keras.applications.ResNet101, {}),
    "densenet121": (keras.applications.DenseNet121, {}),
    "efficientnet_b0": (keras.applications.EfficientNetB0, {}),
    "efficientnet_b1": (keras.applications.EfficientNetB1, {}),
    "efficientnet_b2": (keras.applications.EfficientNetB2, {}),
    "efficientnet_b3": (keras.applications.EfficientNetB3, {}),
    "mobilenet_v3_small": (keras.applications.MobileNetV3Small, {"include_preprocessing": False}),
    "mobilenet_v3_large": (keras.applications.MobileNetV3Large, {"include_preprocessing": False}),
    "convnext_tiny": (keras.applications.ConvNeXtTiny, {"include_preprocessing": False}),
    "xception": (keras.applications.Xception, {"input_shape": (None, None, 3)}),  # SIZE is below its least
}


def basic_resnet(blocks):
    """torchvision.models.resnet18 and 34 without pooling and classifier."""
    layers = keras.layers

    def convolution(x, name, filters, size, stride):
        if size > 1:
            x = layers.ZeroPadding2D(size // 2)(x)
        x = layers.Conv2D(filters, size, strides=stride, use_bias=False, name=name)(x)
        return x

    def norm(x, name):
        return layers.BatchNormalization(epsilon=1e-5, momentum=0.9, name=name)(x)

    inputs = x = keras.Input(SIZE)
    x = layers.ReLU()(norm(convolution(x, "conv1", 64, 7, 2), "bn1"))
    x = layers.ZeroPadding2D(1)(x)  # of a relu's output, so that zeros never win
    x = layers.MaxPooling2D(3, 2)(x)
    for stage, count in enumerate(blocks):
        for i in range(count):
            name, stride = f"layer{stage + 1}.{i}.", 2 if stage and i == 0 else 1
            y = layers.ReLU()(norm(convolution(x, name + "conv1", 64 << stage, 3, stride), name + "bn1"))
            y = norm(convolution(y, name + "conv2", 64 << stage, 3, 1), name + "bn2")
            if stride == 2:
                x = norm(convolution(x, name + "downsample.0", 64 << stage, 1, 2), name + "downsample.1")
            x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(inputs, x)


def chaos(count, number):
    """Numbers in [-1, 1] that any language makes of integers alone."""
    i = np.arange(count, dtype=np.int64) % 100003
    return ((i * i * 31 + i * 17 + number * 101) % 10007) / 5003.0 - 1


def value_of(layer, kind, shape):
    number = sum(layer.encode()) + sum(kind.encode())
    u = chaos(int(np.prod(shape)), number)
    if kind in ("gamma", "moving_variance"):
        u = 0.75 + 0.25 * u
    elif kind in ("beta", "bias", "moving_mean"):
        u = 0.1 * u
    else:
        inputs = int(np.prod(shape[:2] if kind == "depthwise_kernel" else shape[:-1]))
        u = u * np.sqrt(6.0 / inputs)
    return u.reshape(shape)


def leaves(layers):
    for layer in layers:
        if isinstance(layer, keras.Sequential):
            yield from leaves(layer.layers)
        elif layer.weights and not isinstance(layer, keras.layers.Normalization):
            yield layer


def kind_of(layer, weight):
    if isinstance(layer, keras.layers.DepthwiseConv2D) and weight.name == "kernel":
        return "depthwise_kernel"
    return "gamma" if weight.name.startswith("variable") else weight.name  # LayerScale's have no name


def make(name):
    keras.backend.clear_session()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    if name in ("resnet18", "resnet34"):
        model = basic_resnet((2, 2, 2, 2) if name == "resnet18" else (3, 4, 6, 3))
    else:
        application, options = APPLICATIONS[name]
        model = application(weights=None, include_top=False, **{"input_shape": SIZE, **options})
    rows = []
    for layer in leaves(model.layers):
        label = "layer_normalization" if layer.name.startswith("layer_normalization") else layer.name
        for weight in layer.weights:
            weight.assign(value_of(label, kind_of(layer, weight), tuple(weight.shape)))
        rows.append([label, [[kind_of(layer, weight), list(weight.shape)] for weight in layer.weights]])
    image = chaos(int(np.prod(SIZE)), 7).reshape((1,) + SIZE)
    # EfficientNet divides by 255 itself.
    features = np.asarray(model(image * (255 if name.startswith("efficientnet") else 1), training=False)).ravel()
    step = max(1, len(features) // 61)
    return {"layers": rows, "parameters": int(sum(np.prod(w.shape) for row in leaves(model.layers) for w in row.weights)),
            "norm": float(np.linalg.norm(features)), "step": step, "count": len(features),
            "features": [float(f"{v:.9g}") for v in features[::step]]}


def main():
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    content["keras"] = keras.__version__
    content["about"] = "image and weights: see chaos() and value_of() of make_backbone_features.py"
    content["image"] = list(SIZE)
    for name in sys.argv[1:] or ["resnet18", "resnet34", *APPLICATIONS]:
        content[name] = make(name)
        print(name, content[name]["parameters"], content[name]["norm"])
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    FILE.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
