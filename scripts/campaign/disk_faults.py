"""The faults of faulty_disk.py that faults.py puts to runs, below the run folder and below the data."""
import contextlib
import os
import re
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Images and features are kept on disk: a frozen backbone before a small head.
CACHES = """name: caches
seed: 7
model:
  input: [32, 32, 3]
  backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}
  head: [global_average_pool, {dense: {units: 8, activation: relu}}, {dropout: 0.3}, {dense: 2}]
data:
  format: image_folder
  classes: [left, right]
  train: {path: FOLDER/train}
  validation: {path: FOLDER/validation}
  preprocess: tf
  cache: disk
  cache_dir: FOLDER/cache
optimizer: {adam: {learning_rate: 1.0e-3}}
train: {epochs: 6, batch_size: 8, cache_features: disk}
run: {checkpoint_every: 2 steps, log_every: 1 steps, summary_every: 1 steps}
parallel: {threads: 1}
"""
# Operations of faulty_disk.py with their faults, exit codes, and the cause that the message names.
FULL, BROKEN, GONE = "No space left", "Input/output error", "Transport endpoint is not connected|Software caused connection abort"
RUN_FAULTS = [
    ("write", ["--error", "ENOSPC"], (0, 3), FULL),
    ("write", ["--error", "EDQUOT"], (0, 3), "quota"),
    ("write", ["--error", "EIO"], (0, 3), BROKEN),
    ("write", ["--error", "EIO", "--times", "1"], (0, 3), BROKEN),
    ("fsync", ["--error", "EIO"], (0, 3), BROKEN),
    ("fsync", ["--error", "EDQUOT"], (0, 3), "quota"),
    ("flush", ["--error", "EDQUOT"], (0, 3), "quota"),
    ("fsyncdir", ["--error", "EINVAL"], (0,), ""),
    ("create", ["--error", "EROFS"], (0, 3), "Read-only"),
    ("create", ["--error", "EACCES"], (0, 3), "Permission denied"),
    ("open", ["--error", "ESTALE"], (0, 3), "Stale"),
    ("mkdir", ["--error", "ENOSPC"], (0, 3), FULL),
    ("rename", ["--error", "EIO"], (0, 3), BROKEN),
    ("unlink", ["--error", "EIO"], (0, 3), BROKEN),
    ("truncate", ["--error", "EIO"], (0, 3), BROKEN),
    ("readdir", ["--error", "EIO"], (0, 3), BROKEN),
    ("getattr", ["--error", "ESTALE"], (0, 3), "Stale"),
    ("read", ["--error", "EIO"], (0, 3), BROKEN),
    ("write", ["--die"], (0, 3), GONE),
    ("write", ["--seconds", "10", "--times", "1"], (0,), ""),
]
IMAGE_FAULTS = [
    ("read", ["--error", "EIO"], (0, 3), BROKEN),
    ("open", ["--error", "EACCES"], (0, 3), "Permission denied"),
    ("open", ["--error", "ESTALE"], (0, 3), "Stale"),
    ("getattr", ["--error", "ESTALE"], (0, 3), "Stale"),
    ("readdir", ["--error", "EIO"], (0, 3), BROKEN),
    ("read", ["--die"], (0, 3), GONE),
    ("read", ["--seconds", "10", "--times", "1"], (0,), ""),
]
CACHE_FAULTS = [
    ("write", ["--error", "ENOSPC"], (0, 3), FULL),
    ("create", ["--error", "EROFS"], (0, 3), "Read-only"),
    ("read", ["--error", "EIO"], (0, 3), BROKEN),
    ("write", ["--die"], (0, 3), GONE),
]


class Lost(Exception):
    pass


def caches_config(folder):
    return CACHES.replace("FOLDER", folder)


class DiskFaults:
    """A part of Campaign."""

    @contextlib.contextmanager
    def disk(self, *options):
        """Shows the folder `stored` as the folder `disk`, by a file system that fails as the options say."""
        stored, disk = f"{self.folder}/stored", f"{self.folder}/disk"
        for folder in (stored, disk):
            os.makedirs(folder, exist_ok=True)
        server = subprocess.Popen(["/usr/bin/python3", f"{HERE}/faulty_disk.py", stored, disk, *map(str, options)])
        try:
            while server.poll() is None and not os.path.ismount(disk):
                time.sleep(0.02)
            if server.poll() is not None:
                raise Lost(f"the disk ended with {server.poll()} at its start")
            yield disk
        finally:
            subprocess.run(["umount", "-l", disk], capture_output=True)
            server.wait(60)

    def storage(self, most):
        """Disks and servers of files that fail, below the run folder and below the data."""
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not os.path.exists("/usr/lib/python3/dist-packages/fusepy.py"):
            print("disks in user space: left out, they need root, /dev/fuse and Debian's python3-fusepy")
            return
        with self.small():
            self.fail_disk("run folder", RUN_FAULTS, "/run/", most, f"{self.folder}/disk/run")
        self.write_images(f"{self.folder}/stored")
        with self.another(caches_config(f"{self.folder}/disk"), self.measure_on_disk):
            self.fail_disk("images", IMAGE_FAULTS, "/train", most, f"{self.folder}/run")
            self.fail_disk("cache", CACHE_FAULTS, "/cache", most, f"{self.folder}/run")

    def measure_on_disk(self):
        with self.disk():
            self.measure()

    def fail_disk(self, name, faults, path, most, run):
        """Each fault at up to `most` of the calls on such paths, evenly spaced."""
        log = f"{self.folder}/calls"

        def forget():
            for folder in (run, f"{self.folder}/stored/run", f"{self.folder}/stored/cache"):
                shutil.rmtree(folder, ignore_errors=True)

        forget()
        with self.disk("--operation", *{fault[0] for fault in faults}, "--path", path, "--at", 1 << 40, "--log", log):
            self.finish(run)
        with open(log) as file:
            calls = [line.split()[0] for line in file]
        for operation, fault, codes, cause in faults:
            count = calls.count(operation)
            chosen = sorted({1 + i * count // most for i in range(min(most, count))})
            lost, self.codes = [], {}
            for at in chosen:
                forget()
                try:
                    with self.disk("--operation", operation, "--path", path, "--at", at, *fault):
                        code = self.start(run).wait(600)
                    text = self.read()[1]
                    self.codes[code] = self.codes.get(code, 0) + 1
                    if code not in codes or (code != 0 and not re.search(cause, text)):
                        raise Lost(f"ended with {code}: {text.strip()[-300:]}")
                    with self.disk():
                        self.check_checkpoints(run, self.announced())
                        self.check_end(run, self.finish(run))
                except Lost as error:
                    lost.append(f"call {at}: {error}")
            what = " ".join(word.lstrip("-") for word in fault)
            self.count(f"{name}: {operation} fails ({what}), of {count} calls", len(chosen), lost)
            self.print_codes()
        forget()
