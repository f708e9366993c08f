"""layout.py - compares the public headers with those of an earlier release: a program that was
compiled against the earlier headers must work with today's library. See
docs/decisions/011-struct-growth.md.
"""
import glob
import os
import re
import tempfile

import tap

PROGRAM = '''#include <stddef.h>
#include <stdio.h>
#include <palaver/palaver.h>
#define SHOW(type, member) printf("%%s.%%s %%zu %%zu\\n", #type, #member, \\
        offsetof(type, member), sizeof(((type *)0)->member))
int main(void)
{
%s
    return 0;
}
'''


# Structs that only the library makes, as arguments of callbacks. They can grow at their end.
ARGUMENTS = {'pal_event', 'pal_turn_end', 'pal_store_change', 'pal_store_finding',
             'pal_pruned_info'}


def text_of(include):
    """All headers without comments and directives."""
    text = ''
    for path in sorted(glob.glob(os.path.join(include, 'palaver', '*.h'))):
        text += re.sub(r'/\*.*?\*/', ' ', tap.read(path), flags=re.S) + '\n'
    return re.sub(r'^\s*#.*(?:\\\n.*)*', '', text, flags=re.M)


def block_end(text, at):
    """The position after the brace that closes the one at `at`."""
    depth = 0
    while True:
        depth += {'{': 1, '}': -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


def members_of(body, prefix=''):
    """The members in the body of a struct; those of an inner struct or union are 'outer.inner'."""
    names, at = [], 0
    while True:
        inner = re.compile(r'\s*(?:struct|union)\s*\{').match(body, at)
        if inner:
            end = block_end(body, inner.end() - 1)
            name, at = re.compile(r'\s*(\w+)\s*;').match(body, end), 0
            names.append(prefix + name.group(1))
            names += members_of(body[inner.end():end - 1], prefix + name.group(1) + '.')
            at = name.end()
            continue
        end = body.find(';', at)
        if end < 0:
            return names
        declaration = body[at:end]
        at = end + 1
        if 'PAL_RESERVED' in declaration:
            names.append(prefix + 'reserved')
            continue
        name = re.search(r'\(\*(\w+)\)\s*\(', declaration) or re.search(
            r'(\w+)\s*(?:\[[^]]*\]\s*)*$', declaration)
        names.append(prefix + name.group(1))


def structs_of(text):
    structs = {}
    for match in re.finditer(r'\bstruct\s+(pal_\w+)\s*\{', text):
        body = text[match.end():block_end(text, match.end() - 1) - 1]
        structs[match.group(1)] = members_of(body)
    return structs


def enumerators_of(text):
    return [name for body in re.findall(r'\benum\s+pal_\w+\s*\{(.*?)\}', text, flags=re.S)
            for name in re.findall(r'(\bPAL_\w+)\s*=', body)]


def measure(include, structs, enumerators):
    """The compiler's values for these names: a dict of name to offset, size or value."""
    lines = []
    for name, members in structs.items():
        lines.append('    printf("%s %%zu\\n", sizeof(%s));' % (name, name))
        lines += ['    SHOW(%s, %s);' % (name, member) for member in members]
    lines += ['    printf("%s %%d\\n", (int)%s);' % (name, name) for name in enumerators]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, 'measure')
        tap.run('gcc', '-std=c11', '-I', include, '-x', 'c', '-', '-o', program,
                input=PROGRAM % '\n'.join(lines))
        shown = tap.run(program)
    return dict(line.split(' ', 1) for line in shown.splitlines())


def is_reserved(member):
    return member.split('.')[-1] == 'reserved'


def renewal(earlier, today):
    """What to do about a break that is intended, as long as the version has not been released."""
    if '-%d.%d' % version_of(today) != os.path.basename(earlier)[len('include'):]:
        return ''
    return ('\nthis breaks programs that were compiled against tests/data/%s; if that is intended '
            'and the version is not released, say in CHANGES.md what they must change, and renew '
            'the copy: cp include/palaver/*.h tests/data/%s/palaver/'
            % (os.path.basename(earlier), os.path.basename(earlier)))


def version_of(include):
    text = tap.read(include, 'palaver', 'api.h')
    return tuple(int(re.search(r'PAL_VERSION_%s (\d+)' % part, text).group(1))
                 for part in ('MAJOR', 'MINOR'))


def same_layout(earlier, today):
    """Every struct keeps its size, every member its place and size, every enumerator its value. The
    arguments of callbacks may become larger."""
    before, now = text_of(earlier), text_of(today)
    structs, enumerators = structs_of(before), enumerators_of(before)
    tap.check(len(structs) > 80 and len(enumerators) > 100, 'the headers were not understood')
    used = {name: [member for member in members if not is_reserved(member)]
            for name, members in structs.items()}
    old, new = measure(earlier, used, enumerators), measure(today, used, enumerators)
    text = ["'%s' was %s and is %s" % (name, old[name], new[name])
            for name in old if old[name] != new[name] and
            not (name in ARGUMENTS and int(new[name]) > int(old[name]))]
    tap.check(not text, '\n'.join(text) + '\na new member takes room from PAL_RESERVED, which '
              'becomes smaller by the size of the member; nothing else changes')


def only_in_reserved_room(earlier, today):
    """A new member lies where the earlier header has reserved room, and not in padding before it,
    because a program need not have zeroed padding."""
    before, now = structs_of(text_of(earlier)), structs_of(text_of(today))
    old = measure(earlier, before, [])
    new = measure(today, {name: now[name] for name in before}, [])
    text = []
    for name, members in before.items():
        for member in set(now[name]) - set(members):
            outer = member.split('.')[:-1]
            room = '.'.join([name] + outer[:1] + ['reserved'])
            if room not in old:
                text.append("'%s.%s' is new in a struct without reserved room" % (name, member))
            elif int(new['%s.%s' % (name, member)].split()[0]) < int(old[room].split()[0]):
                text.append("'%s.%s' lies in padding before the reserved room; use a type of 8 "
                            "bytes for the first new member" % (name, member))
    tap.check(not text, '\n'.join(text))


# Structs that are complete: they have no room and never change.
COMPLETE = {'pal_str', 'pal_id', 'pal_error', 'pal_header', 'pal_pruned_part', 'pal_route_value',
            'pal_token_ids', 'pal_calibration'}


def all_have_room(earlier, today):
    """A struct that is newer than the earlier headers has reserved room."""
    before, now = structs_of(text_of(earlier)), structs_of(text_of(today))
    text = ["'%s' has no reserved room; end it with PAL_RESERVED(4) or more" % name
            for name, members in now.items()
            if name not in before and name not in COMPLETE and 'reserved' not in members]
    tap.check(not text, '\n'.join(text))


def same_functions(earlier, today):
    """Today's headers accept the earlier declarations of all functions."""
    declarations = re.findall(r'\bPAL_API\b[^;{]*;', text_of(earlier))
    tap.check(len(declarations) > 150, 'the headers were not understood')
    tap.run('gcc', '-std=c11', '-I', today, '-x', 'c', '-fsyntax-only', '-Werror', '-',
            input='#include <palaver/palaver.h>\n' + '\n'.join(declarations) + '\n')
