#!/usr/bin/env python3
"""One command of this program beside one of Ultralytics: both train on a folder of images, without pretrained weights.

    scripts/python_env.sh ultralytics -- scripts/campaign/yolo_classify.py IMAGES FOLDER [--epochs 30] [--yolo K=V]...

IMAGES has a folder per class, or train and test folders of them. `trainer train IMAGES` runs with the config of `new`;
then `yolo classify train model=yolov8n-cls.yaml` runs on links to the same files in the same splits, with the same
image size and number of epochs and its own defaults otherwise. Both work in FOLDER, a new one, where their logs remain.
Core-seconds are the CPU time of a command from start to end. The last row is the accuracy of the slower program when it
had used the core-seconds of the faster one; its schedule was then unfinished.
"""
import argparse
import csv
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(name, words, folder, **environment):
    """Runs a command to its end and returns its wall seconds and core-seconds."""
    print("$", *words, flush=True)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with open(folder / f"{name}.log", "w") as log:
        subprocess.run(words, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                       env={**os.environ, **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall seconds": time.monotonic() - begin, "core-seconds": cores}


def read_rows(path):
    with open(path, newline="") as file:
        return [{key.strip(): value for key, value in row.items()} for row in csv.DictReader(file)]


def link_split(options, split, folder):
    """Links the files of a split of the run into a folder per class."""
    words = [options.trainer, "predict", options.folder / "run", "--split", split, "--format", "csv"]
    listing = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    for row in csv.DictReader(listing.splitlines()):
        target = folder / row["label"] / f"{row['index']}_{pathlib.Path(row['file']).name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(pathlib.Path(row["file"]).resolve())


def run_trainer(options, splits):
    run = options.folder / "run"
    # `new` also looks for weights beside the images; there are none beside the link.
    (options.folder / "photos").symlink_to(options.images.resolve())
    words = [str(options.trainer), "train", "photos", "--run-dir", str(run), "--epochs", str(options.epochs)]
    figures = measure("trainer", words, options.folder, WEIGHTS_DIR="no_weights")
    if "backbone:" in (config := (options.folder / "photos.yaml").read_text()):
        sys.exit("trainer found pretrained weights (see photos.yaml): remove them from where it looked")
    options.image_size = int(re.search(r"input: \[(\d+),", config)[1])
    for split, kept in itertools.product(splits, ("best", "last")):
        words = [options.trainer, "evaluate", run, "--split", split, "--json", f"--{kept}"]
        found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout.splitlines()[-1])
        figures[f"{split} accuracy, {kept}"] = found["accuracy"]
        figures[f"{split} balanced accuracy, {kept}"] = found["balanced_accuracy"]
    return figures, [float(row["accuracy"]) for row in read_rows(run / "metrics.csv") if row["split"] == "validation"]


def run_yolo(options, splits):
    # Ultralytics reads its settings when it is imported.
    os.environ.update(YOLO_CONFIG_DIR=str(options.folder), YOLO_OFFLINE="true")
    from ultralytics import YOLO

    settings = {"data": options.folder / "images", "imgsz": options.image_size, "epochs": options.epochs,
                "device": "cpu", "workers": 0, "amp": False, "plots": False, "pretrained": False,
                "project": options.folder, "name": "yolo"}
    words = [str(pathlib.Path(sys.executable).with_name("yolo")), "classify", "train", "model=yolov8n-cls.yaml"]
    words += [f"{key}={value}" for key, value in settings.items()]
    figures = measure("yolo", words + options.yolo, options.folder)
    for split, kept in itertools.product(splits, ("best", "last")):
        found = YOLO(options.folder / "yolo/weights" / f"{kept}.pt").val(
            data=str(options.folder / "images"), split=split.replace("validation", "val"), imgsz=options.image_size,
            device="cpu", workers=0, plots=False, verbose=False, project=str(options.folder), name="val")
        counts = found.confusion_matrix.matrix  # a row per predicted class, a column per true class
        figures[f"{split} accuracy, {kept}"] = counts.trace() / counts.sum()
        figures[f"{split} balanced accuracy, {kept}"] = (counts.diagonal() / counts.sum(axis=0)).mean()
    return figures, [float(row["metrics/accuracy_top1"]) for row in read_rows(options.folder / "yolo/results.csv")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--yolo", action="append", default=[], metavar="KEY=VALUE", help="another setting of yolo")
    parser.add_argument("--trainer", default=os.environ.get("TRAINER", ROOT / "build/release/apps/trainer/trainer"))
    options = parser.parse_args()
    options.folder, options.trainer = options.folder.resolve(), pathlib.Path(options.trainer).resolve()
    if options.folder.exists():
        sys.exit(f"{options.folder} exists; give a new folder")
    options.folder.mkdir(parents=True)
    splits = ["validation", "test"] if (options.images / "test").is_dir() else ["validation"]
    ours, our_curve = run_trainer(options, splits)
    for split in ["train", *splits]:
        link_split(options, split, options.folder / "images" / split.replace("validation", "val"))
    theirs, their_curve = run_yolo(options, splits)
    budget = min(ours["core-seconds"], theirs["core-seconds"])
    for figures, curve in ((ours, our_curve), (theirs, their_curve)):
        epochs = max(1, int(len(curve) * (budget / figures["core-seconds"])))
        figures["validation accuracy, equal core-seconds"] = max(curve[:epochs])
    print(f"{'':42} {'trainer':>10} {'yolo':>10}")
    for key in ours:
        print(f"{key:42} {ours[key]:10.4g} {theirs[key]:10.4g}")
    print(f"ratio accuracy {ours['validation accuracy, best'] / theirs['validation accuracy, best']:.3f}")
    print(f"ratio core_seconds {theirs['core-seconds'] / ours['core-seconds']:.2f}")


if __name__ == "__main__":
    main()
