#!/usr/bin/env python3
"""Compares a backbone with Keras's own on real images: features in evaluation, and the gradients of all parameters
for one training step, with Keras in float64 as the judge.

    scripts/python_env.sh keras -- test/keras/compare_backbone.py PROBE IMAGES --weights MOBILENET.h5

PROBE is the program trainer_probe of the build, IMAGES a folder with images. VGG16 and ResNet50 have random weights,
written by Keras into a file of the applications' layout that trainer loads. Features have to be within 1e-5 of
Keras's, relative to their norm; each gradient within 1e-4 of its norm of Keras in float64, or no further from it
than Keras in float32 is: through many layers of relu and batch norm that can be more. Else exit code 5.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

FEATURES, GRADIENTS = 1e-5, 1e-4
CASES = {
    "mobilenet_v2": (keras.applications.MobileNetV2, keras.applications.mobilenet_v2.preprocess_input),
    "vgg16": (keras.applications.VGG16, keras.applications.vgg16.preprocess_input),
    "resnet50": (keras.applications.ResNet50, keras.applications.resnet.preprocess_input),
}


def load_images(folder, count, size):
    paths = sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if len(paths) < count:
        raise SystemExit(f"{folder} has {len(paths)} images, {count} are needed")
    chosen = [paths[i * len(paths) // count] for i in range(count)]
    return np.stack([np.asarray(Image.open(path).convert("RGB").resize((size, size)), np.float32) for path in chosen])


def write_applications_h5(model, path):
    """The layout of the files that Keras's applications fetch."""
    with h5py.File(path, "w") as out:
        out.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = out.create_group(layer.name)
            names = [f"{layer.name}/{weight.name}:0".encode() for weight in layer.weights]
            group.attrs["weight_names"] = names
            for name, weight in zip(names, layer.weights):
                group[name.decode()] = np.asarray(weight)


def randomise(model, seed):
    """He-normal kernels keep the features alive through all layers; statistics and gammas near one."""
    random = np.random.default_rng(seed)
    for layer in model.layers:
        for weight in layer.weights:
            shape = weight.shape
            if len(shape) == 4:
                value = random.normal(0, np.sqrt(2 / np.prod(shape[:3])), shape)
            elif weight.name in ("gamma", "moving_variance"):
                value = random.uniform(0.5, 1.0, shape)
            else:
                value = random.normal(0, 0.05, shape)
            weight.assign(value.astype(np.float32))


def relative(ours, theirs):
    return float(np.linalg.norm((ours - theirs).astype(np.float64)) / max(np.linalg.norm(theirs.astype(np.float64)), 1e-30))


def build(name, size, weights, dtype):
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model = CASES[name][0](weights=None, include_top=False, input_shape=(size, size, 3))
    model.load_weights(weights)
    return model


def features_of(model, images):
    parts = [np.asarray(model(images[i:i + 8], training=False)) for i in range(0, len(images), 8)]
    return np.concatenate(parts).reshape(len(images), -1)


def gradients_of(model, images, targets, batch_norm):
    """By name; batch norm with the batch's statistics (train) or the moving ones (eval)."""
    with tf.GradientTape() as tape:
        outputs = tf.reshape(model(images, training=batch_norm == "train"), (len(images), -1))
        loss = tf.reduce_mean(tf.square(outputs - targets))
    values = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return {"/".join(weight.path.split("/")[-2:]): np.asarray(value)
            for weight, value in zip(model.trainable_weights, values)}


def run_probe(args, folder, name, weights, batch_norm):
    config = folder / f"{name}.yaml"
    config.write_text(f"""model:
  backbone: {{name: {name}, weights: {weights}, batch_norm: {batch_norm}}}
  head: [flatten]
  loss: mean_squared_error
data: {{format: synthetic, normalize: {{scale: 1}}}}
optimizer: {{sgd: {{learning_rate: 1, momentum: 0.5}}}}
train: {{max_steps: 1, batch_size: {args.batch}}}
parallel: {{convolution: {args.convolution}}}
""")
    done = subprocess.run([args.probe, config, folder / "in.safetensors", folder / "out.safetensors"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trainer_probe failed with {done.returncode}: {done.stderr}")
    # Keras 3 says kernel for a depthwise kernel.
    return {key.replace("/depthwise_kernel", "/kernel"): value
            for key, value in load_file(folder / "out.safetensors").items()}


def compare(name, args, folder):
    size = args.size
    weights = folder / f"{name}.h5"
    if name == "mobilenet_v2" and args.weights:
        weights = pathlib.Path(args.weights).resolve()
    else:
        model = CASES[name][0](weights=None, include_top=False, input_shape=(size, size, 3))
        randomise(model, seed=1)
        write_applications_h5(model, weights)
    images = CASES[name][1](load_images(args.images, args.count, size).copy()).astype(np.float32)
    double, single = build(name, size, weights, "float64"), build(name, size, weights, "float32")
    exact, keras_features = features_of(double, images.astype(np.float64)), features_of(single, images)
    targets = np.zeros_like(keras_features)
    save_file({"images": images, "targets": targets, "batch": np.array([args.batch], np.float32)},
              folder / "in.safetensors")
    has_norm = any(isinstance(layer, keras.layers.BatchNormalization) for layer in double.layers)
    right = True
    for batch_norm in ("eval", "train") if has_norm else ("train",):
        ours = run_probe(args, folder, name, weights, batch_norm)
        error, between = relative(ours["outputs"], exact), relative(ours["outputs"], keras_features)
        if batch_norm == "eval" or not has_norm:
            right &= between < FEATURES
            print(f"{name}: features of {len(images)} images: {between:.1e} from Keras's; from float64: "
                  f"ours {error:.1e}, Keras's {relative(keras_features, exact):.1e}")
        batch = images[:args.batch]
        reference = gradients_of(double, batch.astype(np.float64), targets[:args.batch].astype(np.float64), batch_norm)
        theirs = gradients_of(single, batch, targets[:args.batch], batch_norm)
        whole = np.sqrt(sum(np.sum(value**2) for value in reference.values()))
        rows = []
        for path, value in reference.items():
            # What batch norm takes away again has no gradient: rounding alone is left.
            if np.linalg.norm(value) > 1e-6 * whole:
                own = ours[path + "/gradient"].reshape(value.shape)
                rows.append((relative(own, value), relative(theirs[path], value), path, relative(own, theirs[path])))
        rows.sort(reverse=True)
        # The masks of relu make gradients jump where activations differ in the last digit.
        allowed = max(GRADIENTS, max(row[1] for row in rows))
        right &= rows[0][0] < allowed
        direct = [row[3] for row in rows]
        print(f"{name}, batch norm {batch_norm}: gradients of {len(rows)} of {len(reference)} parameters: from Keras's "
              f"largest {max(direct):.1e}, median {np.median(direct):.1e}; largest distance "
              f"from float64: ours {rows[0][0]:.1e} ({rows[0][2]}), Keras's {max(row[1] for row in rows):.1e}; "
              f"median: ours {np.median([row[0] for row in rows]):.1e}, Keras's {np.median([row[1] for row in rows]):.1e}")
        for row in rows[:args.worst]:
            print(f"  ours {row[0]:.1e} Keras's {row[1]:.1e} {row[2]}")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("images")
    parser.add_argument("--weights", help="Keras's file for MobileNetV2; random numbers without it")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--convolution", default="auto", choices=["auto", "direct", "winograd"])
    parser.add_argument("--worst", type=int, default=0, help="print the N gradients that differ most")
    args = parser.parse_args()
    right = True
    for name in args.case or CASES:
        with tempfile.TemporaryDirectory() as folder:
            right &= compare(name, args, pathlib.Path(folder))
    return 0 if right else 5


if __name__ == "__main__":
    sys.exit(main())
