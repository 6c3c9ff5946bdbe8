// Each page shows what the server has, in full and when there is nothing.
import { eventually, PHONE, same, sure, visit } from '../browser.mjs';
import { eventfulJob, researchPlan } from '../demo.mjs';

const text = (page) => page.locator('main').innerText();

async function has(page, ...words) {
    for (const word of words) await page.locator('main').getByText(word).first().waitFor();
}

export const cases = [
    [
        'an_empty_store_says_what_to_do_on_every_page',
        async (t) => {
            const page = await t.page();
            const pages = {
                '#/': 'Submit your first job',
                '#/jobs': 'No jobs yet',
                '#/inbox': 'Inbox is empty',
                '#/dead': 'No dead letters',
                '#/queues': 'No queues yet',
                '#/resources': 'No active workers',
                '#/nowhere': 'Page not found',
            };
            for (const [address, words] of Object.entries(pages)) {
                await visit(page, t.server, address);
                await has(page, words);
            }
            await visit(page, t.server, '#/jobs?kind=none');
            await has(page, 'No matching jobs');
        },
    ],
    [
        'a_job_that_is_not_there_is_said_so',
        async (t) => {
            const page = await t.page({ refusals: true });
            await visit(page, t.server, '#/jobs/0190163d-8694-739b-aea5-966c26f8ad91');
            await has(page, 'Not found');
        },
    ],
    [
        'the_overview_tells_what_runs_waits_and_fails',
        async (t) => {
            const { server } = t;
            await server.finish('done-kind');
            await server.die('dying-kind', 'the printer is on fire');
            await server.submit('waiting-kind', { queue: 'slow' });
            const page = await t.page();
            await visit(page, server);
            await has(
                page,
                'Throughput',
                'Latency',
                'States',
                'Failing kinds',
                'Workers and resources',
                'the printer is on fire',
                'slow',
            );
            const stats = await server.get('/v1/stats');
            const dead = page.locator('.state-list li', { hasText: 'Dead letter' }).locator('b');
            same('dead letters', await dead.innerText(), String(stats.jobs.dead_lettered));
            sure('charts are drawn', (await page.locator('.chart canvas').count()) === 2);
        },
    ],
    [
        'jobs_are_filtered_searched_and_sorted',
        async (t) => {
            const { server } = t;
            await server.submit('find-me', {
                goal: 'a needle in the haystack',
                labels: { team: 'blue' },
                priority: 3,
            });
            await server.submit('find-me', { queue: 'other', priority: 7 });
            const page = await t.page();
            await visit(page, server, '#/jobs?kind=find-me');
            const rows = page.locator('[data-row]');
            const n = (count) =>
                page.waitForFunction(
                    (wanted) => document.querySelectorAll('main [data-row]').length === wanted,
                    count,
                );
            await n(2);
            await page.getByLabel('Queue', { exact: true }).fill('other');
            await n(1);
            await page.getByRole('button', { name: 'Clear', exact: true }).click();
            await page.waitForFunction(() => location.hash === '#/jobs');
            await page.getByLabel('Kind', { exact: true }).fill('find-me');
            await n(2);
            await page.getByRole('searchbox').fill('NEEDLE');
            await n(1);
            await page.getByRole('searchbox').fill('');
            await n(2);
            await page.getByLabel('Label', { exact: true }).fill('team:blue');
            await n(1);
            await page.waitForFunction(() => location.hash.includes('label=team'));
            await visit(page, server, '#/jobs?kind=find-me&status=failed');
            await has(page, 'No matching jobs');
            await page.getByRole('button', { name: /^Queued/ }).click();
            await n(2);
            await page.getByRole('button', { name: 'Priority' }).click();
            const priorities = () =>
                page.locator('tbody tr:not(.spacer) td:nth-child(7)').allInnerTexts();
            same('highest first', await priorities(), ['7', '3']);
            await page.getByRole('button', { name: 'Priority' }).click();
            same('lowest first', await priorities(), ['3', '7']);
            const id = await rows.first().getAttribute('data-id');
            await page.getByRole('searchbox').fill(id);
            await page.waitForFunction((wanted) => location.hash === `#/jobs/${wanted}`, id);
        },
    ],
    [
        'a_job_shows_attempts_effects_waits_and_why',
        async (t) => {
            const { server } = t;
            const job = await eventfulJob(server);
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}`);
            await has(
                page,
                'Did “charge” happen?',
                'Status explained',
                'Charge order 4711',
                'Attempt 3',
                'connection reset by peer',
            );
            same('attempts in the timeline', await page.locator('.lane .phase.lease').count(), 3);
            sure('pauses are drawn', (await page.locator('.lane .phase.backoff').count()) === 2);
            sure(
                'the effect in doubt is marked',
                (await page.locator('.tick-mark.effect.bad').count()) > 0,
            );
            const widths = await page
                .locator('.lane-track')
                .evaluateAll((lanes) =>
                    lanes
                        .map((lane) =>
                            [...lane.querySelectorAll('.phase.backoff')].map((p) =>
                                parseFloat(p.style.width),
                            ),
                        )
                        .flat(),
                );
            sure(
                `pauses of the same length are as long: ${widths}`,
                Math.abs(widths[0] - widths[1]) < widths[0] * 0.2,
            );
            same(
                'events',
                await page.locator('.event').count(),
                (await server.events(job.id)).length,
            );
            await page.locator('.event').last().getByRole('button').first().click();
            await page.locator('.event.open pre', { hasText: '129.90' }).waitFor();
            await page.getByRole('link', { name: /Effects/ }).click();
            await has(page, 'In doubt', 'reserve-stock', 'r-1881');
            await page.getByRole('link', { name: /Attempts/ }).click();
            await has(page, 'failed, retried', 'billing-worker-2', 'Waits');
            await page.getByRole('link', { name: /Payload/ }).click();
            await has(page, '"PWL-7"');
        },
    ],
    [
        'next_actions_are_buttons_that_ask_first',
        async (t) => {
            const { server } = t;
            const job = await server.submit('next-actions');
            await server.lease(await server.claim('next-actions'), 'wait', {
                type: 'signal',
                correlation_key: 'paid',
            });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}`);
            const next = page.locator('.next-actions');
            await next.getByRole('button', { name: 'Cancel…' }).click();
            await page.locator('dialog').getByRole('button', { name: 'Never mind' }).click();
            same('nothing was done', (await server.job(job.id)).status, 'waiting');
            await next.getByRole('button', { name: 'Send a signal…' }).click();
            await page.locator('dialog').getByRole('button', { name: 'Send' }).click();
            await eventually(
                'it goes on',
                async () => (await server.job(job.id)).status === 'queued',
            );
            same('no command is shown', await page.getByText(/pawl (cancel|signal)/).count(), 0);
        },
    ],
    [
        'a_label_is_found_by_its_pill',
        async (t) => {
            const { server } = t;
            const wanted = await server.submit('pill', { labels: { customer: 'c17' } });
            await server.submit('pill', { labels: { customer: 'c18', other: 'c17' } });
            const page = await t.page();
            const shown = (what) =>
                eventually(`${what}: the one job`, async () => {
                    const ids = await page
                        .locator('main [data-row]')
                        .evaluateAll((rows) => rows.map((row) => row.dataset.id));
                    return JSON.stringify(ids) === JSON.stringify([wanted.id]);
                });
            await visit(page, server, '#/jobs?kind=pill');
            await page.getByRole('searchbox').fill('customer:c17');
            await shown('searched for');
            await visit(page, server, `#/jobs/${wanted.id}`);
            await page.locator('.job-facts').getByRole('link', { name: 'customer:c17' }).click();
            await page.waitForFunction(() => location.hash.includes('label=customer'));
            await page.getByLabel('Kind', { exact: true }).fill('pill');
            await shown('clicked');
        },
    ],
    [
        'the_life_times_of_a_job_are_shown',
        async (t) => {
            const { server } = t;
            const job = await server.submit('lives', {
                expires_ms: 3_600_000,
                deadline_ms: 7_200_000,
            });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}`);
            const fact = (name) =>
                page.locator('.job-facts dl > div', { hasText: name }).locator('time');
            same('expires', await fact('Expires').getAttribute('datetime'), job.expires_at);
            same('deadline', await fact('Deadline').getAttribute('datetime'), job.deadline_at);
        },
    ],
    [
        'the_payload_is_on_the_first_tab_of_a_job',
        async (t) => {
            const { server } = t;
            const job = await server.submit('first-tab', { payload: { order: 'PWL-7' } });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}`);
            await page.getByLabel('the payload', { exact: true }).waitFor();
            await has(page, '"PWL-7"');
        },
    ],
    [
        'a_question_in_the_inbox_tells_what_it_is_about',
        async (t) => {
            const { server } = t;
            await server.submit('inbox-context', {
                goal: 'refund order 7',
                labels: { customer: 'c17' },
                correlation_id: 'order-7',
                payload: { cents: 250 },
            });
            await server.lease(await server.claim('inbox-context'), 'wait', {
                type: 'human',
                correlation_key: 'k',
                prompt: 'Refund it?',
            });
            const page = await t.page();
            await visit(page, server, '#/inbox');
            const card = page.locator('.question', { hasText: 'Refund it?' });
            await card.getByText('refund order 7').waitFor();
            await card.getByText('order-7', { exact: true }).waitFor();
            await card.getByText('{"cents":250}').waitFor();
            await card.getByRole('link', { name: 'customer:c17' }).click();
            await page.locator('main', { hasText: 'inbox-context' }).waitFor();
            sure('the pill is a filter', page.url().includes('label=customer'));
        },
    ],
    [
        'numbers_of_a_payload_are_shown_as_they_were_written',
        async (t) => {
            const { server } = t;
            const answer = await fetch(`${server.url}/v1/jobs`, {
                method: 'POST',
                headers: { 'Content-Type': 'application/json' },
                body: '{"kind":"exact","payload":{"price":1.10,"digits":123456789012345678901234567890}}',
            });
            const page = await t.page();
            await visit(page, server, `#/jobs/${(await answer.json()).id}/data`);
            await has(page, /"price": 1\.10/, /123456789012345678901234567890/);
        },
    ],
    [
        'a_history_is_verified_on_demand',
        async (t) => {
            const job = await t.server.finish('verify-me');
            const page = await t.page();
            await visit(page, t.server, `#/jobs/${job.id}`);
            await page.getByRole('button', { name: 'Verify', exact: true }).click();
            await has(page, 'Chain intact up to version 4');
            same('links of the chain', await page.locator('.link-whole').count(), 4);
        },
    ],
    [
        'a_plan_is_a_graph_with_its_critical_path',
        async (t) => {
            const { server } = t;
            const job = await researchPlan(server);
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}/plan`);
            await page.locator('.node').first().waitFor();
            same('steps', await page.locator('.node').count(), 11);
            same('edges', await page.locator('.edge').count(), 15);
            const { critical_path } = await server.get(`/v1/jobs/${job.id}/steps`);
            same(
                'on the critical path',
                (await page.locator('.node.critical').count()) > 0,
                critical_path.steps.length > 0,
            );
            await page.locator('.node[data-step="rank-sources"]').click();
            await has(page, 'Inputs', 'History');
            await page
                .locator('.plan-step details', { hasText: 'papers' })
                .locator('summary')
                .click();
            await page.locator('.plan-step pre', { hasText: '"found": 14' }).waitFor();
            await page.getByRole('button', { name: 'List' }).click();
            await page.getByRole('table', { name: 'Steps' }).getByText('approve-outline').waitFor();
            await page.getByRole('button', { name: 'Graph' }).click();
            await page.getByRole('button', { name: 'Zoom to fit' }).click();
            await page.locator('.node[data-step="publish"]').waitFor();
        },
    ],
    [
        'times_are_relative_with_the_exact_one_on_hover',
        async (t) => {
            const job = await t.server.submit('timed');
            const page = await t.page();
            await visit(page, t.server, `#/jobs/${job.id}`);
            const time = page.locator('.job-facts time').first();
            await time.waitFor();
            same('its time', await time.getAttribute('datetime'), job.created_at);
            sure(
                'on hover the exact one',
                /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} /.test(await time.getAttribute('title')),
            );
            sure('relative', /now|ago/.test(await time.innerText()));
        },
    ],
    [
        'nothing_is_wider_than_a_phone',
        async (t) => {
            const { server } = t;
            const job = await eventfulJob(server);
            const plan = await researchPlan(server);
            const page = await t.page({ viewport: PHONE });
            for (const address of [
                '#/',
                '#/jobs',
                `#/jobs/${job.id}`,
                `#/jobs/${job.id}/attempts`,
                `#/jobs/${job.id}/effects`,
                `#/jobs/${plan.id}/plan/draft`,
                '#/inbox',
                '#/dead',
                '#/queues',
                '#/resources',
            ]) {
                await visit(page, server, address);
                await page.locator('main h1').waitFor();
                await page.locator('main .skeleton').waitFor({ state: 'detached' });
                const wide = await page.evaluate(() =>
                    Math.max(
                        document.documentElement.scrollWidth,
                        document.querySelector('main').scrollWidth,
                    ),
                );
                sure(`${address} is ${wide} pixels wide`, wide <= 390);
                sure(`${address} has words`, (await text(page)).length > 10);
            }
        },
    ],
];
