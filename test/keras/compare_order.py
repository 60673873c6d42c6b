#!/usr/bin/env python3
"""Exchanges weights of models with branches with Keras, in both directions, and compares logits and orders of layers.

    scripts/python_env.sh keras -- test/keras/compare_order.py build/release/apps/trainer/trainer

TRAINER is the program of the build. Each model is a config and a functional Keras model of the same layers: a residual
whose shortcut has as many convolutions as its branch, a graph that lists the short branch first, a block of ResNet with
a projection, and a graph whose branches cross. For each, and for .h5 and .weights.h5:

  export    trainer exports random weights, Keras loads the file
  import    Keras saves the weights of the second model of its session, trainer loads the file

Prints Keras's order of layers, the largest logit and the largest difference of logits. Exits with 1 where a file does
not load or a difference is more than 1e-5 of the largest logit, with 77 without Keras.
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
SIDE, CLASSES, IMAGES = 8, 3, 6
TOLERANCE = 1e-5


def conv(name, *, inputs=None, size=3):
    options = {"filters": 4, "kernel_size": size, "padding": "same", **({"name": name} if name else {})}
    return {"conv": {**options, **({"inputs": inputs} if inputs else {})}}


END = [{"global_average_pool": {"name": "gap"}}, {"dense": {"units": CLASSES, "name": "last"}}]
# Configs' layers. A Keras model is made of them by make_model().
MODELS = {
    "same_count": [conv("stem"), {"residual": {"name": "add", "layers": [conv("a1"), conv("a2")],
                                               "shortcut": [conv("s1"), conv("s2")], "activation": "linear"}}, *END],
    "short_first": [conv("stem"), conv("short"), conv("long1", inputs=["stem"]), conv("long2"),
                    {"concatenate": {"name": "cat", "inputs": ["short", "long2"]}}, *END],
    "projection": [conv("stem"), {"residual": {
        "name": "add", "layers": [conv("a1"), {"batch_norm": {"name": "abn1"}}, {"activation": {"function": "relu", "name": "ar"}},
                                  conv("a2"), {"batch_norm": {"name": "abn2"}}],
        "shortcut": [conv("s1", size=1), {"batch_norm": {"name": "sbn"}}], "activation": "relu"}}, *END],
    "crossing": [conv("a"), conv("b", inputs=["input"]), conv("d", inputs=["a"]), {"add": {"name": "e", "inputs": ["b", "a"]}},
                 {"concatenate": {"name": "f", "inputs": ["e", "d", "b"]}}, conv("g"),
                 {"add": {"name": "h", "inputs": ["g", "d"]}}, *END],
}


def without_names(layers):
    """The same layers with the names that Keras and trainer give by themselves, where no other layer refers to them."""
    result = []
    for layer in layers:
        (kind, options), = layer.items()
        options = {key: without_names(value) if key in ("layers", "shortcut") else value
                   for key, value in options.items() if key != "name"}
        result.append({kind: options})
    return result


def make_layer(kind, options, keras):
    layers = keras.layers
    name = options.get("name")
    if kind == "conv":
        return layers.Conv2D(options["filters"], options["kernel_size"], padding=options["padding"], name=name)
    if kind == "activation":
        return layers.Activation(options["function"], name=name)
    if kind == "dense":
        return layers.Dense(options["units"], name=name)
    classes = {"batch_norm": layers.BatchNormalization, "global_average_pool": layers.GlobalAveragePooling2D,
               "add": layers.Add, "concatenate": layers.Concatenate}
    return classes[kind](name=name)


def make_model(entries, keras):
    """The functional model of a config's layers; Keras names layers without a name in the order of the config."""
    image = keras.Input((SIDE, SIDE, 3), name="input")
    outputs = {"input": image}

    def chain(entries, x):
        for entry in entries:
            (kind, options), = entry.items()
            if kind == "residual":
                main = chain(options["layers"], x)
                shortcut = chain(options["shortcut"], x)
                x = keras.layers.Add(name=options.get("name"))([main, shortcut])
                if options["activation"] != "linear":
                    name = options["name"] + "_activation" if "name" in options else None
                    x = keras.layers.Activation(options["activation"], name=name)(x)
            else:
                inputs = [outputs[name] for name in options.get("inputs", [])] or [x]
                x = make_layer(kind, options, keras)(inputs if len(inputs) > 1 else inputs[0])
            if options.get("name"):
                outputs[options["name"]] = x
        return x

    return keras.Model(image, chain(entries, image))


def randomize(model, draw, np):
    """Statistics of batch norm too, so that a layer that is exchanged shows."""
    for layer in model.layers:
        layer.set_weights([draw.uniform(0.5, 1.5, weight.shape).astype(np.float32) if "variance" in variable.name
                           else draw.normal(0, 0.3, weight.shape).astype(np.float32)
                           for weight, variable in zip(layer.get_weights(), layer.weights)])


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return result.returncode, result.stdout, result.stderr


class Exchange:
    def __init__(self, trainer, folder, keras, np, image_module):
        self.trainer, self.folder, self.keras, self.np = trainer, folder, keras, np
        self.draw = np.random.default_rng(1)
        self.images = self.draw.integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
        self.files = []
        for i, image in enumerate(self.images):
            path = folder / "images" / str(i % CLASSES) / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image_module.fromarray(image).save(path)
            self.files.append(path)

    def write_config(self, layers):
        path = self.folder / "config.yaml"
        path.write_text(json.dumps({
            "model": {"layers": layers},
            "data": {"format": "image_folder", "resize": [SIDE, SIDE], "train": {"path": str(self.folder / "images")}},
            "train": {"epochs": 1, "batch_size": IMAGES},
        }))
        return path

    def ours(self, config, *more):
        code, out, error = run(self.trainer, "predict", config, *more, *self.files, "--json", "--logits")
        if code != 0:
            return None, error
        return self.np.array([json.loads(line)["logits"] for line in out.splitlines()]), error

    def theirs(self, model):
        return model.predict(self.images.astype(self.np.float32) / 255, verbose=0)

    def compare(self, what, ours, theirs):
        largest, difference = abs(theirs).max(), abs(ours - theirs).max()
        print(f"{what}: largest logit {largest:.3g}, differ by {difference:.2g}", flush=True)
        return bool(difference <= TOLERANCE * largest)

    def export(self, name, layers, file):
        """trainer's weights in Keras. They are Keras's of a first file, whose layers have names."""
        self.keras.backend.clear_session()
        source = make_model(layers, self.keras)
        randomize(source, self.draw, self.np)
        source.save_weights(self.folder / "named.weights.h5")
        config = self.write_config(layers)
        weights = ("--weights", self.folder / "named.weights.h5")
        ours, error = self.ours(config, *weights)
        if ours is None:
            print(f"{name} {file}: trainer: {error}")
            return False
        code, _, error = run(self.trainer, "export", config, *weights, "--format", "keras_h5", "--output",
                             self.folder / file, "--overwrite", "--quiet")
        if code != 0:
            print(f"{name} {file}: export: {error}")
            return False
        model = make_model(layers, self.keras)
        try:
            model.load_weights(self.folder / file)
        except ValueError as refused:
            print(f"{name} {file}: Keras refuses it: {str(refused).splitlines()[0][:200]}")
            return False
        return self.compare(f"export {name} {file}", ours, self.theirs(model))

    def later_model(self, name, layers, file):
        """Weights of the second model of a session, with automatic names, in trainer."""
        self.keras.backend.clear_session()
        make_model(layers, self.keras)
        model = make_model(layers, self.keras)
        randomize(model, self.draw, self.np)
        if file.endswith(".weights.h5"):
            model.save_weights(self.folder / file)
        else:
            model.save(self.folder / file)
        ours, error = self.ours(self.write_config(layers), "--weights", self.folder / file)
        if ours is None:
            print(f"import {name} {file}: {error}")
            return False
        if "matched by position" not in error:
            print(f"import {name} {file}: trainer prints no note: {error}")
            return False
        return self.compare(f"import {name} {file}", ours, self.theirs(model))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path, metavar="TRAINER", help="the program trainer")
    if len(sys.argv) == 1:
        parser.print_help()
        return 2
    options = parser.parse_args()
    try:
        import keras
        import numpy as np
        from PIL import Image
    except ImportError as error:
        print(f"[skipped] {error}; run it as scripts/python_env.sh keras -- test/keras/compare_order.py TRAINER")
        return 77
    right = True
    with tempfile.TemporaryDirectory() as temporary:
        exchange = Exchange(options.trainer, pathlib.Path(temporary), keras, np, Image)
        for name, layers in MODELS.items():
            print(name, *(layer.name for layer in make_model(layers, keras).layers))
            for file in ("x.h5", "x.weights.h5"):
                right = exchange.export(name, layers, file) and right
        for name in ("same_count", "projection"):  # layers that no other names
            for file in ("y.h5", "y.weights.h5", "y.keras"):
                right = exchange.later_model(name, without_names(MODELS[name]), file) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
