#!/usr/bin/env python3
"""Two hosts, as network namespaces, train with the variables that each scheduler sets, to the bits of one process.

    test/cluster/schedulers_test.py build/trainer configs/digits.yaml

Ends with 77, which ctest takes for a skip, where network namespaces cannot be made.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ADDRESSES = ("10.78.0.1", "10.78.0.2")
# The variables of rank 0 and rank 1, and further arguments. The sources are cited in lib/cluster/identity.
SCHEDULERS = {
    "Kubeflow Trainer, torch": ([{"PET_NNODES": "2", "PET_NODE_RANK": str(rank), "PET_NPROC_PER_NODE": "8",
                                  "PET_MASTER_ADDR": ADDRESSES[0], "PET_MASTER_PORT": "29500"} for rank in (0, 1)], []),
    "Kubeflow Trainer, JAX": ([{"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(rank),
                                "JAX_COORDINATOR_ADDRESS": ADDRESSES[0] + ":6666"} for rank in (0, 1)], []),
    "indexed Job": ([{"JOB_COMPLETION_INDEX": str(rank)} for rank in (0, 1)], ["--hosts", "10.78.0.{1..2}"]),
    "PRRTE": ([{"PMIX_RANK": str(rank), "PMIX_NAMESPACE": "prterun-1@1", "MASTER_ADDR": ADDRESSES[0]} for rank in (0, 1)],
              ["--world-size", "2"]),
    "Flux": ([{"FLUX_TASK_RANK": str(rank), "FLUX_JOB_SIZE": "2", "FLUX_JOB_NNODES": "2", "FLUX_TASK_LOCAL_ID": "0",
               "FLUX_JOB_ID": "f23x", "PMI_RANK": str(rank), "PMI_SIZE": "2"} for rank in (0, 1)], []),
}
# Prints what flux-hostlist(1) prints inside of a job of two hosts.
FLUX = """#!/bin/sh
[ "$*" = "hostlist local" ] && echo '10.78.0.[1-2]'
"""


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def two_hosts():
    names = [f"trainer{os.getpid()}{side}" for side in "ab"]
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "c0", "netns", names[0], "type", "veth", "peer", "name", "c0", "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            run("ip", "-n", name, "address", "add", address + "/24", "dev", "c0")
            run("ip", "-n", name, "link", "set", "c0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def finished(process, what):
    out, err = process.communicate(timeout=120)
    if process.returncode != 0:
        raise SystemExit(f"{what} ended with {process.returncode}:\n{out}\n{err}")
    events = [json.loads(line) for line in out.splitlines()]
    return [event for event in events if event["event"] == "finished"]


def main():
    trainer, config = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
    command = [trainer, "train", config, "--json", "--quiet", "--epochs", "1", "--set", "data.limit=256",
               "--set", "parallel.reduction=ordered", "--set", "parallel.lr_scaling=none"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(two_hosts())
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: network namespaces cannot be made here: {error}")
            return 77
        flux = pathlib.Path(folder, "flux")
        flux.write_text(FLUX)
        flux.chmod(0o755)
        base = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": folder, "TRAINER_SECRET": "s" * 32}

        def start(name, variables, more, prefix=()):
            return subprocess.Popen([*prefix, *command, "--run-dir", f"{folder}/{name}", *more], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**base, **variables})

        alone = finished(start("alone", {}, ["--batch-size", "64"]), "one process")[0]["parameters_sha256"]
        for name, (ranks, more) in SCHEDULERS.items():
            jobs = [start(name, variables, ["--batch-size", "32", "--set", "parallel.require_cluster=2", *more],
                          ("ip", "netns", "exec", host)) for variables, host in zip(ranks, hosts)]
            events = [event for job in jobs for event in finished(job, name)]
            if [event["parameters_sha256"] for event in events] != [alone]:
                raise SystemExit(f"{name}: expected parameters {alone} once, found {events}")
            print(f"{name}: two ranks have the parameters of one process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
