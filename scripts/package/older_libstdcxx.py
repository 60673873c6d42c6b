#!/usr/bin/env python3
"""Binds std::condition_variable::wait() of an ELF file to the version that libstdc++ 3.4.11 has, in place.

    scripts/package/older_libstdcxx.py FILE...

g++ 12 binds it to the version of libstdc++ 3.4.30, which RHEL 9 and Amazon Linux 2023 lack. Both versions do the same
but for the cancellation of threads, which nothing here uses. A file that needs anything else of libstdc++ 3.4.30 or
newer is an error that names the symbol.
"""
import struct
import sys

MOVED = "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"
OLD, NEW = "GLIBCXX_3.4.11", "GLIBCXX_3.4.30"
ALLOWED = 29  # that of manylinux_2_34
DYNSYM, VERSIONS, NEEDED = 11, 0x6FFFFFFF, 0x6FFFFFFE  # types of sections


class Elf:
    """A 64-bit file of little endian."""

    def __init__(self, data):
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("is not an ELF file of 64 bits")
        start, = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * i) for i in range(count)]
        self.sections = {header[1]: header for header in headers}
        self.strings = {kind: headers[header[6]][4] for kind, header in self.sections.items()}

    def text(self, kind, offset):
        begin = self.strings[kind] + offset
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def libstdcxx_versions(self):
        """The place of libstdc++'s record, and (place, name, index) of each version that it needs."""
        record = self.sections[NEEDED][4]
        while True:
            _, _, file, first, following = struct.unpack_from("<HHIII", self.data, record)
            if self.text(NEEDED, file) == "libstdc++.so.6":
                break
            if following == 0:
                return None, []
            record += following
        versions, place = [], record + first
        while True:
            _, _, index, name, following = struct.unpack_from("<IHHII", self.data, place)
            versions.append((place, self.text(NEEDED, name), index))
            if following == 0:
                return record, versions
            place += following

    def symbols_of(self, index):
        """(name, place of its version) of each symbol that needs the version of this index."""
        symbols, versions = self.sections[DYNSYM], self.sections[VERSIONS][4]
        for i in range(symbols[5] // 24):
            if struct.unpack_from("<H", self.data, versions + 2 * i)[0] & 0x7FFF == index:
                yield self.text(DYNSYM, struct.unpack_from("<I", self.data, symbols[4] + 24 * i)[0]), versions + 2 * i


def rebind(elf):
    """Returns whether the file changed."""
    record, versions = elf.libstdcxx_versions()
    indices = {name: index for _, name, index in versions}
    for name, index in indices.items():
        number = name.removeprefix("GLIBCXX_3.4.")
        if number.isdigit() and int(number) > ALLOWED:
            for symbol, _ in elf.symbols_of(index):
                if (name, symbol) != (NEW, MOVED):
                    raise ValueError(f"needs {symbol} of {name}; libstdc++ 3.4.{ALLOWED} has no such symbol")
    if NEW not in indices:
        return False
    for _, place in elf.symbols_of(indices[NEW]):
        struct.pack_into("<H", elf.data, place, indices[OLD])
    # The list of versions leaves this one out: the version before it, or the record, points past it.
    position = next(i for i, (_, name, _) in enumerate(versions) if name == NEW)
    link = versions[position - 1][0] + 12 if position > 0 else record + 8
    step, = struct.unpack_from("<I", elf.data, link)
    following, = struct.unpack_from("<I", elf.data, versions[position][0] + 12)
    struct.pack_into("<I", elf.data, link, step + following if following else 0)
    count, = struct.unpack_from("<H", elf.data, record + 2)
    struct.pack_into("<H", elf.data, record + 2, count - 1)
    return True


def main():
    for file in sys.argv[1:]:
        try:
            with open(file, "rb") as opened:
                elf = Elf(bytearray(opened.read()))
            if rebind(elf):
                with open(file, "wb") as opened:
                    opened.write(elf.data)
        except ValueError as error:
            sys.exit(f"older_libstdcxx.py: {file} {error}")


if __name__ == "__main__":
    main()
