#!/usr/bin/env python3
"""`trainer schema --result NAME` under an existing JSON Schema validator: it accepts the files of runs and the lines of
--json of every command, and no other keys."""

import json
import pathlib
import re
import tempfile
import unittest

import jsonschema
import support


class OutputSchema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.run_dir = cls.folder / "run"
        settings = ["data.limit=256", "data.validation_split=0.2", "train.max_steps=8", "run.log_every=2 steps", "run.evaluate_every=4 steps"]
        cls.settings = [word for setting in settings for word in ("--set", setting)]
        cls.digits = {"DIGITS_DIR": str(cls.folder / "digits")}
        cls.lines = cls.run_json("train", "configs/digits.yaml", "--run-dir", cls.run_dir, *cls.settings)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_json(cls, *arguments, code=0):
        done = support.trainer(*arguments, "--json", **cls.digits)
        if done.returncode != code:
            raise AssertionError(f"{arguments} ended with {done.returncode}\n{done.stderr}")
        return support.events(done.stdout)

    def validate(self, name, *values):
        schema = json.loads(support.trainer("schema", "--result", name).stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        self.assertTrue(values)
        for value in values:
            messages = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]
            self.assertEqual(messages, [], str(value)[:400])
            self.assertFalse(validator.is_valid({**value, "another_key": 1}), name)
            for key in value:
                self.assertFalse(validator.is_valid({**value, key: [[{}]]}), f"{name}: {key}")

    def read(self, file):
        return json.loads((self.run_dir / file).read_text())

    def test_train_prints_what_its_schema_says(self):
        self.assertEqual({line["event"] for line in self.lines}, {"model", "start", "step", "evaluation", "checkpoint", "finished"})
        self.validate("train", *self.lines)
        self.validate("run", self.read("run.json"))
        rows = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual({row["split"] for row in rows}, {"train", "validation", "test"})
        self.validate("metrics", *rows)

    def test_watch_prints_what_its_schema_says(self):
        lines = self.run_json("watch", self.run_dir)
        self.assertEqual([line["state"] for line in lines], ["finished"])
        self.validate("watch", *lines)

    def test_export_describes_a_model_as_its_schema_says(self):
        file = self.folder / "digits.onnx"
        self.run_json("export", self.run_dir, "--output", file, "--onnx-output", "probabilities")
        self.validate("exported_model", json.loads(file.with_suffix(".json").read_text()))

    def test_evaluate_prints_and_stores_what_its_schemas_say(self):
        options = ["--calibrate", "--curves", "--abstain", 0.5, "--positive-class", "1"]
        for criterion in ("sensitivity=0.5", f"cost={self.write_costs()}"):
            point = ["--operating-point", criterion]
            lines = self.run_json("evaluate", self.run_dir, *options, *point)
            self.assertEqual(len(lines), 5)
            self.validate("evaluate", *lines)
            self.validate("operating_point", self.read("operating_point.json"))
        for name in ("calibration", "curves", "abstention"):
            self.validate(name, self.read(f"{name}.json"))

    def write_costs(self):
        classes = self.read("run.json")["classes"]
        rows = [["true", *classes], *([name, *(int(name != other) for other in classes)] for name in classes)]
        file = self.folder / "costs.csv"
        file.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
        return file

    def test_crossval_prints_what_its_schema_says(self):
        folder = self.folder / "folds"
        lines = self.run_json(
            "crossval", "configs/digits.yaml", "--folds", 2, "--dir", folder, *self.settings,
            "--operating-point", "cost=1:2", "--positive-class", "1",
        )
        crossval = [line for line in lines if line["event"] == "crossval"]
        self.validate("crossval", *crossval, json.loads((folder / "crossval.json").read_text()))

    def test_each_command_with_json_has_a_schema(self):
        for command in re.findall(r"^  ([a-z]+) ", support.trainer("--help").stdout, re.MULTILINE):
            if "--json" in support.trainer(command, "--help").stdout:
                self.assertEqual(support.trainer("schema", "--result", command).returncode, 0, command)

    def test_commands_on_configs_print_what_their_schemas_say(self):
        config = ["configs/digits.yaml", *self.settings]
        bad = self.folder / "bad.yaml"
        bad.write_text("train: {batch_size: 0}\n")
        self.validate("validate", *self.run_json("validate", "configs/digits.yaml", bad, code=2))
        self.validate("plan", *self.run_json("plan", *config, "--workers", 4, "--link", "10Gbit", "--step-time", "10ms"))
        self.validate("data", *self.run_json("data", *config))
        self.validate("benchmark", *self.run_json("benchmark", *config, "--seconds", 0.1))
        self.validate("benchmark", *self.run_json("benchmark", *config, "--predict", "--seconds", 0.1))
        self.validate("profile", *self.run_json("profile", *config, "--steps", 2, "--trace", self.folder / "trace.json"))
        self.validate("find", *self.run_json("find", "learning-rate", *config, "--steps", 10))
        self.validate("verify", *self.run_json("verify", "resume", *config, "--steps", 4))
        folder = self.folder / "sweep"
        lines = self.run_json("sweep", *config, "--dir", folder, "--over", "seed=1,2", "--to-accuracy", 0.99)
        self.validate("sweep", *lines, json.loads((folder / "table.json").read_text()))
        self.validate("sweep_plan", json.loads((folder / "sweep.json").read_text()))

    def test_commands_on_runs_print_what_their_schemas_say(self):
        run = self.run_dir
        self.validate("predict", *self.run_json("predict", run, "--limit", 4, "--speed", "--top", 2, "--logits"))
        self.validate("evaluate", *self.run_json("evaluate", run, "--ensemble", run))
        now = ["--set", "evaluate.start_delay_secs=0", "--set", "evaluate.throttle_secs=0"]
        self.validate("evaluate", *self.run_json("evaluate", run, "--follow", *now))
        self.validate("compare", *self.run_json("compare", run, run))
        self.validate("diff", *self.run_json("diff", run, run))
        self.validate("report", *self.run_json("report", run))
        self.validate("export", *self.run_json("export", run, "--output", self.folder / "digits.safetensors"))
        self.validate("runs", *self.run_json("runs", run), *self.run_json("runs", "clean", run, "--dry-run"))

    def test_lists_are_what_their_schemas_say(self):
        self.validate("models", *self.run_json("models", "resnet50"))
        self.validate("weights", *self.run_json("weights"), *self.run_json("weights", "--search", "resnet18"))
        self.validate("devices", *self.run_json("devices"))
        self.validate("explain", *self.run_json("explain", "train"))

    def test_another_name_is_an_error_that_lists_the_names(self):
        done = support.trainer("schema", "--result", "photos")
        self.assertEqual(done.returncode, 2)
        self.assertIn("give one of run, ", done.stderr)


if __name__ == "__main__":
    support.main()
