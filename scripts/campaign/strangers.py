#!/usr/bin/env python3
"""Two hosts train a model while a third attacks them: three network namespaces on one bridge.

    sudo scripts/campaign/strangers.py build/release/apps/trainer/trainer [--minutes 1 | --steps N]

From before the job starts until it ends the third host scans ports, sends garbage, opens connections and says nothing or a
byte a second, repeats what a true rank has sent (it hears the cable), and starts ranks without the secret and with a wrong
one. The job must end with the bits of one that nobody disturbed, and none of those ranks may join. Prints what was tried and how
often; ends with 1 when anything of this does not hold.
"""
import argparse
import ctypes
import json
import os
import random
import re
import selectors
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from faults import CONFIG

ADDRESSES = {"a": "10.88.0.1", "b": "10.88.0.2", "x": "10.88.0.3"}
PORT = 29500


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True)


class Net:
    def __init__(self):
        self.names = {name: f"campaign-{os.getpid()}-{name}" for name in ("hub", *ADDRESSES)}
        for name in self.names.values():
            ip("netns", "add", name)
        hub = self.names["hub"]
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for host, address in ADDRESSES.items():
            ip("link", "add", "eth0", "netns", self.names[host], "type", "veth", "peer", "name", f"to-{host}", "netns", hub)
            ip("-n", hub, "link", "set", f"to-{host}", "master", "br0", "up")
            ip("-n", self.names[host], "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", self.names[host], "link", "set", "eth0", "up")
            ip("-n", self.names[host], "link", "set", "lo", "up")

    def inside(self, host, *command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def close(self):
        for name in self.names.values():
            ip("netns", "delete", name, check=False)

    def enter(self, host):
        """The calling thread alone."""
        with open(f"/run/netns/{self.names[host]}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")


class Attack:
    def __init__(self, net, command, folder):
        self.net, self.command, self.folder = net, command, folder
        self.over = threading.Event()
        self.counts, self.heard, self.joined = {}, b"", []
        self.threads = [threading.Thread(target=self.inside, args=(host, work), daemon=True) for host, work in
                        (("x", self.scan), ("x", self.garbage), ("x", self.slow), ("hub", self.listen), ("x", self.replay),
                         ("x", self.impostors))]
        for thread in self.threads:
            thread.start()

    def inside(self, host, work):
        self.net.enter(host)
        work()

    def count(self, what, more=1):
        self.counts[what] = self.counts.get(what, 0) + more

    def connect(self, port=PORT, host="a"):
        try:
            return socket.create_connection((ADDRESSES[host], port), timeout=2)
        except OSError:
            time.sleep(0.01)
            return None

    def scan(self):
        """Connects to every port that a kernel hands out, on both hosts, and says something where one is open."""
        draw = random.Random(1)
        while not self.over.is_set():
            for host in ("a", "b"):
                ports = list(range(32768, 61000))
                draw.shuffle(ports)
                selector, waiting = selectors.DefaultSelector(), 0
                while (ports or waiting) and not self.over.is_set():
                    while ports and waiting < 200:
                        one = socket.socket()
                        one.setblocking(False)
                        one.connect_ex((ADDRESSES[host], ports.pop()))
                        selector.register(one, selectors.EVENT_WRITE)
                        waiting += 1
                    for key, _ in selector.select(1):
                        one = key.fileobj
                        selector.unregister(one)
                        waiting -= 1
                        self.count("ports tried")
                        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                            self.count("open ports found")
                            try:
                                one.send(draw.randbytes(200))
                            except OSError:
                                pass
                        one.close()
                selector.close()

    def garbage(self):
        draw = random.Random(2)
        while not self.over.is_set():
            one = self.connect()
            if not one:
                continue
            self.count("garbage sent to rank 0")
            try:
                one.sendall(draw.choice([b"GET / HTTP/1.1\r\n\r\n", draw.randbytes(draw.randrange(1, 3000)),
                                         struct.pack("<I", draw.randrange(1 << 32)) + draw.randbytes(100), b"\x16\x03\x01" + bytes(200)]))
                if draw.random() < 0.5:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
            except OSError:
                pass
            one.close()
            time.sleep(0.002)

    def slow(self):
        held = []
        while not self.over.is_set():
            while len(held) < 300 and not self.over.is_set():
                one = self.connect()
                if one:
                    held.append(one)
                    self.count("connections that say a byte a second")
            kept = []
            for one in held:
                try:
                    one.send(b"\1")
                    kept.append(one)
                except OSError:
                    one.close()
            held = kept
            self.over.wait(1)

    def listen(self):
        """What the true rank 1 sends to rank 0: the payloads of its packets, in order."""
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        raw.bind(("to-b", 0))
        raw.settimeout(0.5)
        while not self.over.is_set():
            try:
                packet = raw.recv(65536)
            except TimeoutError:
                continue
            if packet[12:14] != b"\x08\x00" or packet[23] != 6 or len(self.heard) > 1 << 16:
                continue
            start = 14 + (packet[14] & 15) * 4
            source, target = packet[26:30], struct.unpack(">H", packet[start + 2:start + 4])[0]
            end = 14 + struct.unpack(">H", packet[16:18])[0]
            if source == socket.inet_aton(ADDRESSES["b"]) and target == PORT:
                self.heard += packet[start + (packet[start + 12] >> 4) * 4:end]

    def replay(self):
        while not self.over.is_set():
            if len(self.heard) < 100:
                time.sleep(0.02)
                continue
            one = self.connect()
            if not one:
                continue
            self.count("sessions of a true rank repeated")
            try:
                one.sendall(self.heard[:1 << 16])
                one.settimeout(1)
                while one.recv(4096):
                    pass
            except OSError:
                pass
            one.close()
            time.sleep(0.05)

    def impostors(self):
        secrets = [{}, {"TRAINER_SECRET": "another secret of 32 characters!"}]
        number = 0
        while not self.over.is_set():
            environment = dict(os.environ, RANK="1", WORLD_SIZE="2", MASTER_ADDR=ADDRESSES["a"], MASTER_PORT=str(PORT))
            environment.pop("TRAINER_SECRET", None)
            environment.update(secrets[number % 2])
            one = subprocess.Popen(self.net.inside("x", *self.command, "--run-dir", f"{self.folder}/impostor"), env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while one.poll() is None and not self.over.is_set():
                time.sleep(0.05)
            one.kill()
            text = one.stderr.read()
            code = one.wait()
            if code == 0:
                self.joined.append(text)
            elif code > 0:
                self.count("ranks without the secret refused" if "same secret" in text else "ranks without the secret otherwise ended")
            number += 1
            self.over.wait(1)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def job(net, command, secret):
    processes = []
    for rank, host in enumerate("ab"):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=ADDRESSES["a"], MASTER_PORT=str(PORT),
                           TRAINER_SECRET=secret)
        processes.append(subprocess.Popen(net.inside(host, *command), env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        time.sleep(0.5)  # rank 1 comes into the middle of it
    peaks = [0, 0]

    def watch():
        while any(process.poll() is None for process in processes):
            for i, process in enumerate(processes):
                try:
                    with open(f"/proc/{process.pid}/status") as file:
                        peaks[i] = int(re.search(r"VmHWM:\s*(\d+)", file.read()).group(1))
                except (OSError, AttributeError):
                    pass
            time.sleep(0.1)
    watcher = threading.Thread(target=watch)
    watcher.start()
    outputs = [None, None]

    def read(i):
        outputs[i] = processes[i].communicate()
    readers = [threading.Thread(target=read, args=(i,)) for i in (0, 1)]
    for reader in readers:
        reader.start()
    for reader in readers + [watcher]:
        reader.join()
    codes = [process.returncode for process in processes]
    text = "".join(err for _, err in outputs)
    if codes != [0, 0]:
        raise SystemExit(f"the job ended with {codes}:\n{text}")
    finished = [json.loads(line) for line in outputs[0][0].splitlines() if '"event":"finished"' in line][-1]
    return finished, peaks, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--steps", type=int, help="of the job; chosen for the minutes when left out")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="strangers.")
    net, secret = Net(), random.SystemRandom().randbytes(16).hex()
    try:
        config = f"{folder}/config.yaml"
        with open(config, "w") as file:
            file.write(CONFIG % f"{folder}/digits")
        base = [os.path.abspath(arguments.program), "train", config, "--json", "--batch-size", "16", "--set", "parallel.lr_scaling=none",
                "--set", "parallel.reduction=ordered", "--set", "parallel.timeout=60 seconds", "--set", "run.checkpoint_every=1 epochs",
                "--set", "run.evaluate_every=1000 steps"]
        steps = arguments.steps
        if not steps:
            trial, _, _ = job(net, [*base, "--set", "train.max_steps=300", "--run-dir", f"{folder}/trial"], secret)
            steps = max(300, int(300 * 60 * arguments.minutes / trial["wall_seconds"]))
            print(f"300 steps in {trial['wall_seconds']:.1f} s; {steps} steps for {arguments.minutes:g} minutes", flush=True)
        command = [*base, "--set", f"train.max_steps={steps}"]
        quiet, quiet_peaks, _ = job(net, [*command, "--run-dir", f"{folder}/quiet"], secret)
        print(f"undisturbed: {quiet['parameters_sha256'][:16]} in {quiet['wall_seconds']:.0f} s, {quiet_peaks} KiB at most", flush=True)
        attack = Attack(net, command, folder)
        time.sleep(1)
        loud, loud_peaks, text = job(net, [*command, "--run-dir", f"{folder}/loud"], secret)
        attack.stop()
        print(f"attacked:    {loud['parameters_sha256'][:16]} in {loud['wall_seconds']:.0f} s, {loud_peaks} KiB at most")
        for what, count in sorted(attack.counts.items()):
            print(f"  {count:9} {what}")
        print("  rank 0 says: " + " | ".join(line for line in text.splitlines() if "refused" in line))
        same = all(loud[key] == quiet[key] for key in ("steps", "parameters_sha256", "metrics"))
        print("the same bits" if same else "OTHER BITS", "- nobody joined" if not attack.joined else "- A STRANGER JOINED")
        return 0 if same and not attack.joined else 1
    finally:
        net.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
