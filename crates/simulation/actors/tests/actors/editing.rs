//! Editors that talk to an honest origin.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::town::Town;
use petasos_actors::{Application, Editor, EditorAction, EditorPlan, EditorStep, SitePlan, lock};
use std::collections::BTreeSet;
use std::sync::Arc;
use world::Random;

/// Lets an editor save the first page by each form of the application. Returns the forms whose
/// saves were recorded, and the version of the page.
async fn save(application: Application) -> (BTreeSet<String>, u64) {
    let site = SitePlan { application: Some(application), ..SitePlan::random(&mut Random::new(2), "a.test") };
    let path = site.pages.first().unwrap().path.clone();
    let step = |action| EditorStep { pause_ms: 10, action, is_other_host: false };
    let saves = application.forms().iter().map(|form| EditorAction::Save(*form, path.clone()));
    let steps = saves.chain([EditorAction::Start]).map(step).collect();
    let town = Town::new(site, 1);
    let origin = town.origin.clone();
    let editor = Editor {
        plan: EditorPlan { number: 1, steps },
        site: town.plan(),
        ledger: Arc::clone(&town.ledger),
        timeline: town.timeline,
        connect: move || Some(Town::connect(&origin, 1 << 16)),
    };
    editor.run().await;
    town.is_right();
    let version = lock(&town.site).state(&path).unwrap().version;
    let saved = lock(&town.ledger).tally().dialects.keys().cloned().collect();
    (saved, version)
}

#[tokio::test(start_paused = true)]
async fn each_form_edits_its_page_and_is_recorded() {
    for application in Application::ALL {
        let (saved, version) = save(application).await;
        let forms: BTreeSet<_> = application.forms().iter().map(|form| format!("{form:?}")).collect();
        assert_eq!(saved, forms);
        assert_eq!(version, 1 + application.forms().len() as u64);
    }
}

#[test]
fn site_without_an_application_has_nothing_to_edit() {
    let site = SitePlan::random(&mut Random::new(1), "a.test");
    assert!(EditorPlan::random(&mut Random::new(3), 1, &site).steps.is_empty());
    let site = SitePlan { application: Some(Application::Drupal), ..site };
    assert!(!EditorPlan::random(&mut Random::new(3), 1, &site).steps.is_empty());
}
