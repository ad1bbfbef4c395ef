//! The rules for nginx. They use only the modules core, rewrite and headers, so the rules
//! themselves choose the coded file.

use super::cookies;
use super::{CACHE_CONTROL, HOST_REGEX, RuleInputs, accepts_regex};
use crate::Layout;

pub(super) fn text(rules: &RuleInputs<'_>) -> String {
    let RuleInputs { layout, directory, policy } = rules;
    let page = match layout {
        Layout::Typo3 => "set $petasos_page \"${scheme}_${host}_${petasos_port}${uri}/index\";\n",
        Layout::WpSuperCache => {
            "set $petasos_page \"${host}${uri}index.html\";\n\
             if ($scheme = https) { set $petasos_page \"${host}${uri}index-https.html\"; }\n"
        }
        Layout::CacheEnabler => "set $petasos_page \"${host}${uri}${scheme}-index.html\";\n",
        Layout::Boost => {
            "set $petasos_page \"${host}${uri}_.html\";\n\
             if ($scheme != http) { set $petasos_page none; }\n"
        }
    };
    let target = rules.target_regex();
    let cookies = cookies::regex(policy);
    let coding = |ending: &str, coding: &str| {
        format!(
            "set $petasos_coded $petasos_found;\n\
             if ($http_accept_encoding !~* \"{}\") {{ set $petasos_coded \"\"; }}\n\
             if (!-f \"{directory}/${{petasos_page}}.{ending}\") {{ set $petasos_coded \"\"; }}\n\
             if ($petasos_coded) {{ set $petasos_found \"{ending}/${{petasos_page}}.{ending}\"; }}\n",
            accepts_regex(coding)
        )
    };
    let location = |name: &str, coding: &str| {
        format!(
            "location ^~ /petasos-static-tree/{name}/ {{\n    internal;\n    alias {directory}/;\n    types {{ }}\n    \
             default_type \"text/html; charset=utf-8\";\n    charset off;\n    gzip off;\n    \
             add_header Cache-Control {CACHE_CONTROL};\n    add_header Vary Accept-Encoding;\n{coding}}}\n"
        )
    };
    let codings = [coding("gz", "gzip"), coding("br", "br")].concat();
    let locations = [
        location("plain", ""),
        location("gz", "    add_header Content-Encoding gzip;\n"),
        location("br", "    add_header Content-Encoding br;\n"),
    ]
    .concat();
    format!(
        "# Petasos' static tree in nginx, layout {layout}: to be included in a server block. Fields that the server block\n\
         # adds to its answers are to be added in the three locations as well.\n\
         set $petasos_port 80;\n\
         if ($scheme = https) {{ set $petasos_port 443; }}\n\
         if ($http_host ~ \":([0-9]+)$\") {{ set $petasos_port $1; }}\n\
         {page}\
         if ($request_method !~ \"^(?:GET|HEAD)$\") {{ set $petasos_page none; }}\n\
         if ($request_uri !~ \"^{target}$\") {{ set $petasos_page none; }}\n\
         if ($host !~ \"^{HOST_REGEX}$\") {{ set $petasos_page none; }}\n\
         if ($http_authorization) {{ set $petasos_page none; }}\n\
         if ($http_cookie ~* \"{cookies}\") {{ set $petasos_page none; }}\n\
         set $petasos_found \"\";\n\
         if (-f \"{directory}/$petasos_page\") {{ set $petasos_found \"plain/$petasos_page\"; }}\n\
         {codings}\
         if ($petasos_found) {{ rewrite ^ /petasos-static-tree/$petasos_found last; }}\n\
         {locations}",
        layout = layout.name(),
    )
}
