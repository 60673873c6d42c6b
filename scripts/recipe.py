#!/usr/bin/env python3
"""Lists the files that name something that was added once: what adding another of its kind touches.

    scripts/recipe.py                 an example of each row of the table "To add something" in lib/README.md
    scripts/recipe.py PATTERN...      the files of lib/ that name one of the words (regular expressions)
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cpp", ".inl", ".cu", ".cuh", ".proto"}
EXPECTED = {".txt", ".py", ".json"}  # of test/: lists of sources, expected texts, cases

# By the row's first words: an existing example, as patterns for the words that stand for it (identifiers, and the names
# of its own files, which a CMakeLists.txt lists), and where they count. A config key may be read anywhere, so that only
# the files that declare and check it are fixed. An op is also used by layers, whose files are those of the row "layer".
EXAMPLES = {
    "layer": (["SpatialDropoutLayer"], "lib"),
    "op": (["UpSample(Backward|Shape|Kernels)?", r"up_sample\w*"], "lib"),
    "fused op": (["DepthwiseChain(Kernels)?", "fuse_depthwise_chains", r"depthwise_chain\w*"], "lib"),
    "data format": (["kNpz", r"npz\.cpp"], "lib"),
    "optimizer": (["k?RmsProp", "RmsPropRule", "rms_prop", "RMS_PROP"], "lib"),
    "hook": (["make_early_stop_hook", r"early_stop\.cpp"], "lib"),
    "config key": (["label_smoothing"], "lib/config"),
}
USES = {"op": {"model/layers.cpp"}}  # files of other rows that name the example, in lib


def files_naming(patterns, folder="lib", root=ROOT, suffixes=frozenset(SOURCES)):
    """Paths, relative to the first folder of `folder`, of the sources and CMakeLists.txt that have one of the words."""
    word = re.compile(r"\b(?:" + "|".join(patterns) + r")\b")
    return sorted(
        path.relative_to(root / folder.split("/")[0]).as_posix()
        for path in (root / folder).rglob("*")
        if (path.suffix in suffixes or path.name == "CMakeLists.txt") and word.search(path.read_text(errors="replace"))
    )


def find_files(kind, root=ROOT):
    """The files of lib/ that adding another one of this kind touches."""
    patterns, folder = EXAMPLES[kind]
    return [path for path in files_naming(patterns, folder, root) if path not in USES.get(kind, ())]


def print_files(title, files):
    print(f"{title}: {len(files)} files", *files, sep="\n  ")


def main():
    if len(sys.argv) > 1:
        print(*files_naming(sys.argv[1:]), sep="\n")
        return
    for kind, (patterns, folder) in EXAMPLES.items():
        print_files(f"{kind}, as {patterns[0]}, in {folder}", find_files(kind))
        if folder == "lib":
            print_files("  in test", files_naming(patterns, "test", suffixes=SOURCES | EXPECTED))


if __name__ == "__main__":
    main()
