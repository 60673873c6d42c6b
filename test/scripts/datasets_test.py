#!/usr/bin/env python3
"""datasets/*.sh against a loopback server: the real MNIST files (when TRAINER_SHARED_DATA has them) are accepted
once and kept after that; anything else is refused with a message, and leaves nothing behind. An interrupted download
is continued; archives are unpacked into the folders that the configs read."""

import ast
import functools
import gzip
import hashlib
import http.server
import io
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import threading
import unittest
import zipfile

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
    """Serves files, from the offset of a range that is asked for when `server.ranges` says so. The first answer breaks
    off after `server.break_after` bytes, when that is set."""

    def do_GET(self):
        server = self.server
        server.requests.append(self.path)
        path = pathlib.Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and server.ranges else 0
        server.offsets.append(start)
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        rest = content[start:]
        if server.break_after is not None:
            rest, server.break_after = rest[: server.break_after], None
        self.wfile.write(rest)

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
        self.server.requests, self.server.offsets = [], []
        self.server.ranges, self.server.break_after = True, None
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def run_script(self, name, *arguments, **variables):
        mirror = f"http://127.0.0.1:{self.server.server_port}/"
        names = ("MNIST", "FASHION_MNIST", "CIFAR10", "CATS_DOGS", "OCT", "WEIGHTS")
        environment = {**os.environ, **{f"{name}_MIRROR": mirror for name in names}, "no_proxy": "127.0.0.1"}
        environment.update(variables)
        return subprocess.run(
            [ROOT / "datasets" / name, *(arguments or [self.target])], env=environment, capture_output=True, text=True
        )

    def left_behind(self):
        return sorted(str(path.relative_to(self.target)) for path in self.target.rglob("*") if path.is_file())

    def pack(self, name, files):
        """An archive of {path: bytes} among what is served."""
        path = self.served / name
        if name.endswith(".zip"):
            with zipfile.ZipFile(path, "w") as archive:
                for member, content in files.items():
                    archive.writestr(member, content)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for member, content in files.items():
                    info = tarfile.TarInfo(member)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path

    def test_wrong_content_is_rejected(self):
        for name in FILES:
            (self.served / name).write_bytes(gzip.compress(b"not the data"))
        for script, variable in (("mnist.sh", "MNIST_MIRROR"), ("fashion_mnist.sh", "FASHION_MNIST_MIRROR")):
            done = self.run_script(script)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{FILES[0]} is not the original file", done.stderr)
            self.assertIn(f"set {variable} to another mirror", done.stderr)
            self.assertEqual(self.left_behind(), [])

    def test_a_file_that_is_not_gzip_is_rejected(self):
        for name in FILES:
            (self.served / name).write_bytes(b"<html>moved</html>")
        done = self.run_script("mnist.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the original file", done.stderr)
        self.assertEqual(self.left_behind(), [])

    def test_error_of_a_missing_file_has_its_address(self):
        done = self.run_script("fashion_mnist.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"could not download http://127.0.0.1:{self.server.server_port}/{FILES[0]}", done.stderr)
        self.assertEqual(self.left_behind(), [])

    @unittest.skipUnless(SHARED.is_dir(), "TRAINER_SHARED_DATA/mnist is not there")
    def test_real_files_are_accepted(self):
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

    def test_an_installed_copy_uses_the_current_folder(self):
        """Packages install the scripts in a folder that users cannot write."""
        installed = self.target / "share/trainer/datasets"
        shutil.copytree(ROOT / "datasets", installed, ignore=lambda folder, names: [
            name for name in names if (pathlib.Path(folder) / name).is_dir()])
        work = self.target / "work"
        work.mkdir()
        content = gzip.compress(b"the images")
        (self.served / FILES[0]).write_bytes(content)
        self.server.break_after = 10
        environment = {**os.environ, "MNIST_MIRROR": f"http://127.0.0.1:{self.server.server_port}", "no_proxy": "*"}
        done = subprocess.run([installed / "mnist.sh"], cwd=work, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertTrue((work / f"datasets/mnist/.{FILES[0]}.part").is_file(), done.stderr)
        self.assertFalse((installed / "mnist").exists())

    def fetch(self, name="file.h5"):
        """Runs the function `fetch` of download.sh on a file that begins as HDF5 does."""
        url = f"http://127.0.0.1:{self.server.server_port}/{name}"
        command = 'source "$0"; fetch "$1" "$2" "$3" begins 894844460d0a1a0a TEST_MIRROR'
        return subprocess.run(["bash", "-c", command, ROOT / "datasets/download.sh", self.target, name, url],
                              env={**os.environ, "no_proxy": "127.0.0.1"}, capture_output=True, text=True)

    def serve_file(self, content=b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 64):
        (self.served / "file.h5").write_bytes(content)
        return content

    def test_continues_after_an_interruption(self):
        content = self.serve_file()
        self.server.break_after = 5000
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the next start continues after the 5000 bytes in {self.target}", done.stderr)
        self.assertEqual(self.left_behind(), [".file.h5.part"])

        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.server.offsets, [0, 5000])
        self.assertEqual(self.left_behind(), ["file.h5"])
        self.assertEqual((self.target / "file.h5").read_bytes(), content)
        self.assertIn("no checksum of it is published", done.stdout)
        self.assertIn(hashlib.sha256(content).hexdigest(), done.stdout)

        done = self.fetch()
        self.assertEqual((done.returncode, len(self.server.requests)), (0, 2), done.stderr)

    def test_starts_anew_where_a_server_cannot_continue(self):
        content = self.serve_file()
        self.server.ranges = False
        self.target.mkdir()
        for part in (content[:5000], content + b"more than the file has"):
            (self.target / ".file.h5.part").write_bytes(part)
            done = self.fetch()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.target / "file.h5").read_bytes(), content)
            (self.target / "file.h5").unlink()

    def test_another_file_is_rejected(self):
        self.serve_file(b"<html>moved</html>")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the original file", done.stderr)
        self.assertEqual(self.left_behind(), [])
        done = self.fetch("missing.h5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing.h5; set TEST_MIRROR", done.stderr)

    def test_a_second_download_is_rejected(self):
        self.serve_file()
        self.target.mkdir()
        holder = subprocess.Popen(["flock", self.target, "sh", "-c", "echo held; cat"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        done = self.fetch()
        holder.communicate()
        self.assertEqual(done.returncode, 1)
        self.assertIn("another download into", done.stderr)

    def test_cats_vs_dogs_is_unpacked(self):
        jfif = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00picture "
        files = {f"PetImages/{kind}/{number}.jpg": jfif + f"{kind} {number}".encode()
                 for kind in ("Cat", "Dog") for number in range(12)}
        files["PetImages/Cat/3.jpg"] = b""
        files["PetImages/Dog/5.jpg"] = b"GIF89a and the rest of it"
        files["PetImages/Dog/Thumbs.db"] = b"not a picture"
        archive = self.pack("kagglecatsanddogs_5340.zip", files)
        done = self.run_script("cats_vs_dogs.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the original file", done.stderr)
        self.assertEqual(self.left_behind(), [])

        checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
        done = self.run_script("cats_vs_dogs.sh", CATS_DOGS_SHA256=checksum)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = [f"{split}/{kind}/{number}.jpg" for kind, wrong in (("cats", 3), ("dogs", 5))
                    for number in range(12) if number != wrong
                    for split in ["validation" if number % 5 == 0 else "train"]]
        self.assertEqual(self.left_behind(), sorted(expected))
        self.assertEqual((self.target / "train/dogs/7.jpg").read_bytes(), jfif + b"Dog 7")
        self.assertIn("2 files that are not JFIF were left out", done.stdout)
        done = self.run_script("cats_vs_dogs.sh", CATS_DOGS_SHA256=checksum)
        self.assertEqual((done.returncode, len(self.server.requests)), (0, 2), done.stderr)

    def test_oct2017_is_unpacked(self):
        scans = {f"OCT2017/{split}/{kind}/{kind}-{number}.jpeg": f"{split} {kind} {number}".encode()
                 for split in ("train", "test") for kind in ("CNV", "DME", "DRUSEN", "NORMAL") for number in range(2)}
        archive = self.pack("OCT2017.tar.gz", {**scans, "OCT2017/train/CNV/._CNV-0.jpeg": b"of macOS"})
        done = self.run_script("oct2017.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("its bytes is", done.stderr)
        self.assertIn("download it by hand", done.stderr)
        done = self.run_script("oct2017.sh", OCT_BYTES=str(archive.stat().st_size))
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = sorted(name.removeprefix("OCT2017/") for name in scans)
        self.assertEqual(self.left_behind(), expected)
        self.assertIn("train: 8 scans", done.stdout)

        # Kaggle's archive, whose folder's name ends with a blank.
        by_hand = self.pack("archive.zip", {name.replace("OCT2017/", "OCT2017 /"): text for name, text in scans.items()})
        other = self.target.with_name("other")
        done = self.run_script("oct2017.sh", other, by_hand)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((other / "test/DME/DME-1.jpeg").read_bytes(), b"test DME 1")
        self.assertTrue(by_hand.exists())
        wrong = self.pack("wrong.zip", {"a/b": b"c"})
        done = self.run_script("oct2017.sh", self.target.with_name("third"), wrong)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no folder train/NORMAL", done.stderr)

    def test_cifar10_needs_a_mirror(self):
        done = self.run_script("cifar10.sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("set CIFAR10_MIRROR", done.stderr)
        self.pack("cifar-10-binary.tar.gz", {"cifar-10-batches-bin/test_batch.bin": b"other"})
        self.assertIn("is not the original file", self.run_script("cifar10.sh").stderr)

    def test_repacked_cifar10_is_accepted(self):
        def record(label, shift):  # planes of red, green, blue
            return bytes([label]) + b"".join(bytes((shift + plane + pixel) % 256 for pixel in range(1024))
                                             for plane in range(3))

        names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
        records = {f"cifar-10-batches-bin/{name}": record(number, 7 * number) for number, name in enumerate(names)}
        archive = self.pack("cifar-10-binary.tar.gz", records)
        output = self.served / "cifar10.npz"
        subprocess.run([ROOT / "datasets" / "repack_cifar10.py", archive, output], check=True, capture_output=True)
        with zipfile.ZipFile(output) as npz:
            self.assertIsNone(npz.testzip())
            arrays = {}
            for name in npz.namelist():
                content = npz.read(name)
                self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
                end = 10 + struct.unpack("<H", content[8:10])[0]
                self.assertEqual((end % 64, content[end - 1 : end]), (0, b"\n"))
                header = ast.literal_eval(content[10:end].decode())
                self.assertEqual((header["descr"], header["fortran_order"]), ("|u1", False))
                arrays[name] = (header["shape"], content[end:])
        self.assertEqual(arrays["x_train.npy"][0], (5, 32, 32, 3))
        self.assertEqual(arrays["x_test.npy"][0], (1, 32, 32, 3))
        self.assertEqual(arrays["y_train.npy"], ((5,), bytes(range(5))))
        self.assertEqual(arrays["y_test.npy"], ((1,), bytes([5])))
        images = arrays["x_train.npy"][1]
        for image, pixel, plane in ((0, 0, 0), (2, 33, 1), (4, 1023, 2)):
            self.assertEqual(images[(image * 1024 + pixel) * 3 + plane], (7 * image + plane + pixel) % 256)
        self.pack("cut.tar.gz", {name: content[:-1] for name, content in records.items()})
        done = subprocess.run([ROOT / "datasets" / "repack_cifar10.py", self.served / "cut.tar.gz", output],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no whole records", done.stderr)


if __name__ == "__main__":
    support.main()
