//! One fresh shell that runs a page.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::block::{Block, Kind};

/// Seconds that one page may take.
const PAGE_TIMEOUT: u32 = 200;
/// Lines of a log that a failure shows.
const SHOWN_LOG_LINES: usize = 15;

/// Begins the output of a block, before the line number.
const BEGIN: &str = "@@page-block@@";
/// Comes before the line, status and text of a command that failed.
const FAILED: &str = "@@page-failed@@";
/// Comes before the line of a block that should have failed.
const NOT_FAILED: &str = "@@page-not-failed@@";

/// Runs the blocks in order. Returns the output of each script and console command by its line.
pub fn run(page: &str, blocks: &[Block]) -> Result<HashMap<usize, String>, String> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let home = folder.path().join("empty");
    let parts = folder.path().join("parts");
    fs::create_dir_all(&home).and_then(|()| fs::create_dir_all(&parts)).expect("folders can be made");
    let script = folder.path().join("page.sh");
    fs::write(&script, write_script(blocks, &parts)).expect("the script can be written");

    let program = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().expect("it lies in a folder");
    let lock = program.join(".pages-lock");
    let shims = folder.path().join("shims");
    write_cargo(&shims, program);
    let path =
        format!("{}:{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", shims.display(), program.display());
    let needs_postgres =
        blocks.iter().any(|block| matches!(block.kind, Kind::Script { needs_postgres: true, .. }));
    let postgres = if needs_postgres { folder.path().join("postgres") } else { PathBuf::new() };
    let output = Command::new("bash")
        .args(["-c", ISOLATE, "isolate"])
        .args([&script, &lock])
        .arg(PAGE_TIMEOUT.to_string())
        .arg(&postgres)
        .arg(POSTGRES)
        .current_dir(&home)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &home)
        .stdin(Stdio::null())
        .output()
        .expect("bash is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    read_outputs(page, &text, output.status.code())
        .map_err(|failure| format!("{failure}{}", show_logs(&home)))
}

/// Runs the script in a network namespace of its own, where every port is free; or, where the machine forbids that, after
/// other pages have ended. With a folder for PostgreSQL, a server starts in the namespace first. Where there are no
/// namespaces, there is no such server, and blocks that need it are not run.
const ISOLATE: &str = r#"
if unshare --user --map-root-user --net --mount ip link set lo up 2>/dev/null; then
    if [ -n "$4" ]; then
        exec unshare --user --map-root-user --net --mount --pid --fork --kill-child bash -c '
            ip link set lo up || exit
            eval "$3" || exit
            timeout "$1" bash "$0"
        ' "$1" "$3" "$4" "$5"
    fi
    exec unshare --user --map-root-user --net bash -c 'ip link set lo up && exec timeout "$1" bash "$0"' "$1" "$3"
fi
exec flock --close "$2" timeout "$3" bash "$1"
"#;

/// Starts PostgreSQL in the folder `$2` and gives it the name `db.internal`. The role `hapax` owns the database `hapax`.
/// The server refuses to run as root, so it gets another user of the namespace. It ends with
/// the namespace of processes.
const POSTGRES: &str = r#"
bin=${HAPAX_POSTGRES_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}
[ -n "$bin" ] || bin=$(dirname "$(command -v initdb)")
PATH=$PATH:$bin
mkdir "$2"
printf "127.0.0.1 localhost db.internal\n" > "$2/hosts"
mount --bind "$2/hosts" /etc/hosts
as_postgres() { unshare --user --map-user=1 --map-group=1 "$@"; }
{
    as_postgres "$bin/initdb" -D "$2/data" -U postgres --auth=trust --no-sync
    as_postgres "$bin/pg_ctl" -D "$2/data" -w -l "$2/postgres.log" \
        -o "-c listen_addresses=127.0.0.1 -c unix_socket_directories=$2 -c fsync=off" start
    "$bin/psql" -h db.internal -U postgres -d postgres -c "CREATE ROLE hapax LOGIN CREATEDB" \
        -c "CREATE DATABASE hapax OWNER hapax"
} > "$2/start.log" 2>&1 < /dev/null || { cat "$2/start.log"; exit 1; }
export HAPAX_PAGE_POSTGRES=yes
"#;

/// `cargo run` without building: the programs are built before the tests run, and a second cargo would wait for the first.
fn write_cargo(folder: &Path, programs: &Path) {
    let text = format!(
        "#!/bin/bash\n\
         [ \"$1\" = run ] || {{ echo \"pages can only run \\`cargo run\\`, not \\`cargo $*\\`\" >&2; exit 101; }}\n\
         shift; program=hapax\n\
         while [ $# -gt 0 ]; do\n\
             case \"$1\" in\n\
                 --) shift; break ;;\n\
                 -p) program=$2; shift 2 ;;\n\
                 --example) program=examples/$2; shift 2 ;;\n\
                 *) shift ;;\n\
             esac\n\
         done\n\
         exec \"{}/$program\" \"$@\"\n",
        programs.display()
    );
    let path = folder.join("cargo");
    fs::create_dir_all(folder).expect("a folder can be made");
    fs::write(&path, text).expect("the script can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be made executable");
}

/// The script: each block is a file of its own, with as many empty lines above it as the page has, so that the shell counts
/// lines as the page does.
fn write_script(blocks: &[Block], parts: &Path) -> String {
    let mut script = format!(
        "exec 2>&1\n\
         trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n\
         __failed() {{\n\
             case \"$2\" in {parts}/*) ;; *) return ;; esac\n\
             __count=$((__count + 1))\n\
             [ -n \"$__may_fail\" ] && return\n\
             printf '\\n%s %s %s %s\\n' '{FAILED}' \"$3\" \"$1\" \"$4\"\n\
             exit 99\n\
         }}\n\
         trap '__failed $? \"${{BASH_SOURCE[0]}}\" \"$LINENO\" \"$BASH_COMMAND\"' ERR\n",
        parts = parts.display()
    );
    let mut add = |line: usize, first: usize, text: &str, must_fail: bool, only_if: &str| {
        let part = parts.join(format!("{line}.sh"));
        fs::write(&part, format!("{}{text}\n", "\n".repeat(first - 1))).expect("a block can be written");
        let may_fail = if must_fail { "yes" } else { "" };
        writeln!(
            script,
            "__count=0 __may_fail={may_fail}; printf '\\n{BEGIN} {line}\\n'\n{only_if} . '{}'",
            part.display()
        )
        .unwrap();
        if must_fail {
            writeln!(script, "[ $__count != 0 ] || {{ printf '\\n{NOT_FAILED} {line}\\n'; exit 99; }}")
                .unwrap();
        }
    };
    for block in blocks {
        match &block.kind {
            Kind::Script { must_fail, needs_postgres } => {
                let only_if = if *needs_postgres { "[ -z \"$HAPAX_PAGE_POSTGRES\" ] ||" } else { "" };
                add(block.line, block.line + 1, &block.body, *must_fail, only_if);
            }
            Kind::Serves => add(block.line, block.line + 1, &write_server(&block.body), false, ""),
            Kind::Console(commands) => {
                for command in commands {
                    add(command.line, command.line, &command.script.join("\n"), false, "");
                }
            }
            Kind::File { name } => {
                let text = format!("cat > {name} <<'END_OF_FILE'\n{}\nEND_OF_FILE", block.body);
                add(block.line, block.line, &text, false, "");
            }
            Kind::Output | Kind::NotRun { .. } | Kind::Text => {}
        }
    }
    script.push_str("exit 0\n");
    script
}

/// Starts a server in the background, and waits until it listens on the default port. It ends with the page.
fn write_server(command: &str) -> String {
    format!(
        "( trap - ERR; exec {command} ) > server.log 2>&1 & __server=$!; \
         until (exec 3<> /dev/tcp/127.0.0.1/7171) 2> /dev/null; do kill -0 $__server; sleep 0.1; done"
    )
}

fn read_outputs(page: &str, text: &str, status: Option<i32>) -> Result<HashMap<usize, String>, String> {
    if let Some((before, failed)) = text.split_once(FAILED) {
        let words: Vec<&str> = failed.trim().splitn(3, ' ').collect();
        let output = before.rsplit(BEGIN).next().unwrap_or_default();
        let output = output.split_once('\n').map_or("", |(_, output)| output);
        return Err(format!("{page}:{}: `{}` ended with {}\n{output}", words[0], words[2], words[1]));
    }
    if let Some((_, line)) = text.split_once(NOT_FAILED) {
        return Err(format!("{page}:{}: no command of this block failed", line.trim()));
    }
    if status != Some(0) {
        return Err(format!("{page}: the shell ended with {status:?} (124: after {PAGE_TIMEOUT} s)\n{text}"));
    }
    let outputs = text.split(BEGIN).skip(1).filter_map(|part| {
        let (line, output) = part.trim_start().split_once('\n')?;
        Some((line.trim().parse().ok()?, output.to_owned()))
    });
    Ok(outputs.collect())
}

/// The ends of the logs that the page wrote.
fn show_logs(folder: &Path) -> String {
    let mut shown = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..].join("\n");
            write!(shown, "\n--- {}\n{end}\n", path.file_name().unwrap_or_default().display()).unwrap();
        }
    }
    shown
}
