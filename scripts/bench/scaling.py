#!/usr/bin/env python3
"""Data-parallel throughput of the article's CNN at one global batch, from one run on this machine.

    scripts/bench/scaling [--batch 128] [--rounds 3] [--trainer PATH]

  1 replica x 1 core, 1 replica x 2 cores, 2 replicas x 1 core in one process, 2 processes x 1 core (trainer launch),
  and PyTorch's DistributedDataParallel over Gloo with 2 processes x 1 core, each setting of it probed.

Of 2 processes also: the share of communication that is hidden behind backward, and what `trainer plan --workers` predicts.

Where other programs keep the cores busy, processes that wait for each other and processes that do not get unequal shares of them, and the
figures mean nothing.

Efficiency is the throughput against that of 1 replica x 2 cores. All cases are whole `trainer train` runs; the figure is
the one that they end with, which leaves out start and evaluation. Ends with `ratio NAME VALUE`.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import CONFIG, ROOT, Peer, events, fastest, find_trainer, run_ranks, settings_of, summary

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


# The same two processes, to see what their messages cost and how much of that backward hides.
AFTER, BUCKETS, APART = "reduced after backward", "reduced in buckets", "without any messages"
BUCKET = ["parallel.bucket_mb=0.1"]
TALK = {AFTER: ["parallel.bucket_mb=1000"], BUCKETS: BUCKET}  # MiB; the model has 0.36


def train(trainer, case, options):
    parts, processes, settings = CASES[case]
    return run(trainer, processes, settings, options.batch // parts, options)


def run(trainer, processes, settings, batch, options, apart=False):
    """Images a second of processes that train together, or, apart, side by side."""
    settings = [*settings, f"train.batch_size={batch}", f"train.max_steps={options.steps}"]
    launch = [trainer, "launch", "-n", str(1 if apart else processes), "--"] if processes > 1 or apart else [trainer]
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number in range(processes if apart else 1):
            command = [*launch, "train", CONFIG, "--json", "--run-dir", f"{folder}/run{number}", *settings_of(settings)]
            # A core each, as `trainer launch` gives them.
            cores = {sorted(os.sched_getaffinity(0))[number]} if apart else os.sched_getaffinity(0)
            jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores)))
        done = [job.communicate() for job in jobs]
    for job, (_, errors) in zip(jobs, done):
        if job.returncode != 0:
            sys.exit(f"{' '.join(map(str, job.args))} failed ({job.returncode}):\n{errors}")
    return sum(next(event for event in events(text) if event["event"] == "finished")["images_per_second"] for text, _ in done)


def measure_talk(trainer, options):
    """Images a second of two processes, by how they talk, in one round."""
    alone, half = ["parallel.threads=1"], options.batch // 2
    found = {how: run(trainer, 2, [*alone, "parallel.lr_scaling=none", *settings], half, options) for how, settings in TALK.items()}
    found[APART] = run(trainer, 2, alone, half, options, apart=True)
    found["1 process"] = run(trainer, 1, alone, half, options, apart=True)
    return found


def build_link_benchmark(build):
    """The program that sums between processes, before minutes are spent on measuring; none without a build folder."""
    if not (build / "CMakeCache.txt").is_file():
        print(f"{build} is no build folder: what links cost and what `trainer plan` predicts is left out. For these, "
              "cmake --preset release, or give --build FOLDER", flush=True)
        return None
    done = subprocess.run(["cmake", "--build", build, "--target", "bench_all_reduce"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_all_reduce cannot be built in {build}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return build / "test/cluster/bench_all_reduce"


def measure_link(program, size):
    """Latency (s) and bandwidth (bytes/s) of an exchange between two ranks of this machine: those that explain the times of two sizes."""
    small = 4096
    times = run_ranks(2, [str(program), "tree", "0.5", str(small), str(size)])
    bandwidth = (size - small) / (times[size] - times[small])
    return max(0.0, times[small] - small / bandwidth), bandwidth


def predicted(trainer, settings, link, options):
    """Images a second of 1 and of 2 processes, as `trainer plan` predicts them."""
    latency, bandwidth = link
    settings = ["parallel.threads=1", f"train.batch_size={options.batch // 2}", *settings]
    core = sorted(os.sched_getaffinity(0))[:1]
    command = [trainer, "plan", CONFIG, "--json", *settings_of(settings), "--workers", "2", "--seconds", "3",
               "--link", f"{bandwidth:.0f}B/s", "--latency", f"{latency * 1e9:.0f}ns"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, core))
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stderr}")
    simulation = next(event for event in events(done.stdout) if event["event"] == "simulation")
    return [row["images_per_second"] for row in simulation["weak"]]


def report_talk(trainer, rounds, link_benchmark, options):
    middle = {how: statistics.median(one[how] for one in rounds) for how in rounds[0]}
    step = {how: options.batch / middle[how] for how in (AFTER, BUCKETS, APART)}
    print(f"2 processes x 1 core, {options.batch // 2} images each; ms a step: "
          + ", ".join(f"{how} {seconds * 1e3:.3f}" for how, seconds in step.items()))
    cost, gain = step[AFTER] - step[APART], step[AFTER] - step[BUCKETS]
    if gain < 0:
        print(f"share of communication hidden behind backward: none, buckets cost {-gain * 1e3:.3f} ms more than they hide of {cost * 1e3:.3f}")
    elif cost > 0:
        print(f"share of communication hidden behind backward: {gain / cost:.2f} ({gain * 1e3:.3f} of {cost * 1e3:.3f} ms)")
    else:
        print("share of communication hidden behind backward: unknown, messages cost less than the runs differ")
    if link_benchmark is None:
        return
    link = measure_link(link_benchmark, options.gradient_bytes)
    print(f"between two ranks of this machine: {link[0] * 1e6:.1f} us, {link[1] * 8 / 1e9:.1f} Gbit/s")
    for how, settings in TALK.items():
        one, two = predicted(trainer, settings, link, options)
        print(f"predicted, {how}: 1 process {one:.0f} images/s ({one / middle['1 process']:.2f} of measured), "
              f"2 processes {two:.0f} ({two / middle[how]:.2f} of measured)")


def best_peer(options):
    """The fastest setting's warm process; None when PyTorch cannot be measured."""
    return fastest((Peer("torch", batch=options.batch // 2, ranks=2, threads=1, wait="passive", **setting) for setting in SETTINGS),
                   options.seconds / 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer")
    parser.add_argument("--batch", type=int, default=128, help="images in the global batch")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=4, help="of a round of the peer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="the build folder, for the benchmark of all-reduce")
    parser.add_argument("--gradient-bytes", type=int, default=4 * 93322, help="of the CNN, for the link's measurement")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    link_benchmark = build_link_benchmark(options.build)

    peer = None if options.no_peer else best_peer(options)
    figures = {case: [] for case in CASES}
    if peer:
        figures["DistributedDataParallel"] = []
    talk = []
    for _ in range(options.rounds):
        talk.append(measure_talk(trainer, options))
        for case in CASES:
            figures[case].append(train(trainer, case, options))
        if peer:
            figures["DistributedDataParallel"].append(peer.measure(options.seconds))
    if peer:
        peer.close()

    middle = {case: statistics.median(values) for case, values in figures.items()}
    for case, values in figures.items():
        print(f"{case:24} {summary(values)}  efficiency {middle[case] / middle[WHOLE]:.3f}")
    report_talk(trainer, talk, link_benchmark, options)
    for case in ("2 replicas x 1 core", "2 processes x 1 core"):
        name = case.split(" x ")[0].replace("2 ", "")
        print(f"ratio scaling_{name}_efficiency {middle[case] / middle[WHOLE]:.3f}")
        if peer:
            print(f"ratio scaling_{name}_vs_ddp {middle[case] / middle['DistributedDataParallel']:.2f}")


if __name__ == "__main__":
    main()
