// With the keyboard alone.
import { same, sure, visit } from '../browser.mjs';

const at = (page, hash) => page.waitForFunction((wanted) => location.hash === wanted, hash);

export const cases = [
    [
        'g_and_a_letter_go_to_each_page',
        async (t) => {
            const page = await t.page();
            await visit(page, t.server);
            const places = {
                j: '#/jobs',
                i: '#/inbox',
                d: '#/dead',
                q: '#/queues',
                r: '#/resources',
                o: '#/',
            };
            for (const [key, hash] of Object.entries(places)) {
                await page.keyboard.press('g');
                await page.keyboard.press(key);
                await at(page, hash);
            }
        },
    ],
    [
        'a_list_is_walked_with_j_and_k_and_opened_with_enter',
        async (t) => {
            for (let i = 0; i < 3; i++) await t.server.submit('walk', { payload: i });
            const page = await t.page();
            await visit(page, t.server, '#/jobs?kind=walk');
            await page.waitForFunction(
                () => document.querySelectorAll('tbody [data-row]').length === 3,
            );
            const ids = await page
                .locator('tbody [data-row]')
                .evaluateAll((rows) => rows.map((row) => row.dataset.id));
            const focused = () => page.evaluate(() => document.activeElement.dataset.id);
            for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
            same('where we are', await focused(), ids[1]);
            await page.keyboard.press('x');
            await page.getByText('1 selected').waitFor();
            await page.keyboard.press('Enter');
            await at(page, `#/jobs/${ids[1]}`);
        },
    ],
    [
        'search_help_theme_and_submit_have_keys',
        async (t) => {
            const page = await t.page({});
            await visit(page, t.server, '#/jobs');
            await page.locator('[data-search]').waitFor();
            await page.keyboard.press('/');
            same(
                'the search has the focus',
                await page.evaluate(() => document.activeElement.id),
                'search',
            );
            await page.keyboard.type('jk?');
            same('keys go into the field', await page.locator('#search').inputValue(), 'jk?');
            await page.keyboard.press('Escape');
            await page.keyboard.press('?');
            await page.getByRole('dialog').getByText('Keyboard shortcuts').waitFor();
            await page.keyboard.press('Escape');
            await page.locator('dialog').waitFor({ state: 'detached' });
            const ground = () =>
                page.evaluate(() => getComputedStyle(document.body).backgroundColor);
            const light = await ground();
            await page.keyboard.press('t');
            sure('it is dark now', (await ground()) !== light);
            await page.reload();
            await page.locator('.connection.live').waitFor();
            sure('and stays so', (await ground()) !== light);
            await page.keyboard.press('c');
            await page.getByRole('dialog').getByText('Submit a job').waitFor();
        },
    ],
    [
        'the_first_tab_skips_to_the_page_and_focus_is_seen',
        async (t) => {
            const page = await t.page({});
            await visit(page, t.server, '#/queues');
            await page.keyboard.press('Tab');
            same(
                'the first',
                await page.evaluate(() => document.activeElement.textContent.trim()),
                'Skip to content',
            );
            await page.keyboard.press('Enter');
            same('the page', await page.evaluate(() => document.activeElement.id), 'main');
            await page.keyboard.press('Tab');
            const outline = await page.evaluate(
                () => getComputedStyle(document.activeElement).outlineStyle,
            );
            same('the outline', outline, 'solid');
        },
    ],
    [
        'the_menu_of_actions_is_walked_with_arrows',
        async (t) => {
            const job = await t.server.submit('menu');
            const page = await t.page();
            await visit(page, t.server, `#/jobs/${job.id}`);
            await page.getByRole('button', { name: 'Actions' }).focus();
            await page.keyboard.press('Enter');
            await page.getByRole('menu').waitFor();
            await page.keyboard.press('ArrowDown');
            same(
                'the second',
                await page.evaluate(() => document.activeElement.textContent),
                'Requeue…',
            );
            await page.keyboard.press('Escape');
            await page.getByRole('menu').waitFor({ state: 'detached' });
        },
    ],
];
