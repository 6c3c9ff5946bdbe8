// What the figures were taken on.
import { closeSync, fdatasyncSync, openSync, readFileSync, statfsSync, writeSync } from 'node:fs';
import os from 'node:os';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const TMPFS = 0x01021994;

// How often a second 4 KiB can be written over what is there and synced; what a commit costs at least.
export function syncsPerSecond(directory, seconds) {
    const file = openSync(join(directory, 'sync'), 'w');
    const block = Buffer.alloc(4096, 'x');
    try {
        for (let i = 0; i < 256; i++)
            writeSync(file, block, 0, block.length, i * block.length);
        fdatasyncSync(file);
        let count = 0;
        const start = performance.now();
        while (performance.now() - start < seconds * 1000) {
            writeSync(file, block, 0, block.length, (count % 256) * block.length);
            fdatasyncSync(file);
            count++;
        }
        return Math.round((count * 1000) / (performance.now() - start));
    } finally {
        closeSync(file);
    }
}

function fileSystem(directory) {
    const lines = readFileSync('/proc/mounts', 'utf8').trim().split('\n').map((line) => line.split(' '));
    const holding = lines.filter(([, at]) => at === '/' || directory === at || directory.startsWith(`${at}/`));
    holding.sort((a, b) => b[1].length - a[1].length);
    return holding[0]?.[2] ?? 'unknown';
}

export function machine(directory, smoke) {
    if (statfsSync(directory).type === TMPFS)
        throw new Error('the temporary directory is in memory: nothing there is ever synced. Set TMPDIR to a disk.');
    return {
        date: new Date().toISOString().slice(0, 10),
        cores: os.availableParallelism(),
        processor: os.cpus()[0]?.model.trim() ?? 'unknown',
        memory_gib: Math.round(os.totalmem() / 2 ** 30),
        kernel: os.release().replace(/-.*/, ''),
        file_system: fileSystem(directory),
        syncs_per_second: syncsPerSecond(directory, smoke ? 0.5 : 3),
    };
}

// The number in what a program says of itself.
export function programVersion(command) {
    const said = execFileSync(command[0], command.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return said.match(/\d+\.\d+(\.\d+)?/)?.[0] ?? said.trim();
}
