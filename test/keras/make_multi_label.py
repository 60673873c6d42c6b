#!/usr/bin/env python3
"""Writes multi_label.json: scikit-learn's metrics of several labels per image.

    scripts/python_env.sh numpy scikit-learn -- test/keras/make_multi_label.py
"""
import json
import math
import pathlib

import numpy as np
import sklearn
from sklearn import metrics

# Name, samples, labels, digits kept of the logits (few make equal scores), share of unknown labels.
CASES = [("plain", 60, 4, 3, 0), ("ties", 90, 3, 0, 0), ("one_label", 40, 1, 2, 0), ("rare", 120, 14, 2, 0),
         ("unknown", 80, 5, 1, 0.3)]


def make_case(name, samples, labels, digits, unknown):
    random = np.random.default_rng(len(name) + samples)
    targets = (random.random((samples, labels)) < np.linspace(0.5, 0.1, labels)).astype(float)
    logits = np.round(random.normal(0, 1.5, (samples, labels)) + 1.2 * targets - 0.4, digits) + 0.0
    known = random.random((samples, labels)) >= unknown
    return targets, logits, known


def score(targets, logits, known):
    predicted = (logits > 0).astype(float)
    per_label = []
    for i in range(targets.shape[1]):
        rows = known[:, i]
        t, x, p = targets[rows, i], logits[rows, i], predicted[rows, i]
        per_label.append({
            "auc": metrics.roc_auc_score(t, x),
            "average_precision": metrics.average_precision_score(t, x),
            "precision": metrics.precision_score(t, p, zero_division=0),
            "recall": metrics.recall_score(t, p, zero_division=0),
            "f1": metrics.f1_score(t, p, zero_division=0)})
    result = {
        "auc": float(np.mean([one["auc"] for one in per_label])),
        "average_precision": float(np.mean([one["average_precision"] for one in per_label])),
        "f1_macro": float(np.mean([one["f1"] for one in per_label])),
        "f1_micro": metrics.f1_score(targets[known], predicted[known], zero_division=0),
        "hamming_loss": 1 - metrics.accuracy_score(targets[known], predicted[known]),
        "per_label": per_label}
    # A sample's unknown labels count as predicted right, and one without a known label not at all.
    rows = known.any(axis=1)
    agreed = np.where(known, predicted, targets)
    result["subset_accuracy"] = metrics.accuracy_score(targets[rows], agreed[rows])
    if known.all() and targets.shape[1] > 1:  # the functions of several labels give the same
        for key, value in {
                "auc": metrics.roc_auc_score(targets, logits, average="macro"),
                "average_precision": metrics.average_precision_score(targets, logits, average="macro"),
                "f1_macro": metrics.f1_score(targets, predicted, average="macro", zero_division=0),
                "f1_micro": metrics.f1_score(targets, predicted, average="micro", zero_division=0),
                "hamming_loss": metrics.hamming_loss(targets, predicted)}.items():
            assert math.isclose(result[key], value, rel_tol=1e-12, abs_tol=1e-15), (key, result[key], value)
    return result


def main():
    content = {"scikit_learn": sklearn.__version__, "cases": []}
    for name, samples, labels, digits, unknown in CASES:
        targets, logits, known = make_case(name, samples, labels, digits, unknown)
        rows = [[int(t) if k else None for t, k in zip(*both)] for both in zip(targets, known)]
        content["cases"].append({"name": name, "labels": labels, "logits": logits.tolist(), "targets": rows,
                                 **score(targets, logits, known)})
    path = pathlib.Path(__file__).with_name("multi_label.json")
    path.write_text(json.dumps(content, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
