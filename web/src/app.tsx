// The frame around the pages: navigation, the state of the connection, and what is open above them.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary } from 'preact/hooks';
import * as pawl from './api/pawl';
import { locked, session, signOut } from './api/client';
import { short } from './format';
import { helpOpen, KeyHelp, useGlobalKeys } from './keys';
import { connection } from './live/feed';
import { useQuery } from './live/query';
import { DeadPage } from './pages/dead';
import { InboxPage } from './pages/inbox';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { OverviewPage } from './pages/overview';
import { PlanPage } from './pages/plan';
import { QueuesPage } from './pages/queues';
import { ResourcesPage } from './pages/resources';
import { SignInPage } from './pages/signin';
import { openSubmit, SubmitHost } from './pages/submit';
import { route, to } from './route';
import { isDark, theme, toggleTheme } from './theme';
import { Button } from './ui/button';
import { Icon, type IconName, Logo } from './ui/icon';
import { Empty, Trouble } from './ui/page';
import { Toasts, toast } from './ui/toast';

interface Place {
    page: string;
    label: string;
    short: string;
    icon: IconName;
    href: string;
}

const places: Place[] = [
    {
        page: 'overview',
        label: 'Overview',
        short: 'Overview',
        icon: 'overview',
        href: to.overview(),
    },
    { page: 'jobs', label: 'Jobs', short: 'Jobs', icon: 'jobs', href: to.jobs() },
    { page: 'inbox', label: 'Inbox', short: 'Inbox', icon: 'inbox', href: to.inbox() },
    { page: 'dead', label: 'Dead letters', short: 'Dead', icon: 'dead', href: to.dead() },
    { page: 'queues', label: 'Queues', short: 'Queues', icon: 'queues', href: to.queues() },
    {
        page: 'resources',
        label: 'Resources',
        short: 'Resources',
        icon: 'resources',
        href: to.resources(),
    },
];

const counts = signal<Record<string, number>>({});
/* Whether there are more questions than one page of them. */
const more = signal(false);

const moved = (type: string): boolean =>
    /^(job_waiting|wait_completed|job_dead_lettered|job_requeued|job_cancelled|step_needs_user|step_running|signal_received)$/.test(
        type,
    );

/* How much needs a person, beside the pages where it is dealt with. */
function useCounts(): void {
    const { data } = useQuery(
        async () => {
            const [questions, stats] = await Promise.all([pawl.inbox(), pawl.stats()]);
            more.value = questions.next_cursor !== null;
            return { inbox: questions.questions.length, dead: stats.jobs.dead_lettered };
        },
        [],
        { stale: (event) => moved(event.type), every_ms: 10_000 },
    );
    useEffect(() => {
        if (data) counts.value = data;
    }, [data]);
}

function Nav() {
    const at = route.value.page;
    const current = at === 'job' || at === 'plan' ? 'jobs' : at;
    return (
        <nav aria-label="Pages">
            <ul>
                {places.map((place) => {
                    const n = counts.value[place.page] ?? 0;
                    const said = short(n) + (place.page === 'inbox' && more.value ? '+' : '');
                    return (
                        <li key={place.page}>
                            <a
                                href={place.href}
                                aria-current={current === place.page ? 'page' : undefined}
                            >
                                <Icon name={place.icon} size={18} />
                                <span class="nav-long">{place.label}</span>
                                <span class="nav-short" aria-hidden="true">
                                    {place.short}
                                </span>
                                {n > 0 && <span class="nav-count">{said}</span>}
                            </a>
                        </li>
                    );
                })}
            </ul>
        </nav>
    );
}

const connectionWords = {
    connecting: 'Connecting',
    live: 'Live',
    lost: 'Reconnecting',
    off: 'Not live',
} as const;

function Tools() {
    theme.value;
    const dark = isDark();
    const who = session.value;
    return (
        <div class="tools">
            <span class={`connection ${connection.value}`} role="status">
                <i />
                {connectionWords[connection.value]}
            </span>
            <span class="tools-buttons">
                <Button
                    small
                    kind="quiet"
                    icon="keys"
                    label="Keyboard shortcuts"
                    onClick={() => (helpOpen.value = true)}
                />
                <Button
                    small
                    kind="quiet"
                    icon={dark ? 'sun' : 'moon'}
                    label={dark ? 'Light theme' : 'Dark theme'}
                    onClick={toggleTheme}
                />
                {who?.auth && who.signed_in && (
                    <Button
                        small
                        kind="quiet"
                        icon="leave"
                        label={`Sign out${who.name ? ` ${who.name}` : ''}`}
                        onClick={() =>
                            signOut().catch((error: Error) => toast(error.message, { bad: true }))
                        }
                    />
                )}
            </span>
        </div>
    );
}

function LostBanner() {
    if (connection.value !== 'lost') return null;
    return (
        <div class="banner" role="alert">
            <span class="banner-spin" />
            Server not responding. Reconnecting; the data shown may be out of date.
        </div>
    );
}

function Page() {
    const at = route.value;
    switch (at.page) {
        case 'overview':
            return <OverviewPage />;
        case 'jobs':
            return <JobsPage query={at.query} />;
        case 'job':
            return <JobPage key={at.id} id={at.id} tab={at.tab} />;
        case 'plan':
            return <PlanPage key={at.id} id={at.id} step={at.step} />;
        case 'inbox':
            return <InboxPage />;
        case 'dead':
            return <DeadPage query={at.query} />;
        case 'queues':
            return <QueuesPage />;
        case 'resources':
            return <ResourcesPage />;
        case 'lost':
            return (
                <Empty icon="search" title="Page not found">
                    <a href={to.overview()}>Go to the overview</a>
                </Empty>
            );
    }
}

/* A page that stumbles over something takes only itself down. */
function Guarded({ children }: { children: ComponentChildren }) {
    const [error, reset] = useErrorBoundary((cause) => console.error(cause));
    if (error) return <Trouble error={error as Error} retry={reset} />;
    return <>{children}</>;
}

function Shell() {
    useCounts();
    useGlobalKeys();
    return (
        <div class="shell">
            <a
                class="skip"
                href="#main"
                onClick={(event) => {
                    event.preventDefault();
                    document.getElementById('main')?.focus();
                }}
            >
                Skip to content
            </a>
            <aside class="side">
                <a class="brand" href={to.overview()} aria-label="Pawl overview">
                    <Logo />
                    <span>Pawl</span>
                </a>
                <Button kind="primary" icon="plus" onClick={() => openSubmit()}>
                    Submit
                </Button>
                <Nav />
                <Tools />
            </aside>
            <main id="main" tabIndex={-1}>
                <LostBanner />
                <Guarded key={route.value.page}>
                    <Page />
                </Guarded>
            </main>
            <SubmitHost />
            <KeyHelp />
        </div>
    );
}

/* Before the server has said who we are. */
function Hello() {
    return (
        <main class="hello" aria-busy="true">
            <p role="status">
                {connection.value === 'lost'
                    ? 'Server not responding. Retrying…'
                    : 'Connecting…'}
            </p>
        </main>
    );
}

export function App() {
    return (
        <>
            {locked.value ? <SignInPage /> : session.value ? <Shell /> : <Hello />}
            <Toasts />
        </>
    );
}
