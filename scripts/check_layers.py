#!/usr/bin/env python3
"""Checks lib/ against the dependency tables in lib/README.md.

A row is a folder ("graph"), an inner folder ("backend/cpu") or a list of files ("backend/open.cpp"). A file belongs to
the row with the longest name that leads to it.

Fails on
  - a file of lib/ without a row, a row without files, and a row that may include a row listed after it;
  - an #include "folder/..." that the row of the including file does not allow;
  - an #include of another folder's inner header, unless the inner folder is a row or the paragraph "Public inner
    folders:" names it, and an inner folder of that paragraph that does not exist;
  - a library named in DEPENDS of lib/<folder>/CMakeLists.txt that the rows of the folder do not allow, and one that is
    included but not named there;
  - a third-party header outside the folder that owns the library;
  - a file of lib/decisions/ that is not named <folder>.md after a folder of lib/ in the table, or does not begin with
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
    "utf8proc.h": "data",
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
    """What the files of one row may include: rows by name, and inner folders that they must not touch."""

    def __init__(self, name, cell, earlier):
        words = cell.replace(",", " ").split()
        self.forbidden = set()
        if words[:1] == ["all"]:
            self.allowed = set(earlier)
            if words[1:2] == ["but"]:
                self.forbidden = set(words[2:])
                self.allowed -= self.forbidden
        else:
            self.allowed = set() if words in ([], ["-"]) else set(words)
        self.unknown = self.allowed - set(earlier)
        self.name = name
        self.used = set()  # the rows that its files include, itself left out
        self.has_files = False


class Table:
    """The rows of all tables whose header is | folder | ... | may include |, in order."""

    def __init__(self, readme):
        self.rows, self.places = {}, {}  # by name; by each path that a row lists
        inside = False
        for line in readme.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.lstrip().startswith("|"):
                inside = False
            elif cells[0] == "folder" and cells[-1] == "may include":
                inside = True
            elif inside and not set(cells[0]) <= set("-: "):
                places = cells[0].replace("`", "").replace(",", " ").split()
                row = Row(places[0], cells[-1].replace("`", ""), list(self.rows))
                self.rows[row.name] = row
                self.places.update(dict.fromkeys(places, row))

    def find(self, path):
        """The row of a path below lib/, such as "backend/cpu/conv.h", or None."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):
            if row := self.places.get("/".join(parts[:length])):
                return row
        return None


def read_public(readme):
    """The inner folders whose headers others may include, as "folder/inner"."""
    return {name for line in PUBLIC.findall(readme.read_text()) for name in re.findall(r"\w+/\w+", line)}


def check_include(path, place, header, row, table, public, root, errors):
    """Checks an #include "folder/..." of the file `path`, which belongs to `row`."""
    target = table.find(header)
    if target is row:
        return
    if any(header.startswith(inner + "/") for inner in row.forbidden):
        errors.append(f'{place}: lib/{row.name} may not include "{header}"')
    elif target is None or target.name not in row.allowed:
        allowed = " ".join(sorted(row.allowed)) or "nothing"
        errors.append(f'{place}: lib/{row.name} may not include "{header}" (may include: {allowed})')
    else:
        row.used.add(target.name)
        inner = header.rsplit("/", 1)[0]
        top = header.split("/")[0]
        if (
            top != path.split("/")[0]
            and (root / "lib" / "/".join(header.split("/")[:2])).is_dir()
            and inner not in public
            and inner not in table.rows
        ):
            errors.append(f'{place}: lib/{row.name} includes "{header}", which is internal to lib/{top}')


def check_sources(table, public, root, errors):
    """Checks every file of lib/, and records in each row what it includes."""
    missing = set()
    for file in sorted((root / "lib").rglob("*")):
        path = str(file.relative_to(root / "lib"))
        if "/" not in path or path.startswith("decisions/") or not file.is_file():
            continue
        row = table.find(path)
        if row is None:
            if file.suffix in SOURCES:
                missing.add(path.rsplit("/", 1)[0])
            continue
        row.has_files = True
        if file.suffix not in SOURCES:
            continue
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            place = f"lib/{path}:{text.count(chr(10), 0, match.start(1 if match[1] else 2)) + 1}"
            header = match[1] or match[2]
            owner = OWNERS.get(header.split("/")[0])
            if owner and not path.startswith(owner):
                errors.append(f"{place}: <{header}> may only be included in lib/{owner}")
            if match[1] and "/" in header:
                check_include(path, place, header, row, table, public, root, errors)
    errors.extend(f"lib/{name}: not in the table of lib/README.md" for name in sorted(missing))
    for row in table.rows.values():
        if not row.has_files and (root / "lib" / row.name.split("/")[0]).is_dir():
            errors.append(f"lib/README.md: the row {row.name} has no files")


def check_depends(table, root, errors):
    """Compares DEPENDS of each library with the rows whose files it holds."""
    found = []  # (CMakeLists.txt, folder, library, DEPENDS)
    for cmake in sorted((root / "lib").rglob("CMakeLists.txt")):
        for name, arguments in LIBRARY.findall(re.sub(r"#.*", "", cmake.read_text())):
            words = arguments.split()
            depends = words[words.index("DEPENDS") + 1 :] if "DEPENDS" in words else []
            end = min((depends.index(word) for word in ("SOURCES", "LINK") if word in depends), default=len(depends))
            found.append((cmake, str(cmake.parent.relative_to(root / "lib")), name, set(depends[:end])))
    libraries = {folder: name for _, folder, name, _ in found if folder.split("/")[-1] == name}

    def library(row):
        """The library that holds a row: that of the innermost folder with one."""
        parts = row.split("/")
        folders = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((libraries[folder] for folder in folders if folder in libraries), parts[0])

    known = {library(name) for name in table.rows}
    for cmake, folder, name, depends in found:
        place = cmake.relative_to(root)
        owner = library(folder)
        rows = [row for row in table.rows.values() if library(row.name) == owner]
        allowed = {library(other) for row in rows for other in row.allowed} | {owner}
        for word in sorted((depends & known) - allowed):
            errors.append(f"{place}: DEPENDS of {name} names {word}, which the table does not allow")
        if name == owner:
            for word in sorted({library(other) for row in rows for other in row.used} - depends - {owner}):
                errors.append(f"{place}: {name} includes {word}/ but its DEPENDS does not name it")


def check_decisions(folder, table, root, errors):
    folders = {name.split("/")[0] for name in table.rows}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = path.relative_to(root)
        if path.suffix != ".md" or path.parent != folder or path.stem not in folders:
            errors.append(f"{place}: decisions are in lib/decisions/<folder>.md, with a folder of the table")
        elif path.read_text().splitlines()[:1] != [f"# {path.stem}: decisions"]:
            errors.append(f"{place}:1: the first line must be '# {path.stem}: decisions'")


def check(root):
    readme = root / "lib" / "README.md"
    if not readme.is_file():
        return [f"{readme}: not found"]
    table = Table(readme)
    if not table.rows:
        return [f"{readme}: no table with the columns 'folder' and 'may include'"]
    errors = []
    public = read_public(readme)
    for name in sorted(public):
        if not (root / "lib" / name).is_dir():
            errors.append(f"lib/README.md: the public inner folder {name} does not exist")
    for row in table.rows.values():
        for name in sorted(row.unknown):
            errors.append(f"lib/README.md: {row.name} may include {name}, which is not a row above it")
    check_sources(table, public, root, errors)
    check_depends(table, root, errors)
    check_decisions(root / "lib" / "decisions", table, root, errors)
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
