// Who is measured, with which settings, and what each is asked to do.
import { join } from 'node:path';
import * as servers from './servers.js';

// jobs: the same for every system, chosen so that the slowest takes 10 to 20 seconds.
// smoke: as many as it takes to see that a client works.
export const SCENARIOS = {
    'enqueue-one': {
        title: 'enqueue, 64 producers, one each', operation: 'enqueue', producers: 64, jobs: 20000, smoke: 640,
    },
    'enqueue-batch': {
        title: 'enqueue, 4 producers, 500 each', operation: 'enqueue', producers: 4, batch: 500, jobs: 200000, smoke: 4000,
    },
    'work-8': { title: 'claim + complete, 8 clients, one each', operation: 'work', clients: 8, jobs: 20000, smoke: 400 },
    'work-64': { title: 'claim + complete, 64 clients, one each', operation: 'work', clients: 64, jobs: 20000, smoke: 400 },
    'work-batch': {
        title: 'claim + complete, 4 clients, 500 each', operation: 'work', clients: 4, batch: 500, jobs: 100000, smoke: 4000,
    },
    both: {
        title: 'producers and workers at once', operation: 'both', producers: 4, clients: 4, batch: 500, jobs: 60000,
        smoke: 2000,
    },
    // Pawl has heartbeats, effects, waits, plans and reads beside the jobs, peers the reads.
    mixed: {
        title: 'the same beside other load', operation: 'mixed', producers: 4, clients: 4, batch: 500, jobs: 60000,
        smoke: 2000, lists: 20, gets: 50,
    },
    latency: {
        title: 'enqueue → start at 100/s', operation: 'latency', clients: 8, rate: 100, jobs: 1000, smoke: 100,
    },
    'steps-1': { title: 'workflows, 1 recorded step, 64 in flight', operation: 'steps', clients: 64, steps: 1, jobs: 5000, smoke: 128 },
    'steps-4': { title: 'workflows, 4 recorded steps, 64 in flight', operation: 'steps', clients: 64, steps: 4, jobs: 2500, smoke: 128 },
    // Only when asked for: filling takes minutes.
    'backlog-10k': {
        title: 'producers and workers, 10 k others waiting', operation: 'both', producers: 4, clients: 4, batch: 500,
        jobs: 20000, waiting: 10000, smoke: 2000, optional: true,
    },
    'backlog-1m': {
        title: 'producers and workers, 1 M others waiting', operation: 'both', producers: 4, clients: 4, batch: 500,
        jobs: 20000, waiting: 1000000, smoke: 2000, seconds: 600, optional: true,
    },
};

const OPTIONS = ['operation', 'jobs', 'waiting', 'clients', 'producers', 'batch', 'rate', 'steps', 'lists', 'gets', 'seconds'];

const programs = process.env.BENCH_PROGRAMS;

function optionsOf(scenario, target) {
    const options = ['--target', target];
    for (const name of OPTIONS) {
        if (scenario[name] !== undefined)
            options.push(`--${name}`, String(scenario[name]));
    }
    return options;
}

const inC = (program) => (scenario, target) => [join(programs, program), ...optionsOf(scenario, target)];
const inNode = (script) => (scenario, target) =>
    [process.execPath, join(import.meta.dirname, script), ...optionsOf(scenario, target)];

const QUEUES = ['enqueue-one', 'enqueue-batch', 'work-8', 'work-64', 'work-batch', 'both', 'latency', 'backlog-10k', 'backlog-1m'];
const WORKFLOWS = ['steps-1', 'steps-4'];

const all = (names) => Object.fromEntries(names.map((name) => [name, {}]));

// Where jobs can only be claimed one at a time.
const ONE_EACH = { clients: 64, batch: 500 };
const withoutBatches = {
    ...all(['enqueue-one', 'enqueue-batch', 'work-8', 'work-64', 'latency']),
    both: ONE_EACH, 'backlog-10k': { ...ONE_EACH, jobs: 10000 }, 'backlog-1m': { ...ONE_EACH, jobs: 10000 },
};
// Where there can only be one writer.
const ALONE = { clients: 1, producers: 1 };
const oneWriter = {
    'enqueue-one': ALONE, 'enqueue-batch': ALONE, 'work-8': ALONE, 'work-batch': ALONE, both: ALONE, latency: ALONE,
    'backlog-10k': ALONE, 'backlog-1m': ALONE,
};

// Pawl's server also has this many others that wait for jobs of other kinds.
const POLLED = { polls: 1000 };

export const SYSTEMS = [
    {
        name: 'pawl-sqlite-http', family: 'pawl', title: 'Pawl, SQLite, over HTTP', client: 'C', pawl: { serve: true },
        server: servers.file, scenarios: { ...all([...QUEUES, ...WORKFLOWS, 'mixed']), latency: POLLED },
        settings: '`pawl serve` with a SQLite file, default settings: every transition an event, synced before it is acknowledged',
    },
    {
        name: 'pawl-postgres-http', family: 'pawl', title: 'Pawl, PostgreSQL, over HTTP', client: 'C', pawl: { serve: true },
        server: servers.postgres, scenarios: { ...all([...QUEUES, ...WORKFLOWS, 'mixed']), latency: POLLED },
        settings: '`pawl serve` with PostgreSQL, `synchronous_commit=on`; no ANALYZE and no VACUUM by hand',
    },
    {
        name: 'pawl-sqlite', family: 'pawl', title: 'Pawl, SQLite, in process', client: 'C', pawl: { serve: false },
        server: servers.file, scenarios: all([...QUEUES, ...WORKFLOWS, 'mixed']), settings: '`libpawl` in the client itself; default settings',
    },
    {
        name: 'beanstalkd', title: 'beanstalkd -f0', client: 'C', server: servers.beanstalkd,
        command: inC('peer_beanstalkd'), scenarios: withoutBatches, version: ['beanstalkd', '-v'],
        settings: '`-b DIR -f0`: fsync at every write; 500 puts pipelined where it says batched; no claim is written',
    },
    {
        name: 'beanstalkd-memory', family: 'beanstalkd', title: 'beanstalkd, nothing on disk', client: 'C',
        server: servers.beanstalkdWithoutDisk, command: inC('peer_beanstalkd'), scenarios: withoutBatches,
        settings: 'no binlog: a restart loses everything',
    },
    {
        name: 'graphile-worker', title: 'graphile-worker', client: 'Node', server: servers.postgres,
        command: inNode('graphile_worker.js'), package: 'graphile-worker', scenarios: all(QUEUES),
        settings: '`addJobs`; batched: `localQueue: { size: 500 }`, `completeJobBatchDelay: 0`; ANALYZE after the queue was filled',
        overrides: { 'work-batch': { clients: 24 }, both: { clients: 24 }, 'backlog-10k': { clients: 24 }, 'backlog-1m': { clients: 24 } },
    },
    {
        name: 'pg-boss', title: 'pg-boss', client: 'Node', server: servers.postgres, command: inNode('pg_boss.js'),
        package: 'pg-boss', scenarios: all([...QUEUES, 'mixed']),
        settings: '`insert`, `fetch({ batchSize })`, `complete(ids)` in loops; latency: `work` with `useListenNotify`; ANALYZE after the queue was filled',
    },
    {
        name: 'bullmq', title: 'BullMQ', client: 'Node', server: servers.redis, command: inNode('bullmq.js'),
        package: 'bullmq', scenarios: { ...withoutBatches, mixed: ONE_EACH }, version: ['redis-server', '--version'],
        settings: 'Redis with `appendonly yes`, `appendfsync always`; `addBulk`; a worker with as many concurrent jobs as there are clients; `removeOnComplete`',
    },
    {
        name: 'bare-postgres', title: 'bare SQL on PostgreSQL', client: 'C', server: servers.postgres,
        command: inC('peer_bare_postgres'), scenarios: { ...all(QUEUES), latency: { clients: 1 } },
        settings: 'one row a job, claimed with `FOR UPDATE SKIP LOCKED`, deleted when done; prepared statements; no history, no leases that end',
    },
    {
        name: 'bare-sqlite', title: 'bare SQLite, in process', client: 'C', server: servers.file,
        command: inC('peer_bare_sqlite'), scenarios: oneWriter,
        settings: 'one row a job, one writer, WAL, `synchronous=FULL`; no history, no leases that end',
    },
    {
        name: 'restate', title: 'Restate', client: 'Node', server: servers.restate, command: inNode('restate.js'),
        package: '@restatedev/restate-server', scenarios: all(WORKFLOWS),
        settings: '2 partitions; else as it comes (its log is synced); steps are `ctx.run`; called through the ingress over one HTTP/2 session',
    },
    {
        name: 'dbos', title: 'DBOS', client: 'Node', server: servers.postgres, command: inNode('dbos.js'),
        package: '@dbos-inc/dbos-sdk', scenarios: all(WORKFLOWS),
        settings: 'workflows called in the process that runs them, without a queue; a pool of 64 connections; steps are `DBOS.runStep`',
    },
];

// What a system is asked in a scenario; null when it cannot do it.
export function asked(system, name, smoke) {
    if (!(name in system.scenarios))
        return null;
    const scenario = { ...SCENARIOS[name], ...system.scenarios[name], ...system.overrides?.[name] };
    if (smoke) {
        scenario.jobs = SCENARIOS[name].smoke;
        if (scenario.waiting !== undefined)
            scenario.waiting /= 100;
    }
    scenario.seconds ??= smoke ? 30 : 90;
    return scenario;
}
