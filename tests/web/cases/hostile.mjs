// Names and payloads are text, whatever they say.
import { sure, visit, act, same } from '../browser.mjs';

const SCRIPT = '<script>window.owned=1</script>';
const IMAGE = '"><img src=x onerror="window.owned=1">';
const LINK = 'javascript:window.owned=1';
const BOTH = `${SCRIPT}${IMAGE}`;

async function hostileWorld(server) {
    const submit = {
        queue: IMAGE,
        payload: { [SCRIPT]: BOTH, list: [IMAGE, LINK] },
        labels: { [SCRIPT.slice(0, 60)]: IMAGE },
        agent_id: IMAGE,
        goal: BOTH,
        correlation_id: SCRIPT,
        idempotency_key: IMAGE,
    };
    const job = await server.submit(SCRIPT, submit);
    let token = await server.claim(SCRIPT, { worker_id: IMAGE });
    await server.lease(token, 'heartbeat', { progress: BOTH });
    await server.lease(token, `effects/${encodeURIComponent(IMAGE)}/begin`, { input: BOTH });
    await server.lease(token, `effects/${encodeURIComponent(IMAGE)}/commit`, { result: BOTH });
    await server.lease(token, 'wait', {
        type: 'human',
        correlation_key: SCRIPT,
        prompt: BOTH,
        choices: [IMAGE, SCRIPT],
        assignee: IMAGE,
    });
    const dead = await server.submit(IMAGE, { retry: { max_attempts: 1 }, payload: BOTH });
    token = await server.claim(IMAGE, { worker_id: SCRIPT });
    await server.lease(token, 'fail', {
        error: { message: BOTH, stage: undefined, details: { [IMAGE]: SCRIPT } },
    });
    await server.put(`/v1/resources/${encodeURIComponent(IMAGE)}`, {
        capabilities: [SCRIPT],
        labels: {},
        slots: 1,
        ttl_ms: 60000,
    });
    const plan = await server.submit('hostile-plan', {
        plan: {
            steps: [
                { id: SCRIPT, kind: IMAGE, payload: BOTH },
                { id: IMAGE, deps: [SCRIPT], kind: IMAGE },
                { id: 'ask', wait: { type: 'human', prompt: BOTH, choices: [SCRIPT, IMAGE] } },
            ],
        },
    });
    return { job: job.id, dead: dead.id, plan: plan.id };
}

const owned = (page) => page.evaluate(() => window.owned);

export const cases = [
    [
        'hostile_names_and_payloads_never_run_and_break_no_policy',
        async (t) => {
            const server = await t.ownServer();
            const world = await hostileWorld(server);
            const page = await t.page();
            const step = encodeURIComponent(SCRIPT);
            const addresses = [
                '#/',
                '#/jobs',
                `#/jobs/${world.job}`,
                `#/jobs/${world.job}/attempts`,
                `#/jobs/${world.job}/effects`,
                `#/jobs/${world.job}/data`,
                `#/jobs/${world.dead}`,
                `#/jobs/${world.plan}/plan/${step}`,
                '#/inbox',
                '#/dead',
                '#/queues',
                '#/resources',
            ];
            for (const address of addresses) {
                await visit(page, server, address);
                await page.locator('main h1').waitFor();
                await page.locator('main', { hasText: 'onerror' }).first().waitFor();
                for (const row of await page.locator('.event-row').all()) await row.click();
                for (const hidden of await page.locator('main details:not([open]) > summary').all())
                    await hidden.click({ position: { x: 3, y: 8 } });
                same(`owned on ${address}`, await owned(page), undefined);
                same(
                    `foreign elements on ${address}`,
                    await page.locator('#app script, #app img').count(),
                    0,
                );
            }
            await visit(page, server, '#/dead');
            await page.locator('tbody [data-row]').first().click();
            await page.locator('.dead-preview pre').waitFor();
            await page.locator('.dead-preview').getByRole('button', { name: 'Drop' }).click();
            await page.locator('dialog').getByRole('button', { name: 'Never mind' }).click();
            await visit(page, server, `#/jobs/${world.job}`);
            await act(page, 'Send a signal…');
            await page.locator('dialog').getByRole('button', { name: 'Never mind' }).click();
            await page.getByRole('button', { name: IMAGE, exact: true }).click();
            await page.getByText('Answered').waitFor();
            same('owned after answering', await owned(page), undefined);
        },
    ],
    [
        'an_address_is_text_too',
        async (t) => {
            const page = await t.page({ refusals: true });
            for (const part of [
                `#/jobs/${encodeURIComponent(IMAGE)}`,
                `#/jobs?kind=${encodeURIComponent(BOTH)}&search=${encodeURIComponent(SCRIPT)}`,
                `#/dead?kind=${encodeURIComponent(IMAGE)}`,
                '#/jobs/%E0%A4%A',
                `#/${IMAGE}`,
            ]) {
                await visit(page, t.server, part);
                await page.locator('main').getByText(/./).first().waitFor();
                same('owned', await owned(page), undefined);
            }
        },
    ],
    [
        'an_inline_script_would_be_refused_by_the_policy',
        async (t) => {
            const page = await t.page();
            await visit(page, t.server);
            await page.evaluate(() => {
                const box = document.createElement('div');
                document.body.append(box);
                box.innerHTML = '<img src="data:," onerror="window.owned=1">';
            });
            const seen = () =>
                page.sins.findIndex((sin) => sin.startsWith('the policy: script-src'));
            const until = Date.now() + 5000;
            while (seen() < 0 && Date.now() < until)
                await page.evaluate(() => new Promise(requestAnimationFrame));
            sure(`the violation was seen: ${page.sins}`, seen() >= 0);
            same('owned', await owned(page), undefined);
            page.sins.length = 0;
        },
    ],
];
