// The plan of a job, live: graph or list, the critical path, a step, and what changed between versions.

import { useMemo, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { StepState, Steps } from '../api/types';
import { count, duration, plural } from '../format';
import { ofJob, useQuery } from '../live/query';
import { replace, to } from '../route';
import { stepStates } from '../states';
import { JobBadge, StateMark } from '../ui/badge';
import { Button } from '../ui/button';
import { Dialog } from '../ui/dialog';
import { Icon } from '../ui/icon';
import { JsonView } from '../ui/json';
import { narrow } from '../ui/narrow';
import { Empty, Loading, Trouble } from '../ui/page';
import { Ago } from '../ui/time';
import { JobActions } from './job-actions';
import { PlanGraph } from './plan-graph';
import { PlanList } from './plan-list';
import { StepPanel } from './plan-step';

function Tally({ plan }: { plan: Steps }) {
    const by = new Map<StepState, number>();
    for (const step of plan.steps) by.set(step.state, (by.get(step.state) ?? 0) + 1);
    return (
        <ul class="tally" aria-label="Steps by state">
            {(Object.keys(stepStates) as StepState[])
                .filter((state) => by.has(state))
                .map((state) => (
                    <li key={state} title={stepStates[state].means}>
                        <StateMark look={stepStates[state]} />
                        {stepStates[state].label} <b>{count(by.get(state)!)}</b>
                    </li>
                ))}
            {plan.critical_path && plan.critical_path.steps.length > 0 && (
                <li class="tally-critical" title={plan.critical_path.steps.join(' → ')}>
                    <i /> Critical path {duration(plan.critical_path.duration_ms)},{' '}
                    {plural(plan.critical_path.steps.length, 'step')}
                </li>
            )}
        </ul>
    );
}

function Changes({ id, onClose }: { id: string; onClose: () => void }) {
    const { data, error } = useQuery(() => pawl.planDiff(id), [id]);
    return (
        <Dialog title="Plan changes" onClose={onClose} wide>
            {error ? (
                <Trouble error={error} />
            ) : !data ? (
                <Loading rows={3} />
            ) : (
                <div class="dialog-content">
                    {data.versions
                        .filter((v) => v.version === data.to)
                        .map((v) => (
                            <p key={v.version}>
                                Version {data.from} → {data.to}, by {v.actor ?? 'unknown'}{' '}
                                <Ago at={v.at} />
                                {v.reason && `: ${v.reason}`}
                            </p>
                        ))}
                    {data.changes.map((change) => (
                        <details key={change.step} class="input">
                            <summary>
                                <b>{change.step}</b>{' '}
                                <span
                                    class={`chip ${change.change === 'removed' ? 'bad' : change.change === 'added' ? 'good' : 'wait'}`}
                                >
                                    {change.change}
                                </span>
                            </summary>
                            {change.from != null && (
                                <>
                                    <h3>Before</h3>
                                    <JsonView value={change.from} label="before" />
                                </>
                            )}
                            {change.to != null && (
                                <>
                                    <h3>After</h3>
                                    <JsonView value={change.to} label="after" />
                                </>
                            )}
                        </details>
                    ))}
                    <p class="faint">
                        {plural(data.same, 'step')} unchanged; results kept:{' '}
                        {data.kept.length ? data.kept.join(', ') : 'none'}.
                    </p>
                </div>
            )}
        </Dialog>
    );
}

export function PlanPage({ id, step: chosen }: { id: string; step: string | null }) {
    const mine = ofJob(id);
    const { data: plan, error, reload } = useQuery(() => pawl.planSteps(id), [id], mine);
    const { data: job, reload: reloadJob } = useQuery(() => pawl.getJob(id), [id], mine);
    const explained = useQuery(() => pawl.explainJob(id), [id], mine);
    const [view, setView] = useState<'graph' | 'list'>(narrow.value ? 'list' : 'graph');
    const [changes, setChanges] = useState(false);
    const byId = useMemo(() => new Map((plan?.steps ?? []).map((s) => [s.id, s])), [plan]);
    const done = () => {
        reload();
        reloadJob();
        explained.reload();
    };

    if (error && !plan) return <Trouble error={error} retry={reload} />;
    if (!plan || !job) return <Loading rows={8} />;
    const step = chosen ? byId.get(chosen) : undefined;
    const select = (name: string) => replace(to.plan(id, name));
    return (
        <div class="fill">
            <a class="crumb" href={to.job(id)}>
                <Icon name="back" size={14} /> {job.kind}
            </a>
            <header class="page-head">
                <div class="page-title">
                    <div class="title-line">
                        <h1>Plan</h1>
                        <JobBadge status={job.status} />
                        {(plan.plan_version ?? 1) > 1 && (
                            <span class="chip">version {plan.plan_version}</span>
                        )}
                    </div>
                    <Tally plan={plan} />
                </div>
                <div class="page-actions">
                    <div class="segmented" role="group" aria-label="View">
                        <Button pressed={view === 'graph'} onClick={() => setView('graph')}>
                            Graph
                        </Button>
                        <Button pressed={view === 'list'} onClick={() => setView('list')}>
                            List
                        </Button>
                    </div>
                    {(plan.plan_version ?? 1) > 1 && (
                        <Button onClick={() => setChanges(true)}>Changes</Button>
                    )}
                    <JobActions job={job} actions={explained.data?.actions} onDone={done} onPlan />
                </div>
            </header>
            {plan.steps.length === 0 ? (
                <Empty icon="plan" title="No plan">
                    This job has no steps. Add a plan from the Actions menu.
                </Empty>
            ) : (
                <div class={`plan${step ? ' with-step' : ''}`}>
                    {view === 'graph' ? (
                        <PlanGraph
                            steps={plan.steps}
                            critical={plan.critical_path?.steps ?? []}
                            selected={chosen}
                            onSelect={select}
                        />
                    ) : (
                        <PlanList plan={plan} selected={chosen} onSelect={select} />
                    )}
                    {step && (
                        <div class="plan-step">
                            <StepPanel
                                key={step.id}
                                id={id}
                                step={step}
                                all={byId}
                                onClose={() => replace(to.plan(id))}
                                onDone={done}
                            />
                        </div>
                    )}
                </div>
            )}
            {changes && <Changes id={id} onClose={() => setChanges(false)} />}
        </div>
    );
}
