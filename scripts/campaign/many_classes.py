#!/usr/bin/env python3
"""Trains, evaluates and reports a model of very many classes, and prints the seconds and peak memory of each command.

    scripts/campaign/many_classes.py [--trainer PROGRAM] [--classes 22000] [--samples 2]

Draws --samples images of 16 x 16 pixels per class. Half of them validate.
"""
import argparse
import array
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIDE = 16
CONFIG = """name: many_classes
model:
  layers:
    - conv: {{filters: 16, kernel_size: 3, strides: 2, activation: relu}}
    - flatten
    - dense: {{units: 64, activation: relu}}
    - dense: {classes}
data: {{format: npz, train: {{images: {folder}/images.npy, labels: {folder}/labels.npy}}, validation_split: 0.5}}
optimizer: {{adam: {{learning_rate: 1.0e-3}}}}
train: {{epochs: 1, batch_size: 128}}
run: {{dir: {folder}/run, best: validation/accuracy}}
"""


def write_npy(path, kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def draw(folder, classes, samples):
    generator = random.Random(1)
    count = classes * samples
    write_npy(folder / "images.npy", "|u1", (count, SIDE, SIDE, 1), generator.randbytes(count * SIDE * SIDE))
    write_npy(folder / "labels.npy", "<i4", (count,), array.array("i", (i % classes for i in range(count))).tobytes())
    (folder / "config.yaml").write_text(CONFIG.format(classes=classes, folder=folder))


def run(name, words, folder):
    begin = time.monotonic()
    with open(folder / "out.txt", "wb") as out:
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    print(f"{name:10} {time.monotonic() - begin:8.1f} {usage.ru_maxrss / 1024:8.0f} {process.returncode:5}", flush=True)
    if process.returncode != 0:
        print((folder / "out.txt").read_text(errors="replace")[-2000:])
    return process.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=ROOT / "build/release/apps/trainer/trainer", type=pathlib.Path)
    parser.add_argument("--classes", type=int, default=22_000)
    parser.add_argument("--samples", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        draw(folder, options.classes, options.samples)
        print(f"{options.classes} classes, {options.classes * options.samples} samples")
        print(f"{'command':10} {'seconds':>8} {'peak MB':>8} {'code':>5}")
        is_fine = run("train", [options.trainer, "train", folder / "config.yaml"], folder)
        is_fine = is_fine and run("evaluate", [options.trainer, "evaluate", folder / "run", "--split", "validation"], folder)
        is_fine = is_fine and run("report", [options.trainer, "report", folder / "run"], folder)
        size = sum(path.stat().st_size for path in (folder / "run").glob("*") if path.is_file())
        print(f"files beside the checkpoints: {size >> 20} MiB")
        return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
