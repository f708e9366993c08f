#!/usr/bin/env python3
"""fake_mcp - an MCP server that behaves well or badly; the names of its tools tell how.

    fake_mcp.py [--http] [--era old|new|both] [--version V] [--silent] [--fatal] [--die-at-start FILE]
                [--garbage] [--no-changes] [--no-tasks] [--refuse-once] [--tasks FILE]

Uses standard input and output, or with --http a port of loopback, which it prints. --silent ignores
unknown requests, --fatal dies of them. --die-at-start exits while FILE has a line, and removes that line.
--refuse-once refuses the revision of the first request. --tasks keeps tasks in FILE, so that they survive the
server, and adds a line to FILE.runs for each tool that runs.
"""
import argparse
import base64
import json
import os
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NEW = '2026-07-28'
PAGE = 4
META = 'io.modelcontextprotocol/'
ANY = {'type': 'object'}
REGION = {'type': 'object', 'properties': {
    'region': {'type': 'string', 'x-mcp-header': 'Region'},
    'place': {'type': 'object', 'properties': {'floor': {'type': 'integer', 'x-mcp-header': 'Floor'}}}}}
WRONG = {'type': 'object', 'properties': {'a': {'type': 'number', 'x-mcp-header': 'A'}}}

options = None
extra_tools = []
FORM = {'mode': 'form', 'message': 'Who are you?', 'requestedSchema': {
    'type': 'object', 'required': ['name'], 'properties': {
        'name': {'type': 'string', 'minLength': 2},
        'color': {'type': 'string', 'enum': ['red', 'blue'], 'default': 'red'}}}}
PAGE_TO_OPEN = {'mode': 'url', 'message': 'Please log in', 'url': 'https://example.com/login',
                'elicitationId': 'e'}
replies = {}  # results of the client, by the id of our request
tasks = {}

facts = {'calls': 0, 'lists': 0, 'deleted': 0, 'canceled': [], 'cancels': 0, 'answers': {}, 'forgotten': 0}
lock = threading.Lock()
replied = threading.Condition(lock)


def tools():
    names = ['echo', 'kinds', 'structured', 'fails', 'error', 'die', 'twice', 'stranger', 'hang',
             'progress', 'huge', 'large', 'bytes', 'ask', 'change', 'facts', 'state', 'input', 'forget',
             'stream', 'broken', 'mute', 'elicit', 'page', 'sampling', 'withdraw', 'capabilities', 'nonsense', 'get.user', 'get_user', 'y' * 80 + '1',
             'y' * 80 + '2']
    listed = [{'name': name, 'description': 'does ' + name, 'inputSchema': ANY} for name in names]
    listed.append({'name': 'region', 'title': 'where', 'inputSchema': REGION})
    listed.append({'name': 'wrong', 'inputSchema': WRONG})
    listed.append({'name': 'task', 'inputSchema': ANY, 'execution': {'taskSupport': 'required'}})
    listed += [{'name': ''}, {'title': 'no name'}, 7, {'name': 'echo', 'description': 'again'}]
    return listed + [{'name': name, 'inputSchema': ANY} for name in extra_tools]


def text(value):
    return {'content': [{'type': 'text', 'text': value}]}


KINDS = {'content': [
    {'type': 'text', 'text': 'one'},
    {'type': 'image', 'data': base64.b64encode(b'\x89PNG').decode(), 'mimeType': 'image/png'},
    {'type': 'audio', 'data': 'UklG\nRg==', 'mimeType': 'audio/wav'},
    {'type': 'resource', 'resource': {'uri': 'file:///a', 'mimeType': 'text/plain', 'text': 'two'}},
    {'type': 'resource', 'resource': {'uri': 'file:///b', 'blob': 'AAEC'}},
    {'type': 'resource_link', 'uri': 'file:///c', 'name': 'c', 'description': 'the third'},
    {'type': 'image', 'data': '!!!', 'mimeType': 'image/png'},
    {'type': 'hologram', 'depth': 3},
]}


class Peer:
    """One client: `send` takes a message, `era` is its version of the protocol."""

    def __init__(self, send):
        self.send = send
        self.is_new = False

    def result(self, message, result):
        if self.is_new:
            result = {'resultType': 'complete', **result}
        self.send({'jsonrpc': '2.0', 'id': message['id'], 'result': result})

    def error(self, message, code, words, data=None):
        error = {'code': code, 'message': words}
        if data:
            error['data'] = data
        self.send({'jsonrpc': '2.0', 'id': message['id'], 'error': error})

    def take(self, message):
        """Handles a message; a response goes through `send`."""
        method = message.get('method')
        params = message.get('params') or {}
        if method is None:
            with lock:
                facts['answers'][str(message.get('id'))] = \
                    'result' if 'result' in message else message['error']['code']
                replies[message.get('id')] = message.get('result')
                replied.notify_all()
            return
        if method == 'notifications/cancelled':
            with lock:
                facts['canceled'].append(params['requestId'])
                facts['cancels'] += 1
        if 'id' not in message:
            return
        meta = params.get('_meta') or {}
        version = meta.get(META + 'protocolVersion')
        self.is_new = version is not None and options.era != 'old'
        if self.is_new and options.refuse_once:
            options.refuse_once = False
            self.error(message, -32022, 'Unsupported', {'supported': [options.version]})
        elif self.is_new and version != options.version and options.era == 'new':
            self.error(message, -32022, 'Unsupported', {'supported': [options.version]})
        elif method == 'server/discover' and self.is_new:
            self.result(message, {'supportedVersions': [options.version], 'capabilities': {
                'tools': {'listChanged': not options.no_changes}}})
        elif method == 'initialize' and options.era != 'new':
            facts['capabilities'] = params['capabilities']
            tasks_capability = {} if options.no_tasks else {'tasks': {'cancel': {}, 'requests': {
                'tools': {'call': {}}}}}
            self.result(message, {'protocolVersion': options.version, 'capabilities': {
                'tools': {'listChanged': not options.no_changes}, **tasks_capability},
                'serverInfo': {'name': 'fake', 'version': '1'}})
        elif method == 'tools/list':
            self.list(message, params)
        elif method == 'tools/call':
            self.call(message, params)
        elif method == 'subscriptions/listen' and self.is_new:
            self.listen(message)
        elif method.startswith('tasks/'):
            self.task(message, method, params)
        elif options.fatal:
            os._exit(9)
        elif not options.silent:
            self.error(message, -32601, 'Method not found')

    def list(self, message, params):
        facts['lists'] += 1
        at = int(params.get('cursor', '0'))
        page = {'tools': tools()[at:at + PAGE]}
        if at + PAGE < len(tools()):
            page['nextCursor'] = str(at + PAGE)
        self.result(message, page)

    def listen(self, message):
        self.listener = message['id']
        self.send({'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged', 'params': {
            '_meta': {META + 'subscriptionId': message['id']},
            'notifications': {'toolsListChanged': True}}})

    def changed(self):
        params = {'_meta': {META + 'subscriptionId': self.listener}} if self.is_new else {}
        self.send({'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed', 'params': params})

    def progress(self, params, step):
        self.send({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {
            'progressToken': params['_meta']['progressToken'], 'progress': step}})

    def ask(self, identity, params):
        """Asks the client, as servers of the old era do, and returns its reply."""
        self.send({'jsonrpc': '2.0', 'id': identity, 'method': 'elicitation/create', 'params': params})
        with lock:
            while identity not in replies:
                replied.wait()
            return replies.pop(identity)

    # A task ends when it was polled often enough. With `ask` it requires input first.

    def state_of(self, identity):
        task = tasks[identity]
        is_done = task['polls'] <= 0 and not task['ask']
        state = 'cancelled' if task['canceled'] else 'failed' if is_done and task['fail'] else \
            'completed' if is_done else 'input_required' if task['ask'] else 'working'
        task['polls'] -= 1
        return {'taskId': identity, 'status': state, 'createdAt': '2026-01-01T00:00:00Z',
                'lastUpdatedAt': '2026-01-01T00:00:00Z',
                **({'ttlMs': 60000, 'pollIntervalMs': 30} if self.is_new
                   else {'ttl': 60000, 'pollInterval': 30})}

    def create_task(self, message, arguments):
        identity = 'task-' + uuid.uuid4().hex
        tasks[identity] = {'polls': arguments.get('polls', 2), 'ask': arguments.get('ask', False),
                           'fail': arguments.get('fail', False), 'canceled': False, 'said': None}
        keep_tasks(ran=True)
        state = {**self.state_of(identity), 'status': 'working'}
        self.result(message, {'resultType': 'task', **state} if self.is_new else {'task': state})

    def task(self, message, method, params):
        load_tasks()
        identity = params['taskId']
        if identity not in tasks:
            self.error(message, -32602, 'unknown task')
            return
        task = tasks[identity]
        done = text('task done' + (': ' + json.dumps(task['said'], sort_keys=True) if task['said'] else ''))
        facts['last_task'] = method
        if method == 'tasks/cancel':
            task['canceled'] = True
            facts['task_cancels'] = facts.get('task_cancels', 0) + 1
            self.result(message, {})
        elif method == 'tasks/update':
            task['said'] = params['inputResponses']
            task['ask'] = False
            self.result(message, {})
        elif method == 'tasks/result' and task['fail']:
            self.error(message, -32603, 'task failed')
        elif method == 'tasks/result':
            if task['ask']:
                task['said'] = self.ask(identity, {**FORM, '_meta': {
                    META + 'related-task': {'taskId': identity}}})
                task['ask'] = False
                done = text('task done: ' + json.dumps(task['said'], sort_keys=True))
            self.result(message, done)
        else:
            state = self.state_of(identity)
            if self.is_new and state['status'] == 'completed':
                state['result'] = done
            elif self.is_new and state['status'] == 'failed':
                state['error'] = {'code': -32603, 'message': 'task failed'}
            elif self.is_new and state['status'] == 'input_required':
                state['inputRequests'] = {'who': {'method': 'elicitation/create', 'params': FORM}}
            self.result(message, state)
        keep_tasks()

    def call(self, message, params):
        name, arguments = params['name'], params['arguments']
        facts['calls'] += 1
        if name == 'echo':
            self.result(message, text(json.dumps(arguments, sort_keys=True)))
        elif name in ('get.user', 'get_user', 'y' * 80 + '1', 'y' * 80 + '2', 'new'):
            self.result(message, text(name))
        elif name == 'region':
            self.result(message, text(json.dumps(self.mcp_headers(), sort_keys=True)))
        elif name == 'kinds':
            self.result(message, KINDS)
        elif name == 'structured':
            self.result(message, {'content': [], 'structuredContent': {'n': 1}})
        elif name == 'fails':
            self.result(message, {**text('it is broken'), 'isError': True})
        elif name == 'error':
            self.error(message, -32602, 'no such thing')
        elif name == 'die':
            print('some words', 'out of cheese', sep='\n', file=sys.stderr, flush=True)
            os._exit(3)
        elif name == 'twice':
            self.result(message, text('first'))
            self.result(message, text('second'))
        elif name == 'stranger':
            self.result({'id': 999999}, text('not yours'))
            self.result({'id': str(message['id'])}, text('nor this'))
            self.send({'jsonrpc': '2.0', 'id': None, 'error': {'code': -32700, 'message': 'what?'}})
            self.result(message, text('yours'))
        elif name == 'hang':
            pass
        elif name == 'progress':
            for step in range(arguments['steps']):
                self.progress(params, step)
                time.sleep(arguments['ms'] / 1000)
            self.result(message, text('done'))
        elif name == 'huge':
            self.result(message, text('x' * (100 << 20)))
        elif name == 'large':
            self.result(message, {
                'values': {**text('x'), 'more': [1] * 600000},
                'text': {'content': [{'type': 'text', 'text': '\n' * (3 << 20)},
                                     {'type': 'text', 'text': 'y'}]},
                'parts': {'content': text('z')['content'] * 1500},
                'bytes': text('\udcff' * (2 << 20)),
            }[arguments['what']])
        elif name == 'bytes':
            self.result(message, text('a\udcff\udc80b'))
        elif name == 'ask':
            self.send({'jsonrpc': '2.0', 'id': 'p1', 'method': 'ping'})
            self.send({'jsonrpc': '2.0', 'id': 'r1', 'method': 'roots/list'})
            self.result(message, text('asked'))
        elif name == 'change':
            extra_tools.append('new')
            self.result(message, text('changed'))
            self.changed()
        elif name == 'facts':
            self.result(message, text(json.dumps(facts, sort_keys=True)))
        elif name == 'state':
            if params.get('requestState') == 'two':
                self.result(message, text('after two rounds'))
            else:
                state = 'two' if params.get('requestState') == 'one' else 'one'
                self.result(message, {'resultType': 'input_required', 'requestState': state})
        elif name == 'input':
            if 'inputResponses' in params:
                self.result(message, text(json.dumps([params['inputResponses'], params.get('requestState')],
                                                     sort_keys=True)))
            else:
                self.result(message, {'resultType': 'input_required', 'requestState': 'opaque \u00e4"',
                                      'inputRequests': {
                    'a': {'method': 'elicitation/create', 'params': FORM},
                    'b': {'method': 'elicitation/create', 'params': PAGE_TO_OPEN}}})
        elif name == 'sampling':
            self.result(message, {'resultType': 'input_required', 'inputRequests': {
                's': {'method': 'sampling/createMessage', 'params': {}}}})
        elif name == 'elicit':
            self.result(message, text(json.dumps(self.ask('e1', FORM), sort_keys=True)))
        elif name == 'withdraw':
            self.send({'jsonrpc': '2.0', 'id': 'w1', 'method': 'elicitation/create', 'params': FORM})
            self.send({'jsonrpc': '2.0', 'method': 'notifications/cancelled', 'params': {
                'requestId': 'w1'}})
            self.result(message, text('withdrawn'))
        elif name == 'page':
            if facts.get('paged'):
                self.result(message, text('logged in'))
            else:
                facts['paged'] = True
                self.error(message, -32042, 'log in first', {'elicitations': [PAGE_TO_OPEN]})
        elif name == 'capabilities':
            self.result(message, text(json.dumps(params['_meta'].get(
                META + 'clientCapabilities', facts.get('capabilities')), sort_keys=True)))
        elif name == 'task':
            self.create_task(message, arguments)
        elif name == 'mute':
            self.send({'jsonrpc': '2.0', 'id': message['id']})
        elif name == 'nonsense':
            self.result(message, {'resultType': 'poem'})
        else:
            self.special(message, name)

    def special(self, message, name):
        self.error(message, -32602, 'only over HTTP: ' + name)

    def mcp_headers(self):
        return {}


def load_tasks():
    if options.tasks and os.path.exists(options.tasks):
        with open(options.tasks, encoding='utf-8') as file:
            tasks.update(json.load(file))


def keep_tasks(ran=False):
    if not options.tasks:
        return
    with open(options.tasks + '.new', 'w', encoding='utf-8') as file:
        json.dump(tasks, file)
    os.replace(options.tasks + '.new', options.tasks)
    if ran:
        with open(options.tasks + '.runs', 'a', encoding='utf-8') as file:
            file.write('run\n')


# ---- Standard input and output ----

def write_line(message):
    line = json.dumps(message, ensure_ascii=False)
    if message.get('id') is not None and options.garbage:
        line = 'INFO: answering\n\n{"half":\n[1,2]\n"text"\n' + line
    with lock:
        sys.stdout.buffer.write(line.encode('utf-8', 'surrogateescape') + b'\n')
        sys.stdout.buffer.flush()


def serve_stdio():
    peer = Peer(write_line)
    for line in sys.stdin:
        message = json.loads(line)
        if (message.get('params') or {}).get('name') in ('progress', 'elicit') or \
                message.get('method') == 'tasks/result':
            threading.Thread(target=peer.take, args=(message,), daemon=True).start()
        else:
            peer.take(message)


# ---- HTTP ----

sessions = set()
listeners = []
kept = {}  # what a broken stream would have said, by the id of its last event


class Handler(BaseHTTPRequestHandler, Peer):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def mcp_headers(self):
        return {name: value for name, value in self.seen.items() if name.startswith('mcp-')}

    def plain(self, code, message=None, more=()):
        body = json.dumps(message).encode('utf-8', 'surrogateescape') if message else b''
        self.send_response(code)
        for name, value in more:
            self.send_header(name, value)
        if message:
            self.send_header('Content-Type', 'application/json; charset=utf-8')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def change_early(self):
        """No client listens yet, so there is no client to notify."""
        if options.change_early and not extra_tools:
            extra_tools.append('new')

    def begin_stream(self):
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        self.is_stream = True

    def event(self, message, event_id=None):
        data = ('id: %s\n' % event_id if event_id else '') + 'data: ' + \
            (json.dumps(message) if message is not None else '') + '\n\n'
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data.encode()))
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b'0\r\n\r\n')
        self.wfile.flush()

    def answer(self, message):
        if self.is_stream:
            self.event(message)
        elif 'method' in message:
            self.begin_stream()
            self.event(message)
        elif self.is_done:
            pass
        else:
            self.is_done = True
            code = {-32022: 400, -32020: 400, -32601: 404}.get(
                (message.get('error') or {}).get('code'), 200) if self.is_new else 200
            self.plain(code, message, self.session_headers)

    def changed(self):
        while not listeners:  # whoever comes to listen later would never know
            time.sleep(0.01)
        for listener in list(listeners):
            try:
                Peer.changed(listener)
            except OSError:
                listeners.remove(listener)

    def session_is_good(self):
        return options.era == 'new' or self.seen.get('mcp-session-id') in sessions

    def handle_one_request(self):
        self.is_stream = self.is_done = self.is_new = False
        self.session_headers = []
        self.listener = None
        BaseHTTPRequestHandler.handle_one_request(self)

    def parse_request(self):
        good = BaseHTTPRequestHandler.parse_request(self)
        if good:
            self.seen = {name.lower(): value for name, value in self.headers.items()}
        return good

    def check_new(self, message):
        meta = (message.get('params') or {}).get('_meta') or {}
        if META + 'protocolVersion' not in meta:
            return None
        params = message['params']
        wanted = {'mcp-protocol-version': meta[META + 'protocolVersion'],
                  'mcp-method': message['method']}
        if message['method'] == 'tools/call':
            wanted['mcp-name'] = params['name']
            region = params['arguments'].get('region')
            if region is not None:
                wanted['mcp-param-region'] = region
        elif message['method'].startswith('tasks/'):
            wanted['mcp-name'] = params['taskId']
        for name, value in wanted.items():
            found = self.seen.get(name, '')
            if found.startswith('=?base64?'):
                found = base64.b64decode(found[9:-2]).decode()
            if found != value:
                return '%s is %r' % (name, found)
        return None

    def do_POST(self):
        length = int(self.seen.get('content-length', '0'))
        message = json.loads(self.rfile.read(length))
        self.send = self.answer
        wrong = self.check_new(message) if options.era != 'old' else None
        is_hello = message.get('method') in ('initialize', 'server/discover')
        if wrong:
            self.plain(400, {'jsonrpc': '2.0', 'id': message['id'],
                             'error': {'code': -32020, 'message': wrong}})
        elif options.era == 'old' and not is_hello and not self.session_is_good():
            self.plain(404)
        elif options.era == 'old' and message.get('method') == 'server/discover':
            self.plain(400, {'jsonrpc': '2.0', 'id': None, 'error': {
                'code': -32000, 'message': 'Bad Request: Server not initialized'}})
        elif 'id' not in message or 'method' not in message:
            self.take(message)
            self.plain(202)
        else:
            if message['method'] == 'initialize':
                session = uuid.uuid4().hex
                sessions.add(session)
                self.session_headers = [('Mcp-Session-Id', session)]
            self.take(message)
            if self.is_stream and not self.listener:
                self.end_stream()

    def special(self, message, name):
        if name == 'forget':
            sessions.clear()
            facts['forgotten'] += 1
            self.result(message, text('who are you?'))
        elif name == 'stream':
            self.begin_stream()
            self.event(None, 'prime')
            self.progress(message['params'], 1)
            self.result(message, text('streamed'))
        elif name == 'broken':
            self.begin_stream()
            self.event(None, 'b1')
            kept['b1'] = {'jsonrpc': '2.0', 'id': message['id'], 'result': text('mended')}
        else:
            self.error(message, -32602, 'what?')

    def listen(self, message):
        self.change_early()
        self.begin_stream()
        Peer.listen(self, message)
        listeners.append(self)
        self.wait_for_end()

    def do_GET(self):
        self.send = self.answer
        last = self.seen.get('last-event-id')
        if options.era == 'new' or options.no_changes and not last:
            self.plain(405)
        elif not self.session_is_good():
            self.plain(404)
        elif last:
            self.begin_stream()
            self.event(kept.pop(last))
            self.end_stream()
        else:
            self.change_early()
            self.begin_stream()
            self.listener = 'get'
            listeners.append(self)
            self.wait_for_end()

    def wait_for_end(self):
        while self in listeners:
            time.sleep(0.05)

    def do_DELETE(self):
        sessions.discard(self.seen.get('mcp-session-id'))
        facts['deleted'] += 1
        self.plain(200)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores clients that have left."""


def serve_http():
    server = Server(('127.0.0.1', 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', action='store_true')
    parser.add_argument('--era', default='old')
    parser.add_argument('--version', default=None)
    for flag in ('silent', 'fatal', 'garbage', 'no-changes', 'change-early', 'no-tasks', 'refuse-once'):
        parser.add_argument('--' + flag, action='store_true')
    parser.add_argument('--tasks')
    parser.add_argument('--die-at-start')
    options = parser.parse_args()
    options.version = options.version or (NEW if options.era == 'new' else '2025-11-25')
    if options.die_at_start:
        with open(options.die_at_start, encoding='utf-8') as file:
            lines = file.readlines()
        with open(options.die_at_start, 'w', encoding='utf-8') as file:
            file.writelines(lines[1:])
        if lines:
            print('not today', file=sys.stderr)
            sys.exit(1)
    serve_http() if options.http else serve_stdio()


main()
