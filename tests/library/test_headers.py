"""test_headers.py - every public header compiles alone, as C11 and as C++, with both compilers.

    test_headers.py SOURCE_ROOT
"""
import glob
import os
import shutil
import sys

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
tap.main(tests)
