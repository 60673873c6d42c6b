#!/usr/bin/env python3
"""The Python module of the wheel: python_module_test.py PROGRAM [LIBRARY]

With a library, the module is that of the source tree, otherwise that of the environment.
"""

import concurrent.futures
import contextlib
import inspect
import io
import json
import multiprocessing
import os
import pathlib
import pydoc
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import numpy
import PIL.Image
import support

if len(sys.argv) > 1:
    os.environ["IMAGETRAINER_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
    sys.path.insert(0, str(support.ROOT / "apps" / "python"))

import imagetrainer  # noqa: E402

# One image per thread and round; IMAGETRAINER_IMAGES is the number of all.
IMAGES = int(os.environ.get("IMAGETRAINER_IMAGES", "400"))


def draw(seed, shift, size=(36, 40)):
    pixels = numpy.random.default_rng(seed).integers(0, 128, (*size, 3), dtype=numpy.uint8)
    pixels[:, :, shift] += 90
    return pixels


def predict_in_child(model, image, answers):
    try:
        model.predict(image)
        answers.put("predicted")
    except imagetrainer.TrainerError as error:
        answers.put(error.kind)


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.pixels, cls.files = [], []
        for shift, name in enumerate(["left", "middle", "right"]):
            (cls.folder / "images" / name).mkdir(parents=True)
            for number in range(10):
                cls.pixels.append(draw(len(cls.files), shift))
                cls.files.append(cls.folder / "images" / name / f"{number}.png")
                PIL.Image.fromarray(cls.pixels[-1]).save(cls.files[-1])
        cls.trained = cls.folder / "run"
        support.train_on_small_images(cls.folder / "images", cls.trained)
        lines = [line for line in support.run_json("predict", cls.trained, *cls.files) if "probabilities" in line]
        cls.expected = numpy.array([list(line["probabilities"].values()) for line in lines])
        cls.names = [line["class"] for line in lines]
        cls.model = imagetrainer.Model(cls.trained)

    def check(self, images, rows=slice(None)):
        found = self.model.predict(images)
        numpy.testing.assert_array_equal(found.probabilities, self.expected[rows])
        self.assertEqual(found.names, self.names[rows])
        self.assertEqual(set(found.errors), {None})

    def test_predict_gives_each_kind_of_image_the_same_bits(self):
        """All have the probabilities of `trainer predict`, to the bit."""
        self.check(self.files)
        self.check([str(file) for file in self.files])
        self.check([file.read_bytes() for file in self.files])
        self.check([PIL.Image.open(file) for file in self.files])
        self.check(self.pixels)
        self.check(numpy.stack(self.pixels))
        self.check(file for file in self.files)
        mixed = [self.files[0], self.files[1].read_bytes(), memoryview(self.files[2].read_bytes()), self.pixels[3]]
        self.check(mixed, slice(0, 4))

    def test_predict_takes_one_image(self):
        for image in (self.files[4], str(self.files[4]), self.files[4].read_bytes(), self.pixels[4],
                      PIL.Image.fromarray(self.pixels[4])):
            self.check(image, slice(4, 5))

    def test_predict_reads_views_of_arrays_where_they_lie(self):
        wide = numpy.zeros((72, 120, 4), numpy.uint8)
        wide[::2, ::3, 2::-1] = self.pixels[7]
        self.check(wide[::2, ::3, 2::-1], slice(7, 8))
        self.check(numpy.asfortranarray(self.pixels[7])[::-1][::-1], slice(7, 8))

    def test_predict_reads_the_modes_of_pillow(self):
        picture = PIL.Image.fromarray(self.pixels[0])
        grey, alpha, turned = picture.convert("L"), picture.convert("RGBA"), picture.rotate(90, expand=True)
        self.check(alpha, slice(0, 1))
        numpy.testing.assert_array_equal(
            self.model.predict(grey).probabilities, self.model.predict(numpy.asarray(grey)).probabilities
        )
        exif = PIL.Image.Exif()
        exif[0x0112] = 6  # to be turned by a quarter to the right
        stored = io.BytesIO()
        turned.save(stored, "PNG", exif=exif)
        self.check(PIL.Image.open(stored), slice(0, 1))
        with self.assertRaisesRegex(TypeError, "image 0 has the Pillow mode I;16.*give the path"):
            self.model.predict(PIL.Image.new("I;16", (5, 5)))

    def test_predict_of_no_image_returns_no_row(self):
        found = self.model.predict([])
        self.assertEqual((found.probabilities.shape, found.names, len(found)), ((0, 3), [], 0))

    def test_predict_names_what_is_not_an_image(self):
        for image, message in [
            (5, "'int' object is not iterable"),
            ([5], "image 0 is a int; expected a path, bytes, a Pillow image or a NumPy array"),
            (numpy.zeros((4, 4, 3)), r"image 0 is an array of float64 with 3 dimensions; expected uint8"),
            ([self.files[0], numpy.zeros(4, numpy.uint8)], "image 1 is an array of uint8 with 1 dimensions"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                self.model.predict(image)
        with self.assertRaisesRegex(ValueError, "expected 'raise' or 'nan'"):
            self.model.predict([], on_error="skip")

    def test_predict_names_images_that_it_cannot_read(self):
        images = [self.files[0], "/nowhere.png", b"GIF89a", numpy.zeros((4, 4, 7), numpy.uint8)]
        with self.assertRaisesRegex(imagetrainer.TrainerError, "3 of 4 images cannot be read: /nowhere.png") as caught:
            self.model.predict(images)
        self.assertEqual(caught.exception.kind, "data")
        found = self.model.predict(images, on_error="nan")
        numpy.testing.assert_array_equal(found.probabilities[0], self.expected[0])
        self.assertTrue(numpy.isnan(found.probabilities[1:]).all())
        self.assertEqual(found.names, [self.names[0], None, None, None])
        self.assertIsNone(found.errors[0])
        self.assertIn("image 3: has 7 channels", found.errors[3])

    def test_model_describes_itself(self):
        self.assertEqual(self.model.classes, ("left", "middle", "right"))
        self.assertEqual(self.model.input_shape, (24, 24, 3))
        best = json.loads((self.trained / "run.json").read_text())["best"]["step"]
        self.assertEqual(self.model.step, best)
        notes = support.trainer("predict", self.trained, self.files[0]).stderr
        self.assertEqual(self.model.notes, notes)
        self.assertFalse(self.model.has_labels)
        self.assertIsNone(self.model.predict(self.files[0]).labels)
        with imagetrainer.Model(self.trained, checkpoint="last", threads=1) as other:
            self.assertEqual(repr(other), "<imagetrainer.Model of 3 classes, step 6>")
            self.assertEqual(other.notes, "")
        with self.assertRaisesRegex(ValueError, "the model is closed"):
            other.predict(self.files[0])
        other.close()

    def test_model_reports_why_it_cannot_be_opened(self):
        for path, options, kind in [("/nowhere", {}, "data"), (self.trained, {"checkpoint": "third"}, "config"),
                                    (self.trained, {"threads": -1}, "argument")]:
            with self.subTest(kind), self.assertRaises(imagetrainer.TrainerError) as caught:
                imagetrainer.Model(path, **options)
            self.assertEqual(caught.exception.kind, kind)

    def test_predict_gives_several_labels_by_their_thresholds(self):
        folder = self.folder / "labelled"
        folder.mkdir()
        rows = [f"{file},{'red|' if i % 2 else ''}{'dark' if i % 3 else 'bright'}" for i, file in enumerate(self.files)]
        (folder / "train.csv").write_text("\n".join(["image,labels", *rows]) + "\n")
        config = folder / "config.yaml"
        config.write_text(
            "model: {input: [24, 24, 3], layers: [flatten, dense: 3], loss: binary_cross_entropy}\n"
            f"data: {{format: csv, path: {folder}, csv: {{label_column: labels, label_separator: '|'}}, resize: [24, 24], validation_split: 0.3}}\n"
            "train: {epochs: 1, batch_size: 8}\n"
        )
        support.run_json("train", config, "--run-dir", folder / "run")
        lines = [line for line in support.run_json("predict", folder / "run", *self.files) if "labels" in line]
        with imagetrainer.Model(folder / "run") as model:
            found = model.predict(self.files)
            self.assertTrue(model.has_labels)
        self.assertEqual(found.labels.dtype, numpy.bool_)
        self.assertEqual(found.names, [None] * len(self.files))
        given = [[found.classes[index] for index in numpy.flatnonzero(row)] for row in found.labels]
        self.assertEqual(given, [line["labels"] for line in lines])
        numpy.testing.assert_array_equal(
            found.probabilities, [list(line["probabilities"].values()) for line in lines]
        )

    def test_predict_finds_images_of_none_of_the_classes(self):
        run = self.folder / "judged"
        shutil.copytree(self.trained, run)
        support.run_json("evaluate", run, "--novelty", "--novelty-false-alarms", 0.2, "--split", "validation")
        bright = self.folder / "bright.png"
        PIL.Image.new("RGB", (36, 40), (250, 255, 10)).save(bright)
        files = [*self.files, bright]
        lines = [line for line in support.run_json("predict", run, *files) if "probabilities" in line]
        with imagetrainer.Model(run) as model:
            found = model.predict([*files, b"no image"], on_error="nan")
            self.assertIn(f"images at a distance above {model.novelty_limit:.4g}", model.notes)
        self.assertEqual(found.distances[:-1].tolist(), [line["distance"] for line in lines])
        self.assertEqual(found.novel[:-1].tolist(), [line["novel"] for line in lines])
        self.assertEqual(found.names[:-1], [line["class"] for line in lines])
        self.assertEqual({*found.novel[:-1].tolist()}, {True, False})
        self.assertFalse(found.novel[-1])
        self.assertTrue(numpy.isnan(found.distances[-1]))
        self.assertIsNone(found.features)
        with imagetrainer.Model(run, novelty=False) as model:
            self.assertIsNone(model.novelty_limit)
            self.assertIsNone(model.predict(bright).novel)
            self.assertIsNone(model.predict(bright).distances)

    def test_predict_uses_the_temperature_of_the_run(self):
        run = self.folder / "calibrated"
        shutil.copytree(self.trained, run)
        support.run_json("evaluate", run, "--calibrate")
        lines = [line for line in support.run_json("predict", run, *self.files) if "probabilities" in line]
        with imagetrainer.Model(run) as model:
            found = model.predict(self.files).probabilities.tolist()
        self.assertEqual(found, [list(line["probabilities"].values()) for line in lines])
        self.assertNotEqual(found, self.expected.tolist())
        with imagetrainer.Model(run, calibrated=False) as model:
            self.assertEqual(model.predict(self.files).probabilities.tolist(), self.expected.tolist())

    def test_predict_returns_the_features_of_the_command(self):
        written = self.folder / "features.npy"
        self.assertEqual(support.trainer("predict", self.trained, *self.files, "--features", written).returncode, 0)
        expected = numpy.load(written)
        with imagetrainer.Model(self.trained, features=True) as model:
            found = model.predict([*self.files, b"no image"], on_error="nan")
        self.assertEqual((found.features.dtype, found.features.shape), (numpy.float32, (31, expected[0].size)))
        numpy.testing.assert_array_equal(found.features[:-1], expected.reshape(30, -1))
        numpy.testing.assert_array_equal(found.probabilities[:-1], self.expected)
        self.assertTrue(numpy.isnan(found.features[-1]).all())

    def test_model_serves_several_threads(self):
        """Eight threads with one model get the same bits, in flat memory."""
        wrong, sizes = [], []

        def work(first):
            for number in range(IMAGES // 8):
                index = (first + number) % len(self.pixels)
                if (self.model.predict(self.pixels[index]).probabilities != self.expected[index]).any():
                    wrong.append(index)
                if first == 0 and number == IMAGES // 32:
                    sizes.append(resident())

        threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertLess(resident() - sizes[0], 16 << 20)

    def test_model_is_an_error_in_a_forked_process(self):
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=predict_in_child, args=(self.model, self.pixels[0], answers))
        child.start()
        self.assertEqual(answers.get(timeout=60), "forked")
        child.join(60)
        self.assertEqual(child.exitcode, 0)
        self.check(self.files[0], slice(0, 1))

    def test_service_answers_several_clients(self):
        """examples/serve.py, asked by eight clients at once."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, support.ROOT / "apps" / "python" / "examples" / "serve.py", self.trained, "--port", "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as service:
            try:
                address = service.stdout.readline().strip()
                self.assertTrue(address.endswith("/predict"), address)

                def ask(content, path="/predict"):
                    try:
                        request = urllib.request.Request(address.replace("/predict", path), content)
                        with urllib.request.urlopen(request, timeout=60) as answer:
                            return answer.status, json.load(answer)
                    except urllib.error.HTTPError as error:
                        return error.code, json.load(error)

                with concurrent.futures.ThreadPoolExecutor(8) as clients:
                    answers = list(clients.map(ask, [file.read_bytes() for file in self.files]))
                for (status, answer), row, name in zip(answers, self.expected, self.names):
                    self.assertEqual((status, answer["class"]), (200, name))
                    self.assertEqual(list(answer["probabilities"].values()), row.tolist())
                self.assertEqual(ask(None, "/health")[1]["classes"], ["left", "middle", "right"])
                self.assertIn("image 0: ", ask(b"no image")[1]["error"])
                self.assertEqual([ask(b"no image")[0], ask(b"", "/predict")[0], ask(b"a", "/other")[0]], [400, 413, 404])
                self.assertEqual(ask(None, "/other")[0], 404)
            finally:
                service.terminate()

    def test_program_of_the_guide_runs(self):
        lines = (support.ROOT / "configs" / "guide_library.md").read_text().splitlines()
        first = lines.index("    import numpy")
        last = next(index for index in range(first, len(lines)) if lines[index][:1].strip())
        program = "\n".join(line[4:] for line in lines[first:last])
        for name, path in [("runs/cats_dogs", self.trained), ("cat.jpg", self.files[0]), ("dog.jpg", self.files[1])]:
            self.assertIn(name, program)
            program = program.replace(name, str(path))
        values = {}
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(program, values)  # noqa: S102
        self.assertIn(str(self.names[:2]), output.getvalue())
        self.assertEqual(len(values["accuracy"]), 2)
        values["model"].close()

    def test_run_has_the_metrics_as_arrays(self):
        run = imagetrainer.Run(self.trained)
        self.assertEqual(run.classes, ("left", "middle", "right"))
        self.assertEqual(set(run.metrics), {"train", "validation"})
        rows = [json.loads(line) for line in (self.trained / "metrics.jsonl").read_text().splitlines()]
        for split, columns in run.metrics.items():
            mine = [row for row in rows if row["split"] == split]
            self.assertEqual(columns["step"].tolist(), [row["step"] for row in mine])
            self.assertEqual(columns["loss"].tolist(), [row["loss"] for row in mine])
            self.assertEqual((columns["step"].dtype, columns["loss"].dtype), (numpy.int64, numpy.float64))
        self.assertTrue(numpy.isnan(run.metrics["validation"]["learning_rate"]).all())
        self.assertEqual(run.record["classes"], list(run.classes))
        with self.assertRaisesRegex(FileNotFoundError, "is not the folder of a run"):
            imagetrainer.Run(self.folder)

    def test_help_describes_all_functions(self):
        text = pydoc.plain(pydoc.render_doc(imagetrainer))
        for name in ("class Model", "class Predictions", "class Run", "predict(self, images", "main()"):
            self.assertIn(name, text)
        for kind in (imagetrainer.Model, imagetrainer.Predictions, imagetrainer.Run):
            self.assertTrue(kind.__doc__)
            for name, function in inspect.getmembers(kind, inspect.isfunction):
                if name.startswith("_") or name in ("count", "index"):
                    continue
                self.assertTrue(function.__doc__, name)
                self.assertIn("return", function.__annotations__, name)

    def test_the_command_starts_without_numpy(self):
        code = "import sys, imagetrainer; assert not {'numpy', 'typing', 'ctypes'} & {*sys.modules}"
        package = pathlib.Path(imagetrainer.__file__).parent.parent
        done = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(package)}, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


if __name__ == "__main__":
    support.main()
