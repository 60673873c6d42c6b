#!/usr/bin/env python3
"""Trains the same short jobs with two builds of trainer and compares the parameters bit by bit.

    scripts/campaign/same_parameters.py OLD_TRAINER NEW_TRAINER [--data ../shared/data] [--only NAME ...]

A change of structure must not change what is trained. The jobs are MNIST with one and two replicas, fast and ordered
sums, two processes, bfloat16 and a parameter server with one worker, and MobileNetV2 on cats and dogs, frozen and whole.
Prints a table with the first digits of `finished.parameters_sha256` of both builds; ends with 1 when a job differs or
fails, and names the jobs that it left out because their data is absent.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MNIST = ["configs/mnist.yaml", "train.max_steps=120", "parallel.device=cpu"]
CATS_DOGS = ["train.max_steps=3", "train.batch_size=8", "parallel.device=cpu"]
SERVER = ["configs/mnist_parameter_server.yaml", "train.max_steps=120", "parallel.device=cpu"]

# name: (processes, parameter servers, config and settings)
JOBS = {
    "mnist": (1, 0, MNIST),
    "mnist, 2 replicas": (1, 0, [*MNIST, "parallel.replicas=2"]),
    "mnist, ordered": (1, 0, [*MNIST, "parallel.reduction=ordered"]),
    "mnist, 2 replicas, ordered": (1, 0, [*MNIST, "parallel.replicas=2", "parallel.reduction=ordered"]),
    "mnist, 2 processes": (2, 0, MNIST),
    "mnist, 2 processes, ordered": (2, 0, [*MNIST, "parallel.reduction=ordered"]),
    "mnist, bfloat16": (1, 0, [*MNIST, "train.precision=bfloat16"]),
    "mnist, parameter server": (1, 1, SERVER),
    "cats and dogs, frozen": (1, 0, ["configs/cats_dogs_mobilenet_v2_frozen.yaml", *CATS_DOGS]),
    "cats and dogs, whole": (1, 0, ["configs/cats_dogs_mobilenet_v2.yaml", *CATS_DOGS]),
    "cats and dogs, bfloat16": (1, 0, ["configs/cats_dogs_mobilenet_v2.yaml", *CATS_DOGS, "train.precision=bfloat16"]),
}


def environment(data):
    return {
        **os.environ,
        "MNIST_DIR": os.path.join(data, "mnist"),
        "CATS_DOGS_DIR": os.path.join(data, "cats_vs_dogs"),
        "WEIGHTS_DIR": os.path.join(data, "weights"),
    }


def parameters(trainer, job, data):
    """The SHA-256 of the trained parameters."""
    processes, servers, (config, *settings) = job
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [trainer, "train", config, "--run-dir", run]
        for setting in [*settings, "train.epochs=null"]:
            command += ["--set", setting]
        if processes > 1 or servers:
            launch = [trainer, "launch", "-n", str(processes)]
            if servers:
                launch += ["--ps", str(servers)]
            command = [*launch, "--", *command[1:]]
        done = subprocess.run(command, cwd=ROOT, env=environment(data), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        with open(os.path.join(run, "run.json")) as file:
            return json.load(file)["finished"]["parameters_sha256"]


def is_available(job, data):
    config = job[2][0]
    return os.path.isdir(os.path.join(data, "cats_vs_dogs" if "cats_dogs" in config else "mnist"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"))
    parser.add_argument("--only", nargs="+", choices=JOBS, metavar="NAME")
    options = parser.parse_args()
    data = os.path.abspath(options.data)
    old, new = os.path.abspath(options.old), os.path.abspath(options.new)
    code = 0
    for name in options.only or JOBS:
        if not is_available(JOBS[name], data):
            print(f"{name:30} left out: no data in {data}")
            continue
        try:
            before, after = (parameters(trainer, JOBS[name], data) for trainer in (old, new))
        except RuntimeError as error:
            print(f"{name:30} failed: {error}")
            code = 1
            continue
        print(f"{name:30} {before[:12]}  {after[:12]}  {'same' if before == after else 'DIFFERENT'}", flush=True)
        code = code or int(before != after)
    return code


if __name__ == "__main__":
    sys.exit(main())
