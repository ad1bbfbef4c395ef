//! A content system's lab with an edge in front, and the checks that hold for every system. A
//! system's [`Cms`] or its module has its specific parts.
//!
//! Invariants: each anonymous visitor is a new one, so that the next one must not see any value
//! that identifies it. A value that identifies a visitor stays assigned to that visitor while the
//! stand exists.

use super::visitor::{
    FormFields, LabVariables, LabVisitor, Owners, comes_to_share, is_hit, within_two_seconds,
};
use std::cell::Cell;
use std::net::SocketAddr;
use testkit::{Edge, Response};

/// The properties of a content system.
pub(crate) struct Cms {
    /// Name of its lab.
    pub(crate) lab: &'static str,
    /// The lab's variable with the address of the edge's origin.
    pub(crate) origin: &'static str,
    /// The edge's setting `profile`.
    pub(crate) profile: &'static str,
    /// Pages that all anonymous visitors share.
    pub(crate) shared: &'static [&'static str],
    /// Pages that are private to each visitor.
    pub(crate) own: &'static [&'static str],
    /// Users who can log in.
    pub(crate) users: [&'static str; 2],
    /// The login form.
    pub(crate) login: LoginForm,
    /// Checks that a response belongs to this visitor, by the marks and tokens in it.
    pub(crate) check: fn(&LabVisitor<'_>, &str, &Response),
    /// Cookies that change no page.
    pub(crate) idle_cookies: &'static [(&'static str, &'static str)],
}

impl Cms {
    fn targets(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.shared.iter().chain(self.own).copied()
    }

    fn look(&self, visitor: &mut LabVisitor<'_>, target: &str) {
        let answer = visitor.get(target);
        (self.check)(visitor, target, &answer);
    }
}

/// The login form of a system.
pub(crate) struct LoginForm {
    /// Target that shows the form and receives it.
    pub(crate) target: &'static str,
    /// Text that only this form of the page contains.
    pub(crate) sign: &'static str,
    /// Name of the field for the user's name.
    pub(crate) name: &'static str,
    /// Name of the field for the password.
    pub(crate) password: &'static str,
    /// Fields to add to those of the form.
    pub(crate) more: &'static [(&'static str, &'static str)],
}

impl LoginForm {
    /// Logs a visitor in under the visitor's name, which must be a user's.
    pub(crate) fn log_in(&self, user: &mut LabVisitor<'_>, password: &str) {
        let page = user.get(self.target);
        let form =
            FormFields::of(page.text(), self.sign).with(self.name, &user.name).with(self.password, password);
        let form = self.more.iter().fold(form, |form, (name, value)| form.with(name, value));
        let answer = user.post(self.target, &form);
        assert_eq!(answer.status, 302, "{}: {}", user.name, answer.head);
    }
}

/// The running lab and edge, with the visitors' values.
pub(crate) struct RunningLab {
    cms: &'static Cms,
    /// Declared before the lab, so that it is dropped before another test gets the lab.
    pub(crate) edge: Edge,
    lab: LabVariables,
    owners: Owners,
    strangers: Cell<usize>,
}

impl RunningLab {
    /// Starts an edge with an empty store in front of the system's lab, which must be up.
    pub(crate) fn of(cms: &'static Cms) -> Self {
        let lab = LabVariables::find(cms.lab);
        let edge = lab.edge(cms.origin, cms.profile);
        Self { cms, edge, lab, owners: Owners::default(), strangers: Cell::new(0) }
    }

    /// The value of one of the lab's variables.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.lab.value(name)
    }

    /// A new visitor with this name.
    pub(crate) fn visitor(&self, name: &str) -> LabVisitor<'_> {
        self.visitor_of(name, self.edge.address)
    }

    /// A new anonymous visitor.
    pub(crate) fn nobody(&self) -> LabVisitor<'_> {
        self.strangers.set(self.strangers.get() + 1);
        self.visitor(&format!("{NOBODY} {}", self.strangers.get()))
    }

    /// A logged-in user.
    pub(crate) fn user(&self, name: &str) -> LabVisitor<'_> {
        self.logged_in(self.visitor(name))
    }

    /// A logged-in user who reaches the application directly and not through the edge.
    pub(crate) fn user_behind_the_edge(&self, name: &str) -> LabVisitor<'_> {
        self.logged_in(self.visitor_of(name, self.lab.address(self.cms.origin)))
    }

    fn visitor_of(&self, name: &str, address: SocketAddr) -> LabVisitor<'_> {
        LabVisitor::new(name, address, self.lab.value("host"), &self.owners)
    }

    fn logged_in<'a>(&self, mut user: LabVisitor<'a>) -> LabVisitor<'a> {
        self.cms.login.log_in(&mut user, self.lab.value("user_password"));
        user
    }

    /// Checks that shared pages become hits for the second visitor, and that private pages never
    /// do.
    pub(crate) fn anonymous_pages_become_hits(&self) {
        for target in self.cms.shared {
            self.nobody().get(target);
            let answer = self.nobody().get(target);
            assert!(answer.status == 200 && is_hit(&answer), "{target}: {}", answer.head);
        }
        for target in self.cms.own {
            let mut visitor = self.nobody();
            visitor.get(target);
            let answer = visitor.get(target);
            assert!(!is_hit(&answer), "{target}: {}", answer.head);
        }
    }

    /// Checks that neither two users nor anonymous visitors receive each other's pages.
    pub(crate) fn users_see_their_own_pages_only(&self) {
        let (cms, [first, second]) = (self.cms, self.cms.users);
        let mut visitors = [self.nobody(), self.user(first), self.user(second)];
        // In turns, so that every visitor comes after every other.
        for target in cms.targets() {
            for turn in [0, 1, 2, 0, 2, 1, 0] {
                cms.look(&mut visitors[turn], target);
                if turn == 0 {
                    visitors[0] = self.nobody();
                }
            }
        }
        // All visitors at once.
        std::thread::scope(|scope| {
            for visitor in &mut visitors {
                scope.spawn(move || cms.targets().for_each(|target| cms.look(visitor, target)));
            }
        });
    }

    /// Checks that a visitor with the system's idle cookies shares pages with visitors without
    /// cookies.
    pub(crate) fn cookies_that_mean_nothing_do_not_matter(&self) {
        let mut measured = self.visitor("measured");
        self.cms.idle_cookies.iter().for_each(|(name, value)| measured.keep(name, value));
        comes_to_share(&mut measured, self.cms.shared);
    }

    /// Checks that these pages are hits and do not contain the words yet.
    pub(crate) fn are_stored_without(&self, targets: &[&str], words: &str) {
        for target in targets {
            self.nobody().get(target);
            let before = self.nobody().get(target);
            assert!(is_hit(&before) && !before.text().contains(words), "{target}: {}", before.head);
        }
    }

    /// Checks that anonymous visitors see these words within two seconds.
    pub(crate) fn nobody_misses(&self, target: &str, words: &str) {
        within_two_seconds(&format!("an anonymous visitor sees it at {target}"), || {
            sees(&mut self.nobody(), target, words)
        });
    }

    /// Checks that a page is a hit again within two seconds.
    pub(crate) fn is_shared_again(&self, target: &str) {
        within_two_seconds(&format!("{target} is shared again"), || is_hit(&self.nobody().get(target)));
    }

    /// Number of purges that the edge has obeyed.
    pub(crate) fn purges(&self) -> f64 {
        self.edge.metric("petasos_purges_total", "")
    }

    /// Checks that the edge refused none of the system's purges.
    pub(crate) fn no_purge_was_refused(&self) {
        for name in ["petasos_purges_forbidden_total", "petasos_purges_malformed_total"] {
            assert!(self.edge.metric(name, "") < 1.0, "{name}: a purge was refused");
        }
    }
}

/// Whether a visitor is a logged-in user.
pub(crate) fn is_known(visitor: &LabVisitor<'_>) -> bool {
    !visitor.name.starts_with(NOBODY)
}

/// Whether a page contains these words for a visitor.
pub(crate) fn sees(visitor: &mut LabVisitor<'_>, target: &str, words: &str) -> bool {
    visitor.get(target).text().contains(words)
}

/// Prefix of the names of anonymous visitors.
const NOBODY: &str = "nobody";
