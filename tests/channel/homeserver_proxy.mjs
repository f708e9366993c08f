// Stands between Palaver and the homeserver, and breaks requests by rules: { match, times, act }.
//   swallow   the homeserver gets the request, and its answer is lost
//   refuse    the connection is closed before the homeserver gets anything
//   answer    the given { status, body, headers } instead of asking the homeserver
//   again     the last answer to the same request without its cursor, a second time
import http from 'node:http';

export async function startProxy(t, target) {
    const rules = [], seen = [];
    const upstream = new URL(target);
    const server = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => {
            const body = Buffer.concat(pieces);
            const line = `${request.method} ${request.url}`;
            seen.push({ line, body: body.toString(), at: Date.now() });
            const rule = rules.find((one) => one.times > 0 && one.match.test(line));
            if (rule) rule.times--;
            if (rule?.act === 'refuse') return request.socket.destroy();
            if (rule?.act === 'answer') {
                response.writeHead(rule.status, rule.headers ?? { 'content-type': 'application/json' });
                return response.end(rule.body);
            }
            const forwarded = http.request({ host: upstream.hostname, port: upstream.port,
                method: request.method, path: request.url,
                headers: { ...request.headers, host: upstream.host } }, (answer) => {
                if (rule?.act === 'swallow') {
                    answer.resume();
                    answer.on('end', () => request.socket.destroy());
                    return;
                }
                response.writeHead(answer.statusCode, answer.headers);
                answer.pipe(response);
            });
            forwarded.on('error', () => request.socket.destroy());
            response.on('close', () => forwarded.destroy());
            forwarded.end(body);
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => { server.closeAllConnections(); server.close(); });
    return {
        url: `http://127.0.0.1:${server.address().port}`, seen,
        rule: (match, act, more = {}) => { rules.push({ match, act, times: 1, ...more }); },
        count: (match) => seen.filter(({ line }) => match.test(line)).length,
    };
}
