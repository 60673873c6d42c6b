#!/usr/bin/env python3
"""Kills, failing disks, jumping clocks: what becomes of a run, counted.

    scripts/campaign/faults.py build/release/apps/trainer/trainer [--kills 200] [--writes 0] [--storage 4] [--seed 1] [--only NAME ...]

Every fault is put to a small run, which is then resumed without faults. It must end with the parameters and metrics of
a run without any; the newest checkpoint must be no older than the last one that was announced; an exit code that is
not 0 must come with a message; and no temporary file or shared memory may be left. Prints a table of faults, runs and losses,
and ends with 1 when one was lost. --writes N takes N calls that touch the run folder, evenly spaced, 0 all of them. Faults
that need mounts are left out without root, and those of a disk in user space (faulty_disk.py) without FUSE.
"""
import argparse
import contextlib
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from disk_faults import DiskFaults, Lost, caches_config

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = """name: campaign
seed: 7
model:
  layers:
    - conv: {filters: 6, kernel_size: 3, activation: relu}
    - max_pool: 2
    - flatten
    - dropout: 0.2
    - dense: 10
data: {format: digits, path: %s, limit: 400}
optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}, ema: 0.9}
train: {epochs: 3, batch_size: 32}
run: {checkpoint_every: 3 steps, log_every: 1 steps, evaluate_every: 20 steps}
parallel: {threads: 1}
"""
# Few steps, each kind of file: for a fault at every call.
SMALL = CONFIG.replace("limit: 400", "limit: 64").replace("epochs: 3", "epochs: 2").replace("every: 20 steps", "every: 2 steps")
LEFTOVER = re.compile(r"\.tmp\.\d+")
MESSAGE = re.compile(r"error|cannot|failed|Stopped|interrupted", re.IGNORECASE)


class Campaign(DiskFaults):
    def __init__(self, program, seed):
        self.program = os.path.abspath(program)
        self.draw = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="campaign.")
        self.config = f"{self.folder}/config.yaml"
        with open(self.config, "w") as file:
            file.write(CONFIG % f"{self.folder}/digits")
        self.layer = f"{self.folder}/file_faults.so"
        subprocess.run(["c++", "-shared", "-fPIC", "-O1", "-std=c++20", f"{HERE}/file_faults.cpp", "-o", self.layer], check=True)
        self.shared = set(os.listdir("/dev/shm"))
        self.table = []

    def measure(self):
        """The end of a run without faults, and its time."""
        self.whole = self.finish(f"{self.folder}/whole")
        begin = time.monotonic()
        again = self.finish(f"{self.folder}/again")
        self.seconds = time.monotonic() - begin
        assert again["parameters_sha256"] == self.whole["parameters_sha256"], "two runs end with other bits"
        print(f"one run: {self.whole['steps']} steps in {self.seconds:.2f} s", flush=True)
        for name in ("whole", "again"):
            shutil.rmtree(f"{self.folder}/{name}")

    def command(self, run, *more):
        return [self.program, "train", self.config, "--json", "--resume", "--run-dir", run, *more]

    def start(self, run, *more, environment=None, prepare=None):
        """`prepare` is called in the new process, before the program."""
        self.out = open(f"{self.folder}/out", "w+")
        self.err = open(f"{self.folder}/err", "w+")
        return subprocess.Popen(self.command(run, *more), stdout=self.out, stderr=self.err,
                                env=dict(os.environ, **(environment or {})), preexec_fn=prepare)

    def read(self):
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
        return texts

    def events(self):
        lines = self.read()[0].split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def finish(self, run, *more, environment=None):
        """Runs to the end without faults; its last event."""
        process = self.start(run, *more, environment=environment)
        code = process.wait(600)
        if code != 0:
            raise Lost(f"the resumed run ended with {code}: {self.read()[1].strip()[-300:]}")
        return [event for event in self.events() if event["event"] == "finished"][-1]

    def announced(self):
        """The step of the last checkpoint that an event announced."""
        paths = [event.get("path", "") for event in self.events() if event["event"] == "checkpoint"]
        steps = [int(match.group(1)) for match in (re.search(r"step-(\d+)", path) for path in paths) if match]
        return max(steps, default=0)

    def check_checkpoints(self, run, least):
        held = [int(re.search(r"step-(\d+)", path).group(1)) for path in glob.glob(f"{run}/checkpoints/step-*.safetensors")]
        if max(held, default=0) < least:
            raise Lost(f"checkpoint {least} was announced, the newest is {max(held, default=0)}")

    def check_end(self, run, finished, whole=None):
        whole = whole or self.whole
        for key in ("steps", "parameters_sha256", "metrics"):
            if finished[key] != whole[key]:
                raise Lost(f"{key}: {finished[key]}, expected {whole[key]}")
        for parent, _, names in os.walk(run):
            left = [name for name in names if LEFTOVER.search(name)]
            if left:
                raise Lost(f"left in {parent}: {', '.join(left)}")
        now = {name for name in set(os.listdir("/dev/shm")) - self.shared if "trainer" in name and "fuzz" not in name}
        if now:
            raise Lost(f"left in /dev/shm: {', '.join(now)}")

    def check_message(self, code):
        if code not in (0, -signal.SIGKILL) and not MESSAGE.search(self.read()[1]):
            raise Lost(f"ended with {code} and no message: {self.read()[1]!r}")

    def count(self, name, runs, lost):
        self.table.append((name, runs, len(lost)))
        print(f"{name}: {runs} runs, {len(lost)} lost" + "".join(f"\n    {text}" for text in lost[:5]), flush=True)

    def repeat(self, name, trials):
        """Each trial takes a run folder and leaves a run that was disturbed; then the run is resumed."""
        lost = []
        for number, trial in enumerate(trials):
            run = f"{self.folder}/run"
            shutil.rmtree(run, ignore_errors=True)
            try:
                run = trial(run) or run
                self.check_end(run, self.finish(run))
            except Lost as error:
                lost.append(f"{number}: {error}")
            shutil.rmtree(run, ignore_errors=True)
        self.count(name, len(trials), lost)

    # ---- The faults -----------------------------------------------------------------------------

    def kills(self, count, what="a run"):
        """Killed several times at random moments before it is let run to its end."""
        lost, killed, finished = [], 0, 0
        run = f"{self.folder}/run"
        while killed < count:
            process = self.start(run)
            end = time.monotonic() + self.draw.uniform(0, 1.2 * self.seconds)
            while time.monotonic() < end and process.poll() is None:
                time.sleep(0.001)
            process.kill()
            code = process.wait()
            try:
                self.check_message(code)
                self.check_checkpoints(run, self.announced())
                if code == 0:
                    self.check_end(run, [e for e in self.events() if e["event"] == "finished"][-1])
            except Lost as error:
                lost.append(f"{killed}: {error}")
            killed += code == -signal.SIGKILL
            if code == 0:
                finished += 1
                shutil.rmtree(run)
        try:
            self.check_end(run, self.finish(run))
        except Lost as error:
            lost.append(str(error))
        shutil.rmtree(run)
        self.count(f"{what}: SIGKILL at random moments ({finished + 1} to the end)", killed, lost)

    def caches(self, count):
        """As kills(), with decoded images and features of frozen layers in files that outlive the kills."""
        self.write_images(self.folder)
        with self.another(caches_config(self.folder)):
            shutil.rmtree(f"{self.folder}/cache")
            self.kills(count, "caches on disk")
        left = [name for _, _, names in os.walk(f"{self.folder}/cache") for name in names if LEFTOVER.search(name)]
        if left:
            self.count("caches on disk: left behind", 1, left)

    def write_images(self, folder):
        for split, images in (("train", 17), ("validation", 7)):
            for label, base in (("left", 90), ("right", 60)):
                os.makedirs(f"{folder}/{split}/{label}")
                for number in range(images):
                    with open(f"{folder}/{split}/{label}/{number}.ppm", "wb") as file:
                        file.write(b"P6 36 40 255\n" + bytes(base + self.draw.randrange(100) for _ in range(36 * 40 * 3)))

    @contextlib.contextmanager
    def another(self, config, measure=None):
        """With another job than the usual one."""
        before = self.config, self.whole, self.seconds
        self.config = f"{self.folder}/another.yaml"
        with open(self.config, "w") as file:
            file.write(config)
        (measure or self.measure)()
        yield
        self.config, self.whole, self.seconds = before

    def small(self):
        return self.another(SMALL % f"{self.folder}/digits")

    def faulty(self, run, at, kind):
        environment = {"LD_PRELOAD": self.layer, "FAULT_FOLDER": run, "FAULT_AT": str(at), "FAULT_KIND": kind}
        code = self.start(run, environment=environment).wait(600)
        self.check_message(code)
        self.check_checkpoints(run, self.announced())
        if kind == "short" and code != 0:
            raise Lost(f"call {at}: half a write ended the run: {self.read()[1].strip()[-300:]}")
        self.codes[code] = self.codes.get(code, 0) + 1

    def writes(self, most):
        with self.small():
            self.fail_writes(most)

    def fail_writes(self, most):
        run, log = f"{self.folder}/run", f"{self.folder}/calls"
        self.finish(run, environment={"LD_PRELOAD": self.layer, "FAULT_FOLDER": run, "FAULT_AT": "0", "FAULT_COUNT": log})
        shutil.rmtree(run)
        with open(log) as file:
            calls = [line.split() for line in file]
        print(f"{len(calls)} calls touch the run folder: " +
              ", ".join(f"{sum(call[1] == name for call in calls)} {name}" for name in sorted({c[1] for c in calls})))
        chosen = range(1, len(calls) + 1) if most == 0 else sorted({1 + i * len(calls) // most for i in range(most)})
        for kind in ("enospc", "eio", "short", "kill", "killed"):
            self.codes = {}
            self.repeat(f"{kind} at each call in turn",
                        [lambda run, at=at, kind=kind: self.faulty(run, at, kind) for at in chosen])
            self.print_codes()

    def power(self, most):
        with self.small():
            self.lose_power_at(most)

    def lose_power_at(self, most):
        """Killed before a call, and then everything that was not synced is lost, or all but the names, or all but the data."""
        box, log, shadow = f"{self.folder}/box", f"{self.folder}/calls", f"{self.folder}/shadow"
        run = f"{box}/run"

        def fresh():
            for folder in (box, shadow):
                shutil.rmtree(folder, ignore_errors=True)
                os.mkdir(folder)
        fresh()
        self.finish(run, environment={"LD_PRELOAD": self.layer, "FAULT_FOLDER": box, "FAULT_AT": "0", "FAULT_COUNT": log})
        with open(log) as file:
            calls = len(file.readlines())
        os.remove(log)
        chosen = range(1, calls + 1) if most == 0 else sorted({1 + i * calls // most for i in range(most)})

        def trial(_, at, kept):
            fresh()
            environment = {"LD_PRELOAD": self.layer, "FAULT_FOLDER": box, "FAULT_AT": str(at), "FAULT_KIND": "kill", "FAULT_SHADOW": shadow}
            self.start(run, environment=environment).wait(600)
            self.lose_power(box, shadow, kept)
            self.check_checkpoints(run, self.announced())
            return run
        for kept in ("nothing", "names", "data"):
            self.repeat(f"power lost at a call, of what is not synced {kept} is kept",
                        [lambda run, at=at, kept=kept: trial(run, at, kept) for at in chosen])

    def lose_power(self, box, shadow, kept):
        """Makes of the folder what a disk holds that was given the synced files and folders, and `kept` of the rest."""
        folders, files = {}, {}
        for parent, _, names in os.walk(box):
            folders[os.stat(parent).st_ino] = parent
            for name in names:
                files[os.stat(f"{parent}/{name}").st_ino] = f"{parent}/{name}"

        def content(inode):
            path = files.get(inode) if kept == "data" else None
            path = path or f"{shadow}/data.{inode}"
            if not os.path.exists(path):
                return b""
            with open(path, "rb") as file:
                return file.read()

        def restore(inode, target):
            os.mkdir(target)
            if kept == "names":
                entries = [("d" if entry.is_dir() else "f", entry.inode(), entry.name) for entry in os.scandir(folders[inode])]
            elif os.path.exists(f"{shadow}/list.{inode}"):
                with open(f"{shadow}/list.{inode}") as file:
                    entries = [line.rstrip("\n").split(" ", 2) for line in file]
            else:
                entries = []
            for kind, number, name in entries:
                if kind == "d":
                    restore(int(number), f"{target}/{name}")
                else:
                    with open(f"{target}/{name}", "wb") as file:
                        file.write(content(int(number)))
        restore(os.stat(box).st_ino, f"{box}.after")
        shutil.rmtree(box)
        os.rename(f"{box}.after", box)

    def limits(self, name, kind, values, codes, cause, user=None):
        """A limit of the process (ulimit) that is met at some moment. The message then names the cause, a pattern."""
        place = f"{self.folder}/limited"
        os.makedirs(place, exist_ok=True)
        if user:
            os.chmod(self.folder, 0o755)
            os.chown(place, user, user)

        def trial(_, value):
            def prepare():
                if user:
                    os.setgid(user)
                    os.setuid(user)
                resource.setrlimit(kind, (value, value))
            run = f"{place}/run"
            shutil.rmtree(run, ignore_errors=True)
            code = self.start(run, prepare=prepare).wait(600)
            self.codes[code] = self.codes.get(code, 0) + 1
            text = self.read()[1]
            # Without memory or descriptors for its libraries, the loader ends the program before main().
            if code not in codes and not (code == 127 and "shared libraries" in text):
                raise Lost(f"{value}: ended with {code}: {text.strip()[-300:]}")
            if code not in (0, 127) and not re.search(cause, text):
                raise Lost(f"{value}: the cause is not named: {text.strip()[-300:]}")
            self.check_checkpoints(run, self.announced())
            return run
        self.codes = {}
        self.repeat(name, [lambda run, value=value: trial(run, value) for value in values])
        self.print_codes()

    def print_codes(self):
        print("    exit codes: " + ", ".join(f"{code}: {n}" for code, n in sorted(self.codes.items())))

    def memory(self):
        """Address space that ends at some moment: of the start, of the model, of a step."""
        self.limits("limits of 40 to 1,000 MiB of address space", resource.RLIMIT_AS,
                    [limit << 20 for limit in range(40, 1000, 32)], (0, 4), "memory|address space|ulimit")

    def process_limits(self):
        self.limits("limits of 4 to 67 open files", resource.RLIMIT_NOFILE, range(4, 68, 3), (0, 3, 4),
                    "open files|file descriptors|ulimit -n")
        sizes = [1 << bits for bits in range(10, 20)]  # standard error is a file, too
        self.limits("limits of 1 to 512 KiB per file", resource.RLIMIT_FSIZE, sizes, (0, 3), "ulimit -f")
        nobody = 54321  # a user without processes; root has no limit on them
        if os.geteuid() == 0:
            self.limits("limits of 1 to 9 processes and threads", resource.RLIMIT_NPROC, range(1, 10), (0, 4), "ulimit -u", user=nobody)
        else:
            print("limits of processes and threads: left out, needs root")

    def group_memory(self, count):
        """A control group whose memory ends at some moment: the kernel kills the run."""
        groups = [entry.split(":", 2) for entry in open("/proc/self/cgroup").read().split()]
        old = [path for _, controllers, path in groups if controllers == "memory"]
        group = f"/sys/fs/cgroup/{'memory' if old else ''}/trainer-campaign-{os.getpid()}"
        limit_file, most_file = (("memory.limit_in_bytes", "memory.max_usage_in_bytes") if old else ("memory.max", "memory.peak"))
        try:
            os.mkdir(group)
            with open(f"{group}/{limit_file}", "w") as file:
                file.write(str(1 << 30))
        except OSError as error:
            if os.path.isdir(group):
                os.rmdir(group)
            print(f"out of memory by a control group: left out ({error})")
            return
        run = f"{self.folder}/run"

        def inside(limit):
            def enter():
                with open(f"{group}/{limit_file}", "w") as file:
                    file.write(str(limit))
                with open(f"{group}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
            process = subprocess.Popen(self.command(run), stdout=self.out, stderr=self.err, preexec_fn=enter)
            return process.wait(600)

        def trial(_, limit):
            self.out, self.err = open(f"{self.folder}/out", "w+"), open(f"{self.folder}/err", "w+")
            code = inside(limit)
            self.codes[code] = self.codes.get(code, 0) + 1
            if code not in (0, -signal.SIGKILL):
                self.check_message(code)
            self.check_checkpoints(run, self.announced())
        try:
            self.codes = {}
            trial(run, 1 << 30)
            with open(f"{group}/{most_file}") as file:
                peak = int(file.read())
            shutil.rmtree(run)
            self.codes = {}
            least = peak // 8
            self.repeat(f"out of memory by a control group of {least >> 20} to {peak >> 20} MiB",
                        [lambda run, limit=least + (peak - least) * i // count: trial(run, limit) for i in range(count)])
            self.print_codes()
        finally:
            os.rmdir(group)

    def deleted(self):
        def trial(run):
            process = self.start(run)
            while process.poll() is None and self.announced() < 6:
                time.sleep(0.002)
            process.send_signal(signal.SIGSTOP)
            is_early = process.poll() is None and self.announced() < self.whole["steps"] - 6
            shutil.rmtree(run)
            process.send_signal(signal.SIGCONT)
            code = process.wait(600)
            self.check_message(code)
            if code == 0 and is_early:
                raise Lost("it ended as if its checkpoints were there")
            if os.path.exists(run):
                raise Lost(f"the folder was made again: {os.listdir(run)}")
        self.repeat("run folder deleted in mid-run", [trial] * 5)

    def stops(self, seconds):
        def trial(run):
            process = self.start(run)
            time.sleep(self.draw.uniform(0, self.seconds))
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            if process.wait(600) != 0:
                raise Lost("it did not go on")
        self.repeat(f"SIGSTOP of {seconds} s", [trial] * 3)

    def clock(self):
        def trial(run):
            process = self.start(run, environment={"LD_PRELOAD": self.layer, "FAULT_CLOCK": "100000000"})
            if process.wait(600) != 0:
                raise Lost(f"it ended: {self.read()[1]}")
        self.repeat("clock of the day jumps by three years", [trial] * 3)

    def moved(self):
        def trial(run):
            process = self.start(run)
            while process.poll() is None and self.announced() < 6:
                time.sleep(0.002)
            other = f"{self.folder}/moved"
            shutil.rmtree(other, ignore_errors=True)
            os.rename(run, other)
            self.check_message(process.wait(600))
            if os.path.exists(run):
                raise Lost(f"the old place was made again: {os.listdir(run)}")
            return other
        self.repeat("run folder moved in mid-run", [trial] * 5)

    def on_small_disk(self, fault, name):
        disk = f"{self.folder}/disk"
        os.makedirs(disk, exist_ok=True)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk],
                                               capture_output=True).returncode != 0:
            print(f"{name}: left out, needs mounts")
            return
        lost = []
        try:
            for number in range(3):
                run = f"{disk}/run{number}"
                try:
                    fault(disk, run)
                    subprocess.run(["mount", "-o", "remount,rw,size=64m", disk], check=True)
                    self.check_end(run, self.finish(run))
                except Lost as error:
                    lost.append(f"{number}: {error}")
                shutil.rmtree(run, ignore_errors=True)
        finally:
            subprocess.run(["umount", disk], check=True)
        self.count(name, 3, lost)

    @staticmethod
    def shrink(disk):
        """Leaves 8 KiB, while the run writes."""
        for _ in range(100):
            state = os.statvfs(disk)
            used = (state.f_blocks - state.f_bfree) * state.f_frsize
            if subprocess.run(["mount", "-o", f"remount,size={used // 1024 + 8}k", disk],
                              capture_output=True).returncode == 0:
                return
        raise Lost("the disk could not be made smaller")

    def disk_full(self):
        def fault(disk, run):
            process = self.start(run)
            while process.poll() is None and self.announced() < 3:
                time.sleep(0.002)
            self.shrink(disk)
            with open(f"{disk}/filler", "wb") as filler:
                try:
                    filler.write(bytes(1 << 20))
                except OSError:
                    pass
            code = process.wait(600)
            self.check_message(code)
            if code != 0 and "No space left" not in self.read()[1]:
                raise Lost(f"the cause is not named: {self.read()[1]}")
            self.check_checkpoints(run, self.announced())
            os.remove(f"{disk}/filler")
        self.on_small_disk(fault, "disk full")

    def disk_sizes(self, count):
        """Disks that are full after a share of what a run needs, from nothing to all of it."""
        name, disk = f"disks of {count} sizes, too small to large enough", f"{self.folder}/disk"
        whole = f"{self.folder}/whole"
        self.finish(whole)
        needed = sum(os.path.getsize(os.path.join(p, n)) for p, _, names in os.walk(whole) for n in names)
        shutil.rmtree(whole)
        os.makedirs(disk, exist_ok=True)
        lost, self.codes = [], {}
        for number in range(count):
            kilobytes = max(4, number * 3 * needed // (2 * (count - 1) << 10))
            if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk],
                                                   capture_output=True).returncode != 0:
                print(f"{name}: left out, needs mounts")
                return
            run = f"{disk}/run"
            try:
                code = self.start(run).wait(600)
                self.codes[code] = self.codes.get(code, 0) + 1
                self.check_message(code)
                if code != 0 and "No space left" not in self.read()[1]:
                    raise Lost(f"the cause is not named: {self.read()[1]}")
                self.check_checkpoints(run, self.announced())
                subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                self.check_end(run, self.finish(run))
            except Lost as error:
                lost.append(f"{kilobytes} KiB: {error}")
            finally:
                subprocess.run(["umount", disk], check=True)
        self.count(name, count, lost)
        self.print_codes()

    def read_only(self):
        def fault(disk, run):
            process = self.start(run)
            while process.poll() is None and self.announced() < 3:
                time.sleep(0.002)
            # Files that are open for writing keep a file system writable: try until there is a moment without.
            for _ in range(2000):
                if subprocess.run(["mount", "-o", "remount,ro", disk], capture_output=True).returncode == 0:
                    break
            self.check_message(process.wait(600))
            self.check_checkpoints(run, self.announced())
        self.on_small_disk(fault, "run folder read-only in mid-run")

    # ---- Several processes ----------------------------------------------------------------------

    def job(self, run, tasks, port_of, more):
        cluster = {}
        for kind, index in tasks:
            if kind != "evaluator":
                cluster.setdefault(kind, []).append(f"127.0.0.1:{port_of[kind, index]}")
        processes = {}
        for kind, index in tasks:
            environment = dict(os.environ, TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
            name = f"{self.folder}/{kind}{index}"
            with open(f"{name}.out", "w") as out, open(f"{name}.err", "w") as err:
                processes[kind, index] = subprocess.Popen(self.command(run, *more), stdout=out, stderr=err, env=environment)
        return processes

    def cluster(self, name, tasks, count, more, whole, stop=0):
        """Kills one task after another of jobs that are resumed until they are done, or stops it for `stop` seconds."""
        run, lost, killed, jobs = f"{self.folder}/run", [], 0, 0
        shutil.rmtree(run, ignore_errors=True)
        first = f"{self.folder}/{tasks[0][0]}{tasks[0][1]}.out"
        rest = 0
        while killed < count or rest:
            sockets = {}
            for task in tasks:
                sockets[task] = socket.socket()
                sockets[task].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sockets[task].bind(("127.0.0.1", 0))
            processes = self.job(run, tasks, {task: held.getsockname()[1] for task, held in sockets.items()}, more)
            jobs += 1
            victim = self.draw.choice(tasks) if killed < count else None
            if victim:
                end = time.monotonic() + self.draw.uniform(0, 2.5 * self.seconds)
                while time.monotonic() < end and all(p.poll() is None for p in processes.values()):
                    time.sleep(0.002)
                if stop:
                    processes[victim].send_signal(signal.SIGSTOP)
                    time.sleep(stop)
                    processes[victim].send_signal(signal.SIGCONT)
                    killed += 1
                    rest = 1
                else:
                    processes[victim].kill()
            codes = {}
            for task, process in processes.items():
                try:
                    codes[task] = process.wait(120)
                except subprocess.TimeoutExpired:
                    process.kill()
                    lost.append(f"{task} still runs two minutes after {victim} was killed")
                    codes[task] = process.wait()
            if victim and not stop and codes[victim] == -signal.SIGKILL:
                killed += 1
                rest = 1
            for task, code in codes.items():
                with open(f"{self.folder}/{task[0]}{task[1]}.err") as file:
                    text = file.read()
                allowed = (0, 3, 4, 75) if task[0] == "evaluator" else (0, 4, 75)  # 3: no more checkpoints came
                if code not in allowed and task != victim or code != 0 and task != victim and not MESSAGE.search(text):
                    lost.append(f"{task} ended with {code} when {victim} was killed: {text.strip()[-200:]}")
            if codes[tasks[0]] == 0:
                with open(first) as file:
                    finished = [json.loads(line) for line in file if '"event":"finished"' in line][-1]
                try:
                    self.check_end(run, finished, whole)
                except Lost as error:
                    lost.append(str(error))
                shutil.rmtree(run)
                rest = 0
            elif not victim:
                lost.append(f"a job without faults ended with {codes}")
                break
        what = f"stopped for {stop} s" if stop else "killed"
        self.count(f"{name}: a random task {what} ({jobs} jobs)", killed, lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writes", type=int, default=0)
    parser.add_argument("--storage", type=int, default=4, help="calls at which each fault of a disk is tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    campaign = Campaign(arguments.program, arguments.seed)
    try:
        campaign.measure()
        single = arguments.kills * 4 // 10
        workers = [("worker", 0), ("worker", 1)]
        servers = [("chief", 0), ("ps", 0), ("ps", 1), ("evaluator", 0)]
        ordered = ["--set", "parallel.reduction=ordered"]
        shared = ["--batch-size", "16", "--set", "parallel.lr_scaling=none", *ordered]
        timeout = ["--set", "parallel.timeout=20 seconds"]
        quick = ["--set", "evaluate.start_delay_secs=0", "--set", "evaluate.throttle_secs=0", "--set", "evaluate.timeout_secs=10"]

        def in_order():
            shutil.rmtree(f"{campaign.folder}/ordered", ignore_errors=True)
            return campaign.finish(f"{campaign.folder}/ordered", *ordered)

        faults = {
            "kills": lambda: campaign.kills(single),
            "caches": lambda: campaign.caches(arguments.kills // 5),
            "workers": lambda: campaign.cluster("two workers", workers, arguments.kills // 5, shared + timeout, in_order()),
            "servers": lambda: campaign.cluster("chief, two servers, evaluator", servers, arguments.kills // 5,
                                                ["--set", "parallel.strategy=parameter_server"] + timeout + quick, campaign.whole),
            "writes": lambda: campaign.writes(arguments.writes),
            "power": lambda: campaign.power(arguments.writes),
            "memory": campaign.memory,
            "limits": campaign.process_limits,
            "storage": lambda: campaign.storage(arguments.storage),
            "group-memory": lambda: campaign.group_memory(40),
            "stops": lambda: campaign.stops(30),
            "stopped-workers": lambda: campaign.cluster("two workers", workers, 3, shared + timeout, in_order(), stop=30),
            "clock": campaign.clock,
            "moved": campaign.moved,
            "deleted": campaign.deleted,
            "full": campaign.disk_full,
            "sizes": lambda: campaign.disk_sizes(33),
            "read-only": campaign.read_only,
        }
        for name, fault in faults.items():
            if not arguments.only or name in arguments.only:
                fault()
        width = max(len(name) for name, _, _ in campaign.table)
        print(f"\n{'fault':{width}}  {'runs':>5}  {'lost':>5}")
        for name, runs, lost in campaign.table:
            print(f"{name:{width}}  {runs:5}  {lost:5}")
        return 1 if any(lost for _, _, lost in campaign.table) else 0
    finally:
        shutil.rmtree(campaign.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
