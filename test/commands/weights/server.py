#!/usr/bin/env python3
"""A loopback server of the files of a folder, which can misbehave: server.py FOLDER LOG

It prints its port. LOG gets a line per request: the offset from which the answer begins. What precedes the file's name
in a URL says how it answers:

    /name                  from the offset of a range that is asked for
    /whole/name            as a server that knows no ranges
    /status/503/2/name     the first 2 requests with this status
    /cut/5000/2/name       the first 2 answers break off after 5000 bytes
    /endless/name          the file again and again, without its length
"""

import http.server
import pathlib
import re
import sys

FOLDER, LOG = map(pathlib.Path, sys.argv[1:3])
requests = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        *words, name = self.path.strip("/").split("/")
        kind = words[0] if words else ""
        number = requests[self.path] = requests.get(self.path, 0) + 1
        path = FOLDER / name
        if kind == "status" and number <= int(words[2]):
            return self.send_error(int(words[1]))
        if not path.is_file():
            return self.send_error(404)
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and kind != "whole" else 0
        with LOG.open("a") as log:
            print(start, file=log)
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if kind != "endless":
            self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        rest = content[start:]
        if kind == "cut" and number <= int(words[2]):
            rest = rest[: int(words[1])]
        try:
            self.wfile.write(rest)
            while kind == "endless":
                self.wfile.write(rest)
        except ConnectionError:
            pass

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
