"""A job of two processes with a fake GPU each, one of which is killed in mid-step: the other reports who, where and when,
also with TRAINER_CUDA_SYNC=1, where it waits for the device after each op.

    killed_worker_test.py TRAINER PLUGIN

The fake NCCL joins the processes through a folder (test/cuda/fake_runtime/nccl/mailbox.h). A job that nobody kills
must end with the bits of one process with two GPUs, which shows that the processes really sum.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 5  # seconds, parallel.timeout
CONFIG = """
model: {{layers: [conv: {{filters: 4, activation: relu}}, {norm}max_pool, flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [8, 8, 1], classes: 3, train_samples: 96, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
train: {{max_steps: {steps}, batch_size: 8}}
parallel: {{device: cuda, gpus: {gpus}, lr_scaling: none, {sums}, timeout: {timeout} seconds}}
run: {{dir: {run}, log_every: 1 steps, checkpoint_every: 1000000 steps, evaluate_every: 1000000 steps}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_config(folder, name, gpus, steps, sums_in_ops=False):
    """With sums_in_ops, batch norm sums over the ranks."""
    path = os.path.join(folder, f"{name}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(gpus=gpus, steps=steps, timeout=TIMEOUT, run=os.path.join(folder, name),
                                 norm="batch_norm, " if sums_in_ops else "",
                                 sums="batch_norm: {sync: true}" if sums_in_ops else "reduction: ordered"))
    return path


class Worker:
    def __init__(self, config, rank, port, mailbox, variables):
        environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2",
                           TRAINER_FAKE_NCCL_FOLDER=mailbox, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                           LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **variables)
        environment.pop("TF_CONFIG", None)
        self.process = subprocess.Popen([TRAINER, "train", config, "--json"], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self.errors = [], []
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=(stream, to)) for stream, to in
                        ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append(line)
                self.changed.notify_all()

    def wait_for(self, text, times):
        """Until so many lines have the text."""
        with self.changed:
            return self.changed.wait_for(lambda: sum(text in line for line in self.lines) >= times, timeout=120)

    def end(self, seconds=120):
        """The exit code; all output has been read then."""
        code = self.process.wait(timeout=seconds)
        for reader in self.readers:
            reader.join()
        return code

    def text(self):
        return "".join(self.lines[-5:]) + "".join(self.errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.end()


def start(config, folder, **variables):
    mailbox = tempfile.mkdtemp(dir=folder)
    port = free_port()
    return Worker(config, 0, port, mailbox, variables), Worker(config, 1, port, mailbox, variables)


def finished(lines):
    return next(event for event in map(json.loads, lines) if event["event"] == "finished")


def two_processes_end_as_one(folder):
    one = write_config(folder, "one", gpus=2, steps=6)
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2")
    done = subprocess.run([TRAINER, "train", one, "--json"], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    expected = finished(done.stdout.splitlines())["parameters_sha256"]
    chief, other = start(write_config(folder, "two", gpus=1, steps=6), folder)
    with chief, other:
        codes = [chief.end(), other.end()]
        assert codes == [0, 0], f"{codes}\n{chief.text()}\n{other.text()}"
        found = finished(chief.lines)["parameters_sha256"]
    assert found == expected, f"two processes: {found}, one process with both GPUs: {expected}"


def processes_agree_on_engines(folder):
    """Of two processes with caches of their own that find different engines fastest, both keep those of one. The
    choices for matrix products are not compared, because their keys hold the names of the GPUs, which differ in the
    fake."""
    config = write_config(folder, "tuned", gpus=1, steps=2)
    with open(config, encoding="utf-8") as file:
        text = file.read().replace("lr_scaling", "autotune: true, lr_scaling")
    with open(config, "w", encoding="utf-8") as file:
        file.write(text)
    caches = [os.path.join(folder, f"cache{rank}") for rank in range(2)]
    mailbox, port = tempfile.mkdtemp(dir=folder), free_port()
    workers = [Worker(config, rank, port, mailbox, {"TRAINER_CUDA_PLAN_CACHE": caches[rank], "TRAINER_FAKE_CUDNN_FASTEST": engine})
               for rank, engine in enumerate(("28", "0"))]
    with workers[0], workers[1]:
        codes = [worker.end() for worker in workers]
        assert codes == [0, 0], f"{codes}\n{workers[0].text()}\n{workers[1].text()}"
    plans = []
    for cache in caches:
        plans.append({})
        for entry in os.scandir(cache):
            with open(entry.path, "rb") as file:
                plan = file.read()
            if b"; cuDNN " in plan:
                plans[-1][entry.name] = plan
    assert plans[0] and plans[0] == plans[1], f"{len(plans[0])} and {len(plans[1])} choices differ"


def survivor_names_the_killed(folder):
    host = re.escape(socket.gethostname())
    for killed, wait_per_op in ((1, "0"), (0, "0"), (1, "1")):
        config = write_config(folder, f"killed{killed}{wait_per_op}", gpus=1, steps=1000000, sums_in_ops=wait_per_op == "1")
        workers = start(config, folder, TRAINER_CUDA_SYNC=wait_per_op)
        with workers[0], workers[1]:
            assert workers[0].wait_for('"event":"step"', 5), workers[0].text()
            workers[killed].process.send_signal(signal.SIGKILL)
            survivor = workers[1 - killed]
            code = survivor.end(20 * TIMEOUT)
            printed = "".join(survivor.errors)
            assert workers[killed].end() == -signal.SIGKILL
        assert code == 4, f"rank {1 - killed} ended with {code}:\n{printed}"
        # Itself, the step, and the one that is gone with its host. Who notices first decides the message: NCCL's
        # watcher, which begins with its own GPU, or a collective between the processes.
        gone = rf"rank {killed} \(on {host}, process \d+\) was killed"
        watcher = rf"rank {1 - killed} \({host}, GPU {1 - killed}\), .* in step \d+: .*; {gone}"
        collective = rf"{gone}.*; noticed by rank {1 - killed}\b.*, while training, step \d+"
        assert re.search(f"{watcher}|{collective}", printed), f"neither '{watcher}' nor '{collective}' in:\n{printed}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (two_processes_end_as_one, processes_agree_on_engines, survivor_names_the_killed):
            test(folder)
            print(f"{test.__name__}: passed")


main()
