#!/usr/bin/env python3
"""Checks lib/ against the dependency table in lib/README.md.

Fails on
  - a folder of lib/ that the table does not have, and a row that may include a folder listed after it;
  - an #include "folder/..." that the row of the including folder does not allow;
  - an #include of another folder's inner header, unless the paragraph "Public inner folders:" names the inner
    folder, and an inner folder of that paragraph that does not exist;
  - a folder named in DEPENDS of lib/<folder>/CMakeLists.txt that the row does not allow, and one that is
    included but not named there;
  - a third-party header outside the folder that owns the library;
  - a file of lib/decisions/ that is not named <folder>.md after a folder of the table, or does not begin with
    "# <folder>: decisions".

    scripts/check_layers.py [ROOT]
"""

import pathlib
import re
import sys

# Third-party headers, by their first path component, and the only place in lib/ that may include them.
OWNERS = {
    "yaml-cpp": "config",
    "re2": "data",
    "dnnl.hpp": "backend/cpu",
    "dnnl.h": "backend/cpu",
    "oneapi": "backend/cpu",
    "grpc": "server",
    "grpcpp": "server",
    "google": "server",
    "CLI": "(none: only apps/ reads the command line)",
}
SOURCES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
PUBLIC = re.compile(r"^Public inner folders:(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
LIBRARY = re.compile(r"^\s*trainer_library\(\s*(\w+)([^)]*)\)", re.MULTILINE)


class Row:
    """What one folder may include: folders by name, and inner folders that it must not touch."""

    def __init__(self, folder, cell, earlier):
        words = cell.replace(",", " ").split()
        self.forbidden = set()
        if words[:1] == ["all"]:
            self.allowed = set(earlier)
            if words[1:2] == ["but"]:
                self.forbidden = set(words[2:])
        else:
            self.allowed = set() if words in ([], ["-"]) else set(words)
        self.unknown = self.allowed - set(earlier)
        self.folder = folder


def read_table(readme):
    """Rows of the table whose header is | folder | ... | may include |, in order."""
    rows, inside = {}, False
    for line in readme.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|"):
            inside = False
        elif cells[0] == "folder" and cells[-1] == "may include":
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            name = cells[0].strip("`")
            rows[name] = Row(name, cells[-1].replace("`", ""), list(rows))
    return rows


def read_public(readme):
    """The inner folders whose headers others may include, as "folder/inner"."""
    return {name for line in PUBLIC.findall(readme.read_text()) for name in re.findall(r"\w+/\w+", line)}


def check_sources(folder, row, public, root, errors):
    """Returns the other folders that this one includes."""
    used = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SOURCES:
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            place = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start(1 if match[1] else 2)) + 1}"
            header = match[1] or match[2]
            top = header.split("/")[0]
            owner = OWNERS.get(top)
            if owner and not str(path.relative_to(root / "lib")).startswith(owner):
                errors.append(f"{place}: <{header}> may only be included in lib/{owner}")
            if not match[1] or "/" not in header:
                continue
            if any(header.startswith(inner + "/") for inner in row.forbidden):
                errors.append(f'{place}: lib/{folder.name} may not include "{header}"')
            elif top != folder.name and top not in row.allowed:
                allowed = " ".join(sorted(row.allowed)) or "nothing"
                errors.append(f'{place}: lib/{folder.name} may not include "{header}" (may include: {allowed})')
            elif top != folder.name:
                used.add(top)
                inner = "/".join(header.split("/")[:2])
                if (root / "lib" / inner).is_dir() and header.rsplit("/", 1)[0] not in public:
                    errors.append(f'{place}: lib/{folder.name} includes "{header}", which is internal to lib/{top}')
    return used


def check_depends(folder, row, used, folders, errors, root):
    for cmake in sorted(folder.rglob("CMakeLists.txt")):
        place = cmake.relative_to(root)
        libraries = LIBRARY.findall(re.sub(r"#.*", "", cmake.read_text()))
        for name, arguments in libraries:
            words = arguments.split()
            depends = set()
            if "DEPENDS" in words:
                for word in words[words.index("DEPENDS") + 1 :]:
                    if word in ("SOURCES", "LINK"):
                        break
                    depends.add(word)
            for word in sorted((depends & folders) - row.allowed - {folder.name}):
                errors.append(f"{place}: DEPENDS of {name} names {word}, which the table does not allow")
            if name == folder.name:
                for word in sorted(used - depends):
                    errors.append(f"{place}: {name} includes {word}/ but its DEPENDS does not name it")


def check_decisions(folder, rows, root, errors):
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = path.relative_to(root)
        if path.suffix != ".md" or path.parent != folder or path.stem not in rows:
            errors.append(f"{place}: decisions are in lib/decisions/<folder>.md, with a folder of the table")
        elif path.read_text().splitlines()[:1] != [f"# {path.stem}: decisions"]:
            errors.append(f"{place}:1: the first line must be '# {path.stem}: decisions'")


def check(root):
    readme = root / "lib" / "README.md"
    if not readme.is_file():
        return [f"{readme}: not found"]
    rows = read_table(readme)
    if not rows:
        return [f"{readme}: no table with the columns 'folder' and 'may include'"]
    errors = []
    public = read_public(readme)
    for name in sorted(public):
        if not (root / "lib" / name).is_dir():
            errors.append(f"lib/README.md: the public inner folder {name} does not exist")
    for row in rows.values():
        for name in sorted(row.unknown):
            errors.append(f"lib/README.md: {row.folder} may include {name}, which is not a row above it")
    for folder in sorted(path for path in (root / "lib").iterdir() if path.is_dir()):
        if not any(path.is_file() for path in folder.rglob("*")):
            continue
        if folder.name == "decisions":
            check_decisions(folder, rows, root, errors)
            continue
        if folder.name not in rows:
            errors.append(f"lib/{folder.name}: not in the table of lib/README.md")
            continue
        used = check_sources(folder, rows[folder.name], public, root, errors)
        check_depends(folder, rows[folder.name], used, set(rows), errors, root)
    return errors


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    errors = check(root)
    for error in errors:
        print(error, file=sys.stderr)
    if errors:
        print(f"check_layers: {len(errors)} violations of the table in lib/README.md", file=sys.stderr)
        return 1
    print("check_layers: lib/ agrees with the table in lib/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
