#!/usr/bin/env python3
"""Data-parallel throughput of the article's CNN at one global batch, from one run on this machine.

    scripts/bench/scaling [--batch 128] [--rounds 3] [--trainer PATH]

  1 replica x 1 core, 1 replica x 2 cores, 2 replicas x 1 core in one process, 2 processes x 1 core (trainer launch),
  and PyTorch's DistributedDataParallel over Gloo with 2 processes x 1 core, each setting of it probed.

Efficiency is the throughput against that of 1 replica x 2 cores. All cases are whole `trainer train` runs; the figure is
the one that they end with, which leaves out start and evaluation. Ends with `ratio NAME VALUE`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile

from common import CONFIG, Peer, events, find_trainer, settings_of, summary

WHOLE = "1 replica x 2 cores"
CASES = {  # name -> parts that the batch is cut into, processes, settings
    "1 replica x 1 core": (1, 1, ["parallel.threads=1"]),
    WHOLE: (1, 1, ["parallel.threads=2"]),
    "2 replicas x 1 core": (2, 1, ["parallel.threads=2", "parallel.replicas=2", "parallel.lr_scaling=none"]),
    "2 processes x 1 core": (2, 2, ["parallel.threads=1", "parallel.lr_scaling=none"]),
}
SETTINGS = [
    {"mode": "eager", "channels_last": True, "malloc": "default"},
    {"mode": "eager", "channels_last": True, "malloc": "huge-pages"},
    {"mode": "eager", "channels_last": False, "malloc": "default"},
    {"mode": "compile", "channels_last": True, "malloc": "default"},
]


def train(trainer, case, options):
    parts, processes, settings = CASES[case]
    settings = [*settings, f"train.batch_size={options.batch // parts}", f"train.max_steps={options.steps}"]
    launch = [trainer, "launch", "-n", str(processes), "--"] if processes > 1 else [trainer]
    with tempfile.TemporaryDirectory() as folder:
        command = [*launch, "train", CONFIG, "--json", "--run-dir", f"{folder}/run", *settings_of(settings)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stderr}")
    return next(event for event in events(done.stdout) if event["event"] == "finished")["images_per_second"]


def best_peer(options):
    """The fastest setting's warm process."""
    best, best_speed = None, 0.0
    for setting in SETTINGS:
        peer = Peer("torch", batch=options.batch // 2, ranks=2, threads=1, wait="passive", **setting)
        try:
            peer.wait_for("ready")
            speed = peer.measure(options.seconds / 2)
        except (RuntimeError, BrokenPipeError) as error:
            print(error, file=sys.stderr)
            speed = 0.0
        print(f"  probe {speed:8.0f} images/s  {peer.name}", flush=True)
        loser = peer
        if speed > best_speed:
            loser, best, best_speed = best, peer, speed
        if loser:
            loser.close()
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer")
    parser.add_argument("--batch", type=int, default=128, help="images in the global batch")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=4, help="of a round of the peer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)

    peer = None if options.no_peer else best_peer(options)
    figures = {case: [] for case in CASES}
    if peer:
        figures["DistributedDataParallel"] = []
    for _ in range(options.rounds):
        for case in CASES:
            figures[case].append(train(trainer, case, options))
        if peer:
            figures["DistributedDataParallel"].append(peer.measure(options.seconds))
    if peer:
        peer.close()

    middle = {case: statistics.median(values) for case, values in figures.items()}
    for case, values in figures.items():
        print(f"{case:24} {summary(values)}  efficiency {middle[case] / middle[WHOLE]:.3f}")
    for case in ("2 replicas x 1 core", "2 processes x 1 core"):
        name = case.split(" x ")[0].replace("2 ", "")
        print(f"ratio scaling_{name}_efficiency {middle[case] / middle[WHOLE]:.3f}")
        if peer:
            print(f"ratio scaling_{name}_vs_ddp {middle[case] / middle['DistributedDataParallel']:.2f}")


if __name__ == "__main__":
    main()
