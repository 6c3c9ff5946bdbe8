// The whole system at a glance.

import { useEffect, useMemo } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Job, KindTiming, Queue, Resource, Stats, Worker } from '../api/types';
import { brief, count, duration, percent, plural, short } from '../format';
import { anyEvent, useQuery } from '../live/query';
import { backfill, lastBeats, percentile, pulse } from '../live/pulse';
import { to } from '../route';
import { jobStates, jobStatuses } from '../states';
import { StateMark } from '../ui/badge';
import { Meter, StatusBar } from '../ui/bar';
import { Button } from '../ui/button';
import { Chart, type Line } from '../ui/chart';
import { Empty, Loading, PageHead, Panel, Trouble } from '../ui/page';
import { Ago, now } from '../ui/time';
import { Activity } from './activity';
import { openSubmit } from './submit';

const SHOWN_S = 120;
const TROUBLED_MAX = 200;
const perSecond = (n: number): string =>
    n >= 10 || Number.isInteger(n) ? short(Math.round(n)) : n.toFixed(1);

const flow: Line[] = [
    { label: 'Completed', token: '--good-fill', fill: true, format: perSecond },
    { label: 'Submitted', token: '--run-fill', format: perSecond },
    { label: 'Failed', token: '--bad-fill', format: perSecond },
];
const times: Line[] = [
    {
        label: 'Run time, p95',
        token: '--run-fill',
        fill: true,
        least: 100,
        format: (ms) => duration(ms),
    },
    { label: 'Queue latency, p95', token: '--wait-fill', format: (ms) => duration(ms) },
];

function firstWords(stats: Stats, questions: number): string {
    const { jobs } = stats;
    const total = jobStatuses.reduce((sum, status) => sum + (jobs[status] ?? 0), 0);
    if (total === 0) return 'No jobs submitted yet.';
    const busy = jobs.running + jobs.leased;
    const parts = [
        busy > 0 ? `${count(busy)} running` : 'none running',
        `${count(stats.queue_depth)} queued`,
    ];
    if (jobs.retrying > 0) parts.push(`${count(jobs.retrying)} retrying`);
    const needs: string[] = [];
    if (questions > 0) needs.push(plural(questions, 'question'));
    if (jobs.dead_lettered > 0) needs.push(plural(jobs.dead_lettered, 'dead letter'));
    const start = parts.join(', ');
    return `${start.charAt(0).toUpperCase()}${start.slice(1)}. ${needs.length ? `Needs attention: ${needs.join(' and ')}.` : 'Nothing needs attention.'}`;
}

function Figure({
    label,
    value,
    note,
    href,
    tone,
}: {
    label: string;
    value: string;
    note?: string;
    href?: string;
    tone?: string;
}) {
    const body = (
        <>
            <span class="figure-label">{label}</span>
            <span class={`figure-value${tone ? ` tone-${tone}` : ''}`}>{value}</span>
            <span class="figure-note">{note ?? ' '}</span>
        </>
    );
    return href ? (
        <a class="figure" href={href}>
            {body}
        </a>
    ) : (
        <div class="figure">{body}</div>
    );
}

/* All of it as the server has it: the same on a page that was open all the while and on one that was
   opened just now. */
function Figures({ stats }: { stats: Stats }) {
    const { recent } = stats;
    const { completed_per_min: completed, failed_per_min: failed } = recent;
    const said = (ms?: number) => (ms === undefined ? '–' : duration(ms));
    const half = (ms?: number) =>
        ms === undefined ? 'none in the last minute' : `p95; p50 ${duration(ms)}`;
    const oldest = stats.oldest_queued_at
        ? Math.max(0, now.value - Date.parse(stats.oldest_queued_at))
        : null;
    const ended = completed + failed;
    return (
        <div class="figures">
            <Figure
                label="Completed/min"
                value={short(completed)}
                note={ended ? `${percent(completed / ended)} succeeded` : 'none in the last minute'}
            />
            <Figure
                label="Failed/min"
                value={short(failed)}
                tone={failed ? 'bad' : undefined}
                note="jobs, last minute"
            />
            <Figure
                label="Queue latency"
                value={said(recent.wait_p95_ms)}
                note={half(recent.wait_p50_ms)}
            />
            <Figure
                label="Run time"
                value={said(recent.run_p95_ms)}
                note={half(recent.run_p50_ms)}
            />
            <Figure
                label="Queued"
                value={short(stats.queue_depth)}
                note={
                    oldest === null
                        ? 'no jobs queued'
                        : `oldest: ${duration(oldest)}`
                }
                href={to.jobs({ status: 'queued' })}
            />
            <Figure
                label="Workers"
                value={short(stats.workers ?? 0)}
                note={plural(stats.leases ?? 0, 'lease')}
                href={to.resources()}
            />
        </div>
    );
}

function Charts() {
    const beat = pulse.value;
    const data = useMemo(() => {
        const beats = lastBeats(SHOWN_S);
        const seconds = beats.map((b) => b.at_s);
        const p95 = (list: number[]) =>
            percentile(
                [...list].sort((a, b) => a - b),
                0.95,
            );
        return {
            flow: [
                seconds,
                beats.map((b) => b.completed),
                beats.map((b) => b.submitted),
                beats.map((b) => b.failed),
            ],
            times: [seconds, beats.map((b) => p95(b.run_ms)), beats.map((b) => p95(b.wait_ms))],
        };
    }, [beat]);
    return (
        <div class="two">
            <Panel title="Throughput" aside="jobs per second">
                <Chart
                    label="Jobs per second over the last two minutes"
                    lines={flow}
                    data={data.flow}
                />
            </Panel>
            <Panel title="Latency" aside="of finished attempts">
                <Chart label="Latency over the last two minutes" lines={times} data={data.times} />
            </Panel>
        </div>
    );
}

function States({ stats }: { stats: Stats }) {
    return (
        <Panel title="States">
            <StatusBar by={stats.jobs} />
            <ul class="state-list">
                {jobStatuses.map((status) => (
                    <li key={status}>
                        <a href={to.jobs({ status })} title={jobStates[status].means}>
                            <StateMark look={jobStates[status]} />
                            <span>{jobStates[status].label}</span>
                            <b>{count(stats.jobs[status] ?? 0)}</b>
                        </a>
                    </li>
                ))}
            </ul>
        </Panel>
    );
}

interface FailingKind {
    kind: string;
    jobs: number;
    last: Job;
}

function failingKinds(jobs: Job[]): FailingKind[] {
    const kinds = new Map<string, FailingKind>();
    for (const job of jobs) {
        const known = kinds.get(job.kind);
        if (!known) kinds.set(job.kind, { kind: job.kind, jobs: 1, last: job });
        else {
            known.jobs++;
            if (job.updated_at > known.last.updated_at) known.last = job;
        }
    }
    return [...kinds.values()].sort((a, b) => b.jobs - a.jobs).slice(0, 6);
}

const troubled = 'failed,dead_lettered,retrying';

function Failing({ jobs }: { jobs: Job[] }) {
    const kinds = failingKinds(jobs.filter((job) => !job.damaged));
    return (
        <Panel
            title="Failing kinds"
            aside={
                jobs.length >= TROUBLED_MAX ? `of the last ${TROUBLED_MAX} failing jobs` : undefined
            }
            flush
        >
            {kinds.length === 0 ? (
                <Empty icon="check" title="No failing jobs">
                    No job is failed, retrying or dead-lettered.
                </Empty>
            ) : (
                <table class="table">
                    <thead>
                        <tr>
                            <th>Kind</th>
                            <th class="num">Jobs</th>
                            <th>Last error</th>
                            <th class="num">When</th>
                        </tr>
                    </thead>
                    <tbody>
                        {kinds.map(({ kind, jobs: n, last }) => (
                            <tr key={kind}>
                                <td>
                                    <a class="strong" href={to.jobs({ kind, status: troubled })}>
                                        {kind}
                                    </a>
                                </td>
                                <td class="num">{count(n)}</td>
                                <td class="cut">
                                    <a href={to.job(last.id)}>
                                        {brief(
                                            last.error?.message ??
                                                last.dead_letter?.reason_code ??
                                                'no message',
                                        )}
                                    </a>
                                </td>
                                <td class="num faint">
                                    <Ago at={last.updated_at} />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
        </Panel>
    );
}

function QueueTable({ queues }: { queues: Queue[] }) {
    const sorted = [...queues].sort((a, b) => b.depth - a.depth).slice(0, 6);
    return (
        <Panel title="Queues" aside={<a href={to.queues()}>All queues</a>} flush>
            {sorted.length === 0 ? (
                <Empty icon="queues" title="No queues yet">
                    A queue is created with its first job.
                </Empty>
            ) : (
                <table class="table">
                    <thead>
                        <tr>
                            <th>Queue</th>
                            <th>States</th>
                            <th class="num">Queued</th>
                            <th class="num">Oldest</th>
                        </tr>
                    </thead>
                    <tbody>
                        {sorted.map((q) => (
                            <tr key={q.queue}>
                                <td>
                                    <a class="strong" href={to.jobs({ queue: q.queue })}>
                                        {q.queue}
                                    </a>
                                    {q.paused && <span class="chip wait">Paused</span>}
                                </td>
                                <td class="bar-cell">
                                    <StatusBar by={q.by_status} />
                                </td>
                                <td class="num">{count(q.depth)}</td>
                                <td class="num faint">
                                    <Ago at={q.oldest_at} />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
        </Panel>
    );
}

function Kinds({ kinds }: { kinds: KindTiming[] }) {
    const shown = [...kinds].sort((a, b) => b.count - a.count).slice(0, 6);
    const said = (t?: { p50: number; p95: number }) =>
        t ? `${duration(t.p50)} / ${duration(t.p95)}` : '–';
    return (
        <Panel title="Latency by kind" aside="p50 / p95 of recent completions" flush>
            <table class="table">
                <thead>
                    <tr>
                        <th>Kind</th>
                        <th class="num">Jobs</th>
                        <th class="num">Queue latency</th>
                        <th class="num">Run time</th>
                    </tr>
                </thead>
                <tbody>
                    {shown.map((k) => (
                        <tr key={k.kind}>
                            <td>
                                <a class="strong" href={to.jobs({ kind: k.kind })}>
                                    {k.kind}
                                </a>
                            </td>
                            <td class="num">{count(k.count)}</td>
                            <td class="num">{said(k.wait_ms)}</td>
                            <td class="num">{said(k.run_ms)}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </Panel>
    );
}

function WorkersAndResources({ workers, resources }: { workers: Worker[]; resources: Resource[] }) {
    const slots = resources.reduce((sum, r) => sum + r.slots, 0);
    const used = resources.reduce((sum, r) => sum + r.used, 0);
    return (
        <Panel title="Workers and resources" aside={<a href={to.resources()}>All resources</a>} flush>
            {workers.length + resources.length === 0 ? (
                <Empty icon="resources" title="No workers">
                    Start a worker: <code>pawl work --kind KIND -- COMMAND</code>
                </Empty>
            ) : (
                <table class="table">
                    <tbody>
                        {resources.length > 0 && (
                            <tr>
                                <td class="strong">{plural(resources.length, 'resource')}</td>
                                <td class="bar-cell">
                                    <Meter
                                        used={used}
                                        of={slots}
                                        label={`${used} of ${slots} slots in use`}
                                    />
                                </td>
                                <td class="num">
                                    {used} / {slots} slots
                                </td>
                            </tr>
                        )}
                        {workers.slice(0, 6).map((w) => (
                            <tr key={w.worker_id}>
                                <td class="mono cut">{w.worker_id}</td>
                                <td class="num">{w.leases > 0 ? plural(w.leases, 'lease') : 'idle'}</td>
                                <td class="num faint">
                                    <Ago at={w.last_beat_at} />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
        </Panel>
    );
}

function Welcome() {
    return (
        <Panel>
            <Empty icon="jobs" title="Submit your first job">
                <p>Jobs and everything that happens to them appear here.</p>
                <pre class="command">pawl submit hello --payload '{'{"name": "Ada"}'}'</pre>
                <Button kind="primary" icon="plus" onClick={() => openSubmit()}>
                    Submit a job
                </Button>
            </Empty>
        </Panel>
    );
}

async function load() {
    const [stats, queues, workers, resources, questions, failing] = await Promise.all([
        pawl.stats(),
        pawl.queues(),
        pawl.workers(),
        pawl.resources(),
        pawl.inbox(),
        pawl.listJobs({ status: troubled }, { limit: TROUBLED_MAX }),
    ]);
    return {
        stats,
        queues: queues.queues,
        workers: workers.workers,
        resources: resources.resources,
        questions: questions.questions.length,
        failing: failing.jobs,
    };
}

const opened_ms = Date.now();
const NEWEST_MAX = 500;

export function OverviewPage() {
    useEffect(() => {
        pawl.listJobs({}, { limit: NEWEST_MAX }).then(
            ({ jobs }) => backfill(jobs, opened_ms),
            () => {},
        );
    }, []);
    const { data, error, reload } = useQuery(load, [], { stale: anyEvent, every_ms: 5000 });
    if (error && !data) return <Trouble error={error} retry={reload} />;
    const empty = data && jobStatuses.every((status) => !data.stats.jobs[status]);
    return (
        <>
            <PageHead title="Overview" says={data ? firstWords(data.stats, data.questions) : ' '} />
            {!data ? (
                <Loading rows={10} />
            ) : empty ? (
                <Welcome />
            ) : (
                <div class="overview">
                    <Figures stats={data.stats} />
                    <Charts />
                    <div class="two">
                        <div class="stack">
                            <States stats={data.stats} />
                            <Failing jobs={data.failing} />
                            {data.stats.kinds && data.stats.kinds.length > 0 && (
                                <Kinds kinds={data.stats.kinds} />
                            )}
                        </div>
                        <div class="stack">
                            <QueueTable queues={data.queues} />
                            <WorkersAndResources
                                workers={data.workers}
                                resources={data.resources}
                            />
                            <Activity />
                        </div>
                    </div>
                </div>
            )}
        </>
    );
}
