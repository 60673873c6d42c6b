#!/usr/bin/env python3
"""scripts/check_keys.py must find each form of a key of JSON outside of lib/results, and accept the tree as it is."""

import importlib.util
import unittest

from checked_tree import ROOT, CheckedTree

spec = importlib.util.spec_from_file_location("check_keys", ROOT / "scripts/check_keys.py")
check_keys = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_keys)

HEADER = "#include <nlohmann/json.hpp>\n"
KEYS = [
    'json["loss"] = 1;', 'json.at("loss");', 'json->find("loss");', 'if (json.contains("loss")) {', 'json.value("loss", 0);',
    'member(json, "loss");', 'read_member<double>(json, "loss");', 'Json json{{"event", "done"}};', '{"loss", metrics.loss},',
]
OTHERS = [
    'v("loss", metrics.loss, kShare, "Mean loss.");', 'v.when_present("loss", metrics.loss, {"share", 0}, "Mean loss.");',
    'if (text.find("loss") != std::string::npos) {', 'table.add({"loss", text});', '// json["loss"]', '{"jpg", "jpeg"}',
]


class CheckKeys(CheckedTree):
    script = "scripts/check_keys.py"

    def setUp(self):
        super().setUp()
        for name in check_keys.OTHER_FORMATS:
            self.write(name, HEADER + KEYS[0])

    def test_this_repository_passes(self):
        self.assertEqual(self.check(ROOT), (0, ""))

    def test_each_form_of_a_key_is_found(self):
        self.write("lib/commands/other.cpp", HEADER + "\n".join(KEYS))
        found = "".join(f"lib/commands/other.cpp:{2 + i}: a key of JSON outside of lib/results\n" for i in range(len(KEYS)))
        self.assertEqual(self.check(), (1, found))

    def test_lists_of_fields_and_texts_pass(self):
        self.write("lib/commands/other.cpp", HEADER + "\n".join(OTHERS))
        self.assertEqual(self.check(), (0, ""))

    def test_lib_results_and_sources_without_json_pass(self):
        self.write("lib/results/other.cpp", HEADER + "\n".join(KEYS))
        self.write("lib/commands/other.cpp", "\n".join(KEYS[:5]))
        self.assertEqual(self.check(), (0, ""))

    def test_a_listed_file_without_a_key_is_found(self):
        name = sorted(check_keys.OTHER_FORMATS)[0]
        self.write(name, HEADER)
        self.fails(f"{name}: has no key of JSON")


if __name__ == "__main__":
    unittest.main()
