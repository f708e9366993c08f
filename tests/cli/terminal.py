"""terminal.py - runs a command in a separate terminal, for tests that control it from outside.

    terminal.py COLUMNS COMMAND...

Reads JSON lines from stdin: {"keys": "..."} types, {"columns": N} changes the size of the window,
{"end": true} closes the terminal. The output of the command goes to stdout unchanged. The exit
code is that of the command.
"""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios


def set_columns(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))


def obey(line, child, fd):
    order = json.loads(line)
    if 'keys' in order:
        os.write(fd, order['keys'].encode())
    if 'columns' in order:
        set_columns(fd, order['columns'])
        os.kill(child, signal.SIGWINCH)
    if 'end' in order:
        os.kill(child, signal.SIGHUP)


def relay(child, fd):
    pending = b''
    watched = [fd, 0]
    while True:
        ready = select.select(watched, [], [])[0]
        if fd in ready:
            try:
                shown = os.read(fd, 65536)
            except OSError:
                return
            if not shown:
                return
            os.write(1, shown)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                watched.remove(0)
            pending += data
            *lines, pending = pending.split(b'\n')
            for line in lines:
                obey(line, child, fd)


def main():
    child, fd = pty.fork()
    if child == 0:
        # The size must be there before the command looks at it.
        set_columns(0, int(sys.argv[1]))
        os.execvp(sys.argv[2], sys.argv[2:])
    relay(child, fd)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main()
