"""Runs of one process with fake GPUs, in which a call of the driver never returns, and no other call after it does either.
Each ends with exit code 4 after twice parallel.timeout, and reports which activity has made no progress.

    hanging_driver_test.py TRAINER PLUGIN

A call holds locks of the driver that other calls need: pytorch/pytorch#110449.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 2  # seconds, parallel.timeout
CONFIG = """
model: {{layers: [conv: {{filters: 4, activation: relu}}, max_pool, flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [8, 8, 1], classes: 3, train_samples: 96, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
train: {{max_steps: {steps}, batch_size: 8}}
parallel: {{device: cuda, gpus: {gpus}, lr_scaling: none, timeout: {timeout} seconds}}
run: {{dir: {run}, log_every: 1 steps, checkpoint_every: 1000000 steps}}
"""
ENDLESS = 1000000
# Number of GPUs, function, its call that hangs, steps of the run, the multiple of the time-out.
CASES = [
    (1, "cudaEventSynchronize", 10, ENDLESS, 2),
    (1, "cudaGraphLaunch", 10, ENDLESS, 2),
    (1, "cudaMalloc", 5, ENDLESS, 10),
    (1, "cudaGraphExecDestroy", 1, 6, 2),
    (2, "ncclCommGetAsyncError", 60, ENDLESS, 2),
    (2, "cudaGraphLaunch", 10, ENDLESS, 2),
]


def run_case(folder, number, gpus, function, call, steps, multiple):
    config = os.path.join(folder, f"{number}.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(gpus=gpus, run=os.path.join(folder, str(number)), steps=steps, timeout=TIMEOUT))
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2",
                       TRAINER_FAKE_CUDA_FAIL=f"{function}:{call}:hang")
    start = time.monotonic()
    done = subprocess.run([TRAINER, "train", config, "--json"], env=environment, capture_output=True, text=True, timeout=90)
    seconds = time.monotonic() - start
    output = f"{function}, {gpus} GPUs: {done.returncode} after {seconds:.1f} s\n{done.stdout[-500:]}\n{done.stderr[-1500:]}"
    assert f"{function} never returns" in done.stderr, output
    assert done.returncode == 4, output
    assert "error: this process has made no progress for" in done.stderr, output
    assert "the GPU" in done.stderr and "TRAINER_CUDA_GRAPHS=0" in done.stderr, output
    assert multiple * TIMEOUT <= seconds, output
    print(f"{function} with {gpus} GPUs hangs: the process ended after {seconds:.1f} s")


def main():
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool:
        runs = [pool.submit(run_case, folder, number, *case) for number, case in enumerate(CASES)]
        for run in runs:
            run.result()


main()
