#!/usr/bin/env python3
"""Writes test/checkpoint/pytorch/: small files of torch.save(), and of objects that are not state dicts.

    scripts/python_env.sh numpy torch -- test/checkpoint/make_pytorch_files.py

Element i of tensor k is k + i / 8, or k + i for integers: every type holds it exactly.
"""

import argparse
import collections
import os
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parent / "pytorch"


def tensor(k, shape, dtype=torch.float32):
    count = int(torch.tensor(shape).prod()) if shape else 1
    values = torch.arange(count) / (8 if dtype.is_floating_point else 1) + k
    return values.reshape(shape).to(dtype)


def all_types():
    shared = tensor(7, (4, 6))
    return collections.OrderedDict(
        float32=tensor(0, (2, 3)), float64=tensor(1, (2, 3)), float16=tensor(2, (2, 3)),
        bfloat16=tensor(3, (2, 3)), int64=tensor(4, (2, 3), torch.int64), uint8=tensor(5, (2, 3), torch.uint8),
        scalar=tensor(6, ()), rows=shared[1:3], columns=shared.t(),
        channels_last=tensor(8, (2, 3, 2, 2)).contiguous(memory_format=torch.channels_last),
        parameter=torch.nn.Parameter(tensor(9, (3,))), empty=tensor(10, (0, 3)))


class Command:
    def __reduce__(self):
        return os.system, ("true",)


def main():
    FOLDER.mkdir(exist_ok=True)

    def save(name, value, **options):
        torch.save(value, FOLDER / name, **options)

    save("types.pth", all_types())
    save("types_old.pth", all_types(), _use_new_zipfile_serialization=False)
    save("linear.pth", torch.nn.Linear(2, 3).state_dict())
    weights = {f"module.{name}": tensor(k, (2,)) for k, name in enumerate(["a.weight", "a.bias"])}
    other = {name: values + 10 for name, values in weights.items()}
    save("training.pth", {"epoch": 3, "args": argparse.Namespace(lr=0.1, path=pathlib.PurePosixPath("x")),
                          "optimizer": {"state": {0: {"momentum": tensor(0, (2,))}}}, "state_dict": weights,
                          "model_ema": {"n_averaged": torch.tensor(5), **other}})
    save("nets.pth", {"student": weights, "teacher": other})
    save("module.pth", torch.nn.Linear(2, 3))
    save("object.pth", {"weight": tensor(0, (2,)), "args": argparse.Namespace(lr=0.1)})
    save("command.pth", {"weight": tensor(0, (2,)), "args": Command()})
    save("complex.pth", {"weight": torch.zeros(2, dtype=torch.complex64)})
    save("number.pth", 3)
    torch.jit.script(torch.nn.ReLU()).save(FOLDER / "program.pth")


if __name__ == "__main__":
    main()
