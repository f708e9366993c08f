"""test_symbols.py - the shared library exports the functions of the headers, and nothing else.

    test_symbols.py SOURCE_ROOT LIBPALAVER_SO

symbols.txt is written by hand: a change of the interface is meant to be seen in review.
"""
import glob
import os
import re
import sys

import tap

ROOT, LIBRARY = sys.argv[1:3]
# From the mark to the first name before a parenthesis; attributes follow the parameters.
DECLARATION = re.compile(r'\bPAL_API\b(?!\s*__)[^;({]*?\b(pal_\w+)\s*\(')


def listed():
    return tap.read(ROOT, 'tests', 'library', 'symbols.txt').split()


def same(names, what):
    expected = set(listed())
    text = ['%s in %s, not in symbols.txt' % (name, what) for name in sorted(names - expected)]
    text += ['%s in symbols.txt, not in %s' % (name, what) for name in sorted(expected - names)]
    tap.check(not text, '\n'.join(text))


def list_is_sorted():
    tap.check(listed() == sorted(set(listed())), 'symbols.txt is not sorted, or repeats a name')


def headers_agree():
    names = set()
    for path in glob.glob(os.path.join(ROOT, 'include', 'palaver', '*.h')):
        names.update(DECLARATION.findall(re.sub(r'/\*.*?\*/', '', tap.read(path), flags=re.S)))
    same(names, 'the headers')


def library_agrees():
    lines = tap.run('nm', '-D', '--defined-only', LIBRARY).splitlines()
    same({line.split()[2].split('@')[0] for line in lines}, 'the library')


tap.main([
    ('the list is sorted', list_is_sorted),
    ('the headers declare what is listed', headers_agree),
    ('the library exports what is listed', library_agrees),
])
