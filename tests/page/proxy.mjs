// A reverse proxy that serves the server below a path, and that can lose its connections.
import { once } from 'node:events';
import http from 'node:http';

export async function openProxy(t, port, prefix) {
    const sockets = new Set();
    let isCut = false;
    const server = http.createServer((request, response) => {
        if (!request.url.startsWith(`${prefix}/`)) {
            response.writeHead(404).end();
            return;
        }
        const up = http.request({ host: '127.0.0.1', port, method: request.method, agent: false,
            path: request.url.slice(prefix.length), headers: request.headers }, (answer) => {
            response.writeHead(answer.statusCode, answer.headers).flushHeaders();
            answer.on('error', () => response.destroy());
            answer.pipe(response);
        });
        up.on('error', () => response.destroy());
        response.on('close', () => up.destroy());
        request.pipe(up);
    });
    server.on('connection', (socket) => {
        if (isCut) {
            socket.destroy();
            return;
        }
        sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => sockets.delete(socket));
    });
    const cut = () => {
        isCut = true;
        for (const socket of sockets) socket.destroy();
    };
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
        cut();
        server.close();
    });
    return { base: `http://127.0.0.1:${server.address().port}${prefix}`, cut,
        mend: () => { isCut = false; } };
}
