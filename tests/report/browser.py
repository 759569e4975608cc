"""A real browser without a screen: opens pages in frames of given widths and says what it found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60

# The frame has the page as srcdoc, so that the outer page may look into it; media queries see the frame's width.
_LOOK = """
window.onload = () => {
  const found = [...document.querySelectorAll("iframe")].map((frame) => {
    const inside = frame.contentDocument, root = inside.documentElement;
    return {
      name: frame.name, wide: root.scrollWidth, room: root.clientWidth, high: root.scrollHeight,
      tables: inside.querySelectorAll("table").length, rows: inside.querySelectorAll("tbody tr").length,
      drawings: inside.querySelectorAll("svg").length, title: inside.title,
    };
  });
  const made = document.createElement("pre");
  made.id = "found";
  made.textContent = JSON.stringify(found);
  document.body.append(made);
};
"""


@dataclass(frozen=True)
class Seen:
    """What the browser found in each frame, and what it wrote on its console."""

    frames: dict[str, dict[str, Any]]
    console: list[str]


def browser() -> str | None:
    """The program, where there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def look(pages: dict[str, tuple[str, int]], folder: Path) -> Seen:
    """Opens pages (by name: text and width) each in a frame of its own."""
    program = browser()
    assert program is not None
    frames = "".join(
        f'<iframe name="{escape(name)}" style="width:{width}px;height:800px" srcdoc="{escape(text)}"></iframe>'
        for name, (text, width) in pages.items()
    )
    outer = folder / "frames.html"
    outer.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{frames}<script>{_LOOK}</script>")
    command = [program, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--dump-dom", outer.as_uri()]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    said = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert said is not None, done.stderr[-2000:]
    found = {frame["name"]: frame for frame in json.loads(unescape(said.group(1)))}
    return Seen(found, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
