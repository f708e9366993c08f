// A client of WebSockets that writes the bytes of frames itself: it can send wrong frames, read
// slowly, and leave without a word.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import net from 'node:net';

const OPCODES = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 };

// The bytes of a masked frame. `first` is its first byte.
export function frame(first, payload) {
    const data = Buffer.from(payload), mask = Buffer.from([1, 2, 3, 4]);
    const head = data.length < 126 ? Buffer.from([first, 0x80 | data.length])
        : data.length < 65536 ? Buffer.from([first, 0xfe, data.length >> 8, data.length & 0xff])
            : Buffer.from([first, 0xff, 0, 0, 0, 0, ...[24, 16, 8, 0].map((n) => (data.length >>> n) & 0xff)]);
    return Buffer.concat([head, mask, data.map((byte, i) => byte ^ mask[i % 4])]);
}

// Opens a WebSocket. Messages are parsed and given to `next()`, one after the other; null after the
// end. `end` resolves to the code of the close frame; 1006 if there was none.
export function openSocket(port, { key, headers = {}, heavy = false } = {}) {
    const socket = net.connect(port, '127.0.0.1');
    const arrived = [], readers = [];
    let bytes = Buffer.alloc(0), isOpen = false, code = 1006, ended, opened, failed;
    const end = new Promise((resolve) => { ended = resolve; });
    const ready = new Promise((resolve, reject) => { opened = resolve; failed = reject; });
    const give = (message) => (readers.length ? readers.shift()(message) : arrived.push(message));
    const take = (first, payload) => {
        const opcode = first & 15;
        assert.ok(first & 0x80, 'the server does not split messages');
        if (opcode === OPCODES.text) give(heavy ? payload : JSON.parse(payload));
        else if (opcode === OPCODES.ping) socket.write(frame(0x80 | OPCODES.pong, payload));
        else if (opcode === OPCODES.close) {
            code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
            socket.write(frame(0x80 | OPCODES.close, payload));
        }
    };
    const readFrames = () => {
        for (;;) {
            if (bytes.length < 2) return;
            const short = bytes[1] & 127, head = short === 126 ? 4 : short === 127 ? 10 : 2;
            if (bytes.length < head) return;
            const len = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
            if (bytes.length < head + len) return;
            const [first, payload] = [bytes[0], bytes.subarray(head, head + len)];
            bytes = bytes.subarray(head + len);
            take(first, payload);
        }
    };
    socket.on('data', (piece) => {
        bytes = bytes.length ? Buffer.concat([bytes, piece]) : piece;
        const at = isOpen ? -1 : bytes.indexOf('\r\n\r\n');
        if (!isOpen && at < 0) return;
        if (!isOpen) {
            const line = bytes.subarray(0, bytes.indexOf('\r\n')).toString();
            bytes = bytes.subarray(at + 4);
            isOpen = line.startsWith('HTTP/1.1 101');
            if (!isOpen) return failed(new Error(line));
            opened();
        }
        readFrames();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
        failed(new Error('the connection was closed'));
        ready.catch(() => {});
        while (readers.length) readers.shift()(null);
        arrived.push(null);
        ended(code);
    });
    socket.write(['GET /v1/responses HTTP/1.1', 'Host: localhost', 'Upgrade: websocket', 'Connection: Upgrade',
        'Sec-WebSocket-Version: 13', `Sec-WebSocket-Key: ${crypto.randomBytes(16).toString('base64')}`,
        ...(key ? [`Authorization: Bearer ${key}`] : []),
        ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n'));
    const next = () => (arrived.length ? Promise.resolve(arrived[0] === null ? null : arrived.shift())
        : new Promise((resolve) => { readers.push(resolve); }));
    return ready.then(() => ({ socket, next, end,
        raw: (data) => socket.write(data),
        send: (message) => socket.write(frame(0x81, JSON.stringify(message))),
        close: () => socket.write(frame(0x88, Buffer.from([3, 232]))) }));
}

export const isLast = (event) => event === null
    || ['response.completed', 'response.failed', 'response.incomplete', 'error'].includes(event.type);
