CREATE SCHEMA cluster_holds;
SET search_path = cluster_holds;

CREATE TABLE schema_version (version integer NOT NULL);

CREATE TABLE stock (
    item integer PRIMARY KEY,
    -- Wide enough that the pieces of no hold overflow it: that would end each worker that releases the hold.
    total bigint NOT NULL,
    free bigint NOT NULL CHECK (free >= 0)
);

-- A worker's right to end holds, until `expires` by the clock of the database. A renewal locks the lease, and is
-- refused if it has expired by then: its worker takes another one, with a new epoch.
CREATE TABLE leases (
    epoch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker text NOT NULL,
    expires timestamptz NOT NULL
);

CREATE TABLE holds (
    -- Chosen by the shop, so that it can repeat a request.
    id bigint PRIMARY KEY,
    item integer NOT NULL REFERENCES stock,
    quantity integer NOT NULL CHECK (quantity > 0),
    -- No worker could translate an infinite deadline to its clock.
    due timestamptz NOT NULL CHECK (isfinite(due)),
    -- The lease under which a worker has claimed the hold. No foreign key: old leases are removed, and a claim locks its
    -- lease itself.
    epoch bigint,
    -- Each claim counts. The run compares the number with the takeovers.
    claims integer NOT NULL DEFAULT 0,
    -- The one reading of the clock that decided: the deadline and the lease were compared with it.
    ended timestamptz
);
-- What a claim reads: unclaimed holds by deadline, and the claims of one lease.
CREATE INDEX holds_unclaimed ON holds (due) WHERE ended IS NULL AND epoch IS NULL;
CREATE INDEX holds_claimed ON holds (epoch) WHERE ended IS NULL AND epoch IS NOT NULL;

-- One row for each time that a hold ended. No key forbids a second row: the run checks that there is none. `at` is read
-- after all locks were waited for.
CREATE TABLE ends (
    hold bigint NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('paid', 'released')),
    at timestamptz NOT NULL,
    epoch bigint
);

-- Leases that have expired or were removed, and that have left holds. A claim may commit after its lease was removed.
-- Steps from each epoch to the next one: the index is long, and has few epochs.
CREATE VIEW dead_leases AS
    WITH RECURSIVE claimed AS (
        SELECT min(epoch) AS epoch FROM holds WHERE ended IS NULL AND epoch IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holds.epoch) FROM holds WHERE ended IS NULL AND holds.epoch > claimed.epoch)
        FROM claimed WHERE claimed.epoch IS NOT NULL)
    SELECT claimed.epoch, expires FROM claimed LEFT JOIN leases USING (epoch)
    WHERE claimed.epoch IS NOT NULL AND (expires IS NULL OR expires <= clock_timestamp());

-- One row for each hold that was taken over from a dead lease; `expired` is null if that was removed.
CREATE TABLE takeovers (
    hold bigint NOT NULL,
    old_epoch bigint NOT NULL,
    new_epoch bigint NOT NULL,
    expired timestamptz,
    at timestamptz NOT NULL
);

CREATE FUNCTION micros(timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (extract(epoch FROM $1) * 1000000)::bigint;
