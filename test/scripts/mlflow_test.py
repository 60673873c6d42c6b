#!/usr/bin/env python3
"""Runs with run.mlflow before a real MLflow server from PyPI, read back with MLflow's own client."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import support

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
from mlflow.tracking import MlflowClient  # noqa: E402

CONFIG = """name: tracked
model:
  layers: [flatten, dense: {units: 16, activation: relu}, dense: 10]
  loss: softmax_cross_entropy
data: {format: digits, path: "${DIGITS_DIR}", limit: 512, validation_split: 0.25}
optimizer: {adam: {learning_rate: 1.0e-3}}
train: {max_steps: 24, batch_size: 16, class_weight: {"3": 2}}
parallel: {device: cpu, lr_scaling: none}
run:
  mlflow: "${MLFLOW_TRACKING_URI}"
  log_every: 1 steps
  summary_every: 4 steps
  evaluate_every: 12 steps
  checkpoint_every: 8 steps
"""

# A longer run spends its time in steps.
RARELY = [
    "--set", "run.evaluate_every=2000 steps", "--set", "run.checkpoint_every=500 steps", "--set", "run.log_every=50 steps",
    "--set", "run.summary_every=50 steps", "--set", "run.ledger=false", "--set", "run.tensorboard=false",
]


class Server:
    """An MLflow server with its database and artifacts in a folder."""

    def __init__(self, folder):
        self.folder = folder
        [self.port] = support.free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        log = (self.folder / "server.log").open("a")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db",
                "--artifacts-destination", str(self.folder / "artifacts"),
            ],
            cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start:\n" + (self.folder / "server.log").read_text())

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Mlflow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.temporary.name)
        cls.config = cls.work / "tracked.yaml"
        cls.config.write_text(CONFIG)
        cls.server = Server(cls.work)
        cls.server.start()
        cls.client = MlflowClient(tracking_uri=cls.server.url)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.temporary.cleanup()

    def environment(self, **more):
        variables = {"DIGITS_DIR": str(self.work / "digits"), "MLFLOW_TRACKING_URI": self.server.url, **more}
        return {**os.environ, "no_proxy": "127.0.0.1", **variables}

    def command(self, *words):
        return [str(support.TRAINER), *map(str, words)]

    def run_trainer(self, *words, code=0, **more):
        done = subprocess.run(self.command(*words), cwd=self.work, env=self.environment(**more), capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def find_runs(self, experiment):
        found = self.client.get_experiment_by_name(experiment)
        return self.client.search_runs([found.experiment_id], order_by=["attributes.start_time"]) if found else []

    def find_run(self, experiment):
        runs = self.find_runs(experiment)
        self.assertEqual(len(runs), 1)
        return runs[0]

    def read_steps(self, run, key):
        return [metric.step for metric in self.client.get_metric_history(run.info.run_id, key)]

    def read_rows(self, folder, split):
        with (folder / "metrics.csv").open() as file:
            return [row for row in csv.DictReader(file) if row["split"] == split]

    def list_artifacts(self, run):
        return {file.path for file in self.client.list_artifacts(run.info.run_id)}

    def read_artifact(self, run, name):
        return pathlib.Path(self.client.download_artifacts(run.info.run_id, name, str(self.work))).read_text()

    def test_a_run_and_its_report(self):
        folder = self.work / "runs/tracked-1"
        done = self.run_trainer("train", self.config, "--run-dir", folder)
        self.assertNotIn("MLflow", done.stderr)
        run = self.find_run("tracked")
        self.assertEqual(run.info.run_name, "tracked-1")
        tags = self.client.get_experiment(run.info.experiment_id).tags
        self.assertEqual(tags["mlflow.experimentKind"], "custom_model_development")
        self.assertEqual(run.info.status, "FINISHED")
        self.assertGreater(run.info.end_time, run.info.start_time)
        expected = {
            "optimizer.adam.learning_rate": "0.001", "model.layers.1.dense.units": "16", "train.max_steps": "24",
            "train.class_weight.3": "2", "data.format": "digits",
        }
        self.assertEqual({key: run.data.params.get(key) for key in expected}, expected)
        self.assertGreater(len(run.data.params), 80)
        record = json.loads((folder / "run.json").read_text())
        for tag, key in (("version", "program"), ("host", "host"), ("device", "device"), ("data", "data")):
            self.assertEqual(run.data.tags["trainer." + tag], record[key])
        rows = self.read_rows(folder, "train")
        self.assertEqual(self.read_steps(run, "train/loss"), [int(row["step"]) for row in rows])
        for key, column in (("train/loss", "loss"), ("train/accuracy", "accuracy"), ("learning_rate", "learning_rate"),
                            ("epoch", "epoch"), ("images_per_second", "images_per_second")):
            sent = [metric.value for metric in self.client.get_metric_history(run.info.run_id, key)]
            for value, row in zip(sent, rows, strict=True):
                self.assertAlmostEqual(value, float(row[column]), delta=1e-6 * max(1, abs(value)), msg=key)
        for split in ("validation", "test"):
            evaluations = self.read_rows(folder, split)
            self.assertEqual(self.read_steps(run, split + "/accuracy"), [int(row["step"]) for row in evaluations])
            self.assertAlmostEqual(run.data.metrics[split + "/loss"], float(evaluations[-1]["loss"]), places=6)
        self.assertEqual(self.list_artifacts(run), {"config.yaml", "final_metrics.json"})
        self.assertEqual(self.read_artifact(run, "config.yaml"), (folder / "config.yaml").read_text())
        final = json.loads(self.read_artifact(run, "final_metrics.json"))
        self.assertEqual(final["parameters_sha256"], record["finished"]["parameters_sha256"])
        self.assertEqual(final["metrics"]["test"]["accuracy"], record["finished"]["metrics"]["test"]["accuracy"])
        # The report of the finished run reaches the server when the run is resumed.
        self.run_trainer("report", folder)
        self.run_trainer("train", self.config, "--run-dir", folder, "--resume")
        again = self.find_run("tracked")
        self.assertEqual(again.info.status, "FINISHED")
        self.assertEqual(self.list_artifacts(again), {"config.yaml", "final_metrics.json", "report.html"})
        self.assertEqual(self.read_steps(again, "test/accuracy"), self.read_steps(run, "test/accuracy"))

    def test_an_interrupted_run_is_continued(self):
        folder = self.work / "runs/interrupted"
        variables = {"MLFLOW_EXPERIMENT_NAME": "interrupted"}
        process = subprocess.Popen(
            self.command("train", self.config, "--run-dir", folder, "--set", "train.max_steps=20000", *RARELY),
            cwd=self.work, env=self.environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for line in process.stdout:
            if "step 100" in line:
                process.send_signal(signal.SIGTERM)
                break
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, errors)
        run = self.find_run("interrupted")
        self.assertEqual(run.info.status, "KILLED")
        steps = self.read_steps(run, "train/loss")
        self.assertEqual(steps, [int(row["step"]) for row in self.read_rows(folder, "train")])
        more = ["--set", f"train.max_steps={steps[-1] + 200}"]
        self.run_trainer("train", self.config, "--run-dir", folder, "--resume", *RARELY, *more, **variables)
        again = self.find_run("interrupted")
        self.assertEqual(again.info.run_id, run.info.run_id)
        self.assertEqual(again.info.status, "FINISHED")
        self.assertEqual(again.data.params["train.max_steps"], "20000")
        self.assertEqual(again.data.tags["train.max_steps"], str(steps[-1] + 200))
        rows = [int(row["step"]) for row in self.read_rows(folder, "train")]
        self.assertEqual(self.read_steps(again, "train/loss"), rows)
        self.assertEqual(rows[-1], steps[-1] + 200)

    def test_a_run_that_fails_has_this_status(self):
        variables = {"MLFLOW_EXPERIMENT_NAME": "failed"}
        settings = ["--set", "optimizer.adam.learning_rate=1e30"]
        self.run_trainer("train", self.config, "--run-dir", self.work / "runs/failed", *settings, code=5, **variables)
        self.assertEqual(self.find_run("failed").info.status, "FAILED")

    def test_points_and_folds_are_runs(self):
        over = ["--over", "train.batch_size=8,16"]
        self.run_trainer(
            "sweep", self.config, "--dir", self.work / "sweep", *over, "--quiet", MLFLOW_EXPERIMENT_NAME="points"
        )
        points = self.find_runs("points")
        self.assertEqual([run.info.run_name for run in points], ["batch_size=8", "batch_size=16"])
        self.assertEqual([run.data.params["train.batch_size"] for run in points], ["8", "16"])
        self.run_trainer(
            "crossval", self.config, "--folds", 2, "--dir", self.work / "crossval", "--quiet",
            "--set", "data.validation_split=0", MLFLOW_EXPERIMENT_NAME="folds",
        )
        folds = self.find_runs("folds")
        self.assertEqual([run.data.params["data.fold"] for run in folds], ["1", "2"])
        self.assertEqual({run.info.status for run in points + folds}, {"FINISHED"})

    def test_a_job_of_two_ranks_is_one_run(self):
        self.run_trainer(
            "launch", "-n", 2, "--", "train", self.config, "--run-dir", self.work / "runs/job",
            MLFLOW_EXPERIMENT_NAME="job",
        )
        run = self.find_run("job")
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual(self.read_steps(run, "train/loss")[-1], 24)
        self.assertIn("system/step_time/forward_seconds_max", run.data.metrics)

    def test_numbers_that_are_not_finite_are_read(self):
        """The server reads the texts that test/hooks/mlflow_test.cpp expects in requests."""
        run = self.client.create_run(self.client.create_experiment("numbers"))
        values = ["NaN", "Infinity", "-Infinity"]
        metrics = [{"key": str(i), "value": value, "timestamp": 1, "step": 1} for i, value in enumerate(values)]
        request = urllib.request.Request(
            self.server.url + "/api/2.0/mlflow/runs/log-batch",
            json.dumps({"run_id": run.info.run_id, "metrics": metrics}).encode(), {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request):
            pass
        found = self.client.get_run(run.info.run_id).data.metrics
        self.assertNotEqual(found["0"], found["0"])
        self.assertGreater(found["1"], 1e300)
        self.assertLess(found["2"], -1e300)

    def test_z_a_server_that_stops_does_not_end_the_run(self):
        """Comes last, because it stops the server."""
        folder = self.work / "runs/outage"
        variables = {"MLFLOW_EXPERIMENT_NAME": "outage"}
        arguments = ["train", self.config, "--run-dir", folder, "--set", "train.max_steps=6000", *RARELY]
        process = subprocess.Popen(
            self.command(*arguments), cwd=self.work, env=self.environment(**variables), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        deadline = time.monotonic() + 60
        while not any("train/loss" in run.data.metrics for run in self.find_runs("outage")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.server.stop()
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(errors, r"warning: MLflow at .*; the run goes on without waiting for the server")
        self.assertRegex(errors, r"warning: MLflow at .*: \d+ of \d+ rows were not sent, nor how the run ended")
        self.assertEqual(errors.count("MLflow"), 2)
        self.assertEqual(self.read_rows(folder, "train")[-1]["step"], "6000")
        self.server.start()
        run = self.find_run("outage")
        self.assertEqual(run.info.status, "RUNNING")
        self.run_trainer(*arguments, "--resume", **variables)
        run = self.find_run("outage")
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual(self.read_steps(run, "test/accuracy"), [6000])


if __name__ == "__main__":
    support.main()
