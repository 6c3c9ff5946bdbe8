// The peers' servers: each on loopback, with a port and a directory of its own, for one run. A server is
// { target, pid, stop() }: what the client is told, whose processor time is taken, how it ends.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { freePort, kill, sleep, start, untilListening } from './processes.js';

const LOOPBACK = '127.0.0.1';

async function listening(command, port, target = String(port)) {
    const child = start(command);
    child.stdout.resume();
    try {
        await untilListening(port, child);
    } catch (error) {
        await kill(child);
        throw error;
    }
    return { target, pid: child.pid, stop: () => kill(child) };
}

export async function beanstalkd(directory) {
    const port = await freePort();
    return listening(['beanstalkd', '-l', LOOPBACK, '-p', port, '-b', directory, '-f0'], port);
}

export async function beanstalkdWithoutDisk() {
    const port = await freePort();
    return listening(['beanstalkd', '-l', LOOPBACK, '-p', port], port);
}

export async function redis(directory) {
    const port = await freePort();
    return listening(['redis-server', '--bind', LOOPBACK, '--port', port, '--dir', directory, '--save', '',
        '--appendonly', 'yes', '--appendfsync', 'always', '--maxmemory-policy', 'noeviction'], port);
}

export async function restate(directory) {
    const [node, ingress, admin] = [await freePort(), await freePort(), await freePort()];
    const binary = join(import.meta.dirname, 'node_modules/@restatedev/restate-server-linux-x64/bin/restate-server');
    const environment = {
        RESTATE_INGRESS__BIND_ADDRESS: `${LOOPBACK}:${ingress}`,
        RESTATE_ADMIN__BIND_ADDRESS: `${LOOPBACK}:${admin}`,
        RESTATE_ADMIN__DISABLE_WEB_UI: 'true',
        RESTATE_DISABLE_TELEMETRY: 'true',
    };
    const server = await listening(['env', ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
        binary, '--no-logo', '--base-dir', directory, '--default-num-partitions', '2', '--listen-mode', 'tcp',
        '--node-name', 'bench', '--bind-address', `${LOOPBACK}:${node}`,
        '--advertised-address', `http://${LOOPBACK}:${node}/`], admin, `${ingress},${admin}`);
    try {
        await untilHealthy(`http://${LOOPBACK}:${ingress}/restate/health`);
    } catch (error) {
        await server.stop();
        throw error;
    }
    return server;
}

async function untilHealthy(url) {
    for (const end = Date.now() + 30000; Date.now() < end; await sleep(50)) {
        try {
            if ((await fetch(url)).ok)
                return;
        } catch {
            // Not there yet.
        }
    }
    throw new Error(`${url} does not answer`);
}

// One server for all (scripts/with-postgres), an empty database for each run. What the last run left to be
// written is written before the next begins.
let databases = 0;

async function withPostgres(act) {
    const client = new pg.Client({ connectionString: process.env.PAWL_TEST_POSTGRES_TCP });
    await client.connect();
    try {
        return await act(client);
    } finally {
        await client.end();
    }
}

export async function postgres() {
    const name = `bench_${++databases}`;
    const pid = await withPostgres(async (client) => {
        await client.query(`CREATE DATABASE ${name}`);
        await client.query('CHECKPOINT');
        const { rows } = await client.query('SHOW data_directory');
        return Number(readFileSync(join(rows[0].data_directory, 'postmaster.pid'), 'utf8').split('\n')[0]);
    });
    const url = new URL(process.env.PAWL_TEST_POSTGRES_TCP);
    url.pathname = `/${name}`;
    return {
        target: url.href,
        pid,
        stop: () => withPostgres((client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`)),
    };
}

export async function file(directory) {
    return { target: join(directory, 'bench.db'), pid: 0, stop: async () => {} };
}
