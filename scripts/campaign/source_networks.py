#!/usr/bin/env python3
"""Loads random state dicts of torchvision, timm, transformers and pytorch_resnet_cifar10 and compares the logits.

    scripts/python_env.sh numpy torch torchvision timm transformers safetensors -- scripts/campaign/source_networks.py
    ... -- scripts/campaign/source_networks.py --only efficientnet

For each backbone and variant, the state dict of the library's network is saved by torch.save() and as safetensors. It
has to load without model.backbone.variant and give the library's logits, or be an error that names the key; and so for
each value of the key. A network of another padding or epsilon never loads. Prints a table: parameters, and the largest
difference of logits, relative to the largest logit. Exits with 1 if one is above 1e-4. Takes the program from $TRAINER
or build/release.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/keras"))
import make_pytorch_features as networks  # noqa: E402

TRAINER = os.environ.get("TRAINER", str(ROOT / "build/release/apps/trainer/trainer"))
CLASSES = 61
KEY = "model.backbone.variant"
VITS = {"tiny": "vit_tiny_patch16_224", "small": "vit_small_patch16_224", "base": "vit_base_patch16_224"}
TIMM = {"mobilenet_v2": "mobilenetv2_100", "mobilenet_v3_small": "mobilenetv3_small_100",
        "mobilenet_v3_large": "mobilenetv3_large_100", "regnet_y_400mf": "regnety_004",
        "regnet_y_800mf": "regnety_008", "regnet_y_1_6gf": "regnety_016", "regnet_y_3_2gf": "regnety_032",
        "regnet_y_8gf": "regnety_080", "xception": "legacy_xception"}
TORCHVISION = {"efficientnetv2_s": "efficientnet_v2_s", "resnet20_cifar": "resnet20", "resnet56_cifar": "resnet56"}


def name_in_library(backbone, variant):
    if networks.patch_size(backbone) and variant != "transformers":
        size, register = backbone.split("_")[1], "reg4_" if backbone.endswith("_reg") else ""
        if variant == "torchvision":
            return "vit_b_16"
        return f"vit_{size}_patch14_{register}dinov2" if "dinov2" in backbone else VITS[size]
    if variant == "torchvision":
        return TORCHVISION.get(backbone, backbone)
    if variant == "transformers":
        return backbone
    return ("tf_" if variant == "timm_tf" else "") + TIMM.get(backbone, backbone)


def make_network(backbone, variant):
    torch.manual_seed(sum((backbone + variant).encode()))
    model = networks.make_network(variant, name_in_library(backbone, variant), CLASSES).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            torch.nn.init.uniform_(module.weight, 0.5, 1)
            torch.nn.init.normal_(module.bias, std=0.1)
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1)
    for name, parameter in model.named_parameters():
        if name.endswith(("gamma", "layer_scale", "layer_scale_parameter")) or ".grn." in name:
            torch.nn.init.uniform_(parameter, 0.5, 1)
        elif name.endswith("lambda1"):
            torch.nn.init.uniform_(parameter, 0.5, 1)
        elif name.endswith(("cls_token", "class_token", "reg_token", "register_tokens", "heads.head.weight")):
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def run(folder, backbone, variant, weights, images):
    """Returns the logits, or the error."""
    chosen = f", variant: {variant}" if variant else ""
    height, width, channels = images.shape[1:]
    (folder / "config.yaml").write_text(
        f"model: {{input: [{height}, {width}, {channels}], backbone: {{name: {backbone}, include_top: true, "
        f"weights: '{weights}'{chosen}}}}}\n"
        f"data: {{format: synthetic, synthetic: {{shape: [{height}, {width}, {channels}], classes: {CLASSES}, "
        "train_samples: 4, test_samples: 2}, preprocess: tf}\ntrain: {epochs: 1, batch_size: 2}\n")
    np.save(folder / "images.npy", images)
    command = [TRAINER, "predict", str(folder / "config.yaml"), str(folder / "images.npy"), "--json", "--logits"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return None, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return np.array([row["logits"] for row in rows if "logits" in row]), ""


def check(folder, backbone, variant, variants):
    """Returns a row of the table and the mistakes."""
    model = make_network(backbone, variant)
    patch = networks.patch_size(backbone)
    size = (224, 224) if backbone == "vgg16" else (67, 96)
    if patch:  # the file is for 6 x 6 patches
        size = (4 * patch, 4 * patch if variant == "torchvision" else 7 * patch)
    images = np.random.default_rng(7).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    x = torch.from_numpy(images).permute(0, 3, 1, 2) / 127.5 - 1
    resized = networks.make_resized(model, variant, name_in_library(backbone, variant), CLASSES, size) if patch else model
    expected = networks.compute(resized, x).numpy()
    torch.save(model.state_dict(), folder / "w.pth")
    state = networks.published_state(model)
    safetensors.torch.save_file({key: value.contiguous() for key, value in state.items()}, folder / "w.safetensors")
    worst, outcomes, mistakes = 0.0, [], []
    for given in [None, *variants]:
        for file in ("w.pth", "w.safetensors") if given in (None, variant) else ("w.safetensors",):
            logits, error = run(folder, backbone, given, folder / file, images)
            what = f"{file} of {variant}, variant {given}"
            if logits is None:
                outcomes.append(f"{given}: error")
                if KEY not in error:
                    mistakes.append(f"{what}: the error does not name the key: {error.strip()}")
                if given == variant:
                    mistakes.append(f"{what}: {error.strip()}")
                continue
            outcomes.append(f"{given}: loads")
            if given and given != variant and "timm_tf" in (given, variant):
                continue  # the user's word against names that fit both
            difference = float(np.abs(logits - expected).max() / np.abs(expected).max())
            worst = max(worst, difference)
            if not difference < 1e-4:
                mistakes.append(f"{what}: difference {difference:.2g}")
    parameters = sum(value.numel() for value in model.parameters())
    return [backbone, variant, f"{parameters:,}", f"{worst:.1e}", ", ".join(dict.fromkeys(outcomes))], mistakes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="backbones whose names contain this text")
    only = parser.parse_args().only
    models = json.loads(subprocess.run([TRAINER, "models", "--json"], capture_output=True, text=True,
                                       check=True).stdout)["backbones"]
    variants = {}
    for row in models:
        variants.setdefault(row["name"], []).append(row["variant"])
    mistakes = []
    print("| backbone | source | parameters | largest relative difference | key |\n| --- | --- | --- | --- | --- |")
    for backbone, known in variants.items():
        for variant in known:
            if only not in backbone or variant == "keras":
                continue
            with tempfile.TemporaryDirectory() as folder:
                row, wrong = check(pathlib.Path(folder), backbone, variant, known)
            print("| " + " | ".join(row) + " |", flush=True)
            for mistake in wrong:
                print("mistake:", backbone, mistake, flush=True)
            mistakes += wrong
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
