#!/usr/bin/env python3
"""Reports in headless Chromium: quiet, readable in light and dark and on a narrow screen, by keyboard, mouse and ear."""
import os
import pathlib
import time
import unittest

import browser
import report_pages
import support

# Whoever wants to look: screenshots are left in this folder.
PICTURES = os.environ.get("TRAINER_TEST_PICTURES")
NARROW, WIDE, PAPER = 360, 1280, 680  # PAPER: between the margins of A4

# For every text that is shown: its contrast (WCAG) against what lies behind it, with the text.
CONTRASTS = """(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const background = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = rgb => rgb.slice(0, 3).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["STYLE", "title", "desc"].includes(e.tagName) || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), under = background(e);
    const colour = over(parse(e instanceof SVGElement ? style.fill : style.color), under);
    found.push([ratio(colour, under), walker.currentNode.data.trim()]);
  }
  for (const line of document.querySelectorAll("svg.chart polyline")) {
    const under = background(line);
    found.push([ratio(parse(getComputedStyle(line).stroke), under) * 1.5, "a line"]);  // 3 is enough of a line
  }
  return found;
})()"""
# Whatever reaches beyond the right edge of the screen, unless it lies in something that scrolls.
TOO_WIDE = """[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.closest("svg, .scroll > *, pre"))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 120))"""
# What the keyboard must reach, in the order of the page.
REACHABLE = """[...document.querySelectorAll("summary, [tabindex]")].filter(e => e.checkVisibility())
  .map(e => e.getAttribute("aria-label") || e.textContent)"""
FOCUSED = """(() => { const e = document.activeElement, s = getComputedStyle(e);
  return [e.getAttribute("aria-label") || e.textContent, s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 2]; })()"""


class ReportBrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = browser.find()
        if not program:
            print("[missing] Chromium")
            raise unittest.SkipTest("no Chromium here: scripts/install_deps.sh --test installs it")
        cls.pages = report_pages.Pages()
        cls.addClassCleanup(cls.pages.temporary.cleanup)
        cls.browser = browser.Browser(program, cls.pages.folder / "profile").__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

    def test_pages_are_readable_without_messages(self):
        for name, file in self.pages.files.items():
            for width, dark in ((WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)):
                with self.subTest(page=name, width=width, dark=dark):
                    self.browser.messages.clear()
                    self.browser.show(width, dark=dark)
                    self.browser.open(file.as_uri())
                    self.look(width, dark)
                    if PICTURES:
                        colour = "dark" if dark else "light"
                        self.browser.screenshot(pathlib.Path(PICTURES) / f"{name}_{width}_{colour}.png")

    def look(self, width, dark):
        """Of the page that is open: nothing is complained of or fetched, all text has contrast, nothing is cut off."""
        self.assertEqual(self.browser.run("matchMedia('(prefers-color-scheme: dark)').matches"), dark)
        contrasts = self.browser.run(CONTRASTS)
        self.assertGreater(len(contrasts), 50)
        self.assertEqual([text for ratio, text in contrasts if ratio < 4.5], [])
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
        self.assertEqual(self.browser.run(TOO_WIDE), [])
        self.assertEqual(self.browser.messages, [])
        outside = [url for url in self.browser.requests() if not url.startswith(("data:", "file:"))]
        self.assertEqual(outside, [])

    def test_colours_follow_the_reader(self):
        for file in self.pages.files.values():
            self.browser.open(file.as_uri())
            backgrounds = []
            for dark in (False, True):
                self.browser.show(WIDE, dark=dark)
                backgrounds.append(self.browser.run("getComputedStyle(document.body).backgroundColor"))
            self.assertEqual(backgrounds, ["rgb(255, 255, 255)", "rgb(15, 19, 24)"])

    def test_pages_are_printed_whole_and_with_colours(self):
        self.addCleanup(self.browser.show, WIDE)
        for name, file in self.pages.files.items():
            with self.subTest(page=name):
                self.browser.show(PAPER, dark=True, media="print")
                self.browser.open(file.as_uri())
                cut = self.browser.run("""[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.closest("svg *"))
                    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1 &&
                        getComputedStyle(e).overflowX != "visible").map(e => e.outerHTML.slice(0, 120))""")
                self.assertEqual(cut, [])
                self.assertEqual(self.browser.run("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
                style = "getComputedStyle(document.querySelector('thead th'))"
                self.assertEqual(self.browser.run(f"{style}.printColorAdjust"), "exact")
                self.assertNotEqual(self.browser.run(f"{style}.backgroundColor"), "rgba(0, 0, 0, 0)")
                self.assertEqual(self.browser.run("getComputedStyle(document.querySelector('svg.chart')).getPropertyValue('--ink')"),
                                 "#1b1f24")
                # No page ends between the head and the first row of a table.
                self.assertEqual(self.browser.run("getComputedStyle(document.querySelector('thead tr')).breakAfter"), "avoid")
                self.assertFalse(self.browser.run("[...document.querySelectorAll('figure details')].some(e => e.checkVisibility())"))

    def test_keyboard_reaches_and_opens_everything(self):
        self.browser.show(NARROW)
        for name, file in self.pages.files.items():
            with self.subTest(page=name):
                self.browser.open(file.as_uri())
                expected = self.browser.run(REACHABLE)
                self.assertGreater(len(expected), 4)
                visited = []
                for _ in expected:
                    self.browser.press("Tab", 9)
                    text, outlined = self.browser.run(FOCUSED)
                    self.assertTrue(outlined, f"no outline around {text}")
                    visited.append(text)
                self.assertEqual(visited, expected)
                self.browser.run("document.querySelector('summary').focus()")
                self.browser.press("Enter", 13, "\r")
                self.assertTrue(self.browser.run("document.querySelector('details').open"))

    def test_pictures_are_there_without_scrolling(self):
        """So that a print of the page has them, too."""
        self.browser.show(NARROW)
        self.browser.open(self.pages.files["run"].as_uri())
        shown = self.browser.run("[...document.querySelectorAll('img')].map(e => e.complete && e.naturalWidth > 0)")
        self.assertGreater(len(shown), 4)
        self.assertTrue(all(shown))

    def test_numbers_are_not_broken(self):
        self.browser.show(NARROW)
        for file in self.pages.files.values():
            self.browser.open(file.as_uri())
            broken = self.browser.run("""[...document.querySelectorAll("td.n")].filter(e => e.checkVisibility()).filter(e => {
                const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), range = document.createRange();
                while (texts.nextNode()) {
                    range.selectNodeContents(texts.currentNode);
                    if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
                }
                return false; })
                .map(e => e.textContent)""")
            self.assertEqual(broken, [])

    def test_wide_tables_scroll_by_keyboard(self):
        self.browser.show(NARROW)
        self.browser.open(self.pages.files["sweep"].as_uri())
        region = "[...document.querySelectorAll('.scroll')].find(e => e.scrollWidth > e.clientWidth)"
        self.browser.run(f"{region}.focus()")
        self.browser.press("ArrowRight", 39)
        deadline = time.monotonic() + browser.TIMEOUT
        while self.browser.run(f"{region}.scrollLeft") == 0:
            self.assertLess(time.monotonic(), deadline, "the region does not scroll")

    def test_charts_show_numbers_at_the_mouse(self):
        self.browser.show(WIDE)
        for name, file in self.pages.files.items():
            self.browser.open(file.as_uri())
            charts = self.browser.run("[...document.querySelectorAll('svg.chart')].map(e => e.id)")
            self.assertTrue(charts)
            for chart in charts:
                with self.subTest(page=name, chart=chart):
                    self.hover(chart)

    def hover(self, chart):
        """The last point of the chart, which no other one covers, shows its numbers at once."""
        x, y = self.browser.run(f"""(() => {{
            window.point = [...document.querySelectorAll('#{chart} g.point')].pop();
            point.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = point.querySelector('.hit').getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        shown = "[...point.querySelectorAll('text')].filter(e => e.checkVisibility()).map(e => e.textContent).join(' ')"
        self.browser.move_mouse(1, 1)
        self.assertEqual(self.browser.run(shown), "")
        self.browser.move_mouse(x, y)
        self.assertEqual(self.browser.run(f"document.elementFromPoint({x}, {y}).closest('g.point') == point"), True)
        title = self.browser.run("point.querySelector('title').textContent")
        label = self.browser.run(shown)
        self.assertRegex(label, r"^[-\d.,e+]+: [-\d.,e+]+$")
        self.assertTrue(title.endswith(label), f"{label!r} is not the end of {title!r}")
        inside = self.browser.run("""(() => { const t = point.querySelector('text').getBoundingClientRect(),
            s = point.closest('svg').getBoundingClientRect();
            return t.left >= s.left && t.right <= s.right && t.top >= s.top && t.bottom <= s.bottom; })()""")
        self.assertTrue(inside, "the numbers leave the chart")

    def test_screen_readers_read_all_of_a_page(self):
        self.browser.show(WIDE)
        for name, file in self.pages.files.items():
            with self.subTest(page=name):
                self.browser.open(file.as_uri())
                told = self.browser.accessibility()
                pictures = [label for role, label in told if role in ("image", "img", "graphics-document")]
                drawn = self.browser.run("document.querySelectorAll('svg.chart, img, [role=img]').length")
                self.assertGreaterEqual(len(pictures), drawn - self.browser.run(
                    "[...document.querySelectorAll('details:not([open]) img')].length"))
                self.assertNotIn("", pictures)
                tables = [label for role, label in told if role == "table"]
                self.assertTrue(tables)
                self.assertNotIn("", tables)
                self.assertEqual(self.browser.run("document.querySelectorAll('h1').length"), 1)


if __name__ == "__main__":
    support.main()
