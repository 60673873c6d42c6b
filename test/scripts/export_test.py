#!/usr/bin/env python3
"""What `trainer export` writes, in the programs that read it: Keras (h5) and onnxruntime (ONNX) give the probabilities
that `trainer predict` gives, to 1e-5, before and after `trainer evaluate --calibrate`.

    export_test.py TRAINER keras|onnx        exits with 77 when the reader cannot be imported
"""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402

LAYERS = """
    - conv: {filters: 8, strides: 2, padding: same, activation: relu, name: c1}
    - batch_norm: {name: n1}
    - zero_pad: {padding: [1, 0, 0, 1], name: z1}
    - depthwise_conv: {depth_multiplier: 2, padding: same, name: d1}
    - relu: {max_value: 6, name: r1}
    - separable_conv: {filters: 8, padding: same, activation: swish, name: s1}
    - conv: {filters: 8, kernel_size: 1, activation: gelu, name: c2}
    - add: {inputs: [s1, c2], name: a1}
    - average_pool: {pool_size: 3, strides: 2, padding: same, name: p1}
    - max_pool: {name: p2}
    - concatenate: {inputs: [p2, p2], name: k1}
    - flatten: {name: f1}
    - dropout: {rate: 0.2, name: o1}
    - dense: {units: 16, activation: elu, name: e1}
    - dense: {units: 5, name: e2}
"""
MORE_LAYERS = """
    - conv: {filters: 8, strides: 2, padding: same, name: c1}
    - group_norm: {groups: 4, name: g1}
    - prelu: {alpha_initializer: {constant: {value: 0.2}}, name: r1}
    - global_average_pool: {keepdims: true, name: p1}
    - conv: {filters: 8, kernel_size: 1, activation: hard_sigmoid, name: c2}
    - multiply: {inputs: [r1, c2], name: m1}
    - layer_norm: {name: l1}
    - spatial_dropout: {rate: 0.2, name: o1}
    - conv_transpose: {filters: 6, kernel_size: 3, strides: 2, padding: same, activation: hard_swish, name: t1}
    - conv_transpose: {filters: 4, kernel_size: 2, strides: 3, name: t2}
    - prelu: {shared: true, alpha_initializer: {constant: {value: 0.1}}, name: r2}
    - average_pool: {name: p2}
    - up_sampling: {size: [2, 1], name: u1}
    - up_sampling: {size: 2, interpolation: bilinear, name: u2}
    - drop_path: {rate: 0.2, name: o2}
    - max_pool: {pool_size: 4, name: p3}
    - flatten: {name: f1}
    - dense: {units: 16, activation: selu, name: e1}
    - layer_norm: {name: l2}
    - dense: {units: 5, name: e2}
"""
CONFIG = """name: exported
model:
  {model}
data:
  format: synthetic
  validation_split: 0.25
  normalize: {{scale: 0.01, mean: [0.1, 0.2, 0.3], std: [0.5, 0.6, 0.7], reverse_channels: {reverse}}}
  synthetic: {{shape: [{size}, {size}, 3], classes: 5, train_samples: 64, test_samples: 16}}
train: {{max_steps: 8, batch_size: 16}}
run: {{dir: {run}, tensorboard: false}}
"""


def run(trainer, *arguments):
    done = subprocess.run([trainer, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trainer {' '.join(map(str, arguments))} failed: {done.stderr}")
    return done.stdout


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def normalised(images, reverse):
    if reverse:
        images = images[..., ::-1]
    return ((images.astype(np.float32) * 0.01 - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]).astype(np.float32)


def plain_model(keras, size):
    layers = keras.layers
    x = images = keras.Input((size, size, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu", name="c1")(x)
    x = layers.BatchNormalization(name="n1")(x)
    x = layers.ZeroPadding2D(((1, 0), (0, 1)), name="z1")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same", name="d1")(x)
    x = layers.ReLU(6.0, name="r1")(x)
    a = layers.SeparableConv2D(8, 3, padding="same", activation="swish", name="s1")(x)
    b = layers.Conv2D(8, 1, activation=lambda v: keras.activations.gelu(v, approximate=False), name="c2")(a)
    x = layers.Add(name="a1")([a, b])
    x = layers.AveragePooling2D(3, 2, padding="same", name="p1")(x)
    x = layers.MaxPooling2D(name="p2")(x)
    x = layers.Concatenate(name="k1")([x, x])
    x = layers.Dropout(0.2, name="o1")(layers.Flatten(name="f1")(x))
    x = layers.Dense(5, name="e2")(layers.Dense(16, activation="elu", name="e1")(x))
    return keras.Model(images, x)


def model_of_more_layers(keras, size):
    layers = keras.layers
    images = keras.Input((size, size, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", name="c1")(images)
    x = layers.PReLU(name="r1")(layers.GroupNormalization(4, name="g1")(x))
    s = layers.Conv2D(8, 1, activation="hard_sigmoid", name="c2")(layers.GlobalAveragePooling2D(keepdims=True, name="p1")(x))
    x = layers.LayerNormalization(name="l1")(layers.Multiply(name="m1")([x, s]))
    x = layers.SpatialDropout2D(0.2, name="o1")(x)
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same", activation="hard_swish", name="t1")(x)
    x = layers.Conv2DTranspose(4, 2, strides=3, name="t2")(x)
    x = layers.AveragePooling2D(2, name="p2")(layers.PReLU(shared_axes=[1, 2], name="r2")(x))
    x = layers.UpSampling2D((2, 1), name="u1")(x)
    x = layers.UpSampling2D(2, interpolation="bilinear", name="u2")(x)
    x = layers.Flatten(name="f1")(layers.MaxPooling2D(4, name="p3")(x))
    x = layers.LayerNormalization(name="l2")(layers.Dense(16, activation="selu", name="e1")(x))
    return keras.Model(images, layers.Dense(5, name="e2")(x))


def backbone_model(keras, size):
    backbone = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(size, size, 3))
    x = keras.layers.GlobalAveragePooling2D(name="pool")(backbone.output)
    return keras.Model(backbone.input, keras.layers.Dense(5, name="e2")(x))


# With random weights and untrained statistics the features of so many layers are next to nothing.
SHARED = os.environ.get("TRAINER_SHARED_DATA")
WEIGHTS = f", weights: {SHARED}/weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5" if SHARED else ""
CASES = {
    "plain": ("layers:" + LAYERS, 33, True, plain_model),
    "more": ("layers:" + MORE_LAYERS, 33, False, model_of_more_layers),
    "backbone": ("backbone: {name: mobilenet_v2, batch_norm: eval" + WEIGHTS + "}\n  head: [{global_average_pool: "
                 "{name: pool}}, {dense: {units: 5, name: e2}}]", 64, False, backbone_model),
}


def check(what, ours, theirs):
    error = float(np.abs(ours - theirs).max())
    print(f"{what}: largest difference of a probability {error:.1e}; they vary by {ours.std(axis=0).max():.1e}")
    return error < 1e-5


def predict(trainer, folder):
    """Returns the probabilities that trainer predicts for the images."""
    rows = []
    for line in run(trainer, "predict", folder / "run", folder / "images.npy", "--format", "jsonl").splitlines():
        values = json.loads(line)["probabilities"]
        rows.append(list(values.values()) if isinstance(values, dict) else values)
    return np.array(rows, np.float64)


def check_keras(trainer, name, kind, folder, images, ours):
    import keras
    _, size, reverse, make = CASES[name]
    right = True
    for file in ("x.h5", "x.weights.h5"):
        run(trainer, "export", folder / "run", "--format", "keras_h5", "--output", folder / file, "--overwrite")
        network = make(keras, size)
        network.load_weights(folder / file)
        theirs = softmax(np.asarray(network(normalised(images, reverse), training=False)))
        right &= check(f"{name} {kind} {file}", ours, theirs)
    return right


def check_onnx(trainer, name, kind, folder, images, ours):
    import onnx
    import onnxruntime
    reverse = CASES[name][2]
    run(trainer, "export", folder / "run", "--format", "onnx", "--output", folder / "x.onnx", "--overwrite")
    session = onnxruntime.InferenceSession(folder / "x.onnx", providers=["CPUExecutionProvider"])
    logits, = session.run(["logits"], {"images": images.astype(np.float32)})
    right = check(f"{name} {kind} x.onnx", ours, softmax(logits))
    notes = session.get_modelmeta().custom_metadata_map
    right &= json.loads(notes["classes"]) == ["0", "1", "2", "3", "4"]
    right &= ("reversed" in notes["preprocessing"]) == reverse
    onnx.checker.check_model(onnx.load(folder / "x.onnx"), full_check=True)
    return right


# The modules that read a format, and the function that compares what they compute.
READERS = {"keras": (["keras"], check_keras), "onnx": (["onnx", "onnxruntime"], check_onnx)}


def main(trainer, format):
    modules, check_export = READERS[format]
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        print(f"[skipped] {error}")
        return 77
    right = True
    for name, (model, size, reverse, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            config = folder / "exported.yaml"
            config.write_text(CONFIG.format(model=model, size=size, reverse=str(reverse).lower(), run=folder / "run"))
            run(trainer, "train", config, "--quiet")
            images = np.random.default_rng(3).integers(0, 256, (16, size, size, 3), np.uint8)
            np.save(folder / "images.npy", images)
            right &= check_export(trainer, name, "plain", folder, images, predict(trainer, folder))
            event = run(trainer, "evaluate", folder / "run", "--calibrate", "--json").splitlines()[-1]
            right &= abs(json.loads(event)["temperature"] - 1) > 1e-3
            right &= check_export(trainer, name, "calibrated", folder, images, predict(trainer, folder))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
