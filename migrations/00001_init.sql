-- The memory of nightaudit. Names are always qualified: the schema may be
-- called otherwise, and a transaction pooler keeps no search_path.

-- +goose Up

-- One run and one drain per source at a time, over all processes. A holder
-- proves itself by epoch; expiry is judged by this database's clock alone.
CREATE TABLE nightaudit.leases (
    source      text NOT NULL,
    role        text NOT NULL,
    epoch       bigint NOT NULL,
    holder      text NOT NULL,
    run_id      text NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (source, role),
    CONSTRAINT leases_role CHECK (role IN ('run', 'drain'))
);

-- Everything before a stream's watermark has been fully compared.
CREATE TABLE nightaudit.streams (
    source     text NOT NULL,
    stream     text NOT NULL,
    watermark  timestamptz NOT NULL,
    -- the config's event patterns that were listed back to the beginning
    include    text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, stream)
);

CREATE TABLE nightaudit.runs (
    id          text PRIMARY KEY,
    source      text NOT NULL,
    cause       text NOT NULL,
    mode        text NOT NULL,
    dry_run     boolean NOT NULL,
    host        text NOT NULL,
    version     text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    outcome     text NOT NULL,
    -- json, not jsonb: a report is kept byte for byte
    report      json,
    CONSTRAINT runs_outcome CHECK (outcome IN ('running', 'in_sync', 'repaired', 'drift', 'held',
        'incomplete', 'failed', 'interrupted', 'nothing_to_judge', 'crashed')),
    CONSTRAINT runs_finished CHECK ((outcome = 'running') = (finished_at IS NULL))
);
CREATE INDEX runs_by_source ON nightaudit.runs (source, started_at DESC);

-- The sub-windows that were fully listed and compared. Each listed event is in
-- exactly one class, and the database itself refuses books that do not balance.
CREATE TABLE nightaudit.windows (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       text NOT NULL,
    stream       text NOT NULL,
    run_id       text NOT NULL REFERENCES nightaudit.runs (id),
    window_from  timestamptz NOT NULL,
    window_to    timestamptz NOT NULL,
    listed       integer NOT NULL,
    done         integer NOT NULL,
    missing      integer NOT NULL,
    stuck        integer NOT NULL,
    late         integer NOT NULL,
    ignored      integer NOT NULL,
    unreadable   integer NOT NULL,
    -- of missing + stuck: those that are new work, and those that earlier runs know
    planned      integer NOT NULL,
    known        integer NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- when the gate took these counts into account
    weighed_at   timestamptz,
    CONSTRAINT windows_range CHECK (window_from < window_to),
    CONSTRAINT windows_balance CHECK (listed = done + missing + stuck + late + ignored + unreadable),
    CONSTRAINT windows_work CHECK (planned + known <= missing + stuck)
);
CREATE INDEX windows_by_stream ON nightaudit.windows (source, stream, window_to DESC);
CREATE INDEX windows_by_run ON nightaudit.windows (run_id, stream);
CREATE INDEX windows_unweighed ON nightaudit.windows (source) WHERE weighed_at IS NULL;

-- What the provider's endpoints looked like. Looks that show the same are one
-- row, from the first to the last of them.
CREATE TABLE nightaudit.endpoint_looks (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source    text NOT NULL,
    stream    text NOT NULL,
    endpoints json NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    CONSTRAINT endpoint_looks_range CHECK (first_at <= last_at)
);
CREATE INDEX endpoint_looks_by_stream ON nightaudit.endpoint_looks (source, stream, id);

-- Drift. The id is made from the identity: (source, stream, key) for an event,
-- whose kind may change; with the kind for objects, endpoints and sources.
CREATE TABLE nightaudit.findings (
    id              text PRIMARY KEY,
    source          text NOT NULL,
    stream          text NOT NULL,
    scope           text NOT NULL,
    kind            text NOT NULL,
    key             text NOT NULL,
    cause           text NOT NULL,
    detail          text NOT NULL,
    state           text NOT NULL,
    resolution      text NOT NULL,
    -- the event, where the scope is event
    event_id        text NOT NULL,
    event_account   text NOT NULL,
    event_type      text NOT NULL,
    event_created   timestamptz,
    event_livemode  boolean,
    api_version     text NOT NULL,
    subject         text NOT NULL,
    -- how the newest run that listed it classed it, and which run that was
    class           text NOT NULL,
    listed_by       text NOT NULL,
    due_at          timestamptz,
    first_seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at       timestamptz,
    acknowledged_at timestamptz,
    first_run_id    text NOT NULL,
    last_run_id     text NOT NULL,
    CONSTRAINT findings_scope CHECK (scope IN ('event', 'object', 'endpoint', 'source')),
    CONSTRAINT findings_state CHECK (state IN ('open', 'closed')),
    CONSTRAINT findings_resolution CHECK (resolution IN ('', 'repaired', 'healed', 'superseded', 'gone', 'acknowledged')),
    CONSTRAINT findings_closed CHECK ((state = 'closed') = (closed_at IS NOT NULL)
        AND (state = 'closed') = (resolution <> ''))
);
CREATE INDEX findings_open ON nightaudit.findings (source, stream, id) WHERE state = 'open';
CREATE INDEX findings_by_run ON nightaudit.findings (last_run_id);
CREATE INDEX findings_listed_by ON nightaudit.findings (listed_by);

CREATE TABLE nightaudit.finding_history (
    finding_id text NOT NULL REFERENCES nightaudit.findings (id),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id     text NOT NULL,
    kind       text NOT NULL,
    state      text NOT NULL,
    why        text NOT NULL
);
CREATE INDEX finding_history_by_finding ON nightaudit.finding_history (finding_id, at);

-- The exact bytes of events that may have to be sent, and nowhere else.
CREATE TABLE nightaudit.payloads (
    finding_id text PRIMARY KEY REFERENCES nightaudit.findings (id),
    body       bytea NOT NULL,
    stored_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The queue, and the only state machine of a replay.
CREATE TABLE nightaudit.replays (
    id              text PRIMARY KEY,
    finding_id      text NOT NULL REFERENCES nightaudit.findings (id),
    source          text NOT NULL,
    stream          text NOT NULL,
    event_key       text NOT NULL,
    event_id        text NOT NULL,
    event_account   text NOT NULL,
    event_type      text NOT NULL,
    event_created   timestamptz NOT NULL,
    event_livemode  boolean,
    api_version     text NOT NULL,
    class           text NOT NULL,
    lane            text NOT NULL,
    state           text NOT NULL,
    -- why it is held; '' if it is not
    hold            text NOT NULL DEFAULT '',
    -- what a person reads about the state it is in
    reason          text NOT NULL DEFAULT '',
    attempts        integer NOT NULL DEFAULT 0,
    -- how many runs saw it acknowledged and not recorded
    unrecorded      integer NOT NULL DEFAULT 0,
    overtaken       boolean NOT NULL DEFAULT false,
    -- the feed was read for newer events of the subject up to here
    witnessed_to    timestamptz,
    replayed_from   text REFERENCES nightaudit.replays (id),
    run_id          text NOT NULL,
    planned_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_attempt_at timestamptz,
    acknowledged_at timestamptz,
    claimed_until   timestamptz,
    closed_at       timestamptz,
    CONSTRAINT replays_state CHECK (state IN ('planned', 'queued', 'held', 'acknowledged', 'repaired',
        'unrecorded', 'superseded', 'rejected', 'parked', 'cancelled')),
    CONSTRAINT replays_class CHECK (class IN ('fact', 'snapshot', 'ending')),
    CONSTRAINT replays_hold CHECK (hold IN ('', 'gate', 'lane', 'tie', 'version')
        AND (state = 'held') = (hold <> '')),
    CONSTRAINT replays_closed CHECK ((state IN ('repaired', 'superseded', 'rejected', 'parked', 'cancelled'))
        = (closed_at IS NOT NULL))
);
-- One open replay per event, however many runs or endpoints saw it.
CREATE UNIQUE INDEX replays_one_open ON nightaudit.replays (finding_id)
    WHERE state IN ('planned', 'queued', 'held', 'acknowledged', 'unrecorded');
CREATE INDEX replays_by_finding ON nightaudit.replays (finding_id, planned_at DESC);
CREATE INDEX replays_open ON nightaudit.replays (source, state, event_created, event_key)
    WHERE state IN ('planned', 'queued', 'held', 'acknowledged', 'unrecorded');
CREATE INDEX replays_held ON nightaudit.replays (source, lane, event_created, event_key)
    WHERE state = 'held' AND hold <> 'lane';
CREATE INDEX replays_lane ON nightaudit.replays (source, lane, event_created, event_key)
    WHERE state IN ('queued', 'held', 'acknowledged');
-- What a younger replay of the subject may overtake.
CREATE INDEX replays_given_up ON nightaudit.replays (source, lane)
    WHERE state IN ('parked', 'rejected', 'unrecorded') AND NOT overtaken;
-- Replays of a subject that carry state are witnesses of each other.
CREATE INDEX replays_state_carriers ON nightaudit.replays (source, lane) WHERE class IN ('snapshot', 'ending');

-- One try of a replay. A row is written before its request leaves and ended
-- once; it is never written over.
CREATE TABLE nightaudit.attempts (
    replay_id  text NOT NULL REFERENCES nightaudit.replays (id),
    number     integer NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    endpoint   text NOT NULL,
    -- what came of it; '' while it is under way
    outcome    text NOT NULL DEFAULT '',
    -- where a request that got no answer failed
    phase      text NOT NULL DEFAULT '',
    status     integer NOT NULL DEFAULT 0,
    why        text NOT NULL DEFAULT '',
    body_bytes bigint NOT NULL,
    snippet    text NOT NULL DEFAULT '',
    PRIMARY KEY (replay_id, number),
    CONSTRAINT attempts_ended CHECK ((ended_at IS NULL) = (outcome = ''))
);
CREATE INDEX attempts_under_way ON nightaudit.attempts (replay_id) WHERE ended_at IS NULL;

-- Newer events of subjects that have an open replay: what decides whether an
-- old snapshot may still be sent.
CREATE TABLE nightaudit.witnesses (
    source         text NOT NULL,
    stream         text NOT NULL,
    event_key      text NOT NULL,
    event_id       text NOT NULL,
    event_account  text NOT NULL,
    event_type     text NOT NULL,
    event_created  timestamptz NOT NULL,
    event_livemode boolean,
    lane           text NOT NULL,
    PRIMARY KEY (source, stream, event_key)
);
CREATE INDEX witnesses_by_lane ON nightaudit.witnesses (source, lane, event_created);
