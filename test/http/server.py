#!/usr/bin/env python3
"""A loopback server that answers with what it received, as JSON: method, path, headers, body and the client's port.

It prints its port. A path selects another answer:

    /status/503      this status, with a short body
    /redirect        status 307 to /elsewhere
    /slow            the answer after a minute
    /large           3 MB
"""

import http.server
import json
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, _, detail = self.path.strip("/").partition("/")
        content = json.dumps(
            {
                "method": self.command,
                "path": self.path,
                "headers": dict(self.headers.items()),
                "body": body.decode("latin-1"),
                "port": self.client_address[1],
            }
        ).encode()
        if kind == "slow":
            time.sleep(60)
        self.send_response(int(detail) if kind == "status" else 307 if kind == "redirect" else 200)
        if kind == "status":
            content = b"the reason"
        elif kind == "redirect":
            self.send_header("Location", "/elsewhere")
        elif kind == "large":
            content = b"x" * 3_000_000
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
