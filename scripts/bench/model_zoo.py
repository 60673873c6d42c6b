"""Training and prediction images/second of every backbone: trainer, PyTorch, Keras and, for prediction, ONNX Runtime, in one run
on this machine. 224 x 224 images of bytes, the backbone trained whole, global average pooling and 1,000 classes, SGD with
momentum, random weights.

Each peer is probed at its settings first; its best one is then measured in rounds that alternate with trainer, so that all meet
the same machine. Ends with a table and `ratio zoo_train_NAME VALUE`, `ratio zoo_predict_NAME VALUE`: ours / the best peer's,
medians. A peer that has no such backbone is left out of its row.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import Peer, fastest, find_trainer, run_trainer

# What torchvision calls them; Keras's class, where it has one.
KERAS = {
    "vgg16": "VGG16", "mobilenet_v2": "MobileNetV2", "resnet18": None, "resnet34": None, "resnet50": "ResNet50",
    "resnet101": "ResNet101", "densenet121": "DenseNet121", "efficientnet_b0": "EfficientNetB0",
    "efficientnet_b1": "EfficientNetB1", "efficientnet_b2": "EfficientNetB2", "efficientnet_b3": "EfficientNetB3",
    "mobilenet_v3_small": "MobileNetV3Small", "mobilenet_v3_large": "MobileNetV3Large", "convnext_tiny": "ConvNeXtTiny",
}
TORCH_MODES = [
    {"mode": "eager", "channels_last": True, "malloc": "no-mmap"}, {"mode": "compile", "channels_last": True, "malloc": "no-mmap"},
    {"mode": "eager", "malloc": "no-mmap"},
]
CONFIG = """name: zoo_{name}
seed: 1
model:
  input: [224, 224, 3]
  backbone: {{name: {name}}}
  head: [global_average_pool, dense: 1000]
  loss: softmax_cross_entropy
data: {{format: synthetic, synthetic: {{shape: [224, 224, 3], classes: 1000, train_samples: 64, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.01, momentum: 0.9}}}}
train: {{max_steps: 1, batch_size: {batch}}}
run: {{evaluate_every: 1000 epochs, tensorboard: false, dir: {folder}/run}}
"""


def offered(name, predict, options, model):
    """The peers at their settings, by name; started one after the other."""
    shared = {"what": "zoo", "case": name, "batch": options.batch, "predict": predict}
    if "torch" in options.peers:
        yield "torch", (Peer("torch", wait="passive", **shared, **mode) for mode in TORCH_MODES)
    if "keras" in options.peers and KERAS[name]:
        yield "keras", (Peer("keras", malloc="no-mmap", wait="passive", **{**shared, "case": KERAS[name]}) for _ in range(1))
    if "onnx" in options.peers and predict:
        yield "onnx", (Peer("onnx", **shared, model=model) for _ in range(1))


def ours(trainer, config, predict, seconds):
    flags = ["--predict"] if predict else []
    for event in run_trainer(trainer, "benchmark", config, "--seconds", str(seconds), *flags):
        if event["event"] == "benchmark":
            return event["images_per_second"]
    sys.exit("trainer benchmark printed no benchmark event")


def exported(trainer, config, folder):
    """The model as an ONNX file, after a step of training."""
    run_trainer(trainer, "train", config, "--overwrite")
    path = f"{folder}/model.onnx"
    done = subprocess.run([trainer, "export", f"{folder}/run", "--format", "onnx", "--output", path, "--overwrite"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"no ONNX file: {done.stderr}", file=sys.stderr)
        return None
    return path


def compare(trainer, name, predict, options, folder, config):
    print(f"{name}, {'prediction' if predict else 'training'}:", flush=True)
    model = exported(trainer, config, folder) if predict and "onnx" in options.peers else None
    peers = {}
    for peer, settings in offered(name, predict, options, model):
        if peer == "onnx" and model is None:
            continue
        best = fastest(settings, options.probe_seconds)
        if best:
            peers[peer] = best
    figures = {each: [] for each in [*peers, "trainer"]}
    for _ in range(options.rounds):
        for peer, process in peers.items():
            figures[peer].append(process.measure(options.seconds))
        figures["trainer"].append(ours(trainer, config, predict, options.seconds))
    for process in peers.values():
        process.close()
    return {each: statistics.median(values) for each, values in figures.items()}


def print_row(name, work, row):
    best = max((row[peer] for peer in row if peer != "trainer"), default=0)
    cells = " ".join(f"{row[peer]:9.1f}" if peer in row else f"{'-':>9}" for peer in ["trainer", "torch", "keras", "onnx"])
    print(f"{name:20} {work:8} {cells} {row['trainer'] / best if best else 0:7.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=sorted(KERAS), default=list(KERAS))
    parser.add_argument("--work", nargs="+", choices=["train", "predict"], default=["train", "predict"])
    parser.add_argument("--peers", nargs="*", choices=["torch", "keras", "onnx"], default=["torch", "keras", "onnx"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each in each round")
    parser.add_argument("--probe-seconds", type=float, default=2.0)
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.case:
            config = pathlib.Path(folder) / f"{name}.yaml"
            config.write_text(CONFIG.format(name=name, batch=options.batch, folder=folder))
            for work in options.work:
                rows.append((name, work, compare(trainer, name, work == "predict", options, folder, config)))
    print(f"\n{'backbone':20} {'work':8} {'trainer':>9} {'torch':>9} {'keras':>9} {'onnx':>9} {'ratio':>7}")
    for name, work, row in rows:
        print_row(name, work, row)
    for name, work, row in rows:
        if len(row) > 1:
            best = max(row[peer] for peer in row if peer != "trainer")
            print(f"ratio zoo_{work}_{name} {row['trainer'] / best:.2f}")


if __name__ == "__main__":
    main()
