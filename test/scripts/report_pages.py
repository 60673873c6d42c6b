"""A run and a sweep with their reports, for the tests that read them."""

import pathlib
import tempfile

import support

CONFIG = """
name: a <report> & "more"
model: {layers: [flatten, dense: 10]}
data: {format: digits, path: %s, synthetic: {train_samples: 1}, limit: 600, validation_split: 0.2}
optimizer: {sgd: {learning_rate: 0.1}}
train: {max_steps: 12, batch_size: 32}
parallel: {lr_scaling: none}
run: {summary_every: 2 steps, evaluate_every: 6 steps, tensorboard: false, price_per_hour: 3}
"""


class Pages:
    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        config = self.folder / "config.yaml"
        config.write_text(CONFIG % (self.folder / "digits"))
        self.run_dir, self.sweep_dir = self.folder / "run", self.folder / "sweep"
        for arguments in (
            ["train", config, "--run-dir", self.run_dir, "--quiet"],
            ["report", self.run_dir],
            ["sweep", config, "--dir", self.sweep_dir, "--quiet", "--over", "parallel.gpus=1,2", "--over",
             "train.batch_size=16,32", "--set", "parallel.device=cpu"],
        ):
            done = support.trainer(*arguments)
            assert done.returncode == 0, done.stderr
        self.files = {"run": self.run_dir / "report.html", "sweep": self.sweep_dir / "report.html"}
