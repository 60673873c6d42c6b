#!/usr/bin/env python3
"""Trains small convolutions in float32 and in bfloat16, and compares how each tap of the kernels moves.

    test/generated/precision.py build/release/apps/trainer/trainer
    ... precision.py TRAINER --cases 300 --seed 7      another draw
    ... precision.py TRAINER --seed 7 --case 12        case 12 of this draw alone

Images are 1 to 8 pixels high and 1 to 3 wide, kernels may be larger than they are, strides go up to 4. Each case makes
STEPS steps of SGD with both types, from the same parameters on the same samples. Compared is the movement of each tap
of a convolution, and of the kernel of the dense layer:

  stays        does not move in bfloat16 where it does not move in float32, such as a tap that meets only padding
  moves        moves in bfloat16 as in float32

Exits with 1 where a case failed, with 77 where the processor does not compute in bfloat16. Needs no packages.
"""

import array
import json
import math
import subprocess
import sys

from cases import Generator, SKIPPED

STEPS = 3
CLASSES = 3
# The distance of a movement, as a share of the movement of its tensor (root mean square of its parts).
LIMIT = 0.25


def random_conv(draw, size):
    """A convolution for images of this size, and the size of its output."""
    kernel = [draw.randint(1, 5) for _ in range(2)]
    stride = [draw.randint(1, 4) for _ in range(2)]
    if draw.random() < 0.25:
        stride = [1, 1]
        padding = [draw.randint(0, 3) for _ in range(4)]
        room = [size[0] + padding[0] + padding[1], size[1] + padding[2] + padding[3]]
        kernel = [min(k, r) for k, r in zip(kernel, room)]
        out = [r - k + 1 for r, k in zip(room, kernel)]
    elif draw.random() < 0.2:
        padding = "valid"
        kernel = [min(k, s) for k, s in zip(kernel, size)]
        out = [(s - k) // t + 1 for s, k, t in zip(size, kernel, stride)]
    else:
        padding = "same"
        out = [-(-s // t) for s, t in zip(size, stride)]
    options = {"filters": draw.choice([1, 3, 8, 16, 17, 32]), "kernel_size": kernel, "strides": stride,
               "padding": padding, "activation": draw.choice(["linear", "tanh"])}
    return {"conv": options}, out


def random_config(draw):
    size = [draw.randint(1, 8), draw.randint(1, 3)]
    shape = [*size, draw.choice([1, 2, 3, 16])]
    layers = []
    for _ in range(draw.randint(1, 3)):
        layer, size = random_conv(draw, size)
        layers.append(layer)
    layers += ["flatten", {"dense": {"units": CLASSES}}]
    lanes = draw.choice([1, 1, 2])
    return {
        "name": "precision", "seed": draw.randint(0, 1000),
        "model": {"input": shape, "layers": layers},
        "data": {"format": "synthetic",
                 "synthetic": {"shape": shape, "classes": CLASSES, "train_samples": 64, "test_samples": 0}},
        "optimizer": {"sgd": {"learning_rate": 0.1}},
        "train": {"max_steps": STEPS, "batch_size": draw.choice([1, 7, 16])},
        "parallel": {"threads": draw.choice([lanes, 2]), "lanes": lanes},
        "run": {"checkpoint_every": "1000 steps", "evaluate_every": "1000 steps", "tensorboard": False},
    }


def read_tensors(path):
    """{name: (shape, numbers)} of the float32 tensors of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors[name] = entry["shape"], array.array("f", data[start + begin:start + end])
    return tensors


def movements(case, precision):
    """{name: (shape, how each number moved)} of the trained tensors."""
    run = case.folder / precision
    case.run("train", "config.yaml", "--quiet", "--run-dir", run, "--set", f"train.precision={precision}")
    first, last = (read_tensors(run / "checkpoints" / f"step-{step:08}.safetensors") for step in (0, STEPS))
    return {name: (shape, [b - a for a, b in zip(first[name][1], numbers)]) for name, (shape, numbers) in last.items()
            if name.endswith("/kernel")}


def parts(shape, numbers):
    """The taps of a kernel [height, width, in, out]; the whole of another tensor."""
    size = math.prod(shape[2:]) if len(shape) == 4 else len(numbers)
    return [numbers[i:i + size] for i in range(0, len(numbers), size)]


def norm(numbers):
    return math.sqrt(sum(number * number for number in numbers))


def compare(case, name, shape, wide, narrow):
    taps = list(zip(parts(shape, wide), parts(shape, narrow)))
    usual = norm(wide) / math.sqrt(len(taps))
    for tap, (expected, found) in enumerate(taps):
        where = f"{name} {shape}, tap {tap} of {len(taps)}: "
        if not any(expected):
            if any(found):
                case.failed("stays", f"{where}moves by {norm(found):.3g} in bfloat16")
            else:
                case.passed("stays")
        else:
            error = norm([a - b for a, b in zip(expected, found)]) / max(norm(expected), usual)
            case.check("moves", error, LIMIT, where)


def run_case(case):
    case.write_config(random_config(case.draw))
    wide, narrow = movements(case, "float32"), movements(case, "bfloat16")
    for name, (shape, numbers) in wide.items():
        compare(case, name, shape, numbers, narrow[name][1])


def computes_in_bfloat16(trainer):
    done = subprocess.run([trainer, "devices", "--json"], capture_output=True, text=True, check=True)
    return "with bf16" in json.loads(done.stdout)["cpu"]


def main():
    generator = Generator("precision", __doc__, cases=20)
    if len(sys.argv) > 1 and not computes_in_bfloat16(generator.parser.parse_args().trainer):
        print("[skipped] this processor does not compute in bfloat16")
        return SKIPPED
    return generator.run(run_case)


if __name__ == "__main__":
    sys.exit(main())
