"""binding.py - runs a streamed turn from Python, in an event loop of the program.

    python3 binding.py libpalaver.so [TEXT]

It uses ctypes and palaver/binding.h, whose functions take and return JSON. The provider "echo" is
built in and repeats the message. For a real model, put its provider into CONFIG.
"""
import ctypes
import json
import selectors
import sys

CONFIG = 'providers:\n  - {name: echo, kind: echo}\n'


class PalaverError(Exception):
    def __init__(self, error):
        super().__init__(error['error'])
        self.code = error['code']


class Palaver:
    """A store and a runtime. Texts in and out are JSON; Python sees dictionaries."""

    def __init__(self, library, store, config):
        self.library = ctypes.CDLL(library)
        for name in ('version', 'open', 'close', 'free', 'create', 'find', 'list', 'append', 'load',
                     'plan', 'start', 'watch', 'results', 'cancel', 'fd', 'next'):
            getattr(self.library, 'pal_binding_' + name).restype = ctypes.c_int
        self.library.pal_binding_close.restype = None
        self.library.pal_binding_free.restype = None
        self.library.pal_binding_close.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.library.pal_binding_free.argtypes = [ctypes.c_void_p]
        self.library.pal_binding_fd.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_void_p()
        self.result('open', store.encode(), config.encode(), None, ctypes.byref(self.handle))

    def result(self, name, *arguments):
        """Calls a function, frees its JSON, and returns what the JSON says."""
        text = ctypes.c_void_p()
        function = getattr(self.library, 'pal_binding_' + name)
        status = function(*arguments, ctypes.byref(text))
        try:
            value = json.loads(ctypes.string_at(text.value)) if text.value else None
        finally:
            self.library.pal_binding_free(text)
        if status != 0:
            raise PalaverError(value or {'error': 'out of memory', 'code': 'no_memory'})
        return value

    def call(self, name, *arguments):
        """Texts are passed unchanged, and dictionaries as JSON."""
        return self.result(name, self.handle, *[
            (a if isinstance(a, str) else json.dumps(a)).encode() for a in arguments])

    def fd(self):
        return self.library.pal_binding_fd(self.handle)

    def events(self):
        """All events that wait now."""
        while True:
            event = self.result('next', self.handle)
            if event is None:
                return
            yield event

    def close(self):
        self.library.pal_binding_close(self.handle, 1000)


def main():
    text = sys.argv[2] if len(sys.argv) > 2 else 'Is anybody there?'
    palaver = Palaver(sys.argv[1], 'memory:', CONFIG)
    session = palaver.call('create', {'key': 'demo', 'title': 'A talk'})['session_id']

    # The message is durable when this returns. The answer arrives as events.
    turn = palaver.call('start', 'demo', {'message': text})['turn_id']

    # Any event loop will do: asyncio has add_reader() for such a file descriptor.
    selector = selectors.DefaultSelector()
    selector.register(palaver.fd(), selectors.EVENT_READ)
    state = None
    while state is None:
        selector.select()
        for event in palaver.events():
            if event['turn_id'] == turn and event['event'] == 'text':
                print(event['data']['text'], end='', flush=True)
            if event['turn_id'] == turn and event['event'] == 'ended':
                state = event['data']['state']
    selector.close()
    print('\n(%s)' % state)

    for message in palaver.call('load', session, {'limit': 10})['messages']:
        print('%d %s' % (message['seq'], message['role']))
    try:
        palaver.call('find', 'nobody')
    except PalaverError as error:
        print('%s: %s' % (error.code, error))
    palaver.close()


if __name__ == '__main__':
    main()
