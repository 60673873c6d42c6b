#!/usr/bin/env python3
"""A loopback server with the call of Kubeflow Trainer that trainer makes: kubeflow_server.py LOG

It prints its port. LOG gets a JSON line per request: path, authorization, content type, body and
the status of the answer. The first part of a URL selects how the server behaves:

    /good        takes a status with the token first or second
    /second      takes a status with the token second alone
    /failing     the first 2 requests with status 503
    /closed      each request with status 403
    /slow        each answer after 30 seconds
    /broken      each connection closed without an answer
"""

import http.server
import json
import pathlib
import sys
import time

LOG = pathlib.Path(sys.argv[1])
TOKENS = {"good": ("first", "second"), "second": ("second",)}
count = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        global count
        count += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, authorization = self.path.split("/")[1], self.headers.get("Authorization", "")
        accepted = {f"Bearer {token}" for token in TOKENS.get(kind, ("first",))}
        status = 200 if authorization in accepted else 401
        status = {"failing": 503 if count <= 2 else status, "closed": 403}.get(kind, status)
        with LOG.open("a") as log:
            log.write(json.dumps({
                "path": self.path, "authorization": authorization, "status": status,
                "type": self.headers.get("Content-Type"), "body": body}) + "\n")
        if kind == "slow":
            time.sleep(30)
        if kind == "broken":
            self.close_connection = True
            return
        text = json.dumps(body if status == 200 else {"kind": "Status", "status": "Failure", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
