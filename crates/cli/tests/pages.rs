//! Runs every command of README.md, CONTRIBUTING.md and docs, page by page and as written: in an empty folder, in a fresh
//! shell where only PATH and HOME are set.
//!
//! | fence | meaning |
//! |---|---|
//! | `sh` | Commands. Each must succeed. |
//! | `sh fails` | Commands. At least one must fail. |
//! | `sh serves` | A server. It goes on until the page ends; the next block runs once it listens on port 7171. |
//! | `sh postgres` | Commands that use the PostgreSQL server at `db.internal`, which the test starts. |
//! | `console` | Lines that begin with `$ ` are commands; the lines below them are their whole output, with `…` for anything. |
//! | `output`, right under `sh` | Pieces of the output, one on a line, that appear in this order. |
//! | `sh norun-REASON` | Commands that this machine cannot run. [`NOT_RUN`] lists the reasons and bounds their number. |
//! | `yaml` and others with `# NAME` in the first line | The file NAME. |
//!
//! All blocks of a page run in one shell, so variables and servers in the background last until its end. `hapax dev` takes its
//! default port: each page has a network namespace of its own, or waits for the pages before it where there are none.

mod pages {
    pub mod block;
    pub mod expected;
    pub mod shell;
}

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pages::block::{Block, Kind, read_blocks};
use pages::{expected, shell};

/// Reasons for not running a block, and how many blocks may give each.
const NOT_RUN: &[(&str, usize)] = &[
    // `cargo xtask verify`, which runs this test.
    ("checkout", 1),
    // Needs packages that `cargo xtask dist` makes; `cargo xtask try-packages` runs them.
    ("packages", 2),
    ("systemd", 2),
    ("container", 1),
    ("kubernetes", 3),
    // Needs grpcio-tools of PyPI; the test of the page in sdk/python/tests/server runs it.
    ("grpcio", 1),
];

macro_rules! pages {
    ($($(#[$about:meta])* fn $name:ident = $path:literal;)*) => {
        /// The pages with commands. `every_page_with_commands_is_run` looks for others.
        const PAGES: &[&str] = &[$($path),*];
        $($(#[$about])*
        #[test]
        fn $name() {
            run_page($path);
        })*
    };
}

pages! {
    fn the_readme_runs = "README.md";
    fn contributing_runs = "CONTRIBUTING.md";
    fn quickstart_runs = "docs/quickstart.md";
    fn deployment_runs = "docs/deployment.md";
    /// S1.19, S1.24-S1.29, S1.46, S2.3, S2.44, S2.46
    fn entities_runs = "docs/entities.md";
    /// S2.31, S2.32, S0.4 to S0.7, S0.13, S0.14
    fn http_contract_runs = "docs/http-contract.md";
    fn install_runs = "docs/install.md";
    fn operations_runs = "docs/operations.md";
    fn push_runs = "docs/push.md";
    fn troubleshooting_runs = "docs/troubleshooting.md";
    fn webhooks_runs = "docs/webhooks.md";
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn blocks_of(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    read_blocks(&text).unwrap_or_else(|wrong| panic!("{page}:{wrong}"))
}

fn run_page(page: &str) {
    let blocks = blocks_of(page);
    let outputs = shell::run(page, &blocks).unwrap_or_else(|failure| panic!("{failure}"));
    for (index, block) in blocks.iter().enumerate() {
        let checked = match &block.kind {
            Kind::Console(commands) => commands.iter().try_for_each(|command| {
                let shown = command.shown.join("\n");
                let found = outputs.get(&command.line).map_or("", String::as_str);
                if shown.is_empty() { Ok(()) } else { expected::match_whole(&shown, found) }
            }),
            Kind::Output => {
                let above = blocks[..index].last().filter(|above| matches!(above.kind, Kind::Script { .. }));
                let above =
                    above.unwrap_or_else(|| panic!("{page}:{}: no commands stand above it", block.line));
                let found = outputs.get(&above.line).map_or("", String::as_str);
                expected::find_pieces(&block.body, found)
            }
            _ => Ok(()),
        };
        if let Err(wrong) = checked {
            panic!("{page}:{}: {wrong}", block.line);
        }
    }
}

#[test]
fn every_page_with_commands_is_run() {
    let mut forgotten = Vec::new();
    for page in list_pages() {
        let has_commands = blocks_of(&page)
            .iter()
            .any(|block| matches!(block.kind, Kind::Script { .. } | Kind::Serves | Kind::Console(_)));
        if has_commands && !PAGES.contains(&page.as_str()) {
            forgotten.push(page);
        }
    }
    assert!(forgotten.is_empty(), "add them to `pages!`: {forgotten:?}");
}

/// Prints the blocks that are not run (`--no-capture`), and bounds how many there are.
#[test]
fn few_blocks_are_not_run_and_each_says_why() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in list_pages() {
        for block in blocks_of(&page) {
            if let Kind::NotRun { reason } = block.kind {
                found.entry(reason).or_default().push(format!("{page}:{}", block.line));
            }
        }
    }
    for (reason, places) in &found {
        println!("norun-{reason}: {} blocks\n    {}", places.len(), places.join("\n    "));
        let most = NOT_RUN.iter().find(|(known, _)| known == reason).map(|(_, most)| *most);
        let most = most.unwrap_or_else(|| panic!("{reason} is not a reason: {places:?}"));
        assert!(places.len() <= most, "at most {most} blocks may say {reason}: {places:?}");
    }
}

/// The Markdown files whose commands are run, relative to the root.
fn list_pages() -> Vec<String> {
    let root = root();
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("docs can be read").map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(
                    path.strip_prefix(&root).expect("it lies in the root").to_string_lossy().into_owned(),
                );
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn a_command_that_fails_is_named_with_its_line() {
    let blocks = read_blocks("text\n```sh\ntrue\nfalse\n```\n").unwrap();
    let failure = shell::run("docs/page.md", &blocks).unwrap_err();
    assert!(failure.contains("docs/page.md:4: `false` ended with 1"), "{failure}");
}

#[test]
fn a_block_that_is_meant_to_fail_must_fail() {
    let failing = read_blocks("```sh fails\nfalse; echo \"exit $?\"\n```\n").unwrap();
    assert_eq!(shell::run("docs/page.md", &failing).unwrap()[&1].trim(), "exit 1");
    let fine = read_blocks("```sh fails\ntrue\n```\n").unwrap();
    let failure = shell::run("docs/page.md", &fine).unwrap_err();
    assert!(failure.contains("docs/page.md:1: no command of this block failed"), "{failure}");
}

#[test]
fn blocks_share_one_shell_with_files_and_nothing_preset() {
    let page = "```yaml\n# a.yaml\nname: a\n```\n```sh\nNAME=$(cat a.yaml | tail -1)\n```\n```console\n$ echo \"$NAME in ${HAPAX_SERVER-nothing}\"\nname: … in nothing\n```\n";
    let outputs = shell::run("docs/page.md", &read_blocks(page).unwrap()).unwrap();
    assert_eq!(outputs[&9].trim(), "name: a in nothing");
}

#[test]
fn a_server_in_the_background_is_stopped_at_the_end() {
    let page = "```sh\nsleep 1000 &\necho $! \n```\n";
    let outputs = shell::run("docs/page.md", &read_blocks(page).unwrap()).unwrap();
    let process = Path::new("/proc").join(outputs[&1].trim()).join("cmdline");
    let command = fs::read_to_string(process).unwrap_or_default();
    assert!(!command.starts_with("sleep"), "{command} still runs");
}

#[test]
fn a_server_goes_on_until_the_page_ends() {
    let page = "```sh serves\ncargo run -- stub --listen 127.0.0.1:7171\n```\n```sh\ncurl -fs http://127.0.0.1:7171/charges\n```\n";
    let outputs = shell::run("docs/page.md", &read_blocks(page).unwrap()).unwrap();
    assert!(outputs[&4].contains("items"), "{outputs:?}");
}

#[test]
fn a_page_gets_the_database_that_it_names() {
    let page =
        "```sh postgres\npsql --no-psqlrc -At postgres://hapax@db.internal/hapax -c 'SELECT 6 * 7'\n```\n";
    let outputs = shell::run("docs/page.md", &read_blocks(page).unwrap()).unwrap();
    let output = outputs[&1].trim();
    assert!(output == "42" || !has_namespaces(), "{output}");
}

/// True if this machine lets tests make network namespaces.
fn has_namespaces() -> bool {
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "--mount", "true"]);
    unshare.status().is_ok_and(|status| status.success())
}
