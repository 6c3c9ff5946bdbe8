// Attempts, waits and effects as tables.

import type { Job } from '../api/types';
import { brief, duration, exactTime, words } from '../format';
import { Icon } from '../ui/icon';
import { JsonView } from '../ui/json';
import { Empty } from '../ui/page';
import { Ago, now } from '../ui/time';
import type { Effect, JobHistory, Outcome } from './job-history';

const outcomeWords: Record<Outcome, string> = {
    running: 'running',
    completed: 'completed',
    failed: 'failed',
    retry: 'failed, retried',
    waiting: 'waiting',
    cancelled: 'cancelled',
    dead: 'dead letter',
    released: 'released',
};
const outcomeClass: Partial<Record<Outcome, string>> = {
    completed: 'good',
    failed: 'bad',
    retry: 'retry',
    dead: 'bad',
    waiting: 'wait',
    running: 'run',
};

export function AttemptsTab({ job, history }: { job: Job; history: JobHistory }) {
    const { attempts, waits } = history;
    if (attempts.length === 0)
        return (
            <Empty icon="loop" title="No attempts yet">
                An attempt starts when a worker claims the job.
            </Empty>
        );
    return (
        <div class="table-box" tabIndex={0} role="region" aria-label="Attempts">
            <table class="table">
                <thead>
                    <tr>
                        <th class="num">Attempt</th>
                        <th>Worker</th>
                        <th>Started</th>
                        <th class="num">Duration</th>
                        <th>Outcome</th>
                        <th class="num">Backoff</th>
                    </tr>
                </thead>
                <tbody>
                    {[...attempts].reverse().map((a) => (
                        <tr key={a.from}>
                            <td class="num">{a.attempt}</td>
                            <td class="mono cut">{a.worker ?? (job.plan ? 'plan steps' : '–')}</td>
                            <td title={exactTime(a.from)}>
                                <Ago at={new Date(a.from).toISOString()} />
                            </td>
                            <td class="num">{duration((a.to ?? now.value) - a.from)}</td>
                            <td class="wrap">
                                <span class={`chip ${outcomeClass[a.outcome] ?? ''}`}>
                                    {outcomeWords[a.outcome]}
                                </span>
                                {(a.error?.message || a.why) && (
                                    <span class="faint">
                                        {' '}
                                        {brief(a.error?.message ?? words(a.why ?? ''), 200)}
                                    </span>
                                )}
                            </td>
                            <td class="num">
                                {a.backoff_ms === null ? '–' : duration(a.backoff_ms)}
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
            {waits.length > 0 && (
                <>
                    <h3>Waits</h3>
                    <table class="table">
                        <thead>
                            <tr>
                                <th>Type</th>
                                <th>Key</th>
                                <th>Since</th>
                                <th class="num">Duration</th>
                                <th>Outcome</th>
                            </tr>
                        </thead>
                        <tbody>
                            {waits.map((w) => (
                                <tr key={w.from}>
                                    <td>{words(w.type)}</td>
                                    <td class="mono">{w.key ?? '–'}</td>
                                    <td>
                                        <Ago at={new Date(w.from).toISOString()} />
                                    </td>
                                    <td class="num">{duration((w.to ?? now.value) - w.from)}</td>
                                    <td class="wrap">
                                        {w.to === null ? (
                                            <span class="chip wait">open</span>
                                        ) : w.outcome === 'timeout' ? (
                                            'timed out'
                                        ) : (
                                            <code>{brief(w.payload ?? w.outcome ?? '')}</code>
                                        )}
                                    </td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </>
            )}
        </div>
    );
}

export function EffectsTab({ effects }: { effects: Effect[] }) {
    if (effects.length === 0)
        return (
            <Empty icon="check" title="No effects">
                Actions that a worker records, so that they do not run twice, appear here.
            </Empty>
        );
    return (
        <ul class="effects">
            {effects.map((e) => (
                <li key={`${e.step}/${e.key}`} class={e.doubt ? 'doubt' : undefined}>
                    <div class="effect-head">
                        <b class="mono">{e.key}</b>
                        {e.step && <span class="chip">step {e.step}</span>}
                        {e.doubt ? (
                            <span class="chip bad">
                                <Icon name="warn" size={12} /> In doubt
                            </span>
                        ) : e.recorded ? (
                            <span class="chip good">Recorded</span>
                        ) : (
                            <span class="chip run">In progress</span>
                        )}
                        <span class="faint">
                            attempt {e.attempt}, started <Ago at={e.begun} />
                            {e.recorded && (
                                <>, took {duration(Date.parse(e.recorded) - Date.parse(e.begun))}</>
                            )}
                        </span>
                    </div>
                    {e.doubt && (
                        <p class="faint">
                            The attempt that started it ended without reporting the outcome. It may have happened.
                        </p>
                    )}
                    {e.input != null && (
                        <JsonView value={e.input} label={`the input of ${e.key}`} />
                    )}
                    {e.result != null && (
                        <JsonView value={e.result} label={`the result of ${e.key}`} />
                    )}
                </li>
            ))}
        </ul>
    );
}
