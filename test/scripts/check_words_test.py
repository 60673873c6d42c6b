#!/usr/bin/env python3
"""scripts/check_words.py: planted wording of each kind is found at its line, plain code passes, and so does this repository."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A line of a source, and what the finding must name.
PLANTED = [
    ("constexpr int kMostRows = 3;", "kMostRows"),
    ("constexpr double kUsualShare = 0.9;", "kUsualShare"),
    ("std::int64_t bytes_a_sample = 0;", "bytes_a_sample"),
    ("constexpr int kBatchesALook = 4;", "kBatchesALook"),
    ("std::vector<Row> rows_of(const Table& table);", "rows_of"),
    ("const auto label_of = [](int i) { return i; };", "label_of"),
    ("// The published value is that of article R.", "article R"),
    ("// The server tells each worker the step.", "tells"),
    ('throw DataError(path, "a file without samples is refused");', "refused"),
    ('throw DataError(path, "the file is no archive");', "is no archive"),
    ("// Two samples a thread are read at once.", "samples a thread"),
    ("// Not thread-safe: one a backend.", "one a backend"),
    ("// The FLOPs a second of a device.", "FLOPs a second"),
    ("// Of the run.", "Of"),
    ("// Whether it has ended.", "Whether"),
    ("struct Acquaintance {};", "Acquaintance"),
    ("}  // The next function sums.", "}  // The next function sums."),
    ('warn("this rank knows "\n     "nothing");', "knows"),
]
# Names of tests without a verb, or with one in a subordinate clause alone.
NO_SENTENCES = [
    "backbone: networks of other layers, the features of Keras",
    "AppendFile: a file that is moved or replaced, no longer in place",
    "Canvas: letters beyond the width, left out",
    "core_quota: files of other content, 0",
    "optimizer: each kind over 200 steps, Keras's numbers",
    "Confusion: cells, counts per class and scores",
    "cuda loss: softmax cross-entropy",
    "all_reduce_tree: the bits of the tree for any number of processes",
    "train: a run that is stopped and resumed, the bits of an uninterrupted run",
    "download: a server that sends too much, stopped",
    "agree_on_data: a change to be found, the name of the file",
    "Store: a checkpoint under another name, a warning \"\n    \"and no more",
]
SENTENCES = [
    "EfficientNet, MobileNetV3 and ConvNeXt compute Keras's features",
    "Conv: the gradient of taps that meet only padding is 0",
    "Document renders text line by line, without its pictures, bars and charts",
    "check_images counts photos in several classes",
    "Executable: many calls in flight have their own scalars and numbers",
    "Rendezvous: all others report the reason of a process that fails",
    "new --backbone takes the given backbone, and fails \"\n    \"without its weights",
]
PLAIN = """// Copies a sample. The name of a config key may contain any word: "said" is one.
#include "graph/rows_of.h"
namespace trainer {
// The most rows that one block may have, which
// is no longer a multiple of 16.
constexpr int kMaxRows = 3, kMostly = 1;
int rank_of(const Member& member);
inline int sum(const Table& table) { return rows_of(table) + std::min(1, 2); }
const auto field = R"(tells)";
const char* const kNames[]{"refused", "knows"};
}  // namespace trainer
"""


class CheckWords(unittest.TestCase):
    def check(self, *paths):
        done = subprocess.run([sys.executable, ROOT / "scripts/check_words.py", *paths], capture_output=True, text=True)
        return done.returncode, done.stderr

    def check_source(self, text, name="planted.cpp"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(text)
            code, errors = self.check(folder)
            return code, errors.replace(folder + "/", "")

    def test_each_planted_wording_is_found_at_its_line(self):
        for line, found in PLANTED:
            with self.subTest(line):
                code, errors = self.check_source("#include <vector>\n\n" + line + "\n")
                self.assertEqual(code, 1, errors)
                self.assertIn(f"planted.cpp:3: '{found}': write ", errors)

    def test_a_file_with_all_of_them_reports_all(self):
        code, errors = self.check_source("\n\n".join(line for line, _ in PLANTED) + "\n")
        self.assertEqual(code, 1)
        for _, found in PLANTED:
            self.assertIn(f"'{found}'", errors)

    def test_names_of_tests_without_a_verb_are_found(self):
        for name in NO_SENTENCES:
            with self.subTest(name):
                code, errors = self.check_source(f'#include <vector>\n\nTEST_CASE("{name}") {{\n')
                self.assertEqual(code, 1, errors)
                joined = name.replace('"\n    "', "")
                self.assertIn(f"planted.cpp:3: '{joined}': write a sentence with a verb", errors)

    def test_names_of_tests_with_a_verb_pass(self):
        for name in SENTENCES:
            with self.subTest(name):
                self.assertEqual(self.check_source(f'TEST_CASE("{name}") {{\n'), (0, ""))

    def test_plain_code_passes(self):
        self.assertEqual(self.check_source(PLAIN.replace('R"(tells)"', '"tells"')), (0, ""))

    def test_a_raw_string_is_a_message(self):
        code, errors = self.check_source(PLAIN)
        self.assertEqual(code, 1)
        self.assertIn("planted.cpp:9: 'tells'", errors)

    def test_a_phrase_over_two_comment_lines_is_found(self):
        code, errors = self.check_source("// A folder that is\n// no run.\n")
        self.assertEqual(code, 1)
        self.assertIn("planted.cpp:1: 'is no run'", errors)

    def test_a_comment_behind_a_member_that_begins_with_of_is_found_in_a_header(self):
        text = "struct Step {\n  int samples = 0;  // of this rank\n};\n"
        for name in "planted.h", "planted.cuh", "planted.inl":
            with self.subTest(name):
                code, errors = self.check_source(text, name)
                self.assertEqual(code, 1)
                self.assertIn(f"{name}:2: 'of': write ", errors)
        self.assertEqual(self.check_source(text), (0, ""))
        named = text.replace("// of", "// the samples of") + "// of a comment that stands alone, the rule is another\n"
        self.assertEqual(self.check_source(named, "planted.h"), (0, ""))

    def test_a_kept_word_passes(self):
        self.assertEqual(self.check_source("int words_of(int a);  // words: kept\n"), (0, ""))

    def test_a_path_that_does_not_exist_is_an_error(self):
        self.assertEqual(self.check("/nonexistent")[0], 2)

    def test_this_repository_passes(self):
        self.assertEqual(self.check(), (0, ""))


if __name__ == "__main__":
    unittest.main()
