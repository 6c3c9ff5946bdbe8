// pg-boss: fetch and complete, in loops, as its manual has it for the highest rate; for latency its own
// worker, woken by NOTIFY.
import { PgBoss } from 'pg-boss';
import pg from 'pg';
import { drive, together } from './driver.js';

const QUEUE = 'bench';
const OTHER = 'other';

drive(async ({ operation, target, producers, clients, role }) => {
    const notify = operation === 'latency';
    const max = Math.max(producers, clients) + 4;
    const boss = new PgBoss({
        connectionString: target,
        max,
        supervise: false,
        schedule: false,
        migrate: role !== 'producer',
        useListenNotify: notify,
    });
    boss.on('error', (error) => { console.error(error); process.exit(1); });
    await boss.start();
    if (role !== 'producer')
        await together(2, async (_, i) => boss.createQueue([QUEUE, OTHER][i], { notify }));
    await together(max, () => boss.getDb().executeSql('SELECT pg_sleep(0.1)')); // opens all connections
    const pool = new pg.Pool({ connectionString: target, max: 1 });

    let seen; // a job that was fetched, for those who read

    async function loop(batch, started) {
        for (;;) {
            const jobs = await boss.fetch(QUEUE, { batchSize: batch });
            if (jobs.length === 0) {
                await new Promise((resolve) => { setTimeout(resolve, 2); });
                continue;
            }
            const ids = jobs.map(({ id }) => id);
            seen = ids[0];
            await boss.complete(QUEUE, ids.length === 1 ? ids[0] : ids);
            for (const { data } of jobs)
                started(data);
        }
    }

    return {
        async enqueue(payloads) {
            if (payloads.length === 1)
                await boss.send(QUEUE, payloads[0]);
            else
                await boss.insert(QUEUE, payloads.map((data) => ({ data })));
        },
        async obstruct(payloads) {
            await boss.insert(OTHER, payloads.filter((_, i) => i % 2 === 0).map((data) => ({ data })));
            await boss.insert(QUEUE, payloads.filter((_, i) => i % 2 === 1).map((data) => ({ data, startAfter: 86400 })));
        },
        async ready() {
            await pool.query('ANALYZE');
        },
        async work(count, batch, started) {
            if (notify) {
                await boss.work(QUEUE, { localConcurrency: count, pollingIntervalSeconds: 0.5 }, async (jobs) => {
                    for (const { data } of jobs)
                        started(data);
                });
                return;
            }
            for (let i = 0; i < count; i++)
                loop(batch, started).catch((error) => { console.error(error); process.exit(1); });
        },
        async get() {
            if (seen !== undefined)
                await boss.findJobs(QUEUE, { id: seen });
        },
        async list() {
            await boss.findJobs(QUEUE, { limit: 50 });
        },
        async left() {
            const { rows } = await pool.query(
                `SELECT count(*)::int AS n FROM pgboss.job WHERE name IN ('${QUEUE}', '${OTHER}') AND state <> 'completed'`);
            return rows[0].n;
        },
    };
});
