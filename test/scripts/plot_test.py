#!/usr/bin/env python3
"""Reads the curve that `plan --plot` draws back through its axes and compares it with the schedule."""
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
CONFIG = """
name: a <ramp> & more
model: {{layers: [flatten, dense: 2]}}
data: {{format: synthetic, synthetic: {{shape: [2, 2, 1], classes: 2, train_samples: {samples}}}}}
optimizer: {{sgd: {{learning_rate: 0.5}}}}
schedule: {schedule}
train: {{epochs: {epochs}, batch_size: 10}}
"""


def ramp_up(epoch):
    """Article W: lrfn of its notebook."""
    if epoch < 5:
        return (5e-5 - 1e-5) / 5 * epoch + 1e-5
    if epoch < 7:
        return 5e-5
    return (5e-5 - 1e-5) * 0.8 ** (epoch - 7) + 1e-5


def short_peak(epoch):
    """ramp_up() without the plateau."""
    return 4e-5 * (epoch / 5 if epoch < 5 else 0.8 ** (epoch - 5)) + 1e-5


def warm_step(epoch):
    return 0.5 * epoch / 2 if epoch < 2 else 0.5 * 0.1 ** int((epoch - 2) / 3 + 1e-9)


CASES = [
    ("{ramp_up: {sustain_epochs: 2, by: step}}", 20, 15, ramp_up, ["warm-up", "sustain", "decay"]),
    ("{ramp_up: {sustain_epochs: 2, by: epoch}}", 20, 15, lambda e: ramp_up(int(e + 1e-9)),
     ["warm-up", "sustain", "decay"]),
    ("{step: {every: 3 epochs}, warm_up: {over: 2 epochs}}", 30, 9, warm_step, ["warm-up", "decay"]),
    ("constant", 3000, 40, lambda e: 0.5, ["constant"]),
    # The peak is between the evenly spaced steps that are drawn.
    ("{ramp_up: {sustain_epochs: 0, by: step}}", 10, 5000, short_peak, ["warm-up", "decay"]),
]


def texts(root, kind):
    return [t for t in root.iter(SVG + "text") if kind in t.get("class").split()]


def axis(root, kind, position):
    """Pixels to numbers, from the first and the last tick."""
    ticks = [(float(t.get(position)), float(t.text)) for t in texts(root, kind)]
    assert len(ticks) >= 3, ticks
    (p0, v0), (p1, v1) = ticks[0], ticks[-1]
    for pixel, value in ticks:
        assert abs(v0 + (pixel - p0) / (p1 - p0) * (v1 - v0) - value) < 1e-3 * v1, ticks
    return lambda pixel: v0 + (pixel - p0) / (p1 - p0) * (v1 - v0)


def notable_points(root):
    circles = (c for c in root.iter(SVG + "circle") if c.get("class") == "notable")
    return [(float(c.get("cx")), float(c.get("cy"))) for c in circles]


def check_drawn_steps(drawn, steps, peak):
    """Every step or at most 400: evenly spaced ones, with the peak and the last step."""
    assert len(drawn) <= 400, len(drawn)
    assert all(a < b for a, b in zip(drawn, drawn[1:])), drawn
    stride = 1 if steps <= 400 else -(-steps // 395)
    missing = {*range(0, steps, stride), peak, steps - 1} - set(drawn)
    assert not missing, missing


def check_inside(points, band):
    """The band is as high as the frame."""
    top = float(band.get("y"))
    bottom = top + float(band.get("height"))
    for point in points:
        assert top <= point[1] <= bottom, (point, top, bottom)


def check(program, folder, case):
    schedule, samples, epochs, expected, phases = case
    config, plot = folder / "config.yaml", folder / "lr.svg"
    config.write_text(CONFIG.format(schedule=schedule, samples=samples, epochs=epochs))
    subprocess.run([program, "plan", config, "--plot", plot, "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    root = ElementTree.parse(plot).getroot()
    assert texts(root, "title")[0].text == "Learning rate of a <ramp> & more"
    assert texts(root, "x-label")[0].text.startswith("epoch")
    assert texts(root, "y-label")[0].text == "learning rate"
    assert [t.text for t in texts(root, "band-name")] == phases
    epoch_of = axis(root, "x-tick", "x")
    rate_of = axis(root, "y-tick", "y")
    line = root.find(SVG + "polyline")
    points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
    steps, per_epoch = samples * epochs // 10, samples // 10
    rates = [expected(step / per_epoch) for step in range(steps)]
    top = max(rates)
    label_shift = 4  # the text of a y tick sits below its line
    drawn = [round(epoch_of(x) * per_epoch) for x, _ in points]
    for step, (x, y) in zip(drawn, points):
        assert abs(epoch_of(x) - step / per_epoch) < 1e-3 * epochs, (epoch_of(x), step)
        assert abs(rate_of(y + label_shift) - rates[step]) < 2e-3 * top, (step, y, rates[step])
    check_drawn_steps(drawn, steps, rates.index(top))
    check_inside(points + notable_points(root), next(root.iter(SVG + "rect")))
    notable = {float(t.text) for t in texts(root, "notable")}
    for rate in (expected(0), top):
        assert any(abs(n - rate) < 1e-3 * top for n in notable), (rate, notable)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in CASES:
            check(program, folder, case)
        (folder / "config.yaml").write_text(CONFIG.format(schedule="constant", samples=10, epochs=1))
        lost = subprocess.run(
            [program, "plan", folder / "config.yaml", "--set", "data={format: idx, path: /nowhere}",
             "--plot", folder / "no.svg"], capture_output=True, text=True)
        assert lost.returncode == 3 and "/nowhere" in lost.stderr, lost.stderr
        assert not (folder / "no.svg").exists()


main()
