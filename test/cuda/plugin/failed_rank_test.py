"""Runs of one process with 2 or 4 fake GPUs, of which one rank fails in the middle of a step: each ends by itself with exit
code 4 and the error of that rank, in every order of the devices' work. With TRAINER_CUDA_SYNC=1 a thread waits for the
device after each op, also for sums over the ranks in batch norm.

    failed_rank_test.py TRAINER PLUGIN
"""

import os
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {{layers: [conv: {{filters: 4, activation: relu}}, {norm}max_pool, flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [8, 8, 1], classes: 3, train_samples: 96, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
train: {{max_steps: 1000000, batch_size: 8}}
parallel: {{device: cuda, gpus: {gpus}, lr_scaling: none{sync}}}
run: {{dir: {run}, log_every: 1 steps, checkpoint_every: 1000000 steps}}
"""
RUNS = 24


def fail_once(folder, seed, waits_per_op=False):
    """Returns the steps before the failure; from the second step on the devices replay graphs, unless the host waits per op."""
    gpus = 2 if seed % 2 else 4
    config = os.path.join(folder, f"{seed}.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(gpus=gpus, run=os.path.join(folder, f"{seed}{waits_per_op}"),
                                 norm="batch_norm, " if waits_per_op else "",
                                 sync=", batch_norm: {sync: true}" if waits_per_op else ""))
    # The watch asks each rank 100 times per second.
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES=str(gpus),
                       TRAINER_FAKE_CUDA_SEED=str(seed), TRAINER_CUDA_SYNC="1" if waits_per_op else "0",
                       TRAINER_FAKE_CUDA_FAIL=f"ncclCommGetAsyncError:{20 * gpus + 2 * seed}:ncclSystemError")
    done = subprocess.run([TRAINER, "train", config, "--json"], env=environment, capture_output=True, text=True, timeout=120)
    output = f"seed {seed}: {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}"
    assert done.returncode == 4, output
    assert "unhandled system error" in done.stderr, output
    return done.stdout.count('"event":"step"')


def main():
    with tempfile.TemporaryDirectory() as folder:
        steps = [fail_once(folder, seed) for seed in range(1, RUNS + 1)]
        for seed in range(1, 5):
            fail_once(folder, seed, waits_per_op=True)
    assert sum(count > 2 for count in steps) >= RUNS // 2, steps
    print(f"{RUNS} runs ended with the error of the failed rank, after {steps} steps")


if __name__ == "__main__":
    main()
