//! `cargo xtask dist`: the packages of a release, in one folder, with their checksums.

mod archive;
mod debian;
mod npm;
mod release_notes;
mod sbom;
mod wheel;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command_line::workspace_root;
use crate::tool::Tool;

/// Largest program that a release may carry.
const MAX_PROGRAM_BYTES: u64 = 40 * 1024 * 1024;
/// The programs that build the packages.
const TOOLS: [(&str, &str); 8] = [
    ("dpkg-deb", "dpkg"),
    ("git", "git"),
    ("gzip", "gzip"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
];
/// The libraries that the program may need from the system. Any other would have to be installed on
/// every machine.
const LIBRARIES: [&str; 4] = ["ld-linux", "libc.so", "libgcc_s.so", "libm.so"];

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// Where to put them; what `dist` put there before is replaced
    #[arg(long, value_name = "FOLDER", default_value = "target/packages")]
    out: PathBuf,
    /// Pack this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Give the packages this version instead of the workspace's, to try upgrades
    #[arg(long, value_name = "VERSION")]
    package_version: Option<String>,
}

const ABOUT: &str = "\
Build the program with the profile `dist`, and make the packages of a release from it:

  hapax-VERSION-linux-x64.tar.gz    the program, completions and licences
  hapax_VERSION_amd64.deb           a Debian package with a systemd unit
  hapax-VERSION.tgz, hapax-linux-x64-VERSION.tgz    npm packages
  hapax-VERSION-py3-none-manylinux….whl    a wheel for pip and uv
  hapax-VERSION.cdx.json            what the program is made of (CycloneDX)
  release-notes.md                  from CHANGELOG.md
  SHA256SUMS                        of all of them

The same commit makes the same packages from the same program. `cargo xtask try-packages` tries them on a machine without Rust.";

/// Inputs of every package.
struct Release {
    root: &'static Path,
    /// Where the packages go.
    out: PathBuf,
    program: PathBuf,
    version: String,
    platform: Platform,
    /// The newest version of the C library that the program needs, such as `2.34`.
    glibc: String,
    /// Timestamp of all files in packages, in seconds since 1970.
    moment: String,
}

/// One platform, by its names in the package managers.
struct Platform {
    debian: &'static str,
    npm_cpu: &'static str,
    python: &'static str,
    rust: &'static str,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let missing: Vec<String> = TOOLS
        .iter()
        .filter(|(tool, _)| !Tool::is_there(tool))
        .map(|(tool, package)| format!("  {tool} (apt-get install {package})"))
        .collect();
    ensure!(missing.is_empty(), "packages cannot be made without\n{}", missing.join("\n"));
    let release = Release::prepare(options)?;
    for made in [
        archive::make(&release)?,
        debian::make(&release)?,
        npm::make_platform(&release)?,
        npm::make_sdk(&release)?,
        wheel::make(&release)?,
        sbom::make(&release)?,
        release_notes::make(&release)?,
    ] {
        println!("    {}", made.display());
    }
    println!("    {}", release.write_checksums()?.display());
    Ok(())
}

impl Release {
    fn prepare(options: &Options) -> Result<Release> {
        let root = workspace_root();
        let built = match &options.program {
            Some(program) => program.clone(),
            None => build(root)?,
        };
        let out = root.join(&options.out);
        // Removes only files of `dist`, because the user may have named the wrong folder.
        for old in fs::read_dir(&out).into_iter().flatten().filter_map(Result::ok) {
            let name = old.file_name().to_string_lossy().into_owned();
            if name.starts_with("hapax") || name == "SHA256SUMS" || name == "release-notes.md" {
                fs::remove_file(old.path())?;
            }
        }
        fs::create_dir_all(&out)?;
        let bytes = fs::read(&built).with_context(|| format!("no program at {}", built.display()))?;
        if options.program.is_none() {
            let size = bytes.len() as u64;
            ensure!(size <= MAX_PROGRAM_BYTES, "the program has {size} bytes, more than {MAX_PROGRAM_BYTES}");
        }
        let version = match &options.package_version {
            Some(version) => version.clone(),
            None => workspace_version(root)?,
        };
        let moment = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(moment) => moment,
            Err(_) => Tool::new("git").args(["log", "-1", "--format=%ct"]).within(root).output()?,
        };
        check_libraries(&bytes)?;
        Ok(Release {
            root,
            out,
            program: built,
            version,
            platform: Platform::here()?,
            glibc: newest_glibc(&bytes)?,
            moment: moment.trim().to_owned(),
        })
    }

    /// A folder to assemble a package in; removed when the package is made.
    fn staging(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join(".staging").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Puts the program into a package.
    fn put_program(&self, place: &Path) -> Result<()> {
        self.put(&self.program, place, 0o755)
    }

    fn put(&self, file: &Path, place: &Path, mode: u32) -> Result<()> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        put_text(place, bytes, mode)
    }

    /// A file of `packaging` with the `@word@` placeholders filled in.
    fn fill_in(&self, file: &str, words: &[(&str, &str)]) -> Result<String> {
        let path = self.root.join("packaging").join(file);
        let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for (word, value) in words.iter().chain([&("VERSION", self.version.as_str())]) {
            text = text.replace(&format!("@{word}@"), value);
        }
        ensure!(!text.contains('@') || file.ends_with("control"), "{file}: a word is not filled in");
        Ok(text)
    }

    /// Packs a folder so that the same files make the same archive.
    fn pack(&self, folder: &Path, name: &str, archive: &Path) -> Result<()> {
        let tar = archive.with_extension("tar.part");
        Tool::new("tar")
            .args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"])
            .arg(format!("--mtime=@{}", self.moment))
            .args(["--file".as_ref(), tar.as_os_str(), name.as_ref()])
            .within(folder)
            .run()?;
        Tool::new("gzip").args(["--no-name", "--best", "--force"]).arg(&tar).run()?;
        let mut packed = tar.into_os_string();
        packed.push(".gz");
        Ok(fs::rename(packed, archive)?)
    }

    /// The checksums of all files in the folder, in the format of `sha256sum --check`.
    fn write_checksums(&self) -> Result<PathBuf> {
        let _ = fs::remove_dir_all(self.out.join(".staging"));
        let mut names: Vec<_> =
            fs::read_dir(&self.out)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
        names.sort();
        let sums = Tool::new("sha256sum").args(names).within(&self.out).output()?;
        let file = self.out.join("SHA256SUMS");
        fs::write(&file, sums)?;
        Ok(file)
    }
}

impl Platform {
    fn here() -> Result<Platform> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Platform {
                debian: "amd64",
                npm_cpu: "x64",
                python: "x86_64",
                rust: "x86_64-unknown-linux-gnu",
            }),
            "aarch64" => Ok(Platform {
                debian: "arm64",
                npm_cpu: "arm64",
                python: "aarch64",
                rust: "aarch64-unknown-linux-gnu",
            }),
            other => anyhow::bail!("there are no packages for {other}"),
        }
    }
}

fn build(root: &Path) -> Result<PathBuf> {
    println!("==> the program: cargo build --profile dist --package hapax-cli --locked");
    Tool::new("cargo")
        .args(["build", "--profile", "dist", "--package", "hapax-cli", "--locked"])
        .within(root)
        .show()?;
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => root.join("target"),
    };
    Ok(target.join("dist/hapax"))
}

/// `cargo metadata` of the workspace.
fn describe_workspace(root: &Path, arguments: &[&str]) -> Result<Value> {
    let described = Tool::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(arguments)
        .within(root)
        .output()?;
    Ok(serde_json::from_str(&described)?)
}

fn workspace_version(root: &Path) -> Result<String> {
    let metadata = describe_workspace(root, &["--no-deps"])?;
    let packages = metadata["packages"].as_array().context("cargo describes packages")?;
    let command = packages.iter().find(|package| package["name"] == "hapax-cli");
    let version = command.and_then(|command| command["version"].as_str());
    Ok(version.context("hapax-cli has a version")?.to_owned())
}

/// The newest version of the C library among the program's symbols; an older library lacks some of
/// them.
fn newest_glibc(program: &[u8]) -> Result<String> {
    let mark = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits: String = program[at + mark.len()..]
            .iter()
            .take(3)
            .take_while(|byte| byte.is_ascii_digit())
            .map(|byte| char::from(*byte))
            .collect();
        digits.parse::<u32>().ok()
    };
    let places = (0..program.len().saturating_sub(mark.len())).filter(|&at| program[at..].starts_with(mark));
    let newest = places.filter_map(minor).max().context("the program names no version of the C library")?;
    Ok(format!("2.{newest}"))
}

fn check_libraries(program: &[u8]) -> Result<()> {
    let needed = list_libraries(program);
    let strange: Vec<_> =
        needed.iter().filter(|name| !LIBRARIES.iter().any(|known| name.starts_with(known))).collect();
    ensure!(strange.is_empty(), "the program needs libraries that not every machine has: {strange:?}");
    Ok(())
}

/// Names of shared libraries in the program: `lib….so.N`, each a string of its own.
fn list_libraries(program: &[u8]) -> Vec<String> {
    let texts = program.split(|byte| *byte == 0).filter(|text| text.len() < 64);
    let names = texts.filter_map(|text| std::str::from_utf8(text).ok()).filter(|text| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte));
        let (begins, ends) = (text.starts_with("lib") || text.starts_with("ld-linux"), text.contains(".so."));
        is_plain && begins && ends
    });
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

fn put_text(place: &Path, bytes: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    let folder = place.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(place, bytes).with_context(|| place.display().to_string())?;
    Ok(fs::set_permissions(place, fs::Permissions::from_mode(mode))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_that_is_asked_for_counts() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0").unwrap(), "2.34");
        assert!(newest_glibc(b"no such thing").is_err());
    }

    #[test]
    fn a_library_that_not_every_machine_has_is_refused() {
        assert!(check_libraries(b"\0libc.so.6\0libm.so.6\0libgcc_s.so.1\0ld-linux-x86-64.so.2\0").is_ok());
        let error = check_libraries(b"\0libc.so.6\0libssl.so.3\0").unwrap_err();
        assert!(error.to_string().contains("libssl.so.3"), "{error}");
    }
}
