#!/usr/bin/python3
"""Tries what a sandboxed script must not be able to do, and prints how each attempt was refused."""

import argparse
import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SECONDS_FOR_AN_ATTEMPT = 3
SECONDS_TO_CONNECT = 1
LIBC = ctypes.CDLL(None, use_errno=True)
# Numbers of system calls that Python has no function for, by machine.
CALLS = {
    "x86_64": {
        "ptrace": 101,
        "mount": 165,
        "umount2": 166,
        "syslog": 103,
        "add_key": 248,
        "perf_event_open": 298,
        "process_vm_readv": 310,
        "bpf": 321,
        "setns": 308,
        "unshare": 272,
        "io_uring_setup": 425,
        "open_tree": 428,
    },
    "aarch64": {
        "ptrace": 117,
        "mount": 40,
        "umount2": 39,
        "syslog": 116,
        "add_key": 217,
        "perf_event_open": 241,
        "process_vm_readv": 270,
        "bpf": 280,
        "setns": 268,
        "unshare": 97,
        "io_uring_setup": 425,
        "open_tree": 428,
    },
}
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
PTRACE_SEIZE = 0x4206
ATTEMPTS = []


class Refused(Exception):
    """The attempt met nothing that could be had; the text says how."""


class Skipped(Exception):
    """The attempt cannot be made on this machine."""


def attempt(group, what):
    """Registers a function that raises when it is refused and returns a word about the damage when it got through."""

    def register(function):
        ATTEMPTS.append((group, what, function))
        return function

    return register


def each(group, what, values):
    """The same for each of several values."""

    def register(function):
        for value in values:
            attempt(group, what.format(value))(lambda value=value: function(value))
        return function

    return register


def syscall(name, *args):
    number = CALLS.get(platform.machine(), {}).get(name)
    if number is None:
        raise Skipped(f"no number for {name} on {platform.machine()}")
    result = LIBC.syscall(
        ctypes.c_long(number), *(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args)
    )
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def found(items, empty="nothing there"):
    if not items:
        raise Refused(empty)
    return items


# --- secrets ---


@each(
    "secrets",
    "read {}",
    (
        "/etc/shadow",
        "/etc/ssh/ssh_host_ed25519_key",
        "/root/.ssh/id_ed25519",
        "/proc/1/environ",
        "/run/secrets/kubernetes.io/serviceaccount/token",
        "/proc/kcore",
        "/proc/1/root/etc/shadow",
    ),
)
def read(path):
    with open(path, "rb") as file:
        # The content stays here: this is a demonstration, not a leak.
        return f"{len(found(file.read(64), 'empty'))} bytes read"


@each("secrets", "list {}", ("/root", "/home", "/var/lib", "/run/user", "/etc/ssh", "/mnt"))
def list_folder(path):
    own = Path(os.environ.get("HOME", "/nowhere"))
    others = [name for name in os.listdir(path) if Path(path, name) != own]
    return f"{len(found(others, 'empty'))} entries seen"


@attempt("secrets", "read the environment of other processes")
def read_environments():
    refused, readable = None, []
    for pid in processes():
        if pid in (os.getpid(), os.getppid()) or uid_of(pid) == os.getuid() and pid != 1:
            continue
        try:
            if Path(f"/proc/{pid}/environ").read_bytes():
                readable.append(pid)
        except OSError as error:
            refused = error
    if not readable and refused:
        raise refused
    return f"{len(found(readable))} environments read"


@attempt("secrets", "find host variables in its own environment")
def own_environment():
    telling = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "PRIVATE_KEY")
    hosts = ("SSH_", "AWS_", "SUDO_", "DBUS_", "XDG_RUNTIME", "DISPLAY", "KUBERNETES_", "CARGO_", "PYENV_")
    names = [
        name for name in os.environ if name.startswith(hosts) or any(word in name.upper() for word in telling)
    ]
    return ", ".join(found(names, "none set"))


# --- network ---


@each("network", "connect to {}", ("192.0.2.1:53", "169.254.169.254:80", "[2001:db8::1]:443"))
def connect(address):
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS_TO_CONNECT)
        connection.connect((host.strip("[]"), int(port)))
    return "connected"


@attempt("network", "send a packet to 192.0.2.1:53 (UDP)")
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\0", ("192.0.2.1", 53))
    return "sent"


@attempt("network", "look up the name example.com")
def look_up():
    answers = []

    def ask():
        try:
            answers.append(socket.getaddrinfo("example.com", 80)[0][4][0])
        except OSError as error:
            answers.append(error)

    # The resolver has no time limit of its own that a caller could set.
    threading.Thread(target=ask, daemon=True).start()
    deadline = time.monotonic() + 2 * SECONDS_TO_CONNECT
    while not answers and time.monotonic() < deadline:
        time.sleep(0.01)
    if not answers:
        raise Refused("no answer")
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


@attempt("network", "open a raw socket")
def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "opened"


@attempt("network", "open a packet socket")
def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    return "opened"


@attempt("network", "open a socket to the virtual machine's host")
def vsock():
    # Not held by network namespaces, so only a system-call filter refuses it.
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "opened"


@each(
    "network",
    "talk to {}",
    ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"),
)
def unix_socket(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS_TO_CONNECT)
        connection.connect(path)
    return "connected"


@attempt("network", "see interfaces other than loopback")
def interfaces():
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    names = [line.split(":")[0].strip() for line in lines]
    return ", ".join(found([name for name in names if name != "lo"], "only lo"))


# --- files ---


@each(
    "files",
    "create a file in {}",
    (
        "/",
        "/etc",
        "/usr",
        "/usr/bin",
        "/usr/local/bin",
        "/var",
        "/root",
        "/home",
        "/proc",
        "/sys/fs/cgroup",
    ),
)
def create(folder):
    descriptor, path = tempfile.mkstemp(prefix="skillbox-boundary-", dir=folder)
    os.close(descriptor)
    os.unlink(path)
    return "created (and removed)"


@attempt("files", "open the Python interpreter for writing")
def open_interpreter():
    os.close(os.open(os.path.realpath("/usr/bin/python3"), os.O_WRONLY | os.O_APPEND))
    return "opened (nothing written)"


@each(
    "files",
    "open {} for writing",
    ("/etc/passwd", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/mem"),
)
def open_for_writing(path):
    os.close(os.open(path, os.O_WRONLY))
    # A masked file is the null device: it opens, and what is written to it goes nowhere.
    if stat.S_ISCHR(os.stat(path).st_mode):
        raise Refused("masked")
    return "opened (nothing written)"


@each("files", "open {}", ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm"))
def open_device(path):
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    return "opened"


@attempt("files", "make a device node")
def device_node():
    path = f"{own_folder()}/boundary-device"
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 1))
    os.unlink(path)
    return "made (and removed)"


# --- identity ---


@attempt("identity", "run as root")
def is_root():
    if os.geteuid() == 0:
        return "is root"
    raise Refused(f"uid {os.geteuid()}")


@attempt("identity", "become root")
def become_root():
    os.setresuid(0, 0, 0)
    return "became root"


@attempt("identity", "become another user")
def become_other():
    os.setresuid(12345, 12345, 12345)
    return "became uid 12345"


@attempt("identity", "hold capabilities")
def capabilities():
    held = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status(name), 16)]
    return ", ".join(found(held, "all sets empty"))


@attempt("identity", "gain privileges by a set-user-id program")
def regain():
    if status("NoNewPrivs") == "1":
        raise Refused("no_new_privs")
    return "no_new_privs is off"


@attempt("identity", "call the kernel without a filter")
def unfiltered():
    if status("Seccomp") == "2":
        raise Refused("filtered")
    return "no system-call filter"


# --- processes ---


@attempt("processes", "see processes of other users or of the kernel")
def other_processes():
    others = [pid for pid in processes() if uid_of(pid) not in (None, os.getuid())]
    return f"{len(found(others, 'none seen'))} processes seen"


@attempt("processes", "trace process 1")
def trace():
    # Seizing does not stop the process, and ends with this one.
    syscall("ptrace", PTRACE_SEIZE, 1, 0, 0)
    return "traced (and let go)"


@attempt("processes", "read the memory of process 1")
def read_memory():
    with open("/proc/1/maps", encoding="ascii") as maps:
        start = int(found(maps.readline(), "empty").split("-")[0], 16)
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_ulong * 2)(start, 16)
    syscall("process_vm_readv", 1, local, 1, remote, 1, 0)
    return "read"


@each("processes", "enter the {} namespace of process 1", ("mnt", "user", "net"))
def enter(kind):
    descriptor = os.open(f"/proc/1/ns/{kind}", os.O_RDONLY)
    syscall("setns", descriptor, 0)
    return "entered"


# --- kernel ---


@attempt("kernel", "mount a file system")
def mount():
    folder = tempfile.mkdtemp(dir=own_folder())
    try:
        syscall("mount", b"none", folder.encode(), b"tmpfs", 0, b"size=4k")
        syscall("umount2", folder.encode(), 0)
        return "mounted (and lifted)"
    finally:
        os.rmdir(folder)


@attempt("kernel", "copy the mount of /")
def copy_mount():
    syscall("open_tree", -100, b"/", 1)
    return "copied"


@attempt("kernel", "change the root folder")
def change_root():
    os.chroot("/")
    return "changed"


@attempt("kernel", "make a user namespace")
def user_namespace():
    syscall("unshare", CLONE_NEWUSER)
    return "made: all capabilities inside it"


@attempt("kernel", "make a mount namespace")
def mount_namespace():
    syscall("unshare", CLONE_NEWNS)
    return "made"


@attempt("kernel", "store a key in the kernel")
def add_key():
    # The process keyring ends with this process.
    syscall("add_key", b"user", b"skillbox-boundary", b"x", 1, -2)
    return "stored"


@attempt("kernel", "load an eBPF map")
def ebpf():
    attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
    syscall("bpf", 0, attributes, 128)
    return "loaded"


@attempt("kernel", "read the kernel log")
def kernel_log():
    syscall("syslog", 10, 0, 0)
    return "readable"


@attempt("kernel", "count another processor event")
def performance():
    attributes = (ctypes.c_uint32 * 32)(1, 128)
    syscall("perf_event_open", attributes, 0, -1, -1, 0)
    return "counting"


@attempt("kernel", "set up io_uring")
def io_uring():
    parameters = (ctypes.c_uint32 * 64)()
    syscall("io_uring_setup", 2, parameters)
    return "set up"


# --- what must work ---


@attempt("works", "write to out/")
def write_output():
    path = Path(own_folder()) / "boundary-output.txt"
    path.write_text("kept within\n", encoding="utf-8")
    path.unlink()
    return "written"


@attempt("works", "write to the temporary folder")
def write_temporary():
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    return tempfile.gettempdir()


@attempt("works", "start a program")
def start_program():
    return subprocess.run(
        ["/bin/sh", "-c", "echo started"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.strip()


@attempt("works", "serve and connect on its own loopback")
def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(64).upper())

        threading.Thread(target=serve, daemon=True).start()
        with socket.create_connection(server.getsockname(), SECONDS_TO_CONNECT) as client:
            client.settimeout(SECONDS_TO_CONNECT)
            client.sendall(b"hello")
            answer = client.recv(64)
    if answer != b"HELLO":
        raise Refused(f"the answer was {answer!r}")
    return "answered"


# --- how it is run ---


def own_folder():
    folder = os.environ.get("OUTPUT_DIR", "out")
    os.makedirs(folder, exist_ok=True)
    return folder


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def status(field, pid="self"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return line.split(":", 1)[1].strip()
    raise Skipped(f"/proc has no {field}")


def uid_of(pid):
    try:
        return int(status("Uid", pid).split()[0])
    except OSError:
        return None


def try_it(function):
    """Runs an attempt in a process of its own; returns (state, detail) with state refused, through, skipped or error."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_FOR_AN_ATTEMPT)
        os.write(sender, json.dumps(outcome(function)).encode()[:4000])
        os._exit(0)
    os.close(sender)
    with open(receiver, "rb") as pipe:
        answer = pipe.read()
    _, ended = os.waitpid(child, 0)
    if answer:
        return json.loads(answer)
    if os.WIFSIGNALED(ended):
        name = signal.Signals(os.WTERMSIG(ended)).name
        return "refused", "no answer" if name == "SIGALRM" else f"killed by {name}"
    return "refused", "ended without an answer"


def outcome(function):
    try:
        return "through", str(function())
    except Refused as error:
        return "refused", str(error)
    except Skipped as error:
        return "skipped", str(error)
    except TimeoutError:
        return "refused", "no answer"
    except FileNotFoundError:
        return "refused", "nothing there"
    except socket.gaierror as error:
        return "refused", str(error.strerror)
    except OSError as error:
        return "refused", errno.errorcode.get(error.errno, str(error))
    except Exception as error:  # A fault of this script must not count as a refusal.
        return "error", f"{type(error).__name__}: {error}"


def main():
    groups = list(dict.fromkeys(group for group, _, _ in ATTEMPTS))
    parser = argparse.ArgumentParser(
        prog="boundaries.py",
        description=__doc__,
        epilog="Exit codes: 0 all refused and all that must work works; 1 not so; 2 wrong arguments.",
    )
    parser.add_argument(
        "--only", choices=groups, action="append", help="try only this group (may be given several times)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    args = parser.parse_args()

    rows, wrong = [], []
    previous = None
    for group, what, function in ATTEMPTS:
        if args.only and group not in args.only:
            continue
        if group != previous and not args.json:
            print(("" if previous is None else "\n") + group)
        previous = group
        state, detail = try_it(function)
        must_work = group == "works"
        good = state == ("through" if must_work else "refused") or state == "skipped" and not must_work
        shown = {
            "refused": "failed" if must_work else "refused",
            "through": "works" if must_work else "GOT THROUGH",
            "skipped": "not tried",
            "error": "ERROR",
        }[state]
        row = {
            "group": group,
            "attempt": what,
            "outcome": shown.lower().replace(" ", "_"),
            "detail": detail,
            "as_it_should": good,
        }
        rows.append(row)
        if not good:
            wrong.append(row)
        if not args.json:
            print(f"  {what:<54} {shown:<12} {detail}", flush=True)

    report = {"as_it_should": not wrong, "attempts": rows}
    text = json.dumps(report, ensure_ascii=False, indent=2)
    try:
        (Path(own_folder()) / "boundaries.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        print(f"boundaries.py: out/boundaries.json: {error.strerror}", file=sys.stderr)
    if args.json:
        print(text)
    else:
        count = {
            name: sum(row["outcome"] == name for row in rows) for name in ("refused", "works", "not_tried")
        }
        print(
            f"\n{count['refused']} refused, {count['works']} work as they should, {count['not_tried']} not tried, {len(wrong)} not as it should be"
        )
        for row in wrong:
            print(f"  {row['outcome'].replace('_', ' ')}: {row['attempt']} ({row['detail']})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
