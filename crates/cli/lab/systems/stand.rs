//! A content system on its stand: its lab with an edge before it, and what must hold for the pages of every system.
//! What is special about one stands in its [`Cms`], or in its own module.
//!
//! Invariant: each visitor that nobody knows is another one, so that nothing by which one of them is known may be seen
//! by the next; and values stay their visitor's until the stand is left.

use super::visitor::{Form, Lab, Owners, Visitor, comes_to_share, is_hit, within_two_seconds};
use std::cell::Cell;
use std::net::SocketAddr;
use testkit::{Edge, Response};

/// What is special about a content system.
pub(crate) struct Cms {
    /// The name of its lab.
    pub(crate) lab: &'static str,
    /// Which of the lab's addresses the edge stands before.
    pub(crate) origin: &'static str,
    /// What the edge is told to expect there.
    pub(crate) profile: &'static str,
    /// Pages that all who are not known share.
    pub(crate) shared: &'static [&'static str],
    /// Pages that are each visitor's own.
    pub(crate) own: &'static [&'static str],
    /// Who can log in.
    pub(crate) users: [&'static str; 2],
    /// How they do.
    pub(crate) login: Login,
    /// That an answer is this visitor's own, by what marks it as somebody's.
    pub(crate) check: fn(&Visitor<'_>, &str, &Response),
    /// Cookies of visitors that change no page.
    pub(crate) idle_cookies: &'static [(&'static str, &'static str)],
}

impl Cms {
    fn targets(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.shared.iter().chain(self.own).copied()
    }

    fn look(&self, visitor: &mut Visitor<'_>, target: &str) {
        let answer = visitor.get(target);
        (self.check)(visitor, target, &answer);
    }
}

/// The form that visitors are shown to log in by.
pub(crate) struct Login {
    /// Where it is shown and sent to.
    pub(crate) target: &'static str,
    /// What tells it from the other forms of its page.
    pub(crate) sign: &'static str,
    /// The field of the user's name.
    pub(crate) name: &'static str,
    /// The field of the password.
    pub(crate) password: &'static str,
    /// What it must have beside its own fields.
    pub(crate) more: &'static [(&'static str, &'static str)],
}

impl Login {
    /// Logs a visitor in whose name is a user's.
    pub(crate) fn log_in(&self, user: &mut Visitor<'_>, password: &str) {
        let page = user.get(self.target);
        let form = Form::of(page.text(), self.sign).with(self.name, &user.name).with(self.password, password);
        let form = self.more.iter().fold(form, |form, (name, value)| form.with(name, value));
        let answer = user.post(self.target, &form);
        assert_eq!(answer.status, 302, "{}: {}", user.name, answer.head);
    }
}

/// The system as visitors meet it.
pub(crate) struct Stand {
    cms: &'static Cms,
    /// Before the lab, so that it is gone when the lab's turn is over.
    pub(crate) edge: Edge,
    lab: Lab,
    owners: Owners,
    strangers: Cell<usize>,
}

impl Stand {
    /// An edge that has stored nothing before the system's lab, which must be up.
    pub(crate) fn of(cms: &'static Cms) -> Self {
        let lab = Lab::find(cms.lab);
        let edge = lab.edge(cms.origin, cms.profile);
        Self { cms, edge, lab, owners: Owners::default(), strangers: Cell::new(0) }
    }

    /// Somebody with a name, who comes for the first time.
    pub(crate) fn visitor(&self, name: &str) -> Visitor<'_> {
        self.visitor_of(name, self.edge.address)
    }

    /// Somebody who is not known and was never here before.
    pub(crate) fn nobody(&self) -> Visitor<'_> {
        self.strangers.set(self.strangers.get() + 1);
        self.visitor(&format!("{NOBODY} {}", self.strangers.get()))
    }

    /// A user who is logged in.
    pub(crate) fn user(&self, name: &str) -> Visitor<'_> {
        self.logged_in(self.visitor(name))
    }

    /// A user who is logged in and does not come through the edge.
    pub(crate) fn user_behind_the_edge(&self, name: &str) -> Visitor<'_> {
        self.logged_in(self.visitor_of(name, self.lab.address(self.cms.origin)))
    }

    fn visitor_of(&self, name: &str, address: SocketAddr) -> Visitor<'_> {
        Visitor::new(name, address, self.lab.value("host"), &self.owners)
    }

    fn logged_in<'a>(&self, mut user: Visitor<'a>) -> Visitor<'a> {
        self.cms.login.log_in(&mut user, self.lab.value("user_password"));
        user
    }

    /// That the second visitor of a shared page is answered from the store, and nobody is with what is each one's own.
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

    /// That neither two users nor those who are not known are shown what is another one's.
    pub(crate) fn users_see_their_own_pages_only(&self) {
        let (cms, [first, second]) = (self.cms, self.cms.users);
        let mut visitors = [self.nobody(), self.user(first), self.user(second)];
        // In turns, so that each comes after each other.
        for target in cms.targets() {
            for turn in [0, 1, 2, 0, 2, 1, 0] {
                cms.look(&mut visitors[turn], target);
                if turn == 0 {
                    visitors[0] = self.nobody();
                }
            }
        }
        // All at once, while others are on their way.
        std::thread::scope(|scope| {
            for visitor in &mut visitors {
                scope.spawn(move || cms.targets().for_each(|target| cms.look(visitor, target)));
            }
        });
    }

    /// That somebody who has the system's idle cookies shares pages with those who have none.
    pub(crate) fn cookies_that_mean_nothing_do_not_matter(&self) {
        let mut measured = self.visitor("measured");
        self.cms.idle_cookies.iter().for_each(|(name, value)| measured.keep(name, value));
        comes_to_share(&mut measured, self.cms.shared);
    }

    /// That pages come from the store, and without these words so far.
    pub(crate) fn are_stored_without(&self, targets: &[&str], words: &str) {
        for target in targets {
            self.nobody().get(target);
            let before = self.nobody().get(target);
            assert!(is_hit(&before) && !before.text().contains(words), "{target}: {}", before.head);
        }
    }

    /// That those who are not known come to see these words in time.
    pub(crate) fn nobody_misses(&self, target: &str, words: &str) {
        within_two_seconds(&format!("an anonymous visitor sees it at {target}"), || {
            sees(&mut self.nobody(), target, words)
        });
    }

    /// That a page comes from the store again in time.
    pub(crate) fn is_shared_again(&self, target: &str) {
        within_two_seconds(&format!("{target} is shared again"), || is_hit(&self.nobody().get(target)));
    }

    /// How many purges the edge has obeyed.
    pub(crate) fn purges(&self) -> f64 {
        self.edge.metric("petasos_purges_total", "")
    }

    /// That the edge obeyed all that the system asked it to purge.
    pub(crate) fn no_purge_was_refused(&self) {
        for name in ["petasos_purges_forbidden_total", "petasos_purges_malformed_total"] {
            assert!(self.edge.metric(name, "") < 1.0, "{name}: a purge was refused");
        }
    }
}

/// Whether a visitor is a user.
pub(crate) fn is_known(visitor: &Visitor<'_>) -> bool {
    !visitor.name.starts_with(NOBODY)
}

/// Whether a visitor finds these words in a page.
pub(crate) fn sees(visitor: &mut Visitor<'_>, target: &str, words: &str) -> bool {
    visitor.get(target).text().contains(words)
}

/// What the name of everybody who is not known begins with.
const NOBODY: &str = "nobody";
