#!/usr/bin/env python3
"""Reports of a run and of a sweep: well-formed, complete, with the numbers of the metrics."""
import base64
import csv
import json
import re
import shutil
import unittest
import xml.etree.ElementTree as ElementTree
import zlib

import report_pages
import support

SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"


def unfiltered(kind, row, before):
    """A row of a PNG of one byte a pixel."""
    values = []
    for i, byte in enumerate(row):
        left, up, corner = values[-1] if i else 0, before[i], before[i - 1] if i else 0
        nearest = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
        values.append((byte + (0, left, up, (left + up) // 2, nearest)[kind]) % 256)
    return values


def classes_of(element):
    return element.get("class", "").split()


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pages = report_pages.Pages()
        cls.addClassCleanup(pages.temporary.cleanup)
        cls.run_dir, cls.sweep_dir = pages.run_dir, pages.sweep_dir
        cls.texts = {name: file.read_text() for name, file in pages.files.items()}
        cls.pages = {name: ElementTree.fromstring(text) for name, text in cls.texts.items()}

    def points(self, page, chart):
        """(series, x, y) of every point, as its hover title says."""
        (svg,) = [svg for svg in page.iter(SVG + "svg") if svg.get("id") == chart]
        found = []
        for group in svg.iter(SVG + "g"):
            if "point" in classes_of(group):
                title = group.find(SVG + "title").text
                series, x, y = re.fullmatch(r"(.*), .* (\S+): (\S+)", title).groups()
                found.append((series, float(x.replace(",", "")), float(y.replace(",", ""))))
        return found

    def test_charts_have_the_numbers_of_the_metrics(self):
        with (self.run_dir / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        per_epoch = json.loads((self.run_dir / "run.json").read_text())["steps_per_epoch"]
        for chart, column in (("loss", "loss"), ("accuracy", "accuracy"), ("learning-rate", "learning_rate"),
                              ("throughput", "images_per_second")):
            expected = [(row["split"], int(row["step"]) / per_epoch, float(row[column])) for row in rows if row[column]]
            found = self.points(self.pages["run"], chart)
            self.assertEqual(len(found), len(expected), chart)
            for series, epoch, value in expected:
                close = [y for s, x, y in found
                         if s == series and abs(x - epoch) <= 1e-5 * epoch and abs(y - value) <= 1e-5 * abs(value)]
                self.assertTrue(close, f"{chart}: {series} at epoch {epoch} is {value}, not in {found}")

    def test_confusion_matrix_is_that_of_the_run(self):
        record = json.loads((self.run_dir / "run.json").read_text())
        (table,) = [t for t in self.pages["run"].iter(HTML + "table") if t.get("id") == "confusion"]
        found = [[int(cell.text) for cell in row.iter(HTML + "td")] for row in table.find(HTML + "tbody")]
        self.assertEqual(found, record["finished"]["metrics"]["test"]["confusion"])

    def test_sweep_plots_have_the_table_and_an_ideal_line(self):
        rows = json.loads((self.sweep_dir / "table.json").read_text())["rows"]
        self.assertEqual(len(rows), 4)
        for chart, key in (("throughput", "images_per_second"), ("total-time", "total_seconds")):
            found = self.points(self.pages["sweep"], chart)
            for row in rows:
                close = [y for _, x, y in found if x == row["replicas"] and abs(y - row[key]) <= 1e-5 * row[key]]
                self.assertTrue(close, f"{chart}: {row[key]} is not in {found}")
            (svg,) = [svg for svg in self.pages["sweep"].iter(SVG + "svg") if svg.get("id") == chart]
            dashed = [line for line in svg.iter(SVG + "polyline") if line.get("stroke-dasharray")]
            self.assertEqual(len(dashed), 2)
            self.assertEqual(ElementTree.parse(self.sweep_dir / f"{chart}.svg").getroot().tag, SVG + "svg")
        verdicts = "".join(self.pages["sweep"].itertext())
        for row in rows:
            self.assertIn(row["verdict"], verdicts)

    def test_sweep_has_the_best_first(self):
        table = json.loads((self.sweep_dir / "table.json").read_text())
        best = max(table["rows"], key=lambda row: row["accuracy"])
        label = " ".join(f"{key.split('.')[1]}={value}" for key, value in best["values"].items())
        self.assertIn(f"Best: {label}, accuracy {100 * best['accuracy']:.2f} %", "".join(self.pages["sweep"].itertext()))
        rows = next(table for table in self.pages["sweep"].iter(HTML + "table")
                    if table.find(HTML + "caption").text.startswith("Means over the seeds"))
        headings = [cell.text for cell in rows.find(HTML + "thead").iter(HTML + "th")]
        column = headings.index("accuracy")
        self.assertEqual(headings[column:column + 3], ["accuracy", "95 % interval", "loss"])
        accuracies = [float(row[column].text) for row in rows.find(HTML + "tbody")]
        self.assertEqual(accuracies, sorted(accuracies, reverse=True))
        for chart, metric in (("accuracy-curves", "accuracy"), ("loss-curves", "loss")):
            found = self.points(self.pages["sweep"], chart)
            for point in table["points"]:
                with (self.sweep_dir / point["name"] / "metrics.csv").open(newline="") as file:
                    values = [row for row in csv.DictReader(file) if row["split"] == "validation"]
                name = " ".join(f"{key.split('.')[1]}={value}" for key, value in point["values"].items())
                self.assertEqual(len([1 for series, _, _ in found if series == name]), len(values))
                for row in values:
                    close = [y for series, x, y in found if series == name and abs(x - float(row["epoch"])) < 1e-4
                             and abs(y - float(row[metric])) <= 1e-5 * abs(y)]
                    self.assertTrue(close, f"{chart}: {name} at epoch {row['epoch']}")

    def test_nothing_is_fetched_or_run(self):
        for name, text in self.texts.items():
            self.assertNotRegex(text, r"<script|<iframe|@import|url\(", name)
            for link in re.findall(r'(?:src|href)="([^"]*)"', text):
                self.assertTrue(link.startswith(("data:", "#")), link)

    def test_everything_can_be_read_without_seeing_it(self):
        for name, page in self.pages.items():
            self.assertEqual(page.get("lang"), "en")
            charts = list(page.iter(SVG + "svg"))
            self.assertTrue(charts)
            for svg in charts:
                self.assertEqual(svg.get("role"), "img")
                ids = {element.get("id"): element for element in svg.iter() if element.get("id")}
                for reference in svg.get("aria-labelledby").split():
                    self.assertTrue(ids[reference].text, name)
                labels = [text.text for text in svg.iter(SVG + "text")
                          if {"x-label", "y-label"} & set(classes_of(text))]
                self.assertEqual(len(labels), 2)
            scrolled = [e for e in page.iter(HTML + "div") if "scroll" in classes_of(e)]
            self.assertTrue(scrolled)
            for element in scrolled:
                self.assertEqual(element.get("tabindex"), "0")
                self.assertTrue(element.get("aria-label"))

    def test_names_are_escaped(self):
        self.assertEqual(self.pages["run"].find(f".//{HTML}h1").text, 'Run a <report> & "more"')

    def test_mistakes_are_those_of_the_predictions(self):
        done = support.trainer("predict", self.run_dir, "--split", "test", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        predictions = support.events(done.stdout)
        groups, right = {}, {}
        for one in predictions:
            if one["class"] == one["label"]:
                right.setdefault(one["label"], []).append(one)
            else:
                groups.setdefault((int(one["label"]), int(one["class"])), []).append(one)
        largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:8]
        wrong = sum(map(len, groups.values()))
        text = "".join(self.pages["run"].itertext())
        self.assertIn(f"{wrong:,} of {len(predictions):,} samples are wrong", text)
        # The AUC of the last step, which is the shown checkpoint.
        with (self.run_dir / "metrics.csv").open(newline="") as file:
            row = [row for row in csv.DictReader(file) if row["split"] == "test"][-1]
        self.assertIn(f"; AUC {float(row['auc']):.4f}", text)
        self.assertIn("the class that it predicted (occlusion)", text)
        self.assertEqual([heading.text for heading in self.pages["run"].iter(HTML + "h3")],
                         [f"{label}, taken for {taken} ({len(group)})" for (label, taken), group in largest])
        expected = []  # 24 mistakes, 3 of each group, with the least probability of their class
        for _, group in largest:
            expected.append(sorted(group, key=lambda one: one["probabilities"][one["label"]])[:3])
        # 12 right answers: the first of each class, and the second of the first two classes.
        expected.append([one for label in sorted(right) for one in right[label][:2 if int(label) < 2 else 1]])
        self.assertEqual(sum(map(len, expected)), 36)
        lists = [e for e in self.pages["run"].iter(HTML + "ul") if "samples" in classes_of(e)]
        self.assertEqual(len(lists), len(expected))
        for shown, samples in zip(lists, expected):
            images = list(shown.iter(HTML + "img"))
            # A picture of each sample, and a heatmap beside it.
            pictures, heatmaps = images[::2], images[1::2]
            self.assertEqual([image.get("alt") for image in heatmaps],
                             [f"Heatmap of {one['class']} for sample number {one['index']}" for one in samples])
            self.assertEqual([image.get("alt") for image in pictures], [self.alt(one) for one in samples])
            for image, one in zip(pictures, samples):
                self.assertEqual(self.pixels(image), self.digit(one["index"]))

    @staticmethod
    def alt(one):
        taken = "" if one["class"] == one["label"] else f" taken for {one['class']}"
        return f"Sample number {one['index']}: {one['label']}{taken}"

    @staticmethod
    def pixels(image):
        """The grey values of an embedded PNG of 28 x 28."""
        kind, data = image.get("src").split(",", 1)
        assert kind == "data:image/png;base64", kind
        file, at, packed = base64.b64decode(data), 8, b""
        while at < len(file):
            size, name = int.from_bytes(file[at:at + 4], "big"), file[at + 4:at + 8]
            packed += file[at + 8:at + 8 + size] if name == b"IDAT" else b""
            at += size + 12
        rows, before, values = zlib.decompress(packed), [0] * 28, []
        for start in range(0, len(rows), 29):
            before = unfiltered(rows[start], rows[start + 1:start + 29], before)
            values += before
        return values

    def digit(self, index):
        images = (self.run_dir.parent / "digits" / "t10k-images-idx3-ubyte").read_bytes()[16:]
        return list(images[index * 784:(index + 1) * 784])

    def test_run_has_its_data_and_devices(self):
        record = json.loads((self.run_dir / "run.json").read_text())
        tables = {table.find(HTML + "caption").text: [[cell.text or "" for cell in row] for row in table.find(HTML + "tbody")]
                  for table in self.pages["run"].iter(HTML + "table")}
        self.assertEqual([row[:2] for row in tables["Samples of every split"]], [["train", "480"], ["validation", "120"], ["test", "4,000"]])
        self.assertEqual(sum(record["splits"]["train"]["classes"]), 480)
        shares = [float(share.split()[0]) for share in tables["What each rank does in a step"][0][1:]]
        self.assertAlmostEqual(sum(shares), 100, delta=0.1)
        memory = dict(tables["Memory of a rank on its device, and of the process"])
        # 7850 parameters of 4 bytes, and what the layout adds.
        self.assertGreaterEqual(record["memory"]["parameters and state"], 4 * 7850)
        self.assertEqual(float(memory["parameters and state"]), round(record["memory"]["parameters and state"] / 2**20, 1))

    def test_plots_of_the_run_are_files_too(self):
        for chart in ("loss", "accuracy", "learning-rate", "throughput"):
            root = ElementTree.parse(self.run_dir / "plots" / f"{chart}.svg").getroot()
            self.assertEqual((root.tag, root.get("id")), (SVG + "svg", chart))

    def test_what_is_missing_is_named(self):
        copy = self.run_dir.parent / "without_checkpoints"
        shutil.copytree(self.run_dir, copy, ignore=shutil.ignore_patterns("checkpoints"))
        done = support.trainer("report", copy)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the report has no mistakes and no pictures: ", done.stderr)
        self.assertRegex((copy / "report.html").read_text(), "No pictures: [^<]*without_checkpoints[^<]*checkpoint")
        done = support.trainer("report", copy, "--mistakes", "0", "--output", copy / "other.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No pictures: --mistakes 0", (copy / "other.html").read_text())


if __name__ == "__main__":
    support.main()
