#!/usr/bin/env python3
"""Draws configs over all keys of the schema and small data sets, and uses the program with them as users do.

    test/generated/configs.py build/release/apps/trainer/trainer
    ... configs.py TRAINER --cases 300 --seed 7        another draw
    ... configs.py TRAINER --seed 7 --case 12          case 12 of this draw alone
    ... configs.py TRAINER --rare 0.03                 also list the keys in less than 3 % of the valid configs

A drawn config that `validate` rejects loses the keys that the messages name, until it is valid. Checked are:

  errors        a message has a place or names a key; `train` and `plan` reject what `validate` rejects, with its
                messages
  agreement     a valid config trains, or fails because of the data or the machine (exit code 3 or 4, or 2 with an error
                of the list DATA_ERRORS, which `validate` cannot find without the data); `plan` agrees
  endings       no signal, no hang, no internal error, no exit code that is not documented
  same bits     a second run, a stopped and resumed run, the run of its own config.yaml and of the same config in another
                form, and runs that differ in keys that change no parameters have the same `parameters_sha256`
  ordered sums  1 and 2 replicas, other lanes and other threads give the same bits
  commands      evaluate, predict, report, export, runs and compare work on a run; `evaluate` finds the numbers of the
                last evaluation of the training

Prints the keys that no valid config had, and how often valid configs failed to train, by message. Exits with 1 where a
case failed. Needs no packages.
"""

import collections
import fcntl
import json
import math
import re
import signal
import subprocess
import sys
import tempfile

from cases import Failed, Generator
from random_configs import RandomConfig, draw_model_kind, repair
from random_data import DataSet
from random_values import Schema

LIMIT = 150  # seconds that a command may take, also with more lanes than the machine has free cores
DOCUMENTED = {0, 2, 3, 4, 5, 75}
FAULTS = re.compile(r"internal error|terminate called|assert|std::|basic_string|sanitizer|runtime error", re.IGNORECASE)
PLACE = re.compile(r"^[^\n]*\.yaml:\d+:\d+: ", re.MULTILINE)
# Errors of a valid config with exit code 2 whose cause is in the data or in the machine.
DATA_ERRORS = re.compile("|".join([
    r"is not supported by this device", r"needs images of uint8 with", r"the data has no class",
    r"works with several labels per image only", r"needs validation samples, but data.path holds none",
    r"with several labels per image give train.pos_weight", r"none has '", r"all have '",
    r"the metric \w+ is for", r"data.group_by: '.*' (matches none|puts all)",
    r"leaves out all training samples",
    r"is step \d+, not after step \d+ of the entry before",  # entries in steps and in epochs
]))
# What `validate` lists as not checked: errors that it leaves to other commands then.
LEFT_ERRORS = {
    "shapes of layers, which follow from the data": re.compile(
        r"no layer with parameters is named|no parameter is named|takes statistics over the batch|"
        r"the last layer gives|the label is|no later layer uses this one|needs two classes|expects an image|"
        r"no layers at the start of the model are frozen|model.backbone.(un)?freeze|data.normalize"),
    "number of classes, which follows from the data": re.compile(
        r"the last layer gives|the label is|needs two classes"),
    "memory and devices": re.compile(r"not even one sample fits"),
}
PIPE_BYTES = 4096
MAX_LISTED = 60  # keys


def errors_of(messages):
    """The messages without warnings and notes."""
    lines = messages.strip().split("\n")
    return "\n".join(line for line in lines if not re.search(r"(^|:\d+: |^[^ ]+: )(warning|note): ", line))


class Tables:
    """What is counted over all cases."""

    def __init__(self, schema):
        self.schema = schema
        self.valid = 0
        self.used = collections.Counter()  # key: valid configs
        self.endings = collections.Counter()  # (exit code, message without numbers and names): runs

    def add_config(self, config):
        self.valid += 1
        self.used.update(self.schema.used_keys(config))

    def add_ending(self, code, message):
        text = re.sub(r"'[^']*'|\[[^\]]*\]|[\w.-]*/[\w./-]*", "_", PLACE.sub("", message.strip()).split("\n")[0])
        self.endings[code, re.sub(r"\d+(\.\d+)?", "N", text)[:150]] += 1

    def print(self, rare):
        keys = self.schema.keys()
        never = sorted(keys - set(self.used))
        names = ", ".join(never) if len(never) <= MAX_LISTED or rare else "more cases draw more of them"
        print(f"\n{self.valid} valid configs, none of which had {len(never)} of {len(keys)} keys: {names}")
        if rare:
            few = sorted((count, key) for key, count in self.used.items() if count < rare * self.valid)
            print(f"in less than {rare:.0%}: {', '.join(f'{key} {count}' for count, key in few)}")
        for (code, message), count in self.endings.most_common():
            print(f"exit code {code}, {count:4} times: {message}")


class Result:
    """What a command printed, and its exit code."""

    def __init__(self, code, output, errors):
        self.code, self.output, self.errors = code, output, errors

    def events(self, kind):
        return [event for event in map(json.loads, self.output.splitlines()) if event["event"] == kind]

    def finished(self):
        return self.events("finished")[-1]


class ConfigCase:
    """The commands that one case runs, and what they have to do."""

    def __init__(self, case, schema, tables, digits):
        self.case, self.draw, self.tables = case, case.draw, tables
        self.kind = draw_model_kind(case.draw)
        self.data = DataSet(case.draw, case.folder, digits, [32, 32, 3] if self.kind == "backbone" else None)
        self.random_config = RandomConfig(case.draw, schema, self.data, self.kind)
        self.sections = set(schema.root["properties"])
        self.not_checked = []
        self.count = 0

    @property
    def config(self):
        return self.random_config.config

    # ---- Commands --------------------------------------------------------------------------------

    def command(self, *arguments):
        """Runs trainer. A crash, a hang or an internal error fails the case."""
        words = [str(word) for word in arguments]
        try:
            done = subprocess.run([self.case.trainer, *words], capture_output=True, text=True, cwd=self.case.folder,
                                  timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed("ends in time", f"trainer {' '.join(words)} still runs after {LIMIT} s")
        return self.check_ending(words, Result(done.returncode, done.stdout, done.stderr))

    def check_ending(self, words, result):
        if result.code not in DOCUMENTED:
            raise Failed("exit code", f"trainer {' '.join(words)} ended with {result.code}: {result.errors[-600:]}")
        if FAULTS.search(result.errors):
            raise Failed("no internal error", f"trainer {' '.join(words)}: {result.errors[-600:]}")
        if result.code not in (0, 75) and not result.errors.strip() and "--json" not in words:
            raise Failed("message", f"trainer {' '.join(words)} ended with {result.code} without a message")
        return result

    def train(self, config="config.yaml", run=None, options=()):
        if run is None:
            self.count += 1
            run = f"run{self.count}"
        result = self.command("train", config, "--json", "--run-dir", run, *options)
        result.run = run
        return result

    def require(self, row, result, codes=(0,)):
        if result.code in codes:
            self.case.passed(row)
            return True
        self.case.failed(row, f"ended with {result.code}: {result.errors.strip()[-400:]}")
        return False

    def same_parameters(self, row, expected, result, what):
        """Checks that two trainings have the same steps and bits."""
        if result.code != 0:
            self.case.failed(row, f"{what}: ended with {result.code}: {result.errors.strip()[-400:]}")
            return
        done = result.finished()
        for key in ("steps", "parameters_sha256"):
            if done[key] != expected[key]:
                self.case.failed(row, f"{what}: {key} {done[key]}, expected {expected[key]}")
                return
        self.case.passed(row)

    # ---- Validation ------------------------------------------------------------------------------

    def check_messages(self, errors):
        for error in errors:
            path = error["message"].split(": ")[0].split(".")[0].split("[")[0]
            if "line" not in error and path not in self.sections:
                raise Failed("errors have a place", json.dumps(error))
        self.case.passed("errors have a place")

    def check_rejection(self, messages):
        """Checks that plan and train reject the config as validate does."""
        for command in (["train", "config.yaml", "--run-dir", "rejected"], ["plan", "config.yaml"]):
            result = self.command(*command)
            found = errors_of(result.errors)
            if result.code != 2 or found != errors_of(messages):
                self.case.failed("rejected alike", f"{command[0]} ended with {result.code}: {found[-500:]}, expected: "
                                                   f"{messages[-500:]}")
            else:
                self.case.passed("rejected alike")

    def make_valid(self):
        """Repairs the drawn config. Returns whether it is valid."""
        for attempt in range(20):
            self.case.write_config(self.config)
            result = self.command("validate", "config.yaml", "--json")
            event = json.loads(result.output)
            if event["ok"]:
                self.not_checked = [each["what"] for each in event["not_checked"]]
                return self.require("validate", result)
            self.check_messages(event["errors"])
            # Errors of the model may be others once the data is known.
            names_keys = all(error["message"].split(".")[0] in self.sections for error in event["errors"])
            if attempt == 0 and names_keys and self.draw.random() < 0.4:
                self.check_rejection(self.command("validate", "config.yaml").errors)
            if result.code != 2:
                self.case.failed("validate", f"ended with {result.code}: {result.output}")
            if not any([repair(self.random_config, error["message"]) for error in event["errors"]]):
                return False
        return False

    # ---- What a config says ----------------------------------------------------------------------

    def get(self, *path, default=None):
        value = self.config
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    def watches_evaluations(self):
        """Whether the parameters depend on when evaluations are."""
        schedule = self.get("schedule", default="constant")
        return bool("reduce_on_plateau" in schedule or self.get("train", "early_stop") or self.get("train", "stop_at"))

    def depends_on_time(self):
        if self.get("train", "batch_size") == "auto" and not self.get("train", "memory_mb"):
            return True  # of the free memory
        return self.watches_evaluations() and "second" in str(self.get("run", "evaluate_every", default=""))

    def depends_on_length(self):
        """Whether the learning rate at a step depends on the number of steps of the training."""
        schedule = self.get("schedule", default="constant")
        if isinstance(schedule, str):
            return schedule in ("cosine", "polynomial", "one_cycle")
        return any(kind in schedule and not (schedule[kind] or {}).get("decay_over")
                   for kind in ("cosine", "polynomial", "one_cycle"))

    # ---- Trainings -------------------------------------------------------------------------------

    def check_agreement(self, plan, result):
        """Whether a valid config trains. Otherwise counts why not."""
        if result.code == 0:
            self.case.passed("trains")
            if plan.code != 0:
                self.case.failed("plan agrees", f"plan ended with {plan.code}: {plan.errors[-400:]}")
            else:
                self.case.passed("plan agrees")
            return True
        message = errors_of(result.errors)
        self.tables.add_ending(result.code, message)
        lines = [line for line in message.split("\n") if "error: " in line]
        diverged = result.code == 5 and "The parameters were not updated" in message
        if result.code in (3, 4) or diverged or result.code == 2 and all(map(self.is_left, lines)):
            self.case.passed("fails because of data or machine")
        else:
            self.case.failed("validate finds errors", f"train ended with {result.code}: {message[-500:]}")
        return False

    def is_left(self, error):
        """Whether `validate` cannot find the error."""
        return bool(DATA_ERRORS.search(error)) or any(
            what in self.not_checked and errors.search(error) for what, errors in LEFT_ERRORS.items())

    def check_resume(self, expected):
        steps = expected["steps"]
        if steps < 2:
            return
        stop = self.draw.randint(1, steps - 1)
        options = ["--set", "run.log_every=1 steps"]
        if not self.depends_on_length() and not self.watches_evaluations():
            limit = ["--set", f"train.max_steps={stop}", "--set", "train.epochs=null"]
            first = self.train(run="resumed", options=options + limit)
            if not self.require("stopped run", first):
                return
            how = f"train.max_steps={stop}"
        else:
            how = self.interrupt("resumed", options, stop)
        resumed = self.train(run="resumed", options=["--resume"])
        self.same_parameters("resume", expected, resumed, f"resumed after {how}")

    def interrupt(self, run, options, stop):
        """Sends SIGTERM when the event of the step comes. The full pipe lets training run ahead by few steps."""
        words = ["train", "config.yaml", "--json", "--run-dir", run, *options]
        with open(self.case.folder / "interrupted.err", "w+") as errors:
            process = subprocess.Popen([self.case.trainer, *words], cwd=self.case.folder, text=True, stderr=errors,
                                       stdout=subprocess.PIPE)
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "step" and event["step"] >= stop:
                    process.send_signal(signal.SIGTERM)
                    break
            try:
                process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Failed("ends in time", f"the training still runs {LIMIT} s after SIGTERM")
            errors.seek(0)
            self.check_ending(words, Result(process.returncode, "", errors.read()))
        if process.returncode not in (0, 75):
            raise Failed("stopped run", f"ended with {process.returncode} after SIGTERM")
        self.case.passed("stopped run")
        return f"SIGTERM at step {stop}, which ended it with {process.returncode}"

    def neutral_options(self):
        """Keys that change no parameters, with other values."""
        draw, images = self.draw, self.data.is_images
        options = [
            f"data.threads={draw.randint(1, 4)}", f"data.prefetch={draw.choice([0, 1, 3])}", "parallel.pin=true",
            f"run.keep={draw.randint(1, 3)}", f"run.log_every={draw.randint(1, 3)} steps", "run.tensorboard=false",
            "run.ledger=false", f"run.summary_every={draw.randint(1, 3)} steps",
            f"run.checkpoint_every={draw.randint(1, 3)} steps",
            f"parallel.evaluate={draw.choice(['true', 'false'])}", "run.price_per_hour=2",
        ]
        if images:
            crops = "random_resized_crop" in json.dumps(self.get("data", "train", default=""))
            options.append(f"data.cache={draw.choice(['none', 'memory'] + ['disk'] * (not crops))}")
        if not self.watches_evaluations():
            options += [f"evaluate.batch_size={draw.randint(1, 9)}", f"run.evaluate_every={draw.randint(1, 4)} steps",
                        "evaluate.top_k=2"]
        return draw.sample(options, 3)

    def check_ordered(self):
        """Ordered sums of the same global batch, by other numbers of replicas, lanes and threads."""
        draw = self.draw
        batch = draw.choice([2, 4, 8, 10])
        overrides = ["parallel.reduction=ordered", "parallel.gpus=all", "parallel.lr_scaling=none",
                     "parallel.micro_batches=8"]
        if "ramp_up" in self.get("schedule", default=""):
            overrides.append("schedule.ramp_up.scale=none" if isinstance(self.get("schedule"), dict) else "seed=1")
        forms = [(1, draw.randint(1, 2), draw.randint(1, 3)), (2, draw.randint(2, 3), draw.randint(1, 2))]
        results = []
        for replicas, threads, lanes in forms:
            form = [f"parallel.replicas={replicas}", f"parallel.threads={threads}", f"parallel.lanes={lanes}",
                    f"train.batch_size={batch // replicas}"]
            options = [word for each in overrides + form for word in ("--set", each)]
            if self.command("validate", "config.yaml", *options).code != 0:
                return
            result = self.train(options=options)
            if result.code in (3, 4, 5) or re.search("takes statistics over|all training samples", result.errors):
                return
            if not self.require("trains with ordered sums", result):
                return
            results.append(result)
        self.same_parameters("ordered sums", results[0].finished(), results[1], f"{forms[1]} in place of {forms[0]} "
                             f"(replicas, threads, lanes) with a global batch of {batch}")

    # ---- Commands on a run -----------------------------------------------------------------------

    def check_commands(self, result):
        run = result.run
        self.check_evaluation(result)
        codes = (0, 3) if self.data.is_damaged else (0,)
        has_split = bool(result.events("evaluation"))
        split = [] if has_split else ["--split", "train"]
        self.require("predict", self.command("predict", run, "--limit", 5, "--json", *split), codes)
        self.require("report", self.command("report", run, "--seconds", 1, "--mistakes", 4 * has_split), codes)
        self.require("export", self.command("export", run, "--format", "onnx", "--output", "model.onnx"))
        self.require("runs", self.command("runs", "."))

    def check_evaluation(self, result):
        steps = result.finished()["steps"]
        last = [event for event in result.events("evaluation") if event["step"] == steps]
        if not last or result.events("restored") or self.get("train", "early_stop", "restore_best"):
            return
        expected = last[-1]
        evaluated = self.command("evaluate", result.run, "--last", "--split", expected["split"], "--json")
        if not self.require("evaluate", evaluated):
            return
        found = evaluated.events("evaluated")[-1]
        for key in ("accuracy", "count", "loss"):
            a, b = expected.get(key), found.get(key)
            if a is None and b is None:
                continue
            if a is None or b is None or not math.isclose(a, b, rel_tol=1e-5 if key == "loss" else 0, abs_tol=1e-7):
                self.case.failed("evaluate as train", f"{key} of {expected['split']}: {b}, expected {a}")
                return
        self.case.passed("evaluate as train")

    def check_transfer(self, result):
        """Starts from the weights of the run."""
        options = ["--set", f"model.weights={result.run}"]
        row = "model.weights"
        if self.kind == "backbone" and self.draw.random() < 0.6:
            if not self.require("export", self.command("export", result.run, "--format", "safetensors", "--output",
                                                       "weights.safetensors")):
                return
            options = ["--set", "model.backbone.weights=weights.safetensors"]
            row = "model.backbone.weights"
        self.tables.used[row] += 1
        if self.draw.random() < 0.5:
            allowed = row.replace("weights", "allow_missing")
            self.tables.used[allowed] += 1
            options += ["--set", f"{allowed}=['*/bias']"]
        self.require(row, self.train(options=options))

    def check_own_config(self, expected, run):
        """The config that a run holds is valid and describes the run."""
        own = f"{run}/config.yaml"
        if self.require("own config is valid", self.command("validate", own)):
            self.same_parameters("own config", expected, self.train(own), f"training of {own}")

    def check_other_form(self, expected):
        """The same config as a file that extends it, with a variable of the environment, or written out by `new`."""
        form = self.draw.choice(["extends", "environment", "new"])
        if form == "extends":
            section = self.draw.choice(sorted(self.config))
            form_config = {"extends": "config.yaml", "x-note": [1], section: self.config[section]}
            self.case.write_config(form_config, "form.yaml")
        elif form == "environment":
            self.case.write_config(self.with_variable(), "form.yaml")
        elif not self.require("new", self.command("new", "config.yaml", "--output", "form.yaml")):
            return
        if self.require("other form is valid", self.command("validate", "form.yaml")):
            self.same_parameters(f"other form: {form}", expected, self.train("form.yaml"), "training of form.yaml")

    def with_variable(self):
        """The config with `${DRAWN:-value}` in place of one value."""
        config = json.loads(json.dumps(self.config))
        places = []

        def walk(value, holder, key):
            if isinstance(value, dict):
                for name, child in value.items():
                    walk(child, value, name)
            elif isinstance(value, (int, float)) or isinstance(value, str) and re.fullmatch(r"[a-z]+", value):
                places.append((holder, key))

        walk({key: value for key, value in config.items() if key not in ("model", "name")}, None, None)
        holder, key = self.draw.choice(places)
        value = holder[key]
        holder[key] = f"${{DRAWN:-{value if isinstance(value, str) else json.dumps(value)}}}"
        return config

    def run(self):
        if not self.make_valid():
            self.case.passed("rejected for good")
            return
        self.tables.add_config(self.config)
        plan = self.command("plan", "config.yaml", "--json")
        first = self.train()
        if not self.check_agreement(plan, first):
            return
        expected = first.finished()
        if not self.depends_on_time():
            second = self.train()
            self.same_parameters("same bits twice", expected, second, "second run")
            self.check_resume(expected)
            self.check_own_config(expected, first.run)
            self.check_other_form(expected)
            options = self.neutral_options()
            other = self.train(options=[word for each in options for word in ("--set", each)])
            self.same_parameters("same bits with other keys", expected, other, ", ".join(options))
            if second.code == 0:
                self.require("compare", self.command("compare", first.run, second.run, "--seconds", 1))
            self.check_ordered()
        self.check_commands(first)
        if self.draw.random() < 0.2:
            self.check_transfer(first)


def write_digits(case, folder):
    """Trains once, which writes the drawn digits that `format: idx` reads, too."""
    case.write_config({"model": {"layers": ["flatten", {"dense": 10}]}, "data": {"format": "digits", "path": folder},
                       "train": {"max_steps": 1}}, "digits.yaml")
    case.run("train", "digits.yaml", "--run-dir", f"{folder}_run")


def main():
    generator = Generator("configs", __doc__, cases=10)
    generator.parser.add_argument("--rare", type=float, default=0.0, help="list keys in a smaller share of the configs")
    shared = {}
    with tempfile.TemporaryDirectory(prefix="generated.") as folder:
        def run_case(case):
            if not shared:
                shared["schema"] = Schema(case.trainer)
                shared["tables"] = Tables(shared["schema"])
                write_digits(case, f"{folder}/digits")
            ConfigCase(case, shared["schema"], shared["tables"], f"{folder}/digits").run()
        code = generator.run(run_case)
    if shared:
        shared["tables"].print(generator.options.rare)
    return code


if __name__ == "__main__":
    sys.exit(main())
