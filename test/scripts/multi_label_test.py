#!/usr/bin/env python3
"""Compares the metrics of several labels per image with scikit-learn's, over the logits that predict writes.

    scripts/python_env.sh numpy scikit-learn -- test/scripts/multi_label_test.py TRAINER
"""
import pathlib
import tempfile
import unittest

import numpy as np
import support
from sklearn import metrics

IMAGES, SIDE, LABELS = 150, 8, 4
CONFIG = """model: {{input: [{side}, {side}, 1], loss: binary_cross_entropy, layers: [flatten, dense: {labels}]}}
data: {{format: csv, path: {folder}, validation_split: 0.5}}
optimizer: {{sgd: {{learning_rate: 0.3}}}}
train: {{epochs: 2, batch_size: 16}}
"""


def write_data(folder, unknown):
    random = np.random.default_rng(3)
    targets = random.random((IMAGES, LABELS)) < [0.5, 0.4, 0.3, 0.2]
    known = random.random((IMAGES, LABELS)) >= unknown
    images = random.integers(0, 150, (IMAGES, SIDE, SIDE)).astype(np.uint8)
    images[:, :LABELS, 0] += targets.astype(np.uint8) * 100
    rows = ["image," + ",".join(f"label{i}" for i in range(LABELS))]
    for i in range(IMAGES):
        (folder / f"{i}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + images[i].tobytes())
        rows.append(f"{i}.pgm," + ",".join("" if not k else str(int(t)) for t, k in zip(targets[i], known[i])))
    (folder / "train.csv").write_text("\n".join(rows) + "\n")


class MultiLabelTest(unittest.TestCase):
    def compare(self, unknown, goal=None):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_data(folder, unknown)
            config, run = folder / "config.yaml", folder / "run"
            config.write_text(CONFIG.format(side=SIDE, labels=LABELS, folder=folder))
            support.run_json("train", config, "--run-dir", run)
            options = ["--thresholds", goal] if goal else []
            report = support.run_json("evaluate", run, "--split", "validation", *options)[-1]
            lines = support.run_json("predict", run, "--split", "validation", "--logits")
        names = [f"label{i}" for i in range(LABELS)]
        logits = np.array([line["logits"] for line in lines])
        present = np.array([[name in line["present"] for name in names] for line in lines])
        known = present | np.array([[name in line["absent"] for name in names] for line in lines])
        predicted = np.array([[name in line["labels"] for name in names] for line in lines])
        self.assertEqual(known.all(), unknown == 0)
        f1 = []
        for i, label in enumerate(report["per_label"]):
            rows = known[:, i]
            t, x, p = present[rows, i], logits[rows, i], predicted[rows, i]
            f1.append(metrics.f1_score(t, p, zero_division=0))
            self.assertAlmostEqual(label["auc"], metrics.roc_auc_score(t, x), 12)
            self.assertAlmostEqual(label["average_precision"], metrics.average_precision_score(t, x), 12)
            self.assertAlmostEqual(label["precision"], metrics.precision_score(t, p, zero_division=0), 12)
            self.assertAlmostEqual(label["recall"], metrics.recall_score(t, p, zero_division=0), 12)
            self.assertAlmostEqual(label["f1"], f1[-1], 12)
            if goal:
                curve = [metrics.f1_score(t, x > threshold, zero_division=0) for threshold in [x.min() - 1, *x]]
                self.assertAlmostEqual(label["f1"], max(curve), 12)
        self.assertAlmostEqual(report["f1_macro"], np.mean(f1), 12)
        self.assertAlmostEqual(report["f1_micro"], metrics.f1_score(present[known], predicted[known]), 12)
        if unknown == 0:
            self.assertAlmostEqual(report["auc"], metrics.roc_auc_score(present, logits), 12)
            self.assertAlmostEqual(report["average_precision"], metrics.average_precision_score(present, logits), 12)
            self.assertAlmostEqual(report["subset_accuracy"], metrics.accuracy_score(present, predicted), 12)
            self.assertAlmostEqual(report["hamming_loss"], metrics.hamming_loss(present, predicted), 12)

    def test_metrics_agree_where_all_labels_are_known(self):
        self.compare(0)

    def test_metrics_agree_where_some_labels_are_unknown(self):
        self.compare(0.25)

    def test_thresholds_have_the_largest_f1(self):
        self.compare(0.25, "f1")


if __name__ == "__main__":
    support.main()
