#!/usr/bin/env python3
"""The command of configs/guide_reading_a_run.md for Weights & Biases: the program from PyPI reads the TensorBoard files
of a run and sends them to a server, which here is a loopback server that keeps what it receives."""

import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import support

STEPS = 24


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the few queries of `wandb sync` about its user and the new run."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        answer = {}
        if self.path == "/graphql":
            query = json.loads(content)
            answer = {"data": self.answer_query(query["query"], query.get("variables") or {})}
        elif self.path.endswith("/file_stream"):
            for name, part in json.loads(content).get("files", {}).items():
                self.server.files.setdefault(name, []).extend(part["content"])
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_query(self, query, variables):
        if "viewer" in query:
            viewer = {"id": "1", "entity": "ann", "username": "ann", "email": "", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": viewer, "serverInfo": {"cliVersionInfo": {}, "latestLocalVersionInfo": None}}
        if "upsertBucket" in query:
            self.server.runs.append(variables)
            project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "ann"}}
            bucket = {"id": "b", "name": variables["name"], "displayName": "", "description": "", "config": "{}"}
            return {"upsertBucket": {"bucket": {**bucket, "sweepName": None, "project": project}, "inserted": True}}
        return {}

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.runs = {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that goes without a word


class Wandb(unittest.TestCase):
    def test_the_command_of_the_guide_works(self):
        guide = (support.ROOT / "configs/guide_reading_a_run.md").read_text()
        command = re.search(r"^    wandb (sync .*)$", guide, re.MULTILINE)[1].split()
        version = re.search(r"^    pip install wandb==(\S+)", guide, re.MULTILINE)[1]
        program = pathlib.Path(sys.executable).parent / "wandb"
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(version, shown)
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            done = support.trainer(
                "train", "configs/digits.yaml", "--run-dir", work / "runs/mnist", "--quiet", "--set", "data.limit=512",
                "--set", f"train.max_steps={STEPS}", "--set", "run.summary_every=4 steps",
                DIGITS_DIR=str(work / "digits"),
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            server = Server()
            environment = {
                **os.environ, "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "a" * 40,
                "no_proxy": "127.0.0.1", "HOME": folder,
            }
            done = subprocess.run(
                [program, *command], cwd=work, env=environment, capture_output=True, text=True, timeout=240
            )
            server.shutdown()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({run["name"] for run in server.runs}, {"mnist"})
        rows = [json.loads(line) for line in server.files["wandb-history.jsonl"]]
        losses = {row["tensorboard/train/global_step"]: row["tensorboard/train/Loss"] for row in rows
                  if "tensorboard/train/Loss" in row}
        # wandb may leave out the last row and, on a busy machine, the first.
        self.assertEqual(set(losses) | {4, STEPS}, set(range(4, STEPS + 1, 4)))
        summary = json.loads(server.files["wandb-summary.json"][-1])
        self.assertLess(summary["tensorboard/train/Loss"], losses[min(losses)])
        self.assertIn("tensorboard/test/Metrics/accuracy", summary)


if __name__ == "__main__":
    support.main()
