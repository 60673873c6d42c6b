#!/usr/bin/env python3
"""The article's CNN in PyTorch, as a careful user would write the loop: batches gathered from a tensor in memory,
fused Adam, gradients set to none. With --ranks, that many processes of DistributedDataParallel over Gloo, each on cores
of its own. See worker.py for the protocol."""

import os
import socket
import subprocess
import sys

import worker

options = worker.arguments(("eager", "compile"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

rank, ranks = int(os.environ.get("RANK", 0)), options.ranks
torch.set_num_threads(options.threads)
if ranks > 1:
    if rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(ranks)}
        os.environ.update(address)
        for other in range(1, ranks):
            subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(other)}, stdin=subprocess.DEVNULL)
        os.environ["RANK"] = "0"
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[(rank * options.threads + i) % len(cores)] for i in range(options.threads)})
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
layout = torch.channels_last if options.channels_last else torch.contiguous_format
model = nn.Sequential(
    nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
    nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10),
).to(memory_format=layout)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=True)
criterion = nn.CrossEntropyLoss()
if ranks > 1:
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
bfloat16 = options.precision == "bfloat16"

images = torch.rand(worker.SAMPLES, 1, 28, 28).contiguous(memory_format=layout)
labels = torch.randint(0, 10, (worker.SAMPLES,))


def loss_of(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        return criterion(model(x), y)


if options.mode == "compile":
    loss_of = torch.compile(loss_of)

order, position = torch.randperm(worker.SAMPLES), 0


def run_here(steps):
    global order, position
    for _ in range(steps):
        if position + options.batch > worker.SAMPLES:
            order, position = torch.randperm(worker.SAMPLES), 0
        index = order[position : position + options.batch]
        position += options.batch
        loss = loss_of(images.index_select(0, index), labels.index_select(0, index))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def run(steps):
    """Rank 0 tells the others how far to go."""
    if ranks > 1:
        torch.distributed.broadcast(torch.tensor([steps]), 0)
    run_here(steps)


if rank == 0:
    worker.serve(run, options.batch * ranks, warm_up=20)
    if ranks > 1:
        torch.distributed.broadcast(torch.tensor([0]), 0)
else:
    steps = torch.tensor([1])
    while steps.item() > 0:
        torch.distributed.broadcast(steps, 0)
        run_here(steps.item())
if ranks > 1:
    torch.distributed.destroy_process_group()
