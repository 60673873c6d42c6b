"""Training images/second of the article's CNN alone, and with a busy loop on one of the cores.

The loop takes half of its core from the thread that it shares it with. A step that waits for the slowest lane then takes twice as
long (0.5 of the speed); work that moved to the cores that are free would keep (N - 0.5) / N on N cores. Rounds of both alternate.
Ends with `ratio noise VALUE`: disturbed / alone, medians.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys

from common import CONFIG, find_trainer, run_trainer, settings_of, summary


@contextlib.contextmanager
def busy_loop(core):
    """A process that computes on this core until the block ends."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, [core]))
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def speed(trainer, options):
    settings = settings_of([f"train.batch_size={options.batch}", *options.set])
    events = run_trainer(trainer, "benchmark", options.config, "--seconds", str(options.seconds), *settings)
    return next(event["images_per_second"] for event in events if event["event"] == "benchmark")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each in each round")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value of the config")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    cores = sorted(os.sched_getaffinity(0))
    alone, disturbed = [], []
    for _ in range(options.rounds):
        alone.append(speed(trainer, options))
        with busy_loop(cores[-1]):
            disturbed.append(speed(trainer, options))
    print(f"alone      {summary(alone)}")
    print(f"disturbed  {summary(disturbed)}")
    print(f"at best {(len(cores) - 0.5) / len(cores):.2f} on {len(cores)} cores, 0.50 where a step waits for the slowest lane")
    print(f"ratio noise {statistics.median(disturbed) / statistics.median(alone):.2f}")


if __name__ == "__main__":
    main()
