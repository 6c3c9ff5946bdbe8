// BullMQ: finished jobs are removed, so what Redis still has is what is unfinished, or failed.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { drive } from './driver.js';

const QUEUE = 'bench';

drive(async ({ target }) => {
    const connect = () => new Redis(Number(target), '127.0.0.1', { maxRetriesPerRequest: null });
    const queue = new Queue(QUEUE, { connection: connect(), defaultJobOptions: { removeOnComplete: true } });
    await queue.waitUntilReady();
    let seen; // a job that was started, for those who read
    return {
        async enqueue(payloads) {
            if (payloads.length === 1)
                await queue.add('noop', payloads[0]);
            else
                await queue.addBulk(payloads.map((data) => ({ name: 'noop', data })));
        },
        async work(count, batch, started) {
            const worker = new Worker(QUEUE, async ({ id, data }) => { seen = id; started(data); },
                { connection: connect(), concurrency: count });
            worker.on('error', (error) => { console.error(error); process.exit(1); });
            await worker.waitUntilReady();
        },
        async get() {
            if (seen !== undefined)
                await queue.getJob(seen);
        },
        async list() {
            await queue.getJobs(['wait', 'active'], 0, 49);
        },
        async left() {
            const counts = await queue.getJobCounts('wait', 'active', 'delayed', 'prioritized', 'paused', 'failed');
            return Object.values(counts).reduce((sum, n) => sum + n, 0);
        },
    };
});
