// Attempts and leases drawn to scale: what a job's time went into.

import { useState } from 'preact/hooks';
import type { Job, PawlEvent } from '../api/types';
import { clockTime, duration, exactTime } from '../format';
import { ended } from '../states';
import { Button } from '../ui/button';
import { now } from '../ui/time';
import type { Attempt, JobHistory, Outcome, Phase } from './job-history';

const ROWS_MAX = 12;
const TICKS = 5;
const STEPS_MS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
    172_800_000, 604_800_000,
];

const phaseWords: Record<Phase['kind'], string> = {
    queued: 'Queued',
    later: 'Scheduled',
    backoff: 'Backoff',
    lease: 'Leased',
    wait: 'Waiting',
};

const outcomeTone: Record<Outcome, string> = {
    running: 'run',
    completed: 'good',
    failed: 'bad',
    retry: 'retry',
    waiting: 'wait',
    cancelled: 'mute',
    dead: 'dead',
    released: 'idle',
};

interface Scale {
    from: number;
    to: number;
}

const place = (scale: Scale, at: number): number =>
    Math.max(0, Math.min(100, ((at - scale.from) / (scale.to - scale.from)) * 100));

function ticks(scale: Scale): number[] {
    const span = scale.to - scale.from;
    const step =
        STEPS_MS.find((ms) => span / ms <= TICKS) ??
        Math.ceil(span / TICKS / 86_400_000) * 86_400_000;
    const list: number[] = [];
    // One at the very end would stand out of the picture.
    for (let at = step; at < span * 0.96; at += step) list.push(at);
    return list;
}

function PhaseBar({
    phase,
    scale,
    tone,
    until,
}: {
    phase: Phase;
    scale: Scale;
    tone: string;
    until: number;
}) {
    const to = phase.to ?? Math.max(until, phase.from);
    const left = place(scale, phase.from);
    const width = place(scale, Math.min(to, scale.to)) - left;
    const title = `${phaseWords[phase.kind]} ${duration(to - phase.from)}: ${exactTime(phase.from)} to ${phase.to ? exactTime(phase.to) : 'now'}`;
    return (
        <span
            class={`phase ${phase.kind} tone-${phase.kind === 'lease' ? tone : phase.kind === 'wait' ? 'wait' : 'idle'}${phase.to === null ? ' open' : ''}`}
            style={{ left: `${left}%`, width: `${width}%` }}
            title={title}
        />
    );
}

function Marks({
    marks,
    scale,
    kind,
}: {
    marks: { at: number; title: string; bad?: boolean }[];
    scale: Scale;
    kind: string;
}) {
    return (
        <>
            {marks.map(({ at, title, bad }, i) => (
                <span
                    key={i}
                    class={`tick-mark ${kind}${bad ? ' bad' : ''}`}
                    style={{ left: `${place(scale, at)}%` }}
                    title={title}
                />
            ))}
        </>
    );
}

interface RowProps {
    label: string;
    note: string;
    attempt?: Attempt;
    phases: Phase[];
    scale: Scale;
    until: number;
    beats: PawlEvent[];
    effects: JobHistory['effects'];
}

function Row({ label, note, attempt, phases, scale, until, beats, effects }: RowProps) {
    const tone = attempt ? outcomeTone[attempt.outcome] : 'idle';
    const end = attempt?.to ?? until;
    const mine = attempt
        ? beats.filter((b) => Date.parse(b.at) >= attempt.from && Date.parse(b.at) <= end)
        : [];
    const calls = attempt
        ? effects.filter((e) => Date.parse(e.begun) >= attempt.from && Date.parse(e.begun) <= end)
        : [];
    return (
        <div class="lane">
            <div class="lane-label">
                <b>{label}</b>
                <span class="faint cut" title={note}>
                    {note}
                </span>
            </div>
            <div class="lane-track">
                {phases.map((phase, i) => (
                    <PhaseBar key={i} phase={phase} scale={scale} tone={tone} until={until} />
                ))}
                {attempt &&
                    attempt.to === null &&
                    attempt.expires_at !== null &&
                    attempt.expires_at > until && (
                        <span
                            class="phase promise"
                            style={{
                                left: `${place(scale, until)}%`,
                                width: `${place(scale, attempt.expires_at) - place(scale, until)}%`,
                            }}
                            title={`The lease expires at ${exactTime(attempt.expires_at)}`}
                        />
                    )}
                <Marks
                    kind="beat"
                    scale={scale}
                    marks={mine.map((b) => ({
                        at: Date.parse(b.at),
                        title: `Heartbeat ${exactTime(b.at)}`,
                    }))}
                />
                <Marks
                    kind="effect"
                    scale={scale}
                    marks={calls.map((e) => ({
                        at: Date.parse(e.begun),
                        title: `Effect ${e.key}${e.doubt ? ', in doubt' : ''}: ${exactTime(e.begun)}`,
                        bad: e.doubt,
                    }))}
                />
            </div>
        </div>
    );
}

export function Timeline({
    job,
    history,
    beats,
}: {
    job: Job;
    history: JobHistory;
    beats: PawlEvent[];
}) {
    const [all, setAll] = useState(false);
    const { attempts, tail } = history;
    const over = ended.has(job.status);
    const until = over
        ? Date.parse(job.updated_at)
        : Math.max(now.value, Date.parse(job.updated_at));
    const live = attempts.at(-1);
    const shown = all ? attempts : attempts.slice(-ROWS_MAX);
    const hidden = attempts.length - shown.length;

    const from =
        hidden > 0
            ? (shown[0]?.phases[0]?.from ?? Date.parse(job.created_at))
            : Date.parse(job.created_at);
    const last = Math.max(
        until,
        ...tail.map((phase) => phase.to ?? 0),
        live && live.to === null ? Math.min(live.expires_at ?? 0, until + (until - from) * 0.3) : 0,
    );
    const scale: Scale = { from, to: Math.max(last, from + 1) + Math.max(1, (last - from) * 0.02) };
    const said = `${attempts.length} attempts in ${duration(until - Date.parse(job.created_at))}`;
    return (
        <div class="timeline" role="img" aria-label={`Timeline: ${said}`}>
            {hidden > 0 && (
                <Button small kind="quiet" onClick={() => setAll(true)}>
                    Show {hidden} earlier attempts
                </Button>
            )}
            {shown.map((attempt) => (
                <Row
                    key={attempt.from}
                    label={
                        job.plan && attempt.worker === null ? 'Plan' : `Attempt ${attempt.attempt}`
                    }
                    note={`${attempt.worker ?? 'plan steps'} · ${duration((attempt.to ?? until) - attempt.from)}`}
                    attempt={attempt}
                    phases={attempt.phases}
                    scale={scale}
                    until={until}
                    beats={beats}
                    effects={history.effects}
                />
            ))}
            {tail.length > 0 && (
                <Row
                    label={tail.at(-1)?.kind === 'wait' ? 'Waiting' : 'Next'}
                    note={phaseWords[tail[0]!.kind].toLowerCase()}
                    phases={tail}
                    scale={scale}
                    until={until}
                    beats={[]}
                    effects={[]}
                />
            )}
            <div class="lane axis" aria-hidden="true">
                <div class="lane-label faint">{clockTime(from)}</div>
                <div class="lane-track">
                    {ticks(scale).map((at) => (
                        <span
                            key={at}
                            class="axis-tick"
                            style={{ left: `${place(scale, from + at)}%` }}
                        >
                            +{duration(at)}
                        </span>
                    ))}
                    {!over && (
                        <span
                            class="axis-now"
                            style={{ left: `${place(scale, until)}%` }}
                            title={`Now, ${exactTime(until)}`}
                        />
                    )}
                </div>
            </div>
        </div>
    );
}
