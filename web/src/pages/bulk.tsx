// One thing done to many jobs: those selected, or all of a filter.

import { useEffect, useState } from 'preact/hooks';
import * as pawl from '../api/pawl';
import { count, plural } from '../format';
import { ActionDialog } from '../ui/dialog';
import { CheckField, TextField } from '../ui/field';
import { toast } from '../ui/toast';
import type { Filters } from './jobs';

export type BulkAction = 'cancel' | 'requeue';

const AT_ONCE = 8;

/** Does it to each, some at a time; says how many went and why the first of the others did not. */
export async function each(
    ids: string[],
    run: (id: string) => Promise<unknown>,
): Promise<{ done: number; refused: number; why: string }> {
    const result = { done: 0, refused: 0, why: '' };
    const left = [...ids];
    async function lane(): Promise<void> {
        for (let id = left.shift(); id !== undefined; id = left.shift()) {
            try {
                await run(id);
                result.done++;
            } catch (error) {
                result.refused++;
                result.why ||= (error as Error).message;
            }
        }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
    return result;
}

function useMatched(action: BulkAction, filter: Filters, wanted: boolean): number | null {
    const [matched, setMatched] = useState<number | null>(null);
    useEffect(() => {
        if (wanted)
            pawl.bulk({ action, filter, dry_run: true }).then(
                (counts) => setMatched(counts.matched),
                () => setMatched(null),
            );
    }, []);
    return matched;
}

async function all(body: Record<string, unknown>): Promise<{ done: number; refused: number }> {
    const sum = { done: 0, refused: 0 };
    let cursor: string | null = null;
    do {
        const counts: Awaited<ReturnType<typeof pawl.bulk>> = await pawl.bulk({
            ...body,
            cursor: cursor ?? undefined,
        });
        sum.done += counts.done;
        sum.refused += counts.refused;
        cursor = counts.next_cursor;
    } while (cursor);
    return sum;
}

interface Props {
    action: BulkAction;
    ids: string[] | null;
    filters: Filters;
    onClose: () => void;
}

export function BulkDialog({ action, ids, filters, onClose }: Props) {
    const filter = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
    const [reason, setReason] = useState('');
    const [hard, setHard] = useState(false);
    const [fresh, setFresh] = useState(false);
    const [rate, setRate] = useState('');
    const matched = useMatched(action, filter, ids === null);
    const n = ids ? ids.length : matched;
    const how = action === 'cancel' ? { mode: hard ? 'hard' : 'soft' } : { fresh };
    const why = reason || undefined;

    async function run(): Promise<void> {
        const sum = ids
            ? await each(ids, (id) =>
                  action === 'cancel'
                      ? pawl.cancelJob(id, hard ? 'hard' : 'soft', why)
                      : pawl.requeueJob(id, fresh, why),
              )
            : await all({
                  action,
                  filter,
                  ...how,
                  reason: why,
                  rate_per_s: Number(rate) || undefined,
              });
        const refused = sum.refused
            ? `, ${count(sum.refused)} refused${'why' in sum && sum.why ? `: ${sum.why}` : ''}`
            : '';
        toast(`${action === 'cancel' ? 'Cancelled' : 'Requeued'} ${count(sum.done)}${refused}`, {
            bad: sum.done === 0,
        });
    }

    const what = n === null ? 'the jobs that match' : plural(n, 'job');
    return (
        <ActionDialog
            title={`${action === 'cancel' ? 'Cancel' : 'Requeue'} ${what}?`}
            action={action === 'cancel' ? `Cancel ${what}` : `Requeue ${what}`}
            danger={action === 'cancel'}
            ready={n !== 0}
            run={run}
            onClose={onClose}
        >
            <p>
                {ids === null &&
                    (Object.keys(filter).length
                        ? 'All that pass the filters of the list now. '
                        : 'No filter is set: this is every job there is. ')}
                {action === 'cancel'
                    ? 'Those that no worker has end at once; workers are asked to stop. A cancelled job cannot be run again.'
                    : 'Failed jobs and dead letters get another life, and retrying ones go now. Others are left as they are.'}
            </p>
            <TextField
                label="Reason"
                hint="for the history"
                value={reason}
                onInput={setReason}
                autofocus
            />
            {ids === null && (
                <TextField
                    label="At most so many a second"
                    type="number"
                    min={1}
                    placeholder="as fast as it goes"
                    value={rate}
                    onInput={setRate}
                />
            )}
            {action === 'cancel' ? (
                <CheckField
                    label="Hard"
                    hint="Take them away from their workers now"
                    checked={hard}
                    onInput={setHard}
                />
            ) : (
                <CheckField
                    label="Fresh"
                    hint="Forget recorded effects, so that they are done again"
                    checked={fresh}
                    onInput={setFresh}
                />
            )}
        </ActionDialog>
    );
}
