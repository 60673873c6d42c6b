"""Training images/second of the articles' transfer learning: trainer, PyTorch and Keras/TensorFlow in one run on this machine.

vgg16: all before block5_conv1 frozen, flatten and dense on top. mobilenet_v2: trained whole. 224 x 224 images, batch 16.
Each peer is first probed at its settings, then its best one is measured in rounds that alternate with trainer, so that all
meet the same machine. Ends with `ratio NAME VALUE`: ours / the best peer's, medians; for `vgg16_memory` ours / PyTorch's
largest resident memory, where below one is better.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from common import HERE, MALLOC, WAIT, Peer, find_trainer, settings_of, trainer_speed
from memory import peak_mib

PRECISIONS = {"vgg16": ["float32"], "mobilenet_v2": ["float32", "bfloat16"]}
SHORT = {"float32": "fp32", "bfloat16": "bf16"}
MODES = {
    "torch": [
        {"mode": "eager", "channels_last": True}, {"mode": "compile", "channels_last": True}, {"mode": "eager", "channels_last": False},
    ],
    "keras": [{"mode": "graph"}],
}
# Seldom the fastest, and XLA compiles for minutes.
THOROUGH_MODES = {"torch": [{"mode": "compile", "channels_last": False}], "keras": [{"mode": "graph", "inter_op": 2}, {"mode": "xla"}]}


class BackbonePeer(Peer):
    """One warm process of a backbone peer at one setting."""

    def __init__(self, script, malloc, wait, **options):
        self.name = f"{script} {options} malloc={malloc} wait={wait}"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command_of(script, **options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, **MALLOC[malloc], **WAIT[wait]},
        )


def command_of(script, **options):
    command = [sys.executable, HERE / "peers" / f"{script}_backbone.py"]
    for key, value in options.items():
        if value is not False:
            command.append(f"--{key.replace('_', '-')}")
            command += [] if value is True else [str(value)]
    return command


class Probe:
    """Tries settings of one peer; the process at the fastest one stays open."""

    def __init__(self, script, shared, seconds):
        self.script, self.shared, self.seconds = script, shared, seconds
        self.peer, self.setting, self.speed = None, None, 0.0

    def offer(self, setting):
        started = time.monotonic()
        peer = BackbonePeer(self.script, **self.shared, **setting)
        try:
            peer.wait_for("ready")
            speed = max(peer.measure(self.seconds), peer.measure(self.seconds))
        except (RuntimeError, BrokenPipeError) as error:
            print(error, file=sys.stderr)
            speed = 0.0
        print(f"    probe {speed:7.2f} images/s  {self.script} {setting} ({time.monotonic() - started:.0f} s)", flush=True)
        loser = peer
        if speed > self.speed:
            loser, self.peer, self.setting, self.speed = self.peer, peer, setting, speed
        if loser:
            loser.close()

    def run(self, thorough):
        """First the mode, then, with that mode, malloc and the threads' waiting."""
        for mode in MODES[self.script] + (THOROUGH_MODES[self.script] if thorough else []):
            self.offer({**mode, "malloc": "no-mmap", "wait": "passive"})
        if self.peer and (thorough or self.script == "torch"):
            for malloc in ["huge-pages", "default"] if thorough else ["huge-pages"]:
                self.offer({**self.setting, "malloc": malloc})
            self.offer({**self.setting, "wait": "default"})
        if not self.peer:
            sys.exit(f"{self.script} could not be measured")
        print(f"  best of {self.script}: {self.setting}", flush=True)
        return self.peer


def ours(trainer, case, options, precision):
    seconds = str(options.seconds)
    return trainer_speed(
        trainer, HERE / f"{case}.yaml", "--seconds", seconds, "--synthetic", batch=options.batch, precision=precision
    )


def compare(trainer, options, case, precision):
    name = f"{case}_{SHORT[precision]}"
    print(f"{name}:", flush=True)
    shared = {"case": case, "batch": options.batch, "precision": precision}
    peers = {script: Probe(script, shared, options.probe_seconds).run(options.thorough) for script in options.peers}

    figures = {script: [] for script in [*peers, *(["trainer"] if trainer else [])]}
    for _ in range(options.rounds):
        for script, peer in peers.items():
            figures[script].append(peer.measure(options.seconds))
        if trainer:
            figures["trainer"].append(ours(trainer, case, options, precision))
    for peer in peers.values():
        peer.close()
    for script, values in figures.items():
        print(
            f"  {script:8} {statistics.median(values):8.2f} images/s  (lowest {min(values):.2f}, highest {max(values):.2f}, "
            f"{len(values)} rounds)", flush=True,
        )
    if not trainer or not peers:
        return None
    best = max(statistics.median(figures[script]) for script in peers)
    return name, statistics.median(figures["trainer"]) / best


def compare_memory(trainer, batch):
    """Of a few training steps; PyTorch eager, channels last."""
    with tempfile.TemporaryDirectory() as folder:
        mine = peak_mib([
            trainer, "train", HERE / "vgg16.yaml", "--json", "--run-dir", f"{folder}/run", *settings_of([f"train.batch_size={batch}"]),
        ])
    theirs = peak_mib(command_of("torch", case="vgg16", batch=batch, channels_last=True), data="3\n")
    print(f"vgg16_memory:\n  torch    {theirs:8.0f} MiB\n  trainer  {mine:8.0f} MiB", flush=True)
    return "vgg16_memory", mine / theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=sorted(PRECISIONS), default=["vgg16", "mobilenet_v2"])
    parser.add_argument("--precision", nargs="+", choices=sorted(SHORT), default=["float32", "bfloat16"], help="vgg16 is float32 only")
    parser.add_argument("--peers-only", action="store_true", help="measure the peers without trainer")
    parser.add_argument("--peers", nargs="*", choices=sorted(MODES), default=["torch", "keras"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each peer in each round")
    parser.add_argument("--probe-seconds", type=float, default=1.5)
    parser.add_argument("--thorough", action="store_true", help="probe XLA and other settings that are seldom the fastest, too")
    parser.add_argument("--no-memory", action="store_true", help="leave vgg16_memory out")
    options = parser.parse_args()
    trainer = None if options.peers_only else find_trainer(options.trainer)
    ratios = []
    for case in options.case:
        for precision in PRECISIONS[case]:
            if precision in options.precision:
                ratios.append(compare(trainer, options, case, precision))
        if case == "vgg16" and trainer and not options.no_memory:
            ratios.append(compare_memory(trainer, options.batch))
    for name, ratio in filter(None, ratios):
        print(f"ratio {name} {ratio:.3f}" if name == "vgg16_memory" else f"ratio {name} {ratio:.2f}")


if __name__ == "__main__":
    main()
