"""The results of runs."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

try:
    import numpy
except ImportError as missing:
    raise ImportError("imagetrainer.Run needs NumPy: pip install numpy") from missing


class Run:
    """A run folder, as it is when this object is made.

    path: the folder of a run, which may still be in training.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        record = self.path / "run.json"
        if not record.is_file():
            raise FileNotFoundError(f"{self.path} is not the folder of a run: it has no run.json")
        self.record: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        """run.json; configs/output_reference.md explains its keys."""
        self.classes: tuple[str, ...] = tuple(self.record["classes"])
        """The names of the classes or labels."""
        self.metrics: dict[str, dict[str, numpy.ndarray]] = _read_metrics(self.path / "metrics.jsonl")
        """By split ("train", "validation", "test") and column ("step", "epoch", "loss", "accuracy", ...): an array with
        a value for each row of metrics.csv. Numbers are float64, NaN where there is none, and steps int64."""

    def __repr__(self) -> str:
        return f"<imagetrainer.Run {str(self.path)!r}>"


def _read_metrics(path: pathlib.Path) -> dict[str, dict[str, numpy.ndarray]]:
    splits: dict[str, list[dict[str, Any]]] = {}
    if not path.is_file():
        return {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last line of a run that is writing it
        splits.setdefault(row.pop("split"), []).append(row)
    return {split: {name: _to_array(name, rows) for name in rows[-1]} for split, rows in splits.items()}


def _to_array(name: str, rows: list[dict[str, Any]]) -> numpy.ndarray:
    values = [row.get(name) for row in rows]
    if any(isinstance(value, str) for value in values):
        return numpy.array([value or "" for value in values])
    return numpy.array(values, numpy.int64 if name == "step" else numpy.float64)
