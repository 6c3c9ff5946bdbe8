// The steps as a list, with their times drawn to scale.

import type { Step, Steps } from '../api/types';
import { duration, exactTime } from '../format';
import { StepBadge, stepLook } from '../ui/badge';
import { narrow } from '../ui/narrow';
import { now } from '../ui/time';
import { VirtualTable } from '../ui/virtual';

const ROW = 44;

export function PlanList({
    plan,
    selected,
    onSelect,
}: {
    plan: Steps;
    selected: string | null;
    onSelect: (id: string) => void;
}) {
    const { steps } = plan;
    const critical = new Set(plan.critical_path?.steps);
    const starts = steps.map((s) => (s.started_at ? Date.parse(s.started_at) : Infinity));
    const from = Math.min(...starts);
    const to = Math.max(
        from + 1,
        ...steps.map((s) => (s.ended_at ? Date.parse(s.ended_at) : s.started_at ? now.value : 0)),
    );
    const place = (at: number) => ((at - from) / (to - from)) * 100;

    function bar(step: Step) {
        if (!step.started_at) return null;
        const left = place(Date.parse(step.started_at));
        const right = place(step.ended_at ? Date.parse(step.ended_at) : now.value);
        return (
            <span
                class={`phase lease tone-${stepLook(step.state).tone}`}
                style={{ left: `${left}%`, width: `${Math.max(0, right - left)}%` }}
                title={`Started ${exactTime(step.started_at)}`}
            />
        );
    }
    return (
        <div class="list-panel">
            <VirtualTable
                label="Steps"
                count={steps.length}
                rowHeight={ROW}
                columns={narrow.value ? 3 : 5}
                head={
                    <tr>
                        <th>State</th>
                        <th class="main-cell">Step</th>
                        {!narrow.value && <th>Kind</th>}
                        <th class="num">Time</th>
                        {!narrow.value && <th class="gantt">When</th>}
                    </tr>
                }
                render={(i) => {
                    const step = steps[i]!;
                    return (
                        <tr
                            key={step.id}
                            class={selected === step.id ? 'shown' : undefined}
                            onClick={() => onSelect(step.id)}
                        >
                            <td>
                                <StepBadge state={step.state} />
                            </td>
                            <td class="main-cell">
                                <button
                                    type="button"
                                    data-row
                                    class="link strong"
                                    aria-pressed={selected === step.id}
                                >
                                    {step.id}
                                </button>
                                {critical.has(step.id) && (
                                    <span
                                        class="chip run"
                                        title="The longest chain of dependent steps"
                                    >
                                        critical
                                    </span>
                                )}
                            </td>
                            {!narrow.value && (
                                <td class="cut">{step.kind ?? step.wait?.type ?? '–'}</td>
                            )}
                            <td class="num">
                                {step.duration_ms === null ? '–' : duration(step.duration_ms)}
                            </td>
                            {!narrow.value && (
                                <td class="gantt">
                                    <div class="lane-track">{bar(step)}</div>
                                </td>
                            )}
                        </tr>
                    );
                }}
            />
        </div>
    );
}
