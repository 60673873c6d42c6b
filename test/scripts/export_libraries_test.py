#!/usr/bin/env python3
"""timm and torchvision open what `trainer export --format timm` and `--format torch` write of trained models, and give
the logits of `trainer predict --logits`, to 1e-4 of the largest.

    export_libraries_test.py TRAINER [CASE...]      all small cases, or those named; `all` for the large ones too

Every state dict is loaded with strict=True. Prints the largest relative difference of each.
"""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import safetensors.torch
import support
import timm
import torch

sys.path.insert(0, str(support.ROOT / "test/keras"))
import make_pytorch_features as networks  # noqa: E402

CLASSES = ["daisy", "rose", "tulip", "lily", "aster"]
POOLED = "global_average_pool, {dropout: 0.2}, {dense: 5}"
# By name: the backbone, the head, the image's side, the network in torchvision or transformers ("" for none), whether
# timm has it, and more of the config.
SMALL = {
    "resnet18": ("name: resnet18, variant: torchvision", POOLED, 32, "resnet18", True, "optimizer: {sgd: {}, ema: 0.5}"),
    "vit_tiny": ("name: vit_tiny_patch16, variant: timm, pooling: token", "dense: 5", 64, "", True, ""),
    "vit_tiny_mean": ("name: vit_tiny_patch16, variant: timm, pooling: avg, freeze: all", "dense: 5", 48, "", True, ""),
    "mobilenet_v2": ("name: mobilenet_v2, variant: torchvision, freeze: '[:40]'", POOLED, 64, "mobilenet_v2", False, ""),
    "efficientnet_b0": ("name: efficientnet_b0, variant: timm_tf", POOLED, 64, "", True, ""),
    "convnextv2_atto": ("name: convnextv2_atto, variant: timm, pooling: avg", "dense: 5", 64, "", True, ""),
    "mobilenet_v3_small": ("name: mobilenet_v3_small, variant: timm, include_top: true", "", 64, "", True, ""),
}
LARGE = {
    "resnet50": ("name: resnet50, variant: torchvision", POOLED, 64, "resnet50", True, ""),
    "dinov2_small": ("name: dinov2_small, variant: timm, pooling: token", "dense: 5", 56, "", True, ""),
    "dinov2_small_reg": ("name: dinov2_small_reg, variant: timm, pooling: token", "dense: 5", 56, "", True, ""),
    "dinov2_transformers": ("name: dinov2_small, variant: transformers, include_top: true", "", 56, "dinov2_small", False, ""),
    "resnet18_transformers": ("name: resnet18, variant: transformers", POOLED, 64, "resnet18", False, ""),
    "convnext_tiny": ("name: convnext_tiny, variant: timm, pooling: avg", "dense: 5", 64, "", True, ""),
    "convnext_tiny_torchvision": ("name: convnext_tiny, variant: torchvision, pooling: avg", "dense: 5", 64,
                                  "convnext_tiny", False, ""),
    "vit_base": ("name: vit_base_patch16, variant: torchvision, pooling: token", "dense: 5", 64, "vit_b_16", False, ""),
    "vgg16": ("name: vgg16, variant: timm, include_top: true", "", 224, "", True, ""),
    "densenet121": ("name: densenet121, variant: torchvision", POOLED, 64, "densenet121", True, ""),
    "regnet_y_400mf": ("name: regnet_y_400mf, variant: timm", POOLED, 64, "", True, ""),
    "mobilenetv4": ("name: mobilenetv4_conv_small, variant: timm, include_top: true", "", 64, "", True, ""),
    "xception": ("name: xception, variant: timm", POOLED, 96, "", True, ""),
}
PREPROCESS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def describe_config(case, folder):
    backbone, head, side, _, _, more = case
    return (f"model: {{input: [{side}, {side}, 3], backbone: {{{backbone}}}{f', head: [{head}]' if head else ''}}}\n"
            f"data: {{format: image_folder, path: {folder}/photos, validation_split: 0.2, preprocess: torch}}\n"
            f"train: {{max_steps: 3, batch_size: 5}}\nrun: {{dir: {folder}/run, tensorboard: false, best: ''}}\n{more}\n")


def write_photos(folder):
    generator = np.random.default_rng(3)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for i in range(4):
            pixels = generator.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            (folder / name / f"{i}.ppm").write_bytes(b"P6 40 40 255\n" + pixels.tobytes())


def load_torch(file, case):
    """The network with the state dict of the file; transformers takes it in a folder as it saves it."""
    variant = "transformers" if "transformers" in case[0] else "torchvision"
    model = networks.make_network(variant, case[3], len(CLASSES), case[2])
    state = safetensors.torch.load_file(file)
    if variant == "torchvision":
        model.load_state_dict(state, strict=True)
        return model.eval()
    assert set(state) == set(networks.published_state(model)), set(state) ^ set(networks.published_state(model))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        safetensors.torch.save_file(state, folder + "/model.safetensors", metadata={"format": "pt"})
        return type(model).from_pretrained(folder).eval()


class ExportLibraries(unittest.TestCase):
    chosen = list(SMALL)

    def run_case(self, name, case, folder):
        (folder / "config.yaml").write_text(describe_config(case, folder))
        support.run_json("train", folder / "config.yaml")
        images = np.random.default_rng(7).integers(0, 256, (4, case[2], case[2], 3), dtype=np.uint8)
        np.save(folder / "images.npy", images)
        rows = support.run_json("predict", folder / "run", folder / "images.npy", "--logits")
        expected = np.array([row["logits"] for row in rows if "logits" in row])
        opened = {}
        if case[3]:
            file = folder / "x.safetensors"
            support.run_json("export", folder / "run", "--format", "torch", "--output", file)
            opened["torch"] = load_torch(file, case), PREPROCESS
        if case[4]:
            support.run_json("export", folder / "run", "--format", "timm", "--output", folder / "timm")
            model = timm.create_model(f"local-dir:{folder}/timm", pretrained=True).eval()
            opened["timm"] = model, timm.data.resolve_data_config({}, model=model)
            self.check_description(model, folder, case)
        for source, (model, images_of_source) in opened.items():
            x = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
            mean, std = (torch.tensor(images_of_source[key]).view(1, 3, 1, 1) for key in ("mean", "std"))
            with torch.no_grad():
                result = model((x - mean) / std)
            logits = getattr(result, "logits", result).numpy()
            difference = float(np.abs(logits - expected).max() / np.abs(expected).max())
            print(f"{name}, {source}: largest relative difference of logits {difference:.1e}", flush=True)
            self.assertLess(difference, 1e-4)

    def check_description(self, model, folder, case):
        config = json.loads((folder / "timm/config.json").read_text())
        self.assertEqual(sorted(CLASSES), config["label_names"])
        self.assertEqual(sorted(CLASSES), list(model.pretrained_cfg["label_names"]))
        self.assertEqual((3, case[2], case[2]), tuple(timm.data.resolve_data_config({}, model=model)["input_size"]))
        self.assertIn(config["pretrained_cfg"]["first_conv"] + ".weight", model.state_dict())
        # Another number of classes keeps all but the classifier.
        other = timm.create_model(f"local-dir:{folder}/timm", pretrained=True, num_classes=3)
        classifier = config["pretrained_cfg"]["classifier"]
        for key, value in other.state_dict().items():
            if not key.startswith(classifier + "."):
                self.assertTrue(torch.equal(value, model.state_dict()[key]), key)

    def test_logits(self):
        for name in self.chosen:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                write_photos(pathlib.Path(folder) / "photos")
                self.run_case(name, {**SMALL, **LARGE}[name], pathlib.Path(folder))


if __name__ == "__main__":
    named = sys.argv[1:]
    del sys.argv[1:]
    ExportLibraries.chosen = [*SMALL, *LARGE] if named == ["all"] else named or list(SMALL)
    support.main()
