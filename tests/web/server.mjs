// A real server on a store of its own, and the API to look behind the pages with.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const READY_MS = 20_000;

/* No server outlives the tests, however they end. */
const alive = new Set();
process.on('exit', () => alive.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

async function freePort() {
    return new Promise((resolve) => {
        const server = createServer();
        server.listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

export class Server {
    /** `token`: the server asks for tokens, and this one is an admin's. */
    constructor(binary, { token = null } = {}) {
        this.binary = binary;
        this.token = token;
        this.child = null;
    }

    async start() {
        this.folder ??= await mkdtemp(join(tmpdir(), 'pawl-web-'));
        this.port ??= await freePort();
        this.url = `http://127.0.0.1:${this.port}`;
        const args = [
            'serve',
            '--store',
            `sqlite:${join(this.folder, 'pawl.db')}`,
            '--listen',
            `127.0.0.1:${this.port}`,
        ];
        if (this.token) args.push('--require-tokens');
        const env = { ...process.env, ...(this.token ? { PAWL_TOKEN: this.token } : {}) };
        this.log = '';
        this.child = spawn(this.binary, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
        const { child } = this;
        alive.add(child);
        child.once('exit', () => alive.delete(child));
        for (const stream of [this.child.stdout, this.child.stderr])
            stream.on('data', (text) => (this.log += text));
        const until = Date.now() + READY_MS;
        while (
            !(await fetch(`${this.url}/readyz`).then(
                (a) => a.ok,
                () => false,
            ))
        ) {
            if (this.child.exitCode !== null || Date.now() > until)
                throw new Error(`the server does not start:\n${this.log}`);
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return this;
    }

    /** Ends it and keeps its store. */
    async stop(signal = 'SIGTERM') {
        const { child } = this;
        if (!child || child.exitCode !== null) return;
        const gone = new Promise((resolve) => child.once('exit', resolve));
        child.kill(signal);
        await gone;
        this.child = null;
    }

    async remove() {
        await this.stop('SIGKILL');
        await rm(this.folder, { recursive: true, force: true });
    }

    async call(method, path, body) {
        const headers = { 'Content-Type': 'application/json' };
        if (this.token) headers.Authorization = `Bearer ${this.token}`;
        const answer = await fetch(this.url + path, {
            method,
            headers,
            body: body === undefined ? undefined : JSON.stringify(body),
        });
        const text = await answer.text();
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
        return text ? JSON.parse(text) : null;
    }

    get = (path) => this.call('GET', path);
    post = (path, body = {}) => this.call('POST', path, body);
    put = (path, body) => this.call('PUT', path, body);

    job = (id) => this.get(`/v1/jobs/${id}`);
    events = async (id) => (await this.get(`/v1/jobs/${id}/events?limit=1000`)).events;
    submit = (kind, more = {}) => this.post('/v1/jobs', { kind, ...more });

    /** Takes a job of a kind; what can be said about it is a call of `lease`. */
    async claim(kind, more = {}) {
        const { claims } = await this.post('/v1/claims', {
            worker_id: 'worker-1',
            kinds: [kind],
            wait_ms: 2000,
            ...more,
        });
        if (claims.length === 0) throw new Error(`there is no ${kind} to claim`);
        return claims[0].lease.token;
    }

    async claimStep(resource_id, more = {}) {
        const { claims } = await this.post('/v1/steps/claims', {
            worker_id: `on-${resource_id}`,
            resource_id,
            wait_ms: 2000,
            ...more,
        });
        if (claims.length === 0) throw new Error(`there is no step for ${resource_id}`);
        return { step: claims[0].step.id, token: claims[0].lease.token };
    }

    lease = (token, what, body = {}) =>
        this.post(`/v1/leases/${encodeURIComponent(token)}/${what}`, body);

    async finish(kind, result = { ok: true }) {
        const job = await this.submit(kind);
        await this.lease(await this.claim(kind), 'complete', { result });
        return job;
    }

    async die(kind, message, more = {}) {
        const job = await this.submit(kind, { retry: { max_attempts: 1 }, ...more });
        await this.lease(
            await this.claim(kind, more.queue ? { queues: [more.queue] } : {}),
            'fail',
            { error: { message } },
        );
        return job;
    }
}
