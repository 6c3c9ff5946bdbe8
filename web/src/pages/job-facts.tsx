// What a job is, beside what happens to it.

import type { ComponentChildren } from 'preact';
import type { Job } from '../api/types';
import { brief, duration, words } from '../format';
import { to } from '../route';
import { Panel } from '../ui/page';
import { Ago, now, Span } from '../ui/time';
import { ended } from '../states';

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
    return (
        <div>
            <dt>{name}</dt>
            <dd>{children}</dd>
        </div>
    );
}

function retryWords(job: Job): string {
    const { max_attempts, strategy, initial_ms, max_ms, jitter } = job.retry;
    return `${max_attempts} attempts, ${strategy} from ${duration(initial_ms)} to ${duration(max_ms)}${jitter === 'none' ? '' : `, ${jitter} jitter`}`;
}

function PlanFact({ job }: { job: Job }) {
    if (!job.plan) return null;
    const { steps } = job.plan;
    const all = Object.values(steps).reduce((sum, n) => sum + n, 0);
    return (
        <Fact name="Plan">
            <a href={to.plan(job.id)}>
                {steps.succeeded} of {all} steps succeeded
            </a>
            {steps.asking > 0 && <span class="chip wait">{steps.asking} need input</span>}
            {steps.failed > 0 && <span class="chip bad">{steps.failed} failed</span>}
        </Fact>
    );
}

function WaitFacts({ job }: { job: Job }) {
    const wait = job.wait;
    if (!wait) return null;
    return (
        <>
            <Fact name="Waiting for">
                {words(wait.type)}
                {wait.correlation_key && <code>{wait.correlation_key}</code>}
            </Fact>
            {wait.assignee && <Fact name="Assignee">{wait.assignee}</Fact>}
            {wait.since && (
                <Fact name="Since">
                    <Ago at={wait.since} />
                </Fact>
            )}
            {wait.until && (
                <Fact name="Until">
                    <Ago at={wait.until} />
                </Fact>
            )}
        </>
    );
}

export function JobFacts({ job }: { job: Job }) {
    const over = ended.has(job.status);
    return (
        <aside class="job-facts" aria-label="Facts">
            <Panel title="About">
                <dl class="facts">
                    <Fact name="Queue">
                        <a href={to.jobs({ queue: job.queue })}>{job.queue}</a>
                    </Fact>
                    <Fact name="Kind">
                        <a href={to.jobs({ kind: job.kind })}>{job.kind}</a>
                    </Fact>
                    <Fact name="Submitted">
                        <Ago at={job.created_at} />
                    </Fact>
                    <Fact name={over ? 'Duration' : 'Age'}>
                        <Span from={job.created_at} to={over ? job.updated_at : null} />
                    </Fact>
                    {!over && job.run_at && Date.parse(job.run_at) > now.value && (
                        <Fact name={job.status === 'retrying' ? 'Next attempt' : 'Not before'}>
                            <Ago at={job.run_at} />
                        </Fact>
                    )}
                    {!over && job.expires_at && job.attempt === 0 && (
                        <Fact name="Expires">
                            <Ago at={job.expires_at} />
                            <span class="faint">unless started before</span>
                        </Fact>
                    )}
                    {job.deadline_at && (
                        <Fact name="Deadline">
                            <Ago at={job.deadline_at} />
                        </Fact>
                    )}
                    {job.pin && <Fact name="Pinned to">{job.pin}</Fact>}
                    <Fact name="Priority">{job.priority}</Fact>
                    <Fact name="Attempt">
                        {job.attempt}
                        {job.epoch > 1 && <span class="chip">epoch {job.epoch}</span>}
                    </Fact>
                    <Fact name="Failures">
                        {job.failures} of {job.retry.max_attempts}
                    </Fact>
                    <PlanFact job={job} />
                    <WaitFacts job={job} />
                </dl>
            </Panel>
            {job.lease && (
                <Panel title="Lease">
                    <dl class="facts">
                        <Fact name="Worker">
                            <span class="mono">{job.lease.worker_id}</span>
                        </Fact>
                        <Fact name="Since">
                            <Ago at={job.lease.since} />
                        </Fact>
                        <Fact name="Last heartbeat">
                            <Ago at={job.lease.beat_at} />
                        </Fact>
                        <Fact name="Expires">
                            <Ago at={job.lease.expires_at} />
                        </Fact>
                        {job.progress != null && (
                            <Fact name="Progress">
                                <code>{brief(job.progress)}</code>
                            </Fact>
                        )}
                    </dl>
                </Panel>
            )}
            <Panel title="Details">
                <dl class="facts">
                    <Fact name="Retry">{retryWords(job)}</Fact>
                    <Fact name="When exhausted">
                        {job.retry.on_exhausted === 'fail' ? 'fails' : 'becomes a dead letter'}
                    </Fact>
                    <Fact name="In doubt">{job.in_doubt ?? '–'}</Fact>
                    {job.timeout_ms && <Fact name="Timeout">{duration(job.timeout_ms)}</Fact>}
                    {job.idempotency_key && (
                        <Fact name="Idempotency key">
                            <code>{job.idempotency_key}</code>
                        </Fact>
                    )}
                    {job.correlation_id && (
                        <Fact name="Correlation">
                            <a href={to.jobs({ correlation_id: job.correlation_id })}>
                                {job.correlation_id}
                            </a>
                        </Fact>
                    )}
                    {job.agent_id && (
                        <Fact name="Agent">
                            <a href={to.jobs({ agent_id: job.agent_id })}>{job.agent_id}</a>
                        </Fact>
                    )}
                    {job.capabilities && <Fact name="Capabilities">{job.capabilities.join(', ')}</Fact>}
                    {job.cursor && (
                        <Fact name="Cursor">
                            <code>{job.cursor}</code>
                        </Fact>
                    )}
                    {job.traceparent && (
                        <Fact name="Trace">
                            <code>{job.traceparent}</code>
                        </Fact>
                    )}
                    {job.labels && Object.keys(job.labels).length > 0 && (
                        <Fact name="Labels">
                            {Object.entries(job.labels).map(([k, v]) => (
                                <a key={k} class="chip" href={to.jobs({ label: `${k}:${v}` })}>
                                    {k}:{v}
                                </a>
                            ))}
                        </Fact>
                    )}
                    <Fact name="Version">{job.version}</Fact>
                </dl>
            </Panel>
        </aside>
    );
}
