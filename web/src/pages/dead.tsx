// Dead letters: grouped by why and what, looked at, and sent on their way again or dropped.

import { useEffect, useState } from 'preact/hooks';
import { may } from '../api/client';
import * as pawl from '../api/pawl';
import type { DeadFilter } from '../api/pawl';
import type { DeadGroup, Job, JobPage } from '../api/types';
import { brief, count, plural, shortId } from '../format';
import { useJobList } from '../live/job-list';
import { useQuery } from '../live/query';
import { replace, to } from '../route';
import { Button } from '../ui/button';
import { JsonView } from '../ui/json';
import { narrow } from '../ui/narrow';
import { Empty, Loading, PageHead, Panel, Trouble } from '../ui/page';
import { Ago } from '../ui/time';
import { VirtualTable } from '../ui/virtual';
import { type DeadAction, DeadDialog, errorWords, reasonWords } from './dead-dialog';

const PAGE = 100;
const ROW = 44;
const ROW_NARROW = 68;

/* All three: the server finds the group by its id, and faster with the others. */
const groupAddress = ({ kind, reason_code, group }: DeadGroup): string =>
    to.dead({ kind, reason_code, group });

/* A page of a group may be empty while there is more to look at: it goes on until something comes. */
async function letters(filter: DeadFilter, cursor: string | null): Promise<JobPage> {
    let page = await pawl.deadLetters(filter, { limit: PAGE, cursor });
    while (page.jobs.length === 0 && page.next_cursor)
        page = await pawl.deadLetters(filter, { limit: PAGE, cursor: page.next_cursor });
    return page;
}

function Groups({ at, groups, total }: { at: DeadFilter; groups: DeadGroup[]; total: number }) {
    const all = !at.kind && !at.reason_code && !at.group;
    return (
        <nav class="groups" aria-label="Groups of dead letters">
            <a href={to.dead()} aria-current={all ? 'true' : undefined}>
                <span class="group-name">All dead letters</span>
                <b>{count(total)}</b>
            </a>
            {groups.map((g) => (
                <a
                    key={g.group}
                    data-row
                    href={groupAddress(g)}
                    aria-current={at.group === g.group ? 'true' : undefined}
                >
                    <span class="group-name">
                        <span class="strong">{g.kind}</span>
                        <span class="group-why">{reasonWords(g.reason_code)}</span>
                        <span class="faint cut" title={errorWords(g)}>
                            {errorWords(g)}
                        </span>
                    </span>
                    <b>{count(g.count)}</b>
                </a>
            ))}
        </nav>
    );
}

function Preview({
    id,
    onAct,
}: {
    id: string;
    onAct: (action: DeadAction, ids: string[]) => void;
}) {
    const { data: job, error } = useQuery(() => pawl.getJob(id), [id]);
    if (error) return <Trouble error={error} />;
    if (!job) return <Loading rows={4} />;
    return (
        <Panel
            title={job.kind}
            aside={
                may('admin') && (
                    <>
                        <Button small icon="loop" onClick={() => onAct('redrive', [id])}>
                            Redrive
                        </Button>
                        <Button small kind="danger" onClick={() => onAct('drop', [id])}>
                            Drop
                        </Button>
                    </>
                )
            }
        >
            <p class="error-message">
                {job.dead_letter?.last_error?.message ?? job.error?.message ?? 'no message'}
            </p>
            <dl class="facts">
                <div>
                    <dt>Reason</dt>
                    <dd>{reasonWords(job.dead_letter?.reason_code ?? '')}</dd>
                </div>
                <div>
                    <dt>Attempts</dt>
                    <dd>{job.dead_letter?.attempts ?? job.attempt}</dd>
                </div>
                <div>
                    <dt>Last worker</dt>
                    <dd class="mono">{job.dead_letter?.last_owner ?? '–'}</dd>
                </div>
                <div>
                    <dt>Since</dt>
                    <dd>
                        <Ago at={job.dead_letter?.at} />
                    </dd>
                </div>
            </dl>
            <h3>Payload</h3>
            <JsonView value={job.payload} label="the payload" />
            <p class="preview-more">
                <a href={to.job(id)}>Open the job and its history</a>
            </p>
        </Panel>
    );
}

interface RowProps {
    job: Job;
    selected: boolean;
    shown: boolean;
    onSelect: () => void;
    onShow: () => void;
}

function Row({ job, selected, shown, onSelect, onShow }: RowProps) {
    const check = (
        <td class="select" onClick={(event) => event.stopPropagation()}>
            <input
                type="checkbox"
                checked={selected}
                aria-label={`Select ${job.id}`}
                onInput={onSelect}
            />
        </td>
    );
    const message = brief(
        job.dead_letter?.last_error?.message ?? job.error?.message ?? 'no message',
    );
    const cls = `${selected ? 'selected' : ''}${shown ? ' shown' : ''}`;
    if (narrow.value)
        return (
            <tr class={cls} onClick={onShow}>
                {check}
                <td class="card-cell">
                    <div>
                        <button type="button" data-row class="link strong" aria-pressed={shown}>
                            {job.kind}
                        </button>
                        <span class="faint">
                            <Ago at={job.dead_letter?.at} />
                        </span>
                    </div>
                    <div class="faint">
                        <span class="cut">{message}</span>
                    </div>
                </td>
            </tr>
        );
    return (
        <tr class={cls} onClick={onShow}>
            {check}
            <td class="main-cell">
                <button type="button" data-row class="link strong" aria-pressed={shown}>
                    {job.kind}
                </button>
                <span class="faint note">{message}</span>
            </td>
            <td class="mono faint">{shortId(job.id)}</td>
            <td class="num">{job.dead_letter?.attempts ?? job.attempt}</td>
            <td class="num faint">
                <Ago at={job.dead_letter?.at} />
            </td>
        </tr>
    );
}

export function DeadPage({ query }: { query: URLSearchParams }) {
    const at: DeadFilter = {
        kind: query.get('kind') ?? undefined,
        reason_code: query.get('reason_code') ?? undefined,
        group: query.get('group') ?? undefined,
    };
    const filtered = Object.values(at).some(Boolean);
    const which = at.group ? 'the group' : filtered ? 'these' : 'all';
    const key = JSON.stringify(at);
    const groups = useQuery(pawl.deadGroups, [], {
        stale: (event) => /dead_letter|requeued/.test(event.type),
        every_ms: 10_000,
        quiet_ms: 2000,
    });
    const list = useJobList(
        (cursor) => letters(at, cursor),
        [key],
        () => false,
    );
    const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
    const [shown, setShown] = useState<string | null>(null);
    const [acting, setActing] = useState<{ action: DeadAction; ids: string[] | null } | null>(null);
    useEffect(() => {
        setSelected(new Set());
        setShown(null);
    }, [key]);

    // What was redriven by somebody else is no dead letter any more.
    const jobs = list.jobs.filter((job) => job.damaged || job.status === 'dead_lettered');
    const total = groups.data?.groups.reduce((sum, g) => sum + g.count, 0) ?? jobs.length;
    const preview = shown && jobs.some((job) => job.id === shown) ? shown : null;
    const select = (id: string) => {
        const next = new Set(selected);
        if (!next.delete(id)) next.add(id);
        setSelected(next);
    };
    const allSelected = jobs.length > 0 && jobs.every((job) => selected.has(job.id));

    if (list.error && !list.loaded) return <Trouble error={list.error} retry={list.refresh} />;
    const says = !list.loaded
        ? ' '
        : total === 0
          ? 'No dead letters.'
          : `${plural(total, 'dead letter')} in ${plural(groups.data?.groups.length ?? 0, 'group')}.`;
    return (
        <div class="fill">
            <PageHead title="Dead letters" says={says}>
                {jobs.length > 0 && may('admin') && (
                    <>
                        <Button
                            icon="loop"
                            onClick={() => setActing({ action: 'redrive', ids: null })}
                        >
                            Redrive {which}
                        </Button>
                        <Button
                            kind="danger"
                            onClick={() => setActing({ action: 'drop', ids: null })}
                        >
                            Drop {which}
                        </Button>
                    </>
                )}
            </PageHead>
            {!list.loaded ? (
                <Loading />
            ) : total === 0 && jobs.length === 0 ? (
                <Empty icon="dead" title="No dead letters">
                    <p>
                        Jobs that exhausted their retries, or that a worker or an operator dead-lettered, are kept here with their last error.
                    </p>
                </Empty>
            ) : (
                <div class="dead">
                    <Groups at={at} groups={groups.data?.groups ?? []} total={total} />
                    <div class="list-panel">
                        {selected.size > 0 && may('admin') && (
                            <div class="selection" role="status">
                                <b>{count(selected.size)} selected</b>
                                <Button
                                    small
                                    icon="loop"
                                    onClick={() =>
                                        setActing({ action: 'redrive', ids: [...selected] })
                                    }
                                >
                                    Redrive
                                </Button>
                                <Button
                                    small
                                    kind="danger"
                                    onClick={() =>
                                        setActing({ action: 'drop', ids: [...selected] })
                                    }
                                >
                                    Drop
                                </Button>
                                <Button small kind="quiet" onClick={() => setSelected(new Set())}>
                                    Clear
                                </Button>
                            </div>
                        )}
                        {jobs.length === 0 ? (
                            <Empty icon="check" title="This group is empty">
                                <Button onClick={() => replace(to.dead())}>All dead letters</Button>
                            </Empty>
                        ) : (
                            <VirtualTable
                                label="Dead letters"
                                count={jobs.length}
                                rowHeight={narrow.value ? ROW_NARROW : ROW}
                                columns={narrow.value ? 2 : 5}
                                head={
                                    <tr>
                                        <th class="select">
                                            <input
                                                type="checkbox"
                                                checked={allSelected}
                                                aria-label="Select all loaded"
                                                onInput={() =>
                                                    setSelected(
                                                        new Set(
                                                            allSelected
                                                                ? []
                                                                : jobs.map((job) => job.id),
                                                        ),
                                                    )
                                                }
                                            />
                                        </th>
                                        <th class="main-cell">
                                            {narrow.value ? 'Dead letters' : 'Kind and last error'}
                                        </th>
                                        {!narrow.value && (
                                            <>
                                                <th>Id</th>
                                                <th class="num">Attempts</th>
                                                <th class="num">Since</th>
                                            </>
                                        )}
                                    </tr>
                                }
                                render={(i) => {
                                    const job = jobs[i]!;
                                    return (
                                        <Row
                                            key={job.id}
                                            job={job}
                                            selected={selected.has(job.id)}
                                            shown={preview === job.id}
                                            onSelect={() => select(job.id)}
                                            onShow={() => setShown(job.id)}
                                        />
                                    );
                                }}
                                onEnd={list.more}
                            />
                        )}
                    </div>
                    {preview && (
                        <div class="dead-preview">
                            <Preview
                                id={preview}
                                onAct={(action, ids) => setActing({ action, ids })}
                            />
                        </div>
                    )}
                </div>
            )}
            {acting && (
                <DeadDialog
                    action={acting.action}
                    ids={acting.ids}
                    filter={at}
                    group={groups.data?.groups.find((g) => g.group === at.group)}
                    onClose={() => {
                        setActing(null);
                        setSelected(new Set());
                        list.refresh();
                        groups.reload();
                    }}
                />
            )}
        </div>
    );
}
