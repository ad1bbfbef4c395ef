//! The layers of a site that can be seen from outside, and the others.
//!
//! Invariant: a layer that was not seen is never said to be missing.

use crate::report::LayerReport;
use why::CacheAction;
use why::findings::Findings;

/// Systems that PHP runs.
const ON_PHP: [&str; 16] = [
    "Backdrop",
    "Contao",
    "Drupal",
    "Joomla",
    "Laravel",
    "Magento 2",
    "MediaWiki",
    "Moodle",
    "Nextcloud",
    "OpenCart",
    "PHP",
    "PrestaShop",
    "Shopware 6",
    "TYPO3",
    "WordPress",
    "phpBB",
];

/// The layers, as the start page shows them.
pub(crate) fn layers(findings: &Findings) -> Vec<LayerReport> {
    let mut layers = vec![page_cache(findings), compression(findings)];
    let is_php = findings.software.iter().any(|software| ON_PHP.contains(&software.name));
    if is_php {
        layers.push(LayerReport {
            layer: "opcode cache",
            seen: "cannot be seen from outside. If it is off, switching it on is worth more than any proxy: \
                   look for opcache.enable in phpinfo() of the web server's PHP."
                .to_owned(),
        });
    }
    layers.push(LayerReport {
        layer: "object cache",
        seen: "cannot be seen from outside. It makes the pages faster that no page cache may answer."
            .to_owned(),
    });
    layers
}

fn page_cache(findings: &Findings) -> LayerReport {
    let stated = findings.fronts.iter().find(|said| said.request == "plain_again");
    let seen = match stated.or_else(|| findings.fronts.first()) {
        None => "none is stated in the responses; one inside of the application cannot be seen".to_owned(),
        Some(said) => {
            let front = &said.front;
            let whose = front.software.map_or_else(String::new, |software| format!(" ({software})"));
            let meaning = match front.says {
                CacheAction::Hit => {
                    "it answered; what follows is measured against it, not against the application"
                }
                CacheAction::Miss => "it fetched the page from the application",
                CacheAction::Pass => "it let the request pass",
                CacheAction::Other => "it does not say what it did",
            };
            format!("{}: {}{whose}; {meaning}", front.field, front.value)
        }
    };
    LayerReport { layer: "page cache", seen }
}

fn compression(findings: &Findings) -> LayerReport {
    let seen = match &findings.compression {
        None => "not known".to_owned(),
        Some(compression) => match &compression.coding {
            Some(coding) => coding.clone(),
            None => {
                "none for browsers that accept gzip and brotli; Petasos compresses stored pages".to_owned()
            }
        },
    };
    LayerReport { layer: "compression", seen }
}
