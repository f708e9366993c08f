// A load balancer for tests with several servers on one store: each request, also the next one on
// the same connection, goes to the next server that is ready.
import http from 'node:http';

const TRIES_MAX = 10;

// Returns a balancer that listens on a free port. `add` and `remove` take objects with a port.
export async function openBalancer() {
    let servers = [];
    let at = 0;
    const next = () => {
        const ready = servers.filter((s) => s.isReady);
        return ready.length ? ready[at++ % ready.length] : undefined;
    };
    const optionsOf = (s, { method, url: path, headers }) => ({ host: '127.0.0.1', port: s.port, method, path, headers,
        agent: false });

    // If a connection is refused, the next server is tried, as balancers do.
    const forward = (request, body, response, tries) => {
        const s = next();
        if (!s || tries > TRIES_MAX) {
            response.writeHead(502).end('no server is ready');
            return;
        }
        const up = http.request(optionsOf(s, request), (answer) => {
            response.writeHead(answer.statusCode, answer.headers);
            response.flushHeaders();
            answer.pipe(response);
            answer.on('error', () => response.destroy());
        });
        up.on('error', (error) => {
            if (response.headersSent) response.destroy();
            else if (error.code === 'ECONNREFUSED') forward(request, body, response, tries + 1);
            else response.writeHead(502).end(error.message);
        });
        // A client that leaves, leaves the server too.
        response.once('close', () => { if (!response.writableFinished) up.destroy(); });
        up.end(body);
    };

    const proxy = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => forward(request, Buffer.concat(pieces), response, 0));
    });
    proxy.keepAliveTimeout = 60_000; // clients close their connections first

    // A WebSocket stays with the server that accepted it.
    const headOf = (answer) => [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`,
        ...answer.rawHeaders.flatMap((name, i, all) => (i % 2 ? [] : [`${name}: ${all[i + 1]}`])), '', ''].join('\r\n');
    proxy.on('upgrade', (request, socket, head) => {
        socket.on('error', () => {});
        const s = next();
        if (!s) {
            socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
            return;
        }
        const up = http.request(optionsOf(s, request));
        up.on('upgrade', (answer, other, first) => {
            other.on('error', () => socket.destroy());
            socket.on('close', () => other.destroy());
            socket.write(headOf(answer));
            socket.write(first);
            other.write(head);
            other.pipe(socket).pipe(other);
        });
        up.on('response', (answer) => {
            socket.write(headOf({ ...answer, statusCode: answer.statusCode, statusMessage: answer.statusMessage,
                rawHeaders: [...answer.rawHeaders, 'connection', 'close'] }));
            answer.pipe(socket);
        });
        up.on('error', () => socket.destroy());
        up.end();
    });
    await new Promise((resolve) => { proxy.listen(0, '127.0.0.1', resolve); });
    return {
        port: proxy.address().port,
        url: `http://127.0.0.1:${proxy.address().port}`,
        servers: () => servers,
        add: (s) => { s.isReady = true; servers.push(s); },
        remove: (s) => { servers = servers.filter((each) => each !== s); },
        close: () => { proxy.close(); proxy.closeAllConnections?.(); },
    };
}
