// All jobs: filters, search, and what can be done to many at once.

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Job, JobPage, JobStatus, PawlEvent } from '../api/types';
import { brief, count, short, shortId } from '../format';
import { useJobList } from '../live/job-list';
import { anyEvent, useQuery } from '../live/query';
import { go, replace, to } from '../route';
import { jobStates, jobStatuses } from '../states';
import { JobBadge, StateMark } from '../ui/badge';
import { Button } from '../ui/button';
import { Icon } from '../ui/icon';
import { Menu } from '../ui/menu';
import { narrow } from '../ui/narrow';
import { Empty, Loading, PageHead, Trouble } from '../ui/page';
import { Ago } from '../ui/time';
import { VirtualTable } from '../ui/virtual';
import { type BulkAction, BulkDialog } from './bulk';
import { FilterBar } from './jobs-filter';
import { openSubmit } from './submit';

const PAGE = 100;
const ROW = 44;
const ROW_NARROW = 68;
const READING_PX = 300;
const SEARCHES_MAX = 20;
const TEXT_FILTERS = [
    'kind',
    'queue',
    'agent_id',
    'correlation_id',
    'label',
    'created_after',
    'search',
] as const;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export type Filters = Record<string, string | undefined>;

function filtersOf(query: URLSearchParams): Filters {
    const filters: Filters = {
        status: query.get('status') ?? undefined,
        sort: query.get('sort') ?? undefined,
    };
    for (const name of TEXT_FILTERS) filters[name] = query.get(name) ?? undefined;
    return filters;
}

/* States that few jobs are ever seen in. */
const rare: ReadonlySet<JobStatus> = new Set(['leased', 'parked']);

function StatusTabs({ filters, set }: { filters: Filters; set: (next: Filters) => void }) {
    const { data } = useQuery(pawl.stats, [], { stale: anyEvent, every_ms: 10_000 });
    const chosen = new Set((filters.status ?? '').split(',').filter(Boolean));
    function toggle(status: JobStatus): void {
        const next = new Set(chosen);
        if (!next.delete(status)) next.add(status);
        set({ ...filters, status: jobStatuses.filter((s) => next.has(s)).join(',') || undefined });
    }
    return (
        <div class="status-tabs" role="group" aria-label="States">
            <button
                type="button"
                aria-pressed={chosen.size === 0}
                onClick={() => set({ ...filters, status: undefined })}
            >
                All
            </button>
            {jobStatuses
                .filter(
                    (status) =>
                        !rare.has(status) || chosen.has(status) || (data?.jobs[status] ?? 0) > 0,
                )
                .map((status) => (
                    <button
                        key={status}
                        type="button"
                        aria-pressed={chosen.has(status)}
                        title={jobStates[status].means}
                        onClick={() => toggle(status)}
                    >
                        <StateMark look={jobStates[status]} />
                        {jobStates[status].label}
                        {data && <span class="n">{short(data.jobs[status] ?? 0)}</span>}
                    </button>
                ))}
        </div>
    );
}

/* A search may look at many jobs and find none of them: go on then, for a while. */
async function page(filter: Filters, cursor: string | null): Promise<JobPage> {
    let at = cursor;
    for (let i = 0; ; i++) {
        const found = await pawl.listJobs(filter, { limit: PAGE, cursor: at });
        if (found.jobs.length > 0 || !found.next_cursor || i >= SEARCHES_MAX) return found;
        at = found.next_cursor;
    }
}

/* Whether an event brings a job that the list would show; what it does not tell is taken for granted. */
function arrives(event: PawlEvent, filter: Filters): boolean {
    if (event.type !== 'job_created') return false;
    const is = (name: string) => !filter[name] || event.payload?.[name] === filter[name];
    return is('kind') && is('queue') && (!filter.status || filter.status.includes('queued'));
}

const orders: Record<string, (job: Job) => string | number> = {
    priority: (job) => job.priority,
    attempt: (job) => job.attempt,
    created: (job) => job.created_at,
    updated: (job) => job.updated_at,
};

/* The server lists the newest first; another order is one of what is loaded. */
function sorted(jobs: Job[], sort: string | undefined): Job[] {
    const by = orders[sort?.replace(/^-/, '') ?? ''];
    if (!by) return jobs;
    const down = sort!.startsWith('-') ? -1 : 1;
    return [...jobs].sort((a, b) => (by(a) < by(b) ? -down : by(a) > by(b) ? down : 0));
}

interface RowProps {
    job: Job;
    selected: boolean;
    onSelect: (id: string) => void;
}

function note(job: Job): string {
    if (job.damaged) return job.damaged;
    if (job.status === 'waiting' || job.status === 'parked')
        return job.wait?.prompt ?? job.wait?.correlation_key ?? '';
    if (job.error && job.status !== 'completed') return brief(job.error.message ?? '');
    return job.goal ?? '';
}

function SelectCell({ job, selected, onSelect }: RowProps) {
    return (
        <td class="select" onClick={(event) => event.stopPropagation()}>
            <input
                type="checkbox"
                checked={selected}
                aria-label={`Select ${job.id}`}
                onInput={() => onSelect(job.id)}
            />
        </td>
    );
}

/* A click anywhere in a row opens it; links and fields know themselves what to do. */
function openRow(event: MouseEvent, job: Job): void {
    if (!(event.target as HTMLElement).closest('a, button, input')) go(to.job(job.id));
}

function WideRow({ job, selected, onSelect }: RowProps) {
    return (
        <tr class={selected ? 'selected' : undefined} onClick={(event) => openRow(event, job)}>
            <SelectCell job={job} selected={selected} onSelect={onSelect} />
            <td>
                <JobBadge status={job.status} />
            </td>
            <td class="main-cell">
                <a data-row data-id={job.id} class="strong" href={to.job(job.id)}>
                    {job.kind ?? 'damaged'}
                </a>
                {job.plan && <span class="chip">Plan</span>}
                {Object.entries(job.labels ?? {})
                    .slice(0, 2)
                    .map(([k, v]) => (
                        <span key={k} class="chip">
                            {brief(`${k}:${v}`, 24)}
                        </span>
                    ))}
                <span class="faint note">{note(job)}</span>
            </td>
            <td class="mono faint">{shortId(job.id)}</td>
            <td class="cut">{job.queue}</td>
            <td class="num">{job.attempt || <span class="faint">–</span>}</td>
            <td class="num">{job.priority || <span class="faint">–</span>}</td>
            <td class="num faint">
                <Ago at={job.created_at} />
            </td>
            <td class="num faint">
                <Ago at={job.updated_at} />
            </td>
        </tr>
    );
}

function NarrowRow({ job, selected, onSelect }: RowProps) {
    return (
        <tr class={selected ? 'selected' : undefined} onClick={(event) => openRow(event, job)}>
            <SelectCell job={job} selected={selected} onSelect={onSelect} />
            <td class="card-cell">
                <div>
                    <a data-row data-id={job.id} class="strong" href={to.job(job.id)}>
                        {job.kind ?? 'damaged'}
                    </a>
                    <JobBadge status={job.status} />
                </div>
                <div class="faint">
                    <span class="mono">{shortId(job.id)}</span>
                    <span class="cut">{note(job) || job.queue}</span>
                    <Ago at={job.updated_at} />
                </div>
            </td>
        </tr>
    );
}

const sortable: Record<string, string> = {
    Attempt: 'attempt',
    Priority: 'priority',
    Created: 'created',
    Updated: 'updated',
};

function Head({
    filters,
    set,
    all,
    onAll,
}: {
    filters: Filters;
    set: (next: Filters) => void;
    all: boolean;
    onAll: () => void;
}) {
    const check = (
        <th class="select">
            <input
                type="checkbox"
                checked={all}
                aria-label="Select all loaded"
                onInput={onAll}
            />
        </th>
    );
    if (narrow.value)
        return (
            <tr>
                {check}
                <th>Jobs</th>
            </tr>
        );
    const sort = filters.sort ?? '-created';
    const column = (label: string, cls = '') => {
        const name = sortable[label];
        if (!name) return <th class={cls}>{label}</th>;
        const on = sort === name || sort === `-${name}`;
        const up = sort === name;
        return (
            <th class={cls} aria-sort={on ? (up ? 'ascending' : 'descending') : undefined}>
                <button
                    type="button"
                    class={`sort${on ? ' on' : ''}`}
                    onClick={() =>
                        set({
                            ...filters,
                            sort:
                                sort === `-${name}`
                                    ? name
                                    : name === 'created'
                                      ? undefined
                                      : `-${name}`,
                        })
                    }
                >
                    {label}
                    {on && <Icon name={up ? 'up' : 'arrowDown'} size={12} />}
                </button>
            </th>
        );
    };
    return (
        <tr>
            {check}
            {column('State')}
            {column('Kind', 'main-cell')}
            {column('Id')}
            {column('Queue')}
            {column('Attempt', 'num')}
            {column('Priority', 'num')}
            {column('Created', 'num')}
            {column('Updated', 'num')}
        </tr>
    );
}

function NoJobs({ filtered, clear }: { filtered: boolean; clear: () => void }) {
    if (filtered)
        return (
            <Empty icon="search" title="No matching jobs">
                <p>
                    New matches appear here automatically.
                </p>
                <Button onClick={clear}>Clear filters</Button>
            </Empty>
        );
    return (
        <Empty icon="jobs" title="No jobs yet">
            <p>Submit one here, or from a shell:</p>
            <pre class="command">pawl submit hello --payload '{'{"name": "Ada"}'}'</pre>
            <Button kind="primary" icon="plus" onClick={() => openSubmit()}>
                Submit a job
            </Button>
        </Empty>
    );
}

export function JobsPage({ query }: { query: URLSearchParams }) {
    const filters = filtersOf(query);
    const key = JSON.stringify(filters);
    const reading = useRef(0);
    const [toTop, setToTop] = useState(0);
    const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
    const [acting, setActing] = useState<{ action: BulkAction; ids: string[] | null } | null>(null);
    const { sort, ...filter } = filters;
    // A row that is as it was is not drawn again: scrolling stays light.
    const rows = useRef(
        new Map<string, { job: Job; on: boolean; Row: typeof WideRow; node: VNode }>(),
    );

    const list = useJobList(
        (cursor) => page(filter, cursor),
        [JSON.stringify(filter)],
        () => reading.current > READING_PX,
        (event) => arrives(event, filter),
    );
    const jobs = useMemo(() => sorted(list.jobs, sort), [list.jobs, sort]);
    useEffect(() => {
        setSelected(new Set());
        rows.current.clear();
        reading.current = 0;
    }, [key]);

    function set(next: Filters): void {
        const q = next.search?.trim();
        if (q && uuid.test(q)) go(to.job(q.toLowerCase()));
        else replace(to.jobs(next));
    }
    function select(id: string): void {
        const next = new Set(selected);
        if (!next.delete(id)) next.add(id);
        setSelected(next);
    }
    function onKeyDown(event: KeyboardEvent): void {
        const id = (event.target as HTMLElement).dataset.id;
        if (event.key !== 'x' || !id) return;
        event.preventDefault();
        select(id);
    }

    const filtered = Object.entries(filters).some(([name, value]) => value && name !== 'sort');
    const allSelected = jobs.length > 0 && jobs.every((job) => selected.has(job.id));
    const ids = [...selected];
    const Row = narrow.value ? NarrowRow : WideRow;

    const latest = useRef(select);
    latest.current = select;
    function drawn(job: Job, on: boolean): VNode {
        const known = rows.current.get(job.id);
        if (known && known.job === job && known.on === on && known.Row === Row) return known.node;
        const node = (
            <Row key={job.id} job={job} selected={on} onSelect={(id) => latest.current(id)} />
        );
        rows.current.set(job.id, { job, on, Row, node });
        return node;
    }
    return (
        <div class="fill" onKeyDown={onKeyDown}>
            <PageHead title="Jobs">
                <Menu
                    label="Bulk actions"
                    items={[
                        {
                            label: 'Cancel…',
                            icon: 'stop',
                            danger: true,
                            not: filters.search ? 'Not available for a search' : undefined,
                            run: () => setActing({ action: 'cancel', ids: null }),
                        },
                        {
                            label: 'Requeue…',
                            icon: 'loop',
                            not: filters.search ? 'Not available for a search' : undefined,
                            run: () => setActing({ action: 'requeue', ids: null }),
                        },
                    ]}
                />
            </PageHead>
            <StatusTabs filters={filters} set={set} />
            <FilterBar filters={filters} set={set} />
            {list.error && !list.loaded ? (
                <Trouble error={list.error} retry={list.refresh} />
            ) : !list.loaded ? (
                <Loading rows={12} />
            ) : jobs.length === 0 ? (
                <NoJobs filtered={filtered} clear={() => set({})} />
            ) : (
                <div class="list-panel">
                    {selected.size > 0 && (
                        <div class="selection" role="status">
                            <b>{count(selected.size)} selected</b>
                            <Button
                                small
                                icon="loop"
                                onClick={() => setActing({ action: 'requeue', ids })}
                            >
                                Requeue
                            </Button>
                            <Button
                                small
                                icon="stop"
                                kind="danger"
                                onClick={() => setActing({ action: 'cancel', ids })}
                            >
                                Cancel
                            </Button>
                            <Button small kind="quiet" onClick={() => setSelected(new Set())}>
                                Clear
                            </Button>
                        </div>
                    )}
                    {list.unseen > 0 && (
                        <button
                            type="button"
                            class="unseen"
                            onClick={() => {
                                reading.current = 0;
                                setToTop(toTop + 1);
                                list.refresh();
                            }}
                        >
                            {count(list.unseen)} new
                        </button>
                    )}
                    <VirtualTable
                        label="Jobs"
                        count={jobs.length}
                        rowHeight={narrow.value ? ROW_NARROW : ROW}
                        columns={narrow.value ? 2 : 9}
                        head={
                            <Head
                                filters={filters}
                                set={set}
                                all={allSelected}
                                onAll={() =>
                                    setSelected(
                                        new Set(allSelected ? [] : jobs.map((job) => job.id)),
                                    )
                                }
                            />
                        }
                        render={(i) => {
                            const job = jobs[i]!;
                            return drawn(job, selected.has(job.id));
                        }}
                        onEnd={list.more}
                        onScroll={(top) => {
                            const back = reading.current > READING_PX && top <= READING_PX;
                            reading.current = top;
                            if (back) list.refresh();
                        }}
                        toTop={toTop}
                    />
                    <footer class="list-foot">
                        {count(jobs.length)} loaded
                        {list.cursor
                            ? sort
                                ? '; only these are sorted, scroll for more'
                                : '; scroll for more'
                            : ', end of list'}
                    </footer>
                </div>
            )}
            {acting && (
                <BulkDialog
                    action={acting.action}
                    ids={acting.ids}
                    filters={filter}
                    onClose={() => {
                        setActing(null);
                        setSelected(new Set());
                        list.refresh();
                    }}
                />
            )}
        </div>
    );
}
