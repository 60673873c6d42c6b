"""Running the trainer binary that a test was given as its first argument."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None


def trainer(*arguments, **environment):
    return subprocess.run(
        [TRAINER, *map(str, arguments)], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )


def events(text):
    """Every line of standard output under --json is an object."""
    return [json.loads(line) for line in text.splitlines()]
