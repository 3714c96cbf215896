"""A worker that was taken over: tries every way out that it knows, and prints what came of each.

The service starts it in place of `molbox_worker`: `ATTACKER -I … -m molbox_worker FOLDER`. It finds all it
needs by itself, as an intruder would. A line is `attack NAME: refused (WHY)` or `attack NAME: DONE`.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

if "-c" in sys.argv:
    # Asked where its modules lie, as any interpreter is.
    exec(sys.argv[sys.argv.index("-c") + 1])
    sys.exit()

FOLDER = Path(sys.argv[-1])
WORK = FOLDER / "work"
DATA = FOLDER.parent.parent
libc = ctypes.CDLL(None, use_errno=True)
attacks = []


def attack(action):
    attacks.append((action.__name__, action))
    return action


def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(number, *arguments):
    return checked(libc.syscall(number, *arguments))


# Its `run-task`: processes cannot be listed from within.
PARENT = os.getppid()


@attack
def read_the_database():
    (DATA / "molbox.sqlite").read_bytes()


@attack
def read_the_secret():
    (DATA / "secret").read_bytes()


@attack
def list_the_data_folder():
    os.listdir(DATA)


@attack
def list_the_other_tasks():
    os.listdir(DATA / "tasks")


@attack
def list_the_objects():
    os.listdir(DATA / "objects")


@attack
def write_in_the_data_folder():
    (DATA / "new").write_text("")


@attack
def change_the_task():
    (FOLDER / "task.json").write_text("{}")


@attack
def forge_the_exit():
    (FOLDER / "exit.json").write_text('{"attempt": 1, "code": 0, "signal": null}')


@attack
def replace_the_lock():
    (FOLDER / "lock").unlink()


@attack
def give_the_lock_away():
    fcntl.flock(0, fcntl.LOCK_UN)


@attack
def replace_the_input():
    (FOLDER / "input").rename(WORK / "input")


@attack
def link_to_the_data_folder():
    (WORK / "output" / "data").symlink_to("../../../..")


@attack
def put_a_link_in_place_of_the_output():
    (WORK / "output").rename(WORK / "was_output")
    try:
        (WORK / "output").symlink_to(DATA)
    finally:
        (WORK / "was_output").rename(WORK / "output")


@attack
def put_a_link_in_place_of_the_progress():
    (WORK / "progress.json").symlink_to(DATA / "secret")


@attack
def link_hard_to_the_secret():
    os.link(DATA / "secret", WORK / "output" / "secret")


@attack
def link_hard_to_a_program():
    os.link("/usr/bin/env", WORK / "output" / "env")


@attack
def make_a_pipe_of_the_result():
    os.mkfifo(WORK / "result.json")


@attack
def make_a_device():
    os.mknod(WORK / "output" / "disk", 0o60644, os.makedev(8, 0))


@attack
def make_a_socket_in_the_output():
    os.mknod(WORK / "output" / "socket", 0o140644)


@attack
def reach_the_network():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)


@attack
def reach_the_network_by_ip6():
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)


@attack
def talk_to_the_kernel():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)


@attack
def reach_a_local_service():
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


@attack
def bind_a_pair_of_sockets_to_an_abstract_name():
    one, _other = socket.socketpair()
    one.bind("\0molbox-attacker")


@attack
def send_from_a_pair_of_sockets():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


@attack
def send_from_a_pair_of_another_kind():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@attack
def make_a_ring():
    call(425, 8, ctypes.create_string_buffer(120))


@attack
def make_a_ring_by_another_numbering():
    call(0x40000000 + 425, 8, ctypes.create_string_buffer(120))


@attack
def signal_run_task():
    os.kill(PARENT, signal.SIGUSR1)


@attack
def signal_its_group():
    os.killpg(0, signal.SIGCONT)


@attack
def signal_everybody():
    os.kill(-1, signal.SIGCONT)


@attack
def signal_by_descriptor():
    descriptor = os.pidfd_open(PARENT)
    signal.pidfd_send_signal(descriptor, signal.SIGCONT)


@attack
def trace_run_task():
    checked(libc.ptrace(16, PARENT, 0, 0))


@attack
def read_the_environment_of_run_task():
    Path(f"/proc/{PARENT}/environ").read_bytes()


@attack
def read_the_memory_of_run_task():
    Path(f"/proc/{PARENT}/mem").open("rb")


@attack
def list_the_files_of_run_task():
    os.listdir(f"/proc/{PARENT}/fd")


@attack
def read_the_memory_of_another_by_call():
    call(310, PARENT, 0, 0, 0, 0, 0)


@attack
def list_the_processes():
    os.listdir("/proc")


@attack
def change_a_setting_of_the_kernel():
    Path("/proc/sys/kernel/core_pattern").open("w")


@attack
def enter_a_namespace_of_its_own():
    checked(libc.unshare(0x10000000))


@attack
def begin_a_process_in_a_namespace_of_its_own():
    child = call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@attack
def mount_something():
    checked(libc.mount(b"none", bytes(WORK), b"tmpfs", 0, None))


@attack
def change_the_mode_of_the_data():
    os.chmod(DATA, 0o777)


@attack
def change_the_mode_of_its_folder():
    os.chmod(WORK, 0o777)


@attack
def change_the_times_of_the_database():
    os.utime(DATA / "molbox.sqlite")


@attack
def mark_a_file():
    os.setxattr(WORK / "output", "user.mark", b"1")


@attack
def give_its_folder_away():
    os.chown(WORK, 12345, -1)


@attack
def share_memory_by_name():
    Path("/dev/shm/molbox-attacker").write_text("")


@attack
def share_memory_by_number():
    call(29, 0x6D6F6C, 4096, 0o1666)


@attack
def make_a_queue():
    call(240, b"molbox-attacker", os.O_CREAT | os.O_RDWR, 0o666, None)


@attack
def write_in_the_folder_for_all():
    Path("/tmp/molbox-attacker").write_text("")


@attack
def read_the_accounts_of_the_machine():
    Path("/etc/passwd").read_bytes()


@attack
def read_the_settings_of_the_machine():
    os.listdir("/etc")


@attack
def read_the_home_of_root():
    os.listdir("/root")


@attack
def read_the_disk():
    os.open("/dev/sda", os.O_RDONLY)


@attack
def leave_the_process_group():
    os.setpgid(0, 0)


@attack
def leave_the_session():
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise OSError(status, os.strerror(status))


@attack
def lower_the_limits_of_run_task():
    resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (3, 3))


@attack
def slow_run_task_down():
    os.setpriority(os.PRIO_PROCESS, PARENT, 19)


@attack
def take_a_lease():
    with (WORK / "leased").open("w") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)


@attack
def have_another_signalled():
    with (WORK / "owned").open("w") as file:
        fcntl.fcntl(file, fcntl.F_SETOWN, PARENT)


@attack
def write_a_terabyte():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with (WORK / "sparse").open("wb") as file:
        file.truncate(1 << 40)


@attack
def run_a_program_of_its_own():
    program = WORK / "program"
    program.write_bytes(Path("/usr/bin/env").read_bytes())
    program.chmod(0o755)
    subprocess.run([program], check=True)


@attack
def gain_rights():
    child = subprocess.run(["/usr/bin/su", "-c", "id"], capture_output=True)
    if child.returncode:
        raise OSError(errno.EPERM, "su was refused")


@attack
def find_keys_in_its_environment():
    found = [name for name in os.environ if name.startswith(("MOLBOX", "AWS", "PLANTED"))]
    if not found:
        raise OSError(errno.ENOENT, "nothing there")


@attack
def multiply():
    """Refused when it cannot continue for ever."""
    children = []
    read, write = os.pipe()
    try:
        for _ in range(2000):
            child = os.fork()
            if child == 0:
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            children.append(child)
    finally:
        # Where no signals can be sent, they see that their pipe is shut.
        os.close(write)
        for child in children:
            os.waitpid(child, 0)


def finish(**result):
    task = json.loads((FOLDER / "task.json").read_text())
    result = {"attempt": task["attempt"], "warnings": [], **result}
    (WORK / "result.json").write_text(json.dumps(result))


def main():
    task = json.loads((FOLDER / "task.json").read_text())
    if task["kind"] == "environment":
        return finish(status="succeeded", versions={}, platforms=[], ligand_tools=True)
    (WORK / "output").mkdir(exist_ok=True)
    for name, action in attacks:
        # The kernel sets root no limit.
        if name == "multiply" and os.getuid() == 0:
            continue
        try:
            action()
        except OSError as error:
            print(f"attack {name}: refused ({error.strerror})", flush=True)
        except Exception as error:
            print(f"attack {name}: BROKEN {error!r}", flush=True)
        else:
            print(f"attack {name}: DONE", flush=True)
    # Names that nobody expects, and more of everything than anybody wants.
    output = WORK / "output"
    (output / "two\nlines").write_text("x")
    (output / "..hidden").write_text("x")
    (output / ("long" * 60)).write_text("x")
    with (output / "holes").open("wb") as file:
        file.truncate(1 << 32)
    os.close(os.open(output / "shut.txt", os.O_CREAT | os.O_WRONLY, 0))
    deep = output
    for _ in range(200):
        deep = deep / "deep"
        deep.mkdir()
    (output / "honest.txt").write_text("what a worker writes")
    finish(status="failed", error={"code": "internal", "message": "over"})


main()
