// Search, and filters beyond the state.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { useQuery } from '../live/query';
import { Button } from '../ui/button';
import { Icon } from '../ui/icon';
import type { Filters } from './jobs';

const TYPING_MS = 200;

const names: [name: string, label: string, placeholder: string][] = [
    ['kind', 'Kind', 'report'],
    ['queue', 'Queue', 'default'],
    ['agent_id', 'Agent', 'agent-7'],
    ['correlation_id', 'Correlation', 'order-17'],
    ['label', 'Label', 'team:blue'],
];

const ages: [value: string, label: string, ms: number][] = [
    ['', 'Any time', 0],
    ['1h', 'Last hour', 3_600_000],
    ['1d', 'Last day', 86_400_000],
    ['7d', 'Last week', 7 * 86_400_000],
];

/* A field that tells what was typed when the typing pauses. */
function Typed({
    id,
    label,
    value,
    placeholder,
    onChange,
    search,
    list,
}: {
    id: string;
    label: string;
    value: string;
    placeholder: string;
    onChange: (value: string) => void;
    search?: boolean;
    list?: string;
}) {
    const [text, setText] = useState(value);
    useEffect(() => setText(value), [value]);
    useEffect(() => {
        if (text === value) return;
        const timer = window.setTimeout(() => onChange(text), TYPING_MS);
        return () => window.clearTimeout(timer);
    }, [text, value]);
    return (
        <input
            id={id}
            type={search ? 'search' : 'text'}
            aria-label={label}
            placeholder={placeholder}
            value={text}
            list={list}
            data-search={search || undefined}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
                if (event.key === 'Enter') onChange(text);
            }}
        />
    );
}

function since(after: string | undefined): string {
    if (!after) return '';
    const age = Date.now() - Date.parse(after);
    return ages
        .slice(1)
        .reduce(
            (best, [name, , ms]) =>
                Math.abs(age - ms) < Math.abs(age - (ages.find(([n]) => n === best)?.[2] ?? 0))
                    ? name
                    : best,
            '1h',
        );
}

export function FilterBar({ filters, set }: { filters: Filters; set: (next: Filters) => void }) {
    // Fields tell what was typed a moment later: by then others may have told something too.
    const latest = useRef({ filters, set });
    latest.current = { filters, set };
    const change = (part: Filters) => latest.current.set({ ...latest.current.filters, ...part });
    const inUse = names.filter(([name]) => filters[name]).length + (filters.created_after ? 1 : 0);
    const [open, setOpen] = useState(inUse > 0);
    const { data: stats } = useQuery(pawl.stats, []);
    const { data: queues } = useQuery(pawl.queues, []);
    useEffect(() => {
        if (inUse > 0) setOpen(true);
    }, [inUse]);
    return (
        <div class="filters">
            <div class="search">
                <Icon name="search" />
                <Typed
                    id="search"
                    search
                    label="Search jobs"
                    placeholder="Search: id, kind, key, goal…"
                    value={filters.search ?? ''}
                    onChange={(text) => change({ search: text || undefined })}
                />
                <kbd>/</kbd>
            </div>
            <Button expanded={open} onClick={() => setOpen(!open)}>
                Filters{inUse > 0 ? ` · ${inUse}` : ''}
            </Button>
            {open && (
                <div class="filter-fields">
                    {names.map(([name, label, placeholder]) => (
                        <label key={name}>
                            <span>{label}</span>
                            <Typed
                                id={`filter-${name}`}
                                label={label}
                                placeholder={placeholder}
                                value={filters[name] ?? ''}
                                list={`known-${name}`}
                                onChange={(value) => change({ [name]: value || undefined })}
                            />
                        </label>
                    ))}
                    <label>
                        <span>Submitted</span>
                        <select
                            aria-label="Submitted"
                            value={since(filters.created_after)}
                            onInput={(event) => {
                                const ms =
                                    ages.find(
                                        ([name]) => name === event.currentTarget.value,
                                    )?.[2] ?? 0;
                                change({
                                    created_after: ms
                                        ? new Date(Date.now() - ms).toISOString()
                                        : undefined,
                                });
                            }}
                        >
                            {ages.map(([value, label]) => (
                                <option key={value} value={value}>
                                    {label}
                                </option>
                            ))}
                        </select>
                    </label>
                    {inUse > 0 && (
                        <Button
                            kind="quiet"
                            onClick={() =>
                                set({
                                    status: filters.status,
                                    search: filters.search,
                                    sort: filters.sort,
                                })
                            }
                        >
                            Clear
                        </Button>
                    )}
                    <datalist id="known-kind">
                        {stats?.kinds?.map((k) => (
                            <option key={k.kind} value={k.kind} />
                        ))}
                    </datalist>
                    <datalist id="known-queue">
                        {queues?.queues.map((q) => (
                            <option key={q.queue} value={q.queue} />
                        ))}
                    </datalist>
                </div>
            )}
        </div>
    );
}
