#!/usr/bin/env python3
"""Trains the same models with trainer and with Keras 3, from the same weights on the same batches, and compares the
loss of every step and the final weights.

    scripts/python_env.sh keras -- test/keras/compare_training.py build/release/apps/trainer/trainer
    ... compare_training.py TRAINER --case batch_norm_adam        one of the cases in cases.py
    ... compare_training.py TRAINER --config configs/x.yaml       model, loss and optimizer of a config (needs pyyaml)

The initial weights are trainer's: they are read from the checkpoint of one step with a learning rate too small to
change them. Exits 5 when a loss is further from Keras's than tolerance * (1 + step / 10), relatively.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import cases
import numpy as np
from keras_model import make_loss, make_model, make_optimizer, train, weight_names
from safetensors.numpy import load_file

CHECK_FAILED = 5


def write_idx(path, array):
    """MNIST's format: two zero bytes, type (8 = uint8), rank, extents, bytes."""
    array = np.asarray(array, np.uint8)
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def write_data(folder, shape, classes):
    if shape[2] != 1:
        raise SystemExit("only models with one input channel can be compared: the data is written as IDX")
    images, labels = cases.samples(shape, classes)
    for split in ("train", "t10k"):
        write_idx(folder / f"{split}-images-idx3-ubyte", images[..., 0])
        write_idx(folder / f"{split}-labels-idx1-ubyte", labels)


def run_trainer(trainer, folder, name, model, optimizer, classes, steps):
    """Returns the losses by step and the tensors of the last checkpoint."""
    run = folder / name
    config = {
        "name": name,
        "model": model,
        "data": {"format": "idx", "path": str(folder), "shuffle": False, "classes": [f"c{i}" for i in range(classes)]},
        "optimizer": optimizer,
        "train": {"max_steps": steps, "batch_size": cases.BATCH},
        "run": {"dir": str(run), "log_every": "1 steps", "checkpoint_every": f"{steps} steps", "tensorboard": False},
    }
    path = folder / f"{name}.yaml"  # JSON is YAML
    path.write_text(json.dumps(config, indent=1))
    done = subprocess.run([trainer, "train", path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"trainer failed with exit code {done.returncode}:\n{done.stderr}")
    losses = {}
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "step":
            losses[event["step"]] = event["loss"]
    if sorted(losses) != list(range(1, steps + 1)):
        raise SystemExit(f"expected a step event for each of 1..{steps}, got {sorted(losses)}")
    checkpoints = sorted((run / "checkpoints").glob("step-*.safetensors"))
    return [losses[step] for step in range(1, steps + 1)], load_file(checkpoints[-1])


def set_initial_weights(model, tensors):
    for name, weight in weight_names(model):
        if name.endswith("moving_mean") or name.endswith("moving_variance"):
            continue  # the one step has moved them; Keras's own initial values are trainer's
        if name not in tensors:
            raise SystemExit(f"the checkpoint has no tensor '{name}'; it has {sorted(tensors)}")
        weight.assign(tensors[name].reshape(weight.shape))


def compare(trainer, name, model_config, optimizer, steps, tolerance):
    shape, loss_kind = model_config["input"], model_config.get("loss", "softmax_cross_entropy")
    classes = 2 if loss_kind == "binary_cross_entropy" else cases.CLASSES
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_data(folder, shape, classes)
        still = {"sgd": {"learning_rate": 1e-30}}
        _, initial = run_trainer(trainer, folder, "initial", model_config, still, classes, 1)
        ours, final = run_trainer(trainer, folder, name, model_config, optimizer, classes, steps)

    model = make_model(shape, model_config["layers"])
    set_initial_weights(model, initial)
    loss = make_loss(loss_kind, model_config.get("label_smoothing", 0.0), classes)
    batches = [cases.batch(shape, step, loss_kind, classes) for step in range(steps)]
    theirs = train(model, make_optimizer(optimizer), loss, batches)

    errors = [abs(a - b) / max(abs(b), 1e-6) for a, b in zip(ours, theirs)]
    bad = [step for step, error in enumerate(errors) if error > tolerance * (1 + step / 10)]
    weights = 0.0
    for weight_name, weight in weight_names(model):
        reference = weight.numpy()
        difference = np.linalg.norm(final[weight_name].reshape(reference.shape) - reference)
        weights = max(weights, float(difference / max(np.linalg.norm(reference), 1e-6)))
    print(f"{name:20} first loss {ours[0]:.6f} {theirs[0]:.6f}, last {ours[-1]:.6f} {theirs[-1]:.6f}, "
          f"largest relative difference {max(errors):.1e} (weights {weights:.1e}){' FAILED' if bad else ''}")
    if bad:
        step = bad[0]
        print(f"    step {step + 1}: trainer {ours[step]:.9g}, Keras {theirs[step]:.9g}, "
              f"allowed {tolerance * (1 + step / 10):.1e}", file=sys.stderr)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path)
    parser.add_argument("--case", action="append", help="name in cases.py; all when left out")
    parser.add_argument("--config", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=cases.STEPS)
    parser.add_argument("--tolerance", type=float, default=2e-5)
    arguments = parser.parse_args()

    chosen = [case for case in cases.TRAINING if not arguments.case or case[0] in arguments.case]
    if arguments.config:
        import yaml

        config = yaml.safe_load(arguments.config.read_text())
        model = {"input": [28, 28, 1], **config["model"]}
        chosen = [(arguments.config.stem, model, config.get("optimizer", "adam"))]
    if not chosen:
        parser.error(f"no such case; there are {' '.join(case[0] for case in cases.TRAINING)}")
    trainer = arguments.trainer.resolve()
    good = [compare(trainer, *case, arguments.steps, arguments.tolerance) for case in chosen]
    return 0 if all(good) else CHECK_FAILED


if __name__ == "__main__":
    sys.exit(main())
