//! `cargo xtask try-packages`: installs the packages of `dist` on a machine without Rust, and sends
//! a first request.
//!
//! The machine is a bare Debian in a folder, without network access. The scripts are in
//! `packaging/try`, one per package.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::command_line::{show_elapsed, workspace_root};
use crate::tool::Tool;

const RELEASE: &str = "bookworm";
/// Packages beyond bare Debian: tools of the scripts, and the two package managers under test.
const PACKAGES: &str = "ca-certificates,curl,iproute2,python3-venv";
const LATER_PACKAGES: [&str; 5] = ["dbus", "nodejs", "npm", "systemd", "systemd-sysv"];
const SCRIPTS: [&str; 5] = ["archive", "debian", "systemd", "npm", "wheel"];
/// This one runs on a machine that systemd has booted.
const BOOTED: &str = "systemd";
/// Creates namespaces: all processes end with the script, and only a private network exists.
const ISOLATED: [&str; 5] = ["--mount", "--net", "--pid", "--fork", "--kill-child"];
/// Writes go into a folder over the Debian, which stays unchanged. The mounts end with the
/// namespace.
const INSIDE: &str = r#"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/written,workdir=$2/work" "$2/machine"
    mount -t proc proc "$2/machine/proc"
    exec chroot "$2/machine" /bin/sh -c 'ip link set lo up && exec /bin/sh -eu "/try/$0.sh"' "$3"
"#;

/// The same Debian, booted by systemd. A unit of its own runs the script when the machine is up, and switches it off.
const BOOT: &str = r#"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/written,workdir=$2/work" "$2/machine"
    units=$2/machine/etc/systemd/system
    cat > "$2/machine/try/boot.sh" <<'SCRIPT'
        status=0
        /bin/sh -eu "/try/$1.sh" > /try/said 2>&1 || status=$?
        echo "$status" > /try/status
        systemctl poweroff
SCRIPT
    printf '[Unit]\nAfter=multi-user.target dbus.service\n[Service]\nType=oneshot\nExecStart=/bin/sh /try/boot.sh %s\n' "$3" > "$units/try.service"
    printf '[Timer]\nOnActiveSec=1s\n' > "$units/try.timer"
    mkdir -p "$units/multi-user.target.wants"
    ln -sf ../try.timer "$units/multi-user.target.wants/try.timer"
    timeout --kill-after 5 180 systemd-nspawn --quiet --register=no --keep-unit --private-network --boot --console=pipe --directory "$2/machine" \
        < /dev/null > "$2/console" 2>&1 || cat "$2/console"
    cat "$2/machine/try/said"
    exit "$(cat "$2/machine/try/status")"
"#;

#[derive(clap::Args)]
#[command(long_about = ABOUT)]
pub(crate) struct Options {
    /// Folder with the packages of `dist`
    #[arg(long, value_name = "FOLDER", default_value = "target/packages")]
    packages: PathBuf,
    /// Try only this one: archive, debian, systemd, npm or wheel
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// A Debian in a folder, to use instead of making one
    #[arg(long, value_name = "FOLDER")]
    base: Option<PathBuf>,
}

const ABOUT: &str = "\
Install every package that `cargo xtask dist` made on a bare Debian without Rust, and run each to a first answer within 10 seconds.

The Debian is made once with debootstrap and kept in target/try-packages; each package gets a fresh copy. It needs root, debootstrap, the network the
first time, and about 1.5 GB. It takes minutes and needs a release build, so `verify` does not run it; run it before a release.";

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = workspace_root();
    let packages = root.join(&options.packages);
    ensure!(packages.join("SHA256SUMS").exists(), "there are no packages; make them with `cargo xtask dist`");
    let scripts: Vec<&str> = match options.only.as_deref() {
        Some(only) => {
            vec![*SCRIPTS.iter().find(|it| **it == only).with_context(|| format!("no package {only}"))?]
        }
        None => SCRIPTS.to_vec(),
    };
    for program in ["chroot", "unshare"] {
        ensure!(Tool::is_there(program), "packages cannot be tried without {program}");
    }
    ensure!(
        !scripts.contains(&BOOTED) || Tool::is_there("systemd-nspawn"),
        "the unit is tried on a machine that systemd-nspawn boots (apt-get install systemd-container)"
    );
    let is_root = Tool::new("id").arg("-u").output()?.trim() == "0";
    ensure!(is_root, "only root can make a machine to try packages on");
    let home = root.join("target/try-packages");
    fs::create_dir_all(&home)?;
    let base = match &options.base {
        Some(base) => base.canonicalize()?,
        None => make_base(&home)?,
    };
    let upgrade = match scripts.contains(&"debian") || scripts.contains(&BOOTED) {
        true => make_upgrade(&packages, &home)?,
        false => packages.clone(),
    };
    let mut failed = Vec::new();
    for script in scripts {
        println!("\n==> {script}");
        let began = Instant::now();
        let outcome = try_one(&base, &home.join("try"), &packages, &upgrade, script);
        let elapsed = show_elapsed(began.elapsed());
        match outcome {
            Ok(()) => println!("<== {script} passed in {elapsed}"),
            Err(error) => {
                println!("<== {script} FAILED in {elapsed}: {error:#}");
                failed.push(script);
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("packages failed: {}", failed.join(", ")),
    }
}

/// One package on a fresh machine.
fn try_one(base: &Path, place: &Path, packages: &Path, upgrade: &Path, script: &str) -> Result<()> {
    remove(place)?;
    for part in ["written", "work", "machine"] {
        fs::create_dir_all(place.join(part))?;
    }
    let written = place.join("written");
    for (from, to) in [(packages, "packages"), (upgrade, "upgrade")] {
        copy_files(from, &written.join(to))?;
    }
    copy_files(&workspace_root().join("packaging/try"), &written.join("try"))?;
    // systemd-nspawn makes the other namespaces itself.
    let (namespaces, inside) = match script {
        BOOTED => (&ISOLATED[..1], BOOT),
        _ => (&ISOLATED[..], INSIDE),
    };
    let tried = Tool::new("unshare")
        .args(namespaces)
        .args(["sh", "-euc", inside, "sh"])
        .args([base, place])
        .arg(script)
        .clean()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .show();
    remove(place)?;
    tried
}

/// The same program in a Debian package of a later version.
fn make_upgrade(packages: &Path, home: &Path) -> Result<PathBuf> {
    let upgrade = home.join("upgrade");
    let _ = fs::remove_dir_all(&upgrade);
    fs::create_dir_all(&upgrade)?;
    let (tree, package) = (home.join("upgrade-tree"), upgrade.join("hapax_later.deb"));
    let _ = fs::remove_dir_all(&tree);
    let current = find(packages, ".deb")?;
    Tool::new("dpkg-deb").arg("--raw-extract").args([&current, &tree]).run()?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version = text.lines().find_map(|line| line.strip_prefix("Version: ")).context("it has a version")?;
    fs::write(&control, text.replace(&format!("Version: {version}"), &format!("Version: {version}+later")))?;
    // Its settings differ, so that an upgrade that overwrites the user's would be noticed.
    let settings = tree.join("etc/hapax/hapax.toml");
    fs::write(&settings, fs::read_to_string(&settings)? + "\n# Of the later version.\n")?;
    Tool::new("dpkg-deb").args(["--root-owner-group", "-Zgzip", "--build"]).args([&tree, &package]).run()?;
    fs::remove_dir_all(tree)?;
    Ok(upgrade)
}

/// Creates a bare Debian, once.
fn make_base(home: &Path) -> Result<PathBuf> {
    let base = home.join("base");
    let wanted = format!("{RELEASE},{PACKAGES},{}", LATER_PACKAGES.join(","));
    if fs::read_to_string(home.join("complete")).is_ok_and(|made| made == wanted) {
        return Ok(base);
    }
    ensure!(Tool::is_there("debootstrap"), "a Debian is made with debootstrap (apt-get install debootstrap)");
    remove(&base)?;
    println!("==> making a Debian in {}", base.display());
    Tool::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE])
        .arg(&base)
        .run()?;
    let _ = fs::copy("/etc/resolv.conf", base.join("etc/resolv.conf"));
    Tool::new("chroot")
        .arg(&base)
        .args(["apt-get", "install", "--yes", "--no-install-recommends"])
        .args(LATER_PACKAGES)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    fs::write(home.join("complete"), wanted)?;
    Ok(base)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn find(folder: &Path, end: &str) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let found = entries.find(|path| path.to_string_lossy().ends_with(end));
    found.with_context(|| format!("no {end} in {}", folder.display()))
}

/// Removes a machine only when nothing is mounted in it: the mounts of a try end with its
/// namespace.
fn remove(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let inside = format!(" {}/", folder.display());
    ensure!(!mounts.contains(&inside), "something is mounted in {}; unmount it first", folder.display());
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
