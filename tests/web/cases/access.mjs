// A server that asks for tokens: signing in, what a token may, signing out.
import { confirm, eventually, same, sure, visit } from '../browser.mjs';

const TOKEN = 'pawl_an-admin-token-for-the-tests-of-the-dashboard';

async function signIn(page, token) {
    await page.getByLabel('Access token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
}

export const cases = [
    [
        'a_server_with_tokens_asks_for_one_and_keeps_it_from_scripts',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const job = await server.submit('secret-work');
            const page = await t.page({ refusals: true });
            await page.goto(`${server.url}/#/jobs/${job.id}`);
            await page.getByText('Sign in to Pawl').waitFor();
            await signIn(page, 'pawl_wrong');
            await page.getByText('Unknown or expired token').waitFor();
            await signIn(page, TOKEN);
            await page.locator('h1', { hasText: 'secret-work' }).waitFor();
            await page.locator('.connection.live').waitFor();

            const cookies = await page.context().cookies();
            same('cookies', cookies.length, 1);
            sure('HttpOnly', cookies[0].httpOnly);
            same('SameSite', cookies[0].sameSite, 'Strict');
            same(
                'what scripts see',
                await page.evaluate(
                    () => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }),
                ),
                '{}',
            );
            sure('no secret in the address', !page.url().includes('pawl_'));

            await page.getByRole('button', { name: 'Cancel', exact: true }).click();
            await confirm(page, 'Cancel job');
            await eventually(
                'it is cancelled',
                async () => (await server.job(job.id)).status === 'cancelled',
            );

            await page.reload();
            await page.locator('.connection.live').waitFor();
            await page.locator('h1', { hasText: 'secret-work' }).waitFor();
            const feedEnds = page.waitForEvent('requestfailed', (request) =>
                request.url().includes('/v1/feed'),
            );
            await page.getByRole('button', { name: /Sign out/ }).click();
            await page.getByText('Sign in to Pawl').waitFor();
            await feedEnds;
            same('cookies after it', (await page.context().cookies()).length, 0);
            same(
                'without one',
                await page.evaluate(async () => (await fetch('/v1/stats')).status),
                401,
            );
        },
    ],
    [
        'a_page_that_cannot_ask_who_it_is_for_says_so_and_goes_on_when_it_can',
        async (t) => {
            const server = await t.ownServer();
            const page = await t.page({ refusals: true });
            await page.route('**/session', (route) => route.fulfill({ status: 500 }));
            await page.goto(server.url);
            await page.getByText('Server not responding').waitFor();
            await page.unroute('**/session');
            await page.locator('.connection.live').waitFor();
        },
    ],
    [
        'a_request_from_elsewhere_with_the_cookie_does_nothing',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const job = await server.submit('forged');
            const page = await t.page({ refusals: true });
            await page.goto(server.url);
            await signIn(page, TOKEN);
            await page.locator('.connection.live').waitFor();
            const forged = await page.evaluate(
                async (id) =>
                    (
                        await fetch(`/v1/jobs/${id}/cancel`, {
                            method: 'POST',
                            headers: { 'Content-Type': 'application/json' },
                            body: '{}',
                        })
                    ).status,
                job.id,
            );
            same('without the word against forgery', forged, 403);
            same('its status', (await server.job(job.id)).status, 'queued');
        },
    ],
    [
        'a_token_that_may_only_look_is_told_so',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const job = await server.submit('look-only');
            const { token } = await server.post('/v1/tokens', { name: 'looker', scopes: ['read'] });
            const page = await t.page({ refusals: true });
            await page.goto(`${server.url}/#/jobs/${job.id}`);
            await signIn(page, token);
            await page.locator('.connection.live').waitFor();
            await page.getByText('Status explained').waitFor();
            same('buttons', await page.locator('.next-actions').count(), 0);
            await page.getByRole('button', { name: 'Actions' }).click();
            const cancel = page.getByRole('menuitem', { name: 'Cancel…' });
            same('off', await cancel.getAttribute('aria-disabled'), 'true');
            same(
                'why',
                await cancel.getAttribute('title'),
                'Your token lacks the scope submit',
            );
            await page.keyboard.press('Escape');
            await visit(page, server, '#/');
            await page.locator('.figures').waitFor();
        },
    ],
    [
        'only_a_token_that_may_answer_is_shown_the_answers',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const job = await server.submit('ask-some');
            await server.lease(await server.claim('ask-some'), 'wait', {
                type: 'human',
                correlation_key: 'k',
                prompt: 'Pay it?',
                choices: ['yes', 'no'],
            });
            const made = (name, scopes) => server.post('/v1/tokens', { name, scopes });
            const places = ['#/inbox', `#/jobs/${job.id}`];
            for (const scopes of [['read', 'work'], ['read', 'answer']]) {
                const page = await t.page({ refusals: true });
                const { token } = await made(scopes.join('-'), scopes);
                await page.goto(`${server.url}/${places[0]}`);
                await signIn(page, token);
                for (const place of places) {
                    await visit(page, server, place);
                    await page.getByText('Pay it?').first().waitFor();
                    const no = page.getByRole('button', { name: 'no', exact: true });
                    const may = scopes.includes('answer');
                    if (may) await no.waitFor();
                    else await page.getByText('Your token cannot answer questions').waitFor();
                    same(`${place} with ${scopes}`, await no.count(), may ? 1 : 0);
                    same('who', await page.getByLabel('Answer as').count(), may ? 1 : 0);
                }
                if (!scopes.includes('answer')) continue;
                await page.getByRole('button', { name: 'no', exact: true }).click();
                await eventually(
                    'it goes on',
                    async () => (await server.job(job.id)).status === 'queued',
                );
            }
        },
    ],
    [
        'a_token_that_may_not_look_is_told_so_on_the_page',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const { token } = await server.post('/v1/tokens', {
                name: 'maker',
                scopes: ['submit'],
            });
            const page = await t.page({ refusals: true });
            await page.goto(`${server.url}/#/jobs`);
            await signIn(page, token);
            await page.getByText('Access denied').waitFor();
            await page.getByText('Not live').waitFor();
            await page.getByRole('button', { name: 'Submit', exact: true }).click();
            await page.locator('dialog').getByLabel('Kind').fill('made-blindly');
            await confirm(page, 'Submit');
            const { jobs } = await server.get('/v1/jobs?kind=made-blindly');
            same('made', jobs.length, 1);
        },
    ],
    [
        'a_token_that_ends_leads_back_to_the_sign_in',
        async (t) => {
            const server = await t.ownServer({ token: TOKEN });
            const { token, id } = await server.post('/v1/tokens', {
                name: 'short',
                scopes: ['read'],
            });
            const page = await t.page({ refusals: true });
            await page.goto(server.url);
            await signIn(page, token);
            await page.locator('.connection.live').waitFor();
            await server.call('DELETE', `/v1/tokens/${id}`);
            await page.getByText('Sign in to Pawl').waitFor({ timeout: 15_000 });
        },
    ],
];
