//! Recognises a content management system by the files of a document root, and lists the settings
//! that let it purge its pages.

use crate::source::Machine;
use serde::Serialize;
use std::path::Path;

/// A system that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct System {
    /// The name of its profile.
    pub profile: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The document root.
    pub root: String,
    /// Settings to make, one line each.
    pub settings: Vec<String>,
}

/// Finds the system of a document root.
pub(crate) fn recognise(machine: &dyn Machine, root: &str, plain_port: u16) -> Option<System> {
    let has = |path: &str| machine.exists(&Path::new(root).join(path));
    let (profile, name) = if has("wp-includes/version.php") {
        ("wordpress", "WordPress")
    } else if has("load.php") && has("includes/WebStart.php") {
        ("mediawiki", "MediaWiki")
    } else if has("core/lib/Drupal.php") || has("misc/drupal.js") {
        ("drupal", "Drupal")
    } else if has("typo3/sysext") || has("typo3conf") {
        ("typo3", "TYPO3")
    } else {
        return None;
    };
    let settings = match profile {
        "wordpress" => vec![
            "copy integrations/wordpress of Petasos to wp-content/plugins/petasos and activate it".to_owned(),
            "wp-config.php: define( 'PETASOS_ADMIN', 'http://127.0.0.1:8081' );".to_owned(),
        ],
        "mediawiki" => vec![
            "LocalSettings.php: $wgUseCdn = true;".to_owned(),
            format!("LocalSettings.php: $wgCdnServers = [ '127.0.0.1:{plain_port}' ];"),
            "LocalSettings.php: $wgCdnServersNoPurge = [ '127.0.0.1' ];".to_owned(),
            "petasos.toml: purge_peers = [\"127.0.0.1\"]".to_owned(),
        ],
        "drupal" => vec![
            "settings.php: $settings['reverse_proxy'] = TRUE;".to_owned(),
            "settings.php: $settings['reverse_proxy_addresses'] = ['127.0.0.1'];".to_owned(),
            "modules Purge and Varnish Purge, as examples/drupal of Petasos describes".to_owned(),
            "petasos.toml: purge_peers = [\"127.0.0.1\"]".to_owned(),
        ],
        _ => vec![
            "purges of changed pages, as examples/typo3 of Petasos describes".to_owned(),
            "petasos.toml: purge_peers = [\"127.0.0.1\"]".to_owned(),
        ],
    };
    Some(System { profile, name, root: root.to_owned(), settings })
}
