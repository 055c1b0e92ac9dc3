//! Output that a page shows, held against the output that came.

/// Stands for any text within a line, and alone on a line for any number of lines.
const ANYTHING: &str = "…";

/// Finds each line of `pieces` in `found`, in order, so that two commands of one block cannot trade places.
pub fn find_pieces(pieces: &str, found: &str) -> Result<(), String> {
    let mut rest = found;
    for piece in pieces.lines() {
        let at = rest
            .find(piece)
            .ok_or_else(|| format!("{piece:?} is not in the output, or too early\n---\n{found}"))?;
        rest = &rest[at + piece.len()..];
    }
    Ok(())
}

/// Compares the whole output with what the page shows.
pub fn match_whole(shown: &str, found: &str) -> Result<(), String> {
    let shown: Vec<&str> = shown.trim().lines().map(str::trim_end).collect();
    let lines: Vec<&str> = found.trim().lines().map(str::trim_end).collect();
    if matches_lines(&shown, &lines) {
        return Ok(());
    }
    Err(format!("the page shows\n{}\n--- and this came\n{}", shown.join("\n"), found.trim()))
}

fn matches_lines(shown: &[&str], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((&first, rest)) if first.trim() == ANYTHING => {
            (0..=lines.len()).any(|skipped| matches_lines(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| matches_line(first, line) && matches_lines(rest, others)),
    }
}

fn matches_line(shown: &str, line: &str) -> bool {
    let mut pieces = shown.split(ANYTHING);
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn whole_output_is_compared_line_by_line_with_wildcards() {
    match_whole("a … c\n…\nend", "a b c\n1\n2\nend\n").unwrap();
    match_whole("same", "same  \n").unwrap();
    match_whole("run_… made", "run_1 found").unwrap_err();
    match_whole("one", "one\ntwo").unwrap_err();
}

#[test]
fn pieces_are_found_in_order() {
    find_pieces("201\n200", "HTTP 201 Created\nHTTP 200 OK").unwrap();
    find_pieces("200\n201", "HTTP 201 Created\nHTTP 200 OK").unwrap_err();
}
