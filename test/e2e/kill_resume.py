#!/usr/bin/env python3
"""Kills a training run at random moments, resumes it until it is done, and compares it with one that ran through.

    test/e2e/kill_resume.py build/trainer configs/digits.yaml --kills 20 --set train.epochs=1

Ends with 0 when the parameters' SHA-256, the metrics and the ledgers' rows are equal, 1 otherwise.
"""
import argparse
import csv
import json
import random
import shutil
import subprocess
import tempfile
import time


def train(program, config, folder, more):
    return subprocess.Popen([program, "train", config, "--json", "--resume", "--run-dir", folder, *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    """The run's last event."""
    out, err = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"the run ended with {process.returncode}: {err}")
    return json.loads(out.splitlines()[-1])


def ledger(folder):
    """The rows of ledger.csv without their times, and the parameter hashes by step."""
    with open(f"{folder}/ledger.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [{key: row[key] for key in row if key not in ("seconds", "wait_seconds")}
             for row in rows if not row["parameters"]]
    return steps, {row["step"]: row["parameters"] for row in rows if row["parameters"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("config")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    more = [word for setting in arguments.set for word in ("--set", setting)]
    draw = random.Random(arguments.seed)
    folder = tempfile.mkdtemp(prefix="kill_resume.")
    try:
        start = time.monotonic()
        whole = finished(train(arguments.program, arguments.config, f"{folder}/whole", more))
        seconds = time.monotonic() - start
        kills = 0
        for _ in range(arguments.kills):
            process = train(arguments.program, arguments.config, f"{folder}/parts", more)
            try:
                # Short enough that the kills fall into all of the run, not into its first part alone.
                process.communicate(timeout=draw.uniform(0, 3 * seconds / max(arguments.kills, 3)))
                break  # done before the kill
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        parts = finished(train(arguments.program, arguments.config, f"{folder}/parts", more))
        whole_rows, whole_hashes = ledger(f"{folder}/whole")
        rows, hashes = ledger(f"{folder}/parts")
    finally:
        shutil.rmtree(folder)
    same = all(whole[key] == parts[key] for key in ("steps", "parameters_sha256", "metrics"))
    complete = rows == whole_rows and all(whole_hashes.get(step, value) == value for step, value in hashes.items())
    print(f"{kills} kills, run of {seconds:.1f} s, {whole['steps']} steps")
    print(f"whole   {whole['parameters_sha256']} {whole['metrics']}")
    print(f"resumed {parts['parameters_sha256']} {parts['metrics']}")
    print(f"ledger: {len(whole_rows)} rows whole, {len(rows)} rows resumed, {'equal' if complete else 'DIFFERENT'}")
    print("equal" if same and complete else "DIFFERENT")
    return 0 if same and complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
