#!/usr/bin/env python3
"""`trainer schema` under an existing JSON Schema validator: it is a valid schema, accepts every config of ours and
refuses what the program refuses."""

import copy
import json
import re
import tempfile
import unittest

import jsonschema
import support
import yaml


class Loader(yaml.SafeLoader):
    """PyYAML reads `1e-3` as a string; YAML 1.2 and trainer read a number."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$"), list("-+0123456789.")
)
# A later resolver does not replace an earlier one: integers stay integers because theirs comes first.

BAD = {
    "unknown key": lambda c: c.update(optimiser="adam"),
    "unknown nested key": lambda c: c["train"].update(batchsize=3),
    "missing section": lambda c: c.pop("model"),
    "text for a number": lambda c: c["train"].update(batch_size="many"),
    "list for a section": lambda c: c.update(train=[1, 2]),
    "unknown layer": lambda c: c["model"]["layers"].append({"convolution": {"filters": 3}}),
    "unknown layer option": lambda c: c["model"]["layers"].append({"conv": {"filters": 3, "stride": 2}}),
    "two kinds in one layer": lambda c: c["model"]["layers"].append({"conv": {"filters": 3}, "dense": {"units": 2}}),
    "unknown activation": lambda c: c["model"]["layers"].append({"activation": "relu7"}),
    "unknown optimizer": lambda c: c.update(optimizer={"descent": {}}),
    "unknown loss": lambda c: c["model"].update(loss="hinge"),
    "unknown precision": lambda c: c["train"].update(precision="float8"),
    "unknown data format": lambda c: c["data"].update(format="parquet"),
    "bad duration": lambda c: c.update(run={"checkpoint_every": "ten steps"}),
}


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = support.trainer("schema")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        cls.schema = json.loads(done.stdout)
        cls.validator = jsonschema.Draft202012Validator(cls.schema)

    def load(self, path):
        return yaml.load(path.read_text(), Loader)

    def messages(self, config):
        return [f"{error.json_path}: {error.message[:200]}" for error in self.validator.iter_errors(config)]

    def test_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.assertIn("2020-12", self.schema["$schema"])

    def test_accepts_our_configs(self):
        paths = sorted((support.ROOT / "configs").rglob("*.yaml"))
        self.assertTrue(paths)
        for path in paths + [support.ROOT / "scripts/bench/cnn.yaml"]:
            with self.subTest(path.name):
                self.assertEqual(self.messages(self.load(path)), [])

    def test_schema_rejects_what_the_program_rejects(self):
        good = self.load(support.ROOT / "configs/digits.yaml")
        for name, spoil in BAD.items():
            with self.subTest(name), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                config = copy.deepcopy(good)
                spoil(config)
                self.assertNotEqual(self.messages(config), [])
                file.write(yaml.safe_dump(config))
                file.flush()
                done = support.trainer("validate", file.name)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
