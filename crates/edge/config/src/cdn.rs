//! The addresses from which content delivery networks (CDNs) fetch pages, by the name of the
//! network.
//!
//! A network changes its list a few times in ten years. An operator who does not want to wait for
//! the next version of Petasos writes the current list into a file and names that instead.

use address::Prefix;

/// A network with its list of addresses.
#[derive(Debug, PartialEq, Eq)]
pub struct Cdn {
    /// The name in the configuration.
    pub name: &'static str,
    /// The month for which the list was compared with the published one, as `YYYY-MM`.
    pub month: &'static str,
    /// The page on which the network publishes its list.
    pub page: &'static str,
    prefixes: &'static str,
}

/// All networks. Those with thousands of addresses that change each week, such as bunny.net and
/// Amazon CloudFront, are not among them.
pub const CDNS: &[Cdn] = &[
    Cdn {
        name: "cloudflare",
        month: "2026-11",
        page: "https://www.cloudflare.com/ips/",
        prefixes: "103.21.244.0/22 103.22.200.0/22 103.31.4.0/22 104.16.0.0/13 104.24.0.0/14 \
                   108.162.192.0/18 131.0.72.0/22 141.101.64.0/18 162.158.0.0/15 172.64.0.0/13 \
                   173.245.48.0/20 188.114.96.0/20 190.93.240.0/20 197.234.240.0/22 198.41.128.0/17 \
                   2400:cb00::/32 2405:8100::/32 2405:b500::/32 2606:4700::/32 2803:f800::/32 \
                   2a06:98c0::/29 2c0f:f248::/32",
    },
    Cdn {
        name: "fastly",
        month: "2026-11",
        page: "https://api.fastly.com/public-ip-list",
        prefixes: "23.235.32.0/20 43.249.72.0/22 103.244.50.0/24 103.245.222.0/23 103.245.224.0/24 \
                   104.156.80.0/20 140.248.64.0/18 140.248.128.0/17 146.75.0.0/17 151.101.0.0/16 \
                   157.52.64.0/18 167.82.0.0/17 167.82.128.0/20 167.82.160.0/20 167.82.224.0/20 \
                   172.111.64.0/18 185.31.16.0/22 199.27.72.0/21 199.232.0.0/16 2a04:4e40::/32 \
                   2a04:4e42::/32",
    },
];

impl Cdn {
    /// The network with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        CDNS.iter().find(|cdn| cdn.name == name)
    }

    /// The addresses of the network.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.prefixes.split(' ').filter_map(|text| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::{CDNS, Cdn};
    use address::{Prefix, Prefixes};

    #[test]
    fn every_prefix_of_a_list_counts_and_none_overlap() {
        for cdn in CDNS {
            let texts: Vec<&str> = cdn.prefixes.split(' ').collect();
            let read: Vec<String> = cdn.prefixes().map(|prefix| prefix.to_string()).collect();
            assert_eq!(read, texts, "{}", cdn.name);
            let sets: Vec<Prefixes> = cdn.prefixes().map(|prefix| [prefix].into_iter().collect()).collect();
            for prefix in cdn.prefixes() {
                let address: Prefix = prefix;
                let first = address.to_string().split('/').next().and_then(|text| text.parse().ok());
                let holding = sets.iter().filter(|set| set.contains(first.unwrap())).count();
                assert_eq!(holding, 1, "{}: {prefix}", cdn.name);
            }
        }
    }

    #[test]
    fn names_are_exact() {
        assert_eq!(Cdn::named("cloudflare").map(|cdn| cdn.prefixes().count()), Some(22));
        assert_eq!(Cdn::named("Cloudflare"), None);
    }
}
