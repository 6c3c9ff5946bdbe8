// Where steps run, and who works.

import { useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import type { Resource, Worker } from '../api/types';
import { plural } from '../format';
import { anyEvent, useQuery } from '../live/query';
import { Meter } from '../ui/bar';
import { Button } from '../ui/button';
import { ActionDialog } from '../ui/dialog';
import { Empty, Loading, PageHead, Panel, Trouble } from '../ui/page';
import { Ago, now } from '../ui/time';
import { toast } from '../ui/toast';

const TTL_MS = 60_000;

function ResourceRow({
    r,
    onDrain,
    onForget,
}: {
    r: Resource;
    onDrain: () => void;
    onForget: () => void;
}) {
    const rests = r.rested_until !== null && Date.parse(r.rested_until) > now.value;
    return (
        <tr>
            <td class="strong wrap">
                <span data-row tabIndex={-1}>
                    {r.id}
                </span>
                {r.draining && <span class="chip wait">Draining</span>}
                {rests && (
                    <span class="chip bad" title="Too many steps failed on it">
                        Cooldown until <Ago at={r.rested_until} />
                    </span>
                )}
            </td>
            <td class="wrap">
                {(r.capabilities ?? []).map((c) => (
                    <span key={c} class="chip run">
                        {c}
                    </span>
                ))}
                {Object.entries(r.labels ?? {}).map(([k, v]) => (
                    <span key={k} class="chip">
                        {k}:{v}
                    </span>
                ))}
            </td>
            <td class="bar-cell">
                <Meter used={r.used} of={r.slots} label={`${r.used} of ${r.slots} slots in use`} />
            </td>
            <td class="num">
                {r.used} / {r.slots}
            </td>
            <td class="num">{r.failures}</td>
            <td class="num faint">
                <Ago at={r.expires_at} />
            </td>
            <td class="num actions">
                <Button small kind="quiet" onClick={onDrain}>
                    {r.draining ? 'Resume' : 'Drain'}
                </Button>
                <Button
                    small
                    kind="quiet"
                    icon="close"
                    label={`Remove ${r.id}`}
                    onClick={onForget}
                />
            </td>
        </tr>
    );
}

function Workers({ workers }: { workers: Worker[] }) {
    return (
        <Panel title="Workers" aside="current lease holders" flush>
            {workers.length === 0 ? (
                <Empty icon="jobs" title="No active workers">
                    <p>Start a worker:</p>
                    <pre class="command">pawl work --kind KIND -- COMMAND</pre>
                </Empty>
            ) : (
                <div class="table-box" tabIndex={0} role="region" aria-label="Workers">
                    <table class="table">
                        <thead>
                            <tr>
                                <th>Worker</th>
                                <th>Resource</th>
                                <th class="num">Leases</th>
                                <th class="num">Last heartbeat</th>
                                <th class="num">Next lease expiry</th>
                            </tr>
                        </thead>
                        <tbody>
                            {workers.map((w) => (
                                <tr key={`${w.worker_id}/${w.resource_id}`}>
                                    <td class="mono">{w.worker_id}</td>
                                    <td>{w.resource_id ?? <span class="faint">–</span>}</td>
                                    <td class="num">{w.leases}</td>
                                    <td class="num faint">
                                        <Ago at={w.last_beat_at} />
                                    </td>
                                    <td class="num faint">
                                        <Ago at={w.expires_at} />
                                    </td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
        </Panel>
    );
}

async function load() {
    const [resources, workers] = await Promise.all([pawl.resources(), pawl.workers()]);
    return { resources: resources.resources, workers: workers.workers };
}

export function ResourcesPage() {
    const { data, error, reload } = useQuery(load, [], { stale: anyEvent, every_ms: 3000 });
    const [forgetting, setForgetting] = useState<Resource | null>(null);
    async function drain(r: Resource): Promise<void> {
        try {
            await pawl.putResource(r.id, {
                capabilities: r.capabilities ?? [],
                labels: r.labels ?? {},
                slots: r.slots,
                ttl_ms: Math.max(TTL_MS, r.expires_at ? Date.parse(r.expires_at) - Date.now() : 0),
                draining: !r.draining,
                rest: r.rest,
            });
            toast(r.draining ? `${r.id} accepts steps again` : `${r.id} accepts no new steps`);
            reload();
        } catch (failure) {
            toast((failure as Error).message, { bad: true });
        }
    }
    if (error && !data) return <Trouble error={error} retry={reload} />;
    const list = data?.resources ?? [];
    const used = list.reduce((sum, r) => sum + r.used, 0);
    const slots = list.reduce((sum, r) => sum + r.slots, 0);
    return (
        <>
            <PageHead
                title="Resources"
                says={
                    data
                        ? `${plural(list.length, 'resource')}, ${used} of ${plural(slots, 'slot')} in use; ${plural(data.workers.length, 'worker')} active.`
                        : ' '
                }
            />
            {!data ? (
                <Loading />
            ) : (
                <div class="stack">
                    <Panel title="Resources" aside="they run the steps of plans" flush>
                        {list.length === 0 ? (
                            <Empty icon="resources" title="No resources">
                                <p>
                                    A resource runs the steps of plans: a machine, a device or a worker.
                                </p>
                                <pre class="command">
                                    pawl work --resource desk-1 --kind KIND -- COMMAND
                                </pre>
                            </Empty>
                        ) : (
                            <div class="table-box" tabIndex={0} role="region" aria-label="Resources">
                                <table class="table">
                                    <thead>
                                        <tr>
                                            <th>Resource</th>
                                            <th>Capabilities and labels</th>
                                            <th>In use</th>
                                            <th class="num">Slots</th>
                                            <th class="num">Failures</th>
                                            <th class="num">Expires</th>
                                            <th class="num">
                                                <span class="offscreen">Actions</span>
                                            </th>
                                        </tr>
                                    </thead>
                                    <tbody>
                                        {list.map((r) => (
                                            <ResourceRow
                                                key={r.id}
                                                r={r}
                                                onDrain={() => void drain(r)}
                                                onForget={() => setForgetting(r)}
                                            />
                                        ))}
                                    </tbody>
                                </table>
                            </div>
                        )}
                    </Panel>
                    <Workers workers={data.workers} />
                </div>
            )}
            {forgetting && (
                <ActionDialog
                    title={`Remove ${forgetting.id}?`}
                    action="Remove resource"
                    danger
                    run={async () => {
                        await pawl.forgetResource(forgetting.id);
                        toast(`${forgetting.id} removed`);
                        reload();
                    }}
                    onClose={() => setForgetting(null)}
                >
                    <p>
                        {forgetting.used
                            ? `${plural(forgetting.used, 'step')} running on it will be retried elsewhere.`
                            : 'No steps are running on it.'}{' '}
                        It reappears if its worker registers it again.
                    </p>
                </ActionDialog>
            )}
        </>
    );
}
