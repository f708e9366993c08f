"""tap.py - the Python side of tests/support/tap.h: named tests, TAP for Meson."""
import os
import subprocess
import sys
import traceback


class Failed(Exception):
    pass


def check(held, text):
    if not held:
        raise Failed(text)


def run(*command, **options):
    """Runs a command that must succeed, and returns its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, **options)
    check(done.returncode == 0, '%s: exit %d\n%s'
          % (' '.join(command), done.returncode, done.stdout))
    return done.stdout


def read(*parts):
    with open(os.path.join(*parts), encoding='utf-8') as file:
        return file.read()


def main(tests):
    """Runs (name, function) pairs, which fail by an exception."""
    failures = 0
    for number, (name, test) in enumerate(tests, 1):
        try:
            test()
            print('ok %d - %s' % (number, name))
        except Exception as problem:
            failures += 1
            text = str(problem) if isinstance(problem, Failed) else traceback.format_exc()
            print('# ' + text.rstrip().replace('\n', '\n# '))
            print('not ok %d - %s' % (number, name))
        sys.stdout.flush()
    print('1..%d' % len(tests))
    sys.exit(1 if failures else 0)
