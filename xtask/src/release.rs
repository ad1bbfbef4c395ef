//! `cargo xtask package`: packages for operators: a .deb, a static tarball, the zip of the
//! WordPress plugin, the Python package for Django, a list of components (SBOM) and checksums.
//!
//! Invariant: the same commit, compiler and arguments give the same bytes. All times are that of
//! the commit, or `SOURCE_DATE_EPOCH`; the zip has a fixed time. Nothing outside of `--out` and
//! `target` is written.

mod archive;
mod components;
mod contents;
mod deb;
mod django;
mod notices;
mod wordpress;

use crate::test;
use anyhow::{Context, Result, bail, ensure};
use components::Component;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `cargo xtask package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make only the .deb
    #[arg(long)]
    deb: bool,
    /// Make only the static tarball, which needs no library of the system
    #[arg(long, conflicts_with = "deb")]
    tarball: bool,
    /// Make only the zip of the WordPress plugin, for which nothing is built
    #[arg(long, conflicts_with_all = ["deb", "tarball"])]
    wordpress: bool,
    /// Make only the Python package for Django and Wagtail, a wheel and its sources
    #[arg(long, conflicts_with_all = ["deb", "tarball", "wordpress"])]
    django: bool,
    /// Directory for the packages
    #[arg(long, value_name = "DIR", default_value = "target/packages")]
    out: PathBuf,
    /// Machine that the packages are for; its standard library must be installed
    #[arg(long, value_name = "TRIPLE", default_value = Target::ALL[0].triple)]
    target: String,
    /// Revision of the .deb. A higher one replaces a lower one of the same version
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
    /// Maintainer of the .deb, as Debian writes it
    #[arg(
        long,
        value_name = "NAME <MAIL>",
        default_value = MAINTAINER
    )]
    maintainer: String,
    /// Package this program, built for the target, instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// The maintainer of unpublished packages.
const MAINTAINER: &str = "Petasos maintainers <petasos@packages.example>";

/// A machine that packages can be made for.
struct Target {
    triple: &'static str,
    /// Debian's name of the machine.
    debian: &'static str,
}

impl Target {
    const ALL: [Self; 2] = [
        Self { triple: "x86_64-unknown-linux-gnu", debian: "amd64" },
        Self { triple: "aarch64-unknown-linux-gnu", debian: "arm64" },
    ];

    fn by_triple(triple: &str) -> Result<&'static Self> {
        let all: &'static [Self] = &Self::ALL;
        let known = || all.iter().map(|target| target.triple).collect::<Vec<_>>().join(" and ");
        let found = all.iter().find(|target| target.triple == triple);
        found.with_context(|| format!("no packages are made for {triple}, only for {}", known()))
    }

    /// Whether programs for this machine run here.
    fn is_here(&self) -> bool {
        self.triple.starts_with(std::env::consts::ARCH)
    }

    /// Checks that the compiler has a standard library for the machine.
    fn ensure_installed(&self) -> Result<()> {
        let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let library = Path::new(root.trim()).join("lib/rustlib").join(self.triple);
        ensure!(
            library.is_dir(),
            "the compiler has no library for {0}; add it with `rustup target add {0}`",
            self.triple
        );
        Ok(())
    }
}

/// The common facts of all packages.
struct Release {
    version: &'static str,
    revision: u32,
    maintainer: String,
    target: &'static Target,
    /// The time of all files, in seconds since 1970.
    epoch_secs: u64,
    components: Vec<Component>,
}

/// Makes packages and prints their paths.
///
/// # Errors
/// If a program is missing or fails, or a file cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    for path in make(args)? {
        println!("{:>9} kB  {}", fs::metadata(&path)?.len() / 1000, path.display());
    }
    Ok(())
}

/// Makes packages and returns their paths.
fn make(args: &Args) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    if args.wordpress {
        return Ok(vec![wordpress::make(&args.out)?]);
    }
    if args.django {
        return django::make(epoch_secs()?, &args.out);
    }
    let target = Target::by_triple(&args.target)?;
    target.ensure_installed()?;
    let release = Release {
        version: env!("CARGO_PKG_VERSION"),
        revision: args.revision,
        maintainer: args.maintainer.clone(),
        target,
        epoch_secs: epoch_secs()?,
        components: components::of(target.triple)?,
    };
    let mut made = Vec::new();
    if !args.tarball {
        let program = args.program.clone().map_or_else(|| build(target, Linking::Dynamic), Ok)?;
        made.push(deb::make(&release, &program, &args.out)?);
    }
    if !args.deb {
        let program = args.program.clone().map_or_else(|| build(target, Linking::Static), Ok)?;
        made.push(archive::make(&release, &program, &args.out)?);
    }
    if !args.deb && !args.tarball {
        made.push(wordpress::make(&args.out)?);
        made.extend(django::make(release.epoch_secs, &args.out)?);
    }
    let list = args.out.join(format!("petasos-{}-{}.cdx.json", release.version, target.debian));
    write(&list, components::cyclone_dx(&release)?.as_bytes())?;
    made.push(list);
    made.push(sums(&args.out, &made)?);
    Ok(made)
}

/// Makes a .deb of each of some revisions, of `program` or of a newly built one, and returns their
/// paths.
pub(crate) fn revisions(program: Option<&Path>, revisions: &[u32], out: &Path) -> Result<Vec<PathBuf>> {
    let target = &Target::ALL[0];
    let program =
        program.map_or_else(|| build(target, Linking::Dynamic), |program| Ok(program.to_owned()))?;
    let of = |revision: &u32| {
        let args = Args {
            deb: true,
            tarball: false,
            wordpress: false,
            django: false,
            out: out.to_owned(),
            target: target.triple.to_owned(),
            revision: *revision,
            maintainer: MAINTAINER.to_owned(),
            program: Some(program.clone()),
        };
        make(&args)?.into_iter().next().context("the .deb is the first that is made")
    };
    revisions.iter().map(of).collect()
}

/// How a program finds the C library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linking {
    /// It uses that of the system.
    Dynamic,
    /// It brings its own.
    Static,
}

/// Builds the program of packages and returns its path.
fn build(target: &Target, linking: Linking) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked", "--profile", "dist", "--package", "petasos"]);
    let is_plain = target.is_here() && linking == Linking::Dynamic;
    let directory = if is_plain { "target".to_owned() } else { format!("target/{}", target.triple) };
    if !is_plain {
        // With a target, the flags do not apply to build scripts and macros, which must be dynamic.
        command.args(["--target", target.triple]);
    }
    if linking == Linking::Static {
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    let status = command.status()?;
    ensure!(status.success(), "cargo could not build the program: {status}");
    Ok(Path::new(&directory).join("dist/petasos"))
}

/// The program that renders manual pages and completions: the packaged one if it runs here.
fn renderer(release: &Release, program: &Path) -> Result<PathBuf> {
    if release.target.is_here() {
        return Ok(std::path::absolute(program)?);
    }
    test::build_binary()?;
    Ok(std::path::absolute("target/debug/petasos")?)
}

/// The time of the commit, or that of `SOURCE_DATE_EPOCH`.
fn epoch_secs() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]))?,
    };
    text.trim().parse().with_context(|| format!("{text:?} is no time in seconds"))
}

/// Writes the checksums of packages into the file `SHA256SUMS` beside them.
fn sums(out: &Path, made: &[PathBuf]) -> Result<PathBuf> {
    let names = made.iter().filter_map(|path| path.file_name());
    let text = output(Command::new("sha256sum").args(names).current_dir(out))?;
    let path = out.join("SHA256SUMS");
    write(&path, text.as_bytes())?;
    Ok(path)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Runs a short command and returns its output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Args, Target, components, make, output};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// A program that only writes a manual page and completions. Its text names libraries, as the
    /// real one does.
    const PROGRAM: &str = "#!/bin/sh\n# GLIBC_2.4 GLIBC_2.34 GLIBC_2.9 libgcc_s.so.1\n\
                           case $1 in\nmanual) echo page >\"$2/petasos-serve.1\" ;;\n*) echo \"$2\" ;;\nesac\n";

    /// Makes packages of [`PROGRAM`] below a directory.
    fn packages(directory: &Path) -> Vec<PathBuf> {
        // Paths such as `contrib` begin at the top of the repository.
        std::env::set_current_dir(crate::repository()).unwrap();
        let program = directory.join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let args = Args {
            deb: false,
            tarball: false,
            wordpress: false,
            django: false,
            out: directory.join("out"),
            target: Target::ALL[0].triple.to_owned(),
            revision: 3,
            maintainer: "A <a@b.test>".to_owned(),
            program: Some(program),
        };
        make(&args).unwrap()
    }

    fn read(program: &str, arguments: &[&str], path: &Path) -> String {
        output(Command::new(program).args(arguments).arg(path)).unwrap()
    }

    #[test]
    fn packages_have_their_files_and_the_same_bytes_each_time() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = packages(first.path());
        let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "petasos_0.1.0-3_amd64.deb",
                "petasos-0.1.0-x86_64-unknown-linux-gnu-static.tar.gz",
                "petasos-wordpress.zip",
                "petasos_django-0.1.0-py3-none-any.whl",
                "petasos_django-0.1.0.tar.gz",
                "petasos-0.1.0-amd64.cdx.json",
                "SHA256SUMS"
            ]
        );
        for (one, other) in made.iter().zip(packages(second.path())) {
            assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{}", one.display());
        }
        let fields = read("dpkg-deb", &["--field"], &made[0]);
        for line in [
            "Version: 0.1.0-3",
            "Architecture: amd64",
            "Depends: libc6 (>= 2.34), libgcc-s1 (>= 3.0), adduser",
        ] {
            assert!(fields.contains(line), "{line} in {fields}");
        }
        let listed = read("dpkg-deb", &["--contents"], &made[0]);
        for line in [
            "-rwxr-xr-x root/root",
            " ./usr/bin/petasos\n",
            " ./usr/share/man/man1/petasos-serve.1.gz\n",
            " ./lib/systemd/system/petasos.service\n",
            " ./etc/petasos/petasos.toml\n",
            " ./usr/share/doc/petasos/third-party-licences.txt.gz\n",
        ] {
            assert!(listed.contains(line), "{line} in {listed}");
        }
        let listed = read("tar", &["--list", "--gzip", "--file"], &made[1]);
        assert!(listed.contains("-static/man/man1/petasos-serve.1\n"), "{listed}");
        output(
            Command::new("sha256sum").arg("--check").arg("SHA256SUMS").current_dir(made[0].parent().unwrap()),
        )
        .unwrap();
    }

    #[test]
    fn every_file_below_etc_is_a_configuration_file() {
        let directory = tempfile::tempdir().unwrap();
        let package = &packages(directory.path())[0];
        let control = directory.path().join("control");
        output(Command::new("dpkg-deb").arg("--control").arg(package).arg(&control)).unwrap();
        let configuration = fs::read_to_string(control.join("conffiles")).unwrap();
        assert_eq!(configuration, "/etc/petasos/petasos.toml\n/etc/logrotate.d/petasos\n");
        for script in ["postinst", "postrm", "prerm"] {
            output(Command::new("sh").arg("-n").arg(control.join(script))).unwrap();
        }
    }

    #[test]
    fn components_are_the_crates_of_the_program() {
        std::env::set_current_dir(crate::repository()).unwrap();
        let components = components::of(Target::ALL[0].triple).unwrap();
        let has = |name: &str| components.iter().any(|component| component.name == name);
        // Code of the program, then macros, tests and chores.
        assert!(has("petasos") && has("rustls") && has("aws-lc-sys"));
        for name in ["clap_derive", "proptest", "xtask", "cc"] {
            assert!(!has(name), "{name}");
        }
        let others: Vec<_> = components.iter().filter(|component| !component.is_own()).collect();
        assert!(others.iter().all(|component| !component.licence.is_empty()));
    }

    #[test]
    fn unknown_machine_is_refused() {
        let error = Target::by_triple("riscv64gc-unknown-linux-gnu").err().unwrap().to_string();
        assert!(error.contains("only for x86_64-unknown-linux-gnu and aarch64"), "{error}");
    }
}
