// Whether the rate stays what it is when very many jobs wait, have finished, or stand in the way: Pawl, and
// on PostgreSQL graphile-worker and pg-boss beside it.
//
// usage: flat.js RESULTS DIRECTORY [DOCUMENT]     (by scripts/bench-flat, which says what the environment
//                                                 holds; without a document the table goes to the terminal)
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { machineText, median, number, spread, writeBetween } from './figures.js';
import { machine, programVersion } from './machine.js';
import { pawlPrepare } from './pawl.js';
import { ended, killAll, lines, start } from './processes.js';
import { postgres } from './servers.js';

const [resultsPath, work, documentPath] = process.argv.slice(2);
const smoke = process.env.SMOKE === '1';

const scale = Number(process.env.SCALE || 1);
const SIZES = smoke
    ? { few: 200, many: 3000, sqlite: 6000, finished: 2000, jobs: 1000, repeats: 1 }
    : { few: 10000, many: 1000000 / scale, sqlite: 10000000 / scale, finished: 500000 / scale, jobs: 40000, repeats: 3 };
const BATCH = 500;
const SECONDS = smoke ? 60 : 600; // the most that one step may take, filling included
const POSTGRES = 'shared_buffers=1GB, max_wal_size=4GB, synchronous_commit=on';

process.on('SIGINT', () => { finish(130); });
process.on('SIGTERM', () => { finish(143); });
process.on('SIGHUP', () => { finish(129); });

async function finish(status) {
    await killAll();
    process.exit(status);
}

// ---- who is asked ----

// A system is asked for a rate: { waiting, mix } => jobs a second, and to have jobs come and go: finish(count).
//   waiting   jobs that wait meanwhile; what is missing of them is made
//   mix       they are such that no worker may have them

async function said(command) {
    const child = start(command);
    let text = '';
    lines(child).on('line', (line) => { if (line.startsWith('{')) text = line; });
    await ended(child, SECONDS);
    return JSON.parse(text);
}

async function benchPawl(target, words, options) {
    const { results } = await said([
        'env', '-u', 'PAWL_STORE', `TMPDIR=${work}`, process.env.PAWL, 'bench', ...words, '--json', '--batch', BATCH,
        '--clients', 4, '--payload', 200, '--seconds', SECONDS, '--keep', '--queue', 'flat', '--store', target,
        ...options,
    ].map(String));
    return results.map((row) => row.runs.map((run) => run.count / run.seconds));
}

const pawl = (target) => ({
    async rate({ waiting, mix }) {
        const [[rate]] = await benchPawl(target, ['backlog', '--waiting', waiting],
            ['--jobs', SIZES.jobs, '--repeat', 1, '--warm-up', 1, ...(mix ? ['--mix'] : [])]);
        return rate;
    },
    finish: (count) => benchPawl(target, ['work'], ['--jobs', count, '--repeat', 1, '--warm-up', 0]),
});

const peer = (script, clients) => (target) => {
    const run = (jobs, options) => said([
        process.execPath, join(import.meta.dirname, script), '--operation', 'both', '--target', target, '--producers', 4,
        '--clients', clients, '--batch', BATCH, '--seconds', SECONDS, '--jobs', jobs, ...options,
    ].map(String));
    return {
        async rate({ waiting, mix }) {
            const result = await run(SIZES.jobs, ['--waiting', waiting, ...(mix ? ['--mix', 1] : [])]);
            return result.jobs / result.seconds;
        },
        finish: (count, waiting) => run(count, ['--waiting', waiting]),
    };
};

const ON_POSTGRES = [
    { name: 'pawl', title: 'Pawl, PostgreSQL', open: pawl, prepare: pawlPrepare },
    { name: 'graphile-worker', title: 'graphile-worker', open: peer('graphile_worker.js', 24) },
    { name: 'pg-boss', title: 'pg-boss', open: peer('pg_boss.js', 4) },
];

// ---- what is asked ----

async function connected(target, act) {
    const client = new pg.Client({ connectionString: target });
    await client.connect();
    try {
        return await act(client);
    } finally {
        await client.end();
    }
}

const autovacuum = (target, setting) => connected(target, async (client) => {
    await client.query(`ALTER SYSTEM SET autovacuum = ${setting}`);
    await client.query('SELECT pg_reload_conf()');
});

// Somebody's transaction, which sees the database as it was and so keeps dead rows from being tidied up.
const whileOpen = (target, act) => connected(target, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT pg_current_xact_id(), count(*) FROM pg_class');
    return act();
});

async function inDatabase({ prepare, open }, act) {
    const server = await postgres();
    try {
        if (prepare)
            await ended(start(prepare(server.target)), 60);
        return await act(open(server.target), server.target);
    } finally {
        await server.stop();
    }
}

// Where few jobs wait and where many do, in turn: a machine that becomes slower becomes it for both.
async function inTurn(small, large, waiting, mix) {
    const rates = { few: [], many: [] };
    for (let i = 0; i < SIZES.repeats; i++) {
        rates.many.push(await large.rate({ waiting, mix }));
        rates.few.push(await small.rate({ waiting: SIZES.few, mix }));
    }
    return rates;
}

async function onPostgres(system) {
    const { many, finished } = SIZES;
    const note = noteFor(system.title);
    await inDatabase(system, (small) => inDatabase(system, async (large, target) => {
        await note('many', () => inTurn(small, large, many));
        await autovacuum(target, 'off');
        try {
            await large.finish(finished, many);
            await note('finished', () => inTurn(small, large, many));
            await note('open', () => whileOpen(target, () => inTurn(small, large, many)));
        } finally {
            await autovacuum(target, 'on');
        }
    }));
    await inDatabase(system, (small) => inDatabase(system,
        (large) => note('mix', () => inTurn(small, large, many, true))));
}

async function onSqlite() {
    const note = noteFor('Pawl, SQLite');
    for (const mix of [false, true]) {
        const directory = mkdtempSync(join(work, 'flat-'));
        const targets = ['small', 'large'].map((name) => `sqlite:${join(directory, name)}.db`);
        try {
            for (const target of targets)
                await ended(start(pawlPrepare(target)), 60);
            const [small, large] = targets.map(pawl);
            await note(mix ? 'mix' : 'many', () => inTurn(small, large, SIZES.sqlite, mix));
        } finally {
            rmSync(directory, { recursive: true, force: true });
        }
    }
}

// ---- what came of it ----

const results = { smoke, sizes: SIZES, systems: {}, failures: 0 };

const rateText = (rates) => `${number(median(rates))} ±${spread(rates)} %`;

const noteFor = (title) => async (name, act) => {
    const begun = performance.now();
    let text;
    results.systems[title] ??= {};
    try {
        const { few, many } = await act();
        results.systems[title][name] = { few, many };
        text = `${rateText(few)} → ${rateText(many)} per second`;
    } catch (error) {
        results.failures++;
        text = `FAILED: ${error.message ?? error}`;
    }
    console.log(`${title.padEnd(20)} ${name.padEnd(10)} ${text.padStart(44)}   (${number((performance.now() - begun) / 1000)} s)`);
    writeFileSync(resultsPath, JSON.stringify(results, null, 1));
};

const short = (count) => (count >= 1e6 ? `${count / 1e6} M` : `${number(count / 1e3, count % 1000 ? 1 : 0)} k`);

function table() {
    const { few, many, sqlite, finished } = SIZES;
    const cell = (of) => (of
        ? `× ${number(median(of.many) / median(of.few), 2)} (${rateText(of.many)} beside ${rateText(of.few)})` : '–');
    const rows = Object.entries(results.systems).map(([title, of]) => [
        `${title}, ${short(title.endsWith('SQLite') ? sqlite : many)}`, cell(of.many), cell(of.finished), cell(of.open),
        cell(of.mix)]);
    return [
        [`system, and how many wait instead of ${short(few)}`, 'very many waiting', `and ${short(finished)} finished before`,
            'and a transaction open', 'very many in the way'],
        ['---', '---', '---', '---', '---'], ...rows,
    ].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

const text = () => `Jobs per second while producers and workers are both busy (${BATCH} in a call, 4 of each; graphile-worker 24 workers with a local queue of ${BATCH}), medians of ${SIZES.repeats} runs of ${number(SIZES.jobs)} jobs and half the range; × is
the rate beside that of a store where only ${short(SIZES.few)} wait, or stand in the way, which was measured in turn with it. All are libraries in the process that measures.

${table()}

*Finished*: that many jobs came and went right before, and autovacuum was off from then on, so that nobody tidied up. *A transaction open*: the same database, and all the while somebody's transaction that sees it as it was before, so that nothing that is dead may be
tidied up. *In the way*: jobs that stand where workers look and that they may not have. For Pawl a third is of other kinds, a third for tomorrow, a third in a paused queue that workers ask for too; for the peers, which have no paused queues, half and half. The peers
had an ANALYZE after filling; Pawl had none.

Caches: SQLite has a page cache of 64 MiB (Pawl's default) and what the kernel keeps of the file; PostgreSQL ${results.postgres} ${POSTGRES}. ${machineText(results.machine)}
`;

async function main() {
    mkdirSync(join(work, 'disk'));
    results.machine = machine(join(work, 'disk'), smoke);
    results.postgres = programVersion(['psql', '--version']);
    await onSqlite();
    for (const system of ON_POSTGRES)
        await onPostgres(system);
    writeFileSync(resultsPath, JSON.stringify(results, null, 1));
    if (documentPath && !smoke && scale === 1 && results.failures === 0) {
        writeBetween(documentPath, 'bench-flat', text());
        console.log(`written: ${documentPath}`);
    } else {
        console.log(text());
    }
    return results.failures === 0 ? 0 : 1;
}

main().then(finish, async (error) => {
    console.error(`bench-flat: ${error.message ?? error}`);
    await finish(1);
});
