-- At exclusive opening: whoever worked on these requests is dead.
UPDATE hapax_requests INDEXED BY hapax_requests_held SET until = ?1 WHERE status = 0 AND until > ?1
