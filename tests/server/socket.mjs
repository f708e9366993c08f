// A small WebSocket client: text messages, and the headers of the handshake.
import crypto from 'node:crypto';
import http from 'node:http';

const TEXT = 1;
const CLOSE = 8;
const PING = 9;

function frame(opcode, payload) {
    const mask = crypto.randomBytes(4);
    const head = [0x80 | opcode];
    if (payload.length < 126) head.push(0x80 | payload.length);
    else if (payload.length < 65536) head.push(0x80 | 126, payload.length >> 8, payload.length & 255);
    else {
        const size = Buffer.alloc(8);
        size.writeBigUInt64BE(BigInt(payload.length));
        head.push(0x80 | 127, ...size);
    }
    const masked = Buffer.from(payload);
    for (let i = 0; i < masked.length; i++) masked[i] ^= mask[i % 4];
    return Buffer.concat([Buffer.from(head), mask, masked]);
}

// Returns the first frame of the bytes and its length, or nothing if it is incomplete.
function readFrame(bytes) {
    if (bytes.length < 2) return undefined;
    let size = bytes[1] & 127;
    let at = 2;
    if (size === 126) { size = bytes.length >= 4 ? bytes.readUInt16BE(2) : Infinity; at = 4; }
    if (size === 127) { size = bytes.length >= 10 ? Number(bytes.readBigUInt64BE(2)) : Infinity; at = 10; }
    if (bytes.length < at + size) return undefined;
    return { opcode: bytes[0] & 15, isLast: bytes[0] >= 128, payload: bytes.subarray(at, at + size), used: at + size };
}

const LAST = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

// Opens GET /v1/responses. `next()` waits for an event, `create(body)` sends a request and returns the
// events of its response, and `leave()` closes the connection at once.
export async function openSocket(port, { headers = {}, key } = {}) {
    const request = http.request({ host: '127.0.0.1', port, path: '/v1/responses', agent: false, headers: {
        ...headers, ...(key && { authorization: `Bearer ${key}` }), connection: 'Upgrade', upgrade: 'websocket',
        'sec-websocket-version': '13', 'sec-websocket-key': crypto.randomBytes(16).toString('base64') } });
    request.end();
    const [socket, early] = await new Promise((resolve, reject) => {
        request.on('upgrade', (_, s, head) => resolve([s, head]));
        request.on('response', ({ statusCode }) => reject(new Error(`HTTP ${statusCode}`)));
        request.on('error', reject);
    });
    const events = [];
    const readers = [];
    let bytes = early;
    let text = [];
    const take = () => {
        for (let found; (found = readFrame(bytes)); bytes = bytes.subarray(found.used)) {
            if (found.opcode === PING) socket.write(frame(10, found.payload));
            if (found.opcode > 2) continue;
            text.push(found.payload);
            if (!found.isLast) continue;
            const event = JSON.parse(Buffer.concat(text));
            text = [];
            if (readers.length) readers.shift().resolve(event);
            else events.push(event);
        }
    };
    socket.on('data', (piece) => { bytes = Buffer.concat([bytes, piece]); take(); });
    socket.on('error', () => {});
    socket.on('close', () => { for (const { reject } of readers.splice(0)) reject(new Error('the connection ended')); });
    take();
    const next = () => (events.length ? Promise.resolve(events.shift())
        : new Promise((resolve, reject) => { readers.push({ resolve, reject }); }));
    const send = (message) => socket.write(frame(TEXT, Buffer.from(JSON.stringify(message))));
    const create = async (body) => {
        const seen = [];
        send({ type: 'response.create', ...body });
        do seen.push(await next()); while (!LAST.includes(seen.at(-1).type));
        return seen;
    };
    return { send, next, create, leave: () => socket.destroy(), close: () => socket.end(frame(CLOSE, Buffer.alloc(0))) };
}
