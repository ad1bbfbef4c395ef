//! The rules for Apache, for its modules rewrite and headers.

use super::cookies;
use super::{CACHE_CONTROL, HOST_REGEX, RuleInputs, accepts_regex};
use crate::Layout;

pub(super) fn text(rules: &RuleInputs<'_>) -> String {
    let RuleInputs { layout, directory, policy } = rules;
    let target = rules.target_regex();
    let cookies = cookies::regex(policy);
    let conditions = format!(
        "RewriteCond %{{REQUEST_METHOD}} \"^(?:GET|HEAD)$\"\n\
         RewriteCond %{{THE_REQUEST}} \"^[A-Z]+ {target} HTTP/\"\n\
         RewriteCond %{{HTTP:Authorization}} \"^$\"\n\
         RewriteCond %{{HTTP:Cookie}} \"!{cookies}\" [NC]\n"
    );
    // Pairs of a condition on scheme and host, and the name of the page under that condition.
    let pages: Vec<(String, &str)> = match layout {
        Layout::Typo3 => vec![
            (format!("^(http_{HOST_REGEX})$"), "%1_80%{REQUEST_URI}/index"),
            (format!("^(https_{HOST_REGEX})$"), "%1_443%{REQUEST_URI}/index"),
            (format!("^(https?_{HOST_REGEX}):([0-9]+)$"), "%1_%2%{REQUEST_URI}/index"),
        ],
        Layout::WpSuperCache => vec![
            (format!("^http_({HOST_REGEX})(?::[0-9]+)?$"), "%1%{REQUEST_URI}index.html"),
            (format!("^https_({HOST_REGEX})(?::[0-9]+)?$"), "%1%{REQUEST_URI}index-https.html"),
        ],
        Layout::CacheEnabler => {
            vec![(format!("^(https?)_({HOST_REGEX})(?::[0-9]+)?$"), "%2%{REQUEST_URI}%1-index.html")]
        }
        Layout::Boost => vec![(format!("^http_({HOST_REGEX})(?::[0-9]+)?$"), "%1%{REQUEST_URI}_.html")],
    };
    let page = |(host, page): (String, &str)| {
        format!(
            "{conditions}RewriteCond %{{REQUEST_SCHEME}}_%{{HTTP_HOST}} \"{host}\"\n\
             RewriteRule \"^\" \"-\" [E=PETASOS_PAGE:{page}]\n"
        )
    };
    let pages: String = pages.into_iter().map(page).collect();
    let there = format!(
        "RewriteCond %{{ENV:PETASOS_PAGE}} \".\"\nRewriteCond \"{directory}/%{{ENV:PETASOS_PAGE}}\" -f\n"
    );
    let coding = |ending: &str, coding: &str| {
        format!(
            "{there}RewriteCond %{{HTTP:Accept-Encoding}} \"{}\" [NC]\n\
             RewriteCond \"{directory}/%{{ENV:PETASOS_PAGE}}.{ending}\" -f\n\
             RewriteRule \"^\" \"{directory}/%{{ENV:PETASOS_PAGE}}.{ending}\" [E=no-gzip:1,E=no-brotli:1,END]\n",
            accepts_regex(coding)
        )
    };
    let codings = [coding("br", "br"), coding("gz", "gzip")].concat();
    format!(
        "# Petasos' static tree in Apache, layout {layout}: to be included in a <VirtualHost>, or in the server's own\n\
         # configuration where there is none. It needs the modules rewrite and headers.\n\
         RewriteEngine On\n\
         {pages}{codings}{there}\
         RewriteRule \"^\" \"{directory}/%{{ENV:PETASOS_PAGE}}\" [E=no-gzip:1,E=no-brotli:1,END]\n\
         <Directory \"{directory}\">\n    Require all granted\n    AllowOverride None\n    Options None\n    \
         ForceType \"text/html; charset=utf-8\"\n    Header set Cache-Control {CACHE_CONTROL}\n    \
         Header merge Vary Accept-Encoding\n    \
         <IfModule mod_mime.c>\n        RemoveEncoding .gz .br\n        RemoveLanguage .gz .br\n    </IfModule>\n    \
         <FilesMatch \"[.]gz$\">\n        Header set Content-Encoding gzip\n    </FilesMatch>\n    \
         <FilesMatch \"[.]br$\">\n        Header set Content-Encoding br\n    </FilesMatch>\n\
         </Directory>\n\
         <Directory \"{directory}/.petasos\">\n    Require all denied\n</Directory>\n",
        layout = layout.name(),
    )
}
