// Makes a table and a chart of results.
//
// usage: report.js RESULTS [DOCUMENT CHART]
//
// Without a document the tables go to the terminal. In the document they stand between two marks.
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { chart } from './chart.js';
import { machineText, median, number, spread, writeBetween } from './figures.js';
import { SCENARIOS, SYSTEMS } from './systems.js';

const [resultsPath, documentPath, chartPath] = process.argv.slice(2);
const results = JSON.parse(readFileSync(resultsPath, 'utf8'));

// What all rounds say of one system in one scenario; null: not asked.
function cell(system, scenario) {
    const runs = results.runs.filter((run) => run.system === system.name && run.scenario === scenario);
    if (runs.length === 0)
        return null;
    const good = runs.filter((run) => run.result).map((run) => run.result);
    if (good.length === 0)
        return { failed: true };
    const each = (value) => good.map(value).filter((one) => one !== undefined && Number.isFinite(one));
    const perJob = (name) => {
        const values = each((result) => result[name] / result.jobs);
        return values.length > 0 ? median(values) : undefined;
    };
    const rates = each((result) => result.jobs / result.seconds);
    const answer = {
        rate: median(rates), spread: spread(rates), rounds: good.length, failed: false,
        server: perJob('server_cpu_us'), client: perJob('client_cpu_us'),
    };
    if (good[0].p50_ms !== undefined) {
        answer.p50 = median(each((result) => result.p50_ms));
        answer.p99 = median(each((result) => result.p99_ms));
    }
    return answer;
}

function figure(value) {
    if (value === null)
        return '–';
    if (value.failed)
        return 'failed';
    if (value.p50 !== undefined)
        return `${number(value.p50, 2)} / ${number(value.p99, 2)} ms`;
    return `${number(value.rate)} ±${value.spread} %`;
}

function cost(value) {
    if (value === null || value.failed || value.client === undefined)
        return '–';
    const digits = (microseconds) => number(microseconds, microseconds < 10 ? 1 : 0);
    return value.server === undefined ? digits(value.client) : `${digits(value.server)} + ${digits(value.client)}`;
}

// How much of all cores server and client had, in percent: near 100 it is they that limit the rate, far below
// it something is waited for, such as the disk.
function busy(value) {
    if (value === null || value.failed || value.client === undefined || value.p50 !== undefined)
        return '–';
    return `${Math.round((value.rate * ((value.server ?? 0) + value.client)) / 1e4 / results.machine.cores)} %`;
}

const systems = SYSTEMS.filter(({ name }) => results.systems.includes(name));

function table(scenarios, content, first) {
    const rows = systems.map((system) => [system, scenarios.map((name) => cell(system, name))])
        .filter(([, cells]) => cells.some((one) => one !== null));
    if (rows.length === 0)
        return '';
    return [
        `| ${[first, ...scenarios.map((name) => SCENARIOS[name].title)].join(' | ')} |`,
        `|${'---|'.repeat(scenarios.length + 1)}`,
        ...rows.map(([system, cells]) => `| ${[`${system.title} (${system.client})`, ...cells.map(content)].join(' | ')} |`),
    ].join('\n');
}

// What is left of the rate when a hundred times as many jobs wait.
function growth() {
    const [few, many] = ['backlog-10k', 'backlog-1m'];
    if (!results.scenarios.includes(few) || !results.scenarios.includes(many))
        return '';
    const ratios = systems.flatMap((system) => {
        const [before, after] = [cell(system, few), cell(system, many)];
        return before && after && !before.failed && !after.failed
            ? [`${system.title} × ${number(after.rate / before.rate, 2)}`] : [];
    });
    return `Rate with 1 M others waiting ÷ rate with 10 k: ${ratios.join('; ')}.\n\n`;
}

function versionOf(system) {
    const { versions } = results;
    const own = versions[system.name] ?? versions[system.family] ?? '';
    return system.version && system.package ? `${own}, Redis ${versions[system.version[0]]}` : own;
}

function settings() {
    return systems.map((system) =>
        `- **${[system.title, versionOf(system)].filter(Boolean).join(' ')}**: ${system.settings}.`).join('\n');
}

function text() {
    const { machine, versions } = results;
    const isSteps = (name) => SCENARIOS[name].operation === 'steps';
    const queues = results.scenarios.filter((name) => !isSteps(name));
    const workflows = results.scenarios.filter(isSteps);
    const counts = results.scenarios.map((name) => `${name} ${number(SCENARIOS[name].jobs)}`).join(', ');
    const picture = chartPath ? `![Jobs per second of each system in each scenario](${basename(chartPath)})\n\n` : '';
    return `${picture}Jobs per second: medians of ${results.repeats} rounds, and half the range between them; for latency p50 / p99. Payloads have 200 bytes and handlers do nothing. Everything is synced before it is acknowledged, except
where it says so. All systems have the same number of jobs in a scenario, and run one after the other in each round. What is done is counted in each one's own store.

${table(queues, figure, 'system (language of its client)')}

${growth()}Workflows per second; every step is recorded before the next begins.

${table(workflows, figure, 'system (language of its client)')}

Microseconds of processor time for each job, server + client; one number where they are one process. A client in C costs less than one in Node: on ${machine.cores} cores that they share, it is these figures that tell what a server costs.

${table(results.scenarios, cost, 'server + client, µs a job')}

How much of the ${machine.cores} cores that was, at the rates above. Near 100 % it is the processors that set the rate, far below it is what is waited for: the disk, and calls that go one by one.

${table(results.scenarios.filter((name) => SCENARIOS[name].operation !== 'latency'), busy, 'processors in use')}

What is not the same. Pawl writes more than any of them: a claim is durable, with a lease that ends, a token and an owner, and each of the four transitions of a job is kept as an event on a hash chain.
beanstalkd and BullMQ forget a job that is done, graphile-worker and the bare databases delete its row; beanstalkd does not write claims at all, and after a crash of a worker on the bare databases nobody takes its jobs up again. The clients of Pawl, of
beanstalkd and of the bare databases are in C, the others in Node. Beside other load Pawl
has 200 heartbeats, 10 waits, 5 plans, 20 lists and 50 reads a second and effects in 10 % of its jobs, pg-boss and BullMQ have the lists and reads; the others have no such calls. beanstalkd and BullMQ have no batches of claims: with producers and workers at once they have 64 workers that take one job each. The bare SQLite has one writer, where 8 or 64 clients are asked
for, and its latency is two commits. While latency is measured, Pawl's server has 1,000 other claims that wait, the others have none. Workflows of Restate and DBOS are called and awaited by 64 callers, and run in the process that calls. Pawl's are jobs
with effects: 64 producers each submit the next one when another has completed, so that at most 64 are on the way, and 64 workers, in the producers' process and not in the server's, claim one, begin and commit its effects, each commit and the next beginning in one call, and complete it.

${settings()}

PostgreSQL ${versions.postgres} (\`synchronous_commit=on\`, \`shared_buffers=1GB\`, \`max_wal_size=4GB\`) and all servers are on loopback; clients in Node run on Node ${versions.node}. Jobs: ${counts}.
${machineText(machine)}
`;
}

if (documentPath === undefined) {
    console.log(text());
} else {
    if (results.smoke)
        throw new Error('these are results of a smoke run: a few jobs each. They do not belong into a document.');
    const missing = [
        ...SYSTEMS.map(({ name }) => name).filter((name) => !results.systems.includes(name)),
        ...Object.keys(SCENARIOS).filter((name) => !SCENARIOS[name].optional && !results.scenarios.includes(name)),
    ];
    if (missing.length > 0)
        throw new Error(`these results are of a part only: without ${missing.join(', ')}. They do not belong into a document.`);
    writeBetween(documentPath, 'bench-peers', text());
    writeFileSync(chartPath, chart(results, systems, cell));
    console.log(`written: ${documentPath}, ${chartPath}`);
}
