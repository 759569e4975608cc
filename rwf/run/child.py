"""The process of one run of a queue: `python -m rwf.run.child FOLDER`. Imports little before it can be ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from rwf.errors import UserError


def end_with_parent() -> None:
    """Whoever started this process holds the other end of its input; when that is gone the run is saved and ends."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    """The exit code; the last line on stderr says what went wrong."""
    end_with_parent()
    try:
        from rwf.run.work import work

        work(Path(arguments[0]))
    except UserError as error:
        print(error, file=sys.stderr)
        return int(getattr(error, "code", 2))
    except KeyboardInterrupt:
        return 130
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
