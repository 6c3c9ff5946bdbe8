// Everything that can be done, done with the mouse; that it was done is asked of the server.
import { readFile } from 'node:fs/promises';
import { act, confirm, eventually, same, sure, visit } from '../browser.mjs';

const status = (server, id, wanted) =>
    eventually(`the job is ${wanted}`, async () => (await server.job(id)).status === wanted);

async function onJob(t, id, options) {
    const page = await t.page(options);
    await visit(page, t.server, `#/jobs/${id}`);
    await page.getByRole('button', { name: 'Actions' }).waitFor();
    return page;
}

async function group(t, kind, n) {
    const jobs = [];
    for (let i = 0; i < n; i++) jobs.push(await t.server.die(kind, `death of ${kind} ${i}`));
    const page = await t.page();
    await visit(page, t.server, '#/dead');
    await page.locator('.groups a', { hasText: kind }).click();
    await page.waitForFunction(
        (wanted) => document.querySelectorAll('tbody [data-row]').length === wanted,
        n,
    );
    return { jobs, page };
}

const planned = (server, kind, steps) => server.submit(kind, { plan: { steps } });
const desk = (server, id) => server.put(`/v1/resources/${id}`, { slots: 4, ttl_ms: 600_000 });

export const cases = [
    [
        'submit_makes_a_job_as_it_was_written',
        async (t) => {
            const page = await t.page();
            await visit(page, t.server);
            await page.getByRole('button', { name: 'Submit', exact: true }).click();
            const dialog = page.locator('dialog[open]');
            await dialog.getByLabel('Kind').fill('by-hand');
            await dialog.getByLabel('Payload').fill('{"price": 1.10');
            await dialog.getByText('Invalid JSON').waitFor();
            sure(
                'it cannot be sent yet',
                await dialog.getByRole('button', { name: 'Submit' }).isDisabled(),
            );
            const written = '{"price": 1.10, "long": [0.1234567890123456789, 12345678901234567890, -0]}';
            await dialog.getByLabel('Payload').fill(written);
            await dialog.getByText('More', { exact: true }).click();
            await dialog.getByLabel('Labels').fill('team:blue');
            await dialog.getByLabel('Priority').fill('7');
            await dialog.getByLabel('Plan').fill('[{"id": "a", "kind": "x"}]');
            await confirm(page, 'Submit');
            const { jobs } = await eventually('it is there', async () => {
                const list = await t.server.get('/v1/jobs?kind=by-hand&include=payload');
                return list.jobs.length === 1 && list;
            });
            same('labels', jobs[0].labels, { team: 'blue' });
            same('priority', jobs[0].priority, 7);
            same('steps', jobs[0].plan.version, 1);
            const raw = await (await fetch(`${t.server.url}/v1/jobs/${jobs[0].id}`)).text();
            for (const number of ['1.10', '0.1234567890123456789', '12345678901234567890', '-0]'])
                sure(`${number} is as it was written`, raw.includes(number));
            await page.getByRole('link', { name: 'Open' }).click();
            await page.locator('h1', { hasText: 'by-hand' }).waitFor();
        },
    ],
    [
        'what_the_server_refuses_is_said_in_the_dialog',
        async (t) => {
            const page = await t.page({ refusals: true });
            await visit(page, t.server);
            await page.getByRole('button', { name: 'Submit', exact: true }).click();
            await page.getByLabel('Kind').fill('bad-plan');
            await page.getByText('More', { exact: true }).click();
            await page.getByLabel('Plan').fill('[{"id": "a", "deps": ["b"]}]');
            await page.locator('dialog').getByRole('button', { name: 'Submit' }).click();
            await page.getByRole('alert').getByText(/"b"/).waitFor();
        },
    ],
    [
        'cancel_softly_asks_and_hard_takes_away',
        async (t) => {
            const { server } = t;
            const job = await server.submit('cancel-me');
            await server.claim('cancel-me');
            const page = await onJob(t, job.id);
            await page.getByRole('button', { name: 'Cancel', exact: true }).click();
            await page.getByLabel('Reason').fill('not needed');
            await confirm(page, 'Cancel job');
            await eventually(
                'it is asked to stop',
                async () => (await server.job(job.id)).cancel_requested,
            );
            await page.getByText('Cancel requested', { exact: true }).first().waitFor();
            await act(page, 'Cancel…');
            sure('a second time it is hard', await page.getByLabel('Hard').isChecked());
            await confirm(page, 'Cancel now');
            await status(server, job.id, 'cancelled');
            sure(
                'the reason is in the history',
                (await server.events(job.id)).some((e) => JSON.stringify(e).includes('not needed')),
            );
        },
    ],
    [
        'a_dialog_that_is_left_does_nothing',
        async (t) => {
            const job = await t.server.submit('leave-me');
            const page = await onJob(t, job.id);
            await page.getByRole('button', { name: 'Cancel', exact: true }).click();
            await page.getByRole('button', { name: 'Never mind' }).click();
            await page.getByRole('button', { name: 'Cancel', exact: true }).click();
            await page.keyboard.press('Escape');
            await page.locator('dialog').waitFor({ state: 'detached' });
            same('its status', (await t.server.job(job.id)).status, 'queued');
        },
    ],
    [
        'requeue_gives_a_failed_job_another_life',
        async (t) => {
            const { server } = t;
            const job = await server.submit('requeue-me', {
                retry: { max_attempts: 1, on_exhausted: 'fail' },
            });
            await server.lease(await server.claim('requeue-me'), 'fail', {
                error: { message: 'no' },
            });
            const page = await onJob(t, job.id);
            await page.getByRole('button', { name: 'Requeue', exact: true }).click();
            await page.getByLabel('Reason').fill('the service is back');
            await confirm(page, 'Requeue');
            await status(server, job.id, 'queued');
            same('its life', (await server.job(job.id)).epoch, 2);
        },
    ],
    [
        'a_retry_is_brought_forward',
        async (t) => {
            const { server } = t;
            const job = await server.submit('later', {
                retry: { max_attempts: 3, initial_ms: 600_000 },
            });
            await server.lease(await server.claim('later'), 'fail', { error: { message: 'no' } });
            const page = await onJob(t, job.id);
            await page.locator('.page-actions').getByRole('button', { name: 'Run now' }).click();
            await status(server, job.id, 'queued');
        },
    ],
    [
        'every_next_action_of_a_job_has_a_button',
        async (t) => {
            const { server } = t;
            const job = await server.submit('all-buttons', {
                queue: 'all-buttons',
                delay_ms: 600_000,
                retry: { max_attempts: 1 },
            });
            // The page polls: a read that is under way when the job is dropped gets a 404.
            const page = await onJob(t, job.id, { refusals: true });
            const next = page.locator('.next-actions');
            const labels = () => next.getByRole('button').allInnerTexts();
            const shows = (...wanted) =>
                eventually(`buttons ${wanted}`, async () => {
                    same('buttons', await labels(), wanted);
                    return true;
                });
            await shows('Run now', 'Cancel…', 'Dead-letter…');
            await next.getByRole('button', { name: 'Run now' }).click();
            await eventually(
                'it is due',
                async () => Date.parse((await server.job(job.id)).run_at) <= Date.now() + 1000,
            );
            await shows('Cancel…', 'Dead-letter…');

            await server.post('/v1/queues/all-buttons/pause');
            await shows('Resume queue all-buttons', 'Cancel…', 'Dead-letter…');
            await next.getByRole('button', { name: 'Resume queue all-buttons' }).click();
            await shows('Cancel…', 'Dead-letter…');
            const { queues } = await server.get('/v1/queues');
            same('paused', queues.find((q) => q.queue === 'all-buttons').paused, false);

            await next.getByRole('button', { name: 'Dead-letter…' }).click();
            await confirm(page, 'Dead-letter job');
            await shows('Redrive…', 'Drop…');
            await next.getByRole('button', { name: 'Redrive…' }).click();
            await confirm(page, 'Redrive');
            await status(server, job.id, 'queued');
            const token = await server.claim('all-buttons');
            await shows('Cancel…');
            await server.lease(token, 'fail', { error: { message: 'no' } });
            await shows('Redrive…', 'Drop…');
            same('commands', await page.locator('.command').allInnerTexts(), []);
            await next.getByRole('button', { name: 'Drop…' }).click();
            await page.locator('dialog').getByRole('button', { name: 'Never mind' }).click();
            same('nothing was done', (await server.job(job.id)).status, 'dead_lettered');
            await next.getByRole('button', { name: 'Drop…' }).click();
            await confirm(page, 'Drop dead letter');
            await page.waitForFunction(() => location.hash === '#/dead');
            const gone = await fetch(`${server.url}/v1/jobs/${job.id}`);
            same('it is gone', gone.status, 404);
        },
    ],
    [
        'a_signal_wakes_what_waits_for_it',
        async (t) => {
            const { server } = t;
            const job = await server.submit('signal-me');
            await server.lease(await server.claim('signal-me'), 'wait', {
                type: 'signal',
                correlation_key: 'payment-17',
            });
            const page = await onJob(t, job.id);
            await act(page, 'Send a signal…');
            same(
                'the key it waits for',
                await page.getByRole('textbox', { name: 'Key' }).inputValue(),
                'payment-17',
            );
            await page.getByLabel('Payload').fill('{"paid": true}');
            await confirm(page, 'Send');
            await status(server, job.id, 'queued');
            const { claims } = await server.post('/v1/claims', {
                worker_id: 'w',
                kinds: ['signal-me'],
            });
            same('what came', claims[0].resume.payload, { paid: true });
        },
    ],
    [
        'a_job_is_approved_and_another_rejected',
        async (t) => {
            const { server } = t;
            for (const [kind, button, approved] of [
                ['approve-me', 'Approve', true],
                ['reject-me', 'Reject', false],
            ]) {
                const job = await server.submit(kind);
                await server.lease(await server.claim(kind), 'wait', {
                    type: 'human',
                    correlation_key: 'k',
                    prompt: 'Go?',
                });
                const page = await onJob(t, job.id);
                await page.getByLabel('Answer as').fill('ada');
                await page.getByLabel('Comment').fill('up to 500 euros');
                await page.getByRole('button', { name: button, exact: true }).click();
                await status(server, job.id, 'queued');
                const { claims } = await server.post('/v1/claims', {
                    worker_id: 'w',
                    kinds: [kind],
                });
                same('the answer', claims[0].resume.payload, { approved });
                same('who', claims[0].resume.by, 'ada');
                same('the comment', claims[0].resume.comment, 'up to 500 euros');
            }
        },
    ],
    [
        'a_click_on_no_sends_no_and_nothing_that_reads_as_approval',
        async (t) => {
            const { server } = t;
            const job = await server.submit('refund');
            await server.lease(await server.claim('refund'), 'wait', {
                type: 'human',
                correlation_key: 'k',
                prompt: 'Refund 250 euros?',
                choices: ['yes', 'no'],
            });
            const page = await onJob(t, job.id);
            same(
                'there is no plain yes or no beside the choices',
                await page.getByRole('button', { name: /^(Approve|Reject)$/ }).count(),
                0,
            );
            await page.getByRole('button', { name: 'no', exact: true }).click();
            await status(server, job.id, 'queued');
            const { claims } = await server.post('/v1/claims', {
                worker_id: 'w',
                kinds: ['refund'],
            });
            same('the answer', claims[0].resume.payload, 'no');
        },
    ],
    [
        'a_question_without_choices_takes_an_answer_of_any_kind',
        async (t) => {
            const { server } = t;
            const job = await server.submit('free-text');
            await server.lease(await server.claim('free-text'), 'wait', {
                type: 'human',
                correlation_key: 'k',
                prompt: 'How much?',
            });
            const page = await onJob(t, job.id);
            await page.getByLabel('Answer', { exact: true }).fill('{"cents": 250}');
            await page.getByRole('button', { name: 'Send', exact: true }).click();
            await status(server, job.id, 'queued');
            const { claims } = await server.post('/v1/claims', {
                worker_id: 'w',
                kinds: ['free-text'],
            });
            same('the answer', claims[0].resume.payload, { cents: 250 });
        },
    ],
    [
        'an_effect_in_doubt_is_decided',
        async (t) => {
            const { server } = t;
            const job = await server.submit('doubt-me', {
                in_doubt: 'ask',
                retry: { max_attempts: 5, initial_ms: 1, jitter: 'none' },
            });
            let token = await server.claim('doubt-me');
            await server.lease(token, 'effects/pay/begin', { input: 1 });
            await server.lease(token, 'fail', { error: { message: 'gone' } });
            token = await server.claim('doubt-me');
            await server.lease(token, 'effects/pay/begin', { input: 1 });
            const page = await onJob(t, job.id);
            await page.getByRole('button', { name: 'Mark as done…' }).click();
            const record = page.getByRole('button', { name: 'Record result' });
            sure('nothing is recorded without a result', await record.isDisabled());
            same('the job still asks', (await server.job(job.id)).status, 'waiting');
            await page.getByLabel('Result').fill('{"receipt": 17}');
            await record.click();
            await status(server, job.id, 'queued');
            const answered = (await server.events(job.id)).at(-1);
            same('the word', answered.payload.resolution, 'done');
            same('the result', answered.payload.result, { receipt: 17 });
        },
    ],
    [
        'a_job_is_put_aside',
        async (t) => {
            const job = await t.server.submit('aside');
            const page = await onJob(t, job.id);
            await act(page, 'Dead-letter…');
            await page.getByLabel('Reason code').selectOption('policy_violation');
            await page.getByLabel('Message').fill('not for this customer');
            await confirm(page, 'Dead-letter job');
            await status(t.server, job.id, 'dead_lettered');
            same('why', (await t.server.job(job.id)).dead_letter.reason_code, 'policy_violation');
        },
    ],
    [
        'erasing_asks_for_a_word_and_leaves_no_payload',
        async (t) => {
            const job = await t.server.finish('erase-me', { secret: 'of the result' });
            const page = await onJob(t, job.id);
            await act(page, 'Erase…');
            const button = page.locator('dialog').getByRole('button', { name: 'Erase permanently' });
            sure('not without the word', await button.isDisabled());
            await page.getByLabel('Type erase to confirm').fill('erase');
            await confirm(page, 'Erase permanently');
            await eventually('it is erased', async () => (await t.server.job(job.id)).redacted);
            await page.getByText('can be verified', { exact: false }).first().waitFor();
        },
    ],
    [
        'what_cannot_be_done_is_not_offered',
        async (t) => {
            const job = await t.server.finish('over');
            const page = await onJob(t, job.id);
            await page.getByRole('button', { name: 'Actions' }).click();
            for (const name of ['Requeue…', 'Send a signal…', 'Dead-letter…', 'Cancel…'])
                same(
                    `${name} is off`,
                    await page.getByRole('menuitem', { name }).getAttribute('aria-disabled'),
                    'true',
                );
            same(
                'Erase is on',
                await page.getByRole('menuitem', { name: 'Erase…' }).getAttribute('aria-disabled'),
                null,
            );
        },
    ],
    [
        'a_job_is_exported_as_a_file',
        async (t) => {
            const job = await t.server.finish('export-me');
            const page = await onJob(t, job.id);
            const file = page.waitForEvent('download');
            await act(page, 'Export');
            const saved = await file;
            same('its name', saved.suggestedFilename(), `${job.id}.json`);
            const bundle = JSON.parse(await readFile(await saved.path(), 'utf8'));
            same('all of it', [bundle.id, bundle.events.length], [job.id, 4]);
        },
    ],
    [
        'one_like_it_is_submitted',
        async (t) => {
            const job = await t.server.submit('like-me', {
                payload: { n: 1 },
                queue: 'special',
                labels: { a: 'b' },
            });
            const page = await onJob(t, job.id);
            await act(page, 'Submit a copy…');
            await confirm(page, 'Submit');
            const { jobs } = await eventually('there are two', async () => {
                const list = await t.server.get('/v1/jobs?kind=like-me&include=payload');
                return list.jobs.length === 2 && list;
            });
            same(
                'alike',
                [jobs[0].payload, jobs[0].queue, jobs[0].labels],
                [jobs[1].payload, jobs[1].queue, jobs[1].labels],
            );
        },
    ],
    [
        'selected_jobs_are_cancelled_together',
        async (t) => {
            const { server } = t;
            for (let i = 0; i < 3; i++) await server.submit('some', { payload: i });
            const page = await t.page();
            await visit(page, server, '#/jobs?kind=some');
            await page.waitForFunction(
                () => document.querySelectorAll('tbody [data-row]').length === 3,
            );
            await page
                .getByRole('checkbox', { name: /^Select 0/ })
                .nth(0)
                .click();
            await page
                .getByRole('checkbox', { name: /^Select 0/ })
                .nth(1)
                .click();
            await page.locator('.selection').getByRole('button', { name: 'Cancel' }).click();
            await confirm(page, 'Cancel 2 jobs');
            await eventually(
                'two are cancelled',
                async () =>
                    (await server.get('/v1/jobs?kind=some&status=cancelled')).jobs.length === 2,
            );
            same(
                'one is left',
                (await server.get('/v1/jobs?kind=some&status=queued')).jobs.length,
                1,
            );
        },
    ],
    [
        'all_jobs_of_a_filter_are_requeued',
        async (t) => {
            const { server } = t;
            for (let i = 0; i < 3; i++) await server.die('revive', 'no');
            const page = await t.page();
            await visit(page, server, '#/jobs?kind=revive');
            await page.waitForFunction(
                () => document.querySelectorAll('tbody [data-row]').length === 3,
            );
            await page.getByRole('button', { name: 'Bulk actions' }).click();
            await page.getByRole('menuitem', { name: 'Requeue…' }).click();
            await confirm(page, 'Requeue 3 jobs');
            await eventually(
                'all are queued',
                async () =>
                    (await server.get('/v1/jobs?kind=revive&status=queued')).jobs.length === 3,
            );
        },
    ],
    [
        'a_choice_in_the_inbox_is_the_answer_of_the_step',
        async (t) => {
            const { server } = t;
            const job = await planned(server, 'choose', [
                {
                    id: 'ask',
                    wait: {
                        type: 'human',
                        prompt: 'Which colour of plan?',
                        choices: ['red', 'blue'],
                    },
                },
            ]);
            const page = await t.page();
            await visit(page, server, '#/inbox');
            const card = page.locator('.question', { hasText: 'Which colour of plan?' });
            await card.getByRole('button', { name: 'blue' }).click();
            await card.waitFor({ state: 'detached' });
            await status(server, job.id, 'completed');
            const { steps } = await server.get(`/v1/jobs/${job.id}/steps`);
            same('the answer', steps[0].result, 'blue');
        },
    ],
    [
        'a_step_is_answered_and_judged_on_the_plan',
        async (t) => {
            const { server } = t;
            await desk(server, 'judge-desk');
            const job = await planned(server, 'judge', [
                { id: 'draft', kind: 'judged', critic: true },
                {
                    id: 'ask',
                    deps: ['draft'],
                    wait: { type: 'human', prompt: 'Print it?', choices: ['yes', 'no'] },
                },
            ]);
            const { token } = await server.claimStep('judge-desk', { kinds: ['judged'] });
            await server.lease(token, 'complete', { result: { words: 12 } });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}/plan`);
            await page.locator('.node[data-step="draft"]').click();
            await page.getByText('Result held for review').waitFor();
            await page.getByRole('button', { name: 'Judge', exact: true }).click();
            await page.getByLabel('Accept').check();
            await page.getByLabel('Reason').fill('well written');
            await confirm(page, 'Submit verdict');
            await page.locator('.node[data-step="draft"][data-state="succeeded"]').waitFor();
            await page.locator('.node[data-step="ask"]').click();
            await page.locator('.plan-step').getByRole('button', { name: 'yes' }).click();
            await status(server, job.id, 'completed');
            const { steps } = await server.get(`/v1/jobs/${job.id}/steps`);
            same('what came of them', [steps[0].verdict, steps[1].result], ['accept', 'yes']);
        },
    ],
    [
        'a_new_plan_is_given_and_its_changes_are_shown',
        async (t) => {
            const { server } = t;
            await desk(server, 'replan-desk');
            const job = await planned(server, 'replan', [
                { id: 'a', kind: 'replanned', critic: true },
            ]);
            const { token } = await server.claimStep('replan-desk', { kinds: ['replanned'] });
            await server.lease(token, 'complete', { result: 1 });
            await server.post(`/v1/jobs/${job.id}/steps/a/verdict`, { decision: 'replan' });
            const page = await t.page();
            await visit(page, server, `#/jobs/${job.id}/plan`);
            await act(page, 'New plan…');
            await page
                .locator('dialog')
                .getByLabel('Steps')
                .fill(
                    '[{"id": "a", "kind": "replanned"}, {"id": "b", "kind": "replanned", "deps": ["a"]}]',
                );
            await page.getByLabel('Reason').fill('one was missing');
            await confirm(page, 'Submit plan');
            await page.locator('.node[data-step="b"]').waitFor();
            await page.getByRole('button', { name: 'Changes' }).click();
            await page.locator('dialog').getByText('one was missing').waitFor();
            await page.locator('dialog .chip', { hasText: 'added' }).waitFor();
        },
    ],
    [
        'dead_letters_are_grouped_previewed_and_redriven',
        async (t) => {
            await t.server.die('of-another-group', 'stays');
            const { jobs, page } = await group(t, 'redrive-me', 3);
            await page
                .locator('.groups a', { hasText: 'redrive-me' })
                .getByText('3', { exact: true })
                .waitFor();
            await page.locator('tbody [data-row]').first().click();
            await page.locator('.dead-preview').getByText('death of redrive-me 2').waitFor();
            await page.getByRole('checkbox', { name: `Select ${jobs[0].id}` }).click();
            await page.locator('.selection').getByRole('button', { name: 'Redrive' }).click();
            await confirm(page, 'Redrive 1 dead letter');
            await status(t.server, jobs[0].id, 'queued');
            await page.getByRole('button', { name: 'Redrive the group' }).click();
            await confirm(page, 'Redrive 2 dead letters');
            for (const { id } of jobs) await status(t.server, id, 'queued');
            await page.getByText('This group is empty').waitFor();
        },
    ],
    [
        'a_group_of_dead_letters_is_shown_redriven_and_dropped_alone',
        async (t) => {
            const { server } = t;
            const one = await server.die('two-groups', 'no user 7');
            const two = await server.die('two-groups', 'no user 8');
            const other = await server.die('two-groups', 'the disk is full');
            const page = await t.page();
            await visit(page, server, '#/dead');
            const users = page.locator('.groups a', { hasText: 'no user *' });
            const disks = page.locator('.groups a', { hasText: 'the disk is full' });
            await users.click();
            await page.waitForFunction(
                () => document.querySelectorAll('tbody [data-row]').length === 2,
            );
            same('the one that is open', await users.getAttribute('aria-current'), 'true');
            same('and no other', await page.locator('.groups a[aria-current]').count(), 1);
            await page.getByRole('button', { name: 'Redrive the group' }).click();
            await page.locator('dialog .acted-on', { hasText: 'no user *' }).waitFor();
            await confirm(page, 'Redrive 2 dead letters');
            await status(server, one.id, 'queued');
            await status(server, two.id, 'queued');
            same('the other', (await server.job(other.id)).status, 'dead_lettered');
            await server.die('two-groups', 'no user 9', { queue: 'third' });
            await disks.click();
            await page.getByRole('button', { name: 'Drop the group' }).click();
            await confirm(page, 'Drop 1 dead letter');
            await disks.waitFor({ state: 'detached' });
            await users.waitFor();
            const { jobs } = await server.get('/v1/dead-letters?kind=two-groups');
            same('left', jobs.map((job) => job.dead_letter.last_error.message), ['no user 9']);
        },
    ],
    [
        'dead_letters_are_dropped_after_a_word',
        async (t) => {
            const { jobs, page } = await group(t, 'drop-me', 2);
            await page.getByRole('button', { name: 'Drop the group' }).click();
            const button = page
                .locator('dialog')
                .getByRole('button', { name: 'Drop 2 dead letters' });
            await button.waitFor();
            sure('not without the word', await button.isDisabled());
            await page.getByLabel('Type drop to confirm').fill('drop');
            await confirm(page, 'Drop 2 dead letters');
            await eventually('they are gone', async () => {
                const answer = await fetch(`${t.server.url}/v1/jobs/${jobs[0].id}`);
                return answer.status === 404;
            });
        },
    ],
    [
        'a_queue_is_paused_and_resumed',
        async (t) => {
            const { server } = t;
            await server.submit('paused-kind', { queue: 'pause-me' });
            const page = await t.page();
            await visit(page, server, '#/queues');
            const paused = async () =>
                (await server.get('/v1/queues')).queues.find((q) => q.queue === 'pause-me').paused;
            await page.getByRole('button', { name: 'Pause pause-me' }).click();
            await confirm(page, 'Pause');
            await eventually('it is paused', paused);
            await page.getByRole('button', { name: 'Resume pause-me' }).click();
            await eventually('it is resumed', async () => !(await paused()));
        },
    ],
    [
        'a_resource_is_drained_used_again_and_forgotten',
        async (t) => {
            const { server } = t;
            await server.put('/v1/resources/bench-9', {
                capabilities: ['serial'],
                labels: { site: 'lab' },
                slots: 3,
                ttl_ms: 600_000,
            });
            const page = await t.page();
            await visit(page, server, '#/resources');
            const row = page.locator('tr', { hasText: 'bench-9' });
            const draining = async () => (await server.get('/v1/resources/bench-9')).draining;
            await row.getByRole('button', { name: 'Drain' }).click();
            await eventually('it drains', draining);
            await row.getByRole('button', { name: 'Resume' }).click();
            await eventually('it is used again', async () => !(await draining()));
            const { slots, capabilities, labels } = await server.get('/v1/resources/bench-9');
            same(
                'it is as it was',
                { slots, capabilities, labels },
                { slots: 3, capabilities: ['serial'], labels: { site: 'lab' } },
            );
            await row.getByRole('button', { name: 'Remove bench-9' }).click();
            await confirm(page, 'Remove resource');
            await row.waitFor({ state: 'detached' });
        },
    ],
];
