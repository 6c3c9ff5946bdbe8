// Open questions to people, answered in place.

import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Question } from '../api/types';
import { brief, plural, shortId } from '../format';
import { useQuery } from '../live/query';
import { to } from '../route';
import { JsonView } from '../ui/json';
import { Empty, Loading, PageHead, Trouble } from '../ui/page';
import { Ago } from '../ui/time';
import { AnswerAs, AnswerForm, mayAnswer } from './answer';

const PAGES_MAX = 10;

async function load(): Promise<Question[]> {
    const all: Question[] = [];
    let cursor: string | null = null;
    for (let i = 0; i < PAGES_MAX; i++) {
        const page: Awaited<ReturnType<typeof pawl.inbox>> = await pawl.inbox(cursor);
        all.push(...page.questions);
        cursor = page.next_cursor;
        if (!cursor) break;
    }
    return all;
}

/* What the job is about: enough to answer without opening it. */
function Context({ question: q }: { question: Question }) {
    const labels = Object.entries(q.labels ?? {});
    return (
        <div class="question-context">
            {q.goal && <p class="goal">{q.goal}</p>}
            <p class="pills">
                <a class="chip" href={to.jobs({ queue: q.queue })}>
                    queue {q.queue}
                </a>
                {q.agent_id && (
                    <a class="chip" href={to.jobs({ agent_id: q.agent_id })}>
                        agent {q.agent_id}
                    </a>
                )}
                {q.correlation_id && (
                    <a class="chip" href={to.jobs({ correlation_id: q.correlation_id })}>
                        {q.correlation_id}
                    </a>
                )}
                {labels.map(([name, value]) => (
                    <a key={name} class="chip" href={to.jobs({ label: `${name}:${value}` })}>
                        {name}:{value}
                    </a>
                ))}
            </p>
            {q.payload_left_out ? (
                <p class="faint">
                    The payload is too large to show here. <a href={to.job(q.id)}>Open the job</a>
                </p>
            ) : (
                q.payload != null && (
                    <details class="question-payload">
                        <summary>
                            Payload <code>{brief(q.payload, 100)}</code>
                        </summary>
                        <JsonView value={q.payload} label="the payload" />
                    </details>
                )
            )}
        </div>
    );
}

function Card({ question, onDone }: { question: Question; onDone: () => void }) {
    const q = question;
    return (
        <li class="question">
            <div class="question-meta">
                <a data-row class="strong" href={q.step ? to.plan(q.id, q.step) : to.job(q.id)}>
                    {q.kind}
                    {q.step && <> · {q.step}</>}
                </a>
                <span class="mono faint">{shortId(q.id)}</span>
                {q.assignee && <span class="chip">for {q.assignee}</span>}
                {q.effect && <span class="chip bad">In doubt</span>}
                <span class="faint">
                    asked <Ago at={q.since} />
                </span>
                {q.until && (
                    <span class="faint">
                        · expires <Ago at={q.until} />
                        {q.default_answer != null && <> (default: {brief(q.default_answer, 40)})</>}
                    </span>
                )}
            </div>
            <Context question={q} />
            <p class="prompt">
                {q.effect
                    ? `Did “${q.effect}” happen? The worker stopped before it reported the outcome.`
                    : (q.prompt ?? 'Continue?')}
            </p>
            <AnswerForm asked={q} onDone={onDone} />
        </li>
    );
}

export function InboxPage() {
    const { data, error, loading, reload } = useQuery(load, [], {
        stale: (event) => /wait|user|signal|cancel|step_running|fail/.test(event.type),
        every_ms: 10_000,
    });
    const [who, setWho] = useState('');
    const people = [
        ...new Set(
            (data ?? []).map((q) => q.assignee).filter((name): name is string => name !== null),
        ),
    ].sort();
    const shown = (data ?? []).filter((q) => !who || q.assignee === who);
    return (
        <>
            <PageHead
                title="Inbox"
                says={
                    data
                        ? data.length
                            ? `${plural(data.length, 'open question')}. Only these jobs are waiting.`
                            : 'No open questions.'
                        : ' '
                }
            >
                {shown.length > 0 && mayAnswer() && <AnswerAs />}
                {people.length > 0 && (
                    <select
                        aria-label="Assignee"
                        value={who}
                        onInput={(event) => setWho(event.currentTarget.value)}
                    >
                        <option value="">Any assignee</option>
                        {people.map((name) => (
                            <option key={name} value={name}>
                                For {name}
                            </option>
                        ))}
                    </select>
                )}
            </PageHead>
            {error && !data ? (
                <Trouble error={error} retry={reload} />
            ) : loading ? (
                <Loading />
            ) : shown.length === 0 ? (
                <Empty icon="inbox" title="Inbox is empty">
                    <p>Questions from jobs and steps appear here.</p>
                </Empty>
            ) : (
                <ul class="questions">
                    {shown.map((q) => (
                        <Card
                            key={`${q.id}/${q.step}/${q.correlation_key}`}
                            question={q}
                            onDone={reload}
                        />
                    ))}
                </ul>
            )}
        </>
    );
}
