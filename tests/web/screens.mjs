// The pictures of the docs: each page, light and dark, of a small shop at work.
import { execFile } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openPage, PHONE, visit, WIDE } from './browser.mjs';
import { demo } from './demo.mjs';
import { keepBusy } from './traffic.mjs';

const CHART_S = 125;

/* A third of the size where pngquant is installed, and nobody sees the difference. */
async function shrink(folder) {
    const files = (await readdir(folder)).filter((name) => name.endsWith('.png'));
    const options = ['--force', '--ext', '.png', '--quality', '70-95', '--speed', '1'];
    const paths = files.map((name) => join(folder, name));
    await promisify(execFile)('pngquant', [...options, ...paths]).catch(() => {});
}

export async function takeScreenshots(browser, server, folder) {
    await mkdir(folder, { recursive: true });
    const world = await demo(server);
    const pages = {
        overview: '#/',
        jobs: '#/jobs',
        job: `#/jobs/${world.job}`,
        plan: `#/jobs/${world.plan}/plan`,
        step: `#/jobs/${world.plan}/plan/approve-outline`,
        inbox: '#/inbox',
        'dead-letters': '#/dead',
        queues: '#/queues',
        resources: '#/resources',
    };
    const shoot = async (viewport, colorScheme, name, address, suffix, wait_s = 0) => {
        const page = await openPage(browser, { viewport, colorScheme });
        await visit(page, server, address);
        await page.locator('main h1').waitFor();
        await page.locator('main .skeleton').waitFor({ state: 'detached' });
        if (name === 'dead-letters') {
            await page.locator('tbody [data-row]').first().click();
            await page.locator('.dead-preview pre').waitFor();
        }
        // Charts are worth a look when something has happened in them.
        if (wait_s)
            await page.waitForFunction((s) => performance.now() > s * 1000, wait_s, { timeout: 0 });
        await page.screenshot({
            path: join(folder, `${name}-${suffix}.png`),
            animations: 'disabled',
        });
        await page.close();
    };
    // The job first: its attempts are small beside a long wait.
    for (const scheme of ['light', 'dark']) await shoot(WIDE, scheme, 'job', pages.job, scheme);
    await shoot(PHONE, 'dark', 'job', pages.job, 'phone');
    const stop = keepBusy(server);
    const charts = ['light', 'dark'].map((scheme) =>
        shoot(WIDE, scheme, 'overview', pages.overview, scheme, CHART_S),
    );
    for (const scheme of ['light', 'dark'])
        for (const [name, address] of Object.entries(pages))
            if (name !== 'overview' && name !== 'job')
                await shoot(WIDE, scheme, name, address, scheme);
    await shoot(PHONE, 'light', 'jobs', pages.jobs, 'phone');
    await Promise.all(charts);
    await stop();
    await shrink(folder);
}
