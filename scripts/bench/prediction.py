"""Images/second of predictions of images in memory, by backbone and batch size: trainer, OpenVINO and ONNX Runtime, in float32 on
the ONNX file that trainer exports. 224 x 224 images of bytes, 1,000 classes, weights after one step.

Each peer is probed at its settings first; its best one is then measured in rounds that alternate with trainer, so that all meet the
same machine. Ends with a table, and `ratio predict_NAME_batch_N VALUE`: ours / the best peer's, medians over the rounds. On a
shared machine, give many short rounds.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

from common import Peer, fastest, find_trainer, run_trainer
from model_zoo import config_text, exported

CASES = ["mobilenet_v2", "resnet50", "efficientnet_b0", "convnext_tiny", "vgg16", "vit_small_patch16"]
PEERS = {"openvino": [{"mode": "latency"}, {"mode": "throughput"}], "onnx": [{}]}


def ours(trainer, config, sizes, seconds):
    """Images/second by batch size."""
    for event in run_trainer(trainer, "benchmark", config, "--predict", "--seconds", str(seconds)):
        if event["event"] == "prediction_speed":
            rates = {row["batch_size"]: row["images_per_second"] for row in event["by_batch"]}
            return {size: rates[size] for size in sizes}
    sys.exit("trainer benchmark printed no prediction_speed event")


def start_peers(name, model, size, options):
    """The peers at their best settings, by name."""
    peers = {}
    for peer in options.peers:
        settings = PEERS[peer] if size > 1 else PEERS[peer][:1]
        best = fastest((Peer(peer, what="zoo", case=name, batch=size, predict=True, model=model, **each) for each in settings),
                       options.probe_seconds)
        if best:
            peers[peer] = best
    return peers


def compare(trainer, name, options, folder):
    """Median images/second by batch size and by who reached them."""
    print(f"{name}:", flush=True)
    config = pathlib.Path(folder) / f"{name}.yaml"
    config.write_text(config_text(name, 1, folder))
    model = exported(trainer, config, folder)
    if model is None:
        sys.exit(f"{name} was not exported")
    peers = {size: start_peers(name, model, size, options) for size in options.batch}
    figures = {size: {who: [] for who in ["trainer", *peers[size]]} for size in options.batch}
    for _ in range(options.rounds):
        for size, rate in ours(trainer, config, options.batch, options.seconds).items():
            figures[size]["trainer"].append(rate)
            for peer, process in peers[size].items():
                figures[size][peer].append(process.measure(options.seconds / 4))
    for process in (process for of_size in peers.values() for process in of_size.values()):
        process.close()
    return {size: {who: statistics.median(values) for who, values in rows.items()} for size, rows in figures.items()}


def print_table(rows, peers):
    print(f"\n{'backbone':16} {'batch':>5} " + " ".join(f"{who:>9}" for who in ["trainer", *peers, "ratio"]))
    ratios = {}
    for (name, size), row in rows.items():
        cells = [f"{row[who]:9.1f}" if who in row else f"{'-':>9}" for who in ["trainer", *peers]]
        best = max((row[peer] for peer in peers if peer in row), default=None)
        if best:
            ratios[name, size] = row["trainer"] / best
        print(f"{name:16} {size:>5} " + " ".join(cells) + (f" {row['trainer'] / best:9.2f}" if best else ""))
    for (name, size), value in ratios.items():
        print(f"ratio predict_{name}_batch_{size} {value:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--batch", nargs="+", type=int, choices=[1, 2, 4, 8, 16, 32], default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of trainer in each round, over all batch sizes")
    parser.add_argument("--probe-seconds", type=float, default=1.5)
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.case:
            for size, row in compare(trainer, name, options, folder).items():
                rows[name, size] = row
    print_table(rows, options.peers)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")


if __name__ == "__main__":
    main()
