#!/usr/bin/env python3
"""Exports a model to ONNX, predicts image files with ONNX Runtime, and compares with `trainer predict`.

    scripts/python_env.sh numpy onnxruntime pillow -- scripts/export/check.py TRAINER RUN IMAGES [OPTIONS OF EXPORT...]

IMAGES is a folder or a file. The program that `trainer export --example` writes reads the images. Prints the largest
difference of a probability and the number of images whose likeliest class differs, and fails where one does.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

# Classes whose probabilities differ by less are both the likeliest.
EQUAL = 1e-6


def run(trainer, *arguments):
    done = subprocess.run([trainer, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trainer {' '.join(map(str, arguments))} failed: {done.stderr}")
    return done.stdout


def load_example(trainer, model, folder, *options):
    """Exports the model to the folder and returns the module of its example."""
    run(trainer, "export", model, "--output", pathlib.Path(folder, "model.onnx"), "--example", *options)
    spec = importlib.util.spec_from_file_location("example", pathlib.Path(folder, "model.py"))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def compare(trainer, model, images, example):
    """Returns the number of images, that of other likeliest classes, and the largest difference of a probability."""
    lines = run(trainer, "predict", model, images, "--format", "jsonl").splitlines()
    lines = [json.loads(line) for line in lines if '"probabilities"' in line]
    others, largest = 0, 0.0
    for line in lines:
        ours, theirs = line["probabilities"], example.predict(line["file"])
        likeliest = max(theirs, key=theirs.get)
        others += max(ours.values()) - ours[likeliest] > EQUAL
        largest = max(largest, *(abs(ours[name] - theirs[name]) for name in ours))
    return len(lines), others, largest


def main(trainer, model, images, *options):
    with tempfile.TemporaryDirectory() as folder:
        count, others, largest = compare(trainer, model, images, load_example(trainer, model, folder, *options))
    print(f"{count} images: {others} have another likeliest class, the largest difference of a probability is {largest:.1e}")
    return 1 if others or not count else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
