#!/usr/bin/env python3
"""scripts/check_layers.py must name each kind of violation, and accept the tree as it is."""

import unittest

from checked_tree import ROOT, CheckedTree

TABLE = """
| folder | holds | may include |
| --- | --- | --- |
| base | helpers | - |
| config | reader | base |
| graph | ops | base |
| backend | kernels | base graph |
| train | loop | all but backend/cpu |
"""


class CheckLayers(CheckedTree):
    script = "scripts/check_layers.py"

    def setUp(self):
        super().setUp()
        self.write("lib/README.md", TABLE)
        self.write("lib/base/error.h", "")
        self.write("lib/backend/cpu/conv.h", '#include "graph/op.h"\n#include "dnnl.hpp"\n')
        self.write("lib/graph/op.h", '#include "base/error.h"\n#include <vector>\n')
        self.write("lib/graph/CMakeLists.txt", "trainer_library(graph SOURCES op.cpp\n  DEPENDS base)\n")

    def test_a_good_tree_passes(self):
        self.assertEqual(self.check(), (0, ""))

    def test_this_repository_passes(self):
        self.assertEqual(self.check(ROOT), (0, ""))

    def test_an_include_that_is_not_allowed_is_found(self):
        self.write("lib/graph/print.cpp", '// text\n#include "config/config.h"\n')
        self.fails('lib/graph/print.cpp:2: lib/graph may not include "config/config.h" (may include: base)')

    def test_an_include_of_an_inner_folder_is_found(self):
        self.write("lib/train/loop.cpp", '#include "backend/cpu/conv.h"\n')
        self.fails('lib/train/loop.cpp:1: lib/train may not include "backend/cpu/conv.h"')

    def test_a_public_inner_folder_may_be_included(self):
        self.write("lib/base/threads/team.h", "")
        self.write("lib/base/threads/detail/queue.h", "")
        self.write("lib/graph/op.h", '#include "base/threads/team.h"\n')
        self.fails('lib/graph includes "base/threads/team.h", which is internal to lib/base')
        self.write("lib/README.md", TABLE + "\nPublic inner folders: `base/threads`.\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/base/text/words.h", "")
        self.write("lib/README.md", TABLE + "\nPublic inner folders: `base/text`,\n`base/threads`.\n\nMore: `base/other`.\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/graph/op.h", '#include "base/threads/detail/queue.h"\n')
        self.fails('lib/graph includes "base/threads/detail/queue.h", which is internal to lib/base')
        self.write("lib/README.md", TABLE + "\nPublic inner folders: `base/threads`, `base/files`.\n")
        self.fails("the public inner folder base/files does not exist")

    def test_a_row_of_an_inner_folder_applies_to_it(self):
        rows = "| backend | shared | base |\n| backend/cpu | kernels | base graph backend |\n"
        rows += "| backend/open.cpp backend/load.h | opens one | backend backend/cpu |"
        self.write("lib/README.md", TABLE.replace("| backend | kernels | base graph |", rows))
        self.write("lib/backend/backend.h", '#include "base/error.h"\n')
        self.write("lib/backend/cpu/cpu.cpp", '#include "backend/backend.h"\n#include "backend/cpu/conv.h"\n')
        self.write("lib/backend/load.h", "")
        self.write("lib/backend/open.cpp", '#include "backend/cpu/conv.h"\n#include "backend/load.h"\n')
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/backend/plan.cpp", '#include "backend/cpu/conv.h"\n')
        self.fails('lib/backend/plan.cpp:1: lib/backend may not include "backend/cpu/conv.h" (may include: base)')
        self.write("lib/backend/plan.cpp", "")
        self.write("lib/backend/CMakeLists.txt", "trainer_library(backend SOURCES open.cpp DEPENDS base)\n")
        self.fails("lib/backend/CMakeLists.txt: backend includes graph/ but its DEPENDS does not name it")
        self.write("lib/backend/CMakeLists.txt", "trainer_library(backend SOURCES open.cpp DEPENDS base graph)\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/train/loop.cpp", '#include "backend/load.h"\n')
        self.assertEqual(self.check(), (0, ""))

    def test_rows_need_no_row_around_them(self):
        rows = "| commands/find | finds | base |\n| commands/plan | plans | base commands/find |\n"
        self.write("lib/README.md", TABLE + rows)
        self.write("lib/commands/find/find.h", '#include "base/error.h"\n')
        self.write("lib/commands/plan/plan.h", '#include "commands/find/find.h"\n')
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/commands/find/find.h", '#include "commands/plan/plan.h"\n')
        self.fails('lib/commands/find may not include "commands/plan/plan.h" (may include: base)')
        self.write("lib/commands/find/find.h", "")
        self.write("lib/commands/other/other.h", "")
        self.fails("lib/commands/other: not in the table")

    def test_a_row_without_files_is_found(self):
        self.write("lib/README.md", TABLE + "| graph/rules | none | base |\n")
        self.fails("the row graph/rules has no files")

    def test_a_library_has_the_dependencies_of_its_inner_folders(self):
        self.write("lib/README.md", TABLE + "| commands/find | finds | base |\n| commands/plan | plans | graph |\n")
        self.write("lib/commands/find/find.h", '#include "base/error.h"\n')
        self.write("lib/commands/plan/plan.h", '#include "graph/op.h"\n')
        self.write("lib/commands/CMakeLists.txt", "trainer_library(commands SOURCES plan.cpp DEPENDS graph)\n")
        self.write("lib/commands/find/CMakeLists.txt", "trainer_library(find SOURCES find.cpp DEPENDS base)\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/commands/find/CMakeLists.txt", "trainer_library(find SOURCES find.cpp DEPENDS base graph)\n")
        self.fails("lib/commands/find/CMakeLists.txt: DEPENDS of find names graph")

    def test_a_folder_missing_in_the_table_is_found(self):
        self.write("lib/extra/x.h", "")
        self.fails("lib/extra: not in the table")

    def test_decisions_begin_with_their_folder(self):
        self.write("lib/decisions/graph.md", "# graph: decisions\n\n## Names\n\nReason.\n")
        self.assertEqual(self.check(), (0, ""))
        self.write("lib/decisions/graph.md", "# Names\n")
        self.fails("lib/decisions/graph.md:1: the first line must be '# graph: decisions'")
        self.write("lib/decisions/graph.md", "")
        self.fails("lib/decisions/graph.md:1: the first line must be '# graph: decisions'")

    def test_a_decision_in_an_inner_folder_is_found(self):
        self.write("lib/decisions/graph/names.md", "# graph: decisions\n")
        self.fails("lib/decisions/graph/names.md: decisions are in lib/decisions/<folder>.md")

    def test_a_decision_of_an_unknown_folder_is_found(self):
        self.write("lib/decisions/extra.md", "# extra: decisions\n")
        self.fails("lib/decisions/extra.md: decisions are in lib/decisions/<folder>.md")

    def test_a_row_that_points_forward_is_found(self):
        self.write("lib/README.md", TABLE.replace("| base | helpers | - |", "| base | helpers | graph |"))
        self.fails("base may include graph, which is not a row above it")

    def test_depends_not_allowed(self):
        self.write("lib/graph/CMakeLists.txt", "trainer_library(graph SOURCES op.cpp DEPENDS base config LINK x)\n")
        self.fails("DEPENDS of graph names config")

    def test_depends_forgotten(self):
        self.write("lib/graph/CMakeLists.txt", "trainer_library(graph SOURCES op.cpp)\n")
        self.fails("graph includes base/ but its DEPENDS does not name it")

    def test_a_third_party_header_has_one_owner(self):
        self.write("lib/train/read.cpp", "#include <yaml-cpp/yaml.h>\n")
        self.fails("<yaml-cpp/yaml.h> may only be included in lib/config")


if __name__ == "__main__":
    unittest.main()
