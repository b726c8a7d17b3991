#!/usr/bin/python3
"""Fails in a chosen way. See SKILL.md for the list."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
OUT = Path(os.environ.get("OUTPUT_DIR", "out"))


def say(text):
    print(text, file=sys.stderr, flush=True)


def exit_with(value):
    code = number(value, 1, 255)
    say(f"fail.py: exiting with {code}, as asked")
    return code


def end_by_signal(value):
    name = (value or "SEGV").upper().removeprefix("SIG")
    chosen = getattr(signal.Signals, f"SIG{name}", None)
    if chosen is None:
        wrong_value(value, "the name of a signal, such as SEGV, ABRT or KILL")
    say(f"fail.py: ending by SIG{name}, as asked")
    if chosen not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(chosen, signal.SIG_DFL)
    os.kill(os.getpid(), chosen)
    return unharmed()


def traceback(_value):
    return {}["a key that is not there"]


def partial(_value):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "done.txt").write_text("finished before the failure\n", encoding="utf-8")
    with open(OUT / "report.csv", "w", encoding="utf-8") as file:
        file.write("item,amount\nfirst,1\nsec")
        file.flush()
        say("fail.py: giving up in the middle of out/report.csv, as asked")
    return 1


def hang(value):
    seconds = number(value, 3600, 86400)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"sleeping for {seconds} s", flush=True)
    time.sleep(seconds)
    return unharmed()


def stubborn(value):
    for chosen in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(chosen, signal.SIG_IGN)
    seconds = number(value, 3600, 86400)
    print(f"sleeping for {seconds} s, deaf to TERM, INT and HUP", flush=True)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(left)
    return unharmed()


def leave(value):
    seconds = number(value, 3600, 86400)
    # A session of its own, with stdout and stderr still open: who waits for the pipes' end waits for all of it.
    child = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({seconds})"], start_new_session=True
    )
    print(f"left process {child.pid} behind for {seconds} s", flush=True)
    # Not waited for on purpose; without this Python warns at exit.
    child.returncode = 0
    return 0


def tree(value):
    count = number(value, 8, 64)
    busy = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    children = [
        subprocess.Popen([sys.executable, "-c", busy], start_new_session=index % 2 == 0)
        for index in range(count)
    ]
    print(f"{count} processes are busy for at most 600 s", flush=True)
    for child in children:
        child.wait()
    return unharmed()


def flood(value):
    line = b"All work and no limit makes a long log. ".ljust(127, b".") + b"\n"
    for _ in range(number(value, 16, 1024)):
        sys.stdout.buffer.write(line * (MIB // len(line)))
    sys.stdout.flush()
    return unharmed()


def odd_bytes(_value):
    sys.stdout.buffer.write(
        b"not UTF-8: \xff\xfe\x80 cut off: \xe2\x82\ncolour: \x1b[31mred\x1b[0m NUL: \x00 end\n"
    )
    sys.stdout.flush()
    sys.stderr.buffer.write(b"on stderr: \xc3\x28\n")
    return 1


def memory(value):
    mebibytes = number(value, 64, 65536)
    held = []
    try:
        for _ in range(mebibytes):
            held.append(b"\xa5" * MIB)
    except MemoryError:
        taken = len(held)
        held.clear()
        say(f"fail.py: refused after {taken} MiB")
        return 1
    return unharmed(f"took {mebibytes} MiB")


def disk(value):
    mebibytes = number(value, 16, 1024)
    OUT.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        with open(OUT / "large.bin", "wb", buffering=0) as file:
            while written < mebibytes * MIB:
                written += file.write(b"\xa5" * MIB)
    except OSError as error:
        say(f"fail.py: refused after {written} bytes: {error.strerror}")
        return 1
    return unharmed(f"wrote {mebibytes} MiB")


def link(_value):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "real.txt").write_text("a real file\n", encoding="utf-8")
    path = OUT / "link.txt"
    path.unlink(missing_ok=True)
    path.symlink_to("/etc/passwd")
    print("left out/link.txt, a link to /etc/passwd")
    return 0


def number(value, default, most):
    """An optional argument as a whole number from 0 to `most`."""
    if value is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) > most:
        wrong_value(value, f"a whole number from 0 to {most}")
    return int(value)


def wrong_value(value, expected):
    say(f"fail.py: {value!r} is not {expected}")
    sys.exit(2)


def unharmed(done="came to the end"):
    print(f"{done}; nothing stopped it")
    return 0


WAYS = {
    "exit": exit_with,
    "signal": end_by_signal,
    "traceback": traceback,
    "partial": partial,
    "hang": hang,
    "stubborn": stubborn,
    "leave": leave,
    "tree": tree,
    "flood": flood,
    "bytes": odd_bytes,
    "memory": memory,
    "disk": disk,
    "link": link,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="fail.py", description=__doc__)
    parser.add_argument("way", choices=WAYS, metavar="WAY", help=", ".join(WAYS))
    parser.add_argument(
        "value", nargs="?", metavar="VALUE", help="an exit code, signal, number of seconds or size, by way"
    )
    arguments = parser.parse_args()
    sys.exit(WAYS[arguments.way](arguments.value))
