"""One rank of the all-reduce benchmark in torch.distributed over Gloo: torch_all_reduce.py SECONDS BYTES...; prints what all_reduce.cpp prints."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as distributed


def main():
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    for size in map(int, sys.argv[2:]):
        values = torch.ones(max(size // 4, 1))
        distributed.all_reduce(values)
        times, more = [], torch.ones(1, dtype=torch.int64)
        end = time.perf_counter() + float(sys.argv[1])
        while more.item():
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_reduce(values)
            times.append(time.perf_counter() - start)
            values.fill_(1)
            more.fill_(int(rank == 0 and (time.perf_counter() < end or len(times) < 5)))
            distributed.all_reduce(more)
        if rank == 0:
            print(json.dumps({"event": "measured", "bytes": size, "seconds": statistics.median(times)}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
