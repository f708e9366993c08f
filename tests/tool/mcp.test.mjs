// Real MCP servers from npm, used by the library: both transports, and the results of their tools.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../support/packages.mjs';

const program = process.env.MCP_DRIVE;
const directory = process.env.MCP_PACKAGES;
const here = path.dirname(fileURLToPath(import.meta.url));

assert.ok(program && directory, 'MCP_DRIVE and MCP_PACKAGES say what to run, and where to install');

const skip = installPackages(here, directory);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'palaver-mcp-'));

after(() => fs.rmSync(scratch, { recursive: true, force: true }));

function serverPath(name) {
    return path.join(directory, 'node_modules', '@modelcontextprotocol', name, 'dist', 'index.js');
}

// A running mcp_drive.
class Drive {
    constructor(...args) {
        this.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
        this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
        this.ended = new Promise((resolve) => this.child.on('exit', resolve));
    }

    async next() {
        const { value, done } = await this.lines.next();

        assert.ok(!done, 'mcp_drive ended');
        return JSON.parse(value);
    }

    async ask(line) {
        this.child.stdin.write(`${JSON.stringify(line)}\n`);
        return this.next();
    }

    call(name, args = {}) {
        return this.ask({ call: `srv__${name}`, arguments: args });
    }

    async close() {
        this.child.stdin.end();
        assert.equal(await this.ended, 0);
    }
}

const said = (text) => ({ parts: [{ kind: 'text', text }], is_error: false });

// Checks that hold for both transports.
async function useEverything(drive) {
    const first = await drive.next();
    const names = first.tools.map((tool) => tool.name);

    assert.equal(first.state, 'ready', first.failure);
    for (const name of ['echo', 'get-sum', 'get-tiny-image', 'get-structured-content'])
        assert.ok(names.includes(`srv__${name}`), name);
    // It can only be run as a task.
    assert.match((await drive.call('simulate-research-query', { topic: 'bees' })).parts[0].text, /bees/);
    assert.equal(first.tools.find((tool) => tool.name === 'srv__echo').schema.type, 'object');

    assert.deepEqual(await drive.call('echo', { message: 'hello\nworld äöü' }),
        said('Echo: hello\nworld äöü'));
    assert.match((await drive.call('get-sum', { a: 2, b: 40 })).parts[0].text, /\b42\b/);
    assert.equal((await drive.call('get-sum', { a: 'x' })).is_error, true);

    const image = await drive.call('get-tiny-image');

    assert.deepEqual(image.parts.map((part) => part.kind), ['text', 'image', 'text']);
    assert.equal(image.parts[1].media_type, 'image/png');
    assert.ok(image.parts[1].bytes > 100);

    const weather = await drive.call('get-structured-content', { location: 'Chicago' });

    assert.equal(weather.parts.length, 1);
    assert.ok('temperature' in JSON.parse(weather.parts[0].text));

    const reference = await drive.call('get-resource-reference', { resourceType: 'Text', resourceId: 1 });

    assert.ok(reference.parts.some((part) => /^\[.*:\/\/.*\]\n/.test(part.text)));
    const links = await drive.call('get-resource-links', { count: 2 });

    assert.equal(links.parts.filter((part) => /^\[.*\]\(.*:\/\/.*\)/.test(part.text)).length, 2);
    assert.match((await drive.call('trigger-long-running-operation', { duration: 1, steps: 4 }))
        .parts[0].text, /completed/);
}

test('server-everything as a child', { skip }, async () => {
    const drive = new Drive(process.execPath, serverPath('server-everything'), 'stdio');

    await useEverything(drive);
    await drive.close();
});

async function freePort() {
    const server = net.createServer();

    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address();

    await new Promise((resolve) => server.close(resolve));
    return port;
}

// Returns undefined if another process uses the port.
async function tryHttp(port) {
    const child = spawn(process.execPath, [serverPath('server-everything'), 'streamableHttp'],
        { env: { ...process.env, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = new Promise((resolve) => child.on('close', resolve));
    let words = '';
    const ready = new Promise((resolve) => {
        const hear = (bytes) => {
            words += bytes;
            if (/listening on port/i.test(words)) resolve(true);
        };
        child.stdout.on('data', hear);
        child.stderr.on('data', hear);
    });

    if (!await Promise.race([ready, ended.then(() => false)])) {
        assert.match(words, /EADDRINUSE|already in use/);
        return undefined;
    }
    return {
        stop: () => {
            child.kill('SIGKILL');
            return ended;
        },
    };
}

// Waits until the port is free, if another process uses it for a moment.
async function startHttp(port) {
    for (;;) {
        const server = await tryHttp(port);

        if (server) return server;
    }
}

test('server-everything over HTTP', { skip }, async () => {
    let port, server;
    while (!server) server = await tryHttp(port = await freePort());
    const drive = new Drive('--url', `http://127.0.0.1:${port}/mcp`);

    try {
        await useEverything(drive);
        // A new server does not know the session: the client starts another session and repeats the
        // call.
        await server.stop();
        assert.equal((await drive.call('echo', { message: 'gone' })).is_error, true);
        server = await startHttp(port);
        assert.deepEqual(await drive.call('echo', { message: 'again' }), said('Echo: again'));
        await drive.close();
    } finally {
        await server.stop();
    }
});

test('server-filesystem', { skip }, async () => {
    fs.writeFileSync(path.join(scratch, 'a.txt'), 'first line\nsecond line\n');
    const drive = new Drive(process.execPath, serverPath('server-filesystem'), scratch);
    const first = await drive.next();

    assert.equal(first.state, 'ready', first.failure);
    assert.match((await drive.call('list_directory', { path: scratch })).parts[0].text, /a\.txt/);
    assert.equal((await drive.call('read_text_file', { path: path.join(scratch, 'a.txt') }))
        .parts[0].text, 'first line\nsecond line\n');
    await drive.call('write_file', { path: path.join(scratch, 'b.txt'), content: 'x'.repeat(100000) });
    assert.equal(fs.readFileSync(path.join(scratch, 'b.txt'), 'utf8').length, 100000);
    assert.equal((await drive.call('read_text_file', { path: '/etc/passwd' })).is_error, true);
    await drive.close();
});
