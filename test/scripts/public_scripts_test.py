#!/usr/bin/env python3
"""configs/public_scripts: each config is valid, has a plan and trains some steps.

Those of cats and dogs train on the photos in TRAINER_SHARED_DATA; the others on drawn pictures.
"""

import json
import math
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import support

sys.path.append(str(support.ROOT / "scripts" / "articles"))
import pictures  # noqa: E402

CONFIGS = support.ROOT / "configs" / "public_scripts"
CATS_DOGS = ["keras_transfer_learning", "keras_from_scratch", "tensorflow_cats_dogs"]
# The key with the number of classes, which drawn pictures have fewer of.
UNITS = {
    "torchvision_resnet50_v2_recipe": "model.head[1].dense.units=3",
    "timm_efficientnet_b0": "model.head[2].dense.units=3",
    "pytorch_transfer_learning": "model.head[1].dense.units=3",
    "timm_vit_small_finetune": "model.head[0].dense.units=3",
    "dinov2_linear": "model.head[0].dense.units=3",
    "cifar_resnet20_th": "model.head[1].dense.units=3",
}
# The inputs and outputs of their last layer.
CLASSIFIERS = {
    "torchvision_resnet50_v2_recipe": (2048, 1000),
    "timm_efficientnet_b0": (1280, 1000),
    "pytorch_transfer_learning": (512, 2),
    "timm_vit_small_finetune": (384, 5),
    "dinov2_linear": (384, 5),
    "cifar_resnet20_th": (64, 10),
}
# The parameters that are trained: those of Keras's and torchvision's networks with their classifiers.
TRAINABLE = {
    # The head alone: 1280 weights and a bias.
    "keras_transfer_learning": 1281,
    "tensorflow_cats_dogs": 1281,
    "torchvision_resnet50_v2_recipe": 25_557_032,
    "pytorch_transfer_learning": 11_689_512 - 1000 * 513 + 2 * 513,
    "timm_efficientnet_b0": 5_288_548,
    "timm_vit_small_finetune": 21_665_664 + 5 * 385,
    "dinov2_linear": 5 * 385,
    "cifar_resnet20_th": 269_722,
}


def xception_parameters():
    """The trained parameters of the small Xception of Keras's example, in the order of its lines."""
    count = 3 * 9 * 128 + 128 + 2 * 128
    channels = 128
    for size in (256, 512, 728):
        for inputs in (channels, size):
            count += 9 * inputs + inputs * size + size + 2 * size
        count += channels * size + size
        channels = size
    return count + 9 * 728 + 728 * 1024 + 1024 + 2 * 1024 + 1024 + 1


class PublicScripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.temporary.name)
        for index, split in enumerate(("train", "val")):
            pictures.draw(cls.work / "drawn" / split, ["a", "b", "c"], 4 - 2 * index, 48, index)
        for index, split in enumerate(("train", "validation")):
            pictures.draw(cls.work / "two" / split, ["cats", "dogs"], 4 - 2 * index, 48, index)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def command(self, *arguments):
        done = support.trainer(*arguments, TRAINER_CUDA_PLUGIN="/nonexistent", WEIGHTS_DIR=str(self.work / "none"))
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    def drawn(self, name):
        """Settings by which a config reads drawn pictures, with random weights."""
        config = (CONFIGS / f"{name}.yaml").read_text()
        two = self.work / "two"
        drawn = self.work / "drawn"
        data = {"keras_from_scratch": f"data.train.path={two / 'train'}",
                "timm_vit_small_finetune": f"data.path={drawn / 'train'}",  # these set some images of it aside
                "dinov2_linear": f"data.path={drawn / 'train'}"}.get(name)
        data = data or f"data.path={two if name in CATS_DOGS else drawn}"
        settings = [data, "parallel.device=cpu", "run.tensorboard=false", f"data.cache_dir={self.work / 'cache'}"]
        settings += [UNITS[name]] if name in UNITS else []
        settings += ['model.backbone.weights=""'] if re.search("weights: (imagenet|timm/)", config) else []
        settings += ["data.format=image_folder", 'model.weights=""'] if name == "cifar_resnet20_th" else []
        settings += ["train.precision=float32"] if "float16" in config else []
        return [part for setting in settings for part in ("--set", setting)]

    def train(self, name, settings, steps, batch):
        run = self.work / f"run_{name}_{steps}"
        for setting in (f"train.max_steps={steps}", "train.epochs=null", f"train.batch_size={batch}",
                        "run.summary_every=1 steps"):
            settings = [*settings, "--set", setting]
        self.command("train", CONFIGS / f"{name}.yaml", *settings, "--run-dir", run)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        shutil.rmtree(run)
        return rows

    def names(self):
        return sorted(path.stem for path in CONFIGS.glob("*.yaml"))

    def test_each_config_names_its_source_and_the_guide_names_each_config(self):
        guide = (support.ROOT / "configs" / "guide_from_pytorch.md").read_text()
        self.assertEqual(len(self.names()), 9)
        for name in self.names():
            with self.subTest(name):
                text = (CONFIGS / f"{name}.yaml").read_text()
                comments = text[:text.index("name: ")]
                self.assertIn("https://", comments)
                self.assertIn("# What differs:\n# - ", comments)
                self.assertIn(f"\nname: {name}\n", text)
                self.assertIn(f"| `{name}.yaml` |", guide)

    def test_configs_of_public_scripts_are_valid(self):
        for name in self.names():
            with self.subTest(name):
                self.command("validate", CONFIGS / f"{name}.yaml")
                self.command("validate", CONFIGS / f"{name}.yaml", *self.drawn(name))

    def test_plans_have_the_parameters_of_the_scripts(self):
        for name in self.names():
            with self.subTest(name):
                settings = [*self.drawn(name), "--set", "train.batch_size=2"]
                plan = json.loads(self.command("plan", CONFIGS / f"{name}.yaml", *settings, "--json"))
                expected = {**TRAINABLE, "keras_from_scratch": xception_parameters()}[name]
                if name in UNITS:  # of the classifier for three classes
                    inputs, whole = CLASSIFIERS[name]
                    expected += (3 - whole) * (inputs + 1)
                self.assertEqual(plan["trainable_parameters"], expected)

    def test_configs_train_on_drawn_pictures(self):
        for name in self.names():
            with self.subTest(name):
                rows = self.train(name, self.drawn(name), 2, 4)
                self.assertEqual(max(row["step"] for row in rows), 2)

    def test_configs_train_on_cats_and_dogs(self):
        shared = os.environ.get("TRAINER_SHARED_DATA")
        if not shared:
            self.skipTest("TRAINER_SHARED_DATA is not set")
        photos, weights = pathlib.Path(shared) / "cats_vs_dogs", pathlib.Path(shared) / "weights"
        if not photos.is_dir():
            self.skipTest(f"there is no {photos}")
        for name in CATS_DOGS:
            with self.subTest(name):
                settings = ["--set", "parallel.device=cpu", "--set", f"data.cache_dir={self.work / 'cache'}"]
                path = "data.train.path" if name == "keras_from_scratch" else "data.path"
                settings += ["--set", f"{path}={photos / 'train' if path == 'data.train.path' else photos}"]
                if name != "keras_from_scratch":
                    file = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
                    settings += ["--set", f"model.backbone.weights={weights / file}"]
                # A step of the small Xception takes a hundred times as long as one of a head.
                settings += ["--set", "data.limit=80"] if name == "keras_from_scratch" else []
                rows = self.train(name, settings, 8, 2 if name == "keras_from_scratch" else 16)
                self.assertEqual([row["step"] for row in rows if row["split"] == "train"], list(range(1, 9)))
                self.assertTrue(all(math.isfinite(row["loss"]) for row in rows))
                last = [row for row in rows if row["split"] == "validation"][-1]
                if name == "keras_transfer_learning":  # a head on ImageNet's features learns in some steps
                    self.assertGreater(last["accuracy"], 0.65)

    def test_the_weights_of_pytorch_resnet_cifar10_classify_its_images(self):
        shared = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA") or "/nonexistent")
        images, weights = shared / "cifar10_jpeg/test.zip", shared / "weights/cifar10_resnet20.th"
        if not images.is_file() or not weights.is_file():
            self.skipTest(f"there is no {images} or {weights}")
        data = f"data={{format: image_folder, train: {{path: {images}}}, test: {{path: {images}}}}}"
        lines = self.command("evaluate", CONFIGS / "cifar_resnet20_th.yaml", "--set", data, "--set",
                             f"model.weights={weights}", "--set", "parallel.device=cpu", "--json").splitlines()
        self.assertAlmostEqual(json.loads(lines[-1])["accuracy"], 0.8103, delta=2e-4)  # PyTorch has 8,103 right


if __name__ == "__main__":
    support.main()
