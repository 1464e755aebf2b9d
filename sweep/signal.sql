-- name: count old signals
SELECT COUNT(*)
FROM pawl.signals
WHERE sent_at < $1 OR name IN @list($3) AND sent_at < $2
