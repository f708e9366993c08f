"""test_readme.py - the documents are true: their commands print what the documents show.

    test_readme.py SOURCE_ROOT BUILD_ROOT

Every ```console block of README.md and docs/ is run, command by command, in an empty directory
per document where build/ is the build and the examples lie; its output must be the one shown,
but for ids, times, durations and counts of tokens. README.md shows examples/embed.c as it is,
docs/write-a-tool-server.md examples/tool_server.py, docs/limits.md every limit with its value, and
links lead to files. Every ```yaml block is a valid configuration, except for those of other
programs.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
BLOCK = re.compile(r'^```(\w+)\n(.*?)^```$', re.M | re.S)
FOREIGN = ('bootstrap:', '# prometheus.yml')  # of Patroni and Prometheus
# Values that differ from run to run are removed from both sides.
VARYING = [
    (re.compile(r'\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b'), 'ID'),
    (re.compile(r'\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?'), 'TIME'),
    (re.compile(r'\b(?:just now|now|\d+ (?:s|min|h) ago)\b'), 'AGO'),
    (re.compile(r'"(\w+_at|id|updated)":\d+'), r'"\1":0'),
    (re.compile(r'\b\d+(\.\d+)? (ms|s)\b'), 'DURATION'),
    (re.compile(r'\b\d+(\.\d+)? (bytes|KB|MB|KiB|MiB)\b'), 'SIZE'),
    (re.compile(r'\b\d[\d,]* tokens\b'), 'N tokens'),  # builds without vocabularies estimate
    (re.compile(r' +'), ' '),
]


def plain(text):
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.rstrip('\n').split('\n')]


def steps(block):
    """(command, expected output) pairs; a command continues after a backslash."""
    found = []
    lines = iter(block.rstrip('\n').split('\n'))
    for line in lines:
        if not line.startswith('$ '):
            tap.check(found, "a console block begins with '%s'" % line)
            found[-1][1].append(line)
            continue
        command = line[2:]
        while command.endswith('\\'):
            command += '\n' + next(lines)
        found.append((command, []))
    return found


def environment():
    return dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, 'src'), LC_ALL='C.UTF-8',
                PKG_CONFIG_PATH=os.path.join(BUILD, 'meson-uninstalled'), TZ='UTC',
                XDG_CONFIG_HOME='/nonexistent', XDG_DATA_HOME='/dev/null')


def play(blocks):
    with tempfile.TemporaryDirectory() as place:
        os.symlink(BUILD, os.path.join(place, 'build'))
        os.mkdir(os.path.join(place, 'palaver-data'))
        for path in glob.glob(os.path.join(SOURCE, 'examples', '*.[cp]*')):
            shutil.copy(path, place)
        for command, expected in (step for block in blocks for step in steps(block)):
            done = subprocess.run(['bash', '-c', command], cwd=place, env=environment(),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, universal_newlines=True, timeout=60)
            shown = '\n'.join(expected)
            tap.check(plain(done.stdout) == plain(shown),
                      '$ %s\n(exit %d)\n%s--- shown as\n%s'
                      % (command, done.returncode, done.stdout, shown))


def console_test(path):
    return lambda: play([text for kind, text in BLOCK.findall(tap.read(path))
                         if kind == 'console'])


def configurations_are_valid(path):
    def test():
        for kind, text in BLOCK.findall(tap.read(path)):
            if kind != 'yaml' or text.startswith(FOREIGN):
                continue
            with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
                file.write(text)
                file.flush()
                done = subprocess.run([os.path.join(BUILD, 'palaver'), 'config', 'check', file.name],
                                      env=dict(environment(), MAPS_SECRET='x'), timeout=60,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      universal_newlines=True)
            tap.check(done.returncode == 0, '%s\n%s' % (text, done.stdout))
    return test


def shows(document, example):
    def test():
        shown = [text for _, text in BLOCK.findall(tap.read(SOURCE, document))]
        tap.check(tap.read(SOURCE, 'examples', example) in shown,
                  'no block of %s is examples/%s' % (document, example))
    return test


def in_words(name, value):
    """As the table shows it: 16 MiB, 24 h, 10,000."""
    if '_MS' in name:
        return '%d h' % (value // 3600000) if value >= 3600000 else '%d s' % (value // 1000)
    if name.endswith('_US'):
        return '%d s' % (value // 1000000)
    if '_S_' in name:
        return '%s days' % format(value // 86400, ',')
    for unit, size in ('GiB', 1 << 30), ('MiB', 1 << 20), ('KiB', 1 << 10):
        if re.search('_(BYTES|LEN)(_|$)', name) and value >= size:
            return '%d %s' % (value // size, unit)
    return format(value, ',')


def defined(*path):
    """The limits of a header, as the table shows them."""
    found = re.findall(r'^#define (PAL_\w+) ([^/\n]+)', tap.read(SOURCE, *path), re.M)
    return {name: in_words(name, eval(re.sub(r'\(size_t\)|(?<=\d)u', '', text)))
            for name, text in found if re.fullmatch(r'[\d\s.()*<u]+', text.replace('(size_t)', ''))}


def all_limits_are_shown():
    shown = dict(re.findall(r'^\| `(PAL_\w+)` \| ([^|]+?) \|',
                            tap.read(SOURCE, 'docs', 'limits.md'), re.M))
    limits = {**defined('include', 'palaver', 'limits.h'),
              **defined('src', 'server', 'server_limits.h')}
    for name, value in limits.items():
        tap.check(shown.pop(name, None) == value, "'%s' is not shown as '%s'" % (name, value))
    for path in glob.glob(os.path.join(SOURCE, 'src', '**', '*.h'), recursive=True):
        for name, value in defined(path).items():
            tap.check(shown.pop(name, value) == value, "'%s' is not shown as '%s'" % (name, value))
    tap.check(not shown, 'shown, but no limit: %s' % ', '.join(shown))


def limits_of_files_are_true():
    """The limits that are used in one file: each row names the file, the limit and its value."""
    rows = re.findall(r'^\| `(\w+\.c)` \| `(\w+)` \| ([^|]+?) \|',
                      tap.read(SOURCE, 'docs', 'limits.md'), re.M)
    tap.check(len(rows) >= 10, 'only %d limits are shown with a file' % len(rows))
    for file, name, value in rows:
        paths = glob.glob(os.path.join(SOURCE, 'src', '**', file), recursive=True)
        tap.check(paths, "there is no file '%s'" % file)
        found = re.search(r'(?:#define %s |\b%s = )([\d\s()*<u]+)' % (name, name), tap.read(paths[0]))
        tap.check(found, "'%s' does not define %s" % (file, name))
        real = in_words(name, eval(re.sub(r'(?<=\d)u', '', found.group(1))))
        tap.check(real == value, "%s of '%s' is '%s', not '%s'" % (name, file, real, value))


def architecture_names_what_exists():
    """Each `function()` with its (`file`), and each path in ARCHITECTURE.md."""
    text = tap.read(SOURCE, 'ARCHITECTURE.md')
    files = {os.path.basename(path): path
             for path in glob.glob(os.path.join(SOURCE, 'src', '**', '*.[ch]'), recursive=True)}
    pairs = re.findall(r'((?:`\w+\(\)`(?:\s+and\s+)?)+)\s+\(`(\w+\.[ch])`\)', text)
    tap.check(len(pairs) >= 10, 'only %d functions are named with a file' % len(pairs))
    for functions, name in pairs:
        tap.check(name in files, "there is no file '%s'" % name)
        code = tap.read(files[name]) if name in files else ''
        for function in re.findall(r'\w+(?=\(\))', functions):
            tap.check(re.search(r'^\w[^;=]*\b%s\([^;]*?\)\s*\{' % function, code, re.M),
                      "'%s' does not define %s()" % (name, function))
    for path in re.findall(r'`((?:src|include|docs|tests|tools)/[\w./-]+)`', text):
        tap.check(os.path.exists(os.path.join(SOURCE, path)) or 'NAME' in path or
                  path == 'src/channel', "there is no '%s'" % path)


def links_lead_somewhere(path):
    def test():
        for target in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', tap.read(path)):
            tap.check(os.path.exists(os.path.join(os.path.dirname(path), target)),
                      "'%s' is not there" % target)
    return test


documents = sorted(glob.glob(SOURCE + '/*.md') + glob.glob(SOURCE + '/docs/**/*.md',
                                                           recursive=True))
tests = [('README.md shows examples/embed.c', shows('README.md', 'embed.c')),
         ('docs/write-a-tool-server.md shows examples/tool_server.py',
          shows('docs/write-a-tool-server.md', 'tool_server.py')),
         ('docs/limits.md shows the limits', all_limits_are_shown),
         ('docs/limits.md shows the limits of single files', limits_of_files_are_true),
         ('ARCHITECTURE.md names functions and files that exist',
          architecture_names_what_exists)]
for document in documents:
    name = os.path.relpath(document, SOURCE)
    tests.append(('the links of %s' % name, links_lead_somewhere(document)))
    if '```yaml' in tap.read(document):
        tests.append(('the configurations of %s' % name, configurations_are_valid(document)))
    if '```console' in tap.read(document):
        tests.append(('the commands of %s' % name, console_test(document)))
tap.main(tests)
