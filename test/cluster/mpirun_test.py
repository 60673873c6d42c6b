#!/usr/bin/env python3
"""Open MPI's mpirun starts two ranks, which find each other by its variables and sum.

    test/cluster/mpirun_test.py build/cluster_rank

Ends with 77, which ctest takes for a skip, where mpirun is not installed.
"""
import os
import shutil
import subprocess
import sys


def main():
    if not shutil.which("mpirun"):
        print("skipped: mpirun is missing; scripts/install_deps.sh --peers installs it")
        return 77
    # mpirun sets variables of its own; those of a launcher around this test must not win.
    prefixes = ("SLURM_", "OMPI_", "PMI_", "PMIX_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(["mpirun", "--oversubscribe", "-np", "2", sys.argv[1], "--steps", "1"], env=environment,
                          capture_output=True, text=True, timeout=120)
    for rank in range(2):
        if f"joined as rank {rank} of 2 by Open MPI" not in done.stdout:
            raise SystemExit(f"rank {rank} did not join:\n{done.stdout}\n{done.stderr}")
    if done.returncode != 0 or done.stdout.count("done") != 2:
        raise SystemExit(f"mpirun ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    print("two ranks under mpirun: right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
