#!/usr/bin/env python3
"""torchvision's backbones with average pooling and a dense layer, and timm's ViT, from a tensor of bytes in memory: training
with SGD and momentum, or prediction in eval mode without gradients, after the folding that torch.compile does by itself."""

import transfer_worker
import zoo_worker

options = zoo_worker.arguments(("eager", "compile"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(options.threads)
torch.manual_seed(0)
layout = torch.channels_last if options.channels_last else torch.contiguous_format
images = torch.randint(0, 256, (options.batch, 3, options.side, options.side), dtype=torch.uint8).contiguous(memory_format=layout)
labels = torch.randint(0, zoo_worker.CLASSES, (options.batch,))


def make_network(name):
    if name.startswith("vit_"):
        import timm
        return timm.create_model(name + "_224", num_classes=zoo_worker.CLASSES, img_size=options.side)
    import torchvision
    whole = torchvision.models.get_model(name, weights=None)
    features = whole.features if hasattr(whole, "features") else nn.Sequential(*list(whole.children())[:-2])
    tail = [nn.ReLU()] if name.startswith("densenet") else []  # torchvision applies it outside of `features`
    network = nn.Sequential(features, *tail, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with torch.no_grad():
        width = network(torch.zeros(1, 3, options.side, options.side)).shape[1]
    return nn.Sequential(network, nn.Linear(width, zoo_worker.CLASSES))


model = make_network(options.case).to(memory_format=layout)
criterion = nn.CrossEntropyLoss()


def forward(x):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bfloat16"):
        return model(x.float() / 255)


def loss_of(x, y):
    return criterion(forward(x).float(), y)


if options.predict:
    model.eval()
    run = torch.compile(forward) if options.mode == "compile" else forward

    def step():
        with torch.inference_mode():
            run(images)
else:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    run = torch.compile(loss_of) if options.mode == "compile" else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        run(images, labels).backward()
        optimizer.step()


transfer_worker.serve(step, options.batch)
