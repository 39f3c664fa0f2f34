-- The range of each day: how far the water rose and fell.
SELECT
    harbour.slug,
    CAST(reading.taken_at AS DATE) AS day,
    MAX(reading.metres) - MIN(reading.metres) AS range_in_metres
FROM reading
JOIN harbour ON harbour.id = reading.harbour_id
GROUP BY harbour.slug, CAST(reading.taken_at AS DATE)
HAVING COUNT(*) >= 140  -- a day with gaps would look calmer than it was
ORDER BY harbour.slug, day;
