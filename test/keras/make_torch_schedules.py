#!/usr/bin/env python3
"""Writes torch_schedules.json: learning rates of PyTorch's schedulers at 200 steps, for test/optim.

    scripts/python_env.sh torch -- test/keras/make_torch_schedules.py
"""

import json
import pathlib

import torch

STEPS, RATE = 200, 0.1
CASES = {
    "milestones": ({"milestones": {"at": ["50 steps", "120 steps", "6.4 epochs"], "factor": 0.3}},
                   lambda o: torch.optim.lr_scheduler.MultiStepLR(o, milestones=[50, 120, 160], gamma=0.3)),
    "one_cycle": ({"one_cycle": {}}, lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=RATE, total_steps=STEPS)),
    "one_cycle_linear": ({"one_cycle": {"rise": 0.45, "div_factor": 10, "final_div_factor": 100, "anneal": "linear"}},
                          lambda o: torch.optim.lr_scheduler.OneCycleLR(
                             o, max_lr=RATE, total_steps=STEPS, pct_start=0.45, div_factor=10, final_div_factor=100,
                              anneal_strategy="linear")),
}


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimizer)
    values = []
    for step in range(STEPS):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < STEPS:
            scheduler.step()
    return values


def main():
    cases = [{"name": name, "schedule": schedule, "values": [float(f"{value:.9g}") for value in rates(make)]}
             for name, (schedule, make) in CASES.items()]
    content = {"torch": torch.__version__, "about": "learning rates of updates 0..199", "learning_rate": RATE,
               "steps_per_epoch": STEPS // 8, "total_steps": STEPS, "cases": cases}
    pathlib.Path(__file__).with_name("torch_schedules.json").write_text(json.dumps(content) + "\n")


main()
