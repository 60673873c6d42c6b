#!/usr/bin/env python3
"""datasets/*.sh against a loopback server: the real MNIST files (when TRAINER_SHARED_DATA has them) are accepted
once and kept after that; anything else is refused with a message, and leaves nothing behind."""

import functools
import gzip
import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
]
SHARED = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA", "/nonexistent")) / "mnist"


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        super().do_GET()

    def log_message(self, *arguments):
        pass


class Datasets(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.served = pathlib.Path(temporary.name) / "served"
        self.target = pathlib.Path(temporary.name) / "target"
        self.served.mkdir()
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=str(self.served))
        )
        self.server.requests = []
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def run_script(self, name):
        mirror = f"http://127.0.0.1:{self.server.server_port}/"
        environment = {
            **os.environ, "MNIST_MIRROR": mirror, "FASHION_MNIST_MIRROR": mirror, "no_proxy": "127.0.0.1"
        }
        return subprocess.run(
            [ROOT / "datasets" / name, self.target], env=environment, capture_output=True, text=True
        )

    def left_behind(self):
        return sorted(str(path.relative_to(self.target)) for path in self.target.rglob("*"))

    def test_wrong_content(self):
        for name in FILES:
            (self.served / name).write_bytes(gzip.compress(b"not the data"))
        for script, variable in (("mnist.sh", "MNIST_MIRROR"), ("fashion_mnist.sh", "FASHION_MNIST_MIRROR")):
            done = self.run_script(script)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{FILES[0]} is not the original file", done.stderr)
            self.assertIn(f"set {variable} to another mirror", done.stderr)
            self.assertEqual(self.left_behind(), [])

    def test_not_gzip(self):
        for name in FILES:
            (self.served / name).write_bytes(b"<html>moved</html>")
        done = self.run_script("mnist.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the original file", done.stderr)
        self.assertEqual(self.left_behind(), [])

    def test_missing_file(self):
        done = self.run_script("fashion_mnist.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"could not download http://127.0.0.1:{self.server.server_port}/{FILES[0]}", done.stderr)
        self.assertEqual(self.left_behind(), [])

    @unittest.skipUnless(SHARED.is_dir(), "TRAINER_SHARED_DATA/mnist is not there")
    def test_real_files(self):
        for name in FILES:
            shutil.copy(SHARED / name, self.served / name)
        done = self.run_script("mnist.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.left_behind(), sorted(FILES))
        self.assertEqual(len(self.server.requests), 4)

        done = self.run_script("mnist.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.server.requests), 4, "files that are there are not fetched again")

        # A damaged copy is replaced, and only that one.
        damaged = self.target / FILES[3]
        damaged.write_bytes(damaged.read_bytes()[:1000])
        done = self.run_script("mnist.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.server.requests[4:], ["/" + FILES[3]])


if __name__ == "__main__":
    support.main()
