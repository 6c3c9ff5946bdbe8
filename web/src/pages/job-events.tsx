// The history of a job, event by event, with its chain of hashes.

import { useState } from 'preact/hooks';
import type { PawlEvent, Verified } from '../api/types';
import { count } from '../format';
import { Button } from '../ui/button';
import { Icon } from '../ui/icon';
import { JsonView } from '../ui/json';
import { Ago } from '../ui/time';
import { eventLook, eventWords } from './event-words';

const SHOWN = 100;

type Link = 'unknown' | 'whole' | 'broken';

const linkWords: Record<Link, string> = {
    unknown: 'Not verified yet',
    whole: 'Verified: this event and all earlier ones are unchanged',
    broken: 'Verification failed at or before this event',
};

/* A violation that names a version breaks the chain from there on; one that does not, all of it. */
function linkOf(event: PawlEvent, verified: Verified | null): Link {
    if (!verified || event.version > verified.version) return 'unknown';
    if (verified.ok) return 'whole';
    const versions = verified.violations.map((v) =>
        typeof v.version === 'number' ? v.version : 0,
    );
    return event.version >= Math.min(...versions) ? 'broken' : 'whole';
}

function Event({ event, link }: { event: PawlEvent; link: Link }) {
    const [open, setOpen] = useState(false);
    return (
        <li class={`event${open ? ' open' : ''}`}>
            <button
                type="button"
                data-row
                class="event-row"
                aria-expanded={open}
                onClick={() => setOpen(!open)}
            >
                <span class="event-version">{event.version}</span>
                <span class={`dot tone-${eventLook(event.type)}`} />
                <span class="event-words">{eventWords(event)}</span>
                <span class="event-type mono">{event.type}</span>
                <span class="event-actor faint">{event.actor}</span>
                <span
                    class={`event-hash mono link-${link}`}
                    title={`${linkWords[link]}\n${event.hash ?? ''}`}
                >
                    <Icon name={link === 'broken' ? 'warn' : 'link'} size={12} />
                    {event.hash?.slice(0, 7)}
                </span>
                <span class="event-at faint">
                    <Ago at={event.at} />
                </span>
            </button>
            {open && (
                <div class="event-more">
                    <dl class="inline-facts">
                        <div>
                            <dt>Cause</dt>
                            <dd class="mono">{event.cause ?? '–'}</dd>
                        </div>
                        <div>
                            <dt>Actor</dt>
                            <dd class="mono">{event.actor ?? '–'}</dd>
                        </div>
                        {event.reason && (
                            <div>
                                <dt>Reason</dt>
                                <dd>{event.reason}</dd>
                            </div>
                        )}
                        <div>
                            <dt>At</dt>
                            <dd class="mono">{event.at}</dd>
                        </div>
                        <div>
                            <dt>Hash</dt>
                            <dd class="mono hash">{event.hash ?? '–'}</dd>
                        </div>
                    </dl>
                    {event.damaged ? (
                        <p class="problem">The stored payload is not valid JSON.</p>
                    ) : (
                        <JsonView
                            value={event.payload}
                            label={`the payload of event ${event.version}`}
                        />
                    )}
                </div>
            )}
        </li>
    );
}

export function EventList({
    events,
    verified,
}: {
    events: PawlEvent[];
    verified: Verified | null;
}) {
    const [newestFirst, setNewestFirst] = useState(true);
    const [shown, setShown] = useState(SHOWN);
    const ordered = newestFirst ? [...events].reverse() : events;
    return (
        <div class="events">
            <div class="events-tools">
                <span class="faint">{count(events.length)} events</span>
                <Button
                    small
                    kind="quiet"
                    icon={newestFirst ? 'arrowDown' : 'up'}
                    onClick={() => setNewestFirst(!newestFirst)}
                >
                    {newestFirst ? 'Newest first' : 'Oldest first'}
                </Button>
            </div>
            <ol>
                {ordered.slice(0, shown).map((event) => (
                    <Event key={event.version} event={event} link={linkOf(event, verified)} />
                ))}
            </ol>
            {ordered.length > shown && (
                <Button kind="quiet" onClick={() => setShown(shown + 5 * SHOWN)}>
                    Show more ({count(ordered.length - shown)} left)
                </Button>
            )}
        </div>
    );
}
