// Drawings, 24 by 24, one stroke wide.

const paths = {
    overview: 'M4 13h5V4H4zM15 20h5v-9h-5zM4 20h5v-3H4zM15 7h5V4h-5z',
    jobs: 'M8 6h12M8 12h12M8 18h12M3.5 6h.01M3.5 12h.01M3.5 18h.01',
    inbox: 'M4 13h4l2 3h4l2-3h4M5.5 5h13L21 13v6H3v-6z',
    dead: 'M4 8h16v12H4zM2.5 4h19v4h-19zM10 12h4',
    queues: 'M12 3 3 8l9 5 9-5zM3 12l9 5 9-5M3 16l9 5 9-5',
    resources: 'M5 5h14v14H5zM9 9h6v6H9zM9 2v3M15 2v3M9 19v3M15 19v3M2 9h3M2 15h3M19 9h3M19 15h3',
    search: 'M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM20 20l-4-4',
    plus: 'M12 5v14M5 12h14',
    close: 'M6 6l12 12M18 6 6 18',
    check: 'M5 12.5 10 17.5 19 7',
    down: 'M6 9l6 6 6-6',
    right: 'M9 6l6 6-6 6',
    back: 'M15 6l-6 6 6 6',
    copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
    sun: 'M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
    moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
    keys: 'M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8',
    leave: 'M10 4H5v16h5M14 8l4 4-4 4M18 12H9',
    more: 'M5 12h.01M12 12h.01M19 12h.01',
    stop: 'M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM9 9h6v6H9z',
    loop: 'M4 12a8 8 0 0 1 14-5.3L20 9M20 4v5h-5M20 12a8 8 0 0 1-14 5.3L4 15M4 20v-5h5',
    signal: 'M12 12h.01M8.5 15.5a5 5 0 0 1 0-7M15.5 8.5a5 5 0 0 1 0 7M5.5 18.5a9 9 0 0 1 0-13M18.5 5.5a9 9 0 0 1 0 13',
    erase: 'M4 16 14 6l5 5-9 9H7zM12 20h8',
    verify: 'M12 3l8 3v6c0 4.5-3.3 7.8-8 9-4.7-1.2-8-4.5-8-9V6zM8.5 12l2.5 2.5 4.5-5',
    plan: 'M4 4h5v5H4zM15 15h5v5h-5zM15 4h5v5h-5zM9 6.5h6M6.5 9v8.5H15',
    pause: 'M8 5v14M16 5v14',
    play: 'M7 4.5v15l12-7.5z',
    warn: 'M12 4 2.5 20h19zM12 10v4M12 17h.01',
    link: 'M9.5 14.5l5-5M8 11l-2 2a3.5 3.5 0 0 0 5 5l2-2M16 13l2-2a3.5 3.5 0 0 0-5-5l-2 2',
    up: 'M12 19V5M6 11l6-6 6 6',
    arrowDown: 'M12 5v14M6 13l6 6 6-6',
    fit: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
    minus: 'M5 12h14',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
    return (
        <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
            <path d={paths[name]} />
        </svg>
    );
}

export function Logo({ size = 24 }: { size?: number }) {
    return (
        <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="8" />
            <path d="M16 7.5a8.5 8.5 0 1 0 8.5 8.5M16 16l7-7.5" />
            <circle cx="16" cy="16" r="2.6" />
        </svg>
    );
}
