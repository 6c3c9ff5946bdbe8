// graphile-worker: a finished job's row is deleted, so what is left in the table is what is unfinished.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { drive, together } from './driver.js';

const silent = new Logger(() => () => {});

drive(async ({ target, producers, clients, role }) => {
    const pool = new pg.Pool({ connectionString: target, max: Math.max(producers, clients) + 4 });
    const fatal = (error) => { console.error(error); process.exit(1); };
    pool.on('error', fatal);
    pool.on('connect', (client) => { client.on('error', fatal); });
    const utils = await makeWorkerUtils({ pgPool: pool, logger: silent });
    if (role !== 'producer')
        await utils.migrate();
    await together(pool.options.max, () => pool.query('SELECT pg_sleep(0.1)')); // opens all connections
    const jobOf = (payload) => ({ identifier: 'noop', payload });
    return {
        async enqueue(payloads) {
            if (payloads.length === 1)
                await utils.addJob('noop', payloads[0]);
            else
                await utils.addJobs(payloads.map(jobOf));
        },
        async obstruct(payloads) {
            const runAt = new Date(Date.now() + 86400000);
            await utils.addJobs(payloads.map((payload, i) =>
                (i % 2 === 0 ? { identifier: 'other', payload } : { identifier: 'noop', payload, runAt })));
        },
        async ready() {
            await pool.query('ANALYZE graphile_worker._private_jobs');
        },
        async work(count, batch, started) {
            const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
            await run({
                pgPool: pool,
                noHandleSignals: true,
                logger: silent,
                taskList: { noop: (payload) => { started(payload); } },
                preset: {
                    worker: { concurrentJobs: count, pollInterval: 1000, ...(batch > 1 ? batched : {}) },
                },
            });
        },
        async left() {
            const { rows } = await pool.query('SELECT count(*)::int AS n FROM graphile_worker._private_jobs');
            return rows[0].n;
        },
    };
});
