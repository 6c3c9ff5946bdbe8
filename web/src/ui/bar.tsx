// Parts of a whole in one line.

import { count } from '../format';
import type { JobStatus } from '../api/types';
import { jobStates, jobStatuses } from '../states';

export function StatusBar({ by }: { by: Partial<Record<JobStatus, number>> }) {
    const shown = jobStatuses.filter((status) => (by[status] ?? 0) > 0);
    const said = shown
        .map((status) => `${jobStates[status].label} ${count(by[status] ?? 0)}`)
        .join(', ');
    return (
        <div class="status-bar" role="img" aria-label={said || 'no jobs'} title={said}>
            {shown.map((status) => (
                <span
                    key={status}
                    class={`tone-${jobStates[status].tone} is-${status}`}
                    style={{ flexGrow: by[status] ?? 0 }}
                />
            ))}
        </div>
    );
}

export function Meter({ used, of, label }: { used: number; of: number; label: string }) {
    const part = of > 0 ? Math.min(1, used / of) : 0;
    return (
        <div class={`meter${part >= 1 ? ' full' : ''}`} role="img" aria-label={label} title={label}>
            <span style={{ width: `${part * 100}%` }} />
        </div>
    );
}
