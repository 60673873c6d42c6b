#!/usr/bin/env python3
"""Memory calls of trainings on several GPUs of one process. They wait for the devices of all ranks (test/cuda/fake_runtime/peers.cpp).
A training creates no context on a GPU that it does not use.

    memory_calls_test.py TRAINER PLUGIN
"""

import os
import re
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
# 90 images: the last batch of each epoch is short.
CONFIG = """
model: {{layers: [conv: {{filters: 4, activation: relu}}, {norm}max_pool, flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [8, 8, 1], classes: 3, train_samples: 90, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
train: {{max_steps: {steps}, batch_size: 8}}
parallel: {{lr_scaling: none, device: cuda, gpus: {gpus}, {parallel}}}
run: {{dir: {run}, checkpoint_every: 100000 steps}}
"""


def train(folder, steps, parallel, gpus="2", **variables):
    """Returns what the fake prints about a training, which must end within the time after which it reports a deadlock."""
    config = os.path.join(folder, "config.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(steps=steps, gpus=gpus, parallel=parallel, norm="batch_norm, " if parallel.endswith("fast") else "", run=os.path.join(folder, "run")))
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="3", TRAINER_FAKE_CUDA_DEADLOCK_MS="5000",
                       TRAINER_FAKE_CUDA_COUNT="1", **variables)
    done = subprocess.run([TRAINER, "train", config, "--quiet", "--overwrite"], env=environment, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def count_memory_calls(*arguments, **variables):
    return int(re.search(r"fake cuda: memory calls: (\d+)", train(*arguments, **variables))[1])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for parallel in ("reduction: fast", "reduction: ordered"):
            # Two epochs: each kind of call is launched, captured and replayed.
            few = count_memory_calls(folder, 12, parallel)
            many = count_memory_calls(folder, 30, parallel)
            assert few == many, f"{parallel}: {few} memory calls in 12 steps, {many} in 30: launch() allocates"
        for seed in range(1, 6):
            for graphs in ("1", "0"):
                count_memory_calls(folder, 12, "reduction: fast", TRAINER_FAKE_CUDA_SEED=str(seed), TRAINER_CUDA_GRAPHS=graphs)
        for gpus, expected in (("[1]", "1"), ("[1, 2]", "1 2")):
            printed = train(folder, 12, "reduction: fast", gpus)
            assert f"fake cuda: contexts: {expected}\n" in printed, f"gpus: {gpus}: {printed[-500:]}"


if __name__ == "__main__":
    main()
