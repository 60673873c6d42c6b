"""Runs of the program on the fake plugin: resumed between the CPU and other numbers of GPUs and in another precision,
and with parameter servers.

    runs_test.py TRAINER PLUGIN
"""

import json
import os
import re
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


def resume_lamb_on_the_cpu_and_back(folder):
    """LAMB's norms are of whole parameters: the same bits on any GPUs, and the CPU's numbers but for rounding."""
    lamb = ("--set", "optimizer={lamb: {learning_rate: 0.01, weight_decay: 0.1}}")
    expected = Run(folder, "lamb cpu").steps(12, 1, CPU, *lamb)["metrics"]
    one, mixed = Run(folder, "lamb one"), Run(folder, "lamb mixed")
    whole = one.steps(12, 1, gpus(1), *lamb)
    part = Run(folder, "lamb part")
    part.steps(4, 1, gpus(1), *lamb)
    found = part.steps(12, 2, gpus(2), *lamb)["parameters_sha256"]
    assert found == whole["parameters_sha256"], f"{found}, expected {whole['parameters_sha256']}"
    mixed.steps(4, 1, CPU, *lamb)
    mixed.steps(8, 2, gpus(2), *lamb)
    mixed = mixed.steps(12, 1, CPU, *lamb)["metrics"]
    for split, metrics in expected.items():
        for other in (whole["metrics"], mixed):
            assert abs(metrics["loss"] - other[split]["loss"]) < 1e-4 * metrics["loss"], (expected, other)


def resume_float16_on_the_cpu_and_back(folder):
    """The CPU goes on in float32 from a checkpoint with a loss scale, and float16 from one without."""
    half = ("--set", "train.precision=float16")
    expected = Run(folder, "single").steps(12, 1, CPU)["metrics"]
    mixed = Run(folder, "half")
    mixed.steps(4, 1, gpus(1), *half)
    mixed.steps(6, 2, gpus(2), *half)
    mixed.steps(8, 1, CPU)
    found = mixed.steps(12, 1, gpus(1), *half)["metrics"]
    for split, metrics in expected.items():
        assert abs(metrics["loss"] - found[split]["loss"]) < 1e-2 * metrics["loss"], (expected, found)


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


def tuned(folder):
    """parallel.autotune keeps what it finds in the cache's folder, and a start that finds it there measures nothing."""
    config = os.path.join(folder, "tuned.yaml")
    cache = os.path.join(folder, "cache", "trainer")

    def train(name):
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(batch=8, parallel=gpus(2) + ", autotune: true", run=os.path.join(folder, name)))
        environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2",
                           XDG_CACHE_HOME=os.path.join(folder, "cache"))
        done = subprocess.run([TRAINER, "train", config, "--json"], env=environment, capture_output=True, text=True,
                              timeout=240)
        assert done.returncode == 0, done.stderr
        files = {entry.path: (entry.stat().st_ino, entry.stat().st_mtime_ns) for entry in os.scandir(cache)}
        said = [line for line in done.stderr.splitlines() if cache in line]
        return files, said, finish([json.loads(line) for line in done.stdout.splitlines()])

    first, said, finished = train("tuned1")
    assert first and not said, (first, said)
    again, said, same = train("tuned2")
    assert again == first and not said, (first, again, said)
    assert same["parameters_sha256"] == finished["parameters_sha256"]
    damaged = sorted(first)[0]
    with open(damaged, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    mended, said, same = train("tuned3")
    changed = {path for path in first if mended[path] != first[path]}
    assert changed == {damaged}, (changed, damaged)
    assert len(said) == 1 and damaged in said[0] and "is damaged" in said[0], said
    assert same["parameters_sha256"] == finished["parameters_sha256"]


def automatic_batch(folder):
    """train.batch_size: auto leaves room for what kernels and connections take, in which the run then trains."""
    config = os.path.join(folder, "auto.yaml")
    memory = 1 << 25

    def choose(count, **variables):
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(batch="auto", parallel=f"device: cuda, gpus: {count}", run=os.path.join(folder, "auto")))
        larger = ("shape=[32, 32, 1]", "train_samples=2048")
        settings = [word for setting in larger for word in ("--set", "data.synthetic." + setting)]
        environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_MEMORY=str(memory), **variables)
        done = subprocess.run([TRAINER, "train", config, "--json", "--overwrite", "--set", "train.max_steps=3", *settings],
                              env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return int(re.search(r"auto takes (\d+): ", done.stderr)[1])

    assert choose(1, TRAINER_FAKE_CUDA_KERNEL_MEMORY=str(memory // 150)) < choose(1)
    assert choose(2, TRAINER_FAKE_CUDA_CONNECTION_MEMORY=str(memory // 4)) < choose(2)


def phases(folder):
    """Where the time of a step went, of each GPU, and the layers of a profile."""
    config = os.path.join(folder, "phases.yaml")
    with open(config, "w", encoding="utf-8") as file:
        parallel = "device: cuda, gpus: 2, bucket_mb: 0.0001"
        file.write(CONFIG.format(batch=8, parallel=parallel, run=os.path.join(folder, "phases")))
    ranks = finish(run(config))["step_times"]["ranks"]
    assert len(ranks) == 2, ranks
    for rank in ranks:
        for phase in ("copy", "forward", "backward", "all_reduce", "hidden_all_reduce", "update"):
            assert rank[phase + "_seconds"] > 0, (phase, rank)
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2")
    trace = os.path.join(folder, "trace.json")
    done = subprocess.run([TRAINER, "profile", config, "--json", "--trace", trace, "--steps", "3"], env=environment,
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    profile = next(event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "profile")
    layers = {row["name"]: row for row in profile["rows"] if row["layer"]}
    assert any(name.startswith("conv") for name in layers) and any(name.startswith("dense") for name in layers), layers
    for name, row in layers.items():
        assert row["forward_seconds"] + row["backward_seconds"] > 0 and row["implementations"], row
    others = {row["name"] for row in profile["rows"] if not row["layer"]}
    assert {"all-reduce", "update", "packing of weights"} <= others, others
    with open(trace, encoding="utf-8") as file:
        assert any("conv" in str(event.get("name")) for event in json.load(file)["traceEvents"])


def debugging(folder):
    """TRAINER_CUDA_GRAPHS=0 captures no graph and gives the same bits; TRAINER_CUDA_SYNC=1 names the layer of an error."""
    expected = Run(folder, "graphs").steps(12, 1, gpus(1))["parameters_sha256"]
    config = os.path.join(folder, "graphs.yaml")

    def train(**variables):
        environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, **variables)
        return subprocess.run([TRAINER, "train", config, "--json", "--overwrite"], env=environment, capture_output=True, text=True,
                              timeout=240)

    no_graph = {"TRAINER_FAKE_CUDA_FAIL": "cudaGraphInstantiate:1:cudaErrorUnknown"}
    assert train(**no_graph).returncode == 4
    for switch in ({"TRAINER_CUDA_GRAPHS": "0"}, {"TRAINER_CUDA_SYNC": "1"}):
        done = train(**no_graph, **switch)
        assert done.returncode == 0, done.stderr
        found = finish([json.loads(line) for line in done.stdout.splitlines()])["parameters_sha256"]
        assert found == expected, f"{switch}: {found}, expected {expected}"
    # The calls before are those of the start and of the first update, whose gradient is checked.
    failing = {"TRAINER_FAKE_CUDA_FAIL": "cudaStreamSynchronize:200:cudaErrorIllegalAddress"}
    done = train(**failing, TRAINER_CUDA_SYNC="1")
    assert done.returncode == 4 and "layer " in done.stderr and "cudaErrorIllegalAddress" in done.stderr, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (resume_on_other_numbers_of_gpus, resume_on_the_cpu_and_back, resume_lamb_on_the_cpu_and_back,
                     resume_float16_on_the_cpu_and_back, parameter_servers, tuned, automatic_batch, phases, debugging):
            test(folder)
            print(f"{test.__name__}: passed")


main()
