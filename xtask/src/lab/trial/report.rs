//! The report of a trial, read from its JSON document.
//!
//! Invariant: figures that follow from others are computed again here.

use super::sites::Statements;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// Largest relative difference between a figure and the same one computed again.
const ROUNDING: f64 = 1e-6;

/// A page of the report.
pub(super) struct ReportedPage {
    /// Its URL.
    pub(super) url: String,
    /// The kind of change after which it can be answered from memory.
    pub(super) class: String,
    /// Whether the page is the same with and without Petasos.
    is_same: bool,
    server_ms: f64,
}

/// A report.
pub(super) struct Report {
    document: Value,
    /// The visited pages.
    pub(super) pages: Vec<ReportedPage>,
}

impl Report {
    /// Reads the JSON document.
    ///
    /// # Errors
    /// If a member is missing.
    pub(super) fn read(text: &str) -> Result<Self> {
        let document: Value = serde_json::from_str(text)?;
        let pages = document.pointer("/pages").and_then(Value::as_array).context("no pages")?;
        let page = |page: &Value| {
            let text = |path: &str| page.pointer(path).and_then(Value::as_str).map(str::to_owned);
            Some(ReportedPage {
                url: text("/url")?,
                class: text("/class")?,
                is_same: ["same", "same-but-moving"].contains(&text("/anonymous/result")?.as_str()),
                server_ms: page.pointer("/server_ms")?.as_f64()?,
            })
        };
        let pages = pages.iter().map(page).collect::<Option<Vec<_>>>().context("a page is incomplete")?;
        Ok(Self { document, pages })
    }

    fn text(&self, path: &str) -> &str {
        self.document.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, path: &str) -> Option<f64> {
        self.document.pointer(path)?.as_f64()
    }

    /// The statements as text.
    pub(super) fn statements(&self) -> String {
        let software = self.document.pointer("/software").and_then(Value::as_array);
        let names = software.into_iter().flatten().filter_map(|one| one.pointer("/name")?.as_str());
        let software = names.collect::<Vec<_>>().join(", ");
        let count = |class: &str| self.pages.iter().filter(|page| page.class == class).count();
        let statements = Statements {
            software: &software,
            profile: self.text("/profile"),
            pages: self.pages.len(),
            memory: self.pages.iter().filter(|page| page.class == "memory" && page.is_same).count(),
            setting: count("setting"),
            application: count("application"),
            personal: count("personal"),
            cookie: self.text("/everybodys_cookie/name"),
            load: self.text("/load/outcome"),
        };
        statements.to_string()
    }

    /// The faults that the report itself shows.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for page in self.pages.iter().filter(|page| !page.is_same) {
            faults.push(format!("{} is not the same through Petasos", page.url));
        }
        let made = self.text("/load/outcome") == "made";
        let range = |of: &str| -> Option<[f64; 3]> {
            let number = |name: &str| self.number(&format!("/load/factors/{of}/{name}"));
            Some([number("low")?, number("times")?, number("high")?])
        };
        match (range("from_memory"), range("across_pages")) {
            (None, None) => {
                let limits = ["today", "with_petasos"].map(|side| {
                    let is = |name: &str| self.document.pointer(&format!("/load/{side}/{name}"));
                    is("is_generator_limit") == Some(&Value::Bool(true))
                        || is("is_valid") == Some(&Value::Bool(false))
                });
                if made && limits == [false, false] {
                    faults.push("there is no factor, and no cause of that".to_owned());
                }
            }
            (Some(memory), Some(across)) if made => {
                for ([low, times, high], name) in [(memory, "from memory"), (across, "across pages")] {
                    if !(0.0 < low && low <= times && times <= high) {
                        faults.push(format!("the factor {name} is {low} to {times} to {high}"));
                    }
                }
                for (factor, stated) in memory.into_iter().zip(across) {
                    let expected = self.across(factor);
                    if (stated / expected - 1.0).abs() > ROUNDING {
                        faults.push(format!("the factor across pages is {stated} and should be {expected}"));
                    }
                }
            }
            _ => faults.push("there is half a factor, or one without a load".to_owned()),
        }
        faults
    }

    /// The factor across all pages, each requested equally often.
    fn across(&self, factor: f64) -> f64 {
        let after = |page: &ReportedPage| {
            if page.class == "memory" && page.is_same { page.server_ms / factor } else { page.server_ms }
        };
        let before: f64 = self.pages.iter().map(|page| page.server_ms).sum();
        before / self.pages.iter().map(after).sum::<f64>()
    }

    /// The URLs with their classes, for a comparison.
    pub(super) fn classes(&self) -> BTreeMap<&str, &str> {
        self.pages.iter().map(|page| (page.url.as_str(), page.class.as_str())).collect()
    }
}
