#!/usr/bin/env python3
"""Data sets and files as people have them, which shared/data/cases/make_cases.py draws: what the program reads, or says.

    scripts/python_env.sh numpy pillow -- test/scripts/cases_test.py TRAINER [-v]

Prints a line for each case: its name and what was found.
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import support
from PIL import Image, ImageOps

MAKE_CASES = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA", "/nonexistent")) / "cases/make_cases.py"
CONFIG = """model: {{input: [{height}, {width}, {channels}], loss: {loss}, layers: [flatten: {{name: pixels}}, dense: {classes}]}}
data: {{{data}}}
optimizer: {{sgd: {{learning_rate: 0.1}}}}
train: {{max_steps: 1, batch_size: 4}}
"""


class Data:
    """What `trainer data` says of a config."""

    def __init__(self, code, text):
        self.code = code
        events = support.events(text)
        self.splits = {event["split"]: event for event in events if event["event"] == "split"}
        self.summary = next((event for event in events if event["event"] == "data"), {})

    @property
    def classes(self):
        return self.summary["classes"]

    def counts(self, split):
        return self.splits[split]["class_counts"]

    @property
    def notes(self):
        return [note for split in self.splits.values() for note in split["notes"]]


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not MAKE_CASES.exists():
            raise unittest.SkipTest(f"{MAKE_CASES} is absent; set TRAINER_SHARED_DATA to a folder that has it")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        subprocess.run([sys.executable, MAKE_CASES, cls.folder], check=True, stdout=subprocess.DEVNULL)
        with open(cls.folder / "CASES.tsv", encoding="utf-8") as file:
            cls.left = {row["case"] for row in csv.DictReader(file, delimiter="\t")} - {"files_tiff", "files_other"}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        if len(sys.argv) > 1:  # tests were selected
            return
        assert not cls.left, f"cases without a test: {', '.join(sorted(cls.left))}"

    def found(self, case, text):
        """Prints the case and takes it off the list of those that are left."""
        print(f"{case}: {text}")
        self.left.discard(case)

    def write_config(self, data, loss="softmax_cross_entropy", classes=2, size=(16, 16, 3)):
        path = self.folder / "config.yaml"
        height, width, channels = size
        path.write_text(CONFIG.format(data=data, loss=loss, classes=classes, height=height, width=width, channels=channels))
        return path

    def look(self, data, **options):
        """`trainer data` of a config; the text of an error instead where there is one."""
        done = support.trainer("data", self.write_config(data, **options), "--json")
        return Data(done.returncode, done.stdout) if done.stdout else done.stderr

    def folders(self, case, more=""):
        return self.look(f"format: image_folder, path: {self.folder / case}{more}")

    def listed(self, case, more="", **options):
        return self.look(f"format: csv, path: {self.folder / case}, validation_split: 0{more}", **options)

    # ---- folders

    def test_names_of_splits(self):
        for case in ("layout_training_testing", "layout_upper", "layout_seg", "layout_train_eval"):
            data = self.folders(case)
            self.assertEqual(data.counts("train"), {"a": 6, "b": 6})
            self.assertEqual(data.counts("test"), {"a": 3, "b": 3})
            self.found(case, "train and test of the classes a and b")
        data = self.folders("layout_valid")
        self.assertEqual([data.counts(split) for split in ("train", "validation", "test")],
                         [{"a": 6, "b": 6}, {"a": 3, "b": 3}, {"a": 3, "b": 3}])
        self.found("layout_valid", "train, validation and test")

    def test_folder_that_is_not_a_split_is_not_used(self):
        data = self.folders("layout_holdout")
        self.assertEqual(data.counts("train"), {"a": 4, "b": 4})
        self.assertIn("holdout contains a folder per class, but is not used", data.notes[0])
        # A config that the program writes for the folder says so too.
        folder = self.folder / "layout_holdout"
        for command in (["new", folder, "--output", self.folder / "written.yaml"], ["data", folder]):
            done = subprocess.run([support.TRAINER, *command], cwd=self.folder, capture_output=True, text=True, check=True)
            self.assertIn("holdout contains a folder per class, but is not used", done.stderr)
        self.found("layout_holdout", data.notes[0].split("/")[-1])

    def test_folders_without_images_are_not_classes(self):
        data = self.folders("layout_leftovers")
        self.assertEqual(data.classes, ["a", "b"])
        self.assertIn("3 folders are not used as classes", data.notes[0])
        self.found("layout_leftovers", data.notes[0].split(": ", 1)[1])

    def test_order_of_classes_is_that_of_their_text(self):
        data = self.folders("layout_numbers")
        self.assertEqual(data.classes, sorted(map(str, range(12))))
        self.assertEqual(data.summary["class_order"], "text")
        data = self.folders("layout_numbers", ", class_order: number")
        self.assertEqual(data.classes, list(map(str, range(12))))
        self.found("layout_numbers", "the order text, as in Keras, is named; class_order: number gives that of a list")
        data = self.folders("layout_unicode")
        self.assertEqual(data.classes, ["Caf\u00e9", "Tee"])
        self.assertEqual([data.counts(split)["Caf\u00e9"] for split in ("train", "test")], [5, 3])
        self.found("layout_unicode", "one class Café of 5 and 3 files")

    def test_photo_in_two_classes_is_a_conflict(self):
        data = self.folders("layout_conflict")
        self.assertEqual((data.code, data.summary["conflicts"]), (0, 1))
        self.assertIn("another class", data.summary["duplicates"][0])
        counts = {}
        for rule in ("keep", "first", "drop"):
            done = support.trainer("train", self.write_config(
                f"format: image_folder, path: {self.folder / 'layout_conflict'}, validation_split: 0, on_conflict: {rule}"),
                "--json", "--overwrite", "--batch-size", "1", "--run-dir", self.folder / "run")
            self.assertEqual(done.returncode, 0, done.stderr)
            counts[rule] = next(event for event in support.events(done.stdout) if event["event"] == "start")["steps_per_epoch"]
        self.assertEqual(counts, {"keep": 13, "first": 12, "drop": 11})
        self.found("layout_conflict", f"reported; images trained on: {counts}")

    def test_groups_are_in_one_split(self):
        data = self.folders("groups", r", validation_split: 0.25, group_by: '(person\d+)'")
        self.assertEqual((data.code, data.summary["shared_groups"]), (0, []))
        proposal = self.folders("groups").summary["group_proposal"]
        self.assertIn(r"data.group_by: '(person\d+)'", proposal)
        self.found("groups", "no patient is in two splits; data proposes the pattern")

    # ---- lists

    def test_unusual_lists_are_read(self):
        for case in ("csv_blanks", "csv_utf16", "csv_returns", "csv_backslashes"):
            data = self.listed(case)
            self.assertEqual(data.counts("train"), {"0": 3, "1": 3})
            self.found(case, "the classes 0 and 1 of 3 files each")
        data = self.listed("csv_one_hot", classes=3)
        self.assertEqual(data.counts("train"), {"MEL": 2, "NV": 2, "BCC": 2})
        self.found("csv_one_hot", "the classes MEL, NV, BCC of 2 files each")
        data = self.listed("csv_floats", classes=11)
        self.assertEqual(data.classes, list(map(str, range(11))))
        self.assertEqual([label for label, count in data.counts("train").items() if count], ["0", "1", "2", "10"])
        data = self.listed("csv_floats", ", classes: ['0', '1', '2', '10']", classes=4)
        self.assertEqual(data.counts("train"), {"0": 2, "1": 2, "2": 1, "10": 1})
        self.found("csv_floats", "0, 1, 2, 10 in this order; whole numbers are indices of classes unless data.classes lists them")

    def test_error_of_an_unusual_header_has_the_keys(self):
        error = self.listed("csv_header")
        self.assertIn("train.csv:1: looks like a header", error)
        self.assertIn("data.csv: {image_column: photo, label_column: species}", error)
        self.found("csv_header", error.split("train.csv:", 1)[1].strip())

    def test_several_labels_are_counted(self):
        data = self.listed("csv_multi_hot", loss="binary_cross_entropy", classes=3)
        self.assertEqual(data.counts("train"), {"edema": 3, "mass": 3, "nodule": 2})
        self.found("csv_multi_hot", "3 labels; 1 of 18 is unknown")
        data = self.listed("csv_cells", ", csv: {label_separator: '|'}", loss="binary_cross_entropy", classes=3)
        self.assertEqual(data.counts("train"), {"edema": 3, "mass": 3, "nodule": 3})
        error = self.listed("csv_cells", classes=5)
        self.assertIn("'edema|mass' looks like several labels", error)
        self.assertIn("data.csv: {label_separator: '|'}", error)
        self.found("csv_cells", "3 labels with label_separator, which the error without it names")

    def test_similar_names(self):
        data = self.listed("csv_case", classes=4)
        self.assertTrue(any("'Cat', 'cat', 'cat '" in note for note in data.notes), data.notes)
        self.found("csv_case", data.notes[0].split(": ", 1)[1])

    # ---- files

    def pixels(self, name, size=(16, 16, 3), more=""):
        """The pixels that the program reads, 0 to 255; the text of an error instead where there is one."""
        config = self.write_config(f"format: image_folder, path: {self.folder / 'layout_upper'}{more}", size=size)
        features = self.folder / "features.npy"
        done = support.trainer("predict", config, self.folder / name, "--features", features, "--layer", "pixels",
                               "--overwrite", "--on-error", "fail")
        return np.load(features).reshape(size) * 255 if done.returncode == 0 else done.stderr

    def expect_pixels(self, name, expected, **options):
        expected = np.asarray(expected, np.float64)
        if expected.ndim < 3:
            expected = np.broadcast_to(expected, (16, 16, 3))
        np.testing.assert_allclose(self.pixels(name, size=expected.shape, **options), expected, atol=1e-3)

    def test_tiff_files_have_their_bands(self):
        for kind, bands in (("bands4", 4), ("bands4_without_tag", 4), ("bands13_uint16", 13)):
            name = f"files_tiff/{kind}.tif"
            self.assertIn(f"has {bands} bands", self.pixels(name))
            self.found(name, f"rejected: has {bands} bands; give data.channels: {bands}")
        ramp = np.broadcast_to([10.0, 100, 200, 250], (16, 16, 4))
        self.expect_pixels("files_tiff/bands4.tif", ramp, more=", channels: 4")
        for kind, colour in (("rgb_unassociated_alpha", (10, 100, 200)), ("rgb_associated_alpha", (10, 102, 204)),
                             ("rgb_other_sample", (10, 100, 200)), ("rgb_planar", (10, 100, 200)), ("big", (10, 100, 200))):
            name = f"files_tiff/{kind}.tif"
            self.expect_pixels(name, colour)
            self.found(name, ", ".join(map(str, colour)))
        for kind, words in (("int16", "16-bit signed numbers"), ("grey_float", "32-bit floating-point numbers")):
            name = f"files_tiff/{kind}.tif"
            self.assertIn(words, self.pixels(name))
            self.found(name, f"rejected: has {words}")

    def test_twelve_bits_use_all_levels(self):
        halves = np.zeros((16, 16, 1))
        halves[8:] = 255
        for name in ("files_tiff/grey_12_in_16.tif", "files_other/grey_12_in_16.png"):
            self.expect_pixels(name, halves, more=", channels: 1, range: [0, 4095]")
            self.found(name, "0 and 255 with data.range: [0, 4095]")
        listing = self.folder / "files_tiff/list.csv"
        listing.write_text("image,label\ngrey_12_in_16.tif,0\ngrey_12_in_16.tif,1\n")
        data = self.look(f"format: csv, train: {{path: {listing}}}, validation_split: 0")
        self.assertTrue(any("4095" in note and "data.range" in note for note in data.notes), data.notes)

    def test_orientation_and_frames_are_followed(self):
        for turn in (3, 6, 8):
            name = f"files_other/orientation_{turn}.webp"
            with Image.open(self.folder / name) as image:
                upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
            self.expect_pixels(name, upright)
            self.found(name, f"turned as Pillow turns it, {upright.shape[1]} x {upright.shape[0]}")
        for name in ("files_other/animated.webp", "files_other/animated.gif"):
            with Image.open(self.folder / name) as image:
                self.expect_pixels(name, np.asarray(image.convert("RGB")))
            self.found(name, "its first frame")

    def test_plain_and_one_bit_pnm_are_read(self):
        grey = np.array([0, 85, 170, 255, 170, 85.0]).reshape(2, 3, 1)
        self.expect_pixels("files_other/plain.pgm", grey, more=", channels: 1")
        self.found("files_other/plain.pgm", "0, 85, 170, 255, 170, 85")
        bits = np.array([[1, 0] * 5, [0, 1] * 5])[:, :, None]
        self.expect_pixels("files_other/bits.pbm", (1 - bits) * 255.0, more=", channels: 1")
        self.found("files_other/bits.pbm", "1 is black")


if __name__ == "__main__":
    support.main()
