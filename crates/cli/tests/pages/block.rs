//! Fenced blocks of a page.

/// One fenced block.
#[derive(Debug)]
pub struct Block {
    /// Line of the page where its fence is, counted from 1.
    pub line: usize,
    pub kind: Kind,
    pub body: String,
}

/// How the test treats a block of a page.
#[derive(Debug)]
pub enum Kind {
    Script {
        must_fail: bool,
        /// True if the commands need the PostgreSQL server at `db.internal`.
        needs_postgres: bool,
    },
    /// One command that goes on until the page ends, such as a server.
    Serves,
    Console(Vec<Command>),
    Output,
    NotRun {
        reason: String,
    },
    File {
        name: String,
    },
    /// Only shown.
    Text,
}

/// One command of a console block, and the output the page shows for it.
#[derive(Debug)]
pub struct Command {
    /// Line of the page, counted from 1.
    pub line: usize,
    pub script: Vec<String>,
    pub shown: Vec<String>,
}

/// Reads the blocks of a page. An error begins with the line number.
pub fn read_blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let line = number + 1;
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let kind = read_kind(info, line, &body).map_err(|wrong| format!("{line}: {wrong}"))?;
        blocks.push(Block { line, kind, body: body.join("\n") });
    }
    Ok(blocks)
}

fn read_kind(info: &str, line: usize, body: &[&str]) -> Result<Kind, String> {
    let words: Vec<&str> = info.split_whitespace().collect();
    let language = *words.first().ok_or("a block names its language; `text` if it has none")?;
    if let Some(reason) = words.iter().find_map(|word| word.strip_prefix("norun-")) {
        return Ok(Kind::NotRun { reason: reason.to_owned() });
    }
    if let Some(name) = body.first().and_then(|first| read_file_name(first)) {
        return Ok(Kind::File { name });
    }
    match (language, &words[1..]) {
        ("sh", []) => Ok(Kind::Script { must_fail: false, needs_postgres: false }),
        ("sh", ["fails"]) => Ok(Kind::Script { must_fail: true, needs_postgres: false }),
        ("sh", ["postgres"]) => Ok(Kind::Script { must_fail: false, needs_postgres: true }),
        ("sh", ["serves"]) => match body {
            [_] => Ok(Kind::Serves),
            _ => Err(format!("{line}: a block that serves has one command")),
        },
        ("console", []) => read_commands(line, body).map(Kind::Console),
        ("output", []) => Ok(Kind::Output),
        ("sh" | "bash" | "shell" | "console" | "output", _) => Err(format!("no block is called {info:?}")),
        _ => Ok(Kind::Text),
    }
}

/// Reads the file's name from a first line such as `# order.yaml`.
fn read_file_name(first: &str) -> Option<String> {
    let name = first.strip_prefix("# ")?;
    let is_plain = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter));
    (is_plain && name.contains('.')).then(|| name.to_owned())
}

fn read_commands(line: usize, body: &[&str]) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    for (number, text) in body.iter().enumerate() {
        if let Some(script) = text.strip_prefix("$ ") {
            let line = line + 1 + number;
            commands.push(Command { line, script: vec![script.to_owned()], shown: Vec::new() });
            continue;
        }
        let command = commands.last_mut().ok_or("a console block begins with `$ `")?;
        match text.strip_prefix("> ").filter(|_| command.shown.is_empty()) {
            Some(more) => command.script.push(more.to_owned()),
            None => command.shown.push((*text).to_owned()),
        }
    }
    Ok(commands)
}
