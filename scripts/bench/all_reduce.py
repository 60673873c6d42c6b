"""Seconds of an all-reduce of float32 between processes of this machine, per size: this project's algorithms, torch.distributed over
Gloo, and Open MPI over TCP and over shared memory. All run in turn, several rounds; the median of the rounds' medians counts.

Ends with `ratio all_reduce_PEER_SIZE VALUE`: the peer's seconds / those of our fastest algorithm; above one is better. Open MPI takes part
where mpicc and mpirun are installed (apt: openmpi-bin libopenmpi-dev).
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import HERE, ROOT, events, run_ranks

OURS = ("tree", "ring", "tree_tcp", "ring_tcp")


def run_mpi(ranks, program, network, arguments):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), "--mca", "btl", network, program, *arguments]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_tcp_if_include": "lo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"mpirun failed:\n{done.stderr[-2000:]}")
    return {line["bytes"]: line["seconds"] for line in events(done.stdout)}


def methods(options, folder):
    """Name and function of each competitor."""
    program = str(pathlib.Path(options.build) / "test/cluster/bench_all_reduce")
    arguments = [str(options.seconds), *map(str, options.bytes)]
    for name in OURS:
        algorithm, _, tcp = name.partition("_")
        environment = {"TCP": "1"} if tcp else {}
        yield name, lambda algorithm=algorithm, environment=environment: run_ranks(options.ranks, [program, algorithm, *arguments], environment)
    yield "torch", lambda: run_ranks(options.ranks, [sys.executable, str(HERE / "peers/torch_all_reduce.py"), *arguments])
    if shutil.which("mpicc") and shutil.which("mpirun"):
        mpi = f"{folder}/all_reduce_mpi"
        subprocess.run(["mpicc", "-O2", "-o", mpi, str(HERE / "peers/all_reduce_mpi.c")], check=True)
        yield "mpi_tcp", lambda: run_mpi(options.ranks, mpi, "self,tcp", arguments)
        yield "mpi_shm", lambda: run_mpi(options.ranks, mpi, "self,vader", arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", help="the build folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="time a size, round and competitor")
    parser.add_argument("--bytes", type=int, nargs="+", default=[4 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20])
    options = parser.parse_args()
    subprocess.run(["cmake", "--build", options.build, "--target", "bench_all_reduce"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        competitors = dict(methods(options, folder))
        rounds = {name: [] for name in competitors}
        for _ in range(options.rounds):
            for name, measure in competitors.items():
                rounds[name].append(measure())
    table = {name: {size: statistics.median(one[size] for one in found) for size in options.bytes} for name, found in rounds.items()}
    print(f"{options.ranks} ranks; ms a call, and bytes / time in MB/s")
    print(f"{'KiB':>8}" + "".join(f"{name:>22}" for name in table))
    for size in options.bytes:
        print(f"{size / 1024:8.0f}" + "".join(f"{row[size] * 1e3:12.3f} ({size / row[size] / 1e6:6.0f})" for row in table.values()))
    for size in options.bytes:
        best = min(table[name][size] for name in OURS if name in table)
        for peer in table:
            if peer not in OURS:
                print(f"ratio all_reduce_{peer}_{size >> 10}KiB {table[peer][size] / best:.3f}")


if __name__ == "__main__":
    main()
