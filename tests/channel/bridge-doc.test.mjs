// The bridge in docs/write-a-channel.md, with kills of the server and of the bridge.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { serve, workspace } from '../server/support.mjs';
import { secret } from './bridge.mjs';

const doc = fs.readFileSync(new URL('../../docs/write-a-channel.md', import.meta.url), 'utf8');
const [, script] = /```js\n([^]*?)```/.exec(doc);
const env = { BRIDGE_SECRET: secret };
const config = `
channels:
  - kind: webhook
    secret_env: BRIDGE_SECRET
    groups: all
    users: ["*"]
`;

test('the bridge of the documentation answers each line once, through restarts', async (t) => {
    const dir = workspace(t);
    const room = path.join(dir, 'room');
    fs.writeFileSync(path.join(dir, 'bridge.mjs'), script);
    fs.writeFileSync(room, '');
    const bridges = [];
    const start = (port) => {
        const child = spawn(process.execPath, ['bridge.mjs'], { cwd: dir, stdio: 'ignore',
            env: { ...process.env, ...env, ROOM: room, PALAVER_URL: `http://127.0.0.1:${port}` } });
        bridges.push(child);
        return child;
    };
    t.after(() => bridges.forEach((child) => child.kill('SIGKILL')));
    const answered = () => (fs.existsSync(`${room}.answers`)
        ? fs.readFileSync(`${room}.answers`, 'utf8').split('\n').slice(0, -1) : []);
    const until = async (wanted) => {
        for (let i = 0; !answered().some((line) => line.includes(wanted)); i++) {
            assert.ok(i < 3000, `no answer to '${wanted}': ${answered().join('\n')}`);
            await sleep(10);
        }
    };
    let server = await serve(t, { dir, config, env });
    let bridge = start(server.port);
    fs.appendFileSync(room, 'ann: first\n');
    await until('first');
    bridge.kill('SIGKILL');
    fs.appendFileSync(room, 'ann: second\n');
    bridge = start(server.port);
    await until('second');
    await server.stop('SIGKILL');
    fs.appendFileSync(room, 'ben: third\n');
    bridge.kill('SIGKILL');
    server = await serve(t, { dir, config, env });
    start(server.port);
    await until('third');
    const ids = answered().map((line) => line.split(' ')[0]);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.length, 3, answered().join('\n'));
});
