INSERT INTO accounts_user (username, username_key, uuid, password, is_superuser, display_name,
    display_name_key, email, is_active, is_staff, created_at, credentials_version, deactivations,
    wants_mail)
SELECT 'crowd-' || n, 'crowd-' || n, gen_random_uuid(), '', false, '', '', '', true, false, now(),
    0, 0, false
FROM generate_series(1, {teams}) n;

INSERT INTO teams_team (uuid, name, slug, is_active, created_at, updated_at)
SELECT gen_random_uuid(), 'Crowd', 'crowd-' || n, true, now(), now()
FROM generate_series(1, {teams}) n;

CREATE TEMPORARY TABLE crowd AS
SELECT row_number() OVER (ORDER BY team.id) AS n, team.id AS team, person.id AS person
FROM teams_team team JOIN accounts_user person ON person.username_key = team.slug
WHERE team.slug LIKE 'crowd-%';
CREATE UNIQUE INDEX ON crowd (n);

INSERT INTO teams_member (team_id, user_id, role, created_at)
SELECT team, person, 'member', now() FROM crowd;

INSERT INTO repos_repo (uuid, name, slug, visibility, default_branch, is_empty, is_archived,
    last_number, created_at, updated_at, owner_team_id, fork_count)
SELECT gen_random_uuid(), 'Repo', 'repo-' || m, 'private', 'main', false, false, 0, now(), now(),
    crowd.team, 0
FROM generate_series(1, {repos}) m CROSS JOIN LATERAL (SELECT (m - 1) / {each} + 1 AS n) place
JOIN crowd USING (n);

CREATE TEMPORARY TABLE place AS
SELECT row_number() OVER (ORDER BY id) AS n, id FROM repos_repo WHERE name = 'Repo';
CREATE UNIQUE INDEX ON place (n);
ANALYZE crowd;
ANALYZE place;

INSERT INTO threads_thread (uuid, number, title, body, kind, priority, status, last_reply_number,
    reply_count, participant_count, last_activity_at, created_at, updated_at, created_by_id,
    repo_id, version, body_html, html_version)
SELECT gen_random_uuid(), m, 'Slow pushes ' || m, '',
    CASE WHEN m % 2 = 0 THEN 'pull' WHEN m % 10007 = 1 THEN 'announcement' ELSE 'issue' END,
    CASE WHEN m % 10007 = 3 THEN 'urgent' ELSE 'normal' END,
    CASE WHEN m % 1009 < 2 THEN 'open' WHEN m % 2 = 0 THEN 'resolved' ELSE 'closed' END,
    0, 0, 1, at, at, at, crowd.person, place.id, 1, '', 0
FROM generate_series(1::bigint, {rows}) m
CROSS JOIN LATERAL (
    SELECT CASE WHEN m % 10 < 2 THEN 1 ELSE m * 7919 / 10 % {repos} + 1 END AS place_n,
        m * 31 % {teams} + 1 AS crowd_n
) spread
JOIN place ON place.n = place_n JOIN crowd ON crowd.n = crowd_n
CROSS JOIN LATERAL (
    SELECT now() - (CASE WHEN place_n % 10 = 0 THEN 1 ELSE 0 END) * interval '1 year'
        - (m * 7919 % {rows}) * interval '10 seconds' AS at
) time;

INSERT INTO pulls_pull (number, uuid, source_branch, target_branch, status, commit_count, additions,
    deletions, changed_files, updated_at, repo_id, thread_id, source_repo_id, source_moved)
SELECT number, gen_random_uuid(), 'topic', 'main',
    CASE status WHEN 'open' THEN 'open' ELSE 'merged' END, 1, 1, 1, 1, now(), repo_id, id, repo_id,
    false
FROM threads_thread WHERE kind = 'pull' AND title LIKE 'Slow pushes %';

INSERT INTO threads_reply (uuid, number, path, depth, live_descendants, kind, status, body, links,
    version, created_at, updated_at, created_by_id, thread_id, body_html, html_version)
SELECT gen_random_uuid(), 1, '1', 0, 0, 'comment', 'open', '', '[]', 1, now(), now(),
    crowd.person, thread.id, '', 0
FROM threads_thread thread JOIN crowd ON crowd.n = thread.number * 17 % {teams} + 1
WHERE thread.number % 4 = 0 AND title LIKE 'Slow pushes %';

INSERT INTO pulls_review (uuid, status, body, commit_sha, created_at, updated_at, created_by_id,
    pull_id, decided_at, by_pusher, body_html, html_version)
SELECT gen_random_uuid(), 'approved', '', NULL, now(), now(), crowd.person, pull.id, now(), false,
    '', 0
FROM pulls_pull pull JOIN crowd ON crowd.n = pull.number * 13 % {teams} + 1
WHERE pull.number % 8 = 0 AND pull.status = 'merged' AND pull.source_branch = 'topic';

INSERT INTO repos_protection (uuid, branch, required_approvals, created_at, updated_at,
    created_by_id, repo_id)
SELECT gen_random_uuid(), 'ma*', 1, now(), now(), crowd.person, place.id
FROM place JOIN crowd ON crowd.n = (place.n - 1) / {each} + 1;

INSERT INTO repos_approver (protection_id, user_id, created_at)
SELECT id, created_by_id, now() FROM repos_protection WHERE branch = 'ma*' AND id % 2 = 0;

DROP TABLE crowd;
DROP TABLE place;
