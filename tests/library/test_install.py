"""test_install.py - after `meson install`, a program can use the library with pkg-config alone.

    test_install.py SOURCE_ROOT BUILD_ROOT
"""
import glob
import os
import sys
import tempfile

import tap

SOURCE, BUILD = sys.argv[1:3]
EMBED = os.path.join(SOURCE, 'examples', 'embed.c')
SAID = ' 1 user: Where is my parcel?\n 2 assistant: It comes on Friday.\n'


def find(pattern):
    found = glob.glob(os.path.join(stage, '**', pattern), recursive=True)
    tap.check(found, "'%s' was not installed" % pattern)
    return found[0]


def pkg_config(*options):
    env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=stage,
               PKG_CONFIG_PATH=os.path.dirname(find('palaver.pc')))
    return tap.run('pkg-config', *options, 'palaver', env=env).split()


def installs():
    tap.run('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', stage)
    for name in ('libpalaver.so', 'libpalaver.a', 'palaver.pc', 'palaver/palaver.h',
                 'bin/palaver', 'palaver.1', 'systemd/system/palaver.service',
                 'bash-completion/completions/palaver', 'site-functions/_palaver',
                 'vendor_completions.d/palaver.fish', 'doc/palaver/LICENSE',
                 'doc/palaver/docs/server.md'):
        find(name)
    for name in ('completions/palaver', '_palaver', 'palaver.fish'):
        with open(find(name)) as script:
            tap.check('completion words' in script.read(), "'%s' calls the command" % name)


def headers_are_all_there():
    installed = os.listdir(os.path.dirname(find('palaver/palaver.h')))
    kept = [name for name in os.listdir(os.path.join(SOURCE, 'include', 'palaver'))
            if name.endswith('.h')]
    tap.check(sorted(installed) == sorted(kept), 'installed: %s' % sorted(installed))


def builds_and_runs(*flags):
    program = os.path.join(stage, 'embed')
    tap.run('gcc', '-Wall', '-Wextra', '-Werror', EMBED, '-o', program, *flags)
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(find('libpalaver.so')))
    store = tempfile.mkdtemp(dir=stage)
    said = tap.run(program, env=env, cwd=store)
    tap.check(said == SAID, said)
    said = tap.run(program, env=env, cwd=store)
    tap.check(said.startswith(SAID) and ' 4 assistant' in said, said)


def runs_a_batch():
    program = os.path.join(stage, 'batch')
    tap.run('gcc', '-Wall', '-Wextra', '-Werror', os.path.join(SOURCE, 'examples', 'batch.c'),
            '-o', program, *pkg_config('--cflags', '--libs'))
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(find('libpalaver.so')))
    said = tap.run(program, env=env, cwd=tempfile.mkdtemp(dir=stage))
    tap.check(said == ''.join('operation %d: ok \n' % i for i in (1, 2, 3)), said)


def embeds_shared():
    builds_and_runs(*pkg_config('--cflags', '--libs'))


def embeds_static():
    flags = [find('libpalaver.a') if flag == '-lpalaver' else flag
             for flag in pkg_config('--cflags', '--libs', '--static')]
    builds_and_runs(*flags)


def command_runs():
    said = tap.run(find('bin/palaver'), '--version')
    version = pkg_config('--modversion')[0]
    tap.check(version in said, "'%s' is not in: %s" % (version, said))


with tempfile.TemporaryDirectory() as stage:
    tap.main([
        ('installs library, headers, command and manual', installs),
        ('all public headers are installed', headers_are_all_there),
        ('a program builds against the shared library', embeds_shared),
        ('a program builds against the static library', embeds_static),
        ('a program applies a batch', runs_a_batch),
        ('the installed command runs', command_runs),
    ])
