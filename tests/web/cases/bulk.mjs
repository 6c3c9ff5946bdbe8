// What is done to more jobs than the server takes at a time: the number told is the number done.
import { confirm, same, sure, visit } from '../browser.mjs';

const submitMany = async (server, kind, n) =>
    (await server.post('/v1/jobs', { jobs: Array.from({ length: n }, () => ({ kind })) })).jobs.map(
        ({ id }) => id,
    );

const aside = (server, ids) =>
    server.post('/v1/batch', {
        ops: ids.map((id) => ({ op: 'dead_letter', id, reason_code: 'timeout' })),
    });

async function number(server, filter) {
    let n = 0;
    let cursor;
    do {
        const page = await server.post('/v1/jobs/bulk', {
            action: 'cancel',
            filter,
            cursor,
            dry_run: true,
        });
        n += page.matched;
        cursor = page.next_cursor ?? undefined;
    } while (cursor);
    return n;
}

async function openAll(page, server, query, item) {
    await visit(page, server, `#/jobs?${query}`);
    await page.getByRole('button', { name: 'Bulk actions' }).click();
    await page.getByRole('menuitem', { name: item }).click();
    return page.locator('dialog[open]');
}

/* The number in the toast that says so. */
async function told(page, words) {
    const text = await page.locator('.toast', { hasText: words }).textContent();
    return Number(text.match(words)[1].replaceAll(',', ''));
}

export const cases = [
    [
        'bulk_cancels_as_many_as_it_says',
        async (t) => {
            const { server } = t;
            for (let i = 0; i < 3; i++) await server.finish('cancel-many');
            await submitMany(server, 'cancel-many', 1000);
            await submitMany(server, 'cancel-many', 200);
            await submitMany(server, 'cancel-none', 5);
            const page = await t.page();
            const dialog = await openAll(page, server, 'kind=cancel-many', 'Cancel…');
            const button = dialog.getByRole('button', { name: 'Cancel 1,200 jobs' });
            await button.waitFor();
            sure('not without the word', await button.isDisabled());
            await dialog.getByLabel('Type cancel to confirm').fill('cancel');
            await confirm(page, 'Cancel 1,200 jobs');
            same('it says', await told(page, /Cancelled: ([\d,]+), 3 refused/), 1200);
            same('all', await number(server, { kind: 'cancel-many', status: 'cancelled' }), 1200);
            same('others', await number(server, { kind: 'cancel-none', status: 'queued' }), 5);
        },
    ],
    [
        'bulk_drops_as_many_as_it_says',
        async (t) => {
            const { server } = t;
            await aside(server, await submitMany(server, 'drop-many', 620));
            await aside(server, await submitMany(server, 'drop-none', 2));
            const page = await t.page();
            await visit(page, server, '#/dead?kind=drop-many&reason_code=timeout');
            await page.getByRole('button', { name: 'Drop these' }).click();
            await page.getByLabel('Type drop to confirm').fill('drop');
            await confirm(page, 'Drop 620 dead letters');
            same('it says', await told(page, /Dropped: ([\d,]+)$/), 620);
            same('none is left', await number(server, { kind: 'drop-many' }), 0);
            same('others', await number(server, { kind: 'drop-none' }), 2);
        },
    ],
    [
        'bulk_requeue_counts_only_what_can_be_requeued',
        async (t) => {
            const { server } = t;
            const ids = await submitMany(server, 'requeue-some', 5);
            await aside(server, ids.slice(0, 2));
            const page = await t.page();
            await openAll(page, server, 'kind=requeue-some', 'Requeue…');
            await confirm(page, 'Requeue 2 jobs');
            same('it says', await told(page, /Requeued: (\d+), 3 refused/), 2);
        },
    ],
    [
        'bulk_runs_end_when_they_are_stopped_or_left',
        async (t) => {
            const { server } = t;
            for (let i = 0; i < 3; i++) await submitMany(server, 'stop-many', 1000);
            const page = await t.page();
            const filter = { kind: 'stop-many', status: 'cancelled' };
            const stops = [
                (dialog) => dialog.getByRole('button', { name: 'Stop' }).click(),
                () => page.keyboard.press('Escape'),
            ];
            let before = 0;
            for (const stop of stops) {
                await page.goto('about:blank'); // and the toast of the one before is gone
                const dialog = await openAll(
                    page,
                    server,
                    'kind=stop-many&status=queued',
                    'Cancel…',
                );
                await dialog.getByLabel('Limit per second').fill('1000');
                await dialog.getByLabel('Type cancel to confirm').fill('cancel');
                const left = (3000 - before).toLocaleString('en');
                await dialog.getByRole('button', { name: `Cancel ${left} jobs` }).click();
                await dialog.getByText('500 done').waitFor();
                await stop(dialog);
                await dialog.waitFor({ state: 'detached' });
                const done = await told(page, /Cancelled: ([\d,]+), then stopped/);
                same('as many as it says', await number(server, filter), before + done);
                before += done;
            }
            await new Promise((resolve) => setTimeout(resolve, 300));
            same('nothing goes on', await number(server, filter), before);
        },
    ],
    [
        'bulk_does_nothing_that_is_not_counted',
        async (t) => {
            const { server } = t;
            await submitMany(server, 'uncounted', 2);
            const page = await t.page({ refusals: true });
            let answer;
            const answered = new Promise((resolve) => (answer = resolve));
            await page.route('**/v1/jobs/bulk', async (route) => {
                await answered;
                await route.fulfill({ status: 500, body: '{"detail":"the disk is gone"}' });
            });
            const dialog = await openAll(page, server, 'kind=uncounted', 'Requeue…');
            const button = dialog.getByRole('button', { name: 'Requeue matching jobs' });
            sure('not before the count is there', await button.isDisabled());
            answer();
            await dialog.getByRole('alert').getByText('the disk is gone').waitFor();
            sure('nor without one', await button.isDisabled());
        },
    ],
];
