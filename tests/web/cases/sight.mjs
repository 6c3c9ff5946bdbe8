// For everybody: axe-core finds nothing serious on any page, light or dark, wide or on a phone.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PHONE, visit, WIDE } from '../browser.mjs';
import { demo } from '../demo.mjs';

async function findings(page, axe, rules) {
    if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
    return page.evaluate(async (only) => {
        const { violations } = await window.axe.run(document, {
            runOnly: only,
            resultTypes: ['violations'],
        });
        return violations
            .filter((v) => v.impact === 'serious' || v.impact === 'critical')
            .map(
                (v) =>
                    `${v.id}: ${v.nodes
                        .slice(0, 4)
                        .map((n) => n.html.slice(0, 160))
                        .join(' | ')}`,
            );
    }, rules);
}

const everything = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] };
/* Between the themes only colours differ. */
const colours = { type: 'rule', values: ['color-contrast'] };

export const cases = [
    [
        'axe_finds_nothing_serious_on_any_page_in_either_theme',
        async (t) => {
            const axe = await readFile(
                createRequire(join(t.build, 'web', 'package.json')).resolve('axe-core/axe.min.js'),
                'utf8',
            );
            const server = await t.ownServer();
            const world = await demo(server);
            const addresses = [
                '#/',
                '#/jobs',
                `#/jobs/${world.job}`,
                `#/jobs/${world.job}/attempts`,
                `#/jobs/${world.job}/effects`,
                `#/jobs/${world.job}/data`,
                `#/jobs/${world.plan}/plan/approve-outline`,
                '#/inbox',
                '#/dead',
                '#/queues',
                '#/resources',
            ];
            const found = [];
            for (const [colorScheme, rules, viewport] of [
                ['light', everything, WIDE],
                ['dark', colours, WIDE],
                ['light', everything, PHONE],
                ['dark', colours, PHONE],
            ]) {
                const page = await t.page({ viewport, colorScheme });
                const look = async (what) =>
                    found.push(
                        ...(await findings(page, axe, rules)).map(
                            (finding) => `${what}, ${colorScheme}, ${viewport.width} px: ${finding}`,
                        ),
                    );
                for (const address of addresses) {
                    await visit(page, server, address);
                    await page.locator('main h1').waitFor();
                    await page.locator('main .skeleton').waitFor({ state: 'detached' });
                    if (address === '#/dead') {
                        await page.locator('tbody [data-row]').first().click();
                        await page.locator('.dead-preview pre').waitFor();
                    }
                    await look(address);
                }
                await page.keyboard.press('c');
                await page.locator('dialog[open]').waitFor();
                await page.getByText('More', { exact: true }).click();
                await look('the dialog');
            }
            if (found.length > 0) throw new Error(found.join('\n'));
        },
    ],
    [
        'axe_finds_nothing_serious_on_the_sign_in',
        async (t) => {
            const axe = await readFile(
                createRequire(join(t.build, 'web', 'package.json')).resolve('axe-core/axe.min.js'),
                'utf8',
            );
            const server = await t.ownServer({
                token: 'pawl_an-admin-token-for-the-tests-of-the-dashboard',
            });
            const page = await t.page();
            await page.goto(server.url);
            await page.getByText('Sign in to Pawl').waitFor();
            const found = await findings(page, axe, everything);
            if (found.length > 0) throw new Error(found.join('\n'));
        },
    ],
];
