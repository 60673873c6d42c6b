#!/usr/bin/env python3
"""What `trainer export` writes, in the programs that read it: Keras (h5) and onnxruntime (ONNX) give the probabilities
that `trainer predict` gives, to 1e-5, before and after `trainer evaluate --calibrate`, and of several labels per image.
With the metadata of the ONNX file they give its classes by an operating point, and its labels by their thresholds.

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
# Layers that Keras does not have.
OWN_LAYERS = """
    - conv: {filters: 8, strides: 2, activation: gelu, name: c1}
    - global_response_norm: {name: g1}
    - flatten: {name: f1}
    - dense: {units: 5, name: e1}
"""
TOKEN_LAYERS = """
    - patch_embedding: {filters: 12, patch_size: 7, class_token: true, name: p1}
    - prepend_tokens: {count: 2, name: p2}
    - transformer_block: {num_heads: 3, drop_path: 0.1, name: b1}
    - attention: {num_heads: 2, key_dim: 5, use_bias: false, name: a1}
    - layer_norm: {name: l1}
    - slice_tokens: {begin: 2, end: 12, name: s1}
    - global_average_pool: {name: g1}
    - dense: {units: 5, name: e1}
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


SMALL_LAYERS = "[{conv: {filters: 6, activation: relu, name: c1}}, {flatten: {name: f1}}, {dense: {units: %d, name: e1}}]"
LABELS_CONFIG = """model: {{input: [{size}, {size}, 3], loss: binary_cross_entropy, layers: {layers}}}
data: {{format: csv, path: {folder}, csv: {{root: {folder}/images}}, validation_split: 0.3, normalize: {{scale: 0.01}}}}
train: {{max_steps: 20, batch_size: 16}}
run: {{dir: {run}, tensorboard: false}}
"""
CLASSES_CONFIG = """model: {{loss: {loss}, layers: {layers}}}
data:
  format: synthetic
  validation_split: 0.4
  normalize: {{scale: 0.01}}
  synthetic: {{shape: [{size}, {size}, 3], classes: {classes}, train_samples: 200, test_samples: 50}}
optimizer: {{sgd: {{learning_rate: 0.0002}}}}
train: {{max_steps: 8, batch_size: 16}}
run: {{dir: {run}, tensorboard: false, best: ""}}
"""
SIZE = 12


def run(trainer, *arguments):
    done = subprocess.run([trainer, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trainer {' '.join(map(str, arguments))} failed: {done.stderr}")
    return done.stdout


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def sigmoid(logits):
    return 1 / (1 + np.exp(-np.asarray(logits, np.float64)))


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
    "own": ("layers:" + OWN_LAYERS, 33, False, None),
    "tokens": ("layers:" + TOKEN_LAYERS, 28, False, None),  # Keras has other layers
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
    description = json.loads((folder / "x.json").read_text())
    right &= description == json.loads(notes["model"])
    right &= description["normalize"] == {"reverse_channels": reverse, "scale": 0.01, "mean": [0.1, 0.2, 0.3],
                                          "std": [0.5, 0.6, 0.7]}
    right &= description["output"].get("temperature", 1) != 1 if kind == "calibrated" else True
    probabilities, _ = onnx_output(trainer, folder, images)
    return right & check(f"{name} {kind} x.onnx, probabilities of bytes", ours, probabilities)


def onnx_output(trainer, folder, images):
    """Returns the probabilities of a model that takes bytes, and its description."""
    import onnx
    import onnxruntime
    run(trainer, "export", folder / "run", "--output", folder / "p.onnx", "--overwrite", "--onnx-input", "uint8",
        "--onnx-output", "probabilities")
    onnx.checker.check_model(onnx.load(folder / "p.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(folder / "p.onnx", providers=["CPUExecutionProvider"])
    probabilities, = session.run(["probabilities"], {"images": images})
    return probabilities, json.loads((folder / "p.json").read_text())


def small_model(keras, units):
    layers = keras.layers
    images = keras.Input((SIZE, SIZE, 3))
    x = layers.Conv2D(6, 3, activation="relu", name="c1")(images)
    return keras.Model(images, layers.Dense(units, name="e1")(layers.Flatten(name="f1")(x)))


def keras_logits(trainer, folder, units, images):
    import keras
    run(trainer, "export", folder / "run", "--format", "keras_h5", "--output", folder / "x.h5", "--overwrite")
    network = small_model(keras, units)
    network.load_weights(folder / "x.h5")
    return np.asarray(network(images.astype(np.float32) * np.float32(0.01), training=False)), None


def onnx_logits(trainer, folder, units, images):
    """Returns the logits and the metadata."""
    import onnxruntime
    run(trainer, "export", folder / "run", "--format", "onnx", "--output", folder / "x.onnx", "--overwrite")
    session = onnxruntime.InferenceSession(folder / "x.onnx", providers=["CPUExecutionProvider"])
    logits, = session.run(["logits"], {"images": images.astype(np.float32)})
    return logits, session.get_modelmeta().custom_metadata_map


def write_labelled_images(folder):
    """Writes grey-noise images whose labels a, b and c make a channel bright, with a list of them; some are unknown."""
    draw = np.random.default_rng(8)
    (folder / "images").mkdir()
    rows = ["image,a,b,c"]
    for i in range(80):
        labels = draw.random(3) < [0.5, 0.3, 0.2]
        image = draw.integers(0, 120, (SIZE, SIZE, 3)) + labels * 40
        header = b"P6 %d %d 255\n" % (SIZE, SIZE)
        (folder / "images" / f"{i}.ppm").write_bytes(header + image.astype(np.uint8).tobytes())
        rows.append(f"{i}.ppm," + ",".join("" if draw.random() < 0.1 else str(int(label)) for label in labels))
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    images = draw.integers(0, 160, (16, SIZE, SIZE, 3), np.uint8)
    np.save(folder / "images.npy", images)
    return images


def check_labels(trainer, folder, export):
    """Several labels per image: the sigmoid of each exported logit, and the labels above the exported thresholds."""
    images = write_labelled_images(folder)
    config = folder / "labels.yaml"
    config.write_text(LABELS_CONFIG.format(size=SIZE, layers=SMALL_LAYERS % 3, folder=folder, run=folder / "run"))
    run(trainer, "train", config, "--quiet")
    run(trainer, "evaluate", folder / "run", "--thresholds", "f1")
    lines = run(trainer, "predict", folder / "run", folder / "images.npy", "--format", "jsonl").splitlines()
    lines = [json.loads(line) for line in lines]
    names = ["a", "b", "c"]
    ours = np.array([[line["probabilities"][name] for name in names] for line in lines])
    logits, notes = export(trainer, folder, 3, images)
    right = check("labels", ours, sigmoid(logits))
    if notes is not None:
        right &= json.loads(notes["classes"]) == names
        thresholds = np.array(json.loads(notes["thresholds"]))
        above = [[name for name, has in zip(names, row) if has] for row in logits > thresholds]
        right &= above == [line["labels"] for line in lines]
        probabilities, description = onnx_output(trainer, folder, images)
        right &= check("labels of bytes", ours, probabilities)
        limits = np.array(description["output"]["thresholds"])
        right &= [[name for name, has in zip(names, row) if has] for row in probabilities > limits] == above
        right &= bool((thresholds != 0).any())
    return right


def check_decisions(trainer, folder, loss, outputs, criterion, decide):
    """One class per image: those of predict are decide(logits, the exported operating point)."""
    config = folder / "classes.yaml"
    classes = max(outputs, 2)
    config.write_text(CLASSES_CONFIG.format(loss=loss, layers=SMALL_LAYERS % outputs, size=SIZE, classes=classes,
                                            run=folder / "run"))
    run(trainer, "train", config, "--quiet")
    run(trainer, "evaluate", folder / "run", "--calibrate", "--operating-point", criterion)
    images = np.random.default_rng(3).integers(0, 256, (64, SIZE, SIZE, 3), np.uint8)
    np.save(folder / "images.npy", images)
    lines = run(trainer, "predict", folder / "run", folder / "images.npy", "--format", "jsonl").splitlines()
    ours = [int(json.loads(line)["class"]) for line in lines]
    probabilities, description = onnx_output(trainer, folder, images)
    expected = np.array([list(json.loads(line)["probabilities"].values()) for line in lines])
    right = check(f"{criterion} of bytes", expected, probabilities)
    logits, notes = onnx_logits(trainer, folder, outputs, images)
    theirs = decide(logits.astype(np.float64), json.loads(notes["operating_point"]))
    likeliest = logits[:, 0] > 0 if outputs == 1 else logits.argmax(axis=1)
    print(f"{criterion}: {np.sum(theirs != likeliest)} of {len(ours)} classes are not the likeliest")
    right &= description["operating_point"] == json.loads(notes["operating_point"])
    return right and list(theirs) == ours and bool((theirs != likeliest).any())


def check_operating_points(trainer, folder):
    costs = folder / "costs.csv"
    costs.write_text("true,0,1,2\n0,0,5,1\n1,1,0,1\n2,20,30,0\n")
    (folder / "two").mkdir()
    (folder / "three").mkdir()
    return check_decisions(
        trainer, folder / "two", "binary_cross_entropy", 1, "sensitivity=0.95",
        lambda logits, point: np.where(logits[:, 0] >= point["log_odds"], 1, 0)) and check_decisions(
        trainer, folder / "three", "softmax_cross_entropy", 3, f"cost={costs}",
        lambda logits, point: (softmax(logits) @ np.array(point["costs"])).argmin(axis=1))


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
    with tempfile.TemporaryDirectory() as folder:
        right &= check_labels(trainer, pathlib.Path(folder), keras_logits if format == "keras" else onnx_logits)
    if format == "onnx":
        with tempfile.TemporaryDirectory() as folder:
            right &= check_operating_points(trainer, pathlib.Path(folder))
    for name, (model, size, reverse, make) in CASES.items():
        if format == "keras" and make is None:
            continue
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
