"""test_binding.py - the functions of palaver/binding.h, called by examples/binding.py.

    test_binding.py SOURCE_ROOT LIBPALAVER_SO
"""
import ctypes
import os
import selectors
import sys
import tempfile

import tap

ROOT, LIBRARY = sys.argv[1:3]
sys.path.insert(0, os.path.join(ROOT, 'examples'))
sys.dont_write_bytecode = True
import binding  # noqa: E402


def equal(got, expected):
    tap.check(got == expected, '%r instead of %r' % (got, expected))


def opened(config=binding.CONFIG):
    return binding.Palaver(LIBRARY, 'memory:', config)


def opened_with_script():
    """The model calls a tool, and answers "Sunny." after its result."""
    with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as script:
        script.write('{"call":{"id":"c1","name":"weather","arguments":{}}}\n{"next":true}\n'
                     '{"text":"Sun"}\n{"text":"ny."}\n')
        script.flush()
        return opened('providers:\n  - {name: s, kind: script, path: "%s"}\n' % script.name)


def fails(code, text, function, *arguments):
    try:
        function(*arguments)
    except binding.PalaverError as error:
        equal(error.code, code)
        tap.check(text in str(error), "'%s' is not in: %s" % (text, error))
        return
    raise tap.Failed('it did not fail')


def events_until(palaver, turn, last):
    """The events of a turn up to the one with the name `last`."""
    events = []
    with selectors.DefaultSelector() as selector:
        selector.register(palaver.fd(), selectors.EVENT_READ)
        while not events or events[-1]['event'] != last:
            tap.check(selector.select(60), 'no event came')
            events += [event for event in palaver.events() if event['turn_id'] == turn]
    return events


def example_streams_a_turn():
    shown = tap.run(sys.executable, os.path.join(ROOT, 'examples', 'binding.py'), LIBRARY, 'Hello')
    equal(shown, "echo: Hello\n(done)\n1 user\n2 assistant\n"
                 "not_found: session 'nobody' does not exist\n")


def example_is_short():
    lines = tap.read(ROOT, 'examples', 'binding.py').count('\n')
    tap.check(lines <= 110, '%d lines' % lines)


def sessions_and_messages():
    palaver = opened()
    first = palaver.call('create', {'key': 'a', 'project': 'p', 'metadata': {'x': 1}})
    palaver.call('create', {'key': 'b'})
    again = palaver.call('create', {'key': 'a', 'or_find': True})
    equal(again['session_id'], first['session_id'])
    equal(palaver.call('find', first['session_id'])['metadata'], {'x': 1})
    page = palaver.call('list', {'limit': 1})
    equal([session['key'] for session in page['sessions']], ['b'])
    rest = palaver.call('list', {'limit': 1, 'cursor': page['cursor']})
    equal(([session['key'] for session in rest['sessions']], rest['has_more']), (['a'], False))
    appended = palaver.call('append', 'a', {'messages': [
        {'role': 'user', 'content': 'one'}, {'role': 'assistant', 'content': 'two'}]})
    equal([message['seq'] for message in appended['messages']], [1, 2])
    palaver.call('append', 'a', {'role': 'user', 'content': 'three'})
    loaded = palaver.call('load', 'a', {'limit': 2, 'from_end': True})
    equal([message['seq'] for message in loaded['messages']], [2, 3])
    equal(loaded['has_more'], True)
    plan = palaver.call('plan', 'a', {'message': 'four'})
    equal(plan['action'], 'send')
    palaver.close()


def errors_are_json():
    palaver = opened()
    palaver.call('create', {'key': 'a'})
    fails('conflict', "'a'", palaver.call, 'create', {'key': 'a'})
    fails('invalid', 'colour', palaver.call, 'create', {'colour': 1})
    fails('invalid', 'or_find', palaver.call, 'create', {'or_find': 1})
    fails('invalid', 'colour', palaver.call, 'list', {'colour': 1})
    fails('invalid', 'colour', palaver.call, 'start', 'a', {'colour': 1})
    fails('invalid', "'lane'", palaver.call, 'start', 'a', {'message': 'x', 'lane': 'fast'})
    fails('invalid', 'expected an object', palaver.call, 'list', '[]')
    fails('invalid', '', palaver.call, 'list', '{')
    fails('not_found', "session 'x'", palaver.call, 'append', 'x', {'role': 'user', 'content': ''})
    fails('not_found', 'turn', palaver.call, 'cancel', 'no-turn')
    fails('invalid', 'configuration:1', opened, 'no_such_key: 1\n')
    palaver.close()


def a_turn_with_a_tool():
    palaver = opened_with_script()
    palaver.call('create', {'key': 'a'})
    turn = palaver.call('start', 'a', {'message': 'Weather?', 'tools': [
        {'type': 'function', 'function': {'name': 'weather'}}]})
    equal(turn['watched'], True)
    events = events_until(palaver, turn['turn_id'], 'paused')
    call = events[-1]['data']['calls'][0]
    equal(call['name'], 'weather')
    palaver.call('results', turn['turn_id'], {'role': 'tool', 'parts': [
        {'type': 'tool_result', 'call_id': call['call_id'], 'text': 'sunny'}]})
    events = events_until(palaver, turn['turn_id'], 'ended')
    equal(events[-1]['data']['state'], 'done')
    equal(''.join(event['data']['text'] for event in events if event['event'] == 'text'), 'Sunny.')
    palaver.close()


def a_turn_can_be_canceled_and_read_again():
    palaver = opened_with_script()
    palaver.call('create', {'key': 'a'})
    turn = palaver.call('start', 'a', {'message': 'Weather?', 'tools': [
        {'type': 'function', 'function': {'name': 'weather'}}]})['turn_id']
    events_until(palaver, turn, 'paused')
    equal(palaver.call('cancel', turn)['turn_id'], turn)
    last = events_until(palaver, turn, 'ended')[-1]
    equal(last['data']['state'], 'canceled')
    palaver.result('watch', palaver.handle, turn.encode(), ctypes.c_uint64(last['id'] - 1))
    equal(events_until(palaver, turn, 'ended'), [last])
    palaver.close()


tap.main([
    ('the example streams a turn', example_streams_a_turn),
    ('the example is short', example_is_short),
    ('sessions and messages', sessions_and_messages),
    ('errors are JSON', errors_are_json),
    ('a turn with a tool', a_turn_with_a_tool),
    ('a turn can be canceled and read again', a_turn_can_be_canceled_and_read_again),
])
