// What every page has: a head with first words, and designed states for loading, nothing, and trouble.

import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { OutOfReach, Problem } from '../api/client';
import { Button } from './button';
import { Icon, type IconName } from './icon';

interface HeadProps {
    title: string;
    /** What is to be known at first sight, in a sentence. */
    says?: ComponentChildren;
    children?: ComponentChildren;
}

export function PageHead({ title, says, children }: HeadProps) {
    useEffect(() => {
        document.title = `${title} · Pawl`;
    }, [title]);
    return (
        <header class="page-head">
            <div class="page-title">
                <h1>{title}</h1>
                {says && <p>{says}</p>}
            </div>
            {children && <div class="page-actions">{children}</div>}
        </header>
    );
}

export function Panel({
    title,
    aside,
    children,
    flush,
}: {
    title?: ComponentChildren;
    aside?: ComponentChildren;
    children: ComponentChildren;
    flush?: boolean;
}) {
    return (
        <section class={`panel${flush ? ' flush' : ''}`}>
            {title && (
                <header>
                    <h2>{title}</h2>
                    {aside && <div class="aside">{aside}</div>}
                </header>
            )}
            {children}
        </section>
    );
}

export function Empty({
    icon,
    title,
    children,
}: {
    icon: IconName;
    title: string;
    children?: ComponentChildren;
}) {
    return (
        <div class="empty">
            <span class="empty-icon">
                <Icon name={icon} size={22} />
            </span>
            <h3>{title}</h3>
            {children && <div class="empty-says">{children}</div>}
        </div>
    );
}

export function Loading({ rows = 6 }: { rows?: number }) {
    return (
        <div class="skeleton" role="status" aria-label="Loading">
            {Array.from({ length: rows }, (_, i) => (
                <span key={i} />
            ))}
        </div>
    );
}

function headline(error: Error): string {
    if (error instanceof OutOfReach) return 'Server not responding';
    if (!(error instanceof Problem)) return 'This page failed to load';
    if (error.status === 404) return 'Not found';
    if (error.status === 403) return 'Access denied';
    return error.title || 'Request rejected';
}

export function Trouble({ error, retry }: { error: Error; retry?: () => void }) {
    return (
        <div class="empty trouble" role="alert">
            <span class="empty-icon">
                <Icon name="warn" size={22} />
            </span>
            <h3>{headline(error)}</h3>
            <p class="empty-says">{error.message}</p>
            {retry && <Button onClick={retry}>Try again</Button>}
        </div>
    );
}
