// Pawl's side is measured by `pawl bench`; this says the same to it as to the clients of the peers.
import { dirname } from 'node:path';

const VERBS = { enqueue: ['submit'], work: ['drain'], both: ['work'], mixed: ['mixed'], latency: ['latency'], steps: ['effects'] };

const named = (options) => Object.entries(options)
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)]));

function clientsOf({ operation, producers, clients }) {
    return operation === 'enqueue' ? producers : clients;
}

// A SQLite file is made and thrown away by `pawl bench` itself; a database is there, and is thrown away by us.
export function pawlCommand(system, scenario, target) {
    const isDatabase = target.startsWith('postgres');
    const { jobs, batch = 1, rate, waiting, polls, lists, gets, seconds } = scenario;
    return [
        'env', '-u', 'PAWL_STORE', `TMPDIR=${dirname(target)}`,
        process.env.PAWL, 'bench', ...(waiting === undefined ? VERBS[scenario.operation] : ['backlog']), '--json',
        ...(isDatabase ? ['--store', target, '--keep'] : []),
        ...(system.pawl.serve ? ['--serve'] : []),
        ...named({ jobs, batch, rate, waiting, polls, lists, gets, seconds, clients: clientsOf(scenario), payload: 200, repeat: 1, 'warm-up': 0 }),
    ];
}

// The first job makes the schema; nobody asks for one of its kind.
export const pawlPrepare = (target) => [process.env.PAWL, 'submit', 'first', '--store', target];

// It measures jobs with 1 and with 4 effects; and lives alone and beside other load.
function rowOf({ operation, steps }, results) {
    const name = { steps: `${steps} effect`, mixed: 'lives' }[operation];
    return name === undefined ? results[0] : results.findLast((row) => row.case.startsWith(name));
}

// Counts come from the store: `pawl bench` fails when that has others than its clients. `databaseCpu` tells
// the microseconds that PostgreSQL has used between two moments.
export function pawlResult(scenario, text, databaseCpu) {
    const row = rowOf(scenario, JSON.parse(text).results);
    const [run] = row.runs;
    const result = {
        jobs: run.count, seconds: run.seconds, client_cpu_us: run.client_cpu_s * 1e6,
        left: scenario.operation === 'enqueue' ? run.count : (scenario.waiting ?? 0),
    };
    if (run.server_cpu_s !== null)
        result.server_cpu_us = run.server_cpu_s * 1e6 + databaseCpu(run.start_s, run.start_s + run.seconds);
    if (row.latency_ms) {
        result.p50_ms = row.latency_ms.p50.median;
        result.p99_ms = row.latency_ms.p99.median;
    }
    return result;
}
