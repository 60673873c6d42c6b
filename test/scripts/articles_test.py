#!/usr/bin/env python3
"""scripts/articles/*.sh --quick: every row is trained once, the table has its numbers beside the published ones, and a
second start trains nothing."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import support

ARTICLES = support.ROOT / "scripts" / "articles"
ROWS = {
    "zalando": ["fashion-mnist-1", "fashion-mnist-2", "fashion-mnist-2-lr", "oct-1", "oct-2"],
    "wandb": ["1-gpu-ft", "1-gpu-ft-lrs", "4-gpu-ft-no-pref", "4-gpu-ft-pref", "4-gpu-ft-largerbs", "frozen",
              "frozen-then-ft"],
    "rossum": ["synthetic-1", "synthetic-2", "no-prefetch-1", "prefetch-1", "no-prefetch-2", "prefetch-2"],
    "tensorflow": ["1-worker", "2-workers-auto", "2-workers-ring", "2-workers-own-shuffle", "2-workers-train-only",
                   "1-worker-exact", "2-workers-exact"],
    "clusterone": ["async-1", "async-2", "async-4", "sync-1", "sync-2", "sync-4", "local"],
}
# Drawn data and processors are what every machine has.
HERE = {**os.environ, "TRAINER": str(support.TRAINER), "TRAINER_CUDA_PLUGIN": "/nonexistent", "EPOCHS": "", "QUICK": "1"}


class Articles(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "an article"

    def run_script(self, name, *arguments):
        return subprocess.run([ARTICLES / f"{name}.sh", "--out", self.out, *arguments], env=HERE, capture_output=True,
                              text=True)

    def check(self, name):
        done = self.run_script(name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        table = json.loads((self.out / "table.json").read_text())
        # rossum.sh goes on to 4 and 8 replicas where there are so many cores.
        rows = {row["name"]: row for row in table["rows"]}
        self.assertLessEqual(set(ROWS[name]), set(rows))
        for row in rows.values():
            self.assertGreater(row["total_seconds"], 0)
            self.assertGreater(row["images_per_second"], 0)
            self.assertIn(row["name"], done.stdout)
            report = pathlib.Path(row["run"]) / "report.html"
            self.assertIn("</html>", report.read_text())
        self.assertTrue((self.out / "compare.txt").read_text())
        self.assertIn("measured on: no GPU", (self.out / "table.md").read_text())
        return done, rows

    def test_wandb_has_its_rows(self):
        done, rows = self.check("wandb")
        self.assertEqual([row["replicas"] for row in rows.values()], [1, 1, 4, 4, 4, 1, 1])
        self.assertEqual([row["published"]["seconds"] for row in rows.values()], [2090, 2080, 1046, 1040, 887, None, None])
        self.assertEqual([row["global_batch"] for row in rows.values()], [2, 2, 8, 8, 16, 4, 2])
        for text in ("| 2080 ", "| 0.98 ", "4 x K80", "published: 1.99x"):
            self.assertIn(text, done.stdout)
        configs = {name: (self.out / name / "config.yaml").read_text() for name in rows}
        self.assertIn("constant:", configs["1-gpu-ft"])
        self.assertIn("ramp_up:", configs["1-gpu-ft-lrs"])
        self.assertIn("prefetch: 0", configs["4-gpu-ft-no-pref"])
        self.assertNotIn("prefetch: 0", configs["4-gpu-ft-pref"])
        self.assertIn(f'weights: {self.out / "frozen"}'.replace('"', ""), configs["frozen-then-ft"].replace('"', ""))

        # Rows that have finished stay; one that has not is trained again.
        record = self.out / "4-gpu-ft-pref" / "run.json"
        content = json.loads(record.read_text())
        del content["finished"]
        record.write_text(json.dumps(content))
        done = self.run_script("wandb")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("finished earlier"), 6)
        self.assertIn("4-gpu-ft-pref: trains", done.stdout)

    def test_zalando_has_its_rows(self):
        _, rows = self.check("zalando")
        self.assertEqual([row["global_batch"] for row in rows.values()], [64, 128, 128, 16, 32])
        self.assertEqual(rows["oct-2"]["published"]["accuracy"], 0.95)

    def test_rossum_has_its_rows(self):
        done, rows = self.check("rossum")
        self.assertEqual(rows["prefetch-2"]["replicas"], 2)
        self.assertIn("efficiency against 1 replica, 1: 100%", done.stdout)

    def test_tensorflow_has_its_rows(self):
        done, rows = self.check("tensorflow")
        self.assertEqual(rows["2-workers-exact"]["parameters_sha256"], rows["1-worker-exact"]["parameters_sha256"])
        self.assertIn("article's TF_CONFIG (free ports in place of its own): parameters equal those", done.stdout)

    def test_clusterone_has_its_rows(self):
        _, rows = self.check("clusterone")
        self.assertEqual([row["steps"] for row in rows.values()], [80, 80, 80, 80, 40, 20, 80])
        self.assertEqual([row["replicas"] for row in rows.values()], [1, 2, 4, 1, 2, 4, 1])

    def test_a_failure_is_reported(self):
        done = subprocess.run([ARTICLES / "rossum.sh", "--out", self.out], capture_output=True, text=True,
                              env={**HERE, "TRAINER": "/bin/false"})
        self.assertNotEqual(done.returncode, 0)
        done = subprocess.run([ARTICLES / "rossum.sh", "--out", self.out], capture_output=True, text=True,
                              env={**HERE, "TRAINER": "/nonexistent"})
        self.assertIn("no program /nonexistent", done.stderr)


if __name__ == "__main__":
    support.main()
