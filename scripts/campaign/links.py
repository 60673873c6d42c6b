#!/usr/bin/env python3
"""Faults of single links between the ranks of a job, and which ranks the messages name.

    sudo scripts/campaign/links.py build/release/apps/trainer/trainer [--cases 40] [--seed 1] [--case N] [--parallel 4]

Each rank runs in a network namespace of its own. Their network is a switch in this process: it reads the frames of a
TAP device per rank and forwards them by rules for each ordered pair of ranks, with a delay, a rate or not at all. (The
kernel's netem is not needed.) The faults, which begin at a random step:

  stall     a pair of ranks loses all frames
  one way   only those of one direction
  cut       connections between the pair are reset
  start     the pair loses all frames from before the job starts
  isolate   one rank loses all frames
  slow      a pair has 40 to 200 kB/s
  far       frames of a pair take 20 to 100 ms
  pause     a pair loses all frames for less than the time-out

After the first five every rank must end with exit code 4 in time and name both ends of the link and no other rank, or
the isolated rank, and the key parallel.timeout if data was lost. With the last three the job must end with the
parameters of one process. Prints a table and the seed; ends with 1 when a case failed. Needs root.
"""
import argparse
import concurrent.futures
import fcntl
import heapq
import json
import os
import random
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

CONFIG = """name: links
seed: 5
model: {layers: [flatten, {dense: {units: 64, activation: relu}}, {dense: 10}]}
data: {format: digits, path: %s, limit: 240}
optimizer: {sgd: {learning_rate: 0.05, momentum: 0.9}}
train: {max_steps: 30, batch_size: 4}
run: {checkpoint_every: 1000 epochs, evaluate_every: 1000 epochs, log_every: 1 steps, tensorboard: false}
parallel: {threads: 1, lr_scaling: none, timeout: 4 seconds}
"""
ENDLESS = ["--set", "train.max_steps=1000000"]
STEPS = 30
STEP_BYTES = 210_000  # of each direction of a link, mostly the gradient
TIMEOUT = 4
# A job ends within its time-out after the fault; the rest is for four busy jobs on one core.
LONGEST = 4 * TIMEOUT + 10
BATCH = 12
PORT = 29600
KINDS = ["stall"] * 4 + ["one way", "cut"] * 3 + ["start", "isolate", "slow", "far", "pause"] * 2
NAMED = re.compile(r"rank (\d+)")
ETHERNET, TCP, RESET = 14, 6, 0x14  # bytes, protocol, flags RST and ACK


class Lost(Exception):
    """A case whose job did not behave as expected."""


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True)


class Rule:
    """What happens to the frames of an ordered pair of ranks."""

    def __init__(self, delay=0.0005, rate=None, state="forward"):
        self.delay, self.rate, self.state = delay, rate, state
        self.free = 0.0  # when the link has sent the frames before


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def reset_frame(frame, to_sender):
    """The frame that resets the connection of a TCP frame at its sender or receiver; None for another frame."""
    if len(frame) < ETHERNET + 40 or frame[12:14] != b"\x08\x00" or frame[ETHERNET + 9] != TCP:
        return None
    header = ETHERNET + 4 * (frame[ETHERNET] & 15)
    source, target = frame[ETHERNET + 12:ETHERNET + 16], frame[ETHERNET + 16:ETHERNET + 20]
    from_port, to_port, sequence, acknowledged = struct.unpack_from(">HHII", frame, header)
    ethernet = frame[:ETHERNET]
    if to_sender:
        source, target, from_port, to_port = target, source, to_port, from_port
        sequence, acknowledged = acknowledged, sequence
        ethernet = frame[6:12] + frame[:6] + frame[12:14]
    tcp = struct.pack(">HHIIBBHHH", from_port, to_port, sequence, acknowledged, 5 << 4, RESET, 0, 0, 0)
    pseudo = source + target + struct.pack(">BBH", 0, TCP, len(tcp))
    tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp)) + tcp[18:]
    internet = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, TCP, 0, source, target)
    internet = internet[:10] + struct.pack(">H", checksum(internet)) + internet[12:]
    return ethernet + internet + tcp


class Switch(threading.Thread):
    """Namespaces with an address per rank, and the switch between them."""

    def __init__(self, number, ranks):
        super().__init__(daemon=True)
        self.ranks = ranks
        self.rules = {(a, b): Rule() for a in range(ranks) for b in range(ranks) if a != b}
        self.names = [f"link-{os.getpid()}-{number}-{rank}" for rank in range(ranks)]
        self.queue, self.count = [], 0
        self.over = threading.Event()
        self.taps = []
        for rank, name in enumerate(self.names):
            ip("netns", "add", name)
            device = f"l{os.getpid() % 100000}c{number}r{rank}"[:15]
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            # TUNSETIFF with IFF_TAP and IFF_NO_PI: whole frames, and nothing before them.
            fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22s", device.encode(), 0x1002, b""))
            self.taps.append(tap)
            ip("link", "set", device, "netns", name)
            ip("-n", name, "link", "set", device, "address", f"02:00:00:00:00:{rank + 1:02x}", "up")
            ip("-n", name, "address", "add", f"10.77.0.{rank + 1}/24", "dev", device)
            ip("-n", name, "link", "set", "lo", "up")
        self.start()

    def run(self):
        while not self.over.is_set():
            wait = max(self.queue[0][0] - time.monotonic(), 0) if self.queue else 0.05
            ready, _, _ = select.select(self.taps, [], [], min(wait, 0.05))
            for tap in ready:
                self.read(self.taps.index(tap))
            now = time.monotonic()
            while self.queue and self.queue[0][0] <= now:
                _, _, target, frame = heapq.heappop(self.queue)
                self.write(target, frame)

    def read(self, rank):
        for _ in range(64):
            try:
                frame = os.read(self.taps[rank], 65536)
            except BlockingIOError:
                return
            last = frame[5] - 1
            targets = [last] if frame[0] == 2 and 0 <= last < self.ranks else range(self.ranks)
            for target in targets:
                if target != rank:
                    self.forward(rank, target, frame)

    def forward(self, rank, target, frame):
        rule = self.rules[rank, target]
        if rule.state == "cut":
            for end, to_sender in ((rank, True), (target, False)):
                reset = reset_frame(frame, to_sender)
                if reset:
                    self.write(end, reset)
            return
        now = time.monotonic()
        if rule.state == "lose" or rule.free > now + 1:  # a second of frames is all that a slow link holds
            return
        rule.free = max(rule.free, now) + (len(frame) / rule.rate if rule.rate else 0)
        self.count += 1
        heapq.heappush(self.queue, (rule.free + rule.delay, self.count, target, frame))

    def write(self, target, frame):
        try:
            os.write(self.taps[target], frame)
        except OSError:
            pass  # the device's queue is full: a lost frame

    def change(self, a, b, **values):
        """Changes the rule of both directions."""
        for pair in ((a, b), (b, a)):
            self.rules[pair].__dict__.update(values)

    def close(self):
        self.over.set()
        self.join()
        for tap in self.taps:
            os.close(tap)
        for name in self.names:
            ip("netns", "delete", name, check=False)


class Case:
    def __init__(self, campaign, number):
        self.campaign, self.number = campaign, number
        draw = self.draw = random.Random(f"links/{campaign.options.seed}/{number}")
        self.kind = draw.choice(KINDS)
        self.ranks = draw.choice([3, 3, 4])
        self.collective = "ring" if self.ranks == 4 else draw.choice(["ring", "auto"])
        # Neighbours in a ring exchange data in sums of any size.
        first = draw.randrange(self.ranks)
        self.pair = tuple(draw.sample([first, (first + 1) % self.ranks], 2))
        if self.kind == "start":
            self.pair = (1, 2)
        self.step = draw.randint(2, 25)
        self.folder = f"{campaign.folder}/{number}"
        self.rate = None  # of a slow link, bytes per second

    def transfer_seconds(self):
        """What a slow link needs for all sums of the job, twice over."""
        return 2 * STEPS * STEP_BYTES / self.rate if self.rate else 0

    def __str__(self):
        pair = f"rank {self.pair[0]}" if self.kind == "isolate" else f"ranks {self.pair[0]} and {self.pair[1]}"
        return f"case {self.number}: {self.kind}, {pair} of {self.ranks}, {self.collective}, from step {self.step}"

    def run(self):
        os.mkdir(self.folder)
        is_fatal = self.kind not in ("slow", "far", "pause")
        switch = Switch(self.number, self.ranks)
        processes = []
        try:
            if self.kind == "start":
                switch.change(*self.pair, state="lose")
            options = [*ENDLESS, "--set", f"parallel.collective={self.collective}"] if is_fatal else \
                ["--set", "parallel.reduction=ordered"]
            processes = self.start(switch, options)
            reached = self.wait_for_step(processes[0], self.step) if self.kind != "start" else True
            if not reached:
                raise Lost(f"the job ended before the fault: {self.messages()}")
            self.break_link(switch)
            begin = time.monotonic()
            codes = self.wait(processes, LONGEST if is_fatal else 120 + self.transfer_seconds())
            self.seconds = time.monotonic() - begin
            self.check_end(codes) if is_fatal else self.check_success(codes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
            switch.close()

    def start(self, switch, options):
        processes = []
        environment = dict(os.environ, TRAINER_SECRET="secret of the link faults")
        for rank in range(self.ranks):
            command = ["ip", "netns", "exec", switch.names[rank], self.campaign.trainer, "train", self.campaign.config,
                       "--json", "--run-dir", f"{self.folder}/run", "--batch-size", str(BATCH // self.ranks),
                       "--rank", str(rank), "--world-size", str(self.ranks), "--master", f"10.77.0.1:{PORT}", *options]
            with open(f"{self.folder}/rank{rank}.out", "w") as out, open(f"{self.folder}/rank{rank}.err", "w") as err:
                processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=environment))
        return processes

    def events(self):
        with open(f"{self.folder}/rank0.out") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def wait_for_step(self, process, step):
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if any(event["event"] == "step" and event["step"] >= step for event in self.events()):
                return True
            time.sleep(0.02)
        return any(event["event"] == "step" and event["step"] >= step for event in self.events())

    def break_link(self, switch):
        a, b = self.pair
        if self.kind == "stall":
            switch.change(a, b, state="lose")
        elif self.kind == "one way":
            switch.rules[a, b].state = "lose"
        elif self.kind == "cut":
            switch.change(a, b, state="cut")
        elif self.kind == "isolate":
            for other in range(self.ranks):
                if other != a:
                    switch.change(a, other, state="lose")
        elif self.kind == "slow":
            self.rate = self.draw.uniform(40e3, 200e3)
            switch.change(a, b, rate=self.rate)
        elif self.kind == "far":
            switch.change(a, b, delay=self.draw.uniform(0.02, 0.1))
        elif self.kind == "pause":
            switch.change(a, b, state="lose")
            time.sleep(self.draw.uniform(0.2, 0.4 * TIMEOUT))
            switch.change(a, b, state="forward")

    def wait(self, processes, seconds):
        end = time.monotonic() + seconds
        codes = []
        for rank, process in enumerate(processes):
            try:
                codes.append(process.wait(max(end - time.monotonic(), 0.1)))
            except subprocess.TimeoutExpired:
                raise Lost(f"rank {rank} still runs after {seconds} s: {self.messages()}") from None
        return codes

    def text(self, rank):
        with open(f"{self.folder}/rank{rank}.err") as file:
            return file.read().strip()

    def messages(self):
        return "".join(f"\n      rank {rank}: {self.text(rank)[-400:]}" for rank in range(self.ranks))

    def check_end(self, codes):
        if any(code != 4 for code in codes):
            raise Lost(f"exit codes {codes}, expected 4: {self.messages()}")
        for rank in range(self.ranks):
            last = (self.text(rank).splitlines() or [""])[-1]
            # The rank that noticed it is not an end of the link.
            named = {int(number) for number in NAMED.findall(last.partition("; noticed by")[0])}
            if self.kind == "isolate":
                if self.pair[0] not in named:
                    raise Lost(f"rank {rank} names {sorted(named)}, not the isolated rank: {self.messages()}")
            elif named != set(self.pair):
                raise Lost(f"rank {rank} names {sorted(named)}, expected {sorted(self.pair)}: {self.messages()}")
            if self.kind != "cut" and "parallel.timeout" not in last:
                raise Lost(f"rank {rank} does not name parallel.timeout: {self.messages()}")

    def check_success(self, codes):
        if any(codes):
            raise Lost(f"exit codes {codes}, expected 0: {self.messages()}")
        sha256 = next(event for event in self.events() if event["event"] == "finished")["parameters_sha256"]
        if sha256 != self.campaign.expected:
            raise Lost(f"other parameters than one process: {sha256}, expected {self.campaign.expected}")


class Campaign:
    def __init__(self, options):
        self.options = options
        self.trainer = os.path.abspath(options.program)
        self.folder = tempfile.mkdtemp(prefix="links.")
        self.config = f"{self.folder}/config.yaml"
        with open(self.config, "w") as file:
            file.write(CONFIG % f"{self.folder}/digits")

    def measure(self):
        command = [self.trainer, "train", self.config, "--json", "--batch-size", str(BATCH), "--run-dir",
                   f"{self.folder}/one", "--set", "parallel.reduction=ordered"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.expected = json.loads(done.stdout.splitlines()[-1])["parameters_sha256"]

    def run(self):
        self.measure()
        table, failed = {}, 0
        numbers = range(self.options.cases) if self.options.case is None else [self.options.case]
        cases = [Case(self, number) for number in numbers]
        with concurrent.futures.ThreadPoolExecutor(self.options.parallel) as pool:
            for case, result in [(case, pool.submit(case.run)) for case in cases]:
                counts = table.setdefault(case.kind, [0, 0, 0.0])
                counts[0] += 1
                try:
                    result.result()
                    counts[2] = max(counts[2], case.seconds)
                    print(f"{case}: as expected after {case.seconds:.1f} s", flush=True)
                except (Lost, OSError, subprocess.SubprocessError) as error:
                    counts[1] += 1
                    failed += 1
                    print(f"{case}: {error}\n    repeat: {sys.argv[0]} {self.options.program} "
                          f"--seed {self.options.seed} --case {case.number}", flush=True)
        print(f"\nseed {self.options.seed}: {len(cases)} link faults, {failed} failed")
        print(f"{'fault':8}  {'tried':>5}  {'failed':>6}  {'longest, s':>10}")
        for kind, (tried, lost, seconds) in table.items():
            print(f"{kind:8}  {tried:5}  {lost:6}  {seconds:10.1f}")
        return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this case of the seed only")
    parser.add_argument("--parallel", type=int, default=4, help="jobs at a time")
    campaign = Campaign(parser.parse_args())
    try:
        return campaign.run()
    finally:
        shutil.rmtree(campaign.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
