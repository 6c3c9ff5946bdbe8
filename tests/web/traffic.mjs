// A little traffic, so that something is to be seen: jobs come, take their time, and sometimes fail.

const KINDS = ['send-mail', 'resize-image', 'sync-crm', 'build-report'];
const TICK_MS = 250;

export function keepBusy(server) {
    let gone = false;
    let n = 0;
    const held = [];

    async function tick() {
        const wave = 6 + Math.round(3 * Math.sin(n / 12) + 2 * Math.sin(n / 5));
        await server.post('/v1/jobs', {
            jobs: Array.from({ length: wave }, (_, i) => ({
                kind: KINDS[(n + i) % 4],
                queue: ['mail', 'media', 'default', 'reports'][(n + i) % 4],
                payload: { order: 6000 + n },
                labels: { region: n % 3 ? 'eu' : 'us' },
                goal: `Order ${6000 + n}`,
            })),
        });
        const { claims } = await server.post('/v1/claims', {
            worker_id: `shop-worker-${n % 3}`,
            kinds: KINDS,
            max: wave + (n % 3),
            wait_ms: 0,
        });
        for (const { lease } of claims)
            held.push({ token: lease.token, until: n + 1 + ((n * 7 + held.length) % 5) });
        const done = held.filter((one) => one.until <= n);
        for (const one of done) held.splice(held.indexOf(one), 1);
        const ops = done.map(({ token }, i) =>
            (n + i) % 23 === 0
                ? { op: 'fail', token, error: { message: '503 Service Unavailable' } }
                : { op: 'complete', token, result: { ok: true } },
        );
        if (ops.length) await server.post('/v1/batch', { ops });
        n++;
    }
    const loop = (async () => {
        while (!gone) {
            await tick();
            await new Promise((resolve) => setTimeout(resolve, TICK_MS));
        }
    })();
    return async () => {
        gone = true;
        await loop;
    };
}
