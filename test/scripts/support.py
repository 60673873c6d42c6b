"""Helpers of the scripts in this folder; the trainer binary is the first argument of a test that needs it."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None


def main():
    """Runs the tests of the script and exits with 0, 1 when one failed, or 77 when none failed and one was skipped."""
    result = unittest.main(module="__main__", exit=False).result
    for _, reason in result.skipped:
        print(f"[skipped] {reason}")
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)


def free_ports(count):
    """Returns ports of 127.0.0.1 that nothing listened on."""
    with contextlib.ExitStack() as sockets:
        drawn = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in drawn:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in drawn]


def trainer(*arguments, **environment):
    return subprocess.run(
        [TRAINER, *map(str, arguments)], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )


def run_json(*arguments):
    """Runs a command with --json and returns its events. A command that fails is a failure of the test."""
    done = trainer(*arguments, "--json")
    if done.returncode != 0:
        raise AssertionError(f"{arguments} ended with {done.returncode}\n{done.stderr}")
    return events(done.stdout)


def train_on_small_images(images, run):
    """Trains a small network for two epochs on a folder of three classes."""
    config = run.with_suffix(".yaml")
    config.write_text(
        "model: {input: [24, 24, 3], layers: [{conv: {filters: 8, activation: relu}}, batch_norm, flatten, dense: 3]}\n"
        f"data: {{format: image_folder, path: {images}, resize: [24, 24], validation_split: 0.3}}\n"
        "optimizer: {adam: {learning_rate: 1.0e-3}}\ntrain: {epochs: 2, batch_size: 8}\n"
        "run: {summary_every: 1 steps}\n"
    )
    run_json("train", config, "--run-dir", run)


def events(text):
    """Every line of standard output under --json is an object."""
    return [json.loads(line) for line in text.splitlines()]
