#!/usr/bin/env python3
"""`trainer evaluate` of the ResNet-8 of MLPerf Tiny, a whole Keras model, on the CIFAR-10 test images as JPEGs.

The number of correct samples is that of Keras with the same file on the same images. One more or less is an error of a
layer, of the import or of the decoder."""

import os
import pathlib
import tempfile
import unittest
import zipfile

import support

SHARED = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA", "/nonexistent"))
WEIGHTS = SHARED / "weights/mlperf_tiny_resnet8_cifar10.h5"
IMAGES = SHARED / "cifar10_jpeg/test.zip"
CONFIG = support.ROOT / "test/scripts/mlperf_tiny_resnet8.yaml"


class ResNet8(unittest.TestCase):
    def test_evaluate_gives_7548_of_10000(self):
        for file in (WEIGHTS, IMAGES):
            if not file.exists():
                self.skipTest(f"{file} is absent; set TRAINER_SHARED_DATA to a folder that has it")
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(IMAGES) as images:
                images.extractall(folder)
            result = support.trainer(
                "evaluate", CONFIG, "--json", WEIGHTS_DIR=str(WEIGHTS.parent), CIFAR10_TEST_DIR=folder
            )
        self.assertEqual(result.returncode, 0, result.stderr)
        (evaluated,) = support.events(result.stdout)
        self.assertEqual(evaluated["count"], 10000)
        self.assertEqual(evaluated["accuracy"], 0.7548)
        self.assertEqual(sum(row[i] for i, row in enumerate(evaluated["confusion"])), 7548)
        self.assertEqual([row["support"] for row in evaluated["per_class"]], [1000] * 10)
        # Nothing but the order of the classes, which the file does not have, needs a note.
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("airplane, automobile", result.stderr)


if __name__ == "__main__":
    support.main()
