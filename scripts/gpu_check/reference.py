#!/usr/bin/env python3
"""Computes what a GPU's results are compared with, on the machine where a bundle is made.

  reference.py BUILD FOLDER [--size full|tiny]

FOLDER/distances.tsv gets the distance of each conformance case and type from the double-precision reference on the fake GPU, and
FOLDER/plan_h100_CASE_BATCH.json the plan of each measured training.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import libraries
from correctness import OTHER_BACKENDS, SKIPPED
from sizes import RANKS, SIZES
from speed import BENCH, make_settings, plan_name

MODEL = "h100"


def run(command, **variables):
    """A command's output; ends the program when it fails."""
    done = subprocess.run([str(word) for word in command], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    if done.returncode not in (0, SKIPPED):
        sys.exit(f"reference.py: {' '.join(map(str, command))} ended with code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def write_distances(build, path, size):
    """Runs the conformance cases on the fake GPU."""
    path.unlink(missing_ok=True)
    cases, left_out = ",".join(size.conformance), ",".join((*OTHER_BACKENDS, *RANKS))
    run([build / "test/backend/test_backend", f"--test-case={cases}", f"--test-case-exclude={left_out}"], TRAINER_TEST_BACKEND="cuda",
        TRAINER_CUDA_PLUGIN=str(build / "test/cuda/plugin/libtrainer_cuda_fake.so"), TRAINER_TEST_DISTANCES=str(path),
        TRAINER_FAKE_CUDA_DEVICES=libraries.FAKE_GPUS)


def write_plans(build, folder, size):
    """Plans the trainings that gpu_check measures, with cuDNN where this machine has it."""
    for case, batch in size.speed:
        settings = [word for setting in make_settings(batch) for word in ("--set", setting)]
        plan = run([build / "apps/trainer/trainer", "plan", BENCH / f"{case}.yaml", "--device", MODEL, "--json", *settings],
                   LD_LIBRARY_PATH=":".join(filter(None, [*map(str, libraries.folders()), os.environ.get("LD_LIBRARY_PATH")])))
        (folder / plan_name(MODEL, case, batch)).write_text(plan, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES, default="full")
    options = parser.parse_args()
    build, size = options.build.resolve(), SIZES[options.size]
    options.folder.mkdir(parents=True, exist_ok=True)
    write_distances(build, options.folder.resolve() / "distances.tsv", size)
    write_plans(build, options.folder, size)
    print(f"reference.py: {len(list(options.folder.iterdir()))} files in {options.folder}")


if __name__ == "__main__":
    main()
