#!/usr/bin/env python3
"""tool_server.py - an MCP server with two tools. docs/write-a-tool-server.md explains it.

Each line of standard input is a JSON-RPC message, and each line of standard output is an answer.
Text for people goes to stderr."""
import json
import sys

TOOLS = [
    {'name': 'add', 'description': 'Adds two numbers.', 'annotations': {'readOnlyHint': True},
     'inputSchema': {'type': 'object', 'required': ['a', 'b'],
                     'properties': {'a': {'type': 'number'}, 'b': {'type': 'number'}}}},
    {'name': 'lookup', 'description': 'Returns the opening hours of a shop.',
     'annotations': {'readOnlyHint': True},
     'inputSchema': {'type': 'object', 'required': ['shop'],
                     'properties': {'shop': {'type': 'string', 'enum': ['bakery', 'library']}}}},
]
HOURS = {'bakery': '6 to 14'}


def call_tool(name, arguments):
    if name == 'add':
        return str(arguments['a'] + arguments['b'])
    if name == 'lookup':
        return HOURS[arguments['shop']]
    raise LookupError("there is no tool '%s'" % name)


def answer(method, params):
    if method == 'initialize':
        return {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}},
                'serverInfo': {'name': 'example', 'version': '1'}}
    if method == 'tools/list':
        return {'tools': TOOLS}
    if method == 'tools/call':
        try:
            text, failed = call_tool(params['name'], params['arguments']), False
        except Exception as problem:  # the model reads it, and can try something else
            text, failed = '%s: %s' % (type(problem).__name__, problem), True
        return {'content': [{'type': 'text', 'text': text}], 'isError': failed}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if 'id' not in message:
        continue  # a notification needs no answer
    reply = {'jsonrpc': '2.0', 'id': message['id']}
    result = answer(message['method'], message.get('params', {}))
    if result is None:
        reply['error'] = {'code': -32601, 'message': "unknown method '%s'" % message['method']}
    else:
        reply['result'] = result
    print(json.dumps(reply), flush=True)
