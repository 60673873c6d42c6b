#!/usr/bin/env python3
"""The configs/digits.yaml run on fake GPUs: as a user starts it, against the CPU.

  digits.py PROGRAM PLUGIN full   the whole run over two GPUs reaches the accuracy of the CPU's
  digits.py PROGRAM PLUGIN start  its first steps over two GPUs have the losses of the CPU's; a replica each on GPUs of
                                  its own or on one, and a resumed run, pass the program's own verification
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, PLUGIN, MODE = sys.argv[1:]
CONFIG = Path(__file__).resolve().parents[3] / "configs" / "digits.yaml"
FEW_STEPS = ["--set", "train.epochs=null"]


def run(arguments, folder, fake=True):
    """What the program prints as JSON; ends the test with its messages if it fails."""
    environment = dict(os.environ, DIGITS_DIR=str(folder / "digits"), TRAINER_CUDA_PLUGIN=PLUGIN)
    device = ["--set", "parallel.device=" + ("cuda" if fake else "cpu")]
    command = [PROGRAM, *arguments[:-1], str(CONFIG), *arguments[-1], *device, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def train(folder, name, more, fake=True):
    return run(["train", ["--gpus", "2", "--run-dir", str(folder / name), *more]], folder, fake)


def keep_few_tests(folder):
    """A fake GPU needs seconds for the 4000 images of the test split: keeps 400 of them."""
    train(folder, "draws the digits", ["--set", "train.max_steps=1", *FEW_STEPS], fake=False)
    for path in (folder / "digits").glob("t10k-*"):
        content = path.read_bytes()
        dimensions = [int.from_bytes(content[4 * i:4 * i + 4], "big") for i in range(1, content[3] + 1)]
        header, each = 4 + 4 * len(dimensions), 1
        for size in dimensions[1:]:
            each *= size
        path.write_bytes(content[:4] + (400).to_bytes(4, "big") + content[8:header + 400 * each])


def of(events, kind):
    return [event for event in events if event["event"] == kind]


def check(holds, what):
    print(("holds: " if holds else "DOES NOT HOLD: ") + what, flush=True)
    if not holds:
        sys.exit(1)


def full(folder):
    gpus = of(train(folder, "gpus", []), "finished")[-1]["metrics"]["test"]
    cpu = of(train(folder, "cpu", [], fake=False), "finished")[-1]["metrics"]["test"]
    check(cpu["accuracy"] > 0.97, f"the CPU learns the digits: {cpu}")
    # Two in a thousand are eight of the 4000 test images: what another order of sums moves.
    check(abs(gpus["accuracy"] - cpu["accuracy"]) <= 0.004, f"two GPUs reach it: {gpus}")


def start(folder):
    keep_few_tests(folder)
    steps = ["--set", "train.max_steps=12", *FEW_STEPS, "--set", "data.limit=1600", "--set", "run.log_every=1 steps"]
    losses = [[event["loss"] for event in of(train(folder, device, steps, fake=device == "gpus"), "step")]
              for device in ("gpus", "cpu")]
    check(len(losses[0]) == len(losses[1]) > 1, f"both print the losses of {len(losses[0])} steps")
    check(losses[1][-1] < losses[1][0], f"the loss falls: {losses[1]}")
    worst = max(abs(a - b) / b for a, b in zip(*losses))
    check(worst < 1e-3, f"the losses of two GPUs are the CPU's: {losses[0]}, off by {worst:.1e}")
    few = ["--steps", "4", "--set", "data.limit=320"]
    for gpus in ("2", "[0, 0]"):
        events = run(["verify", "replicas", ["--gpus", gpus, "--replicas", "1,2", *few]], folder)
        check(of(events, "verified")[-1]["holds"], f"verify replicas --gpus {gpus}: {events}")
    events = run(["verify", "resume", ["--gpus", "2", *few]], folder)
    check(of(events, "verified")[-1]["holds"], f"verify resume: {events}")


with tempfile.TemporaryDirectory() as made:
    {"full": full, "start": start}[MODE](Path(made))
