"""A test case of a script that checks a source tree: a tree to write files into, and what the script reports about it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckedTree(unittest.TestCase):
    script = ""  # relative to the repository

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, root=None):
        """(exit code, errors) of the script for the tree, or for `root`."""
        done = subprocess.run([sys.executable, ROOT / self.script, root or self.root], capture_output=True, text=True)
        return done.returncode, done.stderr

    def fails(self, message):
        code, text = self.check()
        self.assertEqual(code, 1, text)
        self.assertIn(message, text)
