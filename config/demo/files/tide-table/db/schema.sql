-- Readings of the gauge, one every ten minutes.
CREATE TABLE harbour (
    id   INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE
);

CREATE TABLE reading (
    harbour_id INTEGER NOT NULL REFERENCES harbour (id),
    taken_at   TIMESTAMP NOT NULL,
    metres     NUMERIC(5, 2) NOT NULL CHECK (metres BETWEEN -5 AND 20),
    PRIMARY KEY (harbour_id, taken_at)
);
