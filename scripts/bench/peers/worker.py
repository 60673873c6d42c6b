"""What both peers share: a process that warms up, then measures when told to.

Protocol: the process prints {"event":"ready"} once warm; for each line "SECONDS" on standard input it trains for that
long and prints {"event":"measured","images_per_second":X}. It ends at the end of its input.
"""

import argparse
import json
import os
import sys
import time

SAMPLES = 8192  # in memory, as in cnn.yaml


def arguments(modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--inter-op", type=int, default=1, help="operations side by side (Keras)")
    parser.add_argument("--ranks", type=int, default=1, help="processes, each with a batch of its own (PyTorch)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def say(**event):
    print(json.dumps(event), flush=True)


def serve(run, batch, warm_up):
    """run(steps) trains and returns when all of its work is done."""
    run(1)
    say(event="first_step")
    run(warm_up)
    started = time.perf_counter()
    run(10)
    per_step = (time.perf_counter() - started) / 10
    say(event="ready")
    for line in sys.stdin:
        chunk = max(1, round(0.25 / per_step))
        steps, started, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < float(line):
            run(chunk)
            steps += chunk
            elapsed = time.perf_counter() - started
        say(event="measured", images_per_second=steps * batch / elapsed)
