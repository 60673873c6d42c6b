#!/usr/bin/env python3
"""Plants mistakes in lib/, one at a time, and looks whether the tests of the folder, or of a folder on top of it, notice.

    scripts/mutate.py [--count 30] [--seed 1] [--folders base cluster ...] [--least 90] [--all-tests] [--list]

With --all-tests, whatever these two leave is tried by the whole fast suite, which costs one or two minutes a mutant.

Some mutants tests are not meant to notice: they compute the same, or differ only in speed. scripts/mutants_unseen.tsv names them
with the reason; they are planted as any other and do not count when they survive.

Works in a copy of the repository's HEAD (build/mutants), where the tests of each folder are built once; a mutant then costs one
object, one link and one run. Prints every mutant with killed, SURVIVED, unseen or stillborn (it does not compile, and
does not count), then the score and the survivors as a diff. The draw depends on nothing but the seed and the sources. Ends with
1 when less than --least percent were killed.
"""
import argparse
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Folders whose tests run without a device, data or other programs, in about a minute.
FOLDERS = ["base", "checkpoint", "cluster", "compile", "config", "data", "graph", "hooks", "optim"]
# Whose tests look at a folder through its use, where its own see nothing: a rule of an optimizer in training.
USERS = {"base": "data", "checkpoint": "train", "cluster": "engine", "compile": "engine", "config": "model", "data": "train",
         "graph": "model", "hooks": "train", "optim": "train"}
# What is replaced, in code alone: not in comments, texts, includes or templates' brackets.
RULES = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ 1\b", ""), (r" - 1\b", ""), (r" \+ ", " - "), (r" \* ", " + "),
    (r"\bstd::min\b", "std::max"), (r"\bstd::max\b", "std::min"), (r"\breturn true;", "return false;"),
    (r"\breturn false;", "return true;"), (r"\+\+(\w+);", r";"), (r"if \(!", "if ("), (r"\bcontinue;", "break;"),
    (r" \+= ", " -= "), (r"\bthrow \w+Error\b.*;$", ";"),
]

BUILD = os.path.join("build", "release")  # in the copy
UNSEEN = os.path.join("scripts", "mutants_unseen.tsv")
TIMEOUT = "timeout"
PASSED = (0, 77)  # 77: what cannot run here is skipped


def sites(root, folder):
    """Every place where a rule applies: file, line, column, rule."""
    found = []
    for parent, _, names in sorted(os.walk(os.path.join(root, "lib", folder))):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(parent, name), root)
            if not name.endswith(".cpp") or "/cuda/" in path:
                continue
            with open(os.path.join(root, path)) as file:
                lines = file.read().split("\n")
            for number, line in enumerate(lines):
                code = re.sub(r'"(\\.|[^"\\])*"', lambda match: '"' + "_" * (len(match.group()) - 2) + '"', line).split("//")[0]
                if code.lstrip().startswith(("#", "template", "static_assert", "*")):
                    continue
                for rule, (pattern, _) in enumerate(RULES):
                    found += [(path, number, match.start(), rule) for match in re.finditer(pattern, code)]
    return found


def drawn(root, arguments):
    draw = random.Random(arguments.seed)
    everything = {folder: sites(root, folder) for folder in arguments.folders}
    return [draw.choice(everything[folder]) for folder in (draw.choice(arguments.folders) for _ in range(arguments.count))]


def planted(line, column, rule):
    pattern, to = RULES[rule]
    return line[:column] + re.sub(pattern, to, line[column:], count=1)


def unseen_mutants(root):
    """{(file, line, line of the mutant): why no test can notice it}. Ends the program where a line is not in its file exactly once."""
    reasons = {}
    with open(os.path.join(root, UNSEEN)) as rows:
        for number, row in enumerate(rows.read().splitlines(), 1):
            if not row or row.startswith("#"):
                continue
            path, line, mutant, why = row.split("\t")
            full = os.path.join(root, path)
            lines = open(full).read().split("\n") if os.path.isfile(full) else []
            if [text.strip() for text in lines].count(line) != 1:
                sys.exit(f"{UNSEEN}:{number}: {path} has no such line, or several: {line}")
            reasons[path, line, mutant] = why
    return reasons


def run(command, where, seconds, environment=None):
    try:
        return subprocess.run(command, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds,
                              env=environment).returncode
    except subprocess.TimeoutExpired:
        return TIMEOUT


def notice(copy, folder):
    """Whether the folder's tests hang, or fail twice: a loaded machine may fail them once."""
    test = [f"{BUILD}/test/{folder}/test_{folder}", "--abort-after=1"]
    code = run(test, copy, 300)
    return code == TIMEOUT or code not in PASSED and run(test, copy, 300) not in PASSED


def notice_by_all(copy):
    """The same of the whole fast suite."""
    test = ["ctest", "--preset", "fast", "--stop-on-failure"]
    code = run(test, copy, 900)
    return code == TIMEOUT or code != 0 and run([*test, "--rerun-failed"], copy, 900) != 0


def judged(copy, folders, environment, all_tests):
    for folder in folders:
        if run(["ninja", "-C", BUILD, f"test_{folder}"], copy, 900, environment) != 0:
            return "stillborn"
        if notice(copy, folder):
            return "killed"
    if all_tests and (run(["ninja", "-C", BUILD], copy, 900, environment) != 0 or notice_by_all(copy)):
        return "killed"
    return "SURVIVED"


def make_copy():
    """(folder, environment of builds) of a copy of HEAD that keeps what is built in it."""
    copy = os.path.join(ROOT, "build", "mutants")
    if not os.path.isdir(copy):
        subprocess.run(["git", "worktree", "add", "--detach", copy, "HEAD"], cwd=ROOT, check=True, capture_output=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, text=True, capture_output=True).stdout.strip()
    subprocess.run(["git", "checkout", "--detach", "-f", head], cwd=copy, check=True, capture_output=True)
    return copy, dict(os.environ, CCACHE_BASEDIR=copy, CCACHE_NOHASHDIR="1")


def build_tests(copy, folders, arguments, environment):
    """Builds the tests in the copy. Ends the program where one fails without a mutant."""
    if not os.path.isfile(os.path.join(copy, BUILD, "build.ninja")):
        subprocess.run(["cmake", "--preset", "release", "-DTRAINER_TESTS=ON", "-DTRAINER_WERROR=ON",
                        "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"], cwd=copy, check=True, capture_output=True)
    targets = [] if arguments.all_tests else [f"test_{folder}" for folder in folders]
    subprocess.run(["ninja", "--quiet", "-C", BUILD, *targets], cwd=copy, check=True, env=environment)
    for folder in folders:
        if notice(copy, folder):
            sys.exit(f"the tests of {folder} fail without a mutant")
    if arguments.all_tests and notice_by_all(copy):
        sys.exit("the fast suite fails without a mutant")


def try_mutant(copy, mutant, unseen, environment, all_tests):
    """(what became of it, the line before, the line of the mutant, why no test can notice it or None)"""
    path, number, column, rule = mutant
    folder, full = path.split("/")[1], os.path.join(copy, path)
    with open(full) as file:
        whole = file.read()
    lines = whole.split("\n")
    before = lines[number]
    lines[number] = planted(before, column, rule)
    why = unseen.get((path, before.strip(), lines[number].strip()))
    try:
        with open(full, "w") as file:
            file.write("\n".join(lines))
        fate = judged(copy, (folder, USERS[folder]), environment, all_tests and why is None)
    finally:
        with open(full, "w") as file:
            file.write(whole)
    return "unseen" if fate == "SURVIVED" and why is not None else fate, before.strip(), lines[number].strip(), why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folders", nargs="+", default=FOLDERS, choices=FOLDERS)
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--all-tests", action="store_true", help="try what the folder's tests leave by the whole fast suite")
    parser.add_argument("--list", action="store_true", help="only say which mutants there would be")
    arguments = parser.parse_args()
    if arguments.list:
        for path, number, _, rule in drawn(ROOT, arguments):
            print(f"{path}:{number + 1}: {RULES[rule][0]!r} -> {RULES[rule][1]!r}")
        return 0

    copy, environment = make_copy()
    unseen = unseen_mutants(copy)
    mutants = drawn(copy, arguments)
    folders = {path.split("/")[1] for path, *_ in mutants}
    build_tests(copy, sorted(folders | {USERS[folder] for folder in folders}), arguments, environment)
    counts, survivors = {"killed": 0, "SURVIVED": 0, "unseen": 0, "stillborn": 0}, []
    for mutant in mutants:
        fate, before, after, why = try_mutant(copy, mutant, unseen, environment, arguments.all_tests)
        place = f"{mutant[0]}:{mutant[1] + 1}"
        counts[fate] += 1
        if fate == "SURVIVED":
            survivors.append(f"{place}\n  - {before}\n  + {after}")
        print(f"{fate:9} {place}: {after}" + (f"  ({why})" if fate == "unseen" else ""), flush=True)
    born = counts["killed"] + counts["SURVIVED"]
    print(f"\n{counts['killed']} of {born} killed ({100 * counts['killed'] / max(born, 1):.0f} %), "
          f"{counts['unseen']} that no test can notice, {counts['stillborn']} stillborn")
    print("\n".join(survivors))
    return 1 if counts["killed"] < arguments.least / 100 * born else 0


if __name__ == "__main__":
    sys.exit(main())
