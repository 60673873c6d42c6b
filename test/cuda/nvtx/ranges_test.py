#!/usr/bin/env python3
"""What a tool for NVTX sees of a training on fake GPUs.

ranges_test.py TRAINER PLUGIN INJECTION
"""
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIG = """
seed: 1
data:
  format: synthetic
  synthetic: {shape: [8, 8, 1], classes: 4, train_samples: 64, test_samples: 16}
model:
  input: [8, 8, 1]
  layers: [{conv: {filters: 4, kernel_size: 3, activation: relu, name: stem}}, flatten, {dense: {units: 4, name: logits}}]
  loss: softmax_cross_entropy
train: {max_steps: 6, batch_size: 8}
run: {tensorboard: false}
"""


def train(program, plugin, folder, name, **environment):
    """A training on two GPUs; the hash of its parameters."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    done = subprocess.run([program, "train", str(config), "--gpus", "2", "--set", "parallel.device=cuda", "--json", "--set", f"run.dir={folder / name}",
                           "--set", "parallel.lr_scaling=none"],
                          capture_output=True, text=True, env={**os.environ, "TRAINER_CUDA_PLUGIN": plugin, **environment},
                          check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return next(line for line in done.stdout.splitlines() if '"finished"' in line).split("parameters_sha256")[1][:80]


def paths_of(log):
    """How often each nesting of ranges was seen, by its names; all ranges must end."""
    stacks, paths = {}, {}
    for line in log.read_text().splitlines():
        thread, what, name = line.split(" ", 2)
        stack = stacks.setdefault(thread, [])
        if what == "push":
            domain, _, name = name.partition("/")
            assert domain == "trainer", line
            stack.append(name)
            path = " > ".join(stack)
            paths[path] = paths.get(path, 0) + 1
        else:
            assert name == "trainer" and stack, line
            stack.pop()
    assert not any(stacks.values()), stacks
    return paths


def main(program, plugin, injection):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        log = folder / "log"
        plain = train(program, plugin, folder, "plain", TRAINER_NVTX_LOG=str(log))
        assert not log.exists(), "without a tool nothing is opened"
        watched = train(program, plugin, folder, "watched", TRAINER_NVTX_LOG=str(log), NVTX_INJECTION64_PATH=injection)
        assert watched == plain, "a tool changes no parameter"
        paths = paths_of(log)
        assert paths["training call"] == 2 * 6, paths
        for path in ["forward > stem", "forward > logits", "backward > stem", "backward > logits", "update", "reduce"]:
            # Of each replica the first call of a kind, and where it is captured.
            assert paths.get(f"training call > {path}", 0) >= 2 * 2, (path, paths)


if __name__ == "__main__":
    main(*sys.argv[1:])
