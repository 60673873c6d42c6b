#!/usr/bin/env python3
"""Checks that keys of JSON are written and read by the lists of fields in lib/results, and not as literals elsewhere.

    scripts/check_keys.py [ROOT]

Prints a line per finding and fails when there is one. A file of OTHER_FORMATS reads or writes a format that another program
defines; one without such a literal is a finding, too.
"""

import pathlib
import re
import sys

OTHER_FORMATS = {
    "lib/checkpoint/safetensors.cpp": "the header of safetensors",
    "lib/cluster/identity/tf_config.cpp": "TF_CONFIG",
    "lib/commands/launch/launch.cpp": "TF_CONFIG",
    "lib/commands/profile/trace_file.cpp": "Chrome's traces",
    "lib/commands/weights/published.cpp": "config.json of Hugging Face",
    "lib/config/describe/json_schema.cpp": "JSON Schema",
    "lib/config/weight_source.cpp": "config.json of timm and transformers",
    "lib/hooks/kubeflow.cpp": "Kubeflow Trainer's API",
    "lib/hooks/mlflow/api.cpp": "MLflow's REST",
    "lib/hooks/mlflow/sender.cpp": "MLflow's REST",
    "lib/model/files/source_export.cpp": "config.json of timm",
    "lib/results/json_schema.cpp": "JSON Schema",
}
DESCRIBED = "lib/results/"

# A key in brackets, in a call that looks it up, or first in a pair of an initialiser.
KEY = re.compile(
    r'\[\s*"\w+"\s*\]|(?:\.|->)(?:at|find|contains|value)\(\s*"\w+"\s*[,)]|member(?:<[^<>]*>)?\([^()"]*,\s*"\w+"\)'
    r'|\{\{"[a-z]\w*",\s|\{"[a-z]\w*",\s(?!")'
)
# Lists of fields, searches in texts, and rows of tables.
OTHER = re.compile(r"\bv(?:\.when_present|\.derived)?\(|\bnpos\b|\.add\(\{|^\s*//")


def find_keys(text):
    """Yields the lines that have a key, of a source that uses the JSON library."""
    if "nlohmann" not in text and "Json" not in text:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if KEY.search(line) and not OTHER.search(line):
            yield number


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    findings, used = [], set()
    for path in sorted(path for top in ("apps", "lib") for path in (root / top).rglob("*") if path.suffix in (".cpp", ".h")):
        name = path.relative_to(root).as_posix()
        lines = list(find_keys(path.read_text()))
        if lines:
            used.add(name)
        if name not in OTHER_FORMATS and not name.startswith(DESCRIBED):
            findings += [f"{name}:{number}: a key of JSON outside of lib/results" for number in lines]
    findings += [f"{name}: has no key of JSON; remove it from the list of check_keys.py"
                 for name in sorted(OTHER_FORMATS) if name not in used]
    print("\n".join(findings), file=sys.stderr, end="\n" if findings else "")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
