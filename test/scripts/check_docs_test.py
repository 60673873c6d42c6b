#!/usr/bin/env python3
"""scripts/check_docs.py must name each kind of mistake, and accept the tree as it is."""

import unittest

from checked_tree import ROOT, CheckedTree


class CheckDocs(CheckedTree):
    script = "scripts/check_docs.py"

    def setUp(self):
        super().setUp()
        self.write("README.md", "# A\n\n[guide](configs/guide.md), [part](configs/guide.md#a-part), [here](#a)\n")
        self.write("configs/guide.md", "# Guide\n\n## A part\n\nRun `scripts/run.sh`:\n\n    scripts/run.sh x\n")
        self.write("scripts/run.sh", "")
        self.write("lib/decisions/base.md", "# base\n\n## One sum\n\nReason.\n")
        self.write("lib/base/sum.cpp", "// lib/decisions/base.md#one-sum gives the reason.\n")

    def test_a_good_tree_passes(self):
        self.assertEqual(self.check(), (0, ""))

    def test_this_repository_passes(self):
        self.assertEqual(self.check(ROOT), (0, ""))

    def test_a_missing_file_is_found(self):
        self.write("configs/guide.md", "# Guide\n\n## A part\n\n![picture](loss.svg)\n")
        self.fails("configs/guide.md:5: loss.svg: loss.svg does not exist")

    def test_a_link_out_of_the_tree_is_found(self):
        self.write("configs/guide.md", "# Guide\n\n## A part\n\n[host](../../../etc/passwd)\n")
        self.fails("configs/guide.md:5: ../../../etc/passwd: ../../../etc/passwd does not exist")

    def test_a_missing_anchor_is_found(self):
        self.write("configs/guide.md", "# Guide\n\n```\n## A part\n```\n")
        self.fails("README.md:3: configs/guide.md#a-part: configs/guide.md has no heading #a-part")

    def test_a_missing_anchor_of_the_same_file_is_found(self):
        self.write("configs/guide.md", "# Guide\n\n## A part\n\n[top](#guid)\n")
        self.fails("configs/guide.md:5: guide.md#guid: guide.md has no heading #guid")

    def test_link_in_a_code_block_is_text(self):
        self.write("configs/guide.md", "# Guide\n\n## A part\n\n    freeze[:-4](x)\n\n`[a](b)`\n")
        self.assertEqual(self.check(), (0, ""))

    def test_a_path_in_code_is_checked(self):
        self.write("scripts/README.md", "Run `scripts/gone.sh`.\n")
        self.fails("scripts/README.md:1: scripts/gone.sh does not exist")
        self.write("scripts/README.md", "Run:\n\n    X=1 scripts/gone.sh\n")
        self.fails("scripts/README.md:3: scripts/gone.sh does not exist")

    def test_a_decision_that_the_code_links_to_exists(self):
        self.write("lib/base/sum.cpp", "// lib/decisions/base.md#one-sum, lib/decisions/base.md#two-sums\n")
        self.fails("lib/base/sum.cpp:1: lib/decisions/base.md#two-sums: lib/decisions/base.md has no heading #two-sums")

    def test_a_decision_without_a_link_is_found(self):
        self.write("lib/base/sum.cpp", "")
        self.fails("lib/decisions/base.md: no file of lib/ links to #one-sum")

    def test_the_files_of_a_walk_are_counted(self):
        self.write("lib/README.md", "**A sum** (1 files; 3 before)\n1. `base/sum.cpp`: all of it.\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/README.md", "**A sum** (2 files; 3 before)\n1. `base/sum.cpp`: all of it.\n")
        self.fails("lib/README.md: A sum: 1 files in the list, 2 in its title")
        self.write("lib/README.md", "**A sum** (1 files; 3 before)\n1. `base/gone.cpp`: all of it.\n")
        self.fails("lib/README.md:2: base/gone.cpp does not exist")
        self.write("lib/README.md", "**A sum** (13 files; 30 before)\n" + "1. `base/sum.cpp`: all of it.\n" * 13)
        self.fails("lib/README.md: A sum: 13 files; at most 12")

    def test_a_long_readme_is_found(self):
        self.write("README.md", "text\n" * 120)
        self.assertEqual(self.check(), (0, ""))
        self.write("README.md", "text\n" * 121)
        self.fails("README.md: 121 lines; at most 120")


if __name__ == "__main__":
    unittest.main()
