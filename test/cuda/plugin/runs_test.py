"""Runs of the program on the fake plugin: resumed between the CPU and other numbers of GPUs, and with parameter servers.

    runs_test.py TRAINER PLUGIN
"""

import json
import os
import socket
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {{layers: [conv: {{filters: 4, activation: relu}}, max_pool, flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [8, 8, 1], classes: 3, train_samples: 96, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
train: {{max_steps: 12, batch_size: {batch}}}
parallel: {{lr_scaling: none, {parallel}}}
run: {{dir: {run}, checkpoint_every: 4 steps, log_every: 1 steps}}
"""


def run(config, arguments=(), **variables):
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="4", **variables)
    command = [TRAINER, "train", config, "--json", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def finish(events):
    return next(event for event in events if event["event"] == "finished")


class Run:
    """A run in a folder of its own, of 16 samples a step."""

    def __init__(self, folder, name):
        self.folder, self.path = folder, os.path.join(folder, name)

    def steps(self, until, replicas, parallel, *arguments):
        config = self.path + ".yaml"
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(batch=16 // replicas, parallel=parallel, run=self.path))
        resume = ["--resume"] if os.path.exists(self.path) else []
        events = run(config, [*resume, "--set", f"train.max_steps={until}", *arguments])
        assert finish(events)["steps"] == until, finish(events)
        return finish(events)


def gpus(count):
    return f"device: cuda, gpus: {count}, reduction: ordered"


CPU = "device: cpu, reduction: ordered"


def resume_on_other_numbers_of_gpus(folder):
    """Ordered sums: the bits do not depend on the number of GPUs, nor on where a run went on."""
    whole = Run(folder, "whole").steps(12, 1, gpus(1))["parameters_sha256"]
    for name, counts in {"up": (1, 2, 4), "down": (4, 2, 1), "shared": (2, "[3, 3]", 1)}.items():
        part = Run(folder, name)
        for until, count in zip((4, 8, 12), counts):
            replicas = count if isinstance(count, int) else 2
            found = part.steps(until, replicas, gpus(count))["parameters_sha256"]
        assert found == whole, f"{name}: {found}, expected {whole}"


def resume_on_the_cpu_and_back(folder):
    """The CPU adds in another order: the same losses but for rounding."""
    cpu, mixed = Run(folder, "cpu"), Run(folder, "mixed")
    expected = cpu.steps(12, 1, CPU)["metrics"]
    mixed.steps(4, 1, CPU)
    mixed.steps(8, 2, gpus(2))
    found = mixed.steps(12, 1, CPU)["metrics"]
    assert found.keys() == expected.keys() and found, (found, expected)
    for split, metrics in expected.items():
        assert abs(metrics["loss"] - found[split]["loss"]) < 1e-4 * metrics["loss"], (expected, found)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def parameter_servers(folder, attempts=5):
    """Two workers with GPUs of their own, a chief and a server, each a process."""
    config = os.path.join(folder, "servers.yaml")
    with open(config, "w", encoding="utf-8") as file:
        parallel = "strategy: parameter_server, device: cuda"
        file.write(CONFIG.format(batch=16, parallel=parallel, run=os.path.join(folder, "servers")))
    ports = iter(free_ports(4))
    cluster = {role: [f"localhost:{next(ports)}" for _ in range(count)]
               for role, count in {"chief": 1, "ps": 1, "worker": 2}.items()}
    processes = []
    for role, tasks in cluster.items():
        for index in range(len(tasks)):
            task = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="4", TF_CONFIG=task)
            processes.append((f"{role}:{index}", subprocess.Popen(
                [TRAINER, "train", config, "--json"], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)))
    outputs = {name: process.communicate(timeout=240)[0] for name, process in processes}
    if attempts > 1 and any("in use" in output for output in outputs.values()):  # somebody has taken a port
        return parameter_servers(folder, attempts - 1)
    for name, process in processes:
        assert process.returncode == 0, f"{name}: {process.returncode}\n{outputs[name][-3000:]}"
    events = [json.loads(line) for line in outputs["chief:0"].splitlines() if line.startswith("{")]
    assert finish(events)["steps"] >= 12, finish(events)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (resume_on_other_numbers_of_gpus, resume_on_the_cpu_and_back, parameter_servers):
            test(folder)
            print(f"{test.__name__}: passed")


main()
