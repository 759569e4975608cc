"""A web server on this machine that gives a file, or misbehaves in every way a real one does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """What it has, how it behaves at each request (the last one stays), and what it was asked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.behaviour = ["well"]
        self.etag = '"one"'
        self.asked: list[dict[str, str]] = []
        self.url = ""
        self.done = threading.Event()

    def next(self) -> str:
        return self.behaviour.pop(0) if len(self.behaviour) > 1 else self.behaviour[0]


@contextmanager
def serving(data: bytes) -> Iterator[Server]:
    state = Server(data)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            state.asked.append({k.lower(): v for k, v in self.headers.items()} | {"path": self.path})
            answer(self, state, state.next() if self.path != "/moved" else "well")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/archive"
    try:
        yield state
    finally:
        state.done.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, state: Server, how: str) -> None:
    """One answer. Words after the first are numbers: ``cut 100`` ends after 100 bytes, ``silent 100`` too, and does not
    say before how many there should be."""
    kind, *numbers = how.split()
    if kind == "status":
        handler.send_error(int(numbers[0]))
        return
    if kind == "redirect":
        handler.send_response(302)
        handler.send_header("Location", "/moved" if not numbers else "/archive")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    if kind == "garbage":
        handler.wfile.write(b"SSH-2.0-not a web server\r\n")
        return
    data, first = state.data, 0
    if kind == "corrupt":
        data = data[:-50] + bytes(50)
    wanted = handler.headers.get("Range", "")
    fresh = handler.headers.get("If-Range") in (None, state.etag)
    if wanted and fresh and kind != "norange":
        first = int(wanted.removeprefix("bytes=").rstrip("-"))
        if first >= len(data):
            handler.send_error(416)
            return
        handler.send_response(206)
        shown = first + 1 if kind == "wrongrange" else first
        handler.send_header("Content-Range", f"bytes {shown}-{len(data) - 1}/{len(data)}")
    else:
        handler.send_response(200)
    body = data[first:]
    if kind not in ("nolength", "silent"):
        handler.send_header("Content-Length", str(len(body)))
    if state.etag:
        handler.send_header("ETag", state.etag)
    handler.end_headers()
    if kind in ("cut", "silent", "stall"):
        body = body[: int(numbers[0])]
    handler.wfile.write(body)
    handler.wfile.flush()
    if kind == "stall":
        state.done.wait(5)
