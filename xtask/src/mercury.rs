//! `cargo xtask long mercury`: sets up the stacks of contrib/mercury in a Debian root under
//! systemd, with their own scripts. Petasos must answer from memory, `petasos doctor --stack` must
//! find no layer missing, the ladder file must hold, a second run must change nothing, and the
//! removal must remove what the script has written.
//!
//! Invariant: the files are those of contrib/mercury, unchanged. Each stack has a root of its own,
//! which has no network and is thrown away. Containers are not tested.

mod wheels;

use crate::debian_root::DebianRoot;
use crate::{packages, release};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The stacks.
const FOLDER: &str = "contrib/mercury";
/// Debian packages of the programs that make and boot the root.
const PACKAGES: [&str; 4] = ["debootstrap", "python3-venv", "systemd", "systemd-container"];
/// Debian packages that check the YAML files.
const CHECKERS: [&str; 2] = ["python3-yaml", "shellcheck"];
/// Directory of the root, and of the package that is installed in it.
const DIRECTORY: &str = "target/mercury-root";
/// Gives the root a certificate for its name, in place of an authority.
const CERTIFICATE: &str = include_str!("mercury/certificate.sh");
/// Checks all YAML files and shell scripts.
const FILES: &str = include_str!("mercury/files.sh");
/// Runs the script of the stack $1 with the package $2.
const INSTALL: &str = include_str!("mercury/install.sh");
/// Checks the stack $1.
const CHECK: &str = include_str!("mercury/check.sh");
/// Removes PHP from the root.
const WITHOUT_PHP: &str = include_str!("mercury/without-php.sh");
/// Removes the stack, and checks that its files are gone and the programs $1 still run.
const REMOVE: &str = include_str!("mercury/remove.sh");

/// A stack, the folder of its language, the script that requests its contents, and the one that
/// changes a page of it.
struct MercuryStack {
    name: &'static str,
    runtime: &'static str,
    contents: &'static str,
    edit: &'static str,
}

/// The folder of the language that needs wheels and no PHP.
const PYTHON: &str = "python";

const STACKS: [MercuryStack; 3] = [
    MercuryStack {
        name: "mediawiki",
        runtime: "php",
        contents: include_str!("mercury/contents-mediawiki.sh"),
        edit: include_str!("mercury/edit-mediawiki.sh"),
    },
    MercuryStack {
        name: "wagtail",
        runtime: PYTHON,
        contents: include_str!("mercury/contents-wagtail.sh"),
        edit: include_str!("mercury/edit-wagtail.sh"),
    },
    MercuryStack {
        name: "wordpress",
        runtime: "php",
        contents: include_str!("mercury/contents-wordpress.sh"),
        edit: include_str!("mercury/edit-wordpress.sh"),
    },
];

/// Arguments of `cargo xtask long mercury`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Set up only the stacks whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Sets up the stacks.
///
/// # Errors
/// Names the step that failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this boots a Debian root, which only root may do");
    packages::ensure(&PACKAGES)?;
    let out = Path::new(DIRECTORY).join("packages");
    let debs = release::revisions(args.program.as_deref(), &[1], &out)?;
    let deb = debs.first().context("a package was made")?;
    let mut wanted: Vec<String> = CHECKERS.map(str::to_owned).into();
    wanted.extend(listed(Path::new(FOLDER), "")?);
    for stack in &STACKS {
        for folder in [stack.runtime, stack.name] {
            wanted.extend(listed(Path::new(FOLDER), folder)?);
        }
    }
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    for stack in STACKS.iter().filter(|stack| stack.name.contains(&args.only)) {
        println!("{}", stack.name);
        let root = DebianRoot::boot(Path::new(DIRECTORY), &wanted)?;
        set_up(stack, &root, deb)?;
    }
    println!("the stacks work, by their own scripts");
    Ok(())
}

/// Sets up a stack in a root, with the package `deb`, and removes it.
fn set_up(stack: &MercuryStack, root: &DebianRoot, deb: &Path) -> Result<()> {
    root.copy(deb, "petasos.deb")?;
    root.run("a folder for the repository is made", "mkdir -p /root/petasos/contrib", &[])?;
    root.copy_directory(Path::new(FOLDER), "petasos/contrib/mercury")?;
    root.copy_directory(Path::new("integrations"), "petasos/integrations")?;
    let mut programs = "mariadb nginx php8.2-fpm";
    if stack.runtime == PYTHON {
        let requirements = Path::new(FOLDER).join(stack.name).join("requirements.txt");
        root.copy_directory(&wheels::download(&requirements, Path::new(DIRECTORY))?, "wheels")?;
        root.run("the machine has no PHP", WITHOUT_PHP, &[])?;
        programs = "mariadb nginx";
    }
    root.run("the files are well-formed", FILES, &[])?;
    root.run("the name has a certificate", CERTIFICATE, &[])?;
    root.run("the stack is set up", INSTALL, &[stack.name])?;
    root.run("it answers from memory, and no layer is missing", CHECK, &[stack.name])?;
    root.run("its contents are served, and its tasks run", stack.contents, &[])?;
    root.run("an edit purges its page", stack.edit, &[])?;
    root.run("it is set up once more", INSTALL, &[stack.name])?;
    root.run("it is removed", REMOVE, &[programs])
}

/// The packages that a list below the folder names.
fn listed(folder: &Path, application: &str) -> Result<Vec<String>> {
    let path = folder.join(application).join("packages");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::{FOLDER, PYTHON, STACKS, listed};
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn folder() -> PathBuf {
        crate::repository().join(FOLDER)
    }

    /// The assignments of a configuration file.
    fn assignments(path: &Path) -> Vec<(String, String)> {
        let text = fs::read_to_string(path).unwrap();
        let of = |line: &str| {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        };
        text.lines().filter(|line| !line.is_empty() && !line.starts_with([';', '#', '['])).map(of).collect()
    }

    #[test]
    fn stacks_have_the_values_with_which_labs_measure() {
        let common = crate::repository().join("labs/common");
        for (own, lab) in [("php/php.ini", "php.ini"), ("mariadb.cnf", "my.cnf")] {
            let (own, lab) = (assignments(&folder().join(own)), assignments(&common.join(lab)));
            assert!(own.len() >= 5, "{own:?}");
            for assignment in own {
                assert!(lab.contains(&assignment), "{assignment:?} is not in labs/common");
            }
        }
        let requirements = |path: &Path| fs::read_to_string(path.join("requirements.txt")).unwrap();
        let lab = crate::repository().join("labs/wagtail");
        assert_eq!(requirements(&folder().join("wagtail")), requirements(&lab));
        let gunicorn = fs::read_to_string(folder().join("python/gunicorn.conf.py")).unwrap();
        assert!(
            gunicorn.contains("\nworkers = 3\n") && include_str!("lab/wagtail.rs").contains("--workers 3")
        );
    }

    #[test]
    fn stacks_state_the_folder_of_their_language() {
        for stack in &STACKS {
            let stated = fs::read_to_string(folder().join(stack.name).join("runtime")).unwrap();
            assert_eq!(stated.trim_end(), stack.runtime, "{}", stack.name);
        }
    }

    #[test]
    fn paths_that_the_stacks_name_exist() {
        let read = |path: &str| fs::read_to_string(folder().join(path)).unwrap();
        let mut checked = 0;
        for stack in &STACKS {
            let of_stack = |text: &str| {
                let text = text.replace("${APPLICATION:?}", stack.name).replace("$application", stack.name);
                let text = text.replace("${APPLICATION}", stack.name).replace("$APPLICATION", stack.name);
                let text = text.replace(&format!("$(cat {}/runtime)", stack.name), stack.runtime);
                text.replace("$runtime", stack.runtime)
            };
            // Mounted files of the compose file, and files of the scripts.
            let mounted = of_stack(&read("compose.yaml"));
            let mounts =
                mounted.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next());
            let mut paths: Vec<String> = mounts.map(str::to_owned).collect();
            let scripts = [
                "install.sh".to_owned(),
                format!("{}/setup.sh", stack.name),
                format!("{}/prepare.sh", stack.runtime),
            ];
            for script in &scripts {
                let base = Path::new(script).parent().unwrap().to_str().unwrap().to_owned();
                for part in of_stack(&read(script)).split("$here/").skip(1) {
                    let end = part.find(['"', ' ', ')', '\n']).unwrap();
                    paths.push(format!("{base}/{}", &part[..end]));
                }
            }
            for path in paths {
                let place = folder().join(path.trim_start_matches('/'));
                assert!(place.exists(), "{} does not exist", place.display());
                checked += 1;
            }
            let image = of_stack(&read("Containerfile"));
            for line in image.lines().filter_map(|line| line.strip_prefix("COPY ")) {
                assert!(crate::repository().join(line.split(' ').next().unwrap()).exists(), "{line}");
            }
            let used = ["&& cp ", "&& sh "];
            let used = image
                .lines()
                .filter_map(|line| used.iter().find_map(|command| line.trim().strip_prefix(command)));
            for path in used.filter_map(|line| line.split(' ').next()) {
                assert!(folder().join(path).exists(), "{path}");
                checked += 1;
            }
        }
        assert!(checked > 40, "only {checked} paths were found");
        assert!(read("cloud-init.yaml").contains("/opt/petasos/contrib/mercury/install.sh"));
    }

    #[test]
    fn shell_scripts_have_no_fault_of_syntax() {
        let folder = folder();
        let mut folders = vec![folder.clone()];
        folders.extend(STACKS.iter().flat_map(|stack| [folder.join(stack.runtime), folder.join(stack.name)]));
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let scripts = files.map(|file| file.unwrap().path());
        let scripts: Vec<_> =
            scripts.filter(|path| path.extension().is_some_and(|extension| extension == "sh")).collect();
        assert!(scripts.len() >= 8, "{scripts:?}");
        for script in scripts {
            let status = Command::new("sh").arg("-n").arg(&script).status().unwrap();
            assert!(status.success(), "{}", script.display());
        }
    }

    #[test]
    fn debian_has_the_packages() {
        // The lists of packages are a property of the machine, and may be missing or of another
        // release.
        let is_bookworm = fs::read_to_string("/etc/os-release")
            .is_ok_and(|text| text.contains("VERSION_CODENAME=bookworm"));
        // The command succeeds if it finds any of the names.
        let show = |names: &[String]| {
            let output = Command::new("apt-cache").args(["show", "--quiet"]).args(names).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
        };
        let has = |found: &str, name: &str| found.lines().any(|line| line == format!("Package: {name}"));
        let common = "mariadb-server";
        let can_ask = is_bookworm && has(&show(&[common.to_owned()]), common);
        let mut names = Vec::new();
        for application in ["", "php", PYTHON, "mediawiki", "wagtail", "wordpress"] {
            names.extend(listed(&folder(), application).unwrap());
        }
        let found = show(&names);
        for name in names {
            assert!(!name.is_empty() && !name.contains(' '), "{name}");
            assert!(!can_ask || has(&found, &name), "Debian has no package {name}");
        }
    }
}
