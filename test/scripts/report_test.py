#!/usr/bin/env python3
"""Reports of a run and of a sweep: well-formed, complete, the numbers of the metrics, and quiet in a browser."""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import support

CONFIG = """
name: a <report> & "more"
model: {layers: [flatten, dense: 10]}
data: {format: digits, path: %s, synthetic: {train_samples: 1}, limit: 600, validation_split: 0.2}
optimizer: {sgd: {learning_rate: 0.1}}
train: {max_steps: 12, batch_size: 32}
parallel: {lr_scaling: none}
run: {summary_every: 2 steps, evaluate_every: 6 steps, tensorboard: false, price_per_hour: 3}
"""
SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"


def classes_of(element):
    return element.get("class", "").split()


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        config = cls.folder / "config.yaml"
        config.write_text(CONFIG % (cls.folder / "digits"))
        cls.run_dir, cls.sweep_dir = cls.folder / "run", cls.folder / "sweep"
        for arguments in (
            ["train", config, "--run-dir", cls.run_dir, "--quiet"],
            ["report", cls.run_dir],
            ["sweep", config, "--dir", cls.sweep_dir, "--quiet", "--over", "parallel.gpus=1,2", "--over",
             "train.batch_size=16,32", "--set", "parallel.device=cpu"],
        ):
            done = support.trainer(*arguments)
            assert done.returncode == 0, done.stderr
        cls.texts = {name: (folder / "report.html").read_text()
                     for name, folder in (("run", cls.run_dir), ("sweep", cls.sweep_dir))}
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
        for chart, column in (("loss", "loss"), ("accuracy", "accuracy"), ("learning-rate", "learning_rate"),
                              ("throughput", "images_per_second")):
            expected = [(row["split"], int(row["step"]), float(row[column])) for row in rows if row[column]]
            found = self.points(self.pages["run"], chart)
            self.assertEqual(len(found), len(expected), chart)
            for series, step, value in expected:
                close = [y for s, x, y in found if (s, x) == (series, step) and abs(y - value) <= 1e-5 * abs(value)]
                self.assertTrue(close, f"{chart}: {series} at step {step} is {value}, not in {found}")

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

    def test_browser_shows_it_without_a_message(self):
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not browser:
            self.skipTest("no Chromium here: apt-get install chromium")
        for name, folder in (("run", self.run_dir), ("sweep", self.sweep_dir)):
            picture = self.folder / f"{name}.png"
            done = subprocess.run(
                [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                 f"--user-data-dir={self.folder / 'profile'}", "--window-size=400,900",
                 f"--screenshot={picture}", (folder / "report.html").as_uri()],
                capture_output=True, text=True, timeout=240)
            self.assertGreater(picture.stat().st_size, 10000, done.stderr)
            self.assertNotIn("CONSOLE", done.stderr)


if __name__ == "__main__":
    support.main()
