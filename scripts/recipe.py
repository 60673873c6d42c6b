#!/usr/bin/env python3
"""Lists the files of lib/ that name something that was added once: what adding another of its kind touches.

    scripts/recipe.py                 an example of each row of the table "To add something" in lib/README.md
    scripts/recipe.py WORD...         the files that name one of the words
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cpp", ".inl", ".proto"}

# By the row's first words: an existing example, as the identifiers that stand for it, and where they count. A config
# key may be read anywhere, so that only the files that declare and check it are fixed.
EXAMPLES = {
    "layer": (["SeparableConvLayer"], "lib"),
    "op": (["GlobalPool"], "lib"),
    "data format": (["kNpz"], "lib"),
    "optimizer": (["RmsProp", "RmsPropRule", "rms_prop"], "lib"),
    "hook": (["make_early_stop_hook"], "lib"),
    "config key": (["label_smoothing"], "lib/config"),
}


def files_naming(words, folder="lib", root=ROOT):
    """Paths below lib/ of the sources that name one of the words as a whole."""
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b")
    return sorted(
        path.relative_to(root / "lib").as_posix()
        for path in (root / folder).rglob("*")
        if path.suffix in SOURCES and pattern.search(path.read_text(errors="replace"))
    )


def main():
    if len(sys.argv) > 1:
        print(*files_naming(sys.argv[1:]), sep="\n")
        return
    for kind, (words, folder) in EXAMPLES.items():
        files = files_naming(words, folder)
        print(f"{kind}, as {words[0]}: {len(files)} files", *files, sep="\n  ")


if __name__ == "__main__":
    main()
