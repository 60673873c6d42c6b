#!/usr/bin/env python3
"""Writes timm_losses.json and timm_averages.json: numbers of timm's BinaryCrossEntropy and ModelEmaV3.

    scripts/python_env.sh torch torchvision timm -- test/backend/make_timm_fixtures.py

Losses: labels are classes or the targets of timm's mixup before timm smooths them. Averages: the form of
test/keras/optimizers.json, of 200 updates, every 20th.
"""

import json
import math
import pathlib

import timm
import torch
from timm.data.mixup import mixup_target
from timm.loss import BinaryCrossEntropy
from timm.utils import ModelEmaV3

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES, CLASSES = 4, 5


def make_loss(smoothing, threshold, share):
    logits = (3 * torch.randn(SAMPLES, CLASSES)).requires_grad_()
    index = torch.randint(CLASSES, (SAMPLES,))
    case = {"smoothing": smoothing, "threshold": threshold, "logits": logits.tolist()}
    if share is None:
        targets = index
        case["labels"] = index.tolist()
    else:
        targets = mixup_target(index, CLASSES, share, smoothing)
        case["labels"] = mixup_target(index, CLASSES, share, 0.0).tolist()
    loss = BinaryCrossEntropy(smoothing=smoothing, target_threshold=threshold)(logits, targets)
    loss.backward()
    return {**case, "loss": loss.item(), "gradient": logits.grad.tolist()}


def make_averages(initial, ema, warm_up):
    model = torch.nn.Module()
    model.weights = torch.nn.ParameterList([torch.tensor(values) for values in initial])
    average = ModelEmaV3(model, decay=ema, use_warmup=warm_up)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    case = {"name": f"average with momentum {ema}", "scale": 1.0, "values": [], "averages": [],
            "optimizer": {"sgd": {"learning_rate": 0.05}, "ema": ema, "ema_warm_up": warm_up}}
    for step in range(200):
        for t, weight in enumerate(model.weights):
            weight.grad = torch.tensor([math.sin(0.1 * step + i + 2 * t) for i in range(len(weight))])
        optimizer.step()
        average.update(model, step=step + 1)
        if (step + 1) % 20 == 0:
            case["values"].append([weight.tolist() for weight in model.weights])
            case["averages"].append([weight.tolist() for weight in average.module.weights])
    return case


def write(name, **content):
    rows = ",\n".join(json.dumps(case) for case in content.pop("cases"))
    head = json.dumps({"timm": timm.__version__, **content})[:-1]
    (HERE / name).write_text(f'{head}, "cases": [\n{rows}\n]}}\n')


def main():
    torch.manual_seed(1)
    losses = [make_loss(*options) for options in [
        (0.0, None, None), (0.1, None, None), (0.2, 0.1, None), (0.1, 0.01, None), (0.1, None, 0.7), (0.1, 0.2, 0.85)]]
    write("timm_losses.json", cases=losses)
    initial = [[0.5, -1.0, 0.25, 2.0, -0.125], [1.0, -0.5, 0.75, -2.0]]
    averages = [make_averages(initial, *options) for options in [(0.95, True), (0.9998, True), (0.95, False)]]
    write("timm_averages.json", initial=initial, cases=averages)


if __name__ == "__main__":
    main()
