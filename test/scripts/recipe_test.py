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

PATH = re.compile(r"[a-z_0-9*]+(?:/[a-z_0-9*]+)*/(?:[a-z_0-9*]+\.(?:h|cpp|inl|cuh?|proto)\b|CMakeLists\.txt)")


LIMITS = {"op": 8, "fused op": 5, "optimizer": 7, "config key": 3}  # of files of lib/


def read_table(text):
    """{first cell: (new files, files with lines elsewhere)} of the table, with * for x in the paths."""
    rows, inside = {}, False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            inside = False
        elif cells == ["add", "new files", "lines elsewhere"]:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            paths = [[re.sub(r"(?<=[/_v])x(?=\.)", "*", path) for path in PATH.findall(cell)] for cell in cells[1:]]
            rows[cells[0]] = tuple(paths)
    return rows


def disagreements(new, elsewhere, files):
    """Files that the row does not name, and paths of its lines elsewhere that no file has."""
    missing = [f for f in files if not any(fnmatch.fnmatchcase(f, p) for p in new + elsewhere)]
    stale = [p for p in elsewhere if not any(fnmatch.fnmatchcase(f, p) for f in files)]
    return missing, stale


class Recipe(unittest.TestCase):
    def test_adding_one_touches_only_the_files_that_the_table_names(self):
        rows = read_table((ROOT / "lib/README.md").read_text())
        self.assertTrue(rows, "lib/README.md has no table | add | new files | lines elsewhere |")
        for kind, (words, _) in recipe.EXAMPLES.items():
            with self.subTest(kind):
                named = [paths for row, paths in rows.items() if re.match(rf"{kind}\b", row)]
                self.assertEqual(len(named), 1, f"rows that begin with '{kind}'")
                missing, stale = disagreements(*named[0], recipe.find_files(kind))
                self.assertEqual(missing, [], f"name {words[0]}; add them to the row '{kind}'")
                self.assertEqual(stale, [], f"name {words[0]} no longer; remove them from the row '{kind}'")

    def test_adding_one_touches_few_files(self):
        for kind, limit in LIMITS.items():
            with self.subTest(kind):
                self.assertLessEqual(len(recipe.find_files(kind)), limit)

    def test_the_table_is_read_with_x_for_any_name(self):
        table = "| add | new files | lines elsewhere |\n| --- | --- | --- |\n| op | `a/ops/x.cpp` | a/op.h, c/check_x.cpp |\n"
        self.assertEqual(read_table(table), {"op": (["a/ops/*.cpp"], ["a/op.h", "c/check_*.cpp"])})
        found = disagreements(["a/ops/*.cpp"], ["b/one.h"], ["a/ops/pool.cpp", "a/op.h"])
        self.assertEqual(found, (["a/op.h"], ["b/one.h"]))

    def test_only_whole_words_in_sources_count(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lib/a").mkdir(parents=True)
            (root / "lib/a/one.cpp").write_text("Pool pool;")
            (root / "lib/a/two.cpp").write_text("GlobalPool pool; Pooling p;")
            (root / "lib/a/notes.md").write_text("Pool")
            (root / "lib/a/CMakeLists.txt").write_text("add_library(a ops/pool.cpp)")
            self.assertEqual(recipe.files_naming(["Pool"], root=root), ["a/one.cpp"])
            self.assertEqual(recipe.files_naming(["Pool", r"pool\w*"], root=root), ["a/CMakeLists.txt", "a/one.cpp", "a/two.cpp"])


LOWERINGS = {"cpu": "lib/backend/cpu/ops", "cuda": "lib/backend/cuda/lower"}  # by backend


class FilesOfOps(unittest.TestCase):
    """An op is in the file of one name, whichever folder a reader looks in."""

    def file_names(self, folder, suffix, pattern):
        found = {}
        for path in sorted((ROOT / folder).glob("*" + suffix)):
            for op in re.findall(pattern, path.read_text(), re.MULTILINE):
                self.assertNotIn(op, found, f"{folder}: {op} is in two files")
                found[op] = path.stem
        return found

    def ops(self):
        listed = re.search(r"using Op =\s*std::variant<([^>]*)>", (ROOT / "lib/graph/op.h").read_text())
        return [op.strip() for op in listed.group(1).split(",")]

    def groups(self, backend):
        text = (ROOT / f"lib/backend/{backend}/fuse/groups.h").read_text()
        listed = re.search(r"using Group =\s*std::variant<([^>]*)>", text)
        return [group.strip() for group in listed.group(1).split(",") if group.strip() != "SingleNode"]

    def test_backends_lower_each_op_in_the_file_of_its_name_in_graph(self):
        structs = self.file_names("lib/graph/ops", ".h", r"^struct (\w+)")
        self.assertGreaterEqual(len(self.ops()), 40)
        for folder in LOWERINGS.values():
            with self.subTest(folder):
                lowered = self.file_names(folder, ".cpp", r"^void lower\(const graph::(\w+)&.*{")
                self.assertEqual({op: lowered.get(op) for op in self.ops()}, {op: structs[op] for op in self.ops()})

    def test_cpu_kernels_are_in_the_file_of_their_op(self):
        lowered = {path.stem for path in (ROOT / LOWERINGS["cpu"]).glob("*.cpp")}
        kernels = {path.stem for path in (ROOT / "lib/backend/cpu/simd/ops").glob("*.inl")}
        self.assertIn("up_sample", kernels)
        self.assertLessEqual(kernels, lowered)

    def test_cuda_kernels_are_enqueued_in_the_file_of_the_name_of_their_op(self):
        structs = self.file_names("lib/graph/ops", ".h", r"^struct (\w+)")
        enqueued = self.file_names("lib/backend/cuda/kernels", ".cu", r"^void enqueue\(const graph::(\w+)&")
        self.assertIn("UpSample", enqueued)
        self.assertEqual(enqueued, {op: structs[op] for op in enqueued})

    def test_backends_lower_each_fused_op_in_the_file_of_its_pattern(self):
        for backend, folder in LOWERINGS.items():
            with self.subTest(folder):
                patterns = {path.stem for path in (ROOT / f"lib/backend/{backend}/fuse").glob("*.cpp")}
                lowered = self.file_names(folder, ".cpp", r"^void lower\(const (\w+)&.*{")
                self.assertEqual(set(lowered), set(self.groups(backend)))
                # Batch norms have no pattern: those of other fused ops leave a part of them to their neighbours.
                self.assertLessEqual(set(lowered.values()), patterns | {"batch_norm"})


if __name__ == "__main__":
    unittest.main()
