"""What the backbone peers share: worker.py's protocol for steps of a second instead of a millisecond."""

import argparse
import os
import sys
import time

from worker import say

SAMPLES = 64  # of bytes in memory: the values do not change the speed, and the pool stays small beside the network
SHAPE = (224, 224, 3)
LEARNING_RATE = 1e-4


def arguments(modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=("vgg16", "mobilenet_v2"), default="vgg16")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--channels-last", action="store_true", help="layout (PyTorch)")
    parser.add_argument("--inter-op", type=int, default=1, help="operations side by side (Keras)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def serve(step, batch, warm_up=2):
    """step() trains one batch and returns when all of its work is done."""
    for _ in range(1 + warm_up):
        step()
    say(event="ready")
    for line in sys.stdin:
        steps, started, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < float(line):
            step()
            steps += 1
            elapsed = time.perf_counter() - started
        say(event="measured", images_per_second=steps * batch / elapsed)
