//! Pages of the documentation whose commands are run: fenced blocks, and answers that stand under them.

/// The fenced blocks of a page, with what their fences say.
pub fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((fence, body.join("\n")));
        }
    }
    found
}

/// Finds each line of `answers` in the output of `script`, in order, so that two calls of one block cannot trade places.
pub fn check_answers(answers: &str, script: &str, came: &str) {
    let mut rest = came;
    for expected in answers.lines() {
        match rest.find(expected) {
            Some(at) => rest = &rest[at + expected.len()..],
            None => panic!("{expected:?} is not in what came of\n{script}\n---\n{came}"),
        }
    }
}
