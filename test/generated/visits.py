#!/usr/bin/env python3
"""Counts how often training visits each sample, for random data, splits, batches and starts.

    test/generated/visits.py build/release/apps/trainer/trainer
    ... visits.py TRAINER --cases 200 --seed 7         another draw
    ... visits.py TRAINER --seed 7 --case 12           case 12 of this draw alone

Image j is 1 in pixel j and 0 elsewhere, and the model is one dense layer without bias, which begins at 0. A visit moves
row j of the kernel alone, by the learning rate over the number of samples of the update: the kernel is a count of the
visits of each sample. The draws are arrays, folders, lists and shards; limit, validation_split and all folds; batches,
accumulation, drop_remainder and shuffle; replicas and processes; and a run that is resumed. Compared are:

  visits       each training sample once per epoch, and each update with its number of samples
  left out     samples of the validation split and above the limit are not visited
  folds        each sample is left out by one fold
  order        without shuffle, the last samples of the order are in the short update

Exits with 1 where a case failed. Needs no packages.
"""

import io
import json
import struct
import sys
import tarfile

from cases import Failed, Generator
from random_data import make_npy, make_png, make_tfrecord

RATE = 1e-4
CLOSE = 3e-3  # of a count; the gradient of a later visit is smaller by RATE


class Samples:
    """The files of one-hot images, and what a config says of them."""

    def __init__(self, case):
        draw = self.draw = case.draw
        self.folder = case.folder
        self.classes = draw.randint(2, 3)
        self.width = draw.randint(5, 8)
        self.height = draw.randint(4, 8)
        pixels = self.height * self.width
        self.count = draw.randint(max(6 * self.classes, pixels // 2), pixels)
        self.labels = [j % self.classes for j in range(self.count)]
        draw.shuffle(self.labels)
        self.kind = draw.choice(["npy", "npy", "image_folder", "csv", "webdataset", "tfrecord"])
        self.config = getattr(self, "make_" + self.kind)()

    def make_npy(self):
        pixels = self.height * self.width
        data = b"".join(struct.pack("<f", p == j) for j in range(self.count) for p in range(pixels))
        shape = (self.count, self.height, self.width, 1)
        (self.folder / "images.npy").write_bytes(make_npy(shape, data, "<f4"))
        labels = struct.pack(f"<{self.count}q", *self.labels)
        (self.folder / "labels.npy").write_bytes(make_npy((self.count,), labels, "<i8"))
        return {"format": "npz", "train": {"images": "images.npy", "labels": "labels.npy"}, "normalize": {"scale": 1}}

    def image(self, j):
        pixels = bytes(255 * (p == j) for p in range(self.height * self.width))
        return make_png(pixels, self.height, self.width, 1)

    def image_config(self, **more):
        return {"resize": [self.height, self.width], "channels": 1, **more}

    def make_image_folder(self):
        for j, label in enumerate(self.labels):
            folder = self.folder / "images" / f"class{label}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self.draw.randrange(10**6)}_{j}.png").write_bytes(self.image(j))
        return self.image_config(format="image_folder", train={"path": "images"})

    def make_csv(self):
        rows = ["image,label"]
        (self.folder / "images").mkdir()
        for j, label in enumerate(self.labels):
            (self.folder / f"images/{j}.png").write_bytes(self.image(j))
            rows.append(f"images/{j}.png,{label}")
        (self.folder / "train.csv").write_text("\n".join(rows) + "\n")
        return self.image_config(format="csv", train={"path": "train.csv"})

    def shards(self):
        """The numbers of the samples of each shard."""
        ends = sorted(self.draw.sample(range(1, self.count), self.draw.randint(0, 2)))
        return [range(first, end) for first, end in zip([0, *ends], [*ends, self.count])]

    def make_webdataset(self):
        (self.folder / "shards").mkdir()
        for number, samples in enumerate(self.shards()):
            with tarfile.open(self.folder / f"shards/{number}.tar", "w") as tar:
                for j in samples:
                    for ending, data in (("png", self.image(j)), ("cls", str(self.labels[j]).encode())):
                        entry = tarfile.TarInfo(f"{j:04}.{ending}")
                        entry.size = len(data)
                        tar.addfile(entry, io.BytesIO(data))
        return self.image_config(format="webdataset", train={"path": "shards"})

    def make_tfrecord(self):
        (self.folder / "shards").mkdir()
        shards = self.shards()
        for number, samples in enumerate(shards):
            name = f"shards/train-{number:05}-of-{len(shards):05}.tfrecord"
            (self.folder / name).write_bytes(make_tfrecord([(self.image(j), self.labels[j]) for j in samples]))
        return self.image_config(format="tfrecord", train={"path": "shards"})


class Plan:
    """The drawn config and starts."""

    def __init__(self, case):
        draw = case.draw
        samples = self.samples = Samples(case)
        self.processes, self.replicas = draw.choice([(1, 1), (1, 1), (1, 2), (1, 3), (2, 1)])
        self.batch, self.accumulate = draw.randint(1, 7), draw.choice([1, 1, 2, 3])
        self.global_batch = self.batch * self.processes * self.replicas
        self.epochs = draw.randint(1, 4)
        self.is_shuffled = draw.random() < 0.7
        # With fewer samples than this, a batch of all replicas may not be full.
        self.drops = self.global_batch <= 2 * samples.classes and draw.random() < 0.5
        if self.drops:
            self.accumulate = 1  # else a sum of visits in full and short updates may have several meanings
        self.update = self.global_batch * self.accumulate
        self.folds = 0
        data = dict(samples.config, shuffle=self.is_shuffled, drop_remainder=self.drops)
        split = draw.choice(["none", "limit", "validation", "folds"])
        if split == "limit":
            data["limit"] = draw.randint(2 * samples.classes, samples.count)
        if split == "validation":
            data["validation_split"] = draw.choice([0.2, 0.25, 0.5])
        if split == "folds":
            self.folds = data["folds"] = draw.randint(2, 3)
        self.is_resumed = draw.random() < 0.5
        optimizer = {"sgd": {"learning_rate": RATE}}
        if self.accumulate > 1:
            optimizer["accumulate"] = self.accumulate
        self.config = {
            "name": "visits", "seed": draw.randint(0, 1000),
            "model": {"layers": ["flatten", {"dense": {"units": samples.classes, "use_bias": False,
                                                       "kernel_initializer": "zeros"}}]},
            "data": data, "optimizer": optimizer,
            "train": {"epochs": self.epochs, "batch_size": self.batch},
            "parallel": {"threads": self.replicas, "replicas": self.replicas, "lr_scaling": "none",
                         "timeout": "60 seconds"},
            "run": {"tensorboard": False},
        }

    def arguments(self, run, *more):
        words = ["train", "config.yaml", "--run-dir", run, "--quiet", *more]
        if self.processes == 1:
            return words
        return ["launch", "-n", self.processes, "--", *words]


def read_kernel(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])["dense/kernel"]
    first, last = (8 + size + offset for offset in entry["data_offsets"])
    return struct.unpack(f"<{(last - first) // 4}f", data[first:last])


def train(case, plan, run, *more):
    """The visits of each sample in full updates and in short ones, the number of training samples, and how many of these
    an epoch visits."""
    if plan.is_resumed:  # an epoch has one step or more
        case.run(*plan.arguments(run, *more, "--set", f"train.max_steps={case.draw.randint(1, plan.epochs)}"))
        more = (*more, "--resume")
    case.run(*plan.arguments(run, *more))
    samples = plan.samples
    checkpoints = sorted((case.folder / run / "checkpoints").glob("step-*.safetensors"))
    kernel = read_kernel(checkpoints[-1])
    record = json.loads((case.folder / run / "run.json").read_text())
    count = record["splits"]["train"]["samples"]
    unit = RATE * (1 - 1 / samples.classes)
    moved = [kernel[j * samples.classes + label] / unit for j, label in enumerate(samples.labels)]
    each_epoch = count // plan.global_batch * plan.global_batch if plan.drops else count
    return [find_visits(plan, value, each_epoch % plan.update) for value in moved], count, each_epoch


def find_visits(plan, moved, short):
    """The visits in full and in short updates that move a row so far. An update after the last full one of an epoch has
    `short` samples."""
    for total in range(plan.epochs + 1) if plan.drops else (0, plan.epochs):
        for in_short in range(total + 1 if short else 1):
            expected = (total - in_short) / plan.update + (in_short / short if short else 0)
            if abs(moved - expected) <= CLOSE * max(expected, 1 / plan.update):
                return total - in_short, in_short
    raise Failed("visits", f"a sample has moved by {moved:.4f}, of updates of {plan.update} and {short} samples")


def check_count(case, plan, count):
    """The number of training samples is that of the config; each class of a split may be rounded."""
    data = plan.config["data"]
    share = 1 - data.get("validation_split", 1 / plan.folds if plan.folds else 0)
    expected = data.get("limit", share * plan.samples.count)
    if abs(count - expected) <= (plan.samples.classes if share < 1 else 0):
        case.passed("left out")
    else:
        case.failed("left out", f"{count} training samples, expected {expected}")


def check_visits(case, plan, visits, count, each_epoch):
    short = each_epoch % plan.update
    full = each_epoch - short
    sums = [sum(pair[kind] for pair in visits) for kind in (0, 1)]
    expected = [plan.epochs * full, plan.epochs * short]
    most = max(sum(pair) for pair in visits)
    visited = [pair for pair in visits if sum(pair)]
    is_each = plan.drops or all(sum(pair) == plan.epochs for pair in visited)
    if sums == expected and most <= plan.epochs and is_each:
        case.passed("visits")
    else:
        case.failed("visits", f"{sums} visits in full and short updates, expected {expected}; at most {most} of a "
                              f"sample in {plan.epochs} epochs; {visits}")
    if plan.drops and plan.is_shuffled:
        return
    left_out = len(visits) - each_epoch
    if visits.count((0, 0)) == left_out:
        case.passed("left out")
    else:
        case.failed("left out", f"{visits.count((0, 0))} samples are not visited, expected {left_out}")
    limit = plan.config["data"].get("limit")
    if plan.samples.kind != "npy" or plan.is_shuffled or plan.folds or "validation_split" in plan.config["data"]:
        return
    end = limit or len(visits)
    ordered = [(plan.epochs, 0)] * full + [(0, plan.epochs)] * short + [(0, 0)] * (end - each_epoch)
    if visits[:end] == ordered and not any(map(sum, visits[end:])):
        case.passed("order")
    else:
        case.failed("order", f"visits {visits}, expected {ordered}")


def run_case(case):
    plan = Plan(case)
    case.write_config(plan.config)
    left_out = [0] * plan.samples.count
    for fold in range(1, plan.folds + 1) if plan.folds else [None]:
        more = ("--fold", fold) if fold else ()
        visits, count, each_epoch = train(case, plan, f"run{fold or ''}", *more)
        check_count(case, plan, count)
        check_visits(case, plan, visits, count, each_epoch)
        left_out = [n + (pair == (0, 0)) for n, pair in zip(left_out, visits)]
    if not plan.folds or plan.drops:
        return
    if left_out == [1] * plan.samples.count:
        case.passed("folds")
    else:
        case.failed("folds", f"{left_out} folds leave out each sample")


if __name__ == "__main__":
    sys.exit(Generator("visits", __doc__, cases=16).run(run_case))
