// The state of a job or step: colour, shape and word, so that none of them has to be enough.

import type { JobStatus, StepState } from '../api/types';
import { jobStates, type Shape, type StateLook, stepStates } from '../states';

const shapes: Record<Shape, preact.ComponentChildren> = {
    ring: <circle class="line" cx="7" cy="7" r="5" />,
    dashed: <circle class="line dashed" cx="7" cy="7" r="5" />,
    spin: (
        <g class="spin">
            <circle class="line faint" cx="7" cy="7" r="5" />
            <path class="line" d="M7 2a5 5 0 0 1 5 5" />
        </g>
    ),
    pause: (
        <>
            <circle class="line" cx="7" cy="7" r="5.3" />
            <path class="line" d="M5.6 5v4M8.4 5v4" />
        </>
    ),
    ask: (
        <>
            <circle class="line" cx="7" cy="7" r="5.3" />
            <path class="line" d="M5.6 5.6a1.5 1.5 0 1 1 2 1.4c-.4.2-.6.5-.6.9M7 9.9v.01" />
        </>
    ),
    loop: (
        <path
            class="line"
            d="M2.2 7a4.8 4.8 0 0 1 8.6-2.9M11.8 7a4.8 4.8 0 0 1-8.6 2.9M11 1.8v2.6H8.4M3 12.2V9.6h2.6"
        />
    ),
    check: (
        <>
            <circle class="fill" cx="7" cy="7" r="6" />
            <path class="cut" d="M4.3 7.2 6.2 9l3.5-3.8" />
        </>
    ),
    cross: (
        <>
            <circle class="fill" cx="7" cy="7" r="6" />
            <path class="cut" d="M5 5l4 4M9 5 5 9" />
        </>
    ),
    slash: (
        <>
            <circle class="line" cx="7" cy="7" r="5.3" />
            <path class="line" d="M3.4 10.6l7.2-7.2" />
        </>
    ),
    box: (
        <>
            <path class="fill" d="M1.5 2h11v3h-11zM2.3 5.8h9.4v6.4H2.3z" />
            <path class="cut" d="M5.6 8h2.8" />
        </>
    ),
};

export function StateMark({ look }: { look: StateLook }) {
    return (
        <svg
            class={`mark tone-${look.tone}`}
            width="14"
            height="14"
            viewBox="0 0 14 14"
            aria-hidden="true"
        >
            {shapes[look.shape]}
        </svg>
    );
}

function Badge({ look, name }: { look: StateLook; name: string }) {
    return (
        <span class={`badge tone-${look.tone}`} title={look.means} data-state={name}>
            <StateMark look={look} />
            {look.label}
        </span>
    );
}

/* A newer server may know states that this page does not. */
const unknown = (name: string): StateLook => ({
    label: name,
    tone: 'idle',
    shape: 'ring',
    means: name,
});

export const jobLook = (status: JobStatus): StateLook => jobStates[status] ?? unknown(status);
export const stepLook = (state: StepState): StateLook => stepStates[state] ?? unknown(state);

export const JobBadge = ({ status }: { status: JobStatus }) => (
    <Badge look={jobLook(status)} name={status} />
);
export const StepBadge = ({ state }: { state: StepState }) => (
    <Badge look={stepLook(state)} name={state} />
);
