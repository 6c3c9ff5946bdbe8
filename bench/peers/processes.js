// Processes that do not outlive us, and what they cost.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { createInterface } from 'node:readline';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const TICKS_PER_SECOND = 100; // USER_HZ, the same on every Linux of ours

const running = new Set();

// In a group of its own, so that it ends with its children; and killed with us, even by kill -9.
export function start(command, options = {}) {
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', ...command],
        { stdio: ['ignore', 'pipe', 'pipe'], detached: true, ...options });
    child.said = '';
    const keep = (data) => { child.said = (child.said + data).slice(-8192); };
    child.stderr.on('data', keep);
    child.ended = new Promise((resolve) => {
        child.on('error', (error) => { keep(String(error)); resolve(-1); });
        child.on('close', (code, signal) => { running.delete(child); resolve(code ?? signal); });
    });
    running.add(child);
    return child;
}

export function kill(child) {
    try {
        process.kill(-child.pid, 'SIGKILL');
    } catch {
        // It has ended already.
    }
    return child.ended;
}

// Waits for its end, and ends it when that takes too long. Whatever is not a good end is an error.
export async function ended(client, seconds) {
    let late = false;
    const limit = setTimeout(() => { late = true; kill(client); }, (seconds + 5) * 1000);
    const code = await client.ended;
    clearTimeout(limit);
    if (late || code !== 0)
        throw new Error(`${late ? `not done after ${seconds} s` : `ended with ${code}`}: ${client.said.trim()}`);
}

export const killAll = () => Promise.all([...running].map(kill));

// Lines as they come, each in the moment in which it does.
export const lines = (child) => createInterface({ input: child.stdout });

// What the kernel says of a process, in ticks; null when it has ended.
function ticksOf(pid) {
    try {
        const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
        const fields = text.slice(text.lastIndexOf(')') + 2).split(' ').map(Number);
        return { parent: fields[1], own: fields[11] + fields[12], buried: fields[13] + fields[14] };
    } catch {
        return null;
    }
}

function descendants(processes, root) {
    const found = new Set([root]);
    for (let before = 0; found.size > before;) {
        before = found.size;
        for (const [pid, { parent }] of processes) {
            if (found.has(parent))
                found.add(pid);
        }
    }
    return found;
}

// All of them at once, or null: who ends while we look is counted twice, or not at all.
function familyTicks(root) {
    const before = ticksOf(root);
    const processes = new Map();
    for (const name of readdirSync('/proc')) {
        const ticks = /^\d+$/.test(name) ? ticksOf(name) : null;
        if (ticks !== null)
            processes.set(Number(name), ticks);
    }
    if (before === null || !processes.has(root))
        throw new Error('the server has ended');
    const family = [...descendants(processes, root)];
    if (ticksOf(root)?.buried !== before.buried || family.some((pid) => ticksOf(pid) === null))
        return null;
    return family.reduce((sum, pid) => sum + processes.get(pid).own + processes.get(pid).buried, 0);
}

// Microseconds that a process, its descendants and those that it has buried have used.
export function cpuMicroseconds(root) {
    let ticks = null;
    for (let tries = 0; ticks === null; tries++) {
        ticks = familyTicks(root);
        if (ticks === null && tries === 100)
            throw new Error('the processes of the server come and go too fast to be counted');
    }
    return (ticks * 1e6) / TICKS_PER_SECOND;
}

// Looks now and then, for when it is only known later which span is meant: in seconds of the steady clock.
export function cpuRecorder(root) {
    const seen = [];
    const look = () => { seen.push([Number(process.hrtime.bigint()) / 1e9, cpuMicroseconds(root)]); };
    const timer = setInterval(look, 100);
    const at = (moment) => {
        const after = seen.findIndex(([time]) => time >= moment);
        if (after <= 0)
            return seen.at(after)[1];
        const [[t0, c0], [t1, c1]] = [seen[after - 1], seen[after]];
        return c0 + ((c1 - c0) * (moment - t0)) / (t1 - t0);
    };
    look();
    return { look, stop: () => clearInterval(timer), between: (from, to) => at(to) - at(from) };
}

export function freePort() {
    return new Promise((resolve, reject) => {
        const server = net.createServer();
        server.on('error', reject);
        server.listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

// Until somebody answers there; a server that ended has said why.
export async function untilListening(port, child, seconds = 20) {
    for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
        const answered = await new Promise((resolve) => {
            const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); });
            socket.on('error', () => resolve(false));
        });
        if (answered)
            return;
        if (child.exitCode !== null)
            break;
        await sleep(20);
    }
    throw new Error(`the server did not come up: ${child.said}`);
}
