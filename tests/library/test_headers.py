"""test_headers.py - every public header compiles alone, as C11 and as C++, with both compilers; and
the headers agree with those of earlier releases, whose copies are in tests/data/include-VERSION.

    test_headers.py SOURCE_ROOT
"""
import glob
import os
import shutil
import sys

import layout
import tap

INCLUDE = os.path.join(sys.argv[1], 'include')
STRICT = ['-pedantic', '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-I', INCLUDE]
COMPILERS = [
    ('gcc', ['-x', 'c', '-std=c11']), ('clang', ['-x', 'c', '-std=c11']),
    ('g++', ['-x', 'c++', '-std=c++11']), ('clang++', ['-x', 'c++', '-std=c++11']),
]


def compiles(compiler, language, header):
    def test():
        # Twice, for the include guard.
        source = '#include <palaver/%s>\n#include <palaver/%s>\nint x;\n' % (header, header)
        tap.run(compiler, *language, *STRICT, '-', input=source)
    return test


def agrees(check, earlier):
    def test():
        try:
            check(earlier, INCLUDE)
        except tap.Failed as problem:
            raise tap.Failed(str(problem) + layout.renewal(earlier, INCLUDE))
    return test


def the_gathering_header_has_all():
    gathered = tap.read(INCLUDE, 'palaver', 'palaver.h')
    for header in headers:
        tap.check(header == 'palaver.h' or '"palaver/%s"' % header in gathered,
                  "palaver.h does not include '%s'" % header)


headers = sorted(os.path.basename(path) for path in glob.glob(INCLUDE + '/palaver/*.h'))
tests = [('palaver.h gathers all headers', the_gathering_header_has_all)]
for name, options in COMPILERS:
    if shutil.which(name):
        tests += [('%s alone with %s' % (header, name), compiles(name, options, header))
                  for header in headers]
for earlier in sorted(glob.glob(os.path.join(sys.argv[1], 'tests', 'data', 'include-*'))):
    version = os.path.basename(earlier)[len('include-'):]
    for name, check in [('structs and enums are those of', layout.same_layout),
                        ('new members take reserved room of', layout.only_in_reserved_room),
                        ('functions are those of', layout.same_functions)]:
        tests.append(('%s %s' % (name, version), agrees(check, earlier)))
tap.main(tests)
