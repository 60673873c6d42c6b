"""What measuring every step costs: a build that measures against one that does not, at the same time on this machine.

    cmake -B build/unmeasured -DTRAINER_STEP_TIMES=OFF -DTRAINER_TESTS=OFF && cmake --build build/unmeasured --target trainer
    scripts/bench/step_times --without build/unmeasured/apps/trainer/trainer

Both run at once, each on a core of its own, and then again on each other's core; a round's figure is the geometric mean of the two
ratios, which neither the core nor a busy neighbour changes much. `trainer benchmark` is measured in the cases of train_throughput, and,
as `ledger`, whole runs of `trainer train` with and without run.ledger (one binary). Ends with `ratio NAME VALUE`: the throughput with
measuring over that without, the median of the rounds.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import CONFIG, events, find_trainer, settings_of

CASES = {f"{name}_batch{batch}": [f"train.precision={precision}", f"train.batch_size={batch}"]
         for name, precision in (("fp32", "float32"), ("bf16", "bfloat16")) for batch in (64, 512)}


def start(command, core):
    return subprocess.Popen(["taskset", "--cpu-list", str(core), *map(str, command), "--json"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def speed(process):
    """Images/second, as a benchmark or a finished run says them."""
    output, errors = process.communicate()
    for event in events(output):
        if event["event"] in ("benchmark", "finished"):
            return event["images_per_second"]
    sys.exit(f"{' '.join(process.args)} failed ({process.returncode}):\n{errors[-2000:]}")


def round_of(measured, unmeasured, cores):
    """`measured` and `unmeasured` give the command of a run, by core."""
    product = 1.0
    for first, second in (cores, cores[::-1]):
        ours, other = start(measured(first), first), start(unmeasured(second), second)
        product *= speed(ours) / speed(other)
    return math.sqrt(product)


def benchmark(trainer, settings, seconds):
    return lambda core: [trainer, "benchmark", CONFIG, "--seconds", seconds, *settings_of([*settings, "parallel.threads=1"])]


def training(trainer, ledger, steps, folder):
    settings = [f"run.ledger={ledger}", f"train.max_steps={steps}", "parallel.threads=1", "train.batch_size=64"]
    return lambda core: [trainer, "train", CONFIG, "--overwrite", "--run-dir", folder / f"core{core}", *settings_of(settings)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary that measures; $TRAINER or build/release's when left out")
    parser.add_argument("--without", type=pathlib.Path, help="one that does not; left out, only the ledger is measured")
    parser.add_argument("--cores", nargs=2, type=int, help="the first two that this process may use when left out")
    parser.add_argument("--case", nargs="+", choices=[*CASES, "ledger"], default=[*CASES, "ledger"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each benchmark")
    parser.add_argument("--steps", type=int, default=400, help="of each run of the case ledger")
    parser.add_argument("--json", help="file that the figures of all rounds are written to")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    cores = options.cores or sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("scripts/bench/step_times needs two cores")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for case in options.case:
            if case == "ledger":
                pair = training(trainer, "true", options.steps, folder), training(trainer, "false", options.steps, folder)
            elif options.without:
                pair = tuple(benchmark(program, CASES[case], options.seconds) for program in (trainer, options.without.resolve()))
            else:
                continue
            figures[case] = sorted(round_of(*pair, cores) for _ in range(options.rounds))
            low, high = (figures[case][int(share * (options.rounds - 1))] for share in (0.25, 0.75))
            print(f"{case}: {statistics.median(figures[case]):.4f}, half of the rounds in {low:.4f} to {high:.4f}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    for case, values in figures.items():
        print(f"ratio {case} {statistics.median(values):.4f}")


if __name__ == "__main__":
    main()
