#!/usr/bin/env python3
"""Weights by the names of timm, torchvision and Hugging Face: their download from servers on the loopback device, and
what `plan`, `validate` and `train` do with the files in the caches of these libraries."""

import hashlib
import http.server
import io
import json
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

import support

sys.path.append(str(support.ROOT / "scripts" / "articles"))
import pictures  # noqa: E402

NAME = "timm/resnet18.a1_in1k"
REPOSITORY = "models--timm--resnet18.a1_in1k"
REVISION = "491b427b45c94c7fb0e78b5474cc919aff584bbf"
TOKEN = "hf_secretTokenOfTheTest"
CONFIG = """
model: {{input: [64, 64, 3], backbone: {{name: resnet18, {backbone}}}, head: [global_average_pool, dense: 2]}}
data: {{format: image_folder, path: photos, validation_split: 0.25}}
train: {{max_steps: {steps}, batch_size: 4}}
"""


def safetensors(tensors):
    """A file of float32 zeros by name and shape."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 4
        for side in shape:
            size *= side
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def archive(data):
    """A file as torch.save() writes it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archived:
        archived.writestr("archive/data.pkl", data)
        archived.writestr("archive/version", "3\n")
    return content.getvalue()


class Server:
    """Answers with the files of `content` by path. A path of `redirects` leads elsewhere, one of `status` fails."""

    def __init__(self, test):
        self.content, self.redirects, self.status, self.headers, self.seen = {}, {}, {}, {}, []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.seen.append((self.path, self.headers.get("Authorization")))
                status = owner.status.get(self.path, 302 if self.path in owner.redirects else
                                          200 if self.path in owner.content else 404)
                body = owner.content.get(self.path, b"") if status == 200 else b""
                self.send_response(status)
                for name, value in owner.headers.get(self.path, {}).items():
                    self.send_header(name, value)
                if status == 302:
                    self.send_header("Location", owner.redirects[self.path])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.here = self.work / "here"
        self.here.mkdir()
        self.environment = {**os.environ, "no_proxy": "127.0.0.1", "HOME": str(self.work / "home"),
                            "TRAINER_CUDA_PLUGIN": "/nonexistent"}
        for name in ("WEIGHTS_DIR", "WEIGHTS_MIRROR", "HF_TOKEN", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "TORCH_HOME",
                     "XDG_CACHE_HOME"):
            self.environment.pop(name, None)
        self.hub_cache = self.work / "home/.cache/huggingface/hub"
        self.snapshot = self.hub_cache / REPOSITORY / "snapshots" / REVISION

    def trainer(self, *arguments, **variables):
        return subprocess.run([support.TRAINER, *map(str, arguments)], cwd=self.here,
                              env={**self.environment, **variables}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def ok(self, *arguments, **variables):
        done = self.trainer(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done


class Download(Case):
    def setUp(self):
        super().setUp()
        self.hub, self.store = Server(self), Server(self)
        self.weights = safetensors({"layer1.0.conv1.weight": [1]})
        self.config = json.dumps({"architecture": "resnet18"}).encode()
        self.config_path = f"/{NAME}/resolve/main/config.json"
        self.weights_path = f"/{NAME}/resolve/{REVISION}/model.safetensors"
        self.hub.content[self.config_path] = self.config
        self.hub.headers[self.config_path] = {"X-Repo-Commit": REVISION}
        # As the hub does with large files.
        self.hub.redirects[self.weights_path] = self.store.url + "/file"
        self.hub.headers[self.weights_path] = {"X-Linked-Etag": f'"{hashlib.sha256(self.weights).hexdigest()}"'}
        self.store.content["/file"] = self.weights

    def test_downloads_into_the_cache_of_the_hub(self):
        done = self.ok("weights", NAME, HF_ENDPOINT=self.hub.url)
        self.assertIn(f"{self.snapshot}/model.safetensors: downloaded", done.stdout)
        self.assertEqual((self.snapshot / "model.safetensors").read_bytes(), self.weights)
        self.assertEqual((self.snapshot / "config.json").read_bytes(), self.config)
        self.assertEqual((self.hub_cache / REPOSITORY / "refs/main").read_text(), REVISION)
        self.assertEqual(sorted(path.name for path in self.snapshot.iterdir()), ["config.json", "model.safetensors"])
        requests = len(self.hub.seen)
        self.assertIn("already there", self.ok("weights", NAME, HF_ENDPOINT=self.hub.url).stdout)
        self.assertEqual(len(self.hub.seen), requests, "no request for a file that is there")

    def test_downloads_into_weights_dir(self):
        folder = self.work / "own"
        self.ok("weights", NAME, HF_ENDPOINT=self.hub.url, WEIGHTS_DIR=str(folder))
        self.assertEqual(sorted(path.name for path in (folder / NAME).iterdir()),
                         ["config.json", "model.safetensors", "revision"])
        self.assertFalse(self.hub_cache.exists())

    def test_sends_the_token_to_the_hub_alone(self):
        done = self.ok("weights", NAME, HF_ENDPOINT=self.hub.url, HF_TOKEN=TOKEN)
        self.assertEqual(self.hub.seen, [(self.config_path, f"Bearer {TOKEN}"), (self.weights_path, f"Bearer {TOKEN}")])
        self.assertEqual(self.store.seen, [("/file", None)])
        self.assertNotIn(TOKEN, done.stdout + done.stderr)

    def test_sends_no_token_to_a_mirror(self):
        self.ok("weights", NAME, WEIGHTS_MIRROR=self.hub.url + "/", HF_TOKEN=TOKEN)
        self.assertEqual(self.hub.seen, [(self.config_path, None), (self.weights_path, None)])

    def test_takes_a_mirror_without_revisions(self):
        self.hub.headers.clear()
        self.hub.content[f"/{NAME}/resolve/main/model.safetensors"] = self.weights
        done = self.ok("weights", NAME, WEIGHTS_MIRROR=self.hub.url)
        self.assertIn(hashlib.sha256(self.weights).hexdigest(), done.stdout)
        self.assertEqual((self.hub_cache / REPOSITORY / "refs/main").read_text(), "main")

    def test_names_the_account_that_a_file_needs(self):
        for path in (self.config_path, self.weights_path):
            for status in (401, 403):
                self.hub.status = {path: status}
                done = self.trainer("weights", NAME, HF_ENDPOINT=self.hub.url, HF_TOKEN=TOKEN)
                self.assertEqual(done.returncode, 3)
                self.assertIn(f"the server answers with status {status}: there is no such model, or it needs an account",
                              done.stderr)
                self.assertIn(f"https://huggingface.co/{NAME} and set HF_TOKEN", done.stderr)
                self.assertNotIn(TOKEN, done.stderr)
                self.assertFalse((self.hub_cache / REPOSITORY / "refs").exists())

    def test_rejects_another_file_than_the_hub_s(self):
        for content, reason in ((self.weights[:-1] + b"x", "its SHA-256 is"), (self.weights[:-2], "its SHA-256 is")):
            self.store.content["/file"] = content
            done = self.trainer("weights", NAME, HF_ENDPOINT=self.hub.url)
            self.assertEqual(done.returncode, 3)
            self.assertIn(reason, done.stderr)
        self.hub.headers[self.weights_path] = {}
        self.store.content["/file"] = b"<html>" * 100
        self.assertEqual(self.trainer("weights", NAME, HF_ENDPOINT=self.hub.url).returncode, 3)
        self.assertEqual([path.name for path in self.snapshot.iterdir()], ["config.json"])

    def test_takes_the_images_of_transformers(self):
        name = "microsoft/resnet-18"
        self.hub.content[f"/{name}/resolve/main/config.json"] = b'{"model_type": "resnet"}'
        self.hub.content[f"/{name}/resolve/main/preprocessor_config.json"] = b'{"size": 224}'
        self.hub.content[f"/{name}/resolve/main/model.safetensors"] = self.weights
        self.ok("weights", name, HF_ENDPOINT=self.hub.url)
        files = self.hub_cache / "models--microsoft--resnet-18/snapshots/main"
        self.assertEqual((files / "preprocessor_config.json").read_text(), '{"size": 224}')

    def test_checks_the_hash_in_torchvision_s_name(self):
        self.hub.content["/models/resnet18-f37072fd.pth"] = b"PK\3\4" + bytes(1000)
        done = self.trainer("weights", "torchvision/resnet18.IMAGENET1K_V1", WEIGHTS_MIRROR=self.hub.url)
        self.assertEqual(done.returncode, 3)
        self.assertIn("expected f37072fd", done.stderr)
        self.assertEqual(list((self.work / "home/.cache/torch/hub/checkpoints").iterdir()), [])
        unknown = self.trainer("weights", "torchvision/resnet18.IMAGENET1K_V9", WEIGHTS_MIRROR=self.hub.url)
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("did you mean 'torchvision/resnet18.IMAGENET1K_V1'?", unknown.stderr)

    def test_lists_names(self):
        done = self.ok("weights", "--search", "resnet18")
        self.assertRegex(done.stdout, r"timm/resnet18\.a1_in1k +resnet18 +timm +224 +0\.95 +bicubic +torch +apache-2\.0 +-")
        self.assertIn("torchvision/resnet18.IMAGENET1K_V1", done.stdout)
        self.assertNotIn("resnet34", done.stdout)
        self.ok("weights", NAME, HF_ENDPOINT=self.hub.url)
        sources = json.loads(self.ok("models", "resnet18", "--json").stdout)["sources"]
        self.assertTrue(all(source["backbone"] == "resnet18" for source in sources))
        self.assertEqual([source["found"] for source in sources if "found" in source],
                         [f"{self.snapshot}/model.safetensors"])
        self.assertIn("microsoft/resnet-18", self.ok("models", "resnet18").stdout)
        self.assertEqual(self.trainer("models", "resnet19").returncode, 2)
        self.assertEqual(self.trainer("weights", "--search", "nothing").returncode, 2)


class Use(Case):
    @classmethod
    def setUpClass(cls):
        """A file of the weights of ResNet18 with the names of this program."""
        with tempfile.TemporaryDirectory() as folder:
            config, file = pathlib.Path(folder, "x.yaml"), pathlib.Path(folder, "x.safetensors")
            config.write_text(CONFIG.format(backbone="variant: timm", steps=1).replace(
                "data: {format: image_folder, path: photos, validation_split: 0.25}",
                "data: {format: synthetic, synthetic: {shape: [64, 64, 3], classes: 2}}"))
            subprocess.run([support.TRAINER, "export", config, "--format", "safetensors", "--output", file], check=True,
                           capture_output=True)
            cls.weights = file.read_bytes()

    def setUp(self):
        super().setUp()
        pictures.draw(self.here / "photos", ["left", "right"], 8, 80, 3)

    def install(self, content, file="model.safetensors"):
        self.snapshot.mkdir(parents=True)
        (self.snapshot / file).write_bytes(content)
        (self.hub_cache / REPOSITORY / "refs").mkdir()
        (self.hub_cache / REPOSITORY / "refs/main").write_text(REVISION + "\n")

    def write(self, steps=2):
        (self.here / "x.yaml").write_text(CONFIG.format(backbone=f"weights: {NAME}", steps=steps))

    def test_a_run_needs_the_file_only_at_its_start(self):
        self.install(self.weights)
        self.write()
        plan = self.ok("plan", "x.yaml").stdout
        self.assertRegex(plan, rf"data\.interpolation +bicubic +{NAME}")
        self.assertRegex(plan, rf"data\.fit +crop +{NAME}")
        self.ok("train", "x.yaml", "--run-dir", "run")
        weights = json.loads((self.here / "run/run.json").read_text())["weights"]
        self.assertEqual(weights, {"name": NAME, "file": f"{self.snapshot}/model.safetensors", "revision": REVISION,
                                   "sha256": hashlib.sha256(self.weights).hexdigest()})
        shutil.rmtree(self.hub_cache)
        before = self.ok("evaluate", "run", "--split", "validation", "--json").stdout
        self.ok("predict", "run", next((self.here / "photos/left").iterdir()))
        self.ok("export", "run", "--format", "safetensors", "--output", "y.safetensors")
        # Another description of the weights does not change a run.
        self.install(b"")
        (self.snapshot / "config.json").write_text(json.dumps(
            {"architecture": "resnet18", "pretrained_cfg": {"crop_pct": 0.5, "interpolation": "bilinear"}}))
        self.assertEqual(self.ok("evaluate", "run", "--split", "validation", "--json").stdout, before)
        self.write(steps=3)
        self.ok("train", "x.yaml", "--run-dir", "run", "--resume")
        record = json.loads((self.here / "run/run.json").read_text())
        self.assertEqual((record["weights"], len(record["sessions"])), (weights, 2))
        text = (self.here / "run/config.yaml").read_text()
        self.assertIn("interpolation: bicubic", text)

    def test_a_missing_file_names_the_places_and_the_command(self):
        self.write()
        for command in ("validate", "plan", "train"):
            done = self.trainer(command, "x.yaml")
            self.assertIn(f"{self.hub_cache}/{REPOSITORY}", done.stderr)
            self.assertIn(f"This downloads it:\n  trainer weights {NAME}", done.stderr)
        self.assertEqual(done.returncode, 3)

    def test_plan_and_validate_report_what_train_rejects(self):
        other = safetensors({"layer1.0.conv1.weight": [64, 64, 3, 3], "fc.weight": [1000, 512]})
        code = archive(pickle.dumps({"state_dict": os.system}, protocol=2))
        for file, content, reason in (("model.safetensors", other, "does not fit the model"),
                                      ("model.safetensors", self.weights[:1000], "model.safetensors"),
                                      ("pytorch_model.bin", code, "system")):
            shutil.rmtree(self.hub_cache, ignore_errors=True)
            self.install(content, file)
            self.write()
            for command in ("validate", "plan", "train"):
                done = self.trainer(command, "x.yaml")
                self.assertEqual(done.returncode, 3, f"{command} of {file}: {done.stdout}")
                self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    support.main()
