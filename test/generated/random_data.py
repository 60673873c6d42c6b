"""Draws small data sets in the formats of `data.format`. Needs no packages."""

import io
import struct
import tarfile
import zipfile
import zlib

WORDS = ["cat", "dog", "Zebra", "no tumour", "é", "10", "a_b"]


def make_png(rows, height, width, channels, depth=8):
    """The bytes of a PNG file of `rows`, the bytes of the pixels (16-bit numbers are big-endian)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    stride = width * channels * depth // 8
    lines = b"".join(b"\0" + rows[at * stride:(at + 1) * stride] for at in range(height))
    header = struct.pack(">IIBBBBB", width, height, depth, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def make_npy(shape, data, kind):
    """The bytes of an NPY file. `kind` is NumPy's, such as '|u1'."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC32C = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def make_tfrecord(examples):
    """The bytes of a TFRecord file of (image file, label) as tf.train.Example."""
    def field(number, data):
        size, length = len(data), b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    def feature(key, value):
        return field(1, field(1, key) + field(2, value))
    records = b""
    for image, label in examples:
        features = feature(b"image/encoded", field(1, field(1, image)))
        features += feature(b"image/class/label", field(3, field(1, bytes([label]))))
        record = field(1, features)
        length = struct.pack("<Q", len(record))
        records += length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))
    return records


class DataSet:
    """Files below `folder`, and what a config says of them.

    config       the keys of `data` that name the files
    values       other keys of `data` and values that fit
    shape        [height, width, channels] of a sample, as the model gets it
    names        the names of the classes
    labels       whether each image has several labels
    is_images    whether the samples are image files
    """

    def __init__(self, draw, folder, digits, shape=None):
        """`digits` is the folder of the drawn digits. Samples have `shape`, where it is given."""
        self.draw, self.folder = draw, folder
        self.values, self.labels, self.is_images = {}, False, False
        self.is_damaged = False
        kinds = ["npz", "npy", "synthetic", "cifar", "tfrecord", "webdataset", *["image_folder", "csv"] * 3]
        kind = draw.choice(kinds if shape else kinds + ["digits", "idx"])
        self.names = [str(number) for number in range(draw.randint(2, 5))]
        self.shape = shape or [draw.choice([4, 5, 7, 8, 12]), draw.choice([3, 6, 8, 9]), draw.choice([1, 3, 3])]
        getattr(self, "make_" + kind)(digits)

    def pixels(self, count, label, depth=8):
        """Random bytes, brighter for a higher label."""
        low = 200 * label // max(len(self.names), 1)
        values = bytes(min(low + byte // 4, 255) for byte in self.draw.randbytes(count))
        return values if depth == 8 else b"".join(bytes([value // 16, value]) for value in values)

    def counts(self):
        """The number of samples of each split."""
        draw = self.draw
        counts = {"train": draw.choice([7, 12, 24, 33])}
        if draw.random() < 0.4:
            counts["validation"] = draw.randint(3, 12)
        if draw.random() < 0.8:
            counts["test"] = draw.randint(3, 14)
        return counts

    def label(self, number):
        """A label for a sample; the first ones have each class."""
        return number % len(self.names) if number < len(self.names) else self.draw.randrange(len(self.names))

    # ---- Arrays ----------------------------------------------------------------------------------

    def make_digits(self, digits):
        self.shape, self.names = [28, 28, 1], [str(number) for number in range(10)]
        self.config = {"format": "digits", "path": digits, "limit": self.draw.choice([9, 20, 40])}

    def make_idx(self, digits):
        self.make_digits(digits)
        self.config["format"] = "idx"

    def make_synthetic(self, digits):
        draw = self.draw
        self.config = {"format": "synthetic", "synthetic": {
            "shape": self.shape, "classes": len(self.names), "train_samples": draw.choice([1, 10, 24, 33]),
            "test_samples": draw.choice([0, 1, 9])}}

    def arrays(self, count, image_kind):
        """(images, labels) as NPY files."""
        draw = self.draw
        labels = [self.label(number) for number in range(count)]
        size = self.shape[0] * self.shape[1] * self.shape[2]
        images = b"".join(self.pixels(size, label) for label in labels)
        shape = [count, *self.shape]
        if self.shape[2] == 1 and draw.random() < 0.5:
            shape = shape[:3]
        if image_kind == "<f4":
            images = struct.pack(f"<{len(images)}f", *images)
        label_kind, code = draw.choice([("|u1", "B"), ("<i8", "q"), ("<i4", "i")])
        return (make_npy(shape, images, image_kind),
                make_npy([count], struct.pack(f"<{count}{code}", *labels), label_kind))

    def make_npz(self, digits):
        keys = {"train": "train", "validation": "val", "test": "test"}
        with zipfile.ZipFile(self.folder / "arrays.npz", "w", self.draw.choice([zipfile.ZIP_STORED,
                                                                                zipfile.ZIP_DEFLATED])) as file:
            self.config = {"format": "npz", "path": "arrays.npz"}
            image_kind = self.draw.choice(["|u1", "|u1", "<f4"])
            for split, count in self.counts().items():
                images, labels = self.arrays(count, image_kind)
                file.writestr(f"x_{keys[split]}.npy", images)
                file.writestr(f"y_{keys[split]}.npy", labels)
                if self.draw.random() < 0.4:
                    self.config[split] = {"path": "arrays.npz", "images": f"x_{keys[split]}",
                                          "labels": f"y_{keys[split]}"}

    def make_npy(self, digits):
        self.config = {"format": "npz"}
        image_kind = self.draw.choice(["|u1", "|u1", "<f4"])
        for split, count in self.counts().items():
            for name, data in zip(("images", "labels"), self.arrays(count, image_kind)):
                (self.folder / f"{split}_{name}.npy").write_bytes(data)
            self.config[split] = {name: f"{split}_{name}.npy" for name in ("images", "labels")}

    def make_cifar(self, digits):
        self.shape, self.names = [32, 32, 3], [str(number) for number in range(10)]
        folder = self.folder / "cifar"
        folder.mkdir()
        for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
            labels = [self.label(number) for number in range(11)]
            (folder / name).write_bytes(b"".join(bytes([label]) + self.pixels(3072, label) for label in labels))
        self.config = {"format": "cifar", "path": "cifar"}

    # ---- Image files -----------------------------------------------------------------------------

    def image(self, label):
        """The bytes of a PNG file of an odd size."""
        draw = self.draw
        channels = draw.choice([1, 3, 3, 3, 4])
        depth = draw.choice([8, 8, 8, 16])
        height, width = (draw.choice([1, 2, 5, 8, 17, 40]) for _ in range(2))
        data = make_png(self.pixels(height * width * channels, label, depth), height, width, channels, depth)
        if self.is_damaged and draw.random() < 0.15:
            return data[:draw.randint(0, len(data) - 20)]
        return data

    def prepare_images(self):
        draw = self.draw
        self.is_images = True
        self.is_damaged = draw.random() < 0.15
        size = "resize" if draw.random() < 0.7 else "input"
        self.size_key = size
        self.values.update({
            "group_by": lambda: draw.choice(["p[0-9]+", "(p[0-9])_", "^(.*/)?p[0-9]"]),
            "range": lambda: draw.choice(["auto", [0, 4095], [10, 11]]),
            "error_budget": lambda: draw.choice([0, 0.01, 0.9, 3, 1000]),
            "cache_dir": lambda: draw.choice(["cache", "other/cache"]),
            "max_pixels": lambda: draw.choice([1, 1600, 10**8]),
            "max_file_size": lambda: draw.choice([50, 10**6]),
        })

    def make_image_folder(self, digits):
        draw = self.draw
        self.prepare_images()
        if draw.random() < 0.5:
            self.names = draw.sample(WORDS, len(self.names))
        files = []
        twin = None
        for split, count in self.counts().items():
            for number in range(count):
                label = self.label(number)
                data = self.image(label)
                if twin and draw.random() < 0.05:
                    data = twin
                twin = data
                files.append((f"{split}/{self.names[label]}/p{draw.randint(0, 9)}_{number}.png", data))
        if draw.random() < 0.2:
            with zipfile.ZipFile(self.folder / "photos.zip", "w") as archive:
                for name, data in files:
                    archive.writestr(name, data)
            self.config = {"format": "image_folder", "path": "photos.zip"}
        else:
            for name, data in files:
                path = self.folder / "photos" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self.config = {"format": "image_folder", "path": "photos"}
            splits = sorted({name.split("/")[0] for name, _ in files})
            form = draw.random()
            if form < 0.25:
                self.config = {"format": "image_folder", **{split: {"path": f"photos/{split}"} for split in splits}}
            elif form < 0.4:
                self.config = {"format": "image_folder",
                               **{split: {"glob": f"photos/{split}/**/*.png"} for split in splits}}
        self.write_relabel([name for name, _ in files])

    def write_relabel(self, names):
        def relabel():
            rows = [f"{name},{self.draw.choice(self.names + [''])}" for name in self.draw.sample(names, 2)]
            (self.folder / "relabel.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
            return "relabel.csv"
        self.values["relabel"] = relabel

    def make_csv(self, digits):
        draw = self.draw
        self.prepare_images()
        self.labels = draw.random() < 0.5
        folder = self.folder / "files"
        folder.mkdir()
        separator = draw.choice([",", ";", "\t"])
        columns, root, ending = ["image", "label"], "files", ".png"
        csv = {}
        if draw.random() < 0.5:
            columns = ["File", "Finding"]
            csv = {"image_column": "File", "label_column": "Finding"}
        if draw.random() < 0.5:
            csv["separator"] = "tab" if separator == "\t" else separator
        if draw.random() < 0.5:
            csv["root"] = root
        if draw.random() < 0.5:
            csv["ending"] = ending
        has_weights = draw.random() < 0.4
        if has_weights:
            columns.append(draw.choice(["sample_weight", "importance"]))
            if columns[-1] == "importance" or draw.random() < 0.3:
                csv["weight_column"] = columns[-1]
        has_group = draw.random() < 0.3
        if has_group:
            columns.append("patient")
            self.values["group_by"] = lambda: "patient"
        form = draw.choice(["cells", "columns"]) if self.labels else "one"
        if form == "cells":
            csv["label_separator"] = "|"
        elif form == "columns":
            columns[1:2] = self.names = [f"finding {number}" for number in range(len(self.names))]
            csv.pop("label_column", None)
            if not has_weights and not has_group or draw.random() < 0.5:
                csv.pop("label_column", None)
        self.config = {"format": "csv"}
        names = []
        for split, count in self.counts().items():
            rows = [separator.join(columns)]
            for number in range(count):
                label = self.label(number)
                name = f"p{draw.randint(0, 9)}_{split}{number}"
                (folder / (name + ending)).write_bytes(self.image(label))
                path = ("" if "root" in csv else "files/") + name + ("" if "ending" in csv else ending)
                names.append(f"files/{name}{ending}")
                chosen = sorted({label, *draw.sample(range(len(self.names)), draw.randint(0, 1))})
                if form == "one":
                    cells = [self.names[label]]
                elif form == "cells":
                    cells = ["|".join(self.names[each] for each in chosen) if draw.random() < 0.9 else ""]
                else:
                    cells = [draw.choice(["", "nan"]) if draw.random() < 0.05 else str(int(each in chosen))
                             for each in range(len(self.names))]
                if has_weights:
                    cells.append(str(draw.choice([0, 0.5, 1, 3])))
                if has_group:
                    cells.append(f"patient {draw.randint(1, 5)}")
                rows.append(separator.join([path, *cells]))
            (self.folder / f"{split}.csv").write_text("\n".join(rows) + "\n")
            self.config[split] = {"path": f"{split}.csv"}
        if csv:
            self.config["csv"] = csv
        if not self.labels:
            self.write_relabel(names)

    def make_webdataset(self, digits):
        self.prepare_images()
        self.config = {"format": "webdataset"}
        for split, count in self.counts().items():
            folder = self.folder / "shards" / split
            folder.mkdir(parents=True)
            with tarfile.open(folder / f"{split}-000.tar", "w") as tar:
                for number in range(count):
                    label = self.label(number)
                    for ending, data in (("png", self.image(label)), ("cls", str(label).encode())):
                        entry = tarfile.TarInfo(f"p{number % 7}_{number}.{ending}")
                        entry.size = len(data)
                        tar.addfile(entry, io.BytesIO(data))
            self.config[split] = {"path": f"shards/{split}"}

    def make_tfrecord(self, digits):
        self.prepare_images()
        self.config = {"format": "tfrecord"}
        for split, count in self.counts().items():
            folder = self.folder / "shards" / split
            folder.mkdir(parents=True)
            labels = [self.label(number) for number in range(count)]
            (folder / f"{split}-00000-of-00001.tfrecord").write_bytes(
                make_tfrecord([(self.image(label), label) for label in labels]))
            self.config[split] = {"path": f"shards/{split}"}
