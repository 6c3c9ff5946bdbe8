// The dashboard in a real browser, on a real server. Prints TAP.
//
// usage: node run.mjs BUILD SOURCE [WORD]     only cases whose names have WORD in them
// With SCREENSHOTS=FOLDER it takes the pictures of the docs instead.
import { join, resolve } from 'node:path';
import { launch, openPage } from './browser.mjs';
import { takeScreenshots } from './screens.mjs';
import { Server } from './server.mjs';
import { cases as access } from './cases/access.mjs';
import { cases as actions } from './cases/actions.mjs';
import { cases as build } from './cases/build.mjs';
import { cases as bulk } from './cases/bulk.mjs';
import { cases as hostile } from './cases/hostile.mjs';
import { cases as keys } from './cases/keys.mjs';
import { cases as live } from './cases/live.mjs';
import { cases as pages } from './cases/pages.mjs';
import { cases as scale } from './cases/scale.mjs';
import { cases as sight } from './cases/sight.mjs';

const [given, sourceFolder, word = ''] = process.argv.slice(2);
if (!sourceFolder) {
    console.error('usage: node run.mjs BUILD SOURCE [WORD]');
    process.exit(2);
}

const buildFolder = resolve(given);
const binary = join(buildFolder, 'pawl');
const browser = await launch(buildFolder);
const server = await new Server(binary).start();

/* Loading a page costs more than most cases do: those that ask for nothing special share one. */
let shared = null;

async function sharedPage() {
    shared ??= await openPage(browser);
    shared.sins.length = 0;
    return shared;
}

/* What a case gets: the shared server, pages that are watched, and servers of its own. */
function bench() {
    const pages = [];
    const servers = [];
    return {
        server,
        browser,
        build: buildFolder,
        source: sourceFolder,
        async page(options) {
            const page = options ? await openPage(browser, options) : await sharedPage();
            if (!pages.includes(page)) pages.push(page);
            return page;
        },
        async ownServer(options) {
            const own = new Server(binary, options);
            servers.push(own);
            return own.start();
        },
        sins: () => pages.flatMap((page) => page.sins),
        async end() {
            // A page of a server that is gone would complain during the next case.
            if (shared && servers.some((own) => shared.url().startsWith(`${own.url}/`))) {
                await shared.close();
                shared = null;
            }
            await Promise.all(pages.filter((page) => page !== shared).map((page) => page.close()));
            await Promise.all(servers.map((own) => own.remove()));
        },
    };
}

async function runCase(n, [name, run]) {
    const t = bench();
    const begun = performance.now();
    let failure = null;
    try {
        await run(t);
        if (t.sins().length > 0)
            failure = new Error(`what must not happen:\n${t.sins().join('\n')}`);
    } catch (error) {
        failure = error;
        if (t.sins().length > 0) failure.message += `\n${t.sins().join('\n')}`;
    }
    await t.end();
    if (failure && shared) {
        await shared.close();
        shared = null;
    }
    const took = `${Math.round(performance.now() - begun)} ms`;
    console.log(`${failure ? 'not ok' : 'ok'} ${n} - ${name}`);
    console.log(failure ? String(failure.stack).replace(/^/gm, '# ') : `# ${took}`);
    return failure === null;
}

let failed = 0;
try {
    if (process.env.SCREENSHOTS) {
        await takeScreenshots(browser, server, process.env.SCREENSHOTS);
    } else {
        const all = [
            ...build,
            ...pages,
            ...live,
            ...actions,
            ...bulk,
            ...keys,
            ...hostile,
            ...access,
            ...sight,
            ...scale,
        ].filter(([name]) => name.includes(word));
        if (all.length === 0) throw new Error(`no case has "${word}" in its name`);
        console.log(`1..${all.length}`);
        for (const [i, one] of all.entries()) if (!(await runCase(i + 1, one))) failed++;
        console.log(`# ${all.length - failed} passed, ${failed} failed`);
    }
} finally {
    await browser.close();
    await server.remove();
}
process.exit(failed ? 1 : 0);
