#!/usr/bin/env python3
"""Runs `verify replicas` on random models, whose promises must hold.

    test/generated/verify.py build/release/apps/trainer/trainer
    ... verify.py TRAINER --cases 150 --seed 7        another draw
    ... verify.py TRAINER --seed 7 --case 12          case 12 of this draw alone

Each case is a random model with a random optimizer on random images, trained by 1, 2 and 4 replicas with fast and with
ordered sums. The table counts the promises. Exits with 1 where a case failed. Needs no packages.
"""

import json
import sys
import tempfile

from cases import Generator
from random_models import RandomModel, random_optimizer

CLASSES = 10


def run_case(case, digits):
    draw = case.draw
    model = RandomModel(draw, (28, 28, 1), CLASSES, has_batch_norm=draw.random() < 0.3)
    case.write_config({
        "seed": draw.randint(0, 1000), "model": {"layers": model.layers},
        "data": {"format": "digits", "path": digits, "limit": 120}, "optimizer": random_optimizer(draw),
        "train": {"epochs": 1, "batch_size": draw.choice([8, 16])}, "parallel": {"threads": draw.choice([1, 2])}})
    done = case.run("verify", "replicas", "config.yaml", "--replicas", "1,2,4", "--steps", 10, "--json", allowed=(0, 5))
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if row["event"] == "verify" and not row["run"].startswith("1 x")]
    if not rows or (done.returncode == 5) != any(not row["holds"] for row in rows):
        case.failed("reports its promises", f"{len(rows)} rows, exit code {done.returncode}")
    for row in rows:
        if row["holds"]:
            case.passed(row["promise"])
        else:
            case.failed(row["promise"], f"{row['run']} ends {row['distance']:.1e} apart")


def main():
    generator = Generator("verify", __doc__, cases=6)
    with tempfile.TemporaryDirectory(prefix="generated.") as folder:
        return generator.run(lambda case: run_case(case, f"{folder}/digits"))


if __name__ == "__main__":
    sys.exit(main())
