// One job: why it is where it is, what its time went into, everything that happened, and what to do.

import { useEffect, useMemo, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Explained, Job, Verified } from '../api/types';
import { words } from '../format';
import { useJobEvents } from '../live/job-events';
import { ofJob, useQuery } from '../live/query';
import { to } from '../route';
import { ended } from '../states';
import { JobBadge } from '../ui/badge';
import { Button } from '../ui/button';
import { CopyId, copyText } from '../ui/copy';
import { Icon } from '../ui/icon';
import { JsonView } from '../ui/json';
import { Loading, Panel, Trouble } from '../ui/page';
import { toast } from '../ui/toast';
import { AnswerAs, AnswerForm, mayAnswer } from './answer';
import { JobActions, NextActions } from './job-actions';
import { EventList } from './job-events';
import { JobFacts } from './job-facts';
import { readHistory } from './job-history';
import { AttemptsTab, EffectsTab } from './job-records';
import { Timeline } from './job-timeline';

const REASONS_SHOWN = 3;

/* Commands that have a button, here or in a form above. */
const done = /^pawl (requeue|dlq|run|resume|signal|cancel|approve|reject) /;

function Why({
    job,
    explained,
    onDone,
}: {
    job: Job;
    explained: Explained;
    onDone: () => void;
}) {
    const commands = explained.moves.filter((move) => move.startsWith('pawl ') && !done.test(move));
    const others = explained.moves.filter((move) => !move.startsWith('pawl '));
    // Some of them say again what stands elsewhere on the page.
    const reasons = explained.reasons.filter(
        (reason) =>
            !reason.includes(explained.summary) && !/^(Question|Last error):/.test(reason),
    );
    return (
        <Panel title="Status explained">
            <p class="summary">{explained.summary}</p>
            {reasons.length > 0 && (
                <ul class="reasons">
                    {reasons.slice(0, REASONS_SHOWN).map((reason) => (
                        <li key={reason}>{reason}</li>
                    ))}
                </ul>
            )}
            {reasons.length > REASONS_SHOWN && (
                <details class="moves">
                    <summary>{reasons.length - REASONS_SHOWN} more</summary>
                    <ul class="reasons">
                        {reasons.slice(REASONS_SHOWN).map((reason) => (
                            <li key={reason}>{reason}</li>
                        ))}
                    </ul>
                </details>
            )}
            <NextActions job={job} actions={explained.actions} onDone={onDone} />
            {others.length + commands.length > 0 && (
                <details class="moves">
                    <summary>Next actions</summary>
                    <ul class="reasons">
                        {others.map((move) => (
                            <li key={move}>{move}</li>
                        ))}
                    </ul>
                    {commands.map((command) => (
                        <button
                            key={command}
                            type="button"
                            class="command copyable"
                            title="Copy"
                            onClick={() => copyText(command, 'the command')}
                        >
                            {command}
                        </button>
                    ))}
                </details>
            )}
        </Panel>
    );
}

function Outcome({ job }: { job: Job }) {
    if (job.redacted)
        return (
            <Panel title="Erased">
                <p class="faint">
                    The data of this job was erased. Its history is kept and can be verified.
                </p>
            </Panel>
        );
    const failure = job.dead_letter?.last_error ?? job.error;
    return (
        <>
            {failure && job.status !== 'completed' && (
                <Panel
                    title={
                        job.status === 'retrying' || !ended.has(job.status)
                            ? 'Last error'
                            : 'Error'
                    }
                >
                    <p class="error-message">{failure.message ?? 'no message'}</p>
                    <p class="faint">
                        {[
                            failure.class,
                            failure.stage,
                            job.dead_letter && `dead letter: ${words(job.dead_letter.reason_code)}`,
                        ]
                            .filter(Boolean)
                            .join(' · ')}
                    </p>
                    {failure.details != null && (
                        <JsonView value={failure.details} label="details of the error" />
                    )}
                </Panel>
            )}
            {job.status === 'completed' && (
                <Panel title="Result">
                    <JsonView value={job.result} label="the result" />
                </Panel>
            )}
        </>
    );
}

function VerifyButton({
    id,
    version,
    onVerified,
}: {
    id: string;
    version: number;
    onVerified: (verified: Verified | null) => void;
}) {
    const [state, setState] = useState<{ verified: Verified | null; busy: boolean }>({
        verified: null,
        busy: false,
    });
    async function verify(): Promise<void> {
        setState({ verified: null, busy: true });
        try {
            const verified = await pawl.verifyJob(id);
            setState({ verified, busy: false });
            onVerified(verified);
        } catch (error) {
            setState({ verified: null, busy: false });
            toast((error as Error).message, { bad: true });
        }
    }
    const { verified } = state;
    const newer = verified && version > verified.version;
    return (
        <div class="verify">
            {verified && (
                <span class={`chip ${verified.ok ? 'good' : 'bad'}`} role="status">
                    {verified.ok
                        ? `Chain intact up to version ${verified.version}`
                        : `${verified.violations.length} violations`}
                </span>
            )}
            <Button small icon="verify" busy={state.busy} onClick={verify}>
                {newer ? 'Verify again' : 'Verify'}
            </Button>
        </div>
    );
}

const tabs: [name: string, label: string][] = [
    ['events', 'Events'],
    ['attempts', 'Attempts'],
    ['effects', 'Effects'],
    ['data', 'Payload and result'],
];

function Tabs({ id, at, notes }: { id: string; at: string; notes: Record<string, string> }) {
    return (
        <nav class="tabs" aria-label="About this job">
            {tabs.map(([name, label]) => (
                <a
                    key={name}
                    href={to.job(id, name)}
                    aria-current={at === name ? 'true' : undefined}
                >
                    {label}
                    {notes[name] && <span class="n">{notes[name]}</span>}
                </a>
            ))}
        </nav>
    );
}

function Violations({ verified }: { verified: Verified | null }) {
    if (!verified || verified.ok) return null;
    return (
        <Panel title="History verification failed">
            <JsonView value={verified.violations} label="the violations" />
        </Panel>
    );
}

export function JobPage({ id, tab }: { id: string; tab: string }) {
    const mine = ofJob(id);
    const { data: job, error, reload } = useQuery(() => pawl.getJob(id), [id], mine);
    const explained = useQuery(() => pawl.explainJob(id), [id], mine);
    const beats = useQuery(() => pawl.heartbeats(id), [id], mine);
    const history = useJobEvents(id);
    const [verified, setVerified] = useState<Verified | null>(null);
    const read = useMemo(
        () => (job ? readHistory(job, history.events) : null),
        [job, history.events],
    );
    useEffect(() => {
        document.title = job ? `${job.kind} · Pawl` : 'Job · Pawl';
    }, [job?.kind]);

    // What no event tells, such as a queue that is resumed.
    const changed = () => {
        reload();
        explained.reload();
    };
    if (error && !job) return <Trouble error={error} retry={reload} />;
    if (!job || !read) return <Loading rows={10} />;

    const doubts = read.effects.filter((effect) => effect.doubt).length;
    const notes = {
        events: String(job.version),
        attempts: read.attempts.length ? String(read.attempts.length) : '',
        effects: doubts
            ? `${doubts} in doubt`
            : read.effects.length
              ? String(read.effects.length)
              : '',
    };
    const asks =
        job.wait?.type === 'human'
            ? {
                  id,
                  step: null,
                  attempt: job.attempt,
                  prompt: job.wait.prompt,
                  choices: job.wait.choices,
                  correlation_key: job.wait.correlation_key,
                  effect: job.wait.effect,
              }
            : null;
    return (
        <>
            <a class="crumb" href={to.jobs()}>
                <Icon name="back" size={14} /> Jobs
            </a>
            <header class="page-head">
                <div class="page-title">
                    <div class="title-line">
                        <h1>{job.kind}</h1>
                        <JobBadge status={job.status} />
                        {job.cancel_requested && !ended.has(job.status) && (
                            <span class="chip wait">Cancel requested</span>
                        )}
                    </div>
                    <p>
                        <CopyId id={job.id} whole /> {job.goal}
                    </p>
                </div>
                <div class="page-actions">
                    <JobActions
                        job={job}
                        actions={explained.data?.actions}
                        onDone={changed}
                    />
                </div>
            </header>
            <div class="job">
                <div class="job-main">
                    {asks && (
                        <Panel
                            aside={!asks.effect && mayAnswer() && <AnswerAs />}
                            title={
                                asks.effect
                                    ? `Did “${asks.effect}” happen?`
                                    : job.wait?.assignee
                                      ? `Needs input from ${job.wait.assignee}`
                                      : 'Needs input'
                            }
                        >
                            {asks.prompt && <p class="prompt">{asks.prompt}</p>}
                            <AnswerForm asked={asks} onDone={reload} />
                        </Panel>
                    )}
                    {explained.data && (
                        <Why job={job} explained={explained.data} onDone={changed} />
                    )}
                    <Panel title="Timeline">
                        <Timeline job={job} history={read} beats={beats.data?.events ?? []} />
                    </Panel>
                    {!job.redacted && tab === 'events' && job.payload != null && (
                        <Panel title="Payload">
                            <JsonView value={job.payload} label="the payload" />
                        </Panel>
                    )}
                    <Outcome job={job} />
                    <Violations verified={verified} />
                    <section class="panel flush">
                        <header>
                            <Tabs id={id} at={tab} notes={notes} />
                            <VerifyButton id={id} version={job.version} onVerified={setVerified} />
                        </header>
                        {tab === 'attempts' ? (
                            <AttemptsTab job={job} history={read} />
                        ) : tab === 'effects' ? (
                            <EffectsTab effects={read.effects} />
                        ) : tab === 'data' ? (
                            <div class="data">
                                <h3>Payload</h3>
                                <JsonView value={job.payload} label="the payload" />
                                <h3>Result</h3>
                                <JsonView value={job.result} label="the result" />
                                {job.progress != null && <h3>Progress</h3>}
                                {job.progress != null && (
                                    <JsonView value={job.progress} label="the progress" />
                                )}
                            </div>
                        ) : history.error ? (
                            <Trouble error={history.error} />
                        ) : (
                            <EventList events={history.events} verified={verified} />
                        )}
                    </section>
                </div>
                <JobFacts job={job} />
            </div>
        </>
    );
}
