#!/usr/bin/env python3
"""The article's CNN in PyTorch, as a careful user would write the loop: batches gathered from a tensor in memory,
fused Adam, gradients set to none. See worker.py for the protocol."""

import worker

options = worker.arguments(("eager", "compile"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(options.threads)
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
bfloat16 = options.precision == "bfloat16"

images = torch.rand(worker.SAMPLES, 1, 28, 28).contiguous(memory_format=layout)
labels = torch.randint(0, 10, (worker.SAMPLES,))


def loss_of(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        return criterion(model(x), y)


if options.mode == "compile":
    loss_of = torch.compile(loss_of)

order, position = torch.randperm(worker.SAMPLES), 0


def run(steps):
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


worker.serve(run, options.batch, warm_up=20)
