// What the server answers: the members that the pages use. The whole of it is in /openapi.json.

export type JobStatus =
    | 'queued'
    | 'leased'
    | 'running'
    | 'waiting'
    | 'parked'
    | 'retrying'
    | 'completed'
    | 'failed'
    | 'cancelled'
    | 'dead_lettered';

export type StepState =
    | 'pending'
    | 'waiting_deps'
    | 'leased'
    | 'running'
    | 'succeeded'
    | 'failed_retryable'
    | 'retrying'
    | 'failed_resource'
    | 'switching_resource'
    | 'failed_fatal'
    | 'failed'
    | 'needs_user'
    | 'lease_timeout';

/** Any JSON that callers and workers have put in. Hostile: show it as text only. */
export type Json = unknown;

export interface Failure {
    class?: string;
    message?: string;
    stage?: string;
    details?: Json;
}

export interface Lease {
    worker_id: string;
    resource_id?: string | null;
    attempt: number;
    since?: string | null;
    beat_at?: string | null;
    expires_at: string;
    lease_ttl_ms?: number;
    heartbeat_ms?: number;
    timeout_at?: string | null;
}

export interface Wait {
    type: 'webhook' | 'human' | 'timer' | 'signal' | 'steps' | 'replan';
    correlation_key: string | null;
    since: string | null;
    until: string | null;
    prompt: string | null;
    choices: Json[] | null;
    assignee: string | null;
    effect: string | null;
    default_answer?: Json;
}

export interface DeadLetter {
    reason_code: string;
    stage: string | null;
    last_error: Failure | null;
    attempts: number;
    last_owner: string | null;
    at: string;
}

export interface DeadGroup {
    /** Names it to the list, to redrive and to drop. */
    group: string;
    kind: string;
    reason_code: string;
    /** Of the error, where workers tell it; else `message` is its pattern. */
    type: string | null;
    message: string | null;
    count: number;
    oldest_at: string;
    newest_at: string;
    last_error: Failure | null;
}

export interface DeadGroups {
    groups: DeadGroup[];
    counted: number;
    /** There are more than were counted. */
    more: boolean;
}

export interface RetryPolicy {
    max_attempts: number;
    strategy: string;
    initial_ms: number;
    factor: number;
    max_ms: number;
    jitter: string;
    on_exhausted: string | null;
}

export interface PlanSummary {
    version: number;
    steps: Record<
        'blocked' | 'ready' | 'active' | 'held' | 'asking' | 'succeeded' | 'failed',
        number
    >;
}

export interface Job {
    id: string;
    kind: string;
    queue: string;
    status: JobStatus;
    version: number;
    attempt: number;
    epoch: number;
    failures: number;
    priority: number;
    run_at: string | null;
    created_at: string;
    updated_at: string;
    payload?: Json;
    result?: Json;
    error: Failure | null;
    progress: Json;
    cursor: string | null;
    lease: Lease | null;
    wait: Wait | null;
    dead_letter: DeadLetter | null;
    cancel_requested: boolean;
    idempotency_key: string | null;
    correlation_id: string | null;
    traceparent: string | null;
    labels: Record<string, string> | null;
    agent_id: string | null;
    goal: string | null;
    retry: RetryPolicy;
    plan: PlanSummary | null;
    in_doubt: string | null;
    capabilities: string[] | null;
    timeout_ms: number | null;
    expires_at?: string | null;
    deadline_at?: string | null;
    pin?: string | null;
    redacted: boolean;
    /** Set, with only the id, for a job that cannot be read. */
    damaged?: string;
}

export interface JobPage {
    jobs: Job[];
    next_cursor: string | null;
}

export interface PawlEvent {
    id: string | null;
    job_id: string;
    version: number;
    type: string;
    at: string;
    actor: string | null;
    reason: string | null;
    cause: string | null;
    payload: Record<string, Json> | null;
    hash: string | null;
    position?: string;
    damaged?: boolean;
}

export interface Verified {
    ok: boolean;
    version: number;
    status: JobStatus;
    chain_head: string;
    partial?: boolean;
    violations: Record<string, Json>[];
}

export interface Explained {
    status: JobStatus;
    summary: string;
    reasons: string[];
    moves: string[];
    /** What this job takes now from this token. */
    actions: JobAction[];
}

export type JobAction =
    | 'answer'
    | 'signal'
    | 'run'
    | 'requeue'
    | 'resume'
    | 'plan'
    | 'cancel'
    | 'dead_letter'
    | 'drop'
    | 'redact';

export interface StepMove {
    version: number;
    type: string;
    at: string;
    actor: string | null;
    attempt: number | null;
    worker_id: string | null;
    resource_id: string | null;
    reason: string | null;
    verdict: string | null;
    by: string | null;
    error: Failure | null;
}

export interface Step {
    id: string;
    kind: string | null;
    state: StepState;
    deps: string[] | null;
    payload: Json;
    capabilities: string[] | null;
    selector: string | null;
    avoid: string[] | null;
    retry: RetryPolicy;
    timeout_ms: number | null;
    critic: boolean;
    on_failure: string;
    wait: Partial<Wait> | null;
    attempt: number;
    failures: number;
    not_before: string | null;
    lease: Lease | null;
    question: Wait | null;
    held: boolean;
    verdict: string | null;
    answer: Json;
    answered_by: string | null;
    answer_comment: string | null;
    result: Json;
    error: Failure | null;
    progress: Json;
    started_at: string | null;
    ended_at: string | null;
    duration_ms: number | null;
    history: StepMove[];
}

export interface Steps {
    status: JobStatus;
    plan_version: number | null;
    critical_path: { duration_ms: number; steps: string[] } | null;
    steps: Step[];
}

export interface PlanDiff {
    from: number;
    to: number;
    versions: {
        version: number;
        at: string;
        actor: string | null;
        reason: string | null;
        steps: number;
    }[];
    changes: { step: string; change: 'added' | 'removed' | 'changed'; from: Json; to: Json }[];
    same: number;
    kept: string[];
}

export interface Question {
    id: string;
    step: string | null;
    attempt: number;
    kind: string;
    queue: string;
    prompt: string | null;
    choices: Json[] | null;
    assignee: string | null;
    correlation_key: string | null;
    effect: string | null;
    since: string | null;
    until: string | null;
    default_answer: Json;
    goal: string | null;
    agent_id: string | null;
    labels: Record<string, string> | null;
    correlation_id: string | null;
    payload: Json;
    payload_left_out: boolean;
}

export interface Queue {
    queue: string;
    paused: boolean;
    depth: number;
    oldest_at: string | null;
    oldest_age_ms: number | null;
    by_status: Record<JobStatus, number>;
}

export interface Resource {
    id: string;
    capabilities: string[] | null;
    labels: Record<string, string> | null;
    slots: number;
    used: number;
    draining: boolean;
    expires_at: string | null;
    rest: { failures: number; within_ms: number; for_ms: number };
    failures: number;
    rests: number;
    rested_until: string | null;
}

export interface Worker {
    worker_id: string;
    leases: number;
    last_beat_at: string | null;
    expires_at: string | null;
    resource_id: string | null;
}

export interface KindTiming {
    kind: string;
    count: number;
    wait_ms?: { p50: number; p95: number };
    run_ms?: { p50: number; p95: number };
    total_ms?: { p50: number; p95: number };
}

export interface Stats {
    jobs: Record<JobStatus, number>;
    leases?: number;
    workers?: number;
    queues: number;
    queues_paused?: number;
    queue_depth: number;
    oldest_queued_at: string | null;
    now: string;
    /** Of the last minute. */
    recent: {
        completed_per_min: number;
        failed_per_min: number;
        wait_p50_ms?: number;
        wait_p95_ms?: number;
        run_p50_ms?: number;
        run_p95_ms?: number;
    };
    kinds?: KindTiming[];
}

export interface Counts {
    matched: number;
    done: number;
    refused: number;
    next_cursor: string | null;
}

export type Scope = 'read' | 'submit' | 'work' | 'answer' | 'admin';

export interface Session {
    /** Whether the server asks for tokens. */
    auth: boolean;
    signed_in: boolean;
    name: string | null;
    scopes: Scope[];
    queues: string[] | null;
    csrf: string | null;
}
