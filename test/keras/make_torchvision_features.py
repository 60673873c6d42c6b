#!/usr/bin/env python3
"""Writes test/keras/backbones/torchvision.json: what torchvision's networks make of one image, with weights of a formula.

    scripts/python_env.sh numpy torch torchvision -- test/keras/make_torchvision_features.py [NAME...]

All cases, or those named; the others stay as they are. Each has the tensors of the state dict, and of the features (or,
with "_top", of the logits of all classes) the norm and every n-th number. PyTorch computes in float64.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torchvision

FILE = pathlib.Path(__file__).resolve().parent / "backbones" / "torchvision.json"
SIZE = (64, 96, 3)
NAMES = ("vgg16", "resnet18", "resnet18_top", "resnet34", "resnet50", "resnet101")


def chaos(count, number):
    """Numbers in [-1, 1] that any language makes of integers alone."""
    i = np.arange(count, dtype=np.int64) % 100003
    return ((i * i * 31 + i * 17 + number * 101) % 10007) / 5003.0 - 1


def value_of(name, shape):
    u = chaos(int(np.prod(shape)), sum(name.encode()))
    if name.endswith(".running_var") or (name.endswith(".weight") and len(shape) == 1):
        u = 0.75 + 0.25 * u
    elif name.endswith(".weight"):
        u = u * np.sqrt(6.0 / np.prod(shape[1:]))
    else:
        u = 0.1 * u
    return torch.from_numpy(u.reshape(shape))


def make(name):
    network = name.removesuffix("_top")
    model = getattr(torchvision.models, network)(weights=None).double().eval()
    if name == network:
        features = model.features if network == "vgg16" else torch.nn.Sequential(*list(model.children())[:-2])
    else:
        features = model
    kept = [key for key in model.state_dict() if name != network or not key.startswith(("fc.", "classifier."))]
    state = {key: model.state_dict()[key] for key in kept}
    values = {key: torch.tensor(7) if key.endswith("num_batches_tracked") else value_of(key, tuple(value.shape))
              for key, value in state.items()}
    model.load_state_dict(values, strict=False)
    image = torch.from_numpy(chaos(int(np.prod(SIZE)), 7).reshape((1,) + SIZE)).permute(0, 3, 1, 2)
    with torch.no_grad():
        result = features(image)
    if result.dim() == 4:
        result = result.permute(0, 2, 3, 1)
    numbers = result.numpy().ravel()
    step = max(1, len(numbers) // 61)
    return {"state": [[key, list(value.shape)] for key, value in state.items()],
            "norm": float(np.linalg.norm(numbers)), "step": step, "count": len(numbers),
            "features": [float(f"{v:.9g}") for v in numbers[::step]]}


def main():
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    content["torchvision"] = torchvision.__version__
    content["about"] = "image and weights: see chaos() and value_of() of make_torchvision_features.py"
    content["image"] = list(SIZE)
    for name in sys.argv[1:] or NAMES:
        content[name] = make(name)
        print(name, content[name]["norm"])
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    FILE.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
