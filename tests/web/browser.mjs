// Chromium with a page that minds everything that must not happen: scripts that fail, the policy that
// is violated, dialogs that somebody's payload opened.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

export const WIDE = { width: 1280, height: 860 };
export const PHONE = { width: 390, height: 844 };

export async function launch(build) {
    const { chromium } = createRequire(join(build, 'web', 'package.json'))('playwright-core');
    return chromium.launch({
        executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
    });
}

/* With PAGES=FOLDER the pages come from there, under the server's own headers: to try pages, and bugs in
 * them, without building the program. */
async function servePages(context, folder) {
    await context.route(/^https?:\/\/[^/]+\/(assets\/[^/]+)?$/, async (route) => {
        const name = new URL(route.request().url()).pathname.split('/').pop() || 'index.html';
        if (name === 'index.html')
            await route.fulfill({
                response: await route.fetch(),
                body: await readFile(join(folder, name)),
            });
        else await route.fulfill({ path: join(folder, name) });
    });
}

/* A refused request is a line on the console too; cases that provoke one say so. */
const refusal = /^Failed to load resource/;

export async function openPage(
    browser,
    { viewport = WIDE, colorScheme = 'light', refusals = false } = {},
) {
    const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' });
    if (process.env.PAGES) await servePages(context, process.env.PAGES);
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    const sins = [];
    page.on('pageerror', (error) => sins.push(`an error: ${error.message}`));
    page.on('dialog', (dialog) => {
        sins.push(`a dialog: ${dialog.message()}`);
        void dialog.dismiss();
    });
    page.on('console', (message) => {
        if (message.type() !== 'error') return;
        if (refusals && refusal.test(message.text())) return;
        sins.push(`on the console: ${message.text()}`);
    });
    await page.exposeBinding('violated', (_source, text) => void sins.push(`the policy: ${text}`));
    await page.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) =>
            window.violated(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
        );
    });
    page.sins = sins;
    page.close = () => context.close();
    return page;
}

/** Opens a page of the dashboard and waits until it is live. Loads it only if it is not there yet. */
export async function visit(page, server, address = '#/') {
    const there =
        page.url().startsWith(`${server.url}/`) && !(await page.locator('dialog[open]').count());
    if (there) await page.evaluate((to) => void (location.hash = to), address);
    else await page.goto(`${server.url}/${address}`);
    await page.locator('.connection.live').waitFor();
}

/** Waits until what `look` answers is true; says what was wanted when it never is. */
export async function eventually(what, look, ms = 8000) {
    const until = Date.now() + ms;
    let last;
    for (;;) {
        try {
            last = await look();
            if (last) return last;
        } catch (error) {
            last = error;
        }
        if (Date.now() > until)
            throw new Error(
                `${what}: never; last was ${last instanceof Error ? last.message : JSON.stringify(last)}`,
            );
        await new Promise((resolve) => setTimeout(resolve, 25));
    }
}

export function same(what, got, wanted) {
    if (JSON.stringify(got) !== JSON.stringify(wanted))
        throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`);
}

export function sure(what, holds) {
    if (!holds) throw new Error(what);
}

/** Presses the button of the dialog that is open, and waits until it is gone. */
export async function confirm(page, label) {
    const dialog = page.locator('dialog[open]');
    await dialog.getByRole('button', { name: label }).click();
    await dialog.waitFor({ state: 'detached' });
}

export async function act(page, item) {
    await page.getByRole('button', { name: 'Actions' }).click();
    await page.getByRole('menuitem', { name: item }).click();
}
