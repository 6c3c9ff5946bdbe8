// For working on the pages: `node dev.mjs SERVER [PORT]` serves what `node build.mjs dist` wrote, with
// the headers that Pawl sends, and passes everything else on to a running server.
import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const server = new URL(process.argv[2] ?? 'http://127.0.0.1:7295');
const port = Number(process.argv[3] ?? 7296);
const types = {
    html: 'text/html; charset=utf-8',
    js: 'text/javascript',
    css: 'text/css',
    svg: 'image/svg+xml',
};
const policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'";

function pass(from, to) {
    const headers = { ...from.headers, host: server.host };
    if (headers.origin) headers.origin = server.origin;
    const onward = request(
        { host: server.hostname, port: server.port, path: from.url, method: from.method, headers },
        (answer) => {
            to.writeHead(answer.statusCode, answer.headers);
            answer.pipe(to);
        },
    );
    onward.on('error', () => (to.headersSent ? to.destroy() : to.writeHead(502).end()));
    to.on('close', () => onward.destroy());
    from.pipe(onward);
}

createServer(async (from, to) => {
    const name = from.url === '/' ? 'index.html' : /^\/assets\/([\w.-]+)$/.exec(from.url)?.[1];
    if (!name) return pass(from, to);
    const body = await readFile(join(here, 'dist', name)).catch(() => null);
    if (!body) return to.writeHead(404).end();
    to.writeHead(200, {
        'content-type': types[name.split('.').pop()],
        'content-security-policy': policy,
        'cache-control': 'no-store',
    });
    to.end(body);
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}`));
