"""Seconds from starting the program to the end of its first training step on the article's CNN: trainer and PyTorch.

Ends with `ratio startup VALUE`: ours / PyTorch's; below one is better. Where libtrainer.so lies beside the build of the
binary, the time in which a new process loads it comes before.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from common import CONFIG, HERE, find_trainer, settings_of


def seconds_to(event, command):
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = None
    for line in process.stdout:
        if seconds is None and line.startswith("{") and json.loads(line)["event"] == event:
            seconds = time.perf_counter() - started
    errors = process.stderr.read()
    if process.wait() != 0 or seconds is None:
        sys.exit(f"{' '.join(map(str, command))}: no '{event}' event ({process.returncode}):\n{errors[-2000:]}")
    return seconds


def load_milliseconds(library):
    code = "import ctypes, sys, time; t = time.perf_counter(); ctypes.CDLL(sys.argv[1]); print(time.perf_counter() - t)"
    return 1e3 * float(subprocess.run([sys.executable, "-c", code, library], check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--config", default=CONFIG)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    ours, peer = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours.append(seconds_to("step", [
                trainer, "train", options.config, "--json", "--run-dir", f"{folder}/run",
                *settings_of([f"train.batch_size={options.batch}", "train.max_steps=1", "run.log_every=1 steps"]),
            ]))
        peer.append(seconds_to("first_step", [
            sys.executable, HERE / "peers/torch_cnn.py", "--channels-last", "--batch", str(options.batch)
        ]))
    library = pathlib.Path(trainer).parents[1] / "library" / "libtrainer.so"
    if library.exists():
        loads = [load_milliseconds(library) for _ in range(options.rounds)]
        print(f"libtrainer.so loads in {statistics.median(loads):.1f} ms")
    for name, values in (("trainer", ours), ("torch", peer)):
        print(f"{name:8} {statistics.median(values):6.3f} s  (lowest {min(values):.3f}, highest {max(values):.3f})")
    print(f"ratio startup {statistics.median(ours) / statistics.median(peer):.3f}")


if __name__ == "__main__":
    main()
