#!/usr/bin/env python3
"""Trains for a long time and watches what may grow: memory, descriptors, threads, files, the time of a step.

    scripts/campaign/long_run.py build/release/apps/trainer/trainer configs/mnist.yaml --minutes 60 [--set KEY=VALUE ...]

Prints a line a sample and, at the end, the slope of each measure over the second half of the run with its standard
error. Ends with 1 when one grows by more than three standard errors and by more than 1 % of its value in an hour; files
that grow with the steps by design (metrics, events) are listed with their bytes an hour.
"""
import argparse
import csv
import os
import shutil
import signal
import subprocess
import tempfile
import time


def status_of(pid):
    fields = {}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields[name] = value.split()
    return {"memory KiB": int(fields["VmRSS"][0]), "threads": int(fields["Threads"][0]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def sizes(folder):
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                found[os.path.relpath(path, folder)] = os.path.getsize(path)
            except FileNotFoundError:  # a checkpoint that was replaced
                pass
    return found


def slope(points):
    """Least squares: change an hour, its standard error, and the mean."""
    count = len(points)
    mean_x, mean_y = (sum(p[i] for p in points) / count for i in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rate = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rate * (x - mean_x)) ** 2 for x, y in points)
    error = (rest / max(count - 2, 1) / spread) ** 0.5
    return 3600 * rate, 3600 * error, mean_y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("config")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=10, help="seconds between samples")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="long_run.")
    run = os.path.join(folder, "run")
    more = [word for setting in arguments.set for word in ("--set", setting)]
    command = [arguments.program, "train", arguments.config, "--quiet", "--epochs", "1000000", "--run-dir", run, *more]
    # Many CPU seconds pass without this process: the clock of the trainer is what counts for steps.
    process = subprocess.Popen(command)
    samples, files = [], []
    begin = time.monotonic()
    try:
        while time.monotonic() - begin < 60 * arguments.minutes and process.poll() is None:
            time.sleep(arguments.every)
            now = time.monotonic() - begin
            try:
                samples.append((now, status_of(process.pid)))
            except (FileNotFoundError, KeyError):
                break
            files.append((now, sizes(run)))
            held = samples[-1][1]
            print(f"{now:7.0f} s  " + "  ".join(f"{value} {name}" for name, value in held.items()) +
                  f"  {len(files[-1][1])} files  {sum(files[-1][1].values())} bytes", flush=True)
        if process.poll() is not None:
            raise SystemExit(f"the program ended with {process.returncode} after {time.monotonic() - begin:.0f} s")
        process.send_signal(signal.SIGTERM)
        code = process.wait(600)
        wrong = 0 if code == 75 else 1
        print(f"\nended with {code} after SIGTERM")
        half = len(samples) // 2
        print(f"{'measure':24} {'mean':>14} {'change an hour':>16} {'standard error':>16}")
        for name in samples[0][1]:
            rate, error, mean = slope([(at, held[name]) for at, held in samples[half:]])
            grows = rate > 3 * error and rate > 0.01 * mean
            wrong += grows
            print(f"{name:24} {mean:14.1f} {rate:16.2f} {error:16.2f}{'  GROWS' if grows else ''}")
        with open(os.path.join(run, "metrics.csv")) as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "train" and row.get("seconds")]
        steps = []
        for before, row in zip(rows, rows[1:]):
            count = int(row["step"]) - int(before["step"])
            if count > 0:
                steps.append((int(row["step"]), float(row["seconds"]) / count))
        if len(steps) > 4:
            rate, error, mean = slope(steps[len(steps) // 2:])
            print(f"{'seconds a step':24} {mean:14.6f} {rate / 3600 * 1e6:16.6f} {error / 3600 * 1e6:16.6f}  "
                  f"(change in a million steps, {len(steps)} rows)")
        for name in sorted(files[-1][1]):
            points = [(at, held[name]) for at, held in files[half:] if name in held]
            if len(points) > 4 and points[-1][1] != points[0][1]:
                print(f"{name:40} {points[-1][1]:12} bytes, {slope(points)[0]:14.0f} an hour")
    finally:
        if process.poll() is None:
            process.kill()
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
