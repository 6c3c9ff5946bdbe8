// Runs every scenario on every system, round robin, and writes what came out.
//
// usage: run.js RESULTS DIRECTORY     (by scripts/bench-peers, which says what the environment holds; the
//                                     directory is for what the servers write, and is theirs to delete)
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { machine, programVersion } from './machine.js';
import { pawlCommand, pawlPrepare, pawlResult } from './pawl.js';
import { cpuMicroseconds, cpuRecorder, ended, killAll, lines, sleep, start } from './processes.js';
import { asked, SCENARIOS, SYSTEMS } from './systems.js';

const [resultsPath, work] = process.argv.slice(2);
const smoke = process.env.SMOKE === '1';
const repeats = Number(process.env.REPEATS || (smoke ? 1 : 3));
const words = (name) => (process.env[name] ?? '').split(/\s+/).filter(Boolean);

async function finish(status) {
    await killAll();
    process.exit(status);
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => { finish(130); });

// ---- who and what ----

function selected() {
    const peers = words('PEERS');
    const scenarios = words('SCENARIOS');
    for (const name of peers) {
        if (!SYSTEMS.some((system) => system.name === name || system.family === name))
            throw new Error(`there is no peer '${name}'; there are: ${SYSTEMS.map((system) => system.name).join(' ')}`);
    }
    for (const name of scenarios) {
        if (!(name in SCENARIOS))
            throw new Error(`there is no scenario '${name}'; there are: ${Object.keys(SCENARIOS).join(' ')}`);
    }
    return {
        systems: SYSTEMS.filter(({ name, family }) => peers.length === 0 || peers.includes(name) || peers.includes(family)),
        scenarios: scenarios.length > 0 ? scenarios
            : Object.keys(SCENARIOS).filter((name) => !SCENARIOS[name].optional || process.env.BACKLOG === '1'),
    };
}

const packageVersion = (name) =>
    JSON.parse(readFileSync(join(import.meta.dirname, 'node_modules', name, 'package.json'), 'utf8')).version;

function versions(systems) {
    const result = { node: process.version.slice(1), postgres: programVersion(['psql', '--version']) };
    for (const { name, version, package: npm, pawl } of systems) {
        result[name] = pawl ? programVersion([process.env.PAWL, 'version'])
            : npm ? packageVersion(npm) : version ? programVersion(version) : undefined;
        if (npm && version)
            result[version[0]] = programVersion(version);
    }
    return result;
}

// ---- one run ----

// The client says `begin` and `end` around what is timed, then one line of JSON.
async function listen(client, server, { seconds }) {
    const heard = {};
    const cpu = () => (server.pid ? cpuMicroseconds(server.pid) : undefined);
    lines(client).on('line', (line) => {
        if (line === 'begin')
            heard.before = cpu();
        else if (line === 'end')
            heard.after = cpu();
        else if (line.startsWith('{'))
            heard.result = JSON.parse(line);
    });
    await ended(client, seconds);
    if (heard.result === undefined)
        throw new Error(`it says nothing: ${client.said.trim()}`);
    if (server.pid)
        heard.result.server_cpu_us = heard.after - heard.before;
    return heard.result;
}

// `pawl bench` fills and counts by itself, takes the time of its server, and says when it began; what it
// does not know is what PostgreSQL costs.
async function listenToPawl(client, server, scenario) {
    const recorder = server.pid ? cpuRecorder(server.pid) : { between: () => 0, look: () => {}, stop: () => {} };
    let said = '';
    client.stdout.on('data', (data) => { said += data; });
    try {
        await ended(client, scenario.seconds * 3);
        recorder.look();
    } finally {
        recorder.stop();
    }
    return pawlResult(scenario, said, recorder.between);
}

// What the store has must be what was done.
function check(scenario, { jobs, left }) {
    const spare = scenario.waiting ?? 0;
    const wanted = scenario.operation === 'enqueue' ? scenario.jobs : spare;
    if (spare === 0 && (jobs !== scenario.jobs || left !== wanted))
        throw new Error(`${scenario.jobs} jobs, but the store counts ${jobs} done and has ${left} where ${wanted} should be`);
    if (spare > 0 && (jobs < scenario.jobs / 2 || left > spare + scenario.jobs))
        throw new Error(`${jobs} jobs done, ${left} left, and that cannot be`);
}

async function measure(system, scenario) {
    const directory = mkdtempSync(join(work, 'run-'));
    const server = await system.server(directory);
    try {
        if (system.pawl && server.pid)
            await ended(start(pawlPrepare(server.target)), 60);
        const client = start(system.pawl ? pawlCommand(system, scenario, server.target)
            : system.command(scenario, server.target));
        const result = await (system.pawl ? listenToPawl : listen)(client, server, scenario);
        check(scenario, result);
        return result;
    } finally {
        await server.stop();
        rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
    }
}

// ---- all of them ----

const number = (value, digits = 0) => value.toLocaleString('en-US', { maximumFractionDigits: digits });

function say(system, name, result) {
    const figure = result.p50_ms !== undefined
        ? `${result.p50_ms.toFixed(2)} / ${result.p99_ms.toFixed(2)} ms`
        : `${number(result.jobs / result.seconds)} per second`;
    const cpu = (value) => (value === undefined ? '' : number(value / result.jobs, 1));
    console.log(`${name.padEnd(14)} ${system.title.padEnd(28)} ${figure.padStart(22)}   ` +
        `µs a job: server ${cpu(result.server_cpu_us) || '–'}, client ${cpu(result.client_cpu_us)}`);
}

async function main() {
    const { systems, scenarios } = selected();
    mkdirSync(join(work, 'disk'));
    const results = {
        smoke, repeats, machine: machine(join(work, 'disk'), smoke), versions: versions(systems),
        scenarios, systems: systems.map(({ name }) => name), runs: [],
    };
    let failures = 0;
    for (let round = 0; round < repeats; round++) {
        for (const name of scenarios) {
            for (let i = 0; i < systems.length; i++) {
                const system = systems[(i + round) % systems.length]; // nobody is always the first
                const scenario = asked(system, name, smoke);
                if (scenario === null)
                    continue;
                const run = { round, scenario: name, system: system.name, started: new Date().toISOString() };
                try {
                    run.result = await measure(system, scenario);
                    say(system, name, run.result);
                } catch (error) {
                    run.error = String(error.message ?? error);
                    failures++;
                    console.log(`${name.padEnd(14)} ${system.title.padEnd(28)} FAILED: ${run.error}`);
                }
                results.runs.push(run);
                writeFileSync(resultsPath, JSON.stringify(results, null, 1));
                await sleep(smoke ? 0 : 500);
            }
        }
    }
    console.log(`${results.runs.length - failures} passed, ${failures} failed`);
    return failures === 0 ? 0 : 1;
}

main().then(finish, async (error) => {
    console.error(`bench-peers: ${error.message ?? error}`);
    await finish(1);
});
