// The chart: a panel for each scenario, a bar for each system in it, longest first.
import { SCENARIOS } from './systems.js';

const WIDTH = 920;
const COLUMNS = 2;
const GAP = 28;
const PANEL = (WIDTH - GAP * (COLUMNS + 1)) / COLUMNS;
const BAR = 17;
const HEAD = 30;
const LABEL = 186;
const VALUE = 92;
const OURS = '#c2410c';
const THEIRS = '#8497ad';

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const number = (value, digits) => value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

function bars(systems, scenario, cell) {
    const rows = [];
    for (const system of systems) {
        const value = cell(system, scenario);
        if (value === null || value.failed)
            continue;
        const isTime = value.p50 !== undefined;
        rows.push({
            title: system.title, ours: Boolean(system.pawl), isTime, length: isTime ? value.p50 : value.rate,
            text: isTime ? `${number(value.p50, 2)} / ${number(value.p99, 2)} ms` : number(value.rate, 0),
        });
    }
    return rows.sort((a, b) => (a.isTime ? a.length - b.length : b.length - a.length));
}

function panel(title, rows, x, y) {
    const scale = (PANEL - LABEL - VALUE) / Math.max(...rows.map(({ length }) => length));
    const lines = [`<text x="${x}" y="${y + 14}" class="t">${escaped(title)}</text>`];
    rows.forEach((row, i) => {
        const top = y + HEAD + i * BAR;
        const width = Math.max(1, row.length * scale);
        lines.push(
            `<text x="${x + LABEL - 8}" y="${top + 11}" class="${row.ours ? 'o' : 'l'}" text-anchor="end">${escaped(row.title)}</text>`,
            `<rect x="${x + LABEL}" y="${top + 1}" width="${width.toFixed(1)}" height="${BAR - 5}" fill="${row.ours ? OURS : THEIRS}"/>`,
            `<text x="${(x + LABEL + width + 6).toFixed(1)}" y="${top + 11}" class="l">${row.text}</text>`);
    });
    return lines.join('\n');
}

export function chart(results, systems, cell) {
    const panels = results.scenarios.map((name) => ({
        title: `${SCENARIOS[name].title}${SCENARIOS[name].operation === 'latency' ? ', p50 / p99' : ', per second'}`,
        rows: bars(systems, name, cell),
    })).filter(({ rows }) => rows.length > 0);
    const drawn = [];
    let y = GAP;
    for (let i = 0; i < panels.length; i += COLUMNS) {
        const row = panels.slice(i, i + COLUMNS);
        row.forEach(({ title, rows }, column) => drawn.push(panel(title, rows, GAP + column * (PANEL + GAP), y)));
        y += HEAD + Math.max(...row.map(({ rows }) => rows.length)) * BAR + GAP;
    }
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}" role="img">
<title>Pawl beside its peers</title>
<style>text{font:11px system-ui,sans-serif;fill:#334155}.t{font-weight:600;font-size:13px;fill:#0f172a}.o{font-weight:600;fill:${OURS}}</style>
<rect width="${WIDTH}" height="${y}" fill="#ffffff"/>
${drawn.join('\n')}
</svg>
`;
}
