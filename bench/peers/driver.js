// What the Node clients of the peers share. It does what driver.h does for those in C: fills the queue,
// prints `begin`, runs what is timed, prints `end`, asks the store what is left, and prints JSON.
//
// A peer is a function (options) => {
//     enqueue(payloads)       resolves when all of them are safe
//     work(clients, batch, started)   starts workers; started(payload) is called as each job starts
//     left()                  how many jobs the store has that are not finished
//     obstruct(payloads)      as enqueue, but of jobs that no worker may have: a mix, which stands in the way
//     ready()                 optional: after the queue was filled, before time is taken
//     get(), list()           for the operation `mixed`: reads one job, and 50 of them
//     run(payload)            a workflow from end to end, for the operation `steps`
//     close()
// }
import { fork } from 'node:child_process';
import { parseArgs } from 'node:util';

const DEFAULTS = {
    operation: 'enqueue', target: '', jobs: 1, waiting: 0, clients: 1, producers: 1, batch: 1, rate: 100,
    steps: 1, lists: 0, gets: 0, seconds: 60, role: '', mix: 0,
};

const FILL_BATCH = 500;
const PAYLOAD = { data: 'x'.repeat(200 - '{"data":""}'.length) };

function parsed() {
    const { values } = parseArgs({
        options: Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, { type: 'string' }])),
    });
    const options = { ...DEFAULTS };
    for (const [name, value] of Object.entries(values))
        options[name] = typeof DEFAULTS[name] === 'number' ? Number(value) : value;
    return options;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const cpuMicroseconds = () => { const { user, system } = process.cpuUsage(); return user + system; };

export const together = (count, act) => Promise.all(Array.from({ length: count }, act));

// `parties` callers take jobs from one heap until none are left, `batch` at a time.
export async function inParallel(jobs, parties, batch, act) {
    let next = 0;
    await together(parties, async () => {
        while (next < jobs) {
            const count = Math.min(batch, jobs - next);
            next += count;
            await act(count);
        }
    });
}

const enqueueAll = (peer, jobs, producers, batch) =>
    inParallel(jobs, producers, batch, (count) => peer.enqueue(Array(count).fill(PAYLOAD)));

// Counts what handlers start, and lets somebody wait for it. It only says when to look: what counts is
// what the store says then.
function counter(target) {
    const count = { started: 0 };
    count.reached = new Promise((resolve) => {
        count.one = () => { if (++count.started === target) resolve(); };
    });
    return count;
}

async function untilLeft(peer, waiting) {
    for (;;) {
        const left = await peer.left();
        if (left <= waiting)
            return left;
        await sleep(2);
    }
}

function stopwatch() {
    console.log('begin');
    const cpu = cpuMicroseconds();
    const start = performance.now();
    return () => {
        const seconds = (performance.now() - start) / 1e3;
        const client_cpu_us = cpuMicroseconds() - cpu;
        console.log('end');
        return { seconds, client_cpu_us };
    };
}

async function enqueue(peer, { jobs, producers, batch }) {
    const stop = stopwatch();
    await enqueueAll(peer, jobs, producers, batch);
    return { jobs, ...stop(), left: await peer.left() };
}

// With jobs to spare they are counted at a moment, not to the end: some more than were asked for.
// `all` is how many the store had, with those that came meanwhile.
async function finishWork(peer, { waiting }, all, stop) {
    if (waiting === 0) {
        const left = await untilLeft(peer, 0);
        return { jobs: all - left, ...stop(), left };
    }
    const counting = peer.left(); // of the moment in which it is asked
    const time = stop();
    const left = await counting;
    return { jobs: all - left, ...time, left };
}

async function work(peer, options) {
    const { jobs, waiting, clients, batch } = options;
    await enqueueAll(peer, jobs + waiting, 4, FILL_BATCH);
    await peer.ready?.();
    const count = counter(jobs);
    const stop = stopwatch();
    await peer.work(clients, batch, count.one);
    await count.reached;
    return finishWork(peer, options, jobs + waiting, stop);
}

// Until so many wait, with those that are there already; says how many that are.
async function fill(peer, { waiting, mix }) {
    if (waiting === 0)
        return 0;
    await inParallel(waiting - await peer.left(), 4, FILL_BATCH, (count) =>
        (mix ? peer.obstruct : peer.enqueue)(Array(count).fill(PAYLOAD)));
    await peer.ready?.();
    return peer.left();
}

// The producers have a process of their own, as they would in life.
async function both(peer, options) {
    const { jobs, waiting, clients, batch } = options;
    const before = await fill(peer, options);
    const producer = fork(process.argv[1], [...process.argv.slice(2), '--role', 'producer']);
    const said = (what) => new Promise((resolve, reject) => {
        producer.once('message', (message) => (what in message ? resolve(message[what]) : reject(message)));
        producer.once('exit', () => reject(new Error('the producer ended')));
    });
    await said('ready');
    const count = counter(jobs);
    const stop = stopwatch();
    const produced = said('cpu');
    producer.send('go');
    await peer.work(clients, batch, count.one);
    const [cpu] = await Promise.all([produced, count.reached]);
    const result = await finishWork(peer, options, before + jobs, stop);
    result.client_cpu_us += cpu;
    return result;
}

// Calls `act` so many times a second, whether or not the call before has ended, until it is stopped.
function atRate(perSecond, act) {
    const running = new Set();
    const timer = setInterval(() => {
        const call = act().finally(() => running.delete(call));
        running.add(call);
    }, 1000 / perSecond);
    return async () => {
        clearInterval(timer);
        await Promise.all(running);
    };
}

async function mixed(peer, options) {
    const stops = [atRate(options.gets, peer.get), atRate(options.lists, peer.list)];
    const result = await both(peer, options);
    await Promise.all(stops.map((stop) => stop()));
    return result;
}

async function produce(peer, { jobs, producers, batch }) {
    const told = new Promise((resolve) => { process.once('message', resolve); });
    process.once('disconnect', () => process.exit(1)); // who started us is gone
    process.send({ ready: true });
    await told;
    const cpu = cpuMicroseconds();
    await enqueueAll(peer, jobs, producers, batch);
    await new Promise((resolve) => { process.send({ cpu: cpuMicroseconds() - cpu }, resolve); });
}

async function latency(peer, { jobs, clients, rate }) {
    const ms = [];
    const count = counter(jobs);
    const filler = PAYLOAD.data.slice(0, 150);
    await peer.work(clients, 1, ({ sent }) => {
        ms.push(performance.now() - sent);
        count.one();
    });
    await sleep(1000); // until every worker waits
    const stop = stopwatch();
    const start = performance.now();
    const sending = [];
    for (let i = 0; i < jobs; i++) {
        const wait = start + (i * 1000) / rate - performance.now();
        if (wait > 0)
            await sleep(wait);
        sending.push(peer.enqueue([{ data: filler, sent: performance.now() }]));
    }
    await Promise.all(sending);
    await count.reached;
    const time = stop();
    ms.sort((a, b) => a - b);
    return {
        jobs, ...time, left: await untilLeft(peer, 0),
        p50_ms: ms[Math.floor((jobs - 1) / 2)], p99_ms: ms[Math.floor(((jobs - 1) * 99) / 100)],
    };
}

async function steps(peer, { jobs, clients }) {
    await inParallel(Math.min(jobs, 200), clients, 1, () => peer.run(PAYLOAD)); // warm
    const before = await peer.finished();
    const stop = stopwatch();
    await inParallel(jobs, clients, 1, () => peer.run(PAYLOAD));
    const time = stop();
    return { jobs: (await peer.finished()) - before, ...time, left: await peer.left() };
}

export async function drive(open) {
    const options = parsed();
    setTimeout(() => {
        console.error(`not done after ${options.seconds} s`);
        process.exit(3);
    }, options.seconds * 1000).unref();
    try {
        const peer = await open(options);
        if (options.role === 'producer')
            await produce(peer, options);
        else
            console.log(JSON.stringify(await { enqueue, work, both, mixed, latency, steps }[options.operation](peer, options)));
    } catch (error) {
        console.error(error);
        process.exit(1);
    }
    process.exit(0); // The databases are thrown away: nobody needs to be told.
}
