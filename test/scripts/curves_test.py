#!/usr/bin/env python3
"""`trainer evaluate --curves` and `--calibrate` beside scikit-learn: curves, areas, average precision and likelihood are
computed from the probabilities that `trainer predict` prints. DeLong's interval is computed here over all pairs."""

import math
import pathlib
import tempfile
import unittest

import numpy as np
import support
from sklearn import metrics

CONFIG = """name: curves
model: {{layers: [flatten, dense: {units}], loss: {loss}}}
data:
  format: synthetic
  validation_split: 0.3
  synthetic: {{shape: [6, 6, 1], classes: {classes}, train_samples: 300, test_samples: 400}}
optimizer: {{sgd: {{learning_rate: 0.001}}}}
train: {{max_steps: 12, batch_size: 32}}
run: {{dir: {run}, tensorboard: false}}
"""
CASES = {"sigmoid": (2, 1, "binary_cross_entropy"), "two": (2, 2, "softmax_cross_entropy"),
         "four": (4, 4, "softmax_cross_entropy")}  # fmt: skip


def delong(scores, positive):
    pairs = np.sign(scores[positive][:, None] - scores[~positive][None, :]) / 2 + 0.5
    by_positive, by_negative = pairs.mean(axis=1), pairs.mean(axis=0)
    error = math.sqrt(by_positive.var(ddof=1) / len(by_positive) + by_negative.var(ddof=1) / len(by_negative))
    return max(0, pairs.mean() - 1.959963984540054 * error), min(1, pairs.mean() + 1.959963984540054 * error)


class Curves(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, classes, units, loss):
        run = pathlib.Path(self.folder.name) / f"{loss}{classes}{units}"
        config = run.with_suffix(".yaml")
        config.write_text(CONFIG.format(classes=classes, units=units, loss=loss, run=run))
        support.run_json("train", config)
        lines = support.run_json("predict", run, "--split", "test")
        labels = np.array([int(line["label"]) for line in lines])
        scores = np.array([[line["probabilities"][str(c)] for c in range(classes)] for line in lines])
        return run, labels, scores

    def check_class(self, found, scores, positive):
        self.assertAlmostEqual(found["roc_auc"], metrics.roc_auc_score(positive, scores), places=12)
        low, high = delong(scores, positive)
        self.assertAlmostEqual(found["roc_auc_low"], low, places=10)
        self.assertAlmostEqual(found["roc_auc_high"], high, places=10)
        self.assertAlmostEqual(found["average_precision"], metrics.average_precision_score(positive, scores), places=12)
        false_rates, true_rates, thresholds = metrics.roc_curve(positive, scores, drop_intermediate=False)
        roc = found["roc"]
        np.testing.assert_allclose([p["false_positive_rate"] for p in roc], false_rates, atol=1e-12)
        np.testing.assert_allclose([p["true_positive_rate"] for p in roc], true_rates, atol=1e-12)
        self.assertIsNone(roc[0]["threshold"])
        np.testing.assert_allclose([p["threshold"] for p in roc[1:]], thresholds[1:], rtol=1e-5)
        precision, recall, thresholds = metrics.precision_recall_curve(positive, scores)
        curve = found["precision_recall"][::-1]
        # scikit-learn adds the point (1, 0).
        np.testing.assert_allclose([p["precision"] for p in curve], precision[:-1], atol=1e-12)
        np.testing.assert_allclose([p["recall"] for p in curve], recall[:-1], atol=1e-12)
        np.testing.assert_allclose([p["threshold"] for p in curve], thresholds, rtol=1e-5)

    def test_equal_those_of_scikit_learn(self):
        for name, (classes, units, loss) in CASES.items():
            with self.subTest(name):
                run, labels, scores = self.train(classes, units, loss)
                evaluated, curves = support.run_json("evaluate", run, "--curves")
                expected = ["1"] if classes == 2 else [str(c) for c in range(classes)]
                self.assertEqual([one["class"] for one in curves["classes"]], expected)
                for one in curves["classes"]:
                    c = int(one["class"])
                    self.check_class(one, scores[:, c], labels == c)
                self.assertAlmostEqual(np.mean([c["roc_auc"] for c in curves["classes"]]), evaluated["auc"], places=9)
                _, calibrated = support.run_json("evaluate", run, "--calibrate")
                before = calibrated["before"]
                loss_of_sklearn = metrics.log_loss(labels, scores, labels=list(range(classes)))
                self.assertAlmostEqual(before["negative_log_likelihood"], loss_of_sklearn, places=6)
                _, again = support.run_json("evaluate", run, "--curves", "--positive-class", "0")
                self.check_class(again["classes"][0], scores[:, 0], labels == 0)


if __name__ == "__main__":
    support.main()
