#!/usr/bin/env python3
"""Trains every config of configs/ and configs/public_scripts, and checks the accuracy of each against a floor.

    scripts/campaign/floors.py build/release/apps/trainer/trainer short [--only mnist ...]    at most 15 s per config
    scripts/campaign/floors.py build/release/apps/trainer/trainer long                        those that need minutes
    scripts/campaign/floors.py build/release/apps/trainer/trainer full                        the data sets as a whole

`short` and `long` train on few or small images for some steps. The floor has half the errors of guessing: 0.75 for two
classes, 0.55 for ten. `full` trains MNIST, the drawn digits, cats and dogs (frozen and whole), CIFAR-10 and chest
X-rays for epochs, to the accuracies that they are known to reach. Data are read from TRAINER_SHARED_DATA; where a set
is missing, `short` and `long` draw pictures, and `full` leaves the row out. Ends with 1 where a floor is not reached.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "scripts" / "articles"))
import pictures  # noqa: E402

SHARED = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA", "/nonexistent"))
MOBILENET = SHARED / "weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
COMMON = ["parallel.device=cpu", "run.tensorboard=false", "run.checkpoint_every=100000 steps",
          "run.summary_every=1 steps"]
TRAINING_STEPS = 10  # whose accuracy is averaged


@dataclasses.dataclass
class Row:
    name: str
    floor: float
    settings: list
    # The split whose accuracy counts. Batch norm with Keras's momentum has no moving statistics of use after few steps.
    split: str = "evaluated"
    config: str = ""  # where the row has another name


def write_idx(path, dims, content):
    path.write_bytes(struct.pack(f">I{len(dims)}I", 0x0800 | len(dims), *dims) + bytes(content))


class Data:
    """Folders of data, real or drawn. Each is drawn at most once."""

    def __init__(self, work):
        self.work = work

    def mnist(self):
        return SHARED / "mnist" if (SHARED / "mnist").is_dir() else self.bars()

    def bars(self):
        """Files like MNIST's: the place of a bright bar in noise is the class."""
        folder = self.work / "bars"
        if folder.exists():
            return folder
        folder.mkdir()
        draw = random.Random(1)
        for name, count in (("train", 600), ("t10k", 200)):
            labels = [number % 10 for number in range(count)]
            content = bytearray()
            for label in labels:
                row = [200 if x * 10 // 28 == label else 60 for x in range(28)]
                content += bytes(min(255, max(0, value + draw.randint(-60, 60))) for _ in range(28) for value in row)
            write_idx(folder / f"{name}-images-idx3-ubyte", (count, 28, 28), content)
            write_idx(folder / f"{name}-labels-idx1-ubyte", (count,), labels)
        return folder

    def stripes(self, classes, side, counts):
        """Folders train, validation and test of pictures whose stripes have a direction per class."""
        folder = self.work / f"{'_'.join(classes)}_{side}"
        for seed, (split, count) in enumerate(zip(("train", "validation", "test"), counts)):
            if not (folder / split).exists():
                pictures.draw(folder / split, classes, count, side, seed)
        return folder

    def photos(self, name, classes):
        """A set of photos with the splits of its config, or stripes."""
        return SHARED / name if (SHARED / name).is_dir() else self.stripes(classes, 64, (60, 20, 20))


def backbone_weights():
    return f'model.backbone.weights="{MOBILENET if MOBILENET.exists() else ""}"'


def size(side):
    return [f"model.input=[{side}, {side}, 3]", f"data.resize=[{side}, {side}]"]


def steps(count, batch):
    return ["train.epochs=null", f"train.max_steps={count}", f"train.batch_size={batch}",
            f"run.evaluate_every={count} steps"]


def unfreeze(frozen):
    """A second stage for the last steps."""
    return f"model.backbone.unfreeze={{at: 40 steps, freeze: {frozen}, learning_rate_multiplier: 0.01}}"


def short_rows(data):
    cats, octdl = data.photos("cats_vs_dogs", ["cats", "dogs"]), data.photos("octdl", ["AMD", "DME", "ERM", "NO"])
    two, ten = data.stripes(["left", "right"], 48, (80, 20)), data.stripes(list("abcdefghij"), 32, (40, 10))
    idx = [f"data.path={data.mnist()}", "data.limit=4000"]
    # The keys at which the configs of cats and dogs name their photos.
    splits = [f"data.train.path={cats / 'train'}", f"data.validation.path={cats / 'validation'}"]
    return [
        Row("digits", 0.55, [f"data.path={data.work / 'digits'}", "data.limit=4000", *steps(100, 64)]),
        Row("mnist", 0.55, [*idx, *steps(100, 64)]),
        Row("fashion_mnist", 0.55, [f"data.path={data.bars()}", *steps(40, 32)]),
        Row("mnist_dense", 0.55, [*idx, *steps(200, 64)]),
        Row("mnist_parameter_server", 0.55, [*idx, *steps(200, 64)]),
        Row("cifar10_resnet20", 0.55, ["data.format=image_folder", f"data.path={ten}", *steps(120, 32)]),
        Row("cats_dogs_mobilenet_v2", 0.75, [
            *splits, backbone_weights(), "data.limit=400", "schedule=constant",
            "optimizer.rmsprop.learning_rate=1.0e-4", *size(96), *steps(60, 16)]),
        Row("cats_dogs_mobilenet_v2_frozen", 0.75, [*splits, backbone_weights(), "data.limit=400", *size(96),
                                                    *steps(60, 32)]),
        Row("octdl_mobilenet_v2", 0.625, [
            f"data.train.path={octdl / 'train'}", f"data.test.path={octdl / 'test'}", backbone_weights(), *size(128),
            *steps(80, 16)]),
        Row("keras_transfer_learning", 0.75, [
            f"data.path={cats}", backbone_weights(), "data.limit=320", *size(96),
            unfreeze("none"), *steps(50, 32)]),
        Row("tensorflow_cats_dogs", 0.75, [
            f"data.path={cats}", backbone_weights(), "data.limit=320", *size(96),
            unfreeze("'[:100]'"), "optimizer.adam.learning_rate=1.0e-3", *steps(50, 32)]),
        Row("keras_from_scratch", 0.75, [f"data.train.path={two / 'train'}", *size(32), *steps(30, 16)], split="train"),
        Row("pytorch_transfer_learning", 0.75, [
            f"data.path={two}", 'model.backbone.weights=""', *size(48), *steps(40, 8)]),
    ]


def long_rows(data):
    two = data.stripes(["left", "right"], 48, (80, 20))
    scans = data.stripes(["CNV", "DME", "DRUSEN", "NORMAL"], 32, (80, 20))
    return [
        Row("oct_vgg16", 0.625, [
            f"data.train.path={scans / 'train'}", f"data.test.path={scans / 'validation'}",
            'model.backbone.weights=""', "schedule=constant", *size(32), *steps(200, 16)]),
        Row("timm_efficientnet_b0", 0.75, [
            f"data.path={two}", "model.head[2].dense.units=2", "train.precision=float32", "optimizer.ema=null",
            "schedule=constant", *size(48), *steps(250, 16)], split="train"),
        Row("torchvision_resnet50_v2_recipe", 0.75, [
            f"data.path={two}", "model.head[1].dense.units=2", "optimizer.ema=null", "schedule=constant",
            "optimizer.sgd.learning_rate=0.02", "data.train.augment=[random_flip_horizontal]",
            *size(48), *steps(250, 16)], split="train"),
    ]


def full_rows(data):
    cats = SHARED / "cats_vs_dogs"
    splits = [f"data.train.path={cats / 'train'}", f"data.validation.path={cats / 'validation'}", backbone_weights()]
    cifar = SHARED / "cifar10_jpeg"
    xrays = SHARED / "chest_xray"
    rows = [
        (SHARED / "mnist", Row("mnist", 0.985, [f"data.path={SHARED / 'mnist'}"])),
        (ROOT, Row("digits", 0.985, [f"data.path={data.work / 'digits'}"])),
        (cats, Row("cats_dogs_mobilenet_v2_frozen", 0.95, splits)),
        (cats, Row("cats_dogs_mobilenet_v2", 0.95, splits)),
        (cifar, Row("cifar10_resnet20", 0.75, [
            f"data={{format: image_folder, train: {{path: {cifar / 'train.zip'}}}, "
            f"test: {{path: {cifar / 'test.zip'}}}}}",
            "train.epochs=20", "schedule.milestones.at=[12 epochs, 17 epochs]"])),
        (cifar, Row("cifar_resnet20_th", 0.8, [
            f"data={{format: image_folder, train: {{path: {cifar / 'train.zip'}}}, "
            f"test: {{path: {cifar / 'test.zip'}}}}}",
            f"model.weights={SHARED / 'weights/cifar10_resnet20.th'}", "train.epochs=1"])),
        # Two classes of another pathology: the model and head of cats and dogs.
        (xrays, Row("chest_xray", 0.8, [
            f"data.train.path={xrays / 'train'}", f"data.validation.path={xrays / 'test'}",
            "data.classes=[NORMAL, PNEUMONIA]", backbone_weights()], config="cats_dogs_mobilenet_v2_frozen")),
    ]
    return [row for path, row in rows if path.exists()]


def accuracy(run, split):
    """The accuracy of the last evaluation, or the mean over the last training steps."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    if split == "train":
        last = [row["accuracy"] for row in rows if row["split"] == "train"][-TRAINING_STEPS:]
    else:
        last = [row["accuracy"] for row in rows if row["split"] != "train"][-1:]
    return sum(last) / len(last) if last else float("nan")


def train(trainer, row, run):
    """Returns the accuracy and the seconds of a run, or the message of its failure."""
    config = next(path for path in (ROOT / "configs").rglob("*.yaml") if path.stem == (row.config or row.name))
    settings = [part for setting in [*COMMON, *row.settings] for part in ("--set", setting)]
    begin = time.monotonic()
    done = subprocess.run([trainer, "train", config, *settings, "--run-dir", run], capture_output=True, text=True,
                          cwd=run.parent)
    if done.returncode != 0:
        return None, done.stderr.strip()[-600:]
    warnings = [line for line in done.stderr.splitlines() if "gradient of" in line or "did not change" in line]
    return accuracy(run, row.split), f"{time.monotonic() - begin:.1f} s {' '.join(warnings)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path, metavar="TRAINER")
    parser.add_argument("rows", choices=["short", "long", "full"])
    parser.add_argument("--only", nargs="*", help="names of configs")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="floors.") as folder:
        work = pathlib.Path(folder)
        (work / "runs").mkdir()
        rows = {"short": short_rows, "long": long_rows, "full": full_rows}[options.rows](Data(work))
        print(f"{'config':30}  {'floor':>5}  {'accuracy':>8}")
        for row in rows:
            if options.only and row.name not in options.only:
                continue
            found, text = train(options.trainer.resolve(), row, work / "runs" / row.name)
            reached = found is not None and found >= row.floor
            missed += not reached
            shown = "failed" if found is None else f"{found:.4f}"
            text = text if reached else f"BELOW THE FLOOR  {text}"
            print(f"{row.name:30}  {row.floor:5.2f}  {shown:>8}  {text}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
