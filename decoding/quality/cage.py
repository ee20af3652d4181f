"""Runs one program that nobody has read, as a script: started by sandbox.py, with `python -I -S`.

Two processes. The outer one closes the doors, starts the inner one, and kills it when its time is
up. The inner one has no way back: its root is a small file system in memory with Python read-only
in it, it belongs to a user (or has the capabilities) of nobody, and it cannot start a process.

Linux's namespaces are asked for with ctypes: Python has `os.unshare` from 3.12 on only.
"""
import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

NEW_MOUNTS, NEW_UTS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = (
    0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
NO_SUID, NO_DEVICES = 2, 4
DIE_WITH_PARENT, NO_NEW_PRIVILEGES = 1, 38  # of prctl
NOBODY = 1_000_000  # and up: a user for each run, so that runs cannot signal each other
VERDICT = 3  # the number of the file that only the end of the program writes to

# What the inner process runs. A program that ends early, whatever its exit code, never says so.
PROGRAM = """
import os, sys
write, secret, program = os.write, sys.argv.pop().encode(), sys.stdin.read()
exec(compile(program, "program", "exec"), {"__name__": "__main__"})
write(3, secret)
"""


def main() -> None:
    """Run the program on stdin, and print as JSON how it ended."""
    settings = json.loads(sys.argv[1])
    try:
        if settings["namespaces"]:
            close_doors(settings)
    except OSError as error:
        print(json.dumps({"unavailable": error.strerror or str(error)}))
        return
    secret = os.urandom(16).hex()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become_nobody(settings, writer)
            python = settings["python"]
            os.execve(python, [python, "-I", "-S", "-B", "-c", PROGRAM, secret], {})
        except BaseException as error:
            os.write(2, f"the cage failed: {error}\n".encode())
        finally:
            os._exit(97)
    os.close(writer)
    timed_out = wait(child, settings["seconds"])
    said = os.read(reader, len(secret))
    print(json.dumps({"finished": said == secret.encode(), "timed_out": timed_out}))


def close_doors(settings: dict) -> None:
    """Leave the network, the processes and the file system of everybody else.

    Raises OSError where the system does not allow it.
    """
    uid, gid = os.getuid(), os.getgid()
    call("unshare", NEW_MOUNTS | NEW_UTS | NEW_IPC | NEW_PID | NEW_NET | (uid and NEW_USER))
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    mount("none", "/", "", RECURSIVE | PRIVATE)
    root = Path(settings["root"])
    mount("tmpfs", root, "tmpfs", NO_SUID | NO_DEVICES, f"size={settings['disk']},mode=755")
    (root / "work").mkdir()
    (root / "work").chmod(0o777)
    for path in map(Path, settings["readable"]):
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            place.symlink_to(os.readlink(path))
            continue
        place.mkdir()
        mount(path, place, "", BIND)
        kept = os.statvfs(place).f_flag & 0b1110  # what the system does not let one take back
        mount("none", place, "", BIND | REMOUNT | READ_ONLY | NO_SUID | kept)


def become_nobody(settings: dict, verdict: int) -> None:
    """Give up every right the program does not need, and set its limits."""
    os.setsid()
    if settings["namespaces"]:
        os.chroot(settings["root"])
        os.chdir("/work")
    os.dup2(verdict, VERDICT, inheritable=True)
    os.dup2(2, 1)  # both kinds of output go into one file of limited size
    os.closerange(VERDICT + 1, 256)
    limits = {"CORE": 0, "CPU": int(settings["seconds"]) + 1, "AS": settings["memory"],
              "FSIZE": settings["output"], "NOFILE": 64}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if os.getuid() == 0:
        user = NOBODY + os.getppid() if not settings["namespaces"] else NOBODY
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # no thread and no process more
    if sys.platform == "linux":
        call("prctl", DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def wait(child: int, seconds: float) -> bool:
    """Wait for the end of a process. Return whether it had to be killed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def mount(source: object, place: object, kind: str, flags: int, data: str = "") -> None:
    call("mount", str(source).encode(), str(place).encode(), kind.encode(), flags, data.encode())


def call(name: str, *arguments: int | bytes) -> None:
    """Call a function of the C library. Raises OSError if it fails."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
