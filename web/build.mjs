// Builds the dashboard: `node build.mjs DIRECTORY` writes index.html there, and beside it the files it
// names. Those have a hash of their content in their names: browsers may keep them for ever.
import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
    console.error('usage: node build.mjs DIRECTORY');
    process.exit(2);
}

await mkdir(out, { recursive: true });
const { metafile } = await build({
    absWorkingDir: here,
    entryPoints: ['src/main.tsx', 'favicon.svg'],
    entryNames: '[name]-[hash]',
    outdir: out,
    bundle: true,
    minify: true,
    format: 'esm',
    target: ['es2022'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.svg': 'copy' },
    legalComments: 'none',
    logLevel: 'warning',
    metafile: true,
});

const made = Object.keys(metafile.outputs).map((path) => basename(path));
let page = await readFile(join(here, 'index.html'), 'utf8');
for (const plain of ['main.js', 'main.css', 'favicon.svg']) {
    const [name, extension] = plain.split('.');
    const hashed = made.find(
        (file) => file.startsWith(`${name}-`) && file.endsWith(`.${extension}`),
    );
    page = page.replace(`/assets/${plain}`, `/assets/${hashed}`);
}
await writeFile(join(out, 'index.html'), page);
