"""Training images/second on 1, 2, 4, ... cores of this machine, trainer and PyTorch in the same rounds: a MobileNetV2, a ResNet50 or
a whole VGG16 on random images (those of model_zoo). Both run on the same cores and no others; the memory is what
`trainer plan` says of that many threads.

Prints a table and ends with `ratio cores_NAME_N VALUE`: ours / PyTorch's on N cores, medians, and
`ratio cores_NAME_scaling VALUE`: the share of N times its speed on one core that trainer reaches on all N.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import Peer, events, fastest, find_trainer, settings_of
from model_zoo import TORCH_MODES, config_text

CASES = ["mobilenet_v2", "resnet50", "vgg16"]


def counts(cores):
    """1, 2, 4, ... and all."""
    powers = [1 << i for i in range(cores.bit_length()) if 1 << i < cores]
    return [*powers, cores]


def on(cores, command):
    """Runs trainer on these cores alone and returns its events."""
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), *command, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return list(events(done.stdout))


def ours(trainer, config, cores, seconds):
    command = [trainer, "benchmark", config, "--seconds", str(seconds), *settings_of([f"parallel.threads={len(cores)}"])]
    return next(event["images_per_second"] for event in on(cores, command) if event["event"] == "benchmark")


def planned_memory(trainer, config, cores):
    plan = on(cores, [trainer, "plan", config, *settings_of([f"parallel.threads={len(cores)}"])])[-1]
    return plan["memory"]["total"] / 2**20


def peer_on(name, cores, options):
    """PyTorch's fastest setting, started on these cores, where its processes stay."""
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        shared = {"what": "zoo", "case": name, "batch": options.batch, "threads": len(cores)}
        return fastest((Peer("torch", wait="passive", **shared, **mode) for mode in TORCH_MODES), options.probe_seconds)
    finally:
        os.sched_setaffinity(0, everything)


def compare(trainer, name, options, config):
    available = sorted(os.sched_getaffinity(0))
    rows = []
    for count in options.cores or counts(len(available)):
        cores = available[:count]
        peer = None if options.no_peer else peer_on(name, cores, options)
        mine, theirs = [], []
        for _ in range(options.rounds):
            if peer:
                theirs.append(peer.measure(options.seconds))
            mine.append(ours(trainer, config, cores, options.seconds))
        if peer:
            peer.close()
        rows.append((count, statistics.median(mine), statistics.median(theirs) if theirs else 0, planned_memory(trainer, config, cores)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--cores", nargs="+", type=int, help="how many; 1, 2, 4, ... and all when left out")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each in each round")
    parser.add_argument("--probe-seconds", type=float, default=3.0)
    parser.add_argument("--no-peer", action="store_true", help="trainer alone")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.case:
            config = pathlib.Path(folder) / f"{name}.yaml"
            config.write_text(config_text(name, options.batch, folder))
            tables[name] = compare(trainer, name, options, config)
    print(f"\n{'backbone':14} {'cores':>5} {'trainer':>9} {'torch':>9} {'ratio':>6} {'of linear':>9} {'memory, MiB':>12}")
    for name, rows in tables.items():
        one = rows[0][1] / rows[0][0]
        for count, mine, theirs, memory in rows:
            peer, ratio = (f"{theirs:9.1f}", f"{mine / theirs:6.2f}") if theirs else (f"{'-':>9}", f"{'-':>6}")
            print(f"{name:14} {count:5} {mine:9.1f} {peer} {ratio} {mine / (one * count):9.2f} {memory:12.0f}")
    for name, rows in tables.items():
        for count, mine, theirs, _ in rows:
            if theirs:
                print(f"ratio cores_{name}_{count} {mine / theirs:.2f}")
        print(f"ratio cores_{name}_scaling {rows[-1][1] / rows[-1][0] / (rows[0][1] / rows[0][0]):.2f}")


if __name__ == "__main__":
    main()
