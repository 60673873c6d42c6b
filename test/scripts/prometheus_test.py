#!/usr/bin/env python3
"""Runs with run.prometheus before Debian's Prometheus, which scrapes one, and its promtool, which checks the format."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import support

CONFIG = """name: monitored
model:
  layers: [flatten, dense: {units: 16, activation: relu}, dense: 10]
  loss: softmax_cross_entropy
data: {format: digits, path: digits, limit: 512, validation_split: 0.25}
optimizer: {adam: {learning_rate: 1.0e-3}}
train: {max_steps: 1000000000, batch_size: 16}
parallel: {device: cpu, lr_scaling: none}
run: {evaluate_every: 200 steps, checkpoint_every: 200 steps, log_every: 1 second, ledger: false, tensorboard: false}
"""
SCRAPING = """global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: trainer
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def get(port, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


def wait_for(read, patience=90):
    """Returns the first result of read() that is true."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if result := read():
                return result
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.2)
    raise AssertionError("nothing came in time")


def check_format(text):
    """promtool's exit code is 0 for metrics without a mistake or a name against the conventions."""
    return subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"), "Debian's package prometheus is not installed")
class Prometheus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        (self.work / "config.yaml").write_text(CONFIG)

    def start(self, *words):
        with (self.work / "log").open("a") as log:
            process = subprocess.Popen(words, cwd=self.work, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_training(self, target, *more):
        return self.start(support.TRAINER, "train", "config.yaml", "--run-dir", "run", "--set", f"run.prometheus={target}", *more)

    def query(self, port, expression):
        """The values of a query, by rank or else by instance."""
        found = json.loads(get(port, "/api/v1/query?" + urllib.parse.urlencode({"query": expression})))["data"]["result"]
        return {one["metric"].get("rank", one["metric"].get("instance", "")): float(one["value"][1]) for one in found}

    def test_prometheus_scrapes_a_run(self):
        port, server_port = support.free_ports(2)
        training = self.start_training(f":{port}", "--replicas", "2")
        (self.work / "prometheus.yml").write_text(SCRAPING.format(port=port))
        self.start("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                   f"--web.listen-address=127.0.0.1:{server_port}")
        instance = f"127.0.0.1:{port}"
        first = wait_for(lambda: self.query(server_port, "trainer_steps_total > 0"))[instance]
        wait_for(lambda: self.query(server_port, f"trainer_steps_total > {first}"))
        self.assertEqual(self.query(server_port, "up"), {instance: 1})
        durations = wait_for(lambda: self.query(
            server_port, "rate(trainer_step_duration_seconds_sum[1m]) / rate(trainer_step_duration_seconds_count[1m])"))
        self.assertEqual(set(durations), {"0", "1"})
        self.assertTrue(all(0 < seconds < 10 for seconds in durations.values()), durations)
        wait_for(lambda: self.query(server_port, 'trainer_evaluation{split="validation",metric="accuracy"} <= 1'))
        self.assertEqual(get(port, "/healthz"), "ok\n")
        checked = check_format(get(port, "/metrics"))
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        training.send_signal(signal.SIGTERM)
        self.assertEqual(training.wait(60), 75, (self.work / "log").read_text())

    def test_train_writes_a_file_that_the_textfile_collector_reads(self):
        training = self.start_training("metrics.prom", "--set", "train.max_steps=200")
        self.assertEqual(training.wait(120), 0, (self.work / "log").read_text())
        text = (self.work / "metrics.prom").read_text()
        self.assertIn("\ntrainer_steps_total 200\n", text)
        checked = check_format(text)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        damaged = text.replace("# TYPE trainer_steps_total counter", "# TYPE trainer_steps_total x")
        self.assertNotEqual(check_format(damaged).returncode, 0)


if __name__ == "__main__":
    support.main()
