// What is served: its size, its policy, and types that hold.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { same, sure } from '../browser.mjs';

const PAGE_BYTES_MAX = 200_000;

export const cases = [
    [
        'the_whole_page_is_under_200_kB_compressed',
        async ({ server }) => {
            const html = await (await fetch(server.url)).text();
            const assets = [...html.matchAll(/\/assets\/[\w.-]+/g)].map(([path]) => path);
            sure('there are a script, a style sheet and an icon', assets.length === 3);
            const bodies = await Promise.all(
                assets.map(async (path) =>
                    Buffer.from(await (await fetch(server.url + path)).arrayBuffer()),
                ),
            );
            const size = [Buffer.from(html), ...bodies].reduce(
                (sum, body) => sum + gzipSync(body).length,
                0,
            );
            console.log(`# the page is ${(size / 1000).toFixed(1)} kB compressed`);
            sure(`${size} bytes are too many`, size < PAGE_BYTES_MAX);
        },
    ],
    [
        'the_policy_allows_only_the_servers_own_files',
        async ({ server }) => {
            const policy = (await fetch(server.url)).headers.get('content-security-policy') ?? '';
            for (const part of [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
            ])
                sure(`the policy has ${part}`, policy.includes(part));
            sure('nothing is unsafe', !policy.includes('unsafe'));
        },
    ],
    [
        'the_types_of_the_source_hold',
        async ({ build }) => {
            const run = promisify(execFile);
            const compiler = join(build, 'web', 'node_modules', 'typescript', 'bin', 'tsc');
            const { stdout } = await run(process.execPath, [
                compiler,
                '--noEmit',
                '-p',
                join(build, 'web', 'source'),
            ]).catch((error) => error);
            same('what the compiler says', stdout, '');
        },
    ],
];
