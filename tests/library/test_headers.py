"""test_headers.py - every public header compiles alone, as C11 and as C++, with both compilers; and
the headers agree with those of earlier releases, whose copies are in tests/data/include-VERSION.

    test_headers.py SOURCE_ROOT
"""
import glob
import os
import re
import shutil
import sys
import tempfile

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


def changed(edit):
    """The checks of a copy of today's headers whose turn.h `edit` changes, as a list of failures."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(INCLUDE, 'palaver'), os.path.join(folder, 'palaver'))
        path = os.path.join(folder, 'palaver', 'turn.h')
        text = edit(tap.read(path))
        with open(path, 'w') as file:
            file.write(text)
        for check in (layout.same_layout, layout.only_in_reserved_room, layout.same_functions):
            try:
                check(INCLUDE, folder)
            except tap.Failed as problem:
                problems.append(str(problem))
    return problems


def a_larger_struct_is_reported():
    problems = changed(lambda text: re.sub(r'(PAL_RESERVED\(\d+\);)(\n\} pal_turn_info;)',
                                           r'\1 uint64_t more;\2', text))
    tap.check(any("'pal_turn_info' was" in problem for problem in problems), str(problems))


def a_moved_member_is_reported():
    problems = changed(lambda text: re.sub(r'(typedef struct pal_turn_info \{)',
                                           r'\1 uint64_t more;', text))
    tap.check(any("'pal_turn_info.session' was" in problem for problem in problems), str(problems))


def a_member_in_reserved_room_is_accepted():
    def edit(text):
        return re.sub(r'PAL_RESERVED\((\d+)\);(\n\} pal_turn_info;)', lambda match:
                      'uint64_t more; PAL_RESERVED(%d);%s' % (int(match.group(1)) - 1,
                                                              match.group(2)), text)
    tap.check(not changed(edit), str(changed(edit)))


def an_argument_of_a_callback_can_grow_at_its_end():
    def edit(before):
        return lambda text: re.sub(r'(PAL_RESERVED\(\d+\);)(\n\} pal_event;)', before, text)
    tap.check(not changed(edit(r'\1 uint64_t more;\2')), 'growth is refused')
    problems = changed(edit(r'\2'))
    tap.check(any("'pal_event' was" in problem for problem in problems), str(problems))


def the_gathering_header_has_all():
    gathered = tap.read(INCLUDE, 'palaver', 'palaver.h')
    for header in headers:
        tap.check(header == 'palaver.h' or '"palaver/%s"' % header in gathered,
                  "palaver.h does not include '%s'" % header)


headers = sorted(os.path.basename(path) for path in glob.glob(INCLUDE + '/palaver/*.h'))
tests = [('palaver.h gathers all headers', the_gathering_header_has_all),
         ('a larger struct is reported', a_larger_struct_is_reported),
         ('a moved member is reported', a_moved_member_is_reported),
         ('a member in reserved room is accepted', a_member_in_reserved_room_is_accepted),
         ('an argument of a callback can grow at its end',
          an_argument_of_a_callback_can_grow_at_its_end)]
for name, options in COMPILERS:
    if shutil.which(name):
        tests += [('%s alone with %s' % (header, name), compiles(name, options, header))
                  for header in headers]
for earlier in sorted(glob.glob(os.path.join(sys.argv[1], 'tests', 'data', 'include-*'))):
    version = os.path.basename(earlier)[len('include-'):]
    for name, check in [('structs and enums are those of', layout.same_layout),
                        ('new members take reserved room of', layout.only_in_reserved_room),
                        ('new structs have reserved room since', layout.all_have_room),
                        ('functions are those of', layout.same_functions)]:
        tests.append(('%s %s' % (name, version), agrees(check, earlier)))
tap.main(tests)
