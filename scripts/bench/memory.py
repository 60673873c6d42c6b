"""Largest resident memory while training the article's CNN at batch 64: trainer and PyTorch (eager, its smallest way).

Ends with `ratio memory VALUE`: ours / PyTorch's; below one is better.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from common import CONFIG, HERE, find_trainer, settings_of


def peak_mib(command, data=None):
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, text=True)
        if data:
            process.stdin.write(data)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))} failed ({process.returncode}):\n{errors.read()[-2000:]}")
        return usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = peak_mib([
            find_trainer(options.trainer), "train", CONFIG, "--json", "--run-dir", f"{folder}/run",
            *settings_of([f"train.batch_size={options.batch}"]),
        ])
    peer = peak_mib(
        [sys.executable, HERE / "peers/torch_cnn.py", "--channels-last", "--batch", str(options.batch)], data="3\n"
    )
    print(f"trainer  {ours:8.0f} MiB\ntorch    {peer:8.0f} MiB\nratio memory {ours / peer:.3f}")


if __name__ == "__main__":
    main()
