import type { ComponentChildren } from 'preact';
import { Icon, type IconName } from './icon';

interface Props {
    children?: ComponentChildren;
    icon?: IconName;
    kind?: 'plain' | 'primary' | 'danger' | 'quiet';
    small?: boolean;
    /** What it does, when there is no text. */
    label?: string;
    title?: string;
    disabled?: boolean;
    busy?: boolean;
    type?: 'button' | 'submit';
    onClick?: () => void;
    expanded?: boolean;
    pressed?: boolean;
    haspopup?: 'menu' | 'dialog';
}

export function Button(props: Props) {
    const {
        children,
        icon,
        kind = 'plain',
        small,
        label,
        title,
        disabled,
        busy,
        type = 'button',
        onClick,
    } = props;
    return (
        <button
            type={type}
            class={`button ${kind}${small ? ' small' : ''}${children ? '' : ' square'}`}
            aria-label={label}
            aria-expanded={props.expanded}
            aria-pressed={props.pressed}
            aria-haspopup={props.haspopup}
            aria-busy={busy || undefined}
            title={title ?? (children ? undefined : label)}
            disabled={disabled || busy}
            onClick={onClick}
        >
            {icon && <Icon name={icon} />}
            {children}
        </button>
    );
}
