//! The Wagtail lab: a Wagtail site that purges Varnish and Petasos. It runs in a virtual
//! environment, in three gunicorns: with no cache, with cached templates and with cached pages.
//! nginx and Varnish are in front of them. The lab's purpose is described in
//! `labs/wagtail/README.md`.
//!
//! Invariant: environment and data are marked when they are complete, and the next run removes
//! incomplete ones.

use super::stack::{ReadyCondition, Stack, StackServer, StackSite, StackStep, remove};
use super::{files, front, python};
use crate::place::make_own;
use anyhow::{Context, Result};
use std::fs;

/// The pinned packages.
const REQUIREMENTS: &str = files::text!("wagtail/requirements.txt");
/// The script that makes the content.
const FILL: &str = files::text!("wagtail/project/fill.py");
/// The models of the content.
const MODELS: &str = files::text!("wagtail/project/lab/models.py");

/// A file of the Django project. It is copied unchanged, because Django uses double braces itself.
macro_rules! project {
    ($path:literal) => {
        files::verbatim!(concat!("project/", $path), concat!("wagtail/project/", $path))
    };
}

/// A step that starts a gunicorn with the cache that `LAB_CACHE` names. It loads the site once and
/// then forks three workers.
macro_rules! gunicorn {
    ($name:literal, $cache:literal) => {
        Step::Start(Server {
            name: concat!("gunicorn-", $name),
            command: concat!(
                "env LAB_CACHE=",
                $cache,
                " DJANGO_SETTINGS_MODULE=lab.settings {{site}}/venv/bin/python -m gunicorn lab.wsgi --preload \
                 --workers 3 --no-control-socket --chdir {{site}}/project --worker-tmp-dir {{site}}/tmp \
                 --bind unix:{{site}}/run/",
                $name,
                ".sock"
            ),
            ready: Ready::Socket(concat!($name, ".sock")),
        })
    };
}

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "Wagtail",
    name: "wagtail",
    host: "wagtail.test",
    page: "/",
    log_in: "/admin/login/",
    packages: &[&["nginx-core", "python3-venv", "varnish"]],
    addresses: &[
        ("nginx_templates", "nginx, Django keeps compiled templates"),
        ("nginx_pages", "nginx, Django keeps whole pages as well"),
        ("nginx_plain", "nginx, Django keeps nothing"),
        ("varnish", "Varnish before nginx_templates"),
        ("edge", "free for Petasos: Wagtail sends its purges there"),
    ],
    secrets: &["admin_password", "user_password", "secret_key"],
    templates: &[&[
        files::NGINX_HTTP,
        files::rendered!("conf/nginx.conf", "wagtail/conf/nginx.conf"),
        files::rendered!("conf/nginx-site.conf", "wagtail/conf/nginx-site.conf"),
        files::rendered!("conf/varnish.vcl", "wagtail/conf/varnish.vcl"),
        files::rendered!("project/lab/settings.py", "wagtail/project/lab/settings.py"),
        project!("fill.py"),
        project!("lab/__init__.py"),
        project!("lab/layers.py"),
        project!("lab/migrations/0001_initial.py"),
        project!("lab/migrations/__init__.py"),
        project!("lab/models.py"),
        project!("lab/templates/lab/article.html"),
        project!("lab/templates/lab/article_index.html"),
        project!("lab/templates/lab/base.html"),
        project!("lab/templates/lab/form_page.html"),
        project!("lab/templates/lab/form_page_landing.html"),
        project!("lab/templates/lab/home_page.html"),
        project!("lab/templates/lab/search.html"),
        project!("lab/templates/lab/teaser.html"),
        project!("lab/urls.py"),
        project!("lab/views.py"),
        project!("lab/wsgi.py"),
    ]],
    is_current: |_| true,
    steps: &[
        StackStep::Make(|site| python::environment(site, REQUIREMENTS)),
        StackStep::Write,
        StackStep::Make(fill),
        gunicorn!("plain", "none"),
        gunicorn!("templates", "templates"),
        gunicorn!("pages", "pages"),
        front::start_nginx(&["nginx_plain", "nginx_templates", "nginx_pages"]),
        front::START_VARNISH,
    ],
};

/// Makes the database and its content, unless they exist and come from these scripts and packages.
fn fill(site: &StackSite<'_>) -> Result<()> {
    let data = site.at("data");
    let new = site.at("data.new");
    let mark = site.at("data/filled-by");
    let wanted = format!("{REQUIREMENTS}\n{FILL}\n{MODELS}");
    if files::holds(&mark, &wanted) {
        return Ok(());
    }
    [&data, &new, &site.at("cache")].into_iter().try_for_each(|old| remove(old))?;
    make_own(site.place.account, &new)?;
    let mut command = site.place.account.step("env");
    command.arg(format!("LAB_DATA={}", new.display())).arg("DJANGO_SETTINGS_MODULE=lab.settings");
    command.arg(site.at("venv/bin/python")).arg(site.at("project/fill.py"));
    command.arg(site.at("conf/admin-password")).arg(site.at("conf/user-password")).arg(site.stack.host);
    site.run("fill", &mut command)?;
    fs::write(new.join("filled-by"), wanted).context("cannot mark the content")?;
    fs::rename(&new, &data).with_context(|| format!("cannot make {}", data.display()))
}
