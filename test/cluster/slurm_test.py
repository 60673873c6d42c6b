#!/usr/bin/env python3
"""Slurm: a cluster of two nodes on this host, srun's variables, the job file of scripts/cluster, and the job array of a
sweep.

    test/cluster/slurm_test.py build/cluster_rank build/trainer

Ends with 77, which ctest takes for a skip, where Slurm is not installed or this is not root.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 60  # seconds for the nodes to come up, and for a job

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs={cpus} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(condition, what):
    limit = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > limit:
            raise SystemExit(f"{what} did not happen within {LIMIT} s")
        time.sleep(0.05)  # Slurm and munge report no event when they are ready


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        ports = free_ports(3)
        text = CONFIGURATION.format(folder=folder, ctld_port=ports[0], port1=ports[1], port2=ports[2],
                                    host=socket.gethostname(), cpus=os.cpu_count())
        (folder / "slurm.conf").write_text(text)
        (folder / "state").mkdir()
        for node in ("n1", "n2"):
            (folder / f"spool.{node}").mkdir()
        # No launcher around this test may speak for the ranks.
        prefixes = ("SLURM_", "OMPI_", "PMI_", "PMIX_")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")

    def start(self, *command):
        log = open(self.folder / f"{command[0]}{len(self.processes)}.out", "w")
        self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def __enter__(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        wait_until((self.folder / "munge.socket").exists, "munged's start")
        self.start("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        for node in ("n1", "n2"):
            self.start("slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"))
        wait_until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == "2", "the start of two nodes")
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def run(self, *command, **more):
        return subprocess.run(command, env={**self.environment, **more}, capture_output=True, text=True, timeout=LIMIT)


def expect(condition, done):
    if not condition:
        raise SystemExit(f"{done.args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


SWEPT = """
name: swept
model: {layers: [flatten, dense: 2]}
data: {format: synthetic, synthetic: {shape: [4, 4, 1], classes: 2, train_samples: 64, test_samples: 16}}
train: {max_steps: 4, batch_size: "${BATCH_SIZE:-8}"}
"""


def sweep(cluster, trainer, folder):
    """A point of the sweep a task; one fails, which the table says."""
    config = folder / "swept.yaml"
    config.write_text(SWEPT)
    command = [str(ROOT / "scripts/sweep.sh"), str(config), "--dir", str(folder / "sweep"), "--over",
               "optimizer.sgd.learning_rate=0.1,3e38", "--set", "parallel.device=cpu", "--json"]
    more = {"TRAINER": trainer, "LAUNCHER": "slurm", "BATCH_SIZE": "8 16"}
    done = cluster.run(*command, **more)
    expect(done.returncode == 0, done)
    points = {point["name"]: point["state"] for point in json.loads(done.stdout.splitlines()[-1])["points"]}
    states = {f"learning_rate={rate}_batch_size={size}": state for rate, state in (("0.1", "finished earlier"), ("3e38", "failed"))
              for size in (8, 16)}
    expect(points == states, done)
    jobs = cluster.run("scontrol", "show", "jobs", "-o")
    expect({"NodeList=n1", "NodeList=n2"} <= set(jobs.stdout.split()), jobs)


def main():
    rank = str(pathlib.Path(sys.argv[1]).resolve())
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        print("skipped: " + (", ".join(missing) + " missing; scripts/install_deps.sh --peers installs them" if missing
                             else "needs root"))
        return 77
    with tempfile.TemporaryDirectory(prefix="slurm.") as name:
        with Cluster(pathlib.Path(name)) as cluster:
            # The names n1 and n2 are known to Slurm alone.
            done = cluster.run("srun", "-N2", "-n4", "--overcommit", rank, "--steps", "1", MASTER_ADDR="127.0.0.1")
            expect(done.returncode == 0, done)
            for number in range(4):
                expect(f"joined as rank {number} of 4 by Slurm" in done.stdout, done)
            output = pathlib.Path(name) / "job.out"
            done = cluster.run("sbatch", "--wait", "--time=5", f"--output={output}", str(ROOT / "scripts/cluster/slurm.sbatch"),
                               "small.yaml", MASTER_ADDR="127.0.0.1", TRAINER=rank)
            expect(done.returncode == 0 and output.read_text().count("done") == 2, done)
            trainer = str(pathlib.Path(sys.argv[2]).resolve())
            job = pathlib.Path(name) / "job.sh"
            printed = cluster.run(trainer, "launch", "-n", "2", "--print-job", "slurm", "--", "train", "small.yaml")
            job.write_text(printed.stdout)
            done = cluster.run("sbatch", "--wait", "--time=5", f"--output={output}", str(job), MASTER_ADDR="127.0.0.1", TRAINER=rank)
            expect(done.returncode == 0 and output.read_text().count("done") == 4, done)
            sweep(cluster, trainer, pathlib.Path(name))
    print("ranks under srun, the job files and the job array of a sweep: right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
