"""Images/second from JPEG files to normalised batches: trainer's loader and torchvision's DataLoader on the same files and cores, in one run.

usage: input_pipeline FOLDER...    each with one sub-folder a class, e.g. cats_vs_dogs/train

Both decode, resize to --size with antialias (stretched) and normalise to float32 in their workers (in training, our graph does that last step); the rounds alternate, so that all meet the same machine. trainer is measured
with full decoding and with decoding at 1/2, 1/4 or 1/8 where that is still at least as large as the target. The peer is probed with several numbers of
workers. Ends with `ratio NAME VALUE`: ours / the peer's, medians.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import HERE, find_trainer, run_trainer, settings_of, summary

CONFIG = """model: {{layers: [flatten, dense: 1]}}
data: {{format: image_folder, train: "{folder}", resize: [{size}, {size}], preprocess: torch}}
train: {{epochs: 1, batch_size: {batch}}}
"""


class Peer:
    """A warm process of peers/torchvision_input.py."""

    def __init__(self, folder, size, batch, workers):
        command = [sys.executable, HERE / "peers/torchvision_input.py", folder, f"--size={size}", f"--batch={batch}", f"--workers={workers}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the peer ended early")
        return json.loads(line)["images_per_second"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def best_peer(folder, options):
    found = {}
    for workers in options.workers:
        peer = Peer(folder, options.size, options.batch, workers)
        found[workers] = max(peer.measure(options.probe_seconds), peer.measure(options.probe_seconds))
        peer.close()
        print(f"    probe {found[workers]:8.0f} images/s  torchvision, {workers} workers", flush=True)
    return Peer(folder, options.size, options.batch, max(found, key=found.get))


def ours(trainer, config, scaled, seconds):
    settings = settings_of([f"data.scaled_decode={'true' if scaled else 'false'}"])
    for event in run_trainer(trainer, "benchmark", config, "--input-only", "--normalize", "--seconds", str(seconds), *settings):
        if event["event"] == "benchmark":
            return event["images_per_second"]
    sys.exit("trainer benchmark printed no benchmark event")


def compare(trainer, folder, options, scratch):
    print(f"{folder}:", flush=True)
    config = pathlib.Path(scratch) / "input.yaml"
    config.write_text(CONFIG.format(folder=folder.resolve(), size=options.size, batch=options.batch))
    peer = best_peer(folder, options)
    peer.measure(options.probe_seconds)
    figures = {"torchvision": [], "full_decode": [], "scaled_decode": []}
    for _ in range(options.rounds):
        figures["torchvision"].append(peer.measure(options.seconds))
        figures["full_decode"].append(ours(trainer, config, False, options.seconds))
        figures["scaled_decode"].append(ours(trainer, config, True, options.seconds))
    peer.close()
    for name, values in figures.items():
        print(f"  {name:14} {summary(values)}", flush=True)
    base = statistics.median(figures.pop("torchvision"))
    title = "_".join(folder.resolve().parts[-2:])
    return [(f"input_{title}_{name}", statistics.median(values) / base) for name, values in figures.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, nargs="+", default=[max(1, len(os.sched_getaffinity(0)))])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each in each round")
    parser.add_argument("--probe-seconds", type=float, default=2.0)
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    with tempfile.TemporaryDirectory() as scratch:
        ratios = [ratio for folder in options.folders for ratio in compare(trainer, folder, options, scratch)]
    for name, value in ratios:
        print(f"ratio {name} {value:.2f}")


if __name__ == "__main__":
    main()
