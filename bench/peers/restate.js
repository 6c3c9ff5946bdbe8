// Restate: a service whose handler records some steps with ctx.run, called through the server's ingress.
// The service is in this process, the server in its own. Finished invocations are kept for a day, as is the
// default, and counted by the server's SQL.
import http2 from 'node:http2';
import * as restate from '@restatedev/restate-sdk';
import { drive } from './driver.js';

drive(async ({ target, steps }) => {
    const [ingressPort, adminPort] = target.split(',').map(Number);
    const service = restate.service({
        name: 'bench',
        handlers: {
            run: async (ctx, payload) => {
                for (let i = 0; i < steps; i++)
                    await ctx.run(`step${i}`, () => payload.data.length);
                return null;
            },
        },
    });
    const endpoint = http2.createServer(restate.createEndpointHandler({ services: [service], logger: () => {} }));
    await new Promise((resolve) => { endpoint.listen(0, '127.0.0.1', resolve); });

    async function admin(path, body) {
        const response = await fetch(`http://127.0.0.1:${adminPort}${path}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', accept: 'application/json' },
            body: JSON.stringify(body),
        });
        if (!response.ok)
            throw new Error(`${path}: ${response.status} ${await response.text()}`);
        return response.json();
    }
    await admin('/deployments', { uri: `http://127.0.0.1:${endpoint.address().port}` });
    const count = async (where) =>
        (await admin('/query', { query: `SELECT count(*) AS n FROM sys_invocation WHERE ${where}` })).rows[0].n;

    // One session: cheaper for both sides than a connection for each call.
    const ingress = http2.connect(`http://127.0.0.1:${ingressPort}`);
    const run = (payload) => new Promise((resolve, reject) => {
        const body = JSON.stringify(payload);
        const request = ingress.request({
            ':method': 'POST', ':path': '/bench/run', 'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
        });
        let status = 0;
        request.on('response', (headers) => { status = headers[':status']; });
        request.on('end', () => (status < 300 ? resolve() : reject(new Error(`the ingress answers ${status}`))));
        request.on('error', reject);
        request.resume();
        request.end(body);
    });

    return {
        run,
        finished: () => count("status = 'completed' AND completion_result = 'success'"),
        left: () => count("status <> 'completed'"),
    };
});
