// Queues: how much waits in them, since when, and whether work is given out.

import { useState } from 'preact/hooks';
import { may } from '../api/client';
import * as pawl from '../api/pawl';
import type { Queue } from '../api/types';
import { count, plural } from '../format';
import { anyEvent, useQuery } from '../live/query';
import { to } from '../route';
import { jobStates, jobStatuses } from '../states';
import { StateMark } from '../ui/badge';
import { StatusBar } from '../ui/bar';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { Empty, Loading, PageHead, Trouble } from '../ui/page';
import { Ago } from '../ui/time';
import { toast } from '../ui/toast';

function QueueCard({
    q,
    onPause,
    onResume,
}: {
    q: Queue;
    onPause: () => void;
    onResume: () => void;
}) {
    const shown = jobStatuses.filter((status) => (q.by_status[status] ?? 0) > 0);
    return (
        <li class={`card${q.paused ? ' paused' : ''}`}>
            <header>
                <h2>
                    <a data-row href={to.jobs({ queue: q.queue })}>
                        {q.queue}
                    </a>
                </h2>
                {q.paused && <span class="chip wait">Paused</span>}
                {!may('admin') ? null : q.paused ? (
                    <Button
                        small
                        icon="play"
                        label={`Resume ${q.queue}`}
                        title="Let workers claim its jobs again"
                        onClick={onResume}
                    >
                        Resume
                    </Button>
                ) : (
                    <Button
                        small
                        icon="pause"
                        label={`Pause ${q.queue}`}
                        title="Stop workers from claiming its jobs"
                        onClick={onPause}
                    >
                        Pause
                    </Button>
                )}
            </header>
            <div class="card-figures">
                <div>
                    <b>{count(q.depth)}</b>
                    <span>queued</span>
                </div>
                <div>
                    <b>{q.oldest_at ? <Ago at={q.oldest_at} /> : '–'}</b>
                    <span>oldest</span>
                </div>
                <div>
                    <b>{count(q.by_status.running ?? 0)}</b>
                    <span>running</span>
                </div>
            </div>
            <StatusBar by={q.by_status} />
            <ul class="card-states">
                {shown.map((status) => (
                    <li key={status}>
                        <a href={to.jobs({ queue: q.queue, status })}>
                            <StateMark look={jobStates[status]} />
                            {jobStates[status].label} <b>{count(q.by_status[status])}</b>
                        </a>
                    </li>
                ))}
            </ul>
        </li>
    );
}

export function QueuesPage() {
    const { data, error, loading, reload } = useQuery(pawl.queues, [], {
        stale: anyEvent,
        every_ms: 3000,
    });
    const [pausing, setPausing] = useState<Queue | null>(null);
    async function flip(queue: string, paused: boolean): Promise<void> {
        await pawl.switchQueue(queue, paused);
        toast(paused ? `Queue ${queue} paused` : `Queue ${queue} resumed`);
        reload();
    }
    const queues = [...(data?.queues ?? [])].sort(
        (a, b) => b.depth - a.depth || (a.queue < b.queue ? -1 : 1),
    );
    const paused = queues.filter((q) => q.paused).length;
    const depth = queues.reduce((sum, q) => sum + q.depth, 0);
    return (
        <>
            <PageHead
                title="Queues"
                says={
                    data
                        ? `${plural(depth, 'job')} queued in ${plural(queues.length, 'queue')}${paused ? `; ${paused} paused` : ''}.`
                        : ' '
                }
            />
            {error && !data ? (
                <Trouble error={error} retry={reload} />
            ) : loading ? (
                <Loading />
            ) : queues.length === 0 ? (
                <Empty icon="queues" title="No queues yet">
                    A queue is created with its first job.
                </Empty>
            ) : (
                <ul class="cards">
                    {queues.map((q) => (
                        <QueueCard
                            key={q.queue}
                            q={q}
                            onPause={() => setPausing(q)}
                            onResume={() =>
                                flip(q.queue, false).catch((e: Error) =>
                                    toast(e.message, { bad: true }),
                                )
                            }
                        />
                    ))}
                </ul>
            )}
            {pausing && (
                <ActionDialog
                    title={`Pause queue ${pausing.queue}?`}
                    action="Pause"
                    danger
                    run={() => flip(pausing.queue, true)}
                    onClose={() => setPausing(null)}
                >
                    <p>
                        No worker can claim its {plural(pausing.depth, 'queued job')} until the queue is resumed. Running jobs continue.
                    </p>
                </ActionDialog>
            )}
        </>
    );
}
