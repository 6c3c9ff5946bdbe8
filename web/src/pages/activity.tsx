// What has just happened, as it happens.

import { signal } from '@preact/signals';
import { shortId } from '../format';
import type { PawlEvent } from '../api/types';
import { listen } from '../live/feed';
import { to } from '../route';
import { Empty, Panel } from '../ui/page';
import { Ago } from '../ui/time';
import { eventLook, eventWords } from './event-words';

const SHOWN_MAX = 9;
const recent = signal<PawlEvent[]>([]);

/* A claim that starts at once is two events; one of them is news enough. */
listen((events) => {
    const news = events.filter(
        (event) => event.type !== 'job_leased' && event.type !== 'step_leased',
    );
    recent.value = [...news.reverse(), ...recent.value].slice(0, SHOWN_MAX);
});

export function Activity() {
    return (
        <Panel title="Recent activity" flush>
            {recent.value.length === 0 ? (
                <Empty icon="signal" title="No activity yet">
                    Events of jobs appear here as they happen.
                </Empty>
            ) : (
                <ol class="activity">
                    {recent.value.map((event) => (
                        <li key={`${event.job_id}-${event.version}`}>
                            <span class={`dot tone-${eventLook(event.type)}`} />
                            <a href={to.job(event.job_id)} class="cut">
                                {eventWords(event)}
                            </a>
                            <span class="mono faint">{shortId(event.job_id)}</span>
                            <span class="faint num">
                                <Ago at={event.at} />
                            </span>
                        </li>
                    ))}
                </ol>
            )}
        </Panel>
    );
}
