"""Runs steps and commands under time limits, and writes the report.

A step is a function that takes a Check and returns what it found: {"text": one line, "lines": [...], any other key}. report.jsonl
gets a line when a step begins ("running"), for each of its items that ends ("item"), and when it ends. The report is made of
these lines alone, so a run that is stopped loses no result: a step that only began is "STOPPED", with its items.
"""

import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import traceback

import libraries

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAST_LINES = 6  # of a failed command's output, in the report
MINIMUM_SECONDS = 5  # left of a part, for a step to start
REPORT_SECONDS = 5  # between two reports within a step
EXIT_STOPPED = 143
FAKE_NAME = "Fake CUDA device"


class Skip(Exception):
    """The reason why a step cannot run here. The report gets the command that runs it elsewhere."""


class NoTime(Exception):
    """The step's part has no time left. The run counts as failed: nothing is known of the step."""


class Failure(Exception):
    """What a step found wrong; `lines` has the details, and `found` what a step returns that passes."""

    def __init__(self, text, lines=(), **found):
        super().__init__(text)
        self.lines, self.found = list(lines), found


class Done:
    """A command that ended: its exit code (None when it was stopped at its limit), output and seconds."""

    def __init__(self, code, output, seconds):
        self.code, self.output, self.seconds = code, output, seconds

    def reason(self):
        """Why it ended, and its last lines."""
        ending = f"was stopped after {self.seconds:.0f} s" if self.code is None else f"ended with code {self.code}"
        lines = [line for line in self.output.strip().splitlines() if line.strip()]
        return " | ".join([ending, *lines[-LAST_LINES:]])


class Check:
    """The paths and options of a run, and the results of its steps so far."""

    def __init__(self, options, size):
        self.options, self.size = options, size
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.build = options.build.resolve()
        self.trainer = self.build / "apps/trainer/trainer"
        self.reference = ROOT / "reference"  # of a bundle: what was computed where it was made
        self.plugin = pathlib.Path(os.environ.get("TRAINER_CUDA_PLUGIN") or self.build / "apps/trainer/libtrainer_cuda.so").resolve()
        self.ran = []  # names of the steps of this run
        self.log_folder = self.out
        self.part = None
        self.part_end = None
        self.step_end = None
        self.library_folders = libraries.folders()
        self.lock = threading.Lock()  # of the report's files and lines
        self.written = 0.0  # when report.json was written last
        self.processes = set()
        self.stopped = False
        self.lines = self.read_lines()

    def read_lines(self):
        """The lines of this folder's report.jsonl, of parts that ran before too. A line that was cut off is left out."""
        path = self.out / "report.jsonl"
        if not path.is_file():
            return []
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            with open(path, "a", encoding="utf-8") as file:
                file.write("\n")
        lines = []
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
        return lines

    def record(self, **line):
        """Adds a line to report.jsonl, which is in the file when this returns."""
        with self.lock:
            self.lines.append(line)
            with open(self.out / "report.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def note(self, item, state="passed", **found):
        """Records what an item of the running step, a test case or a measurement, has found."""
        self.record(step=self.ran[-1], item=item, state=state, **found)
        if time.monotonic() > self.written + REPORT_SECONDS:
            self.write_report()

    def steps(self):
        """The last result of each step, in the order in which they were first run."""
        steps = {}
        for line in self.lines:
            name = line["step"]
            begun = {"step": name, "state": "STOPPED", "text": "it was stopped before its end", "seconds": 0.0, "lines": [], "items": []}
            if line["state"] == "running" and "item" not in line:
                steps[name] = begun
            elif "item" in line:
                steps.setdefault(name, begun)["items"].append({key: value for key, value in line.items() if key != "step"})
            else:
                steps[name] = {**line, "items": steps.get(name, begun)["items"]}
        return list(steps.values())

    @property
    def gpus(self):
        """The names of the GPUs that the step `devices` found."""
        return next((step["gpus"] for step in self.steps() if step["step"] == "devices" and "gpus" in step), [])

    def last_state(self):
        """The state of the step that ran last."""
        return next(step["state"] for step in self.steps() if step["step"] == self.ran[-1])

    def failed(self):
        """The names of this run's steps that failed or did not run for lack of time."""
        return [step["step"] for step in self.steps() if step["step"] in self.ran and step["state"] in ("FAILED", "NOT RUN")]

    def stop(self):
        """Ends the commands that run. The program ends when the next command has ended. A signal calls this, so it must not
        raise: an exception between the fork of a command and its entry in `processes` would let the command go on."""
        self.stopped = True
        for process in list(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)

    def environment(self, **more):
        """The environment of a command that uses the plugin and its libraries."""
        variables = {**os.environ, "TRAINER_CUDA_PLUGIN": str(self.plugin), **more}
        paths = [str(folder) for folder in self.library_folders]
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [*paths, os.environ.get("LD_LIBRARY_PATH")]))
        return variables

    def start_part(self, name, seconds):
        """Steps from here on end within so many seconds."""
        print(f"==== {name}, at most {seconds} s", flush=True)
        self.part = name
        self.part_end = time.monotonic() + seconds

    def seconds_left(self, limit):
        """The limit of a command that may take `limit` seconds: less where its step or its part ends before."""
        ends = [end for end in (self.part_end, self.step_end) if end is not None]
        return max(0.0, min([limit, *(end - time.monotonic() for end in ends)]))

    def try_command(self, command, limit=60, log=None, **variables):
        """Runs a command for at most `limit` seconds; its output is in the log, also when it is stopped."""
        command = [str(word) for word in command]
        limit = self.seconds_left(limit)
        path = self.log_folder / f"{log or 'output'}.log"
        with open(path, "ab") as file:
            file.write(f"$ {' '.join(command)}\n".encode())
            file.flush()
            begin = file.tell()
            started = time.monotonic()
            with subprocess.Popen(command, cwd=ROOT, env=self.environment(**variables), stdin=subprocess.DEVNULL, stdout=file,
                                  stderr=subprocess.STDOUT, start_new_session=True) as process:
                self.processes.add(process.pid)
                try:
                    code = process.wait(0 if self.stopped else limit)
                except subprocess.TimeoutExpired:  # the command has a session of its own, with its children
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    code = None
                finally:
                    self.processes.discard(process.pid)
        if self.stopped:
            sys.exit(EXIT_STOPPED)
        with open(path, "rb") as file:
            file.seek(begin)
            output = file.read().decode(errors="replace")
        return Done(code, output, time.monotonic() - started)

    def run(self, command, limit=60, log=None, **variables):
        """A command's output; raises Failure when it fails or is stopped."""
        done = self.try_command(command, limit, log, **variables)
        if done.code != 0:
            raise Failure(f"{' '.join(map(str, command))} {done.reason()}")
        return done.output

    def run_side_by_side(self, works, workers):
        """The results of functions, in order, `workers` of them at a time."""
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return [future.result() for future in [pool.submit(work) for work in works]]

    def command(self, step, reason):
        """The command that runs a step of this part alone, with the reason why it is needed."""
        return f"scripts/gpu_check.sh --part {self.part} --step {step}  # {reason}"

    def step(self, name, work, limit):
        """Runs a step for at most `limit` seconds and records its result."""
        started = time.monotonic()
        self.step_end = None
        self.log_folder = self.out / name
        self.log_folder.mkdir(parents=True, exist_ok=True)
        state, text, lines, found = "passed", "", [], {}
        self.ran.append(name)
        self.record(step=name, state="running")
        self.write_report()
        try:
            if self.seconds_left(limit) < min(MINIMUM_SECONDS, limit):
                raise NoTime("no time is left of this part")
            self.step_end = started + limit
            found = work(self) or {}
            text, lines = found.pop("text", ""), found.pop("lines", [])
        except Skip as reason:
            state, text, found = "skipped", str(reason), {"commands": [self.command(name, reason)]}
        except NoTime as reason:
            state, text, found = "NOT RUN", str(reason), {"commands": [self.command(name, reason)]}
        except Failure as reason:
            state, text, lines, found = "FAILED", str(reason), reason.lines, reason.found
        except Exception as reason:  # pylint: disable=broad-exception-caught
            state, text = "FAILED", f"{type(reason).__name__}: {reason}"
            lines = traceback.format_exc().splitlines()[-LAST_LINES:]
        seconds = time.monotonic() - started
        print(f"{name:20} {state}{': ' if text else ''}{text} ({seconds:.1f} s)", flush=True)
        for line in lines:
            print(f"  {line}", flush=True)
        self.record(step=name, state=state, text=text, seconds=round(seconds, 1), lines=lines, **found)
        self.write_report()

    def skipped(self):
        """The commands that run what this machine could not, each with its reason."""
        return [command for step in self.steps() for command in step.get("commands", [])]

    def write_report(self):
        """Writes report.json and report.txt anew; whenever the program is stopped, each is whole."""
        with self.lock:
            self.replace_report()

    def replace_report(self):
        self.written = time.monotonic()
        gpus = self.gpus
        fake = any(gpu.startswith(FAKE_NAME) for gpu in gpus)
        devices = "fake GPUs; nothing here was measured on a GPU" if fake else "GPUs"
        report = {"written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "on": devices,
                  "gpus": gpus, "skipped": self.skipped(), "steps": self.steps()}
        self.replace("report.json", json.dumps(report, indent=1) + "\n")
        lines = [f"Check of the CUDA backend on {devices}, {report['written']}"]
        lines += [f"GPU {i}: {gpu}" for i, gpu in enumerate(gpus)]
        for step in report["steps"]:
            lines.append(f"{step['step']:20} {step['state']:8} {step['seconds']:8.1f} s  {step['text']}")
            details = step["lines"]
            if step["state"] == "STOPPED":
                details = [f"{item['item']}: {item['state']}" for item in step["items"]]
            lines += [f"{'':22}{line}" for line in details]
        lines += ["Skipped:", *report["skipped"]] if report["skipped"] else []
        self.replace("report.txt", "\n".join(lines) + "\n")

    def replace(self, name, text):
        """Writes a file beside the named one and renames it."""
        path = self.out / f"{name}.tmp"
        path.write_text(text)
        path.replace(self.out / name)


def events(output):
    """The JSON objects that a command printed, one per line."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def event(output, name):
    """The last event of a name."""
    return next(found for found in reversed(events(output)) if found.get("event") == name)
