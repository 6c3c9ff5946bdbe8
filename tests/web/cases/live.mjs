// What happens shows at once, without a reload, and after the server was away.
import { eventually, same, sure, visit } from '../browser.mjs';

const LIVE_MS = 1000;

/* From when the server has answered until the page shows it. */
async function within(what, happen, seen) {
    await happen();
    const begun = performance.now();
    await seen;
    const took = Math.round(performance.now() - begun);
    console.log(`# ${what}: ${took} ms`);
    sure(`${what} took ${took} ms`, took < LIVE_MS);
}

const badge = (page, state) => page.locator(`.page-head .badge[data-state="${state}"]`).waitFor();

export const cases = [
    [
        'a_job_moves_on_its_page_within_a_second',
        async (t) => {
            const { server } = t;
            const job = await server.submit('live-one');
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}`);
            await badge(page, 'queued');
            let token;
            await within(
                'claimed',
                async () => {
                    token = await server.claim('live-one');
                },
                badge(page, 'running'),
            );
            await within(
                'completed',
                () => server.lease(token, 'complete', { result: 'all of it' }),
                badge(page, 'completed'),
            );
            await page.getByText('"all of it"').first().waitFor();
            await eventually(
                'all events are shown',
                async () => (await page.locator('.event').count()) === 4,
            );
        },
    ],
    [
        'a_slow_server_does_not_make_the_page_of_a_job_fall_behind',
        async (t) => {
            const { server } = t;
            const job = await server.submit('live-slow', { queue: 'live-slow' });
            const page = await t.page({});
            await page.route(/\/explain$/, async (route) => {
                await new Promise((resolve) => setTimeout(resolve, 4000));
                await route.continue();
            });
            await visit(page, server, `#/jobs/${job.id}`);
            await page.locator('.next-actions').waitFor();
            // No event reports this: the page has to ask for it.
            await server.post('/v1/queues/live-slow/pause');
            const resume = page.getByRole('button', { name: 'Resume queue live-slow' });
            await resume.waitFor({ timeout: 14_000 });
        },
    ],
    [
        'lists_and_counts_follow_within_a_second',
        async (t) => {
            const { server } = t;
            const page = await t.page();
            await visit(page, server, '#/jobs?kind=live-list');
            await page.getByText('No matching jobs').waitFor();
            let token;
            await within(
                'in the list',
                () => server.submit('live-list', { retry: { max_attempts: 1 } }),
                page.locator('td .badge[data-state="queued"]').waitFor(),
            );
            await within(
                'running in the list',
                async () => {
                    token = await server.claim('live-list');
                },
                page.locator('td .badge[data-state="running"]').waitFor(),
            );
            const dead = page.locator('.side a', { hasText: 'Dead letters' }).locator('.nav-count');
            const before = (await dead.count()) ? Number(await dead.innerText()) : 0;
            await within(
                'dead in the list',
                () => server.lease(token, 'fail', { error: { message: 'no' } }),
                page.locator('td .badge[data-state="dead_lettered"]').waitFor(),
            );
            await eventually(
                'counted beside the page',
                async () => Number(await dead.innerText()) === before + 1,
            );
        },
    ],
    [
        'a_list_that_is_read_does_not_move_and_says_what_is_new',
        async (t) => {
            const { server } = t;
            const jobs = Array.from({ length: 150 }, (_, i) => ({ kind: 'long-list', payload: i }));
            await server.post('/v1/jobs', { jobs });
            const page = await t.page();
            await visit(page, server, '#/jobs?kind=long-list');
            await page.locator('tbody [data-row]').first().waitFor();
            await page.locator('.scroller').evaluate((box) => (box.scrollTop = 2000));
            const seen = () => page.locator('tbody [data-row]').first().getAttribute('data-id');
            await page.waitForFunction(() => document.querySelector('tbody .spacer'));
            const frames = () =>
                page.evaluate(
                    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
                );
            const before = await eventually('the list stands still', async () => {
                const id = await seen();
                await frames();
                return id === (await seen()) && id;
            });
            await server.submit('another-kind');
            const fresh = await server.submit('long-list');
            await page.getByRole('button', { name: '1 new' }).waitFor();
            same('the first row in sight', await seen(), before);
            await page.getByRole('button', { name: '1 new' }).click();
            await page.locator(`[data-id="${fresh.id}"]`).waitFor();
        },
    ],
    [
        'a_question_appears_in_the_inbox_within_a_second',
        async (t) => {
            const { server } = t;
            const page = await t.page();
            await visit(page, server, '#/inbox');
            await server.submit('live-ask');
            const token = await server.claim('live-ask');
            await within(
                'the question',
                () =>
                    server.lease(token, 'wait', {
                        type: 'human',
                        correlation_key: 'k',
                        prompt: 'May I come in at once?',
                    }),
                page.getByText('May I come in at once?').waitFor(),
            );
        },
    ],
    [
        'a_plan_follows_its_steps_within_a_second',
        async (t) => {
            const { server } = t;
            const job = await server.submit('live-plan', {
                plan: {
                    steps: [
                        { id: 'one', kind: 'live-step' },
                        { id: 'two', kind: 'live-step', deps: ['one'] },
                    ],
                },
            });
            await server.put('/v1/resources/live-desk', { slots: 2, ttl_ms: 60000 });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}/plan`);
            const node = (id, state) =>
                page.locator(`.node[data-step="${id}"][data-state="${state}"]`).waitFor();
            await node('one', 'pending');
            let token;
            await within(
                'a step runs',
                async () => {
                    ({ token } = await server.claimStep('live-desk', { kinds: ['live-step'] }));
                },
                node('one', 'running'),
            );
            await within(
                'a step succeeds',
                () => server.lease(token, 'complete', { result: 1 }),
                node('one', 'succeeded'),
            );
        },
    ],
    [
        'throughput_is_counted_as_it_happens',
        async (t) => {
            const { server } = t;
            await server.finish('live-flow');
            const page = await t.page();
            await visit(page, server);
            const done = page
                .locator('.figure', { hasText: 'Completed/min' })
                .locator('.figure-value');
            await done.waitFor();
            await page.getByText('Recent activity').waitFor();
            const before = Number((await done.innerText()).replace(/\D/g, ''));
            for (let i = 0; i < 5; i++) await server.finish('live-flow');
            await eventually(
                'done a minute',
                async () => Number((await done.innerText()).replace(/\D/g, '')) >= before + 5,
                2500,
            );
            await page.locator('.activity').getByText('Completed').first().waitFor();
        },
    ],
    [
        'completed_per_minute_is_the_same_on_an_open_page_and_a_fresh_one',
        async (t) => {
            const server = await t.ownServer();
            const open = await t.page();
            await visit(open, server);
            // One of them was submitted long before it completes.
            await server.submit('older');
            for (let i = 0; i < 30; i++) await server.submit('newer');
            await server.finish('flow');
            await server.lease(await server.claim('older'), 'complete', { result: 1 });
            const many = Array.from({ length: 620 }, () => ({ kind: 'many' }));
            await server.post('/v1/jobs', { jobs: many });
            const { claims } = await server.post('/v1/claims', {
                worker_id: 'w',
                kinds: ['many'],
                max: many.length,
            });
            const ops = claims.map(({ lease }) => ({ op: 'complete', token: lease.token }));
            await server.post('/v1/ops', { ops });
            const figures = async (page) =>
                Object.fromEntries(
                    (await page.locator('.figure').allInnerTexts()).map((text) =>
                        text.split('\n').slice(0, 2),
                    ),
                );
            const completed = async (page) => (await figures(page))['Completed/min'] === '622';
            await eventually('the open page', () => completed(open));
            const fresh = await t.page({});
            await visit(fresh, server);
            await eventually('a fresh one', () => completed(fresh));
            const seen = await figures(fresh);
            for (const name of ['Queue latency', 'Run time', 'Failed/min'])
                same(name, seen[name], (await figures(open))[name]);
        },
    ],
    [
        'the_page_survives_a_restart_of_the_server',
        async (t) => {
            const own = await t.ownServer();
            const job = await own.submit('survivor');
            const page = await t.page({ refusals: true });
            await visit(page, own, `#/jobs/${job.id}`);
            await badge(page, 'queued');
            const marked = await page.evaluate(() => (window.mark = Math.random()));
            await own.stop();
            await page.getByText('Reconnecting; the data shown may be out of date').waitFor();
            await badge(page, 'queued');
            await own.start();
            await page.locator('.connection.live').waitFor();
            await page.locator('.banner').waitFor({ state: 'detached' });
            let token;
            await within(
                'after the restart',
                async () => {
                    token = await own.claim('survivor');
                },
                badge(page, 'running'),
            );
            await own.lease(token, 'complete', { result: 1 });
            await badge(page, 'completed');
            await eventually(
                'no event is missing or twice',
                async () =>
                    (await page.locator('.event-version').allInnerTexts()).join() === '4,3,2,1',
            );
            same('it was never loaded anew', await page.evaluate(() => window.mark), marked);
        },
    ],
    [
        'a_server_that_hangs_is_not_called_live',
        async (t) => {
            const own = await t.ownServer();
            const page = await t.page({ refusals: true });
            const job = await own.submit('stopped');
            await visit(page, own, `#/jobs/${job.id}`);
            await page.locator('.connection.live').waitFor();
            own.child.kill('SIGSTOP');
            await page.getByText('Reconnecting; the data shown may be out of date').waitFor();
            own.child.kill('SIGCONT');
            await page.locator('.connection.live').waitFor();
            await within('after the stop', () => own.claim('stopped'), badge(page, 'running'));
        },
    ],
    [
        'what_happened_while_the_server_was_away_is_caught_up',
        async (t) => {
            const own = await t.ownServer();
            const page = await t.page({ refusals: true });
            await own.submit('before');
            await visit(page, own, '#/jobs');
            await page.locator('[data-row]').first().waitFor();
            await page.route('**/v1/feed*', (route) => route.abort());
            await own.stop();
            await page.locator('.banner').waitFor();
            await own.start();
            await own.submit('meanwhile');
            await page.unroute('**/v1/feed*');
            await page.getByRole('link', { name: 'meanwhile' }).waitFor();
        },
    ],
];
