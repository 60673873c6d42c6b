#!/usr/bin/env python3
"""How many wrong labels `trainer data --suspects` finds: changes some labels at random, and counts those that it lists.

  scripts/campaign/suspects.py IMAGES FOLDER [--share 0.05] [--seed 1] [--trainer PROGRAM] [--set KEY=VALUE]...

IMAGES has a folder per class. Writes a list (CSV) of its files into FOLDER, in which a share of the labels is another
class, drawn with the seed; runs `new`, `crossval` and `data --suspects` on it; and prints precision and recall of the
first 5 % of all files. If cleanlab can be imported (scripts/python_env.sh cleanlab -- scripts/campaign/suspects.py ...)
it also checks that cleanlab finds the same files in the same order from the same probabilities; the exit code is 1 if
it does not. $WEIGHTS_DIR names the weights of a backbone, as for `trainer new`.
"""
import argparse
import csv
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def change_labels(files, share, seed):
    """Returns the label of each file, of which a share is another class than that of its folder."""
    draw = random.Random(seed)
    classes = sorted({file.parent.name for file in files})
    labels = {file: file.parent.name for file in files}
    for file in draw.sample(files, round(share * len(files))):
        labels[file] = draw.choice([name for name in classes if name != labels[file]])
    return labels


def write_list(path, labels):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows([str(image), label] for image, label in labels.items())


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def compare_with_cleanlab(out_of_fold, suspects):
    """Returns whether cleanlab lists the same files in the same order, or None without cleanlab."""
    try:
        import numpy
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    rows = read_rows(out_of_fold)
    classes = [name[2:] for name in rows[0] if name.startswith("p_")]
    labels = numpy.array([classes.index(row["label"]) for row in rows])
    probabilities = numpy.array([[float(row["p_" + name]) for name in classes] for row in rows])
    issues = find_label_issues(labels, probabilities, filter_by="confident_learning",
                               return_indices_ranked_by="normalized_margin")
    theirs = [rows[i]["file"] for i in issues]
    print(f"cleanlab: {len(theirs)} files, {len(set(theirs) & set(suspects))} of them here, "
          f"{'in the same order' if theirs == suspects else 'in another order'}")
    return theirs == suspects


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trainer", default=os.environ.get("TRAINER", ROOT / "build/release/apps/trainer/trainer"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()

    files = sorted(file for file in arguments.images.resolve().glob("*/*") if file.is_file())
    labels = change_labels(files, arguments.share, arguments.seed)
    changed = {str(file) for file in files if labels[file] != file.parent.name}
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_list(folder / "list.csv", labels)

    def trainer(*words):
        subprocess.run([str(arguments.trainer), *map(str, words)], check=True, cwd=folder)

    config = folder.resolve() / "noisy.yaml"
    settings = [word for value in arguments.set for word in ("--set", value)]
    if not config.exists():
        trainer("new", "list.csv", "--output", config)
    trainer("crossval", config, "--dir", "crossval", "--quiet", *settings)
    trainer("data", config, "--suspects", "crossval", "--output", "suspects.csv", "--overwrite", *settings)

    rows = read_rows(folder / "suspects.csv")
    suspects = [row["path"] for row in rows if row["reasons"].startswith("wrong_label")]
    print(f"{len(files)} files, {len(changed)} labels changed at random")
    for count in (round(0.05 * len(files)), len(suspects)):
        first = suspects[:count]
        found = len(changed & set(first))
        print(f"first {len(first)} suspects: {found} of them changed, precision {found / len(first):.3f}, "
              f"recall {found / len(changed):.3f}")
    return 1 if compare_with_cleanlab(folder / "crossval/out_of_fold.csv", suspects) is False else 0


if __name__ == "__main__":
    sys.exit(main())
