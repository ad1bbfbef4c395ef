//! Tests of plans as a whole.

use super::{EdgeLimits, EdgePlan, LogLevel, Policy};
use crate::{Machine, Overrides, SETTINGS, SettingScope};
use profiles::{ClientAddress, Pattern};
use semantics::{Coding, CompressionRules, MissForm};

fn load(text: &str, overrides: &Overrides) -> Result<EdgePlan, String> {
    let read = |path: &str| match path {
        "./shop.toml" => Ok("title = 'Shop'\nextends = 'wordpress'\n".to_owned()),
        "./cdn.txt" => Ok("# a network\n192.0.2.0/24\n".to_owned()),
        "./sorry.html" => Ok("<p>{message}".to_owned()),
        "./long.html" => Ok("x".repeat(super::site::PAGE_BYTES_MAX + 1)),
        "/t" => Ok("secret\n".to_owned()),
        "./bad.toml" => Ok("title = 'Bad'\nextend = 'wordpress'\n".to_owned()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
    };
    crate::load("petasos.toml", text, overrides, &Machine::of_size(3, 4 << 30), &read)
        .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
}

fn origin() -> Overrides {
    vec![("origin", "http://127.0.0.1:9000".to_owned())]
}

#[test]
fn limits_of_table_and_struct_match() {
    let fields = format!("{:?}", EdgeLimits::default()).matches(": ").count();
    let rows = SETTINGS.iter().filter(|setting| setting.key.starts_with("limits.")).count();
    assert_eq!(fields, rows);
}

#[test]
fn defaults_come_from_the_machine() {
    let plan = load("", &origin()).unwrap();
    assert_eq!((plan.workers, plan.memory_bytes), (2, 1 << 30));
    assert_eq!(plan.limits, EdgeLimits::default());
}

#[test]
fn directories_come_from_the_machine_unless_stated() {
    let machine = Machine { state_directory: Some("/s".into()), ..Machine::of_size(1, 1 << 30) };
    let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let directories = |text: &str| {
        let text = format!("disk = '/d'\n{text}");
        let plan = crate::load("petasos.toml", &text, &origin(), &machine, &read).unwrap();
        let disk = plan.disk.unwrap();
        [disk.state_directory, disk.runtime_directory, plan.spool.directory]
    };
    assert_eq!(directories(""), [Some("/s".into()), None, Some("/var/tmp".into())]);
    let stated = "state_directory = 'none'\nruntime_directory = '/r'\nspool_directory = '/t'\n";
    assert_eq!(directories(stated), [None, Some("/r".into()), Some("/t".into())]);
}

#[test]
fn flags_override_the_file_and_sites_override_the_top() {
    let text = "ttl = '1m'\n[[site]]\nnames = ['a.test']\nttl = '2m'\n[[site]]\nnames = ['b.test']\n";
    let plan = load(text, &origin()).unwrap();
    let ttl = |index: usize| plan.sites[index].policy.default_ttl.unwrap().as_secs();
    assert_eq!((ttl(0), ttl(1)), (120, 60));
    let mut overrides = origin();
    overrides.push(("ttl", "5s".to_owned()));
    assert_eq!(load(text, &overrides).unwrap().sites[0].policy.default_ttl.unwrap().as_secs(), 5);
}

#[test]
fn log_level_is_info_unless_a_flag_or_the_file_sets_it() {
    assert_eq!(load("", &origin()).unwrap().log_level, LogLevel::Info);
    assert_eq!(load("log_level = 'error'\n", &origin()).unwrap().log_level, LogLevel::Error);
    let overrides = [origin(), vec![("log_level", "debug".to_owned())]].concat();
    assert_eq!(load("log_level = 'error'\n", &overrides).unwrap().log_level, LogLevel::Debug);
    assert!(load("log_level = 'trace'\n", &origin()).unwrap_err().contains("error, warn, info, debug"));
}

#[test]
fn refill_is_set_by_table_or_flag() {
    let plan = load("[refill]\nenabled = true\nrate = 20\n", &origin()).unwrap();
    assert_eq!(plan.refill, super::RefillPlan { enabled: true, rate: 20, pages_max: 1000 });
    let plan = load("", &[origin(), vec![("refill.enabled", "true".to_owned())]].concat()).unwrap();
    assert!(plan.refill.enabled && !load("", &origin()).unwrap().refill.enabled);
    assert!(load("[refill]\nenabled = 'yes'\n", &origin()).is_err());
}

#[test]
fn auto_profile_applies_site_settings_to_every_candidate() {
    let site = load("ttl = '7s'\n", &origin()).unwrap().sites.remove(0);
    assert_eq!((&site.profile[..], &site.policy.name[..]), ("auto", "default"));
    let names: Vec<_> = site.recognisable.iter().map(|policy| &policy.name[..]).collect();
    assert!(names.contains(&"wordpress") && !names.contains(&"default") && !names.contains(&"rfc"));
    assert!(site.recognisable.iter().all(|policy| policy.default_ttl.unwrap().as_secs() == 7));
    let chosen = load("profile = 'wordpress'\n", &origin()).unwrap().sites.remove(0);
    assert!(chosen.recognisable.is_empty());
}

#[test]
fn static_tree_needs_names_and_takes_a_layout_per_site() {
    let text = "[static_tree]\ndirectory = '/srv/tree'\npages_max = 5\nlayout = 'boost'\n\
                [[site]]\nnames = ['a.test']\n[[site]]\nstatic_tree.layout = 'none'\n\
                [[site]]\nnames = ['b.test']\nstatic_tree.layout = 'typo3'\n";
    let plan = load(text, &origin()).unwrap();
    let tree = plan.static_tree.clone().unwrap();
    assert_eq!((tree.directory.to_str(), tree.pages_max, tree.bytes_max), (Some("/srv/tree"), 5, 1 << 30));
    let layouts: Vec<_> = plan.sites.iter().map(|site| site.static_tree_layout.as_deref()).collect();
    assert_eq!(layouts, [Some("boost"), None, Some("typo3")]);
    assert!(plan.explain().contains("static tree /srv/tree, 5 pages, 1GiB"), "{}", plan.explain());
    let fault = load("[static_tree]\ndirectory = '/srv/tree'\n", &origin()).unwrap_err();
    assert!(fault.contains("needs the `names` of the site") && fault.contains("none"), "{fault}");
    assert!(load("[static_tree]\nlayout = 'wp'\n", &origin()).unwrap_err().contains("wp-super-cache"));
    assert!(load("", &origin()).unwrap().static_tree.is_none());
}

#[test]
fn warming_is_set_by_table_and_site() {
    let warm = |text: &str| load(text, &origin()).unwrap().sites[0].warm.clone();
    assert_eq!(warm(""), None);
    let plain = warm("[warm]\nurl = 'http://127.0.0.1:8080/'\n").unwrap();
    assert_eq!(
        (plain.sitemaps, plain.rate, plain.on_start, plain.on_purge),
        (Some(Vec::new()), None, true, true)
    );
    let text = "[[site]]\nnames = ['*.b.test']\n[site.warm]\nurl = 'https://www.b.test/'\nsitemaps = []\n\
                urls = '/u'\nrate = 7\non = ['purge']\n";
    let own = warm(text).unwrap();
    assert_eq!((own.sitemaps, own.rate, own.on_start, own.on_purge), (None, Some(7), false, true));
    assert_eq!(own.urls.unwrap().to_str(), Some("/u"));
    let list = warm("[warm]\nurl = 'http://a/'\nsitemaps = ['/a.xml', 'http://a/feed']\n").unwrap();
    assert_eq!(list.sitemaps.unwrap().len(), 2);
    for (text, message) in [
        ("[warm]\nurl = 'a.test'\n", "begins neither"),
        ("[warm]\nrate = 5\n", "`warm.rate` has no effect without `warm.url`"),
        (
            "[[site]]\nnames = ['a.test']\n[site.warm]\nurl = 'http://b.test/'\n",
            "b.test is not among `names`",
        ),
        ("[warm]\nurl = 'http://a/'\nsitemaps = ['a.xml']\n", "a.xml"),
        ("[warm]\nurl = 'http://a/'\nrate = 0\n", "1 to 1000"),
        ("[warm]\nurl = 'http://a/'\non = ['never']\n", "start, purge"),
    ] {
        let fault = load(text, &origin()).unwrap_err();
        assert!(fault.contains(message) && fault.contains("petasos.toml:"), "{message}: {fault}");
    }
}

#[test]
fn compression_is_set_by_table_and_site() {
    let rules = |text: &str| load(text, &origin()).unwrap().sites[0].compression.clone();
    assert_eq!(rules(""), Some(CompressionRules::default()));
    assert_eq!(rules("compression.enabled = false"), None);
    assert_eq!(rules("profile = 'rfc'"), None);
    let text = "[compression]\ncodings = ['gzip', 'br']\ntypes = ['text/html']\nsize_min = '5KiB'\n\
                size_max = '1MiB'\nmisses = 'gzip'\n";
    let expected = CompressionRules {
        codings: vec![Coding::Gzip, Coding::Brotli],
        types: vec![Pattern::new("text/html")],
        bytes_min: 5 << 10,
        bytes_max: 1 << 20,
        misses: MissForm::Gzip,
    };
    assert_eq!(rules(text), Some(expected));
    let two = "[compression]\nmisses = 'gzip'\n[[site]]\nnames = ['a.test']\n[[site]]\nnames = ['b.test']\n\
               compression.enabled = false\n";
    let plan = load(two, &origin()).unwrap();
    let misses: Vec<_> =
        plan.sites.iter().map(|site| site.compression.as_ref().map(|rules| rules.misses)).collect();
    assert_eq!(misses, [Some(MissForm::Gzip), None]);
    for (text, fault) in [
        ("compression.size_max = '65MiB'", "`compression.size_max` is too large"),
        ("compression.size_min = '5MiB'", "is above `compression.size_max`"),
        ("compression.codings = ['deflate']", "deflate"),
        ("profile = 'rfc'\ncompression.misses = 'gzip'", "no effect with the profile `rfc`"),
        ("profile = 'rfc'\ncompression.size_min = '2KiB'", "no effect with the profile `rfc`"),
    ] {
        let message = load(text, &origin()).unwrap_err();
        assert!(message.contains(fault), "{message}");
    }
}

#[test]
fn client_address_leader_gives_a_warning() {
    let constant = load("", &origin()).unwrap();
    assert_eq!(constant.warnings, []);
    let nobody = ClientAddress::Constant("192.0.2.1".parse().unwrap());
    assert_eq!(constant.sites[0].policy.client_address, nobody);
    for text in ["client_address = 'leader'\n", "profile = 'mediawiki'\n", "profile = 'rfc'\n"] {
        let plan = load(text, &origin()).unwrap();
        assert_eq!(plan.sites[0].policy.client_address, ClientAddress::Leader);
        let warning = plan.warnings[0].to_string();
        assert!(warning.contains("says private") && warning.contains("petasos.toml:1"), "{warning}");
    }
    let routes = "[[site]]\nnames = ['a.test']\nprofile = 'mediawiki'\n\
                  [[site.route]]\npath = ['/b']\nttl = '1m'\n[[site.route]]\npath = ['/c']\nttl = '2m'\n";
    let plan = load(routes, &origin()).unwrap();
    assert_eq!((plan.sites.len(), plan.warnings.len()), (3, 1), "one place has one warning");
    let own = load("profile = 'mediawiki'\nclient_address = '198.51.100.7'\n", &origin()).unwrap();
    assert_eq!(own.sites[0].policy.client_address, ClientAddress::Constant("198.51.100.7".parse().unwrap()));
    assert!(load("client_address = '127.0.0.1'\n", &origin()).unwrap_err().contains("this machine"));
}

#[test]
fn wordpress_profile_sets_a_lifetime() {
    let mut overrides = origin();
    overrides.push(("profile", "wordpress".to_owned()));
    assert!(load("", &overrides).unwrap().sites[0].policy.default_ttl.is_some());
}

#[test]
fn error_page_is_read_and_bounded() {
    let site = |path: &str| {
        let plan = load(&format!("error_page = '{path}'\n"), &origin());
        plan.map(|plan| plan.sites[0].error_page.clone())
    };
    assert_eq!(site("./sorry.html").unwrap().as_deref(), Some("<p>{message}"));
    assert!(site("./none.html").unwrap_err().contains("cannot read the error page ./none.html"));
    assert!(site("./long.html").unwrap_err().contains("is larger than 65536 bytes"));
}

#[test]
fn profile_file_is_loaded_and_site_settings_win() {
    let site = |text: &str| load(text, &origin()).map(|mut plan| plan.sites.remove(0));
    let own = site("profile = './shop.toml'\n").unwrap();
    assert_eq!((&own.profile[..], &own.policy.name[..]), ("./shop.toml", "./shop.toml"));
    assert_eq!(own.policy.session_cookies, Policy::wordpress().session_cookies);
    let own = site("profile = './shop.toml'\nttl = '5s'\n").unwrap();
    assert_eq!(own.policy.default_ttl.unwrap().as_secs(), 5);
    let fault = site("\nprofile = './bad.toml'\n").unwrap_err();
    assert!(fault.contains("petasos.toml:2") && fault.contains("extend"), "{fault}");
    assert!(site("profile = './none.toml'\n").unwrap_err().contains("cannot read the profile ./none.toml"));
    assert!(site("profile = 'shop'\n").unwrap_err().contains("is not one of"));
}

#[test]
fn faults_are_shown_with_place_and_fix() {
    let text = "listne = 'x'\nworkers = 0\nlisten = 8080\n\n[limits]\nqueue_max = '5'\nqueue_timeout = '5'\n\
                [[site]]\nnames = ['a.test', 'b.test:80']\nworkers = 2\n";
    insta::assert_snapshot!(load(text, &Overrides::new()).unwrap_err());
}

#[test]
fn ports_of_a_site_are_numbers() {
    let text = "[[site]]\nnames = ['a.test']\nports = [8080, 8443]\n[[site]]\nports = []\n";
    let plan = load(text, &origin()).unwrap();
    assert_eq!(plan.sites.iter().map(|site| &site.ports[..]).collect::<Vec<_>>(), [&[8080, 8443][..], &[]]);
    for ports in ["8080", "['8080']", "[0]", "[65536]", "[-1]", "[80.5]"] {
        let problem = load(&format!("ports = {ports}"), &origin()).unwrap_err();
        assert!(problem.contains("`ports`") && problem.contains("port"), "{problem}");
    }
}

#[test]
fn settings_without_effect_are_errors() {
    let told = |text: &str| load(text, &origin()).err();
    for text in [
        "noise_fields = ['Origin']",
        "noise_fields = ['X-Own', 'authorization']",
        "forwarded_fields = ['Cookie']",
        "profile = 'rfc'\nstatic_paths = ['/static/*']",
        "profile = 'rfc'\nstripped_cookies = ['id']",
        "profile = 'rfc'\nstatic_files = true",
        "profile = 'rfc'\nstatic_ttl_max = '1m'",
        "host = 'a.test'\nports = [8080]",
    ] {
        let problem = told(text).unwrap();
        assert!(problem.contains("has no effect"), "{text}: {problem}");
    }
    for text in [
        "noise_fields = ['X-Own', 'DNT', 'HX-Current-URL']\nforwarded_fields = ['Traceparent']",
        "static_paths = ['/static/*']\nstripped_cookies = ['PHPSESSID']\nstatic_files = true",
        "profile = 'rfc'\nstatic_files = false",
    ] {
        assert_eq!(told(text), None, "{text}");
    }
}

#[test]
fn cookies_of_templates_need_esi() {
    let faults = [
        "\nesi_cookies = ['group']",
        "\nesi_cookies = ['group']\nesi = false",
        "[[site]]\nesi_cookies = ['group']\nnames = ['a.test']\n[[site]]\nnames = ['b.test']\nesi = true",
        "[[site]]\n[[site.route]]\npath = ['/a']\nesi_cookies = ['group']",
    ];
    for text in faults {
        let problem = load(text, &origin()).unwrap_err();
        let is_told = problem.contains("`esi_cookies` has no effect without `esi`")
            && problem.contains("write esi = true")
            && problem.contains("petasos.toml:");
        assert!(is_told, "{text}: {problem}");
    }
    let right = [
        "esi = true\nesi_cookies = ['group']",
        "esi_cookies = []",
        "esi_cookies = ['group']\n[[site]]\nnames = ['a.test']\nesi = true\n[[site]]\nnames = ['b.test']",
        "[[site]]\nesi_cookies = ['group']\n[[site.route]]\npath = ['/a']\nesi = true",
    ];
    for text in right {
        assert_eq!(load(text, &origin()).err(), None, "{text}");
    }
}

#[test]
fn settings_of_templates_need_esi() {
    for (key, text) in [
        ("esi_undeclared", "esi_undeclared = true"),
        ("esi_hosts", "esi_hosts = ['a.test']"),
        ("esi_lifetime", "esi_lifetime = 'shortest'"),
    ] {
        let site = |esi: &str| format!("[[site]]\nnames = ['a.test']\n{esi}\n{text}");
        let problem = load(&site(""), &origin()).unwrap_err();
        assert!(problem.contains(&format!("`{key}` has no effect without `esi`")), "{problem}");
        assert_eq!(load(&site("esi = true"), &origin()).err(), None, "{key}");
    }
    assert_eq!(load("esi_undeclared = false\nesi_lifetime = 'none'", &origin()).err(), None);
}

#[test]
fn fragments_come_from_sites_of_the_configuration() {
    let with = |host: &str| {
        format!(
            "[[site]]\nnames = ['a.test']\n[[site.route]]\npath = ['/x']\nesi = true\nesi_hosts = ['{host}']\n\
             [[site]]\nnames = ['b.test']\n[[site]]\nnames = ['*.c.test']\n[[site]]\nesi = true\n"
        )
    };
    for host in ["b.test", "B.Test.", "x.c.test"] {
        let plan = load(&with(host), &origin()).unwrap();
        let hosts = plan.sites.iter().map(|site| site.esi_hosts.len());
        assert_eq!(hosts.sum::<usize>(), 1, "{host}");
    }
    // The last site answers to any name, and would let a template reach it by any host.
    for host in ["d.test", "c.test", "*.c.test", "127.0.0.1"] {
        let problem = load(&with(host), &origin()).unwrap_err();
        let is_told = problem.contains("is no name of a site") && problem.contains("petasos.toml:6");
        assert!(is_told, "{host}: {problem}");
    }
}

#[test]
fn cookies_of_templates_that_pass_are_reported() {
    let warned = |text: &str| {
        let warnings = load(text, &origin()).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<String>()
    };
    for text in [
        "esi = true\nesi_cookies = ['other', 'group']\nnoise_cookies = ['other']",
        "[[site]]\nesi = true\nesi_cookies = ['group']\n[[site.route]]\npath = ['/a']\nttl = '5s'",
    ] {
        let warning = warned(text);
        let is_told = warning.contains("of `esi_cookies` pass")
            && warning.contains("write noise_cookies = [\"group")
            && warning.contains("petasos.toml:");
        assert!(is_told && warning.matches("warning").count() == 1, "{text}: {warning}");
    }
    let of_session = warned("esi = true\nesi_cookies = ['wordpress_logged_in_x']\nprofile = 'wordpress'");
    assert!(of_session.contains("it marks a session"), "{of_session}");
    for text in [
        "esi = true\nesi_cookies = ['group']\nnoise_cookies = ['g*']",
        "esi = true\nesi_cookies = ['group*']\nprofile = 'wordpress'",
        "esi = true\nesi_cookies = ['X-Magento-Vary']\nprofile = 'magento'",
        "esi = true\nesi_cookies = ['group']\nprofile = 'rfc'",
        "esi = true",
    ] {
        assert!(!warned(text).contains("`esi_cookies` pass"), "{text}");
    }
}

#[test]
fn cache_is_switched_off_for_a_site_or_a_route() {
    let plan =
        load("[[site]]\ncache = false\n[[site.route]]\npath = ['/a']\ncache = true", &origin()).unwrap();
    let of_route = plan.sites.iter().map(|site| (site.route.is_some(), site.policy.caches));
    assert_eq!(of_route.collect::<Vec<_>>(), [(true, true), (false, false)]);
    assert!(load("", &origin()).unwrap().sites[0].policy.caches);
}

#[test]
fn stated_lifetime_is_not_longer_in_browsers() {
    for (text, expected) in [
        ("", true),
        ("ttl = '5s'", false),
        ("ttl = '5s'\nbrowser_caching = true", true),
        ("browser_caching = false", false),
        ("profile = 'rfc'", false),
    ] {
        let plan = load(text, &origin()).unwrap();
        assert_eq!(plan.sites[0].policy.browser_caching, expected, "{text}");
    }
    assert!(
        load("profile = 'rfc'\nbrowser_caching = true", &origin()).unwrap_err().contains("has no effect")
    );
}

#[test]
fn clashes_and_missing_origins_are_shown() {
    let text = "[[site]]\nnames = ['a.test']\n[[site]]\nnames = ['A.test']\n[[site]]\n[[site]]\n";
    insta::assert_snapshot!(load(text, &Overrides::new()).unwrap_err());
    insta::assert_snapshot!(load(text, &vec![("listen", "nowhere:".to_owned())]).unwrap_err());
    insta::assert_snapshot!(load("a = [1,\nb", &Overrides::new()).unwrap_err());
    for header in ["", "[[site]]\n"] {
        let twice = load(&format!("{header}names = ['a.test', 'A.test']\n"), &origin()).unwrap_err();
        assert!(twice.contains("`names` lists `a.test` twice"), "{twice}");
    }
}

#[test]
fn the_plan_is_explained() {
    let text = "origin = 'http://127.0.0.1:9000'\n[[site]]\nnames = ['a.test']\nprofile = 'wordpress'\n[[site]]\n\
                [[site]]\nnames = ['b.test']\nprofile = 'flask'\n[[site]]\nnames = ['c.test']\nprofile = 'flask'\n\
                static_ttl_max = '0s'\n";
    insta::assert_snapshot!(load(text, &Overrides::new()).unwrap().explain());
}

#[test]
fn peers_are_prefixes_and_files() {
    let text = "trusted_proxies = ['10.0.0.0/8', '@./cdn.txt']\npurge_peers = ['::ffff:127.0.0.1']\n";
    let plan = load(text, &origin()).unwrap();
    let holds = |address: &str| plan.trusted_proxies.contains(address.parse().unwrap());
    assert!(holds("10.1.2.3") && holds("192.0.2.1") && !holds("192.0.3.1"));
    assert!(plan.purge_peers.contains("127.0.0.1".parse().unwrap()));
    let words = "trusted proxies 10.0.0.0/8, 192.0.2.0/24\npurge peers 127.0.0.1: a proxy there must";
    assert!(plan.explain().contains(words), "{}", plan.explain());
    for (text, words) in [
        ("trusted_proxies = ['@./none.txt']", "cannot read the list ./none.txt"),
        ("\ntrusted_proxies = ['10.0.0.1/8']", "petasos.toml:2:20"),
        ("purge_peers = ['10.0.0.1/8']", "write 10.0.0.0/8 for the network"),
        ("purge_peers = ['0.0.0.0/0']", "lets every visitor purge"),
        ("purge_peers = ['0.0.0.0/1', '128.0.0.0/1']", "lets every visitor purge"),
        ("purge_peers = ['::/0']", "set `token_file`"),
    ] {
        let fault = load(text, &origin()).unwrap_err();
        assert!(fault.contains(words), "{text}: {fault}");
    }
}

#[test]
fn admin_address_has_tls_by_a_certificate() {
    let text = "admin_certificate = '/c.pem,/k.pem'\nadmin_client_ca = '/a.pem'\n";
    let plan = load(text, &origin()).unwrap();
    let tls = plan.admin_tls.as_ref().unwrap();
    assert_eq!(tls.client_authorities.as_deref(), Some(std::path::Path::new("/a.pem")));
    let words =
        "admin 127.0.0.1:8081 with TLS from 1.3 on with /c.pem,/k.pem for clients certified by /a.pem, ";
    assert!(plan.explain().contains(words), "{}", plan.explain());
    let fault = load("\nadmin_client_ca = '/a.pem'", &origin()).unwrap_err();
    assert!(fault.contains("petasos.toml:2") && fault.contains("write admin_certificate"), "{fault}");
}

#[test]
fn flags_take_lists_and_the_token() {
    let flags = |more: &[(&'static str, &str)]| {
        let more = more.iter().map(|(key, text)| (*key, (*text).to_owned()));
        load("", &origin().into_iter().chain(more).collect())
    };
    let plan = flags(&[("purge_peers", "10.0.0.0/8,127.0.0.1"), ("token_file", "/t")]).unwrap();
    assert_eq!(plan.purge_peers.iter().count(), 2);
    assert!(!plan.create_token && plan.token_file.is_some());
    assert!(flags(&[("purge_peers", "10.0.0.0/8,")]).unwrap_err().contains("--purge-peers"));
    assert!(flags(&[("token_file", "/t"), ("create_token", "true")]).unwrap().create_token);
    assert!(flags(&[("create_token", "true")]).unwrap_err().contains("--token-file FILE"));
}

#[test]
fn every_global_default_resolves() {
    let missing: Vec<_> = SETTINGS
        .iter()
        .filter(|setting| setting.scope == SettingScope::Global && setting.default.is_none())
        .map(|setting| setting.key)
        .collect();
    assert_eq!(
        missing,
        [
            "admin_certificate",
            "admin_client_ca",
            "reports_directory",
            "workers",
            "memory",
            "disk",
            "state_directory",
            "runtime_directory",
            "spool_directory",
            "acme_contact",
            "acme_eab_file",
            "acme_ca_file",
            "include",
            "trusted_proxies",
            "purge_peers",
            "token_file",
            "access_log",
            "access_log_where",
            "trace_export",
            "guard.deny",
            "guard.allow",
            "static_tree.directory"
        ]
    );
}
