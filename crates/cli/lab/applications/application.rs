//! The four applications of the lab: their pages, their visitors, and the hit ratios that Petasos
//! promises for them.

/// An application, and the marks that identify whose page it is.
pub(crate) struct Application {
    pub(crate) name: &'static str,
    /// The lab's variable with its address.
    pub(crate) address: &'static str,
    pub(crate) pages: [&'static str; 10],
    /// Accounts of the visitors, in order; `None` is a visitor without an account.
    pub(crate) visitors: &'static [Option<&'static str>],
    /// Text that every page of this user contains, and no other visitor's page.
    pub(crate) mark: fn(&str) -> String,
    pub(crate) login: LoginPage,
    /// JavaScript expression for the session identifier that each page shows, if it does.
    pub(crate) session: Option<&'static str>,
    /// Arguments of Petasos, and the smallest share of hits they must give among the first
    /// visitor's requests for files.
    pub(crate) promises: &'static [(&'static [&'static str], f64)],
}

/// Target of the login page, and selectors of the form's fields and button.
pub(crate) struct LoginPage {
    pub(crate) page: &'static str,
    pub(crate) name: &'static str,
    pub(crate) password: &'static str,
    pub(crate) submit: &'static str,
}

/// Login of an application without accounts.
const NO_LOGIN: LoginPage = LoginPage { page: "", name: "", password: "", submit: "" };

pub(crate) const APPLICATIONS: &[Application] = &[
    Application {
        name: "MoinMoin 2.0.0b5",
        address: "moin",
        pages: [
            "/Home",
            "/help-en/Home",
            "/+index/",
            "/+history",
            "/+tags",
            "/+history/Home",
            "/+meta/Home",
            "/help-en/creole",
            "/help-en/markdown",
            "/+highlight/Home",
        ],
        visitors: &[None, Some("alice"), Some("bob")],
        mark: |user| format!("title=\"{user} @ Self\""),
        login: LoginPage {
            page: "/+login",
            name: "#f_login_username",
            password: "#f_login_password",
            submit: "form[name=login] input[type=submit]",
        },
        session: None,
        // Its files are revalidated every ten seconds, so a slow machine sees fewer hits.
        promises: &[(&[], 0.5)],
    },
    Application {
        name: "Django 5.2 admin",
        address: "django",
        pages: [
            "/admin/",
            "/admin/auth/",
            "/admin/auth/user/",
            "/admin/auth/user/add/",
            "/admin/auth/user/3/change/",
            "/admin/auth/user/3/history/",
            "/admin/auth/group/",
            "/admin/auth/group/add/",
            "/admin/auth/group/1/change/",
            "/admin/password_change/",
        ],
        visitors: &[Some("alice"), Some("bob")],
        mark: |user| format!("<strong>{user}</strong>"),
        login: LoginPage {
            page: "/admin/login/?next=/admin/",
            name: "#id_username",
            password: "#id_password",
            submit: "input[type=submit]",
        },
        session: None,
        promises: &[(&[], 0.8)],
    },
    Application {
        name: "Flask 3.1",
        address: "flask",
        pages: [
            "/",
            "/goods/bread",
            "/goods/plums",
            "/goods/letters",
            "/goods/lamps",
            "/goods/boats",
            "/goods/maps",
            "/goods/clocks",
            "/goods/kites",
            "/goods/bells",
        ],
        visitors: &[None, None],
        mark: str::to_owned,
        login: NO_LOGIN,
        session: Some("document.querySelector('#visitor').innerText"),
        // Without its profile, `Vary: Cookie` and `no-cache` on its files are obeyed.
        promises: &[(&[], 0.0), (&["--profile", "flask"], 0.75)],
    },
    Application {
        name: "PHP 8.2",
        address: "php",
        pages: [
            "/",
            "/index.php?goods=bread",
            "/index.php?goods=plums",
            "/index.php?goods=letters",
            "/index.php?goods=lamps",
            "/index.php?goods=boats",
            "/index.php?goods=maps",
            "/index.php?goods=clocks",
            "/index.php?goods=kites",
            "/index.php?goods=bells",
        ],
        visitors: &[None, None],
        mark: str::to_owned,
        login: NO_LOGIN,
        session: Some("document.querySelector('#visitor').innerText"),
        promises: &[(&[], 0.75)],
    },
];
