#!/usr/bin/env python3
"""Changes a value, a key or bytes of a JSON file of a run, and gives the run to the commands that read it.

    test/generated/damaged.py build/release/apps/trainer/trainer
    ... damaged.py TRAINER --cases 500 --seed 7         another draw
    ... damaged.py TRAINER --seed 7 --case 12           case 12 of this draw alone

The files are all JSON files of a run with calibration, curves, an operating point or costs, abstention or thresholds of
labels, and those of a cross-validation. Each command ends with 0, or with an error that names the file and, unless the
file is no JSON any more, a key of it; no command crashes, hangs or shows the text of an exception.

Exits with 1 where a case failed. Needs no packages.
"""

import json
import shutil
import sys
import tempfile
import pathlib
import re

from cases import Case, Generator

MODEL = {"layers": ["flatten", {"dense": 2}]}
DATA = {"format": "synthetic", "validation_split": 0.4,
        "synthetic": {"shape": [4, 4, 1], "classes": 2, "train_samples": 80, "test_samples": 30}}
CONFIG = {"name": "damaged", "model": MODEL, "data": DATA, "optimizer": {"sgd": {"learning_rate": 0.01}},
          "train": {"epochs": 2, "batch_size": 16}, "run": {"tensorboard": False}, "parallel": {"threads": 1}}
VALUES = [None, True, 0, -1, 1.5, 1e300, -1e300, 2**63, "", "x", "\u001b[2J", [], {}, [[]], [None], {"x": 1}, ["x"] * 3]
# Each of these reads some of the files; all names are below the folder of the case.
COMMANDS = {
    "run": [["report", "run", "--mistakes", 0], ["predict", "run", "--limit", 1, "--abstain", 0.1],
            ["evaluate", "run", "--abstain", 0.1], ["runs", "."], ["compare", "run", "other"],
            ["export", "run", "--format", "onnx", "--output", "model.onnx", "--overwrite"],
            ["train", "config.yaml", "--run-dir", "run", "--resume", "--quiet"]],
    "folds": [["report", "folds", "--mistakes", 0], ["crossval", "config.yaml", "--folds", 2, "--dir", "folds", "--collect"]],
}
EXCEPTION = re.compile(r"json\.exception|terminate called|std::|basic_string|vector::|map::at")


def prepare(case):
    """Makes the runs once."""
    case.write_config(CONFIG)
    case.run("train", "config.yaml", "--run-dir", "run", "--quiet")
    case.run("evaluate", "run", "--calibrate", "--curves", "--operating-point", "sensitivity=0.8", "--abstain", 0.1, "--quiet")
    shutil.copytree(case.folder / "run", case.folder / "other")
    (case.folder / "run/predictions.jsonl").write_text(
        case.run("predict", "run", "--json", "--split", "test").stdout)
    case.run("crossval", "config.yaml", "--folds", 2, "--dir", "folds", "--quiet", "--operating-point", "cost=1:2")


def places(value, path=()):
    """The paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


class Change:
    """A drawn change of one file."""

    def __init__(self, draw, path):
        self.draw, self.path = draw, path
        self.is_json = True
        self.keys = set()
        lines = path.read_text().splitlines()
        number = draw.randrange(len(lines))
        form = draw.random()
        lines[number] = self.change_bytes(lines[number]) if form < 0.15 else self.change_value(lines[number])
        path.write_text("\n".join(lines) + "\n")

    def change_bytes(self, text):
        self.is_json = False
        at = self.draw.randrange(len(text))
        form = self.draw.choice(["cut", "drop", "put", "deep", "empty"])
        self.text = f"{form} at {at}"
        return {"cut": text[:at], "drop": text[:at] + text[at + 1:],
                "put": text[:at] + self.draw.choice('{}[]",:0e-\\') + text[at:], "deep": "[" * 100_000,
                "empty": ""}[form]

    def change_value(self, text):
        value = json.loads(text)
        self.keys = {key for place in places(value) for key in place if isinstance(key, str)}
        place = self.draw.choice(list(places(value)))
        # Half of the changes are near the root, which has the values that decide.
        if self.draw.random() < 0.5:
            place = place[:self.draw.randint(1, min(2, len(place)))]
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        if self.draw.random() < 0.25:
            del holder[place[-1]]
            self.text = f"{place} removed"
        else:
            holder[place[-1]] = self.draw.choice(VALUES)
            self.text = f"{place} is {holder[place[-1]]!r}"
        return json.dumps(value)


def check(case, change, command):
    done = case.run(*command, allowed=range(-64, 256), timeout=60)
    place = f"{change.path.relative_to(case.folder)}: {change.text}: trainer {' '.join(map(str, command))}"
    text = done.stdout + done.stderr
    if done.returncode not in (0, 2, 3):
        case.failed("no crash", f"{place} ended with {done.returncode}: {done.stderr[-300:]}")
    elif found := EXCEPTION.search(text):
        case.failed("message", f"{place}: '{found.group()}' in {done.stderr[-300:]}")
    elif "\u001b[2J" in text:
        case.failed("message", f"{place}: prints control characters")
    elif done.returncode and change.path.name not in text:
        case.failed("names the file", f"{place}: {done.stderr[-300:]}")
    elif done.returncode and change.is_json and not any(key in done.stderr for key in change.keys):
        case.failed("names a key", f"{place}: {done.stderr[-300:]}")
    else:
        case.passed("ends with 0" if done.returncode == 0 else "names file and key")


def run_case(case, made):
    shutil.copytree(made, case.folder, dirs_exist_ok=True)
    root = case.draw.choice(["run", "run", "run", "folds"])
    files = sorted(path for path in (case.folder / root).rglob("*.json*") if "checkpoints" not in path.parts)
    change = Change(case.draw, case.draw.choice(files))
    commands = COMMANDS[root]
    for command in case.draw.sample(commands, min(3, len(commands))):
        check(case, change, command)


def main():
    generator = Generator("damaged", __doc__, cases=20)
    with tempfile.TemporaryDirectory(prefix="generated.") as folder:
        made = []

        def run(case):
            if not made:
                prepare(Case(generator, 0, pathlib.Path(folder)))
                made.append(folder)
            run_case(case, folder)
        return generator.run(run)


if __name__ == "__main__":
    sys.exit(main())
