//! The applications' lab: four sites that give every visitor a session. MoinMoin and Flask run
//! behind gunicorn, a Django admin behind gunicorn and nginx, PHP behind PHP-FPM and nginx. Two
//! sites without sessions are there for `petasos try`: a static directory in nginx, and a Flask
//! application that fails under load. The lab's purpose is described in
//! `labs/applications/README.md`.
//!
//! Invariant: environment and data are marked when they are complete, and the next run removes
//! incomplete ones. The measurement and its limits are in `crates/cli/lab/applications`. This
//! module only starts it.

use super::stack::{ReadyCondition, Stack, StackServer, StackSite, StackStep};
use super::{files, front, php, python};
use crate::place::make_own;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `cargo xtask long applications`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Visit the applications through this build of Petasos first, for comparison
    // Resolved before xtask changes to the top of the repository.
    #[arg(long, value_name = "PATH", value_parser = |text: &str| std::path::absolute(text))]
    binary: Option<PathBuf>,
}

/// The pinned packages.
const REQUIREMENTS: &str = files::text!("applications/requirements.txt");
/// The script that makes the wiki.
const FILL_MOIN: &str = files::text!("applications/moin/fill.py");
/// The script that makes the Django admin's database.
const FILL_DJANGO: &str = files::text!("applications/django/fill.py");

/// A step that starts a gunicorn with two workers of four threads.
macro_rules! gunicorn {
    ($name:literal, $settings:literal, $application:literal, $directory:literal, $address:literal, $ready:expr) => {
        StackStep::Start(StackServer {
            name: concat!("gunicorn-", $name),
            command: concat!(
                $settings,
                "{{site}}/venv/bin/python -m gunicorn ",
                $application,
                " --workers 2 --threads 4 --no-control-socket --access-logfile - --chdir {{site}}/",
                $directory,
                " --worker-tmp-dir {{site}}/tmp --bind ",
                $address
            ),
            ready: $ready,
        })
    };
}

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "applications'",
    name: "applications",
    host: "applications.test",
    // All sites have this file.
    page: "/robots.txt",
    log_in: "/+login",
    packages: &[&["chromium", "nginx-core", "php8.2-fpm", "php8.2-opcache", "python3-venv"]],
    addresses: &[
        ("moin", "MoinMoin"),
        ("flask", "a shop window in Flask"),
        ("django", "nginx, Django's admin"),
        ("php", "nginx, a shop window in PHP"),
        ("moin_front", "nginx, MoinMoin"),
        ("static", "nginx, a static directory"),
        ("failing", "a shop in Flask that fails under load"),
    ],
    secrets: &["user_password", "secret_key"],
    templates: &[
        files::FOR_PHP,
        &[
            files::rendered!("conf/nginx.conf", "applications/conf/nginx.conf"),
            files::rendered!("django/settings.py", "applications/django/settings.py"),
            files::verbatim!("django/urls.py", "applications/django/urls.py"),
            files::verbatim!("django/fill.py", "applications/django/fill.py"),
            files::verbatim!("conf/fill-moin.py", "applications/moin/fill.py"),
            files::verbatim!("failing/app.py", "applications/failing/app.py"),
            files::rendered!("flask/app.py", "applications/flask/app.py"),
            files::verbatim!("flask/templates/page.html", "applications/flask/templates/page.html"),
            files::verbatim!("flask/static/style.css", "applications/flask/static/style.css"),
            files::verbatim!("flask/static/script.js", "applications/flask/static/script.js"),
            files::verbatim!("flask/static/logo.svg", "applications/flask/static/logo.svg"),
            files::verbatim!("flask/static/front.svg", "applications/flask/static/front.svg"),
            files::verbatim!("flask/static/door.svg", "applications/flask/static/door.svg"),
            files::verbatim!("php/index.php", "applications/php/index.php"),
            files::verbatim!("php/robots.txt", "applications/php/robots.txt"),
            files::verbatim!("php/style.css", "applications/flask/static/style.css"),
            files::verbatim!("php/script.js", "applications/flask/static/script.js"),
            files::verbatim!("php/logo.svg", "applications/flask/static/logo.svg"),
            files::verbatim!("php/front.svg", "applications/flask/static/front.svg"),
            files::verbatim!("php/door.svg", "applications/flask/static/door.svg"),
            files::verbatim!("static/index.html", "applications/static/index.html"),
            files::verbatim!("static/boats.html", "applications/static/boats.html"),
            files::verbatim!("static/trips/index.html", "applications/static/trips/index.html"),
            files::verbatim!("static/trips/island.html", "applications/static/trips/island.html"),
            files::verbatim!("static/robots.txt", "applications/static/robots.txt"),
            files::verbatim!("static/style.css", "applications/flask/static/style.css"),
        ],
    ],
    is_current: |_| true,
    steps: &[
        StackStep::Make(|site| python::environment(site, REQUIREMENTS)),
        StackStep::Write,
        StackStep::Make(fill),
        gunicorn!(
            "moin",
            "",
            "moin.app:create_app()",
            "data/moin",
            "{{moin}}",
            ReadyCondition::Pages(&["moin"])
        ),
        gunicorn!("flask", "", "app:app", "flask", "{{flask}}", ReadyCondition::Pages(&["flask"])),
        // One process with more threads than connections of its database, so that it can fail.
        StackStep::Start(StackServer {
            name: "gunicorn-failing",
            command: "{{site}}/venv/bin/python -m gunicorn app:app --workers 1 --threads 8 --no-control-socket \
                      --chdir {{site}}/failing --worker-tmp-dir {{site}}/tmp --bind {{failing}}",
            ready: ReadyCondition::Pages(&["failing"]),
        }),
        gunicorn!(
            "django",
            "env DJANGO_SETTINGS_MODULE=settings ",
            "django.core.wsgi:get_wsgi_application()",
            "django",
            "unix:{{site}}/run/django.sock",
            ReadyCondition::Socket("django.sock")
        ),
        php::START_OPCODE,
        front::start_nginx(&["django", "moin_front", "php", "static"]),
    ],
};

/// Makes the wiki, and the admin's database and files, unless they exist and come from these
/// scripts and packages.
fn fill(site: &StackSite<'_>) -> Result<()> {
    let mark = site.at("data/filled-by");
    let wanted = format!("{REQUIREMENTS}\n{FILL_MOIN}\n{FILL_DJANGO}");
    if files::holds(&mark, &wanted) {
        return Ok(());
    }
    eprintln!("filling MoinMoin and Django, which takes half a minute");
    site.make_empty("data")?;
    let (python, password, moin) =
        (site.at("venv/bin/python"), site.at("conf/user-password"), site.at("data/moin"));
    make_own(site.place.account, &moin)?;
    let mut django = site.place.account.step("env");
    django.arg("DJANGO_SETTINGS_MODULE=settings").arg(format!("PYTHONPATH={}", site.at("django").display()));
    site.run("fill-django", django.arg(&python).arg(site.at("django/fill.py")).arg(&password))?;
    let mut wiki = site.place.account.step("env");
    wiki.args(["--chdir"]).arg(&moin).arg(format!("HOME={}", site.at("tmp").display()));
    site.run("fill-moin", wiki.arg(&python).arg(site.at("conf/fill-moin.py")).arg(&password))?;
    fs::write(mark, wanted).context("cannot mark the content")
}

/// Visits the lab below `dir` in Chromium, first through another build of Petasos if the caller
/// named one.
///
/// # Errors
/// If a visitor received another's data, too few requests were hits, or the test could not run.
pub(super) fn run(dir: &Path, args: &Args) -> Result<()> {
    crate::test::build_binary()?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--locked", "--workspace", "--features", crate::test::LAB_FEATURES]);
    command.args(["--test", "lab_applications", "--", "--nocapture"]).stdin(Stdio::null());
    command.env("PETASOS_LAB", dir);
    if let Some(binary) = &args.binary {
        command.env("PETASOS_BEFORE", binary);
    }
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "the visits of the applications ended with {status}");
    Ok(())
}
