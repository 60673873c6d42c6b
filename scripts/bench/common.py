"""Starting and measuring trainer and its peers."""

import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONFIG = HERE / "cnn.yaml"

# Page faults cost PyTorch up to half its speed; which setting helps depends on the shapes.
MALLOC = {
    "default": {},
    "no-mmap": {
        "MALLOC_MMAP_THRESHOLD_": "4294967296",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TOP_PAD_": "536870912",
    },
    "huge-pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}
# Spinning OpenMP threads are fastest on a machine of one's own and ruinous on a shared one.
WAIT = {"default": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}


def find_trainer(given=None):
    path = pathlib.Path(given or os.environ.get("TRAINER", ROOT / "build/release/apps/trainer/trainer"))
    if not path.is_file():
        sys.exit(f"{path} is not there: build it (cmake --preset release && cmake --build --preset release) or set TRAINER")
    return path.resolve()


def events(text):
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


class Peer:
    """One warm process of a peer at one setting: the script peers/<script>_<what>.py with `options` as flags; flags that are None or
    False are left out."""

    def __init__(self, script, malloc="default", wait="default", what="cnn", **options):
        self.name = " ".join([script, *(f"{key}={value}" for key, value in options.items()), f"malloc={malloc}", f"wait={wait}"])
        command = [sys.executable, HERE / "peers" / f"{script}_{what}.py"]
        for key, value in options.items():
            if value is True:
                command.append(f"--{key.replace('_', '-')}")
            elif value is not False and value is not None:
                command += [f"--{key.replace('_', '-')}", str(value)]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, **MALLOC[malloc], **WAIT[wait]},
        )

    def wait_for(self, event):
        for line in self.process.stdout:
            if line.startswith("{"):
                message = json.loads(line)
                if message["event"] == event:
                    return message
        self.errors.seek(0)
        raise RuntimeError(f"{self.name} ended early:\n{self.errors.read()[-2000:]}")

    def ask(self, seconds):
        """All that the peer says of so many seconds."""
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.wait_for("measured")

    def measure(self, seconds):
        return self.ask(seconds)["images_per_second"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def fastest(peers, seconds):
    """The fastest of some peers, measured one after the other, warm; the others are closed. None when none can be measured."""
    best, best_speed = None, 0.0
    for peer in peers:
        try:
            peer.wait_for("ready")
            speed = peer.measure(seconds)
        except (RuntimeError, BrokenPipeError) as error:
            print(error, file=sys.stderr)
            speed = 0.0
        print(f"    probe {speed:9.1f} images/s  {peer.name}", flush=True)
        loser = peer
        if speed > best_speed:
            loser, best, best_speed = best, peer, speed
        if loser:
            loser.close()
    return best


def settings_of(text):
    """`a.b=c` strings as --set arguments."""
    return [word for setting in text for word in ("--set", setting)]


def run_trainer(trainer, *arguments):
    done = subprocess.run([trainer, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"trainer {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr}")
    return list(events(done.stdout))


def trainer_speed(trainer, config, *arguments, batch, precision):
    """Images per second in training, as `trainer benchmark` measures them."""
    settings = settings_of([f"train.batch_size={batch}", f"train.precision={precision}"])
    for event in run_trainer(trainer, "benchmark", config, *arguments, *settings):
        if event["event"] == "benchmark":
            return event["images_per_second"]
    sys.exit("trainer benchmark printed no benchmark event")


def summary(values):
    middle = statistics.median(values)
    return f"{middle:8.0f} images/s  (lowest {min(values):.0f}, highest {max(values):.0f}, {len(values)} rounds)"


def free_port():
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_ranks(ranks, command, more=None):
    """{bytes: seconds} from ranks that find each other by torchrun's variables."""
    port = str(free_port())
    processes = []
    for rank in range(ranks):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                       "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **(more or {})}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [process.communicate() for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"{command[0]} failed:\n{outputs[0][1][-2000:]}")
    return {line["bytes"]: line["seconds"] for line in events(outputs[0][0])}
