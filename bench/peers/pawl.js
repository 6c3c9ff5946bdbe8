// Pawl's side is measured by `pawl bench`; this says the same to it as to the clients of the peers.
import { dirname } from 'node:path';

const VERBS = { enqueue: ['submit'], work: ['drain'], both: ['work'], latency: ['latency'], steps: ['submit', 'effects'] };

const named = (options) => Object.entries(options)
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)]));

function clientsOf({ operation, producers, clients }) {
    return operation === 'enqueue' ? producers : clients;
}

// A SQLite file is made and thrown away by `pawl bench` itself; a database is there, and is thrown away by us.
export function pawlCommand(system, scenario, target) {
    const isDatabase = target.startsWith('postgres');
    const { jobs, batch = 1, rate, waiting, polls, seconds } = scenario;
    return [
        'env', '-u', 'PAWL_STORE', `TMPDIR=${dirname(target)}`,
        process.env.PAWL, 'bench', ...(waiting === undefined ? VERBS[scenario.operation] : ['backlog']), '--json',
        ...(isDatabase ? ['--store', target, '--keep'] : []),
        ...(system.pawl.serve ? ['--serve'] : []),
        ...named({ jobs, batch, rate, waiting, polls, seconds, clients: clientsOf(scenario), payload: 200, repeat: 1, 'warm-up': 0 }),
    ];
}

// The first job makes the schema; nobody asks for one of its kind.
export const pawlPrepare = (target) => [process.env.PAWL, 'submit', 'first', '--store', target];

// Workflows of the peers are made, run and awaited in one go. Here they are submitted first and worked on
// after that: both count.
function rowsOf({ operation, steps }, results) {
    if (operation !== 'steps')
        return [results[0]];
    const effects = `${steps} effect${steps === 1 ? '' : 's'}`;
    return results.filter(({ scenario, case: which }) => scenario === 'submit' || which === effects);
}

// Counts come from the store: `pawl bench` fails when that has others than its clients. `databaseCpu` tells
// the microseconds that PostgreSQL has used between two moments.
export function pawlResult(scenario, text, databaseCpu) {
    const rows = rowsOf(scenario, JSON.parse(text).results);
    const runs = rows.map((row) => row.runs[0]);
    const sum = (value) => runs.reduce((total, run) => total + value(run), 0);
    const jobs = Math.min(...runs.map((run) => run.count));
    const result = {
        jobs, seconds: sum((run) => run.seconds), client_cpu_us: sum((run) => run.client_cpu_s) * 1e6,
        left: scenario.operation === 'enqueue' ? jobs : (scenario.waiting ?? 0),
    };
    if (runs[0].server_cpu_s !== null) {
        result.server_cpu_us = sum((run) => run.server_cpu_s * 1e6 +
            databaseCpu(run.start_s, run.start_s + run.seconds));
    }
    if (rows[0].latency_ms) {
        result.p50_ms = rows[0].latency_ms.p50.median;
        result.p99_ms = rows[0].latency_ms.p99.median;
    }
    return result;
}
