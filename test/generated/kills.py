#!/usr/bin/env python3
"""Trains random configs, kills them at random moments, resumes them, and compares the end with an undisturbed run.

    test/generated/kills.py build/release/apps/trainer/trainer
    ... kills.py TRAINER --cases 60 --seed 7         another draw
    ... kills.py TRAINER --seed 7 --case 12          case 12 of this draw alone

A config has a random model, augmentation, optimizer, schedule, intervals and sums, one to three replicas and one to
three processes. SIGKILL or SIGTERM goes to one process, at a random step or during the start, up to four times. With
ordered sums each start has another number of replicas and processes of the same global batch. Compared are:

  parameters   `parameters_sha256`, steps and metrics of the event `finished`
  ledger       the rows of ledger.csv without times: each step once
  metrics      the rows of metrics.csv: each once, with its loss, accuracy and learning rate
  exit codes   0, 75 after SIGTERM, 4 with a message of a process whose peer died
  files        no temporary file is left

Exits with 1 where a case failed. Needs no packages.
"""

import csv
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from cases import Failed, Generator
from random_models import RandomModel, random_optimizer

CLASSES = 10
LEFTOVER = re.compile(r"\.tmp\.\S+\.\d+$")
AUGMENTATIONS = ["random_flip_horizontal", {"random_crop": {"padding": 2}}, {"random_rotation": {"degrees": 15}},
                 {"random_shift": {"height": 0.1, "width": 0.1}}, {"random_erasing": {"probability": 0.5}},
                 {"brightness": {"factor": 0.3}}]
MIXES = [{"mixup": {"alpha": 0.4}}, {"cutmix": {"alpha": 1.0}}]


class Plan:
    """The drawn config and the number of processes and replicas of its starts."""

    def __init__(self, case, digits):
        draw = self.draw = case.draw
        self.is_ordered = draw.random() < 0.4
        self.processes, self.replicas = draw.choice([(1, 1), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)])
        count = self.processes * self.replicas
        self.global_batch = draw.choice([6, 12, 24])
        if self.global_batch % count:
            self.global_batch = 12  # else the starts with other numbers would have another global batch
        self.limit = draw.randint(60, 260)
        model = RandomModel(draw, (28, 28, 1), CLASSES, has_batch_norm=not self.is_ordered)
        for kind in ("dropout", "drop_path"):
            if draw.random() < 0.4:
                model.layers.insert(len(model.layers) - 1, {kind: round(draw.uniform(0.05, 0.5), 2)})
        self.config = {
            "name": "killed", "seed": draw.randint(0, 1000),
            "model": {"layers": model.layers},
            "data": self.data(digits),
            "optimizer": self.optimizer(),
            "train": {"epochs": draw.choice([1, 2, 2.5, 3]), "batch_size": self.global_batch // count},
            "run": {"checkpoint_every": f"{draw.randint(1, 6)} steps", "log_every": "1 steps",
                    "summary_every": f"{draw.choice([1, 1, 2, 5])} steps", "keep": draw.randint(1, 3),
                    "evaluate_every": draw.choice(["1 epochs", f"{draw.randint(3, 20)} steps"]),
                    "tensorboard": draw.random() < 0.3},
            "parallel": {"timeout": "20 seconds"},
        }
        if self.is_ordered:
            self.config["parallel"]["reduction"] = "ordered"
        elif draw.random() < 0.3:
            self.config["parallel"]["batch_norm"] = {"sync": count > 1}
        self.config["parallel"]["lr_scaling"] = "none"
        if draw.random() < 0.5:
            self.config["schedule"] = self.schedule()
            if "reduce_on_plateau" in self.config["schedule"]:
                self.config["data"]["validation_split"] = 0.2
        if draw.random() < 0.25:
            self.config["train"]["early_stop"] = {"patience": draw.randint(1, 2), "restore_best": draw.random() < 0.5}
            self.config["run"]["best"] = "validation/loss"
            self.config["data"]["validation_split"] = 0.2

    def data(self, digits):
        draw = self.draw
        augment = draw.sample(AUGMENTATIONS, draw.randint(0, 2))
        if draw.random() < 0.2:
            augment.append(draw.choice(MIXES))
        data = {"format": "digits", "path": digits, "limit": self.limit, "shuffle": draw.random() < 0.8}
        if augment:
            data["train"] = {"augment": augment}
        if draw.random() < 0.3:
            data["validation_split"] = 0.2
        if augment and data["shuffle"] and draw.random() < 0.3:
            data["repeats"] = 2
        if data["shuffle"] and draw.random() < 0.2:
            data["sampling"] = "balanced"
        return data

    def optimizer(self):
        optimizer = random_optimizer(self.draw)
        if self.draw.random() < 0.3:
            optimizer["ema"] = 0.9
        if self.draw.random() < 0.2:
            optimizer["accumulate"] = self.draw.randint(2, 3)
        return optimizer

    def schedule(self):
        schedule = self.draw.choice([{"cosine": {}}, {"exponential": {"decay_every": "7 steps"}}, {"one_cycle": {}},
                                     {"reduce_on_plateau": {"patience": 1}}, {"step": {"every": "1 epochs"}}])
        if "one_cycle" not in schedule and self.draw.random() < 0.4:
            schedule["warm_up"] = {"over": "5 steps"}
        return schedule

    def shape(self):
        """(processes, replicas) of the next start."""
        if not self.is_ordered:
            return self.processes, self.replicas
        return self.draw.choice([(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)])


class Job:
    """The processes of one start. Rank 0's events are read as they come."""

    def __init__(self, case, plan, run, shape):
        processes, replicas = shape
        batch = plan.global_batch // (processes * replicas)
        options = ["--resume", "--run-dir", run, "--json", "--replicas", replicas, "--batch-size", batch,
                   "--set", f"parallel.threads={replicas}"]
        master = f"127.0.0.1:{free_port()}"
        self.folder, self.run = case.folder, run
        self.events, self.ranks = [], []
        for rank in range(processes):
            more = ["--rank", rank, "--world-size", processes, "--master", master] if processes > 1 else []
            with open(case.folder / f"rank{rank}.err", "w") as errors:
                self.ranks.append(subprocess.Popen(
                    [case.trainer, "train", "config.yaml", *map(str, options + more)], cwd=case.folder, text=True,
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=errors,
                    env=dict(os.environ, TRAINER_SECRET="secret of the generated configs")))
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.ranks[0].stdout:
            if line.endswith("\n"):
                with self.changed:
                    self.events.append(json.loads(line))
                    self.changed.notify_all()
        with self.changed:
            self.events.append({"event": "end of output"})
            self.changed.notify_all()

    def step(self):
        return max((event["step"] for event in self.events if event["event"] == "step"), default=0)

    def wait_for_step(self, step):
        with self.changed:
            self.changed.wait_for(lambda: self.step() >= step or self.events and
                                  self.events[-1]["event"] == "end of output", timeout=60)

    def wait(self, limit=600):
        """The exit codes of all ranks. Without a signal the limit is only for a job that hangs."""
        codes = []
        for rank in self.ranks:
            try:
                codes.append(rank.wait(limit))
            except subprocess.TimeoutExpired:
                for other in self.ranks:
                    other.kill()
                raise Failed("exit codes", f"a process still runs after {limit} s: {self.messages()}")
        self.reader.join()
        return codes

    def messages(self):
        texts = [(self.folder / f"rank{rank}.err").read_text() for rank in range(len(self.ranks))]
        return " | ".join(text.strip()[-300:] for text in texts)

    def finished(self):
        return next((event for event in self.events if event["event"] == "finished"), None)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def ledger(run):
    """The rows of steps without times, and the parameter hashes by step."""
    rows = read_rows(run / "ledger.csv")
    steps = [{key: row[key] for key in row if key not in ("seconds", "wait_seconds")}
             for row in rows if not row["parameters"]]
    return steps, {row["step"]: row["parameters"] for row in rows if row["parameters"]}


def metrics(run):
    """The rows of metrics.csv without times. Sums depend on the number of replicas in their last bits."""
    def short(text):
        return f"{float(text):.6g}" if text else ""
    return [(int(row["step"]), row["split"], *(short(row[key]) for key in ("loss", "accuracy", "learning_rate")))
            for row in read_rows(run / "metrics.csv")]


def same_rows(rows, whole_rows):
    """Whether two ledgers agree. The sum of the losses depends on the number of replicas in its last bit."""
    def plain(row):
        return {key: value for key, value in row.items() if key != "loss"}
    return len(rows) == len(whole_rows) and all(
        plain(a) == plain(b) and math.isclose(float(a["loss"]), float(b["loss"]), rel_tol=1e-12)
        for a, b in zip(rows, whole_rows))


def disturb(case, plan, job, total):
    """Sends one signal to one process. Returns the signal and its victim."""
    draw = case.draw
    number = signal.SIGTERM if draw.random() < 0.35 else signal.SIGKILL
    victim = draw.randrange(len(job.ranks))
    if draw.random() < 0.2:
        time.sleep(draw.uniform(0, 0.2))  # during the start
    else:
        job.wait_for_step(draw.randint(1, max(total - 1, 1)))
        time.sleep(draw.uniform(0, 0.005))
    if job.ranks[victim].poll() is None:
        job.ranks[victim].send_signal(number)
    return number, victim


def check_codes(case, job, codes, number, victim):
    allowed = {0, 4, 75}
    after = f"after {number.name} to rank {victim}"
    for rank, code in enumerate(codes):
        if rank == victim and number == signal.SIGKILL and code == -signal.SIGKILL:
            continue
        # Before main() has installed its handler, the signal has its default effect.
        if code not in allowed and not (number == signal.SIGTERM and rank == victim and code == -signal.SIGTERM):
            raise Failed("exit codes", f"rank {rank} ended with {code} {after}: {job.messages()}")
        if code == 4 and not (case.folder / f"rank{rank}.err").read_text().strip():
            raise Failed("exit codes", f"rank {rank} ended with {code} {after}, without a message")
    case.passed("exit codes")


def run_case(case, digits):
    plan = Plan(case, digits)
    case.write_config(plan.config)
    whole = Job(case, plan, "whole", (plan.processes, plan.replicas))
    codes = whole.wait()
    if any(codes):
        raise Failed("undisturbed run", f"ended with {codes}: {whole.messages()}")
    expected = whole.finished()
    done = None
    for _ in range(case.draw.randint(1, 4)):
        job = Job(case, plan, "killed", plan.shape())
        number, victim = disturb(case, plan, job, expected["steps"])
        codes = job.wait(90)
        check_codes(case, job, codes, number, victim)
        case.passed(f"{number.name}, {'ended before it' if not any(codes) else 'ended by it'}")
        if not any(codes):
            done = job.finished()
            break
    if done is None:
        job = Job(case, plan, "killed", plan.shape())
        codes = job.wait()
        if any(codes):
            raise Failed("resume", f"ended with {codes}: {job.messages()}")
        case.passed("resume")
        done = job.finished()
    compare(case, expected, done)


def compare(case, expected, done):
    for key in ("steps", "parameters_sha256", "metrics"):
        if done[key] != expected[key]:
            case.failed("parameters", f"{key}: {done[key]}, expected {expected[key]}")
            break
    else:
        case.passed("parameters")
    rows, hashes = ledger(case.folder / "killed")
    whole_rows, whole_hashes = ledger(case.folder / "whole")
    different = [step for step in hashes if whole_hashes.get(step, hashes[step]) != hashes[step]]
    if not same_rows(rows, whole_rows) or different:
        first = next((i for i, (a, b) in enumerate(zip(rows, whole_rows)) if a != b), min(len(rows), len(whole_rows)))
        case.failed("ledger", f"{len(rows)} rows, expected {len(whole_rows)}; the first other one is row {first}: "
                              f"{rows[first:first + 1]}, expected {whole_rows[first:first + 1]}; hashes of {different}")
    else:
        case.passed("ledger")
    rows, whole_rows = (metrics(case.folder / run) for run in ("killed", "whole"))
    if rows != whole_rows:
        case.failed("metrics", f"{len(rows)} rows, expected {len(whole_rows)}; missing or new are "
                               f"{sorted(set(rows) ^ set(whole_rows))}")
    else:
        case.passed("metrics")
    left = [name for _, _, names in os.walk(case.folder / "killed") for name in names if LEFTOVER.search(name)]
    if left:
        case.failed("files", f"left behind: {', '.join(left)}")
    else:
        case.passed("files")


def main():
    generator = Generator("kills", __doc__, cases=6)
    with tempfile.TemporaryDirectory(prefix="generated.") as folder:
        return generator.run(lambda case: run_case(case, f"{folder}/digits"))


if __name__ == "__main__":
    sys.exit(main())
