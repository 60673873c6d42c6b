#!/usr/bin/env python3
"""Runs eight jobs with two builds of trainer and compares what they print and store.

    scripts/campaign/same_outputs.py OLD_TRAINER NEW_TRAINER [--data ../shared/data] [--keep FOLDER]

A change of structure must change neither keys nor values of --json, nor those of run.json, crossval.json, the tables of
a sweep and the other files of runs, `parameters_sha256` among them. The jobs are one run of each kind (digits, photos of
two and of several classes, several labels, replicas with ordered sums, a resumed run), a cross-validation and a sweep,
and every command that reads them. Keys are compared in their order. Values are compared but for those of VARIES: times,
rates, dates, and what depends on the machine, the process or the version. Of texts, the numbers are left out.
Prints each difference; ends with 1 when there is one.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIES = re.compile(
    r"second|elapsed|images_per|per_second|wait|host|commit|version|program|joule|energy|memory|bandwidth|straggler|gap|date|"
    r"eta|pid|_ms$|_us$|peak|least|step_times|started|^time$|_times$|^dur$|^ts$|^input$|^command$|^verdict$|devices_fed|"
    r"available_bytes|suggested_threads|cost$|^cheapest$|^loader$|_(min|max)$|"
    r"^(data_wait|copy|forward|backward|all_reduce|hidden_all_reduce|update|other)$"
)
# What `benchmark` and `find` measure.
MEASURED = re.compile(r"^(low|high|steps|suggestion|batch_size|knee|points|rate|loss|smoothed|diverged|by_batch|calls)$")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")

CONFIG = """name: small
model:
  layers:
    - conv: {{filters: 8, kernel_size: 3, strides: 2, activation: relu}}
    - flatten
    - dense: {classes}
  loss: {loss}
data: {{{data}}}
optimizer: {{adam: {{learning_rate: 1.0e-2}}}}
train: {{epochs: 2, batch_size: 16}}
seed: 3
parallel: {{device: cpu, gpus: 0}}
"""


def write_png(path, pixels):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_labelled_photos(folder):
    """Writes photos of three colours, each of which is a label, with a list of each split."""
    folder.mkdir()
    chance = random.Random(1)
    rows = {split: ["file,red,green,blue"] for split in ("train", "validation", "test")}
    for i in range(240):
        labels = [chance.randint(0, 1) for _ in range(3)]
        pixels = [[[label * 120 + chance.randint(0, 130) for label in labels] for _ in range(16)] for _ in range(16)]
        write_png(folder / f"p{i}.png", pixels)
        rows["train" if i < 160 else "validation" if i < 200 else "test"].append(f"p{i}.png," + ",".join(map(str, labels)))
    for split, lines in rows.items():
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")


class Jobs:
    """Runs the jobs with a program in a folder, where `out` gets what each command prints and its exit status."""

    def __init__(self, program, folder, data):
        self.folder, self.data, self.count = folder, data, 0
        (folder / "out").mkdir(parents=True)
        (folder / "bin").mkdir()
        self.program = shutil.copy(program, folder / "bin")

    def call(self, *arguments):
        self.count += 1
        variables = {**os.environ, "OMP_WAIT_POLICY": "passive", "DIGITS_DIR": "digits", "HOME": str(self.folder)}
        command = [self.program, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False)
        name = f"{self.count:03}_" + re.sub(r"[^a-z0-9]+", "_", " ".join(arguments))[:80]
        for ending, text in (("out", done.stdout), ("err", done.stderr), ("rc", f"{done.returncode}\n")):
            (self.folder / "out" / f"{name}.{ending}").write_text(text)

    def both(self, *arguments):
        """Calls a command that trains nothing with and without --json."""
        self.call(*arguments, "--json")
        self.call(*arguments)

    def config(self, name, data, classes=10, loss="softmax_cross_entropy"):
        (self.folder / name).write_text(CONFIG.format(data=data, classes=classes, loss=loss))

    def photos(self, name, folder, limit):
        place = self.data / folder
        split = place / "train" if (place / "train").is_dir() else place
        classes = sorted(path.name for path in split.iterdir() if path.is_dir())
        place = f"format: image_folder, path: {place}, resize: [32, 32], validation_split: 0.2, limit: {limit}"
        self.config(name, place, classes=len(classes))
        return classes

    def read(self, run):
        for command in ("evaluate", "predict", "report"):
            self.both(command, run)
        self.both("export", run, "--output", f"{run}.onnx", "--overwrite")

    def decide(self, run, *further):
        decisions = ["--calibrate", "--curves", "--operating-point", "sensitivity=0.9", "--abstain", "0.05", "--novelty"]
        self.both("evaluate", run, *decisions, *further)
        self.read(run)

    def run(self):
        self.run_digits()
        self.run_photos()
        self.run_labels()
        self.run_several()
        for command in ("models", "devices", "weights", "explain"):
            self.both(command)
        self.both("models", "resnet50")
        self.both("weights", "--search", "resnet18")
        self.both("explain", "train.epochs")

    def run_digits(self):
        digits = "format: digits, path: digits, validation_split: 0.1, limit: {}"
        self.config("one.yaml", digits.format(800))
        self.config("small.yaml", digits.format(400))
        self.config("bad.yaml", digits.format(-1))
        self.call("train", "one.yaml", "--run-dir", "one", "--json")
        self.decide("one", "--positive-class", "3")
        self.both("watch", "one")
        self.both("runs", ".")
        self.both("runs", "clean", ".", "--dry-run")
        self.call("profile", "one.yaml", "--steps", "4", "--json")
        self.both("plan", "one.yaml")
        self.both("plan", "one.yaml", "--workers", "4", "--link", "10Gbit", "--step-time", "10ms")
        self.both("data", "one.yaml")
        self.both("validate", "one.yaml", "bad.yaml")
        self.call("benchmark", "one.yaml", "--seconds", "0.5", "--json")
        self.call("benchmark", "one.yaml", "--predict", "--seconds", "0.5", "--json")
        self.call("find", "learning-rate", "one.yaml", "--json")
        self.both("verify", "replicas", "small.yaml", "--set", "parallel.lr_scaling=none", "--steps", "4", "--replicas", "1,2")

    def run_photos(self):
        self.photos("two.yaml", "chest_xray", 400)
        names = self.photos("flowers.yaml", "flowers", 300)
        self.call("train", "two.yaml", "--run-dir", "two", "--json")
        self.decide("two")
        self.both("evaluate", "two", "--operating-point", "cost=1:5")
        self.both("evaluate", "two", "--follow", "--set", "evaluate.start_delay_secs=0", "--set", "evaluate.throttle_secs=0")
        self.both("data", "two.yaml")
        self.both("data", "two.yaml", "--suspects", "two", "--overwrite")
        self.call("train", "flowers.yaml", "--run-dir", "flowers", "--json")
        self.decide("flowers", "--positive-class", names[0])

    def run_labels(self):
        write_labelled_photos(self.folder / "photos")
        self.config("labels.yaml", "format: csv, path: photos, resize: [16, 16]", classes=3, loss="binary_cross_entropy")
        self.call("train", "labels.yaml", "--run-dir", "labels", "--json")
        self.read("labels")
        self.both("evaluate", "labels", "--thresholds", "f1")
        self.both("predict", "labels", "--logits")

    def run_several(self):
        """A cross-validation, a sweep, replicas and a resumed run."""
        folds = ["crossval", "small.yaml", "--folds", "3", "--dir", "folds"]
        folds += ["--operating-point", "cost=1:2", "--positive-class", "1"]
        self.call(*folds, "--json")
        self.both(*folds, "--collect")
        sweep = ["sweep", "small.yaml", "--dir", "sweep"]
        sweep += ["--over", "optimizer.adam.learning_rate=0.01,0.001", "--over", "seed=1,2"]
        self.call(*sweep, "--json")
        self.both(*sweep, "--collect", "--to-accuracy", "0.1")
        for folder in ("folds", "sweep"):
            self.both("report", folder, "--overwrite")
            self.both("runs", folder)
        replicas = ["parallel.replicas=2", "parallel.lr_scaling=none", "parallel.reduction=ordered"]
        settings = [word for setting in replicas for word in ("--set", setting)]
        self.call("train", "small.yaml", "--run-dir", "replicas", *settings, "--json")
        self.call("train", "small.yaml", "--run-dir", "resumed", "--set", "train.epochs=1", "--json")
        self.call("train", "small.yaml", "--run-dir", "resumed", "--resume", "--json")
        for command in ("compare", "diff"):
            self.both(command, "one", "replicas")
        self.both("evaluate", "replicas", "--ensemble", "resumed")
        self.both("predict", "replicas", "--ensemble", "resumed")


def parse(text):
    """The lines of a text, those of JSON as values."""
    values = []
    for line in text.splitlines():
        try:
            values.append(json.loads(line))
        except ValueError:
            values.append(NUMBER.sub("#", line).split())
    return values


def find_differences(old, new, skipped, place=""):
    """Yields each place where keys differ, or values that `skipped` does not match."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield f"{place}: keys {list(old)} | {list(new)}"
            return
        for key in old:
            if not skipped(key):
                yield from find_differences(old[key], new[key], skipped, f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new)):
            yield from find_differences(one, other, skipped, f"{place}[{i}]")
    elif old != new:
        yield f"{place}: {str(old)[:100]} | {str(new)[:100]}"


def compare_files(old, new, name):
    def skipped(key):
        return VARIES.search(key) or (re.search("_(benchmark|find)_", name.name) and MEASURED.search(key))

    texts = [(folder / name).read_text().replace(str(folder), "FOLDER") for folder in (old, new)]
    if name.suffix == ".csv":
        values = [list(csv.DictReader(text.splitlines())) for text in texts]
    else:
        values = [parse(text) for text in texts]
    return list(find_differences(*values, skipped))


def compare(old, new):
    """Prints the differences of the files of both folders. Returns the number of files that differ."""
    endings = {".out", ".rc", ".json", ".jsonl", ".csv"}
    names = {path.relative_to(folder) for folder in (old, new) for path in folder.rglob("*") if path.suffix in endings}
    differing = 0
    for name in sorted(names):
        missing = [folder for folder in (old, new) if not (folder / name).exists()]
        differences = [f"is not in {missing[0]}"] if missing else compare_files(old, new, name)
        differing += bool(differences)
        for difference in differences[:4]:
            print(f"{name}: {difference}")
    print(f"{len(names)} files and outputs, {differing} differ")
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--keep", help="a folder for the outputs, which are removed otherwise")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        places = [folder / "old", folder / "new"]
        for program, place in zip((options.old, options.new), places):
            Jobs(program, place, options.data.resolve()).run()
        return int(compare(*places) > 0)


if __name__ == "__main__":
    sys.exit(main())
