"""Runs the experiments of an article on what this machine has, and sets what was measured beside what was published.

An Article trains rows, one run folder each. A row that has finished with the same command is not trained again, one
that was interrupted goes on. At the end come a table (table.md, table.json), a report of every run and, with several, what
`trainer compare` says."""

import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pictures

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONFIGS = ROOT / "configs"

WEIGHT_FILES = {
    "mobilenet_v2": "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5",
    "vgg16": "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5",
}
MNIST_FILE = "train-images-idx3-ubyte"


class Published:
    """What an article says of a row, as far as it says it."""

    def __init__(self, seconds=None, accuracy=None, text="", hardware=""):
        self.seconds, self.accuracy, self.text, self.hardware = seconds, accuracy, text, hardware


def shared_data():
    return pathlib.Path(os.environ.get("TRAINER_SHARED_DATA") or ROOT.parent / "shared" / "data")


class Article:
    def __init__(self, name, title):
        parser = argparse.ArgumentParser(prog=f"scripts/articles/{name}.sh", description=title)
        parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK", "") not in ("", "0"),
                            help="drawn data, tiny models, seconds in all: whether everything runs (or QUICK=1)")
        parser.add_argument("--out", type=pathlib.Path, help="folder of the runs; runs/articles/NAME when left out")
        parser.add_argument("--epochs", type=float, default=float(os.environ.get("EPOCHS") or 0),
                            help="instead of the article's, for a shorter look (or EPOCHS=N)")
        self.options = parser.parse_args(sys.argv[1:])
        self.name, self.title, self.quick = name, title, self.options.quick
        self.out = self.options.out or pathlib.Path("runs/articles") / (name + ("_quick" if self.quick else ""))
        self.out.mkdir(parents=True, exist_ok=True)
        self.trainer = self._find_trainer()
        self.rows, self.notes = [], []
        devices = json.loads(self._output("devices", "--json"))
        self.gpus = [gpu.get("name", "GPU") if isinstance(gpu, dict) else str(gpu) for gpu in devices["gpus"]]
        self.cores = len(os.sched_getaffinity(0))
        print(f"{title}\n\nhere: {self.hardware()}\nruns: {self.out}")

    # ---- the machine and its data ---------------------------------------------------------------

    def _find_trainer(self):
        given = os.environ.get("TRAINER")
        built = ROOT / "build/release/apps/trainer/trainer"
        found = shutil.which(given) if given else str(built) if built.is_file() else shutil.which("trainer")
        if not found:
            sys.exit(f"{self.name}.sh: no program {given or 'trainer'}; build it, or name it with TRAINER=...")
        return str(pathlib.Path(found).resolve())

    def _output(self, *arguments):
        return subprocess.run([self.trainer, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout

    def hardware(self):
        if self.gpus:
            return f"{len(self.gpus)} x {self.gpus[0]}"
        model = "processor"
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        return f"no GPU; {self.cores} cores of {model}, which replicas share"

    def note(self, text):
        """Said at once, and again below the table."""
        self.notes.append(text)
        print(f"note: {text}")

    def replicas(self, count):
        """Settings for so many replicas: GPUs, of which one may serve several, else replicas on the processor."""
        if not self.gpus:
            return ["parallel.device=cpu", f"parallel.replicas={count}", "parallel.gpus=0"]
        if count <= len(self.gpus):
            return [f"parallel.gpus={count}"]
        self.note(f"{count} replicas share {len(self.gpus)} GPUs")
        return [f"parallel.gpus=[{', '.join(str(i % len(self.gpus)) for i in range(count))}]"]

    def length(self, epochs):
        """The article's number of epochs, or the one that was asked for."""
        if self.options.epochs > 0:
            self.note(f"{self.options.epochs:g} epochs in place of {epochs:g}")
            return self.options.epochs
        return epochs

    def folder(self, what, variable, name, small=None):
        """The first folder that has the data: $VARIABLE, datasets/NAME, the small set; None for the drawn one."""
        places = [os.environ.get(variable), ROOT / "datasets" / name]
        if not self.quick:
            for place in places:
                if place and (pathlib.Path(place) / "train").is_dir():
                    return pathlib.Path(place)
            if small and (shared_data() / small / "train").is_dir():
                self.note(f"{what} is not there (datasets/{name}.sh gets it): the small set {shared_data() / small}")
                return shared_data() / small
            self.note(f"{what} is not there (datasets/{name}.sh gets it): drawn pictures, whose accuracy says nothing")
        return None

    def drawn(self, classes, train, other, split, side):
        """A folder of drawn pictures; `split` names the second one."""
        folder = self.out / f"drawn_{len(classes)}_{train}_{other}_{side}"
        if not (folder / split).is_dir():
            pictures.draw(folder / "train", classes, train, side, 1)
            pictures.draw(folder / split, classes, other, side, 2)
        return folder

    def digits_like(self, what, variable, name):
        """Settings for a set of the format and size of MNIST's, and what stands in where it is not there."""
        if not self.quick:
            for place in (os.environ.get(variable), ROOT / "datasets" / name):
                if place and list(pathlib.Path(place).glob(MNIST_FILE + "*")):
                    return ["data.format=idx", f"data.path={place}"]
            if list((shared_data() / "mnist").glob(MNIST_FILE + "*")):
                if name != "mnist":
                    self.note(f"{what} is not there (datasets/{name}.sh gets it): MNIST, of its size, in its place")
                return ["data.format=idx", f"data.path={shared_data() / 'mnist'}"]
            self.note(f"{what} is not there (datasets/{name}.sh gets it): the drawn digits in its place")
        settings = ["data.format=digits", f"data.path={self.out / 'digits'}"]
        return settings + (["data.limit=256", "data.classes=[0,1,2,3,4,5,6,7,8,9]"] if self.quick else [])

    def weights(self, backbone):
        """Keras's ImageNet weights of a backbone, or None."""
        if self.quick:
            return None
        folders = [os.environ.get("WEIGHTS_DIR"), ROOT / "weights", pathlib.Path.home() / ".keras/models",
                   shared_data() / "weights"]
        for folder in folders:
            if folder and (pathlib.Path(folder) / WEIGHT_FILES[backbone]).is_file():
                return pathlib.Path(folder) / WEIGHT_FILES[backbone]
        return None

    # ---- rows -----------------------------------------------------------------------------------

    def train(self, name, config, settings, published, launch=(), asynchronous=False):
        """Trains a row and measures it. `launch`: arguments of `trainer launch` for a row of several processes;
        `asynchronous`: of which each makes steps of its own."""
        run = self.out / name
        command = ["train", str(config), "--run-dir", str(run)]
        for setting in settings:
            command += ["--set", setting]
        if launch:
            command = ["launch", *launch, "--", *command]
        record = self.out / f"{name}.command.json"
        same = record.is_file() and json.loads(record.read_text()) == command
        if same and self._finished(run):
            print(f"{name}: finished earlier", flush=True)
        else:
            print(f"{name}: trains", flush=True)
            record.write_text(json.dumps(command))
            resume = ["--resume"] if same and (run / "checkpoints").is_dir() else ["--overwrite"]
            errors = self.out / f"{name}.log"
            with errors.open("w") as log:
                command = [self.trainer, *command, "--json", *resume]
                done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=log)
            if done.returncode == 75:
                print(f"{self.name}.sh: stopped; start it again to go on")
                sys.exit(75)
            if done.returncode != 0:
                record.unlink()
                sys.exit(f"{self.name}.sh: {name} ended with code {done.returncode}: {errors.read_text().strip()}")
        self.rows.append({"name": name, "run": str(run), "published": published, **self._measured(run, asynchronous)})
        self._print_row(self.rows[-1])
        return self.rows[-1]

    @staticmethod
    def _finished(run):
        record = run / "run.json"
        return record.is_file() and "finished" in json.loads(record.read_text())

    @staticmethod
    def _measured(run, asynchronous):
        """The total time is the sum of the steps' times, as in Zalando's article; wall time has evaluations and
        checkpoints too. Of asynchronous workers the steps of all count, whose rate the chief's metrics have."""
        record = json.loads((run / "run.json").read_text())
        finished = record["finished"]
        wall = sum(session["seconds"] for session in record["sessions"])
        with (run / "ledger.csv").open() as ledger:
            steps = [row for row in csv.DictReader(ledger) if row["seconds"]]
        own = sum(float(row["seconds"]) for row in steps)
        total, samples = own, sum(float(row["samples"]) for row in steps)
        if asynchronous:
            total, samples = 0.0, finished["steps"] * record["global_batch"]
            last = 0
            with (run / "metrics.csv").open() as metrics:
                for row in csv.DictReader(metrics):
                    if row["split"] == "train" and row["steps_per_second"]:
                        total += (int(row["step"]) - last) / float(row["steps_per_second"])
                        last = int(row["step"])
            total = total * finished["steps"] / last if last else None
        total = total or wall  # a run without a row of metrics
        metric = finished["metrics"].get("test") or finished["metrics"].get("validation") or {}
        return {
            "replicas": record["replicas"],
            "global_batch": record["global_batch"],
            "steps": finished["steps"],
            "total_seconds": total,
            "wall_seconds": wall,
            "images_per_second": samples / total if total else None,
            "steps_per_second": finished["steps"] / total if total else None,
            "wait_share": sum(float(row["wait_seconds"]) for row in steps) / own if own else 0.0,
            "accuracy": metric.get("accuracy"),
            "accuracy_low": metric.get("accuracy_low"),
            "accuracy_high": metric.get("accuracy_high"),
            "loss": metric.get("loss"),
            "parameters_sha256": finished.get("parameters_sha256"),
            "device": record.get("device"),
        }

    @staticmethod
    def _print_row(row):
        accuracy = "" if row["accuracy"] is None else f", accuracy {row['accuracy']:.4f}"
        rate = f"{row['total_seconds']:.1f} s, {row['images_per_second']:.1f} images/s"
        print(f"{row['name']}: {rate}{accuracy}", flush=True)

    # ---- the end --------------------------------------------------------------------------------

    def finish(self, hardware, remarks=()):
        """`hardware`: the article's. `remarks`: sentences on what the rows say together."""
        table = self._table()
        lines = [f"# {self.title}", "", f"measured on: {self.hardware()}", f"published on: {hardware}", ""]
        lines += table + [""] + [f"- {text}" for text in [*remarks, *self.notes]]
        text = "\n".join(lines) + "\n"
        (self.out / "table.md").write_text(text)
        rows = [{**row, "published": vars(row["published"])} for row in self.rows]
        record = {"article": self.name, "measured_on": self.hardware(), "published_on": hardware, "rows": rows,
                  "remarks": list(remarks), "notes": self.notes}
        (self.out / "table.json").write_text(json.dumps(record, indent=1) + "\n")
        runs = [row["run"] for row in self.rows]
        for run in runs:
            self._output("report", run)
        if len(runs) > 1:
            (self.out / "compare.txt").write_text(self._output("compare", *runs))
        print(f"\n{text}\ntable: {self.out / 'table.md'}, table.json")
        if len(runs) > 1:
            print(f"comparison: {self.out / 'compare.txt'}")
        print("reports: " + ", ".join(str(pathlib.Path(run) / "report.html") for run in runs))

    def _table(self):
        heads = ["row", "replicas", "batch", "steps", "images/s", "total s", "wall s", "waits", "accuracy (95 %)",
                 "published s", "published accuracy", "published"]
        body = []
        for row in self.rows:
            published = row["published"]
            accuracy = "-"
            if row["accuracy"] is not None:
                accuracy = f"{row['accuracy']:.4f}"
                if row["accuracy_low"] is not None:
                    accuracy += f" ({row['accuracy_low']:.3f}-{row['accuracy_high']:.3f})"
            body.append([
                row["name"], str(row["replicas"]), str(row["global_batch"]), str(row["steps"]),
                f"{row['images_per_second']:.1f}", f"{row['total_seconds']:.1f}", f"{row['wall_seconds']:.1f}",
                f"{row['wait_share']:.0%}", accuracy,
                "-" if published.seconds is None else f"{published.seconds:g}",
                "-" if published.accuracy is None else f"{published.accuracy:g}",
                ", ".join(text for text in (published.text, published.hardware) if text) or "-",
            ])
        widths = [max(len(line[i]) for line in [heads, *body]) for i in range(len(heads))]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
                 for line in [heads, *body]]
        lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
        return lines


def ratio(first, second, key):
    """second / first as text: "1.93x"."""
    if not first[key] or not second[key]:
        return "?"
    return f"{second[key] / first[key]:.2f}x"
