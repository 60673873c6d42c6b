"""Training and prediction images/second of every backbone: trainer, PyTorch, Keras and, for prediction, ONNX Runtime and OpenVINO,
in one run on this machine. 224 x 224 images of bytes, or of --side, the backbone trained whole, global average pooling (the class
token of ViT) and 1,000 classes, SGD with momentum, random weights.

Each peer is probed at its settings first; its best one is then measured in rounds that alternate with trainer, so that all meet
the same machine. Ends with a table and `ratio zoo_train_NAME VALUE`, `ratio zoo_predict_NAME VALUE`, with _bf16 behind the name in
bfloat16: ours / the best peer's, medians. A peer that has no such backbone is left out of its row; ONNX Runtime and OpenVINO predict
in float32 in all rows. "of limit" is the share of the roofline that our training step reaches, as scripts/bench/roofline has it:
what each layer reads and writes counts, also where passes of several layers keep it in registers.
"""

import argparse
import itertools
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common import Peer, fastest, find_trainer, run_trainer
from roofline import share

# What torchvision calls them; Keras's class, where it has one.
KERAS = {
    "vgg16": "VGG16", "mobilenet_v2": "MobileNetV2", "resnet18": None, "resnet34": None, "resnet50": "ResNet50",
    "resnet101": "ResNet101", "densenet121": "DenseNet121", "efficientnet_b0": "EfficientNetB0",
    "efficientnet_b1": "EfficientNetB1", "efficientnet_b2": "EfficientNetB2", "efficientnet_b3": "EfficientNetB3",
    "mobilenet_v3_small": "MobileNetV3Small", "mobilenet_v3_large": "MobileNetV3Large", "convnext_tiny": "ConvNeXtTiny",
    "vit_tiny_patch16": None, "vit_small_patch16": None, "vit_base_patch16": None,
}
TORCH_MODES = [
    {"mode": "eager", "channels_last": True, "malloc": "no-mmap"}, {"mode": "compile", "channels_last": True, "malloc": "no-mmap"},
    {"mode": "eager", "malloc": "no-mmap"},
]
PEERS = ["torch", "keras", "onnx", "openvino"]
CONFIG = """name: zoo_{name}
seed: 1
model:
  input: [{side}, {side}, 3]
  backbone: {{name: {name}{pooling}}}
  head: [{pool}dense: 1000]
  loss: softmax_cross_entropy
data: {{format: synthetic, synthetic: {{shape: [{side}, {side}, 3], classes: 1000, train_samples: 64, test_samples: 16}}}}
optimizer: {{sgd: {{learning_rate: 0.01, momentum: 0.9}}}}
train: {{max_steps: 1, batch_size: {batch}, precision: {precision}}}
run: {{evaluate_every: 1000 epochs, tensorboard: false, dir: {folder}/run}}
"""


def config_text(name, batch, folder, precision="float32", side=224):
    """A config that trains the backbone `name`; `folder` takes its run."""
    is_vit = name.startswith("vit_")
    return CONFIG.format(name=name, batch=batch, precision=precision, folder=folder, side=side,
                         pooling=", pooling: token" if is_vit else "", pool="" if is_vit else "global_average_pool, ")


def offered(name, predict, precision, options, model):
    """The peers at their settings, by name; started one after the other."""
    shared = {"what": "zoo", "case": name, "batch": options.batch, "predict": predict, "precision": precision, "side": options.side}
    if "torch" in options.peers:
        yield "torch", (Peer("torch", wait="passive", **shared, **mode) for mode in TORCH_MODES)
    if "keras" in options.peers and KERAS[name]:
        yield "keras", (Peer("keras", malloc="no-mmap", wait="passive", **{**shared, "case": KERAS[name]}) for _ in range(1))
    exported_model = {**shared, "precision": "float32", "model": model}
    if "onnx" in options.peers and model:
        yield "onnx", (Peer("onnx", **exported_model) for _ in range(1))
    if "openvino" in options.peers and model:
        yield "openvino", (Peer("openvino", mode=mode, **exported_model) for mode in ("latency", "throughput"))


def ours(trainer, config, predict, seconds):
    flags = ["--predict"] if predict else []
    for event in run_trainer(trainer, "benchmark", config, "--seconds", str(seconds), *flags):
        if event["event"] == "benchmark":
            return event["images_per_second"]
    sys.exit("trainer benchmark printed no benchmark event")


def of_limit(trainer, config, folder):
    """The share of the roofline that a training step reaches, the best of two tries."""
    arguments = ["profile", config, "--steps", "6", "--trace", f"{folder}/trace.json", "--overwrite"]
    return max(share(event) for _ in range(2) for event in run_trainer(trainer, *arguments) if event["event"] == "profile")


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


def compare(trainer, name, work, precision, options, folder):
    """Images/second by who reached them, and for training "limit": the share of the roofline."""
    print(f"{name}, {work}, {precision}:", flush=True)
    predict = work == "predict"
    config = pathlib.Path(folder) / f"{name}.yaml"
    config.write_text(config_text(name, options.batch, folder, precision, options.side))
    model = exported(trainer, config, folder) if predict and {"onnx", "openvino"} & set(options.peers) else None
    peers = {}
    for peer, settings in offered(name, predict, precision, options, model):
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
    row = {each: statistics.median(values) for each, values in figures.items()}
    if not predict:
        row["limit"] = of_limit(trainer, config, folder)
    return row


def ratio(row):
    """Ours / the best peer's; None without peers."""
    best = max((row[peer] for peer in row if peer in PEERS), default=None)
    return best and row["trainer"] / best


def print_table(rows):
    print(f"\n{'backbone':20} {'work':8} {'precision':9} " + " ".join(f"{each:>9}" for each in ["trainer", *PEERS, "ratio", "of limit"]))
    for (name, work, precision), row in rows.items():
        cells = [f"{row[each]:.1f}" if each in row else "-" for each in ["trainer", *PEERS]]
        cells += [f"{ratio(row):.2f}" if ratio(row) else "-", f"{100 * row['limit']:.1f}%" if "limit" in row else "-"]
        print(f"{name:20} {work:8} {precision:9} " + " ".join(f"{cell:>9}" for cell in cells))
    for (name, work, precision), row in rows.items():
        if ratio(row):
            print(f"ratio zoo_{work}_{name}{'_bf16' if precision == 'bfloat16' else ''} {ratio(row):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=sorted(KERAS), default=list(KERAS))
    parser.add_argument("--work", nargs="+", choices=["train", "predict"], default=["train", "predict"])
    parser.add_argument("--precision", nargs="+", choices=["float32", "bfloat16"], default=["float32"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--side", type=int, default=224, help="of the images in pixels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each in each round")
    parser.add_argument("--probe-seconds", type=float, default=2.0)
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for key in itertools.product(options.case, options.work, options.precision):
            rows[key] = compare(trainer, *key, options, folder)
    print_table(rows)


if __name__ == "__main__":
    main()
