"""test_lint.py - the tree follows the rules of tools/lint, and lint finds each kind of violation.

    test_lint.py SOURCE_ROOT
"""
import os
import subprocess
import sys
import tempfile

import tap

ROOT = sys.argv[1]
HEAD = '/* %s - is here to be looked at. */\n'

# Name of the rule, file, its text after the head line, and the output of lint; None: no output.
CASES = [
    ('good code passes', 'src/store/store_x.c',
     '#include "store/store_y.h"\n#include "base/buf.h"\n#include "palaver/store.h"\n'
     '#include <sqlite3.h>\nconst char *x = "// malloc(1)"; /* free() */\n', None),
    ('a folder may not use one above it', 'src/base/up.c', '#include "store/store_x.h"\n',
     "base/ may not use 'store/store_x.h'"),
    ('siblings may not use each other', 'src/store/store_x.c', '#include "route/route.h"\n',
     "store/ may not use 'route/route.h'"),
    ('the command is a stranger to the store', 'src/cli/cmd/cmd_x.c', '#include "store/store_x.h"\n',
     "cli/ may not use 'store/store_x.h'"),
    ('angle brackets are no way around', 'src/cli/cmd/cmd_x.c', '#include <store/store_x.h>\n',
     "cli/ may not use 'store/store_x.h'"),
    ('the command may use base and dialect', 'src/cli/cmd/cmd_x.c',
     '#include "base/log.h"\n#include "dialect/dialect.h"\n#include <palaver/store.h>\n', None),
    ('a name without its folder is refused', 'src/store/store_x.c', '#include "store_y.h"\n',
     "'store_y.h' does not name its folder"),
    ('public headers use public headers only', 'include/palaver/x.h', '#include "base/buf.h"\n',
     "may include only palaver/, not 'base/buf.h'"),
    ('examples use public headers only', 'examples/x.c', '#include "base/buf.h"\n',
     "may include only palaver/, not 'base/buf.h'"),
    ('sqlite is the store\'s', 'src/cli/cmd/cmd_x.c', '#include <sqlite3.h>\n',
     "only store* includes 'sqlite3.h'"),
    ('utf8proc is base\'s', 'src/route/route_x.c', '#include <utf8proc.h>\n',
     "only base* includes 'utf8proc.h'"),
    ('microhttpd is the http folder\'s', 'src/server/server_x.c', '#include <microhttpd.h>\n',
     "only server/http/* includes 'microhttpd.h'"),
    ('files begin with their folder\'s noun', 'src/store/helper.c', '', 'begins with none of'),
    ('the noun is that of the innermost folder', 'src/store/sqlite/store_x.c', '',
     'begins with none of: sqlite'),
    ('a backend\'s file carries the backend\'s noun', 'src/store/sqlite/sqlite_x.c', '', None),
    ('an API\'s file carries the API\'s noun', 'src/server/api/openai/openai_x.c', '',
     'begins with none of: api_openai'),
    ('a linked function carries the noun of its folder or file', 'src/route/route_x.c',
     'void pal_y_do(int a,\n        int b)\n{\n}\n',
     "'pal_y_do' has neither the noun of its folder nor of its file"),
    ('a linked function has a user', 'src/route/route_x.c', 'int pal_x_do(void)\n{\n}\n',
     "'pal_x_do' is used by no other file; make it static"),
    ('a static function needs no noun', 'src/route/route_x.c',
     'static int pal_y_do(void)\n{\n}\n', None),
    ('a type has one definition', 'src/base/x.h',
     'typedef struct {\n} pal_x;\ntypedef enum {\n} pal_x;\n',
     "type 'pal_x' is defined in 'src/base/x.h' too"),
    ('// comments are refused', 'src/base/x.c', 'int x; // why\n', 'a // comment'),
    ('the heap has one door', 'src/base/x.c', 'p = malloc(3);\n',
     'malloc() is banned outside src/base/memory.c'),
    ('releasing has the same door', 'src/base/x.c', '    free(p);\n', 'free() is banned'),
    ('pal_malloc and members named free pass', 'src/base/x.c',
     'p = pal_malloc(3);\nx->free(p);\ny.free(p);\n', None),
    ('strcpy is banned everywhere', 'tests/unit/test_x.c', 'strcpy(a, b);\n',
     'strcpy() is banned'),
    ('atoi is banned', 'src/base/x.c', 'n = atoi(a);\n', 'atoi() is banned'),
    ('tests may use atoi', 'tests/unit/test_x.c', 'n = atoi(a);\n', None),
    ('a check has one condition', 'tests/unit/test_x.c', '    CHECK(a == b(1) && c);\n',
     'two conditions in one CHECK'),
    ('two checks in one condition pass', 'tests/unit/test_x.c',
     '    if (CHECK(a(1)) && CHECK(b) && c)\n', None),
    ('sprintf is banned', 'src/base/x.c', 'sprintf(a, "x");\n', 'sprintf() is banned'),
    ('long lines are refused', 'src/base/x.c', '/* %s */\n' % ('x' * 100), 'columns'),
    ('a long line of a test is an outlier', 'tests/unit/test_x.c', '/* %s */\n' % ('x' * 100),
     'look again: tests/unit/test_x.c: 1 lines over 100 columns'),
    ('the page makes no HTML of texts', 'src/page/x.js', 'element.innerHTML = text;\n',
     'makes HTML or code of a text'),
    ('tabs are refused', 'src/base/x.c', '\tint x;\n', 'a tab'),
    ('blanks at the end are refused', 'src/base/x.c', 'int x; \n', 'blanks at the end'),
    ('a last line without end is refused', 'src/base/x.c', 'int x;', 'the last line has no end'),
    ('machine paths are refused', 'docs/x.md', 'see /' + 'root/x\n', 'a path of one machine'),
    ('unfinished work is refused', 'src/base/x.c', '/* TO' + 'DO: more */\n', 'left unfinished'),
    ('a long function is an outlier', 'src/base/x.c',
     'int f(void)\n{\n%s}\n' % ('    g();\n' * 61), 'look again: src/base/x.c:3: a function of 61'),
    ('a long file is an outlier', 'src/base/x.c', 'int x;\n' * 1000,
     'look again: src/base/x.c: 1001 lines'),
]


def lint(root):
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'lint'), root],
                          stdout=subprocess.PIPE, universal_newlines=True)
    return done.returncode, done.stdout


def write(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
        file.write(text)


def with_head(path, text):
    return (HEAD % os.path.basename(path) if path.endswith(('.c', '.h')) else '') + text


def case(path, text, expected):
    def test():
        with tempfile.TemporaryDirectory() as root:
            write(root, path, with_head(path, text))
            code, said = lint(root)
        if expected is None:
            tap.check((code, said) == (0, ''), 'exit %d: %s' % (code, said))
            return
        tap.check(expected in said, "'%s' is not in: %s" % (expected, said))
        tap.check(code == (0 if 'look again' in expected else 1), 'exit %d' % code)
    return test


def a_noun_and_a_user_are_enough():
    with tempfile.TemporaryDirectory() as root:
        for path, text in (('src/route/route_x.h', 'int pal_x_do(void);\n'),
                           ('src/route/route_x.c', 'int pal_x_do(void)\n{\n}\n')):
            write(root, path, with_head(path, text))
        said = lint(root)[1]
        write(root, 'tests/test_x.c', with_head('test_x.c', 'int y = pal_x_do();\n'))
        code, said_again = lint(root)
    tap.check("'pal_x_do' is used by no other file" in said, said)
    tap.check((code, said_again) == (0, ''), said_again)


def names_are_unique():
    with tempfile.TemporaryDirectory() as root:
        for path in 'src/base/map.c', 'src/message/map.c':
            write(root, path, with_head(path, ''))
        code, said = lint(root)
    tap.check(code == 1 and "has the name of 'src/base/map.c'" in said, said)


def folders_are_small():
    with tempfile.TemporaryDirectory() as root:
        for folder, end in ('src/base', '.c'), ('tests/server', '.test.mjs'), ('docs', '.md'):
            for number in range(31):
                path = '%s/x%d%s' % (folder, number, end)
                write(root, path, with_head(path, ''))
        code, said = lint(root)
    tap.check(code == 1 and 'src/base has more than 30 files' in said, said)
    tap.check('tests/server has more than 30 files' in said, said)
    tap.check(said.count('more than 30 files') == 2, said)


def a_public_header_may_share_its_name():
    with tempfile.TemporaryDirectory() as root:
        for path in 'include/palaver/map.h', 'src/map/map.h':
            write(root, path, with_head(path, ''))
        said = lint(root)[1]
        write(root, 'src/message/map.h', with_head('src/message/map.h', ''))
        code, said_again = lint(root)
    tap.check('has the name of' not in said, said)
    tap.check(code == 1 and "has the name of 'src/map/map.h'" in said_again, said_again)


def files_begin_with_what_they_are_for():
    with tempfile.TemporaryDirectory() as root:
        write(root, 'src/base/x.c', 'int x;\n')
        code, said = lint(root)
    tap.check(code == 1 and "does not begin with '/* x.c - " in said, said)


def the_tree_keeps_the_rules():
    code, said = lint(ROOT)
    sys.stdout.write(''.join('# %s\n' % line for line in said.splitlines()))
    tap.check(code == 0, 'see above')


tap.main([(name, case(*rest)) for name, *rest in CASES] + [
    ('a linked function needs a noun and a user', a_noun_and_a_user_are_enough),
    ('file names are unique', names_are_unique),
    ('folders are small', folders_are_small),
    ('a public header may share its name with a private one', a_public_header_may_share_its_name),
    ('files begin with what they are for', files_begin_with_what_they_are_for),
    ('the tree keeps the rules', the_tree_keeps_the_rules),
])
