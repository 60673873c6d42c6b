#!/usr/bin/env python3
"""Checks the documents and the places that link to them.

Fails on
  - a relative link in a *.md file whose target or anchor does not exist;
  - a path below apps/, configs/, lib/, scripts/ or test/ that a *.md file names in code and that does not exist;
  - a link of the code to lib/decisions/ whose file or heading does not exist, and a heading of lib/decisions/ that no
    file of the code links to;
  - a walk-through of lib/README.md, "(N files; M before)" and a numbered list, with another number of files, more than
    12 of them, or a file that does not exist;
  - a README.md of more than 120 lines.

    scripts/check_docs.py [ROOT]
"""

import pathlib
import re
import sys

MAX_README_LINES = 120
MAX_WALK_FILES = 12
FOLDERS = "apps|configs|lib|scripts|test"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
NAMED_PATH = re.compile(rf"(?<![\w/.$}}-])(?:{FOLDERS})/[\w./-]*\w/?")
DECISION = re.compile(r"lib/decisions/[\w/]+\.md(?:#[\w-]+)?")
WALK = re.compile(r"^\*\*(.*?)\*\* \((\d+) files; \d+ before\)$")
STEP = re.compile(r"^\d+\. `([^`]+)`")
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inl", ".txt"}
IGNORED = {".git", "build", "runs", ".venv", "gpu_check"}


def find_documents(root):
    """All *.md files of the tree, hidden folders included, without build outputs."""
    found = (path for path in root.rglob("*.md") if not IGNORED & set(path.relative_to(root).parts[:-1]))
    return sorted(found)


def split_code(text):
    """The prose of a document, and its code blocks, each line for line with blank lines in place of the other."""
    prose, code, fenced = [], [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        block = fenced or fence or line.startswith("    ")
        prose.append("" if block else line)
        code.append(line if block else "")
    return prose, code


def anchor(heading):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def read_anchors(path):
    prose, _ = split_code(path.read_text())
    return {anchor(line.lstrip("#")) for line in prose if line.startswith("#")}


def check_target(base, target, place, root, errors):
    name, _, fragment = target.partition("#")
    path = (base / name).resolve() if name else None
    if path is None or not path.exists() or root not in (path, *path.parents):
        errors.append(f"{place}: {target}: {name} does not exist")
    elif fragment and (path.suffix != ".md" or fragment not in read_anchors(path)):
        errors.append(f"{place}: {target}: {name} has no heading #{fragment}")


def check_document(path, root, errors):
    prose, code = split_code(path.read_text())
    name = path.relative_to(root)
    for number, line in enumerate(prose, 1):
        for target in LINK.findall(CODE_SPAN.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            base, link = (path.parent, target) if target[0] != "#" else (path.parent, path.name + target)
            check_target(base, link, f"{name}:{number}", root, errors)
    for number, (text, block) in enumerate(zip(prose, code), 1):
        for span in [*CODE_SPAN.findall(text), block]:
            for named in NAMED_PATH.findall(span):
                if not any((base / named).exists() for base in (root, path.parent)):
                    errors.append(f"{name}:{number}: {named} does not exist")


def check_decisions(root, errors):
    used = set()
    for path in sorted((root / "lib").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        text = path.read_text()
        for match in DECISION.finditer(text):
            used.add(match[0])
            place = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
            check_target(root, match[0], place, root, errors)
    for path in sorted((root / "lib" / "decisions").glob("*.md")):
        name = path.relative_to(root)
        for line in path.read_text().splitlines():
            if line.startswith("## ") and f"{name}#{anchor(line[3:])}" not in used:
                errors.append(f"{name}: no file of lib/ links to #{anchor(line[3:])}")


def check_walks(root, errors):
    """The walk-throughs of lib/README.md: a heading in bold with the number of files, then one file per line."""
    readme = root / "lib" / "README.md"
    walks = []
    for number, line in enumerate(readme.read_text().splitlines() if readme.is_file() else [], 1):
        if match := WALK.match(line):
            walks.append((match[1], int(match[2]), []))
        elif walks and (match := STEP.match(line)):
            walks[-1][2].append(match[1])
            if not (root / "lib" / match[1]).is_file():
                errors.append(f"lib/README.md:{number}: {match[1]} does not exist")
    for title, stated, files in walks:
        if len(files) != stated:
            errors.append(f"lib/README.md: {title}: {len(files)} files in the list, {stated} in its title")
        if len(files) > MAX_WALK_FILES:
            errors.append(f"lib/README.md: {title}: {len(files)} files; at most {MAX_WALK_FILES}")


def check(root):
    errors = []
    for path in find_documents(root):
        check_document(path, root, errors)
    check_decisions(root, errors)
    check_walks(root, errors)
    readme = root / "README.md"
    lines = len(readme.read_text().splitlines()) if readme.is_file() else 0
    if lines > MAX_README_LINES:
        errors.append(f"README.md: {lines} lines; at most {MAX_README_LINES}: move details to a guide in configs/")
    return errors


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    errors = check(root)
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        print(f"check_docs: {len(errors)} errors", file=sys.stderr)
        return 1
    print("check_docs: every link of the documents and to the decisions exists")
    return 0


if __name__ == "__main__":
    sys.exit(main())
