// A small shop at work, for the pictures: orders, mails, reports, an agent's research, benches.

/* Longer than anybody looks at it. */
const LEASE = { lease_ttl_ms: 3_600_000 };

const pick = (list, i) => list[i % list.length];

async function history(server) {
    const kinds = ['send-mail', 'resize-image', 'charge-card', 'sync-crm', 'build-report'];
    const queues = {
        'send-mail': 'mail',
        'resize-image': 'media',
        'charge-card': 'billing',
        'sync-crm': 'default',
        'build-report': 'reports',
    };
    const jobs = Array.from({ length: 240 }, (_, i) => {
        const kind = pick(kinds, i * 7 + (i >> 3));
        return {
            kind,
            queue: queues[kind],
            payload: { order: 4200 + i, customer: pick(['ada', 'grace', 'linus', 'barbara'], i) },
            labels: { region: pick(['eu', 'us'], i) },
        };
    });
    await server.post('/v1/jobs', { jobs });
    for (const kind of kinds) {
        const { claims } = await server.post('/v1/claims', {
            worker_id: `${queues[kind]}-worker-1`,
            kinds: [kind],
            max: 200,
            wait_ms: 0,
            ...LEASE,
        });
        const ops = claims.slice(3).map(({ lease }, i) => ({
            op: 'complete',
            token: lease.token,
            result: { ok: true, n: i },
        }));
        if (ops.length) await server.post('/v1/batch', { ops });
    }
    await server.post('/v1/jobs', {
        jobs: Array.from({ length: 34 }, (_, i) => ({
            kind: pick(['send-mail', 'resize-image'], i),
            queue: pick(['mail', 'media'], i),
            payload: { order: 5000 + i },
        })),
    });
}

async function trouble(server) {
    const deaths = [
        ['charge-card', 'card_declined: the issuer refused the payment', 6],
        ['sync-crm', 'connect ETIMEDOUT crm.internal:443', 9],
        ['sync-crm', 'HTTP 502: the gateway is overloaded', 4],
        ['resize-image', 'libvips: cannot read image, truncated at byte 40960', 3],
    ];
    for (const [kind, message, n] of deaths)
        for (let i = 0; i < n; i++)
            await server.die(kind, message, { queue: 'legacy', payload: { order: 3000 + i } });
    const bad = await server.submit('import-feed', {
        queue: 'reports',
        payload: { feed: 'prices.csv' },
    });
    await server.post(`/v1/jobs/${bad.id}/dead-letter`, {
        reason_code: 'parse_error',
        message: 'line 7 is no CSV',
    });
    for (const message of ['503 Service Unavailable', '503 Service Unavailable']) {
        await server.submit('push-webhook', {
            queue: 'default',
            payload: { url: 'https://example.org/hook' },
            retry: { max_attempts: 8, initial_ms: 60000 },
        });
        await server.lease(await server.claim('push-webhook'), 'fail', {
            error: { message, class: 'transient' },
        });
    }
}

let eventful = 0;

/** A job with several attempts, an effect in doubt, and a question at its end. */
export async function eventfulJob(server) {
    const job = await server.submit('charge-card', {
        queue: 'billing',
        goal: 'Charge order 4711',
        agent_id: 'billing-agent',
        correlation_id: 'order-4711',
        labels: { region: 'eu', tier: 'gold' },
        idempotency_key: `charge-4711${'+'.repeat(eventful++)}`,
        in_doubt: 'ask',
        priority: 99,
        payload: {
            order: 4711,
            amount: '129.90',
            currency: 'EUR',
            items: [
                { sku: 'PWL-1', n: 2 },
                { sku: 'PWL-7', n: 1 },
            ],
        },
        retry: { max_attempts: 5, strategy: 'fixed', initial_ms: 400, jitter: 'none' },
    });
    let token = await server.claim('charge-card', {
        worker_id: 'billing-worker-1',
        queues: ['billing'],
    });
    await server.lease(token, 'heartbeat', { progress: { stage: 'reserve' } });
    await server.lease(token, 'effects/reserve-stock/begin', { input: { sku: 'PWL-1', n: 2 } });
    await server.lease(token, 'effects/reserve-stock/commit', {
        result: { reservation: 'r-1881' },
    });
    await server.lease(token, 'fail', {
        error: { message: 'gateway timeout after 30 s', class: 'transient' },
    });
    token = await server.claim('charge-card', {
        worker_id: 'billing-worker-2',
        queues: ['billing'],
    });
    await server.lease(token, 'heartbeat', { progress: { stage: 'charge' } });
    await server.lease(token, 'effects/charge/begin', { input: { amount: '129.90' } });
    await server.lease(token, 'fail', {
        error: { message: 'connection reset by peer', class: 'transient' },
    });
    token = await server.claim('charge-card', {
        worker_id: 'billing-worker-1',
        queues: ['billing'],
    });
    await server.lease(token, 'effects/charge/begin', { input: { amount: '129.90' } });
    return job;
}

async function questions(server) {
    const refund = await server.submit('refund', {
        queue: 'billing',
        payload: { order: 4402, amount: '480.00' },
        goal: 'Refund order 4402',
    });
    await server.lease(await server.claim('refund'), 'wait', {
        type: 'human',
        correlation_key: 'refund-4402',
        prompt: 'Refund 480.00 € for order 4402? The parcel came back opened.',
        choices: ['full', 'half', 'none'],
        assignee: 'ada',
    });
    await server.submit('publish-post', { queue: 'default', payload: { slug: 'winter-sale' } });
    await server.lease(await server.claim('publish-post'), 'wait', {
        type: 'human',
        correlation_key: 'publish',
        prompt: 'Publish “Winter sale” to 48,000 readers?',
        assignee: 'grace',
    });
    return refund;
}

/** An agent's research: searches side by side, a critic, a person at the end. */
export async function researchPlan(server) {
    const source = (id, deps) => ({ id, kind: 'search', deps, payload: { query: id } });
    const job = await server.submit('research', {
        queue: 'agents',
        goal: 'What do durable workflow engines promise?',
        agent_id: 'scout-7',
        plan: {
            steps: [
                { id: 'outline', kind: 'write', payload: { words: 200 } },
                source('papers', ['outline']),
                source('news', ['outline']),
                source('forums', ['outline']),
                source('benchmarks', ['outline']),
                { id: 'rank-sources', kind: 'rank', deps: ['papers', 'news', 'forums'] },
                { id: 'measure', kind: 'bench', deps: ['benchmarks'], capabilities: ['gpu'] },
                { id: 'draft', kind: 'write', deps: ['rank-sources', 'measure'], critic: true },
                {
                    id: 'approve-outline',
                    deps: ['outline'],
                    wait: {
                        type: 'human',
                        prompt: 'Is the outline what you had in mind?',
                        choices: ['yes', 'shorter', 'start over'],
                        assignee: 'ada',
                    },
                },
                { id: 'figures', kind: 'draw', deps: ['measure'] },
                { id: 'publish', kind: 'publish', deps: ['draft', 'figures', 'approve-outline'] },
            ],
        },
    });
    const register = (id, more = {}) =>
        server.put(`/v1/resources/${id}`, { slots: 4, ttl_ms: 3_600_000, ...more });
    await register('desk-1', { capabilities: ['cpu'], labels: { site: 'lab' } });
    await register('desk-2', { capabilities: ['cpu'], labels: { site: 'lab' }, slots: 2 });
    await register('gpu-1', {
        capabilities: ['gpu', 'cuda'],
        labels: { site: 'cloud', zone: 'eu' },
        slots: 2,
    });
    const work = async (resource, kinds, result) => {
        const { step, token } = await server.claimStep(resource, { kinds, ...LEASE });
        if (result !== undefined) await server.lease(token, 'complete', { result });
        return step;
    };
    await work('desk-1', ['write'], { sections: ['promises', 'costs', 'failures'] });
    for (const n of [14, 9, 22, 5])
        await work(n > 10 ? 'desk-1' : 'desk-2', ['search'], { found: n });
    await work('desk-1', ['rank']);
    await work('gpu-1', ['bench']);
    return job;
}

export async function demo(server) {
    await history(server);
    await trouble(server);
    await questions(server);
    const plan = await researchPlan(server);
    const job = await eventfulJob(server);
    return { plan: plan.id, job: job.id };
}
