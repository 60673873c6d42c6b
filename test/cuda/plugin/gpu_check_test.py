"""The first start of `train` on several fake GPUs checks them in a process of its own: a pass is kept for the driver, a
failure leaves one GPU where nobody has asked for several, and is an error elsewhere.

    gpu_check_test.py TRAINER PLUGIN
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {layers: [flatten, dense: 3]}
data: {format: synthetic, synthetic: {shape: [4, 4, 1], classes: 3, train_samples: 32, test_samples: 8}}
train: {max_steps: 2, batch_size: 8}
parallel: {lr_scaling: none}
"""
HINTS = ("NCCL_P2P_DISABLE=1", "NCCL_DEBUG=INFO", "--shm-size", "trainer devices --check")
LONG, SHORT = "400", "20"  # limits in seconds of checks that end and of those that do not
BROKEN = "ncclCommInitRankConfig:1:ncclSystemError"
NEVER_DEADLOCKED = {"TRAINER_FAKE_CUDA_DEADLOCK_MS": "1000000"}


class Machine:
    """Two fake GPUs with a cache folder of their own."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.config = os.path.join(self.folder, "small.yaml")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        self.starts = 0

    def start(self, *command, limit=LONG, fail="", **variables):
        environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2", TRAINER_FAKE_CUDA_FAIL=fail,
                           XDG_CACHE_HOME=os.path.join(self.folder, "cache"), TRAINER_GPU_CHECK=limit)
        environment.pop("TRAINER_CUDA_PLAN_CACHE", None)
        environment.update(variables)
        return subprocess.run([TRAINER, *command], env=environment, capture_output=True, text=True, timeout=900)

    def train(self, *arguments, code=0, replicas=None, **how):
        self.starts += 1
        run = os.path.join(self.folder, str(self.starts))
        done = self.start("train", self.config, "--json", "--run-dir", run, *arguments, **how)
        assert done.returncode == code, f"{done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
        for line in done.stdout.splitlines():
            json.loads(line)
        if replicas:
            with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
                assert json.load(file)["replicas"] == replicas, done.stderr
        return done.stderr

    def passes(self):
        folder = os.path.join(self.folder, "cache", "trainer")
        return [name for name in os.listdir(folder) if name.endswith(".passed")] if os.path.isdir(folder) else []


def keeps_a_pass_for_its_driver(machine):
    first = machine.train(replicas=2)
    assert "note: checking 2 GPUs" in first and "note: 2 GPUs checked in " in first and "once per driver" in first, first
    assert len(machine.passes()) == 1
    assert "note: checking" not in machine.train(replicas=2)
    assert "note: checking" not in machine.train("--gpus", "2", replicas=2)
    newer = machine.train(replicas=1, fail=BROKEN, TRAINER_FAKE_CUDA_DRIVER="13020")
    assert "note: checking 2 GPUs" in newer and len(machine.passes()) == 1, newer
    # What has passed is checked again where that is asked for.
    again = machine.start("devices", "--check", "--json", fail=BROKEN)
    assert again.returncode == 4 and len(json.loads(again.stdout)["gpus"]) == 2, again.stderr
    assert "error: the check of 2 GPUs failed" in again.stderr, again.stderr


def leaves_one_gpu_when_a_sum_never_ends(machine):
    said = machine.train(replicas=1, limit=SHORT, fail="ncclAllGather:1:endless", **NEVER_DEADLOCKED)
    assert f"with TRAINER_CUDA_GRAPHS=1 it had not ended after {SHORT} s" in said, said
    assert "warning: the check of 2 GPUs failed" in said and "training goes on with one GPU" in said, said
    assert all(hint in said for hint in HINTS), said
    assert machine.passes() == []


def ends_when_sums_are_wrong_on_gpus_that_were_asked_for(machine):
    said = machine.train("--gpus", "2", code=4, fail="ncclAllGather:5:wrong,ncclAllReduce:5:wrong")
    assert "error: the check of 2 GPUs failed" in said and "their parameters differ from those of one GPU" in said, said
    assert all(hint in said for hint in HINTS), said
    for asked in (["--gpus", "all"], ["--set", "parallel.replicas=2"]):
        assert "error: the check of 2 GPUs failed" in machine.train(*asked, code=4, fail=BROKEN)
    assert machine.passes() == []


def ends_when_a_graph_launch_hangs(machine):
    said = machine.train("--gpus", "2", code=4, limit=SHORT, fail="cudaGraphLaunch:10:hang")
    assert "error: the check of 2 GPUs failed: with TRAINER_CUDA_GRAPHS=1 it had not ended" in said, said
    assert machine.passes() == []


def reports_the_error_of_the_check(machine):
    said = machine.train(replicas=1, fail=BROKEN)
    assert "it ended with code 4: " in said and "unhandled system error" in said, said


def checks_nothing_else(machine):
    for arguments, variables in ((["--gpus", "1"], {}), (["--gpus", "[0, 0]"], {}), ([], {"limit": "0"})):
        assert "note: checking" not in machine.train(*arguments, **variables), arguments
    assert machine.passes() == []
    assert "TRAINER_GPU_CHECK is 'soon'" in machine.train(code=2, limit="soon")
    alone = machine.start("devices", "--check", TRAINER_FAKE_CUDA_DEVICES="1")
    assert alone.returncode == 4 and "this machine has 1 GPU" in alone.stderr, alone.stderr


def main():
    cases = [keeps_a_pass_for_its_driver, leaves_one_gpu_when_a_sum_never_ends, ends_when_a_graph_launch_hangs,
             ends_when_sums_are_wrong_on_gpus_that_were_asked_for, reports_the_error_of_the_check, checks_nothing_else]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, result in [(case, pool.submit(case, Machine(folder, case.__name__))) for case in cases]:
            result.result()
            print(case.__name__, flush=True)


main()
