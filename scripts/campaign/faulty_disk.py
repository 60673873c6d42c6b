#!/usr/bin/env python3
"""A file system in user space (FUSE) that shows a folder and fails at chosen calls.

    scripts/campaign/faulty_disk.py FOLDER MOUNT [--operation write] [--path TEXT] [--at N] [--times M] [--error EIO | --seconds 20 | --die] [--log FILE]

The calls of --operation on paths that contain TEXT are counted from 1. From the Nth on, M calls (0: all) end with the
error, or take so many seconds longer; with --die the file system ends at the Nth, as a server that crashes. --log gets a
line per counted call. Runs until MOUNT is unmounted. Needs root, /dev/fuse and Debian's python3-fusepy.
"""
import argparse
import errno
import os
import time

from fusepy import FUSE, FuseOSError, Operations


class FaultyDisk(Operations):
    def __init__(self, folder, options):
        self.folder, self.options, self.count = os.path.realpath(folder), options, 0
        self.log = open(options.log, "w", buffering=1) if options.log else None

    def __call__(self, operation, path, *arguments):
        self.fail_in_turn(operation, path)
        return getattr(self, operation)(self.folder + path, *arguments)

    def fail_in_turn(self, operation, path):
        options = self.options
        if operation not in options.operation or options.path not in path:
            return
        self.count += 1
        if self.log:
            self.log.write(f"{operation} {path}\n")
        if self.count < options.at or (options.times and self.count >= options.at + options.times):
            return
        if options.die:
            os._exit(1)
        if options.seconds:
            time.sleep(options.seconds)
        else:
            raise FuseOSError(getattr(errno, options.error))

    # `path` is in the folder from here on. Errors of os are errors of the call.

    def access(self, path, mode):
        if not os.access(path, mode):
            raise FuseOSError(errno.EACCES)

    def getattr(self, path, fh=None):
        state = os.lstat(path)
        names = "st_atime st_ctime st_gid st_ino st_mode st_mtime st_nlink st_size st_uid st_blocks".split()
        return {name: getattr(state, name) for name in names}

    def statfs(self, path):
        state = os.statvfs(path)
        return {name: getattr(state, name) for name in "f_bavail f_bfree f_blocks f_bsize f_files f_ffree f_frsize f_namemax".split()}

    def create(self, path, mode, fi=None):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    def release(self, path, fh):
        os.close(fh)

    def truncate(self, path, length, fh=None):
        os.truncate(path if fh is None else fh, length)

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(path)]

    def rename(self, old, new):
        os.rename(old, self.folder + new)

    def link(self, target, source):
        os.link(self.folder + source, target)

    def symlink(self, target, source):
        os.symlink(source, target)

    def utimens(self, path, times=None):
        os.utime(path, times)

    open = staticmethod(os.open)
    chmod = staticmethod(os.chmod)
    chown = staticmethod(os.chown)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    unlink = staticmethod(os.unlink)
    readlink = staticmethod(os.readlink)

    def flush(self, path, fh):
        return 0

    def fsyncdir(self, path, datasync, fh):
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("mount")
    parser.add_argument("--operation", nargs="*", default=[])
    parser.add_argument("--path", default="")
    parser.add_argument("--at", type=int, default=1)
    parser.add_argument("--times", type=int, default=0)
    parser.add_argument("--error", default="EIO")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--die", action="store_true")
    parser.add_argument("--log", default="")
    options = parser.parse_args()
    FUSE(FaultyDisk(options.folder, options), options.mount, foreground=True, nothreads=True, fsname="faulty_disk",
         attr_timeout=0, entry_timeout=0)


if __name__ == "__main__":
    main()
