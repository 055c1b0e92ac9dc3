INSERT INTO hapax_answers (request, status, headers, body) VALUES (?1, ?2, ?3, ?4)
