// Numbers in words, and documents that figures are written into.
import { readFileSync, writeFileSync } from 'node:fs';

export const number = (value, digits = 0) =>
    value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

export function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = Math.floor(sorted.length / 2);
    return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Half the range, in percent of the median.
export const spread = (values) => Math.round(((Math.max(...values) - Math.min(...values)) / 2 / median(values)) * 100);

export const machineText = ({ cores, processor, memory_gib, kernel, file_system, syncs_per_second, date }) =>
    `Machine: ${cores} cores (${processor}), ${memory_gib} GiB, Linux ${kernel}, ${file_system}; its disk syncs 4 KiB ` +
    `${number(syncs_per_second)} times a second. Measured on ${date}.`;

// Puts a text between the two marks of that name.
export function writeBetween(path, name, text) {
    const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
    const document = readFileSync(path, 'utf8');
    const [from, to] = [document.indexOf(begin), document.indexOf(end)];
    if (from < 0 || to < from)
        throw new Error(`${path} has no marks ${begin} and ${end}`);
    writeFileSync(path, `${document.slice(0, from + begin.length)}\n${text}${document.slice(to)}`);
}
