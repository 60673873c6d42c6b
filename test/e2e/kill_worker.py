#!/usr/bin/env python3
"""Kills one of two workers at random moments, resumes the job, and compares its end with that of one that ran through.

    test/e2e/kill_worker.py build/release/apps/trainer/trainer configs/digits.yaml --kills 50 --seed 1

The other worker must end within its deadline with exit code 4 and name the killed one. A job that is done must have
the parameters' SHA-256 and the metrics of the uninterrupted one; then the next job begins. Ends with 1 when any of
this does not hold.
"""
import argparse
import json
import os
import random
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time

TIMEOUT = 5  # seconds, parallel.timeout
DEADLINE = 2 * TIMEOUT  # for a survivor; the rest is for a loaded machine
SIZE = 2


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Worker:
    def __init__(self, command, rank, port, folder):
        self.rank = rank
        self.err = f"{folder}/err{rank}"
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(SIZE), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
        environment.pop("TF_CONFIG", None)
        with open(self.err, "w") as err:
            self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=err)
        self.started = threading.Event()  # set by the first line of training, and by the end of the output
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a kill may cut off the last line
                self.lines.append(line.decode(errors="replace"))
            if b'"event":"start"' in line:
                self.started.set()
        self.started.set()

    def error_text(self):
        with open(self.err, errors="replace") as file:
            return file.read()

    def wait(self, seconds):
        """The exit code; None when it is still running."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def events(self, name):
        """The events of this name that an ended process printed."""
        self.reader.join()
        return [json.loads(line) for line in self.lines if f'"event":"{name}"' in line]


class Job:
    def __init__(self, command, folder):
        port = free_port()
        self.workers = [Worker(command, rank, port, folder) for rank in range(SIZE)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
            worker.reader.join()

    def runs_on(self, seconds):
        """Waits; False as soon as a worker has ended."""
        ends = [os.pidfd_open(worker.process.pid) for worker in self.workers if worker.process.returncode is None]
        try:
            return len(ends) == SIZE and not select.select(ends, [], [], seconds)[0]
        finally:
            for end in ends:
                os.close(end)

    def finished(self):
        """Its last event, once all have ended well."""
        codes = [worker.wait(600) for worker in self.workers]
        if codes != [0] * SIZE:
            raise SystemExit(f"the job ended with {codes}:\n" + "".join(w.error_text() for w in self.workers))
        return self.workers[0].events("finished")[-1]


def kill(job, draw, seconds):
    """Waits for a random moment, kills one of the workers and looks at the other. (What happened, whether it is right);
    nothing when the job was done before."""
    chief = job.workers[0]
    if draw.random() < 0.2:
        moment, pause = "since its start", draw.uniform(0, 0.3)
    else:
        moment, pause = "of training", draw.uniform(0, seconds)
        if not chief.started.wait(600):
            raise SystemExit("the chief printed no start within 600 s:\n" + chief.error_text())
    if not job.runs_on(pause):
        return None
    culprit, survivor = draw.sample(job.workers, SIZE)
    culprit.process.kill()
    killed = time.monotonic()
    if culprit.process.wait() == 0:
        return None
    code = survivor.wait(DEADLINE)
    took = time.monotonic() - killed
    message = survivor.error_text().strip().split("\n")[-1]
    what = f"rank {culprit.rank} killed {pause:.3f} s {moment}; rank {survivor.rank}: {code} after {took:.2f} s"
    if code == 0:  # right only when there was nothing left to do
        return f"{what}: it was done", survivor.rank != 0 or bool(survivor.events("finished"))
    right = code == 4 and f"rank {culprit.rank}" in message
    return f"{what}: {message}", right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("config")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    folder = tempfile.mkdtemp(prefix="kill_worker.")
    threads = max(1, len(os.sched_getaffinity(0)) // SIZE)
    settings = ["parallel.lr_scaling=none", f"parallel.timeout={TIMEOUT} seconds", f"parallel.threads={threads}",
                "run.checkpoint_every=20 steps", "run.evaluate_every=100 steps", "train.epochs=1", *arguments.set]
    more = [word for setting in settings for word in ("--set", setting)]

    def start(name):
        run = ["--json", "--resume", "--run-dir", f"{folder}/{name}"]
        return Job([arguments.program, "train", arguments.config, *more, *run], folder)

    kills = wrong = jobs = 0

    def compare(now):
        same = all(whole[key] == now[key] for key in ("steps", "parameters_sha256", "metrics"))
        print(f"job done: {now['parameters_sha256']} {now['metrics']}: {'equal' if same else 'DIFFERENT'}", flush=True)
        shutil.rmtree(f"{folder}/parts")
        return 0 if same else 1

    try:
        begin = time.monotonic()
        with start("whole") as job:
            whole = job.finished()
        seconds = whole["wall_seconds"]
        print(f"whole:    {whole['parameters_sha256']} {whole['metrics']}, {whole['steps']} steps in {seconds:.1f} s")
        while kills < arguments.kills:
            with start("parts") as job:
                result = kill(job, draw, 0.5 * seconds)
                if result is None:
                    wrong += compare(job.finished())
                    jobs += 1
                    continue
            kills += 1
            wrong += 0 if result[1] else 1
            print(f"{kills}: {'' if result[1] else 'WRONG: '}{result[0]}", flush=True)
        with start("parts") as job:
            wrong += compare(job.finished())
            jobs += 1
    finally:
        shutil.rmtree(folder)
    print(f"{kills} kills in {jobs} jobs, {time.monotonic() - begin:.0f} s: {f'{wrong} WRONG' if wrong else 'all right'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
