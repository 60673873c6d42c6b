#!/usr/bin/env python3
"""A loopback server with the calls of MLflow's REST interface that trainer makes: mlflow_server.py LOG

It prints its port. LOG gets a JSON line per request: method, path, authorization, and the body as JSON or text. The
first part of a URL selects how the server misbehaves, so that the tests have all that a real server rarely does:

    /good              as MLflow
    /failing/503/3     the first 3 requests with this status
    /rejecting/400     log-batch calls with metrics with this status
    /closed            each request with status 401
    /slow              each answer after 2 seconds; /sluggish: after half a second
    /strange           each answer a page of HTML
    /elsewhere         as MLflow with artifacts in s3:
"""

import http.server
import json
import pathlib
import sys
import threading
import time
import urllib.parse

LOG = pathlib.Path(sys.argv[1])
experiments, runs, lock = {}, {}, threading.Lock()
failures = 0


class Missing(Exception):
    pass


def call(name, request, artifact_root):
    if name == "experiments/get-by-name":
        if request["experiment_name"] not in experiments:
            raise Missing
        return {"experiment": {"experiment_id": experiments[request["experiment_name"]]}}
    if name == "experiments/create":
        experiments[request["name"]] = str(len(experiments) + 1)
        return {"experiment_id": experiments[request["name"]]}
    if name == "runs/create":
        run_id = f"run{len(runs)}"
        info = {"run_id": run_id, "artifact_uri": f"{artifact_root}/{run_id}/artifacts", "lifecycle_stage": "active"}
        runs[run_id] = {"info": info, "data": {"metrics": [], "params": []}}
        return {"run": runs[run_id]}
    if request["run_id"] not in runs:
        raise Missing
    data = runs[request["run_id"]]["data"]
    if name == "runs/get":
        return {"run": runs[request["run_id"]]}
    if name == "runs/log-batch":
        data["params"] += request.get("params", [])
        for metric in request.get("metrics", []):
            data["metrics"] = [old for old in data["metrics"] if old["key"] != metric["key"]] + [metric]
    return {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        global failures
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        kind, *words = url.path.strip("/").split("/")
        name = url.path.partition("/mlflow/")[2]
        is_artifact = "/mlflow-artifacts/" in url.path
        request = dict(urllib.parse.parse_qsl(url.query))
        if content and not is_artifact:
            request = json.loads(content)
        with lock:
            record = {
                "method": self.command,
                "call": name,
                "path": url.path,
                "authorization": self.headers.get("Authorization", ""),
                "body": content.decode() if is_artifact else request,
            }
            with LOG.open("a") as log:
                print(json.dumps(record), file=log)
            time.sleep({"slow": 2, "sluggish": 0.5}.get(kind, 0))
            if kind == "closed":
                return self.send(401, b"no")
            if kind == "strange":
                return self.send(200, b"<html>")
            if kind == "failing" and failures < int(words[1]):
                failures += 1
                return self.send(int(words[0]), b"")
            if kind == "rejecting" and request.get("metrics"):
                return self.send(int(words[0]), json.dumps({"message": "bad\x1b metrics"}).encode())
            try:
                root = "s3://bucket" if kind == "elsewhere" else "mlflow-artifacts:/1"
                answer = {} if is_artifact else call(name, request, root)
            except Missing:
                return self.send(404, b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such thing"}')
            self.send(200, json.dumps(answer).encode())

    def send(self, status, content):
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            pass

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
