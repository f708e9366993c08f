"""test_hardening.py - the command and the library are built so that an error is hard to use.

    test_hardening.py IS_HARDENED IS_FORTIFIED FILE...

The stack has canaries, libc's calls check their sizes, and nothing that can be written can be run,
the table of calls included. Builds with sanitizers go without, and sizes are checked by optimized
builds only.
"""
import sys

import tap

IS_HARDENED, IS_FORTIFIED = sys.argv[1] == 'true', sys.argv[2] == 'true'
FILES = sys.argv[3:]


def stack_has_canaries():
    for file in FILES:
        tap.check('__stack_chk_fail' in tap.run('nm', '-D', file), file)


def sizes_are_checked():
    for file in FILES:
        names = tap.run('nm', '-D', file).split()
        tap.check(any(name.split('@')[0].endswith('_chk') for name in names), file)


def calls_cannot_be_redirected():
    for file in FILES:
        tap.check('GNU_RELRO' in tap.run('readelf', '-lW', file), file)
        tap.check('NOW' in tap.run('readelf', '-dW', file), file)


def stack_cannot_be_run():
    for file in FILES:
        lines = [line for line in tap.run('readelf', '-lW', file).splitlines()
                 if 'GNU_STACK' in line]
        tap.check(lines and all('RWE' not in line for line in lines), '%s: %s' % (file, lines))


TESTS = [
    (True, 'the stack cannot be run', stack_cannot_be_run),
    (IS_HARDENED, 'the stack has canaries', stack_has_canaries),
    (IS_HARDENED, 'calls cannot be redirected', calls_cannot_be_redirected),
    (IS_FORTIFIED, 'calls of libc check sizes', sizes_are_checked),
]

tap.main([(name, run) for is_wanted, name, run in TESTS if is_wanted])
