"""What the generators share: options, numbered cases of a seed, a table of the results, and files of failed cases.

A generator is a script that draws cases. Case N of seed S is the same on every machine, so that
`SCRIPT TRAINER --seed S --case N` repeats it. A failed case leaves a folder with its config and data.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77  # ctest's exit code for a test that cannot run


class Failed(Exception):
    """A case whose result is not the expected one. `row` names the line of the table that it counts for."""

    def __init__(self, row, message):
        super().__init__(message)
        self.row = row


class Case:
    """One drawn case: its numbers come from `draw`, its files lie in `folder`."""

    def __init__(self, generator, number, folder):
        self.trainer = generator.options.trainer.resolve()
        self.number = number
        self.folder = folder
        self.seed = f"{generator.name}/{generator.options.seed}/{number}"
        self.draw = random.Random(self.seed)
        self.generator = generator

    def passed(self, row, error=None):
        """Counts a check that held. `error` is the distance from the expected value, if there is one."""
        self.generator.count(row, error=error)

    def failed(self, row, message):
        """Counts a check that did not hold; the case continues."""
        self.generator.count(row, failed=True)
        self.generator.describe(self, f"{row}: {message}")

    def check(self, row, error, limit, message=""):
        """Counts whether `error` is at most `limit`. A NaN fails."""
        if error <= limit:
            self.passed(row, error)
        else:
            self.failed(row, f"{message}differs by {error:.3g}, allowed are {limit:.3g}")

    def write_config(self, config, name="config.yaml"):
        """Writes the config as JSON, which is YAML."""
        path = self.folder / name
        path.write_text(json.dumps(config, indent=1))
        return path

    def run(self, *arguments, allowed=(0,), timeout=120):
        """Runs trainer in the folder of the case. Another exit code than the allowed ones fails the case."""
        done = subprocess.run([self.trainer, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              timeout=timeout)
        if done.returncode not in allowed:
            raise Failed("trainer runs", f"trainer {' '.join(map(str, arguments))} ended with {done.returncode}: "
                                         f"{done.stderr.strip()[-600:]}")
        return done


class Generator:
    """Runs the cases of a script and prints the table."""

    def __init__(self, name, description, cases):
        """`name` distinguishes the draws of the scripts, `cases` is the number of cases when no option gives it."""
        self.name = name
        self.parser = argparse.ArgumentParser(description=description,
                                              formatter_class=argparse.RawDescriptionHelpFormatter)
        self.parser.add_argument("trainer", type=pathlib.Path, metavar="TRAINER", help="the program trainer")
        self.parser.add_argument("--cases", type=int, default=cases)
        self.parser.add_argument("--seed", type=int, default=1)
        self.parser.add_argument("--case", type=int, help="run this case of the seed only")
        self.parser.add_argument("--seconds", type=float, help="start no case after this time")
        self.parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("generated_failures"),
                                 help="folder for the files of failed cases (default %(default)s)")
        self.rows = {}  # row of the table: [tried, failed, largest error]
        self.described = {}  # number of a failed case: messages

    def count(self, row, failed=False, error=None):
        counts = self.rows.setdefault(row, [0, 0, 0.0])
        counts[0] += 1
        counts[1] += failed
        if error is not None and error > counts[2]:
            counts[2] = error

    def describe(self, case, message):
        self.described.setdefault(case.number, []).append(message)
        print(f"case {case.number}: {message}", flush=True)

    def run(self, run_case):
        """Calls `run_case` with each Case. Returns the exit code: 0, or 1 where a case failed."""
        if len(sys.argv) == 1:
            self.parser.print_help()
            return 2
        self.options = self.parser.parse_args()
        numbers = [self.options.case] if self.options.case is not None else range(self.options.cases)
        begin = time.monotonic()
        tried = 0
        for number in numbers:
            if self.options.seconds and time.monotonic() - begin > self.options.seconds:
                break
            tried += 1
            with tempfile.TemporaryDirectory(prefix="generated.") as temporary:
                case = Case(self, number, pathlib.Path(temporary))
                try:
                    run_case(case)
                except Failed as failure:
                    case.failed(failure.row, str(failure))
                except subprocess.TimeoutExpired as error:
                    case.failed("trainer ends", str(error))
                if number in self.described:
                    self.keep(case)
        self.print_table(tried, time.monotonic() - begin)
        return 1 if self.described else 0

    def keep(self, case):
        """Copies the files of a failed case and prints how to repeat it."""
        kept = self.options.keep.resolve() / f"{self.name}-{self.options.seed}-{case.number}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(case.folder, kept, symlinks=True)
        command = f"{sys.argv[0]} {self.options.trainer} --seed {self.options.seed} --case {case.number}"
        (kept / "failed.txt").write_text("\n".join([command, *self.described[case.number], ""]))
        print(f"    files: {kept}\n    repeat: {command}", flush=True)

    def print_table(self, tried, seconds):
        width = max([len(row) for row in self.rows] + [5])
        print(f"\n{self.name}: seed {self.options.seed}, {tried} cases in {seconds:.0f} s, "
              f"{len(self.described)} failed")
        print(f"{'check':{width}}  {'tried':>6}  {'failed':>6}  {'largest error':>13}")
        for row, (count, failed, error) in self.rows.items():
            print(f"{row:{width}}  {count:6}  {failed:6}  {error:13.2g}")
        if not self.rows:
            print("no case was tried")
