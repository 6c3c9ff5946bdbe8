// For servers that ask for tokens. The token goes to the server once, which keeps it in a cookie that
// scripts cannot read.

import { useState } from 'preact/hooks';
import { Problem, signIn } from '../api/client';
import { connect } from '../live/feed';
import { Button } from '../ui/button';
import { TextField } from '../ui/field';
import { Logo } from '../ui/icon';

export function SignInPage() {
    const [token, setToken] = useState('');
    const [problem, setProblem] = useState<string | null>(null);
    const [busy, setBusy] = useState(false);

    async function submit(event: Event): Promise<void> {
        event.preventDefault();
        setBusy(true);
        setProblem(null);
        try {
            await signIn(token.trim());
            void connect();
        } catch (error) {
            const wrong = error instanceof Problem && error.status === 401;
            setProblem(
                wrong
                    ? 'Unknown or expired token.'
                    : (error as Error).message,
            );
            setBusy(false);
        }
    }

    return (
        <main class="signin" id="main">
            <form onSubmit={submit}>
                <Logo size={40} />
                <h1>Sign in to Pawl</h1>
                <p>This server requires an access token. An administrator can create one with:</p>
                <pre class="command" tabIndex={0}>
                    pawl token create NAME --scope read
                </pre>
                <TextField
                    label="Access token"
                    type="password"
                    value={token}
                    onInput={setToken}
                    placeholder="pawl_…"
                    required
                    autofocus
                />
                {problem && (
                    <p class="problem" role="alert">
                        {problem}
                    </p>
                )}
                <Button type="submit" kind="primary" busy={busy}>
                    Sign in
                </Button>
            </form>
        </main>
    );
}
