#!/usr/bin/env python3
"""Plants mistakes between each generator and trainer, and expects the generator to report them.

    scripts/python_env.sh keras onnx onnxruntime h5py -- test/generated/mistakes.py build/release/apps/trainer/trainer

A mistake changes the config that trainer gets, a file that it wrote, or the files that it resumes from. Prints a table;
exits with 1 where a generator reports no failed case, with 77 without the packages.
"""

import argparse
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
NORMS = ("batch_norm", "layer_norm", "group_norm")


def change_layers(layers, change):
    for layer in layers:
        if isinstance(layer, dict):
            (kind, options), = layer.items()
            change(kind, options)
            if isinstance(options, dict):
                change_layers(options.get("layers", []), change)
                change_layers(options.get("shortcut", []), change)


def epsilon(config):
    """Norms add 5 % more."""
    def change(kind, options):
        if kind in NORMS:
            options["epsilon"] = 1.05 * options.get("epsilon", 1e-3)
    change_layers(config["model"]["layers"], change)


def activation(config):
    """elu in place of relu, sigmoid in place of tanh, swish in place of gelu, and the other way round."""
    pairs = [("relu", "elu"), ("tanh", "sigmoid"), ("gelu", "swish")]
    other = {a: b for pair in pairs for a, b in (pair, pair[::-1])}

    def change(kind, options):
        if isinstance(options, dict):
            for key in ("function", "activation"):
                options.update({key: other[options[key]]} if options.get(key) in other else {})
    change_layers(config["model"]["layers"], change)


def optimizer(config):
    """A learning rate that is 1 % too large."""
    for options in config["optimizer"].values():
        if isinstance(options, dict):
            options["learning_rate"] *= 1.01


def rate(config):
    """A learning rate that is 0.001 % too large."""
    config["optimizer"]["sgd"]["learning_rate"] *= 1.00001


def interpolation(config):
    """The other way of resizing."""
    data = config["data"]
    data["interpolation"] = "bicubic" if data["interpolation"] == "bilinear" else "bilinear"


def level(config):
    """Pixels that are one hundredth too bright."""
    config["data"]["normalize"]["scale"] = 1.01


def exchange(output):
    """Exchanges the first two arrays of equal shapes in a Keras file."""
    import h5py
    arrays = {}
    with h5py.File(output, "r+") as file:
        names = []
        file.visit(names.append)
        for name in names:
            if not isinstance(file[name], h5py.Dataset) or file[name].ndim < 2:
                continue
            other = arrays.setdefault(file[name].shape, name)
            if other != name:
                first, second = file[other][...], file[name][...]
                file[other][...], file[name][...] = second, first
                return


def lost_row(run):
    """A row of the ledger is not there when the run is resumed."""
    ledger = run / "ledger.csv"
    if ledger.exists():
        lines = ledger.read_text().splitlines(keepends=True)
        ledger.write_text("".join(lines[:2] + lines[3:]))


def balanced(config):
    """Samples are drawn by class, with replacement."""
    config["data"].update(shuffle=True, sampling="balanced")


def remainder(config):
    """The samples that do not fill a batch are left out."""
    config["data"]["drop_remainder"] = True


def undivided(config):
    """Training visits the samples of the validation split and those above the limit, too."""
    for key in ("limit", "validation_split"):
        config["data"].pop(key, None)


def change_result(run, name, key, change):
    path = pathlib.Path(run) / name
    if path.exists():
        result = json.loads(path.read_text())
        if result.get(key) is not None:
            result[key] = change(result[key])
            path.write_text(json.dumps(result))


def temperature(arguments):
    """predict divides by a temperature that is 1 % too large."""
    change_result(arguments[1], "calibration.json", "temperature", lambda value: 1.01 * value)


def threshold(arguments):
    """predict decides from smaller odds on."""
    change_result(arguments[1], "operating_point.json", "log_odds", lambda value: value - 0.5)


def silence(arguments):
    """predict does not know that the test split contradicts a decision."""
    for name in ("calibration.json", "operating_point.json", "abstention.json"):
        change_result(arguments[1], name, "contradiction", lambda value: "")


def uncaught(arguments):
    """report prints the exception of a library."""
    sys.exit("error: [json.exception.type_error.302] type must be number, but is string")


# Generator, options, mistake and what it changes.
MISTAKES = [
    ("models", 12, epsilon, "config"), ("models", 12, activation, "config"), ("models", 6, optimizer, "config"),
    ("models", 12, exchange, "output"), ("images", 4, interpolation, "config"), ("images", 2, level, "config"),
    ("schedules", 3, rate, "config"), ("kills", 4, lost_row, "run"), ("visits", 6, balanced, "config"),
    ("visits", 8, remainder, "config"), ("visits", 8, undivided, "config"), ("decisions", 4, temperature, "predict"),
    ("decisions", 12, threshold, "predict"), ("decisions", 8, silence, "predict"), ("damaged", 4, uncaught, "report"),
]


def run_trainer(trainer, mistake, changes, arguments):
    """What stands for trainer: the same program, with the mistake."""
    arguments = list(arguments)
    if changes == "config":
        for i, argument in enumerate(arguments):
            if argument.endswith(".yaml"):
                path = pathlib.Path(argument)
                config = json.loads(path.read_text())
                mistake(config)
                arguments[i] = str(path.with_name("mistake.yaml"))
                pathlib.Path(arguments[i]).write_text(json.dumps(config))
    if changes == "run" and "--run-dir" in arguments:
        mistake(pathlib.Path(arguments[arguments.index("--run-dir") + 1]))
    if changes == arguments[0]:
        mistake(arguments)
    if changes == "output" and arguments[0] == "export":
        subprocess.run([trainer, *arguments], check=True)
        output = arguments[arguments.index("--output") + 1]
        return mistake(output) if output.endswith(".h5") else None
    os.execv(trainer, [trainer, *arguments])


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--stand-in":
        trainer, number = sys.argv[2], int(sys.argv[3])
        _, _, mistake, changes = MISTAKES[number]
        return run_trainer(trainer, mistake, changes, sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path, metavar="TRAINER")
    parser.add_argument("--only", nargs="*", help="generators")
    options = parser.parse_args()
    missed = 0
    print(f"{'generator':10}  {'mistake':14}  {'cases':>5}  result")
    for number, (generator, cases, mistake, _) in enumerate(MISTAKES):
        if options.only and generator not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="mistakes.") as folder:
            stand_in = pathlib.Path(folder) / "trainer"
            command = f"{sys.executable} {HERE}/mistakes.py --stand-in {options.trainer.resolve()} {number}"
            stand_in.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
            done = subprocess.run([sys.executable, HERE / f"{generator}.py", stand_in, "--cases", str(cases), "--keep",
                                   f"{folder}/failures"], capture_output=True, text=True)
        if done.returncode == SKIPPED:
            print(done.stdout)
            return SKIPPED
        failures = [line for line in done.stdout.splitlines() if line.startswith("case ")]
        found = [line for line in failures if "trainer runs:" not in line]
        missed += not found
        print(f"{generator:10}  {mistake.__name__:14}  {cases:5}  "
              f"{f'found: {found[0][:150]}' if found else 'NOT FOUND ' + done.stderr[-300:]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
