// `palaver route`: the same answers as PicoClaw, the ways to pass input, and wrong input.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { palaver, assertFails, here } from './support.mjs';

const vectors = (name) =>
    JSON.parse(fs.readFileSync(path.join(here, '..', 'data', 'vectors', name), 'utf8'));
const cases = vectors('picoclaw_allocations.json').cases;

const route = (input, ...args) =>
    palaver(['route', ...args], { input: typeof input === 'string' ? input : JSON.stringify(input) });

function routed(input) {
    const result = route(input);
    assert.equal(result.code, 0, result.err);
    assert.equal(result.err, '');
    return JSON.parse(result.out);
}

const lines = (out) => out.trimEnd().split('\n').map((line) => JSON.parse(line));

// PicoClaw does not escape, so if a value contains a '
// ', its signature and key differ from ours.
const isOurs = (row) => !Object.values(row.input.context).some((text) => /[|%]/.test(text));

test('every test vector gives its route, alone and line by line', () => {
    let compared = 0;
    for (const row of cases) {
        const { matched_by: matchedBy, ...answer } = routed(row.input);
        assert.equal(matchedBy, 'default');
        if (isOurs(row)) {
            assert.deepEqual(answer, row.expect, row.note);
            compared++;
        } else {
            const { signature, session_key: key, ...rest } = answer;
            const { signature: theirs, session_key: theirKey, ...theirRest } = row.expect;
            assert.deepEqual(rest, theirRest, row.note);
            assert.notEqual(signature, theirs);
            assert.notEqual(key, theirKey);
        }
    }
    assert.ok(compared >= 13);

    const all = cases.map((row) => JSON.stringify(row.input)).join('\n');
    const answers = lines(route(all).out);
    assert.deepEqual(answers.map((answer) => answer.signature),
        cases.map((row) => routed(row.input).signature));
});

test('input can be rows, many lines, other line ends and a file', (t) => {
    const row = cases[0];
    const wanted = routed(row.input);
    assert.deepEqual(routed(row), wanted);
    assert.deepEqual(routed(JSON.stringify(row.input, null, 2)), wanted);
    const line = JSON.stringify(row.input);
    assert.deepEqual(lines(route(`\n${line}\r\n\n  \n${line}`).out), [wanted, wanted]);
    const file = path.join(fs.mkdtempSync('/tmp/palaver-route-'), 'in.jsonl');
    t.after(() => fs.rmSync(path.dirname(file), { recursive: true }));
    fs.writeFileSync(file, `${line}\n`);
    assert.deepEqual(lines(palaver(['route', file]).out), [wanted]);
});

test('rules, agents and dm_scope work as in PicoClaw', () => {
    const { dispatch_rules: rules, dm_scope_to_dimensions: scopes } = vectors('picoclaw_misc.json');
    for (const row of rules) {
        const answer = routed({ context: row.inbound, rules: row.rules, agents: row.agents });
        assert.equal(answer.scope.agent_id, row.agent, row.note);
        if (row.matched_by) assert.equal(answer.matched_by, row.matched_by);
        if (row.dimensions) assert.deepEqual(answer.scope.dimensions, row.dimensions);
        assert.deepEqual(routed({ inbound: row.inbound, dispatch_rules: row.rules,
            agents: row.agents.map((id) => ({ id: id.replace('*', ''), default: id.endsWith('*') })) }),
        answer);
    }
    const context = { channel: 'x', chat_id: 'c', sender_id: 's' };
    for (const row of scopes) {
        const answer = routed({ context, dm_scope: row.dm_scope, dimensions: row.explicit_dimensions });
        assert.deepEqual(answer.scope.dimensions, row.dimensions);
    }
});

test('an explicit key is used unchanged', () => {
    for (const row of vectors('picoclaw_misc.json').resolve_scope_key) {
        const answer = routed({ session_key: row.msg });
        const isOwn = row.out === row.msg;
        assert.equal(answer.explicit, isOwn ? true : undefined);
        assert.equal(answer.session_key, isOwn ? row.out : routed({}).session_key);
    }
});

test('a linked person has one session on all channels', () => {
    const at = (channel, sender, more) => routed({
        context: { channel, sender_id: sender, chat_id: `dm-${channel}`, chat_type: 'direct' },
        dimensions: ['sender'], identity_links: { John: ['telegram:123', 'U-SLACK'] }, ...more,
    }).session_key;
    assert.notEqual(at('telegram', '123'), at('slack', 'u-slack'));
    const on = { link_across_channels: true };
    assert.equal(at('telegram', '123', on), at('slack', 'u-slack', on));
    assert.equal(at('telegram', '123', on), at('slack', 'u-slack', { ...on, dimensions: ['chat'] }));
    assert.notEqual(at('telegram', '9', on), at('slack', '9', on));
});

test('rooms, work items and code have their own keys', () => {
    assert.equal(routed({ matrix_room: '!r:s' }).signature,
        'v=1|agent=main|channel=matrix|account=default|chat=group:!r:s');
    const typed = routed({ matrix_room: '!r:s', context: { chat_type: 'direct' } });
    assert.equal(typed.session_key, routed({ matrix_room: '!r:s' }).session_key);
    // The id of a Matrix room of version 12 does not contain the server.
    assert.equal(routed({ matrix_room: '!AbC' }).signature,
        'v=1|agent=main|channel=matrix|account=default|chat=group:!AbC');
    const asChat = (id, chatType) => routed({
        context: { channel: 'Matrix', chat_id: id, chat_type: chatType, sender_id: '@a:s' },
    });
    assert.notEqual(asChat('!CASE:s').session_key, asChat('!case:s').session_key);
    assert.deepEqual(asChat('!CASE:s', 'group').session_aliases,
        ['agent:main:main', 'agent:main:matrix:group:!CASE:s']);
    assert.equal(routed({ project_id: 'p', bead_id: 'b' }).signature,
        'v=1|kind=work_item|agent=main|project_id=p|bead_id=b');
    assert.equal(routed({ context: { project_path: '/a/', branch: 'x|y' } }).signature,
        'v=1|kind=code|agent=main|project_path=/a|branch=x%7Cy');
});

test('missing input has the same defaults as in the server', (t) => {
    const dir = fs.mkdtempSync('/tmp/palaver-route-');
    t.after(() => fs.rmSync(dir, { recursive: true }));
    const input = JSON.stringify({ context: { channel: 'telegram', chat_type: 'group', chat_id: '-1', sender_id: '7' } });
    const signature = (config, more) => {
        fs.writeFileSync(path.join(dir, 'c.yaml'), config);
        const result = palaver(['route', '--config', path.join(dir, 'c.yaml')],
            { input: JSON.stringify({ ...JSON.parse(input), ...more }) });
        assert.equal(result.code, 0, result.err);
        return JSON.parse(result.out).signature;
    };
    const head = 'v=1|agent=main|channel=telegram|account=default';
    assert.equal(routed(JSON.parse(input)).signature, `${head}|chat=group:-1`);
    assert.equal(signature('{}\n'), `${head}|chat=group:-1`);
    assert.equal(signature('session: {dm_scope: per-peer}\n'), `${head}|sender=7`);
    assert.equal(signature('session: {dimensions: [chat, sender]}\n'), `${head}|chat=group:-1|sender=7`);
    assert.equal(signature('session: {dm_scope: per-peer}\n', { dimensions: ['chat'] }), `${head}|chat=group:-1`);
    assert.equal(signature('session: {dm_scope: per-peer}\n', { dimensions: [] }), head);
    assert.equal(signature('agents: [{id: sol}]\n'), head.replace('main', 'sol') + '|chat=group:-1');
});

test('an error names the wrong input, and nothing is printed', () => {
    const wrong = [
        ['', /the input is empty/],
        [' \n', /the input is empty/],
        ['[]', /must be an object, not array/],
        ['{"agent_id":1}', /'agent_id' must be of type string, not number/],
        ['{"context":[]}', /'context' must be of type object, not array/],
        ['{"context":{"mentioned":"yes"}}', /'mentioned' must be of type boolean, not string/],
        ['{"dimensions":"chat"}', /'dimensions' must be of type array/],
        ['{"dimensions":["chat",null]}', /'dimensions\[1\]' must be of type string/],
        ['{"dimensions":["chanel"]}', /'dimensions' contains the unknown dimension 'chanel'/],
        ['{"dm_scope":"per-moon"}', /unknown dm_scope 'per-moon'/],
        ['{"dimension":["chat"]}', /unknown member 'dimension'/],
        ['{"identity_links":{"a":"b"}}', /'identity_links\.a' must be of type array/],
        ['{"rules":[{"when":{"chanel":"x"}}]}', /unknown member 'chanel' of rules\[0\]\.when/],
        ['{"rules":[{"agnet":"x"}]}', /unknown member 'agnet' of rules\[0\]/],
        ['{"rules":[{"when":{"mentioned":1}}]}', /'rules\[0\]\.when\.mentioned'/],
        ['{"agents":[7]}', /'agents\[0\]' must be of type string, not number/],
        ['{"agents":["*"]}', /'agents\[0\]' has an empty id/],
        ['{"context":{"chat_id":"a\\u0000b"}}', /'chat_id' contains a control character/],
        ['{"context":{"sender_id":"a\\nb"}}', /'sender_id' contains a control character/],
        [{ context: { chat_id: 'x'.repeat(1 << 20) } }, /'chat_id' of 1048576 bytes exceeds the limit/],
        [{ session_key: `agent:${'x'.repeat(2000)}` }, /'session_key' of 2006 bytes/],
        ['{"agents":[{"id":"a","default":7}]}', /'agents\[0\]\.default' must be of type boolean/],
        ['{"agents":[{"id":7}]}', /'agents\[0\]\.id' must be of type string, not number/],
        ['{"dimensions":["chat","\\u001b"]}', /'dimensions\[1\]' contains a control character/],
        ['{"a\\nb":1}', /unknown member 'a b'/],
        ['{"matrix_room":" "}', /'matrix_room' is empty/],
        ['{"project_id":" ","bead_id":"b"}', /'project_id' is empty/],
        ['{"project_path":""}', /'project_path' is empty/],
        ['{"matrix_room":"#r:s"}', /'matrix_room' must be a room id, which begins with '!'/],
        ['{"project_id":"p"}', /'bead_id' is empty/],
        ['{"project_id":"p","bead_id":"b","branch":"x"}', /only one of/],
        ['{"agent_id":', /line 1: /],
    ];
    for (const [input, pattern] of wrong) assertFails(route(input), 1, pattern);
    assertFails(route('\n\n{"agent_id":\n1}'), 1, /^palaver: line 3: 'agent_id'/);
    const invalid = Buffer.from('{"context":{"chat_id":"\xff"}}', 'latin1');
    assertFails(palaver(['route'], { input: invalid }), 1, /UTF-8/);
    assertFails(palaver(['route', '/nowhere/in.json']), 1, /could not read '\/nowhere\/in.json'/);
    assertFails(palaver(['route', '/']), 1, /could not read '\/'/);
    assertFails(palaver(['route', 'a', 'b']), 2, /unexpected argument 'b'/);
});

test('an error names the field with a wrong text, and the limit', () => {
    const inside = ['channel', 'account', 'space_id', 'space_type', 'chat_id', 'chat_type',
        'topic_id', 'sender_id'];
    const inputs = [
        ...inside.map((name) => [name, (text) => ({ context: { [name]: text } })]),
        ...['agent_id', 'session_key', 'matrix_room', 'project_path'].map((name) =>
            [name, (text) => ({ [name]: text })]),
        ['project_id', (text) => ({ project_id: text, bead_id: 'b' })],
        ['bead_id', (text) => ({ project_id: 'p', bead_id: text })],
        ['branch', (text) => ({ project_path: '/p', branch: text })],
        ['dm_scope', (text) => ({ dm_scope: text })],
        ['rules[0].agent', (text) => ({ rules: [{ agent: text, when: { channel: 'x' } }] })],
        ['rules[0].when.sender', (text) => ({ rules: [{ when: { sender: text } }] })],
        ['agents[0]', (text) => ({ agents: [text] })],
        ['identity_links[0][0]', (text) => ({ identity_links: { john: [text] } })],
    ];
    const wrong = [
        ['x'.repeat(1 << 20), 'of 1048576 bytes exceeds the limit of 4096'],
        ['!a\0b', 'contains a control character'],
        ['!a\u001bb', 'contains a control character'],
        ['!a\u009fb', 'contains a control character'],
    ];
    for (const [name, make] of inputs) {
        const all = wrong.map(([text]) => JSON.stringify(make(text))).join('\n');
        const result = route(all, '--keep-going');
        assert.equal(result.code, 1);
        assert.equal(result.out, '');
        const expected = wrong.map(([, words], i) => `palaver: line ${i + 1}: '${name}' ${words}`);
        assert.deepEqual(result.err.trimEnd().split('\n').slice(0, -1), expected);
        for (const half of ['\\ud800', 'a\\udc00b', '\\ud83d\\ud83d\\ude00'])
            assertFails(route(JSON.stringify(make('HALF')).replace('HALF', half)), 1,
                /^palaver: line 1: '[^']+' is not valid Unicode/);
    }
    const smile = routed('{"context":{"chat_id":"\\\\ud800 \\ud83d\\ude00"}}');
    assert.ok(smile.session_aliases[1].endsWith(':\\ud800 \u{1f600}'));
});

test('a wrong line stops the command, unless --keep-going is set', () => {
    const input = '{"agent_id":"a"}\n{"agent_id":2}\nnonsense\n{"agent_id":"b"}\n';
    assertFails(route(input), 1, /^palaver: line 2: 'agent_id' must be of type string/);
    const result = route(input, '--keep-going');
    assert.equal(result.code, 1);
    assert.deepEqual(lines(result.out).map((answer) => answer.scope.agent_id), ['a', 'b']);
    assert.match(result.err, /^palaver: line 2: [^\n]+\npalaver: line 3: [^\n]+\npalaver: 2 lines are wrong\n$/);
});

test('route does not open a store', (t) => {
    const dir = fs.mkdtempSync('/tmp/palaver-route-');
    t.after(() => fs.rmSync(dir, { recursive: true }));
    palaver(['route'], { cwd: dir, input: '{}' });
    assert.deepEqual(fs.readdirSync(dir), []);
});
