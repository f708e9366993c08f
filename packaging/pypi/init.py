"""The command `palaver`, as a package for Python."""
import os
import sys


def main():
    """Replaces this process by the command."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tree', 'bin', 'palaver')
    os.execv(command, ['palaver'] + sys.argv[1:])
