#!/usr/bin/env python3
"""The articles' transfer learning in PyTorch, as a careful user would write the loop: torchvision's networks with random
weights, frozen layers in eval mode without gradients, batches from a tensor in memory, fused Adam over what trains."""

import transfer_worker

options = transfer_worker.arguments(("eager", "compile"))

import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(options.threads)
torch.manual_seed(0)
layout = torch.channels_last if options.channels_last else torch.contiguous_format
SIDE = transfer_worker.SHAPE[0]
images = torch.randint(0, 256, (transfer_worker.SAMPLES, 3, SIDE, SIDE), dtype=torch.uint8).contiguous(memory_format=layout)

if options.case == "vgg16":
    features = torchvision.models.vgg16(weights=None).features
    # Keras's layers[:-4]: all before block5_conv1.
    frozen, trained = features[:24], nn.Sequential(features[24:], nn.Flatten(), nn.Linear(512 * 7 * 7, 4))
    labels = torch.randint(0, 4, (transfer_worker.SAMPLES,))
    criterion = nn.CrossEntropyLoss()
else:
    frozen = None
    trained = nn.Sequential(
        torchvision.models.mobilenet_v2(weights=None).features, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(1280, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 1),
    )
    labels = torch.randint(0, 2, (transfer_worker.SAMPLES, 1)).float()
    criterion = nn.BCEWithLogitsLoss()

if frozen is not None:
    frozen = frozen.to(memory_format=layout).eval().requires_grad_(False)
trained = trained.to(memory_format=layout).train()
optimizer = torch.optim.Adam(trained.parameters(), lr=transfer_worker.LEARNING_RATE, eps=1e-7, fused=True)
bfloat16 = options.precision == "bfloat16"


def features_of(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        return frozen(x)


def loss_of(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        return criterion(trained(x), y)


if options.mode == "compile":
    features_of, loss_of = torch.compile(features_of), torch.compile(loss_of)

order, position = torch.randperm(transfer_worker.SAMPLES), 0


def step():
    global order, position
    if position + options.batch > transfer_worker.SAMPLES:
        order, position = torch.randperm(transfer_worker.SAMPLES), 0
    index = order[position : position + options.batch]
    position += options.batch
    x, y = images.index_select(0, index), labels.index_select(0, index)
    x = x.float() / 255
    loss = loss_of(x if frozen is None else features_of(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


transfer_worker.serve(step, options.batch)
