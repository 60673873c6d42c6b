#!/usr/bin/env python3
"""The table "To add something" of lib/README.md against what adding the existing examples touches."""

import fnmatch
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import recipe  # noqa: E402

PATH = re.compile(r"[a-z_0-9*]+(?:/[a-z_0-9*]+)+\.(?:h|cpp|inl|proto)")


def read_table(text):
    """{first cell: paths named in the other cells, with * for x} of the table | add | new files | lines elsewhere |."""
    rows, inside = {}, False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            inside = False
        elif cells == ["add", "new files", "lines elsewhere"]:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            named = " ".join(cells[1:]).replace("`", "")
            rows[cells[0]] = [re.sub(r"(?<=[/_v])x(?=\.)", "*", path) for path in PATH.findall(named)]
    return rows


def disagreements(patterns, files):
    """What only one of the two names: paths of the table, files that the example touches."""
    lost = [f for f in files if not any(fnmatch.fnmatchcase(f, p) for p in patterns)]
    idle = [p for p in patterns if not any(fnmatch.fnmatchcase(f, p) for f in files)]
    return lost, idle


class Recipe(unittest.TestCase):
    def test_adding_one_touches_only_the_files_that_the_table_names(self):
        rows = read_table((ROOT / "lib/README.md").read_text())
        self.assertTrue(rows, "lib/README.md has no table | add | new files | lines elsewhere |")
        for kind, (words, folder) in recipe.EXAMPLES.items():
            with self.subTest(kind):
                named = [paths for row, paths in rows.items() if re.match(rf"{kind}\b", row)]
                self.assertEqual(len(named), 1, f"rows that begin with '{kind}'")
                lost, idle = disagreements(named[0], recipe.files_naming(words, folder))
                self.assertEqual(lost, [], f"name {words[0]}, but the row '{kind}' does not have them")
                self.assertEqual(idle, [], f"stand in the row '{kind}', but no file so called names {words[0]}")

    def test_the_table_is_read_with_x_for_any_name(self):
        table = "| add | new files | lines elsewhere |\n| --- | --- | --- |\n| op | `a/ops/x.cpp` | a/op.h, c/check_x.cpp |\n"
        self.assertEqual(read_table(table), {"op": ["a/ops/*.cpp", "a/op.h", "c/check_*.cpp"]})
        self.assertEqual(disagreements(["a/ops/*.cpp", "b/x.h"], ["a/ops/pool.cpp", "a/op.h"]), (["a/op.h"], ["b/x.h"]))

    def test_only_whole_words_in_sources_count(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lib/a").mkdir(parents=True)
            (root / "lib/a/one.cpp").write_text("Pool pool;")
            (root / "lib/a/two.cpp").write_text("GlobalPool pool; Pooling p;")
            (root / "lib/a/notes.md").write_text("Pool")
            self.assertEqual(recipe.files_naming(["Pool"], root=root), ["a/one.cpp"])


if __name__ == "__main__":
    unittest.main()
