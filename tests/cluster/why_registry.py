"""A registry that refuses in every way, for container runtimes: run it in a node's network namespace.

missing -> 404    private -> 401    busy -> 429    slow -> no answer for minutes
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 5999
_ANSWERS = {
    "missing": (404, "MANIFEST_UNKNOWN", "manifest unknown"),
    "private": (401, "UNAUTHORIZED", "authentication required"),
    "busy": (429, "TOOMANYREQUESTS", "You have reached your pull rate limit"),
}


class Refusals(BaseHTTPRequestHandler):
    """By the name of the repository."""

    def do_GET(self) -> None:
        parts = self.path.split("/")
        name = parts[2] if len(parts) > 2 else ""
        if name == "slow":
            time.sleep(600)
        status, code, message = _ANSWERS.get(name, (200, "", ""))
        body = f'{{"errors":[{{"code":"{code}","message":"{message}"}}]}}'.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Refusals)
    server.daemon_threads = True
    sys.exit(server.serve_forever())
