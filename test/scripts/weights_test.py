#!/usr/bin/env python3
"""`trainer weights`, and `trainer new` that offers it, with a mirror on the loopback device."""

import hashlib
import json
import os
import pathlib
import pty
import select
import subprocess
import sys
import tempfile
import unittest

import support

sys.path.append(str(support.ROOT / "scripts" / "articles"))
import pictures  # noqa: E402

SERVER = support.ROOT / "test/commands/weights/server.py"
MOBILENET_V2 = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
RESNET50 = "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5"
OTHER = b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 400
CONFIG = """
model: {input: [32, 32, 3], backbone: mobilenet_v2, head: [global_average_pool, dense: 2]}
data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 2}}
train: {epochs: 1, batch_size: 8}
"""


def make_weights():
    """A file of MobileNetV2's layers, with the size of Keras's."""
    with tempfile.TemporaryDirectory() as folder:
        config, file = pathlib.Path(folder, "x.yaml"), pathlib.Path(folder, "x.h5")
        config.write_text(CONFIG)
        subprocess.run([support.TRAINER, "export", config, "--format", "keras_h5", "--output", file], check=True,
                       capture_output=True)
        return file.read_bytes()


class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.content = make_weights()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.served = self.work / "served"
        self.served.mkdir()
        (self.served / MOBILENET_V2).write_bytes(self.content)
        self.here = self.work / "here"
        self.here.mkdir()
        server = subprocess.Popen([sys.executable, SERVER, self.served, self.work / "log"], stdout=subprocess.PIPE,
                                  text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.mirror = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        self.environment = {**os.environ, "WEIGHTS_MIRROR": self.mirror, "no_proxy": "127.0.0.1",
                            "HOME": str(self.work / "home"), "TRAINER_CUDA_PLUGIN": "/nonexistent"}
        self.environment.pop("WEIGHTS_DIR", None)
        self.cache = self.work / "home/.keras/models"

    def trainer(self, *arguments, **variables):
        return subprocess.run([support.TRAINER, *arguments], cwd=self.here, env={**self.environment, **variables},
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def run_in_terminal(self, answer, *arguments, output=subprocess.DEVNULL):
        """The exit code, and what the program writes to the terminal that it reads the answer from."""
        terminal, end = pty.openpty()
        process = subprocess.Popen([support.TRAINER, *arguments], cwd=self.here, env=self.environment, stdin=end,
                                   stdout=output, stderr=end)
        os.close(end)
        text = b""
        try:
            while select.select([terminal], [], [], 60)[0]:
                text += os.read(terminal, 4096)
                if answer and b"[Y/n]" in text:
                    os.write(terminal, answer.encode())
                    answer = None
        except OSError:  # the terminal's other end is closed
            pass
        os.close(terminal)
        return process.wait(), text.decode()

    def test_lists_the_weights(self):
        done = self.trainer("weights")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"resnet50 +95  md5 +not downloaded")
        self.assertRegex(done.stdout, r"mobilenet_v2 +9  recorded +not downloaded")
        files = json.loads(self.trainer("weights", "--json").stdout)["files"]
        self.assertEqual(len(files), 22)
        self.assertTrue(all(file["url"].startswith(self.mirror) for file in files))
        self.cache.mkdir(parents=True)
        (self.cache / RESNET50).write_bytes(b"")
        done = self.trainer("weights")
        self.assertRegex(done.stdout, rf"resnet50 +95  md5 +{self.cache}/{RESNET50}")
        self.assertIn(f"downloads a file into {self.cache}, where", done.stdout)

    def test_downloads_a_file(self):
        done = self.trainer("weights", "mobilenet_v2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.cache / MOBILENET_V2).read_bytes(), self.content)
        digest = hashlib.sha256(self.content).hexdigest()
        self.assertIn(f"{self.cache}/{MOBILENET_V2}: downloaded; its publisher gives no checksum, its SHA-256 {digest}",
                      done.stdout)
        self.assertEqual(done.stderr, "", "progress is for terminals")
        again = json.loads(self.trainer("weights", "mobilenet_v2", "--json").stdout)
        self.assertEqual((again["was_there"], again["bytes"]), (True, len(self.content)))
        self.assertEqual((self.work / "log").read_text(), "0\n")

    def test_a_second_project_finds_the_download(self):
        self.assertEqual(self.trainer("weights", "mobilenet_v2").returncode, 0)
        self.here = self.work / "another project"
        self.here.mkdir()
        pictures.draw(self.here / "photos", ["left", "right"], 10, 32, 3)
        done = self.trainer("new", "photos")
        self.assertNotIn("no pretrained weights", done.stderr)
        self.assertIn(f"weights: {self.cache}/{MOBILENET_V2}", (self.here / "photos.yaml").read_text())

    def test_uses_the_folder_of_the_project(self):
        (self.here / "weights").mkdir()
        done = self.trainer("weights", "mobilenet_v2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.here / "weights" / MOBILENET_V2).is_file())
        self.assertFalse(self.cache.exists())

    def test_uses_the_cache_folder(self):
        done = self.trainer("weights", "mobilenet_v2", WEIGHTS_DIR=str(self.work / "cache"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.work / "cache" / MOBILENET_V2).is_file())
        self.assertFalse(self.cache.exists())

    def test_rejects_another_file_than_the_publisher_s(self):
        (self.served / RESNET50).write_bytes(OTHER)
        done = self.trainer("weights", "resnet50")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"its MD5 is {hashlib.md5(OTHER).hexdigest()}, expected 4d473c1dd8becc155b73f8504c6f6626",
                      done.stderr)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_rejects_another_file_without_a_checksum(self):
        for content, reason in ((OTHER, f"it has {len(OTHER)} bytes, expected at least 9000000"),
                                (OTHER[:8] + bytes(9_400_000), "holds addresses that are not 8 bytes"),
                                (self.content.replace(b"expanded_conv_depthwise", b"expanded_conv_depthwisf"),
                                 "it has no layer expanded_conv_depthwise")):
            (self.served / MOBILENET_V2).write_bytes(content)
            done = self.trainer("weights", "mobilenet_v2")
            self.assertEqual(done.returncode, 3)
            self.assertIn("is not the original file: ", done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertEqual(list(self.cache.iterdir()), [])

    def test_errors_name_the_address(self):
        missing = self.trainer("weights", "vgg16")
        self.assertEqual(missing.returncode, 3)
        self.assertIn(f"{self.mirror}/vgg16/vgg16_weights", missing.stderr)
        self.assertIn("the server answers with status 404", missing.stderr)
        unknown = self.trainer("weights", "resnet51")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("did you mean 'resnet50'?", unknown.stderr)
        other = self.trainer("weights", "resnet18")
        self.assertEqual(other.returncode, 3)
        self.assertIn("https://download.pytorch.org/models/resnet18-f37072fd.pth", other.stderr)

    def test_prints_progress_in_a_terminal(self):
        code, text = self.run_in_terminal(None, "weights", "mobilenet_v2")
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"\rmobilenet_v2: 9\.\d of 9\.\d MB, 100 %")

    def test_new_offers_the_download(self):
        pictures.draw(self.here / "photos", ["left", "right"], 10, 32, 3)
        for arguments in (["new", "photos"], ["train", "photos", "--set", "train.max_steps=1"]):
            done = self.trainer(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("note: no pretrained weights were found", done.stderr)
            self.assertIn("`trainer weights mobilenet_v2` downloads 9 MB, and then `trainer new photos --overwrite`",
                          done.stderr)
            self.assertNotIn("backbone:", (self.here / "photos.yaml").read_text())
            (self.here / "photos.yaml").unlink()
        code, text = self.run_in_terminal("n\n", "new", "photos")
        self.assertEqual(code, 0, text)
        self.assertIn(f"Download those of mobilenet_v2, 9 MB from {self.mirror}/mobilenet_v2/{MOBILENET_V2}? [Y/n]", text)
        self.assertFalse(self.cache.exists())
        code, text = self.run_in_terminal("\n", "new", "photos", "--overwrite")
        self.assertEqual(code, 0, text)
        config = (self.here / "photos.yaml").read_text()
        self.assertIn(f"weights: {self.cache}/{MOBILENET_V2}", config)

    def test_train_offers_the_download(self):
        pictures.draw(self.here / "photos", ["left", "right"], 10, 32, 3)
        train = ["train", "photos", "--json", "--set", "train.max_steps=1"]
        code, text = self.run_in_terminal("n\n", *train)
        self.assertEqual(code, 0, text)
        self.assertIn("Download those of mobilenet_v2, 9 MB from", text)
        self.assertNotIn("backbone:", (self.here / "photos.yaml").read_text())
        code, text = self.run_in_terminal(None, *train, "--overwrite")
        self.assertEqual(code, 0, text)
        self.assertNotIn("Download", text, "the config is there")
        (self.here / "photos.yaml").unlink()
        with open(self.work / "out", "wb") as output:
            code, text = self.run_in_terminal("y\n", *train, "--overwrite", output=output)
        self.assertEqual(code, 0, text)
        self.assertIn(f"note: {self.cache}/{MOBILENET_V2}: downloaded", text)
        self.assertIn(f"weights: {self.cache}/{MOBILENET_V2}", (self.here / "photos.yaml").read_text())
        for line in (self.work / "out").read_text().splitlines():
            self.assertIn("event", json.loads(line), "standard output is for JSON alone")


if __name__ == "__main__":
    support.main()
