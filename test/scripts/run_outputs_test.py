#!/usr/bin/env python3
"""A tiny run, read with the tools that users have: TensorBoard, safetensors, csv and json."""

import csv
import json
import pathlib
import tempfile
import unittest

import numpy as np
import support
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

STEPS = 24


class RunOutputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.temporary.name)
        cls.run_dir = folder / "run"
        settings = [
            "data.limit=512", f"train.max_steps={STEPS}", "run.log_every=1 steps", "run.summary_every=4 steps",
            "run.evaluate_every=12 steps", "run.checkpoint_every=8 steps",
        ]
        arguments = [word for setting in settings for word in ("--set", setting)]
        cls.done = support.trainer(
            "train", "configs/digits.yaml", "--json", "--run-dir", cls.run_dir, *arguments,
            DIGITS_DIR=str(folder / "digits"),
        )
        if cls.done.returncode != 0:
            raise RuntimeError(f"training failed with {cls.done.returncode}:\n{cls.done.stderr}")
        cls.events = support.events(cls.done.stdout)
        cls.tensorboard = cls.load_tensorboard()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def load_tensorboard(cls):
        """By split, and "" for the run itself."""
        folders = {path.parent for path in cls.run_dir.rglob("events.out.tfevents.*")}
        loaded = {}
        for folder in folders:
            accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
            accumulator.Reload()
            loaded["" if folder.name == "tensorboard" else folder.name] = accumulator
        return loaded

    def test_json_events_have_all_steps(self):
        steps = [event["step"] for event in self.events if event["event"] == "step"]
        self.assertEqual(steps, list(range(1, STEPS + 1)))
        finished = self.events[-1]
        self.assertEqual(finished["event"], "finished")
        self.assertEqual(finished["steps"], STEPS)
        self.assertEqual(pathlib.Path(finished["run"]), self.run_dir)
        self.assertGreater(finished["images_per_second"], 0)
        self.assertEqual(len(finished["parameters_sha256"]), 64)
        self.assertEqual(set(finished["metrics"]["test"]) & {"loss", "accuracy", "count"}, {"loss", "accuracy", "count"})

    def test_evaluate_prints_the_same(self):
        test = self.events[-1]["metrics"]["test"]
        digits = str(pathlib.Path(self.temporary.name) / "digits")
        done = support.trainer("evaluate", self.run_dir, "--json", DIGITS_DIR=digits)
        self.assertEqual(done.returncode, 0, done.stderr)
        evaluated = support.events(done.stdout)[-1]
        self.assertEqual(evaluated["event"], "evaluated")
        for key in ("loss", "accuracy", "count"):
            self.assertEqual(evaluated[key], test[key], key)

    def test_tensorboard_has_the_scalars(self):
        self.assertEqual(set(self.tensorboard), {"", "train", "test"})
        expected = {"train": {"Loss", "Metrics/accuracy", "learning_rate"}, "test": {"Loss", "Metrics/accuracy"}}
        for split, names in expected.items():
            listed = self.tensorboard[split].Tags()["scalars"]
            self.assertLessEqual(names, set(listed))
            self.assertEqual(sorted(listed)[0], "Loss")
            for name in names:
                values = [event.value for event in self.tensorboard[split].Scalars(name)]
                self.assertTrue(values and np.all(np.isfinite(values)), f"{split} {name}: {values}")
        steps = [event.step for event in self.tensorboard["train"].Scalars("Loss")]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], STEPS)

    def test_tensorboard_scalars_agree_with_the_events(self):
        logged = self.tensorboard["test"].Scalars("Metrics/accuracy")[-1]
        self.assertAlmostEqual(logged.value, self.events[-1]["metrics"]["test"]["accuracy"], places=6)
        rate = self.tensorboard["train"].Scalars("learning_rate")[-1]
        self.assertAlmostEqual(rate.value, 1e-3, places=9)

    def test_tensorboard_has_config_and_parameters(self):
        run = self.tensorboard[""]
        config = run.Tensors("config")[-1].tensor_proto.string_val[0].decode()
        self.assertTrue(config.startswith("```yaml") and "name: digits" in config, config[:200])
        self.assertEqual(run.SummaryMetadata("config").plugin_data.plugin_name, "text")
        plugin = run.SummaryMetadata("_hparams_/session_start_info").plugin_data
        self.assertEqual(plugin.plugin_name, "hparams")
        data = plugin_data_pb2.HParamsPluginData.FromString(plugin.content)
        hparams = data.session_start_info.hparams
        self.assertEqual(hparams["optimizer.adam.learning_rate"].number_value, 1e-3)
        self.assertEqual(hparams["model.loss"].string_value, "softmax_cross_entropy")
        end = run.SummaryMetadata("_hparams_/session_end_info").plugin_data
        self.assertEqual(plugin_data_pb2.HParamsPluginData.FromString(end.content).session_end_info.status, 1)

    def test_tensorboard_has_images(self):
        self.assertEqual(self.tensorboard["train"].Tags()["images"], ["samples"])
        names = self.tensorboard["test"].Tags()["images"]
        confusion = [name for name in names if "confusion" in name]
        self.assertTrue(confusion, f"images: {names}")
        image = self.tensorboard["test"].Images(confusion[0])[-1]
        self.assertTrue(image.encoded_image_string.startswith(b"\x89PNG"))
        self.assertGreaterEqual(min(image.width, image.height), 10)

        import io

        from PIL import Image

        picture = Image.open(io.BytesIO(image.encoded_image_string))
        picture.load()  # decodes, checksums included
        self.assertEqual(picture.size, (image.width, image.height))

    def test_safetensors_reads_checkpoints(self):
        paths = sorted((self.run_dir / "checkpoints").glob("step-*.safetensors"))
        self.assertEqual([path.name for path in paths], ["step-00000016.safetensors", "step-00000024.safetensors"])
        for path in paths:
            with safe_open(path, "numpy") as tensors:
                self.assertLessEqual({"conv2d/kernel", "conv2d_2/bias", "dense_1/kernel"}, set(tensors.keys()))
                self.assertEqual(tensors.get_tensor("conv2d/kernel").shape, (3, 3, 1, 32))
                self.assertEqual(tensors.get_tensor("dense/kernel").shape, (576, 64))
                for name in tensors.keys():
                    self.assertTrue(np.all(np.isfinite(tensors.get_tensor(name))), name)
                self.assertIn("trainer", tensors.metadata())

    def test_metrics_files_have_the_rows(self):
        with (self.run_dir / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertTrue(rows)
        self.assertIn("step", rows[0])
        for row in rows:
            self.assertNotIn(None, row, "a row has more fields than the header")
            self.assertNotIn(None, row.values(), "a row has fewer fields than the header")
        self.assertEqual(int(rows[-1]["step"]), STEPS)

        lines = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        self.assertTrue(lines)
        self.assertEqual(max(line["step"] for line in lines if "step" in line), STEPS)


if __name__ == "__main__":
    unittest.main()
