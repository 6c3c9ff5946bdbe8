// A button that opens a list of things to do.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button } from './button';
import { Icon, type IconName } from './icon';

export interface MenuItem {
    label: string;
    icon: IconName;
    danger?: boolean;
    /** Why it cannot be done now; absent: it can. */
    not?: string;
    run: () => void;
}

export function Menu({ label, items }: { label: string; items: MenuItem[] }) {
    const [open, setOpen] = useState(false);
    const box = useRef<HTMLDivElement>(null);

    // Before the next key comes.
    useLayoutEffect(() => {
        if (!open) return;
        box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
        const outside = (event: Event) => {
            if (!box.current?.contains(event.target as Node)) setOpen(false);
        };
        document.addEventListener('pointerdown', outside);
        return () => document.removeEventListener('pointerdown', outside);
    }, [open]);

    function onKeyDown(event: KeyboardEvent): void {
        const all = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
        const at = all.indexOf(document.activeElement as HTMLElement);
        if (event.key === 'Escape' && open) {
            setOpen(false);
            box.current?.querySelector('button')?.focus();
        } else if (event.key === 'ArrowDown') all[(at + 1) % all.length]?.focus();
        else if (event.key === 'ArrowUp') all[(at - 1 + all.length) % all.length]?.focus();
        else return;
        event.preventDefault();
        event.stopPropagation();
    }

    return (
        <div class="menu" ref={box} onKeyDown={onKeyDown}>
            <Button haspopup="menu" expanded={open} onClick={() => setOpen(!open)}>
                {label}
                <Icon name="down" size={14} />
            </Button>
            {open && (
                <div class="menu-list" role="menu">
                    {items.map((item) => (
                        <button
                            key={item.label}
                            type="button"
                            role="menuitem"
                            class={item.danger ? 'danger' : undefined}
                            aria-disabled={item.not ? true : undefined}
                            title={item.not}
                            onClick={() => {
                                if (item.not) return;
                                setOpen(false);
                                item.run();
                            }}
                        >
                            <Icon name={item.icon} />
                            {item.label}
                        </button>
                    ))}
                </div>
            )}
        </div>
    );
}
